//! Hashes that are the same on every machine and in every version, for values on which servers must agree without a
//! message.

/// One step of `SplitMix64`: equal inputs give equal outputs, similar inputs give unrelated ones.
pub const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number for an application's name: the same at every server, and almost certainly different for another name.
/// O(length).
pub fn stable_hash(name: &str) -> u64 {
    name.bytes().fold(mix(name.len() as u64), |hash, byte| mix(hash ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Daemons of different versions must agree, so these numbers never change.
    #[test]
    fn hashes_are_fixed() {
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!([stable_hash(""), stable_hash("climate")], [mix(0), stable_hash("climate")]);
        assert_ne!(stable_hash("climate"), stable_hash("climatf"));
    }
}
