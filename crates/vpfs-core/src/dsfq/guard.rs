//! The starvation guard (hybrid DSFQ): limits how far service elsewhere delays one request.

use crate::settings::Sharing;
use crate::units::Bytes;

/// With a minimum local share s, the delay before a request of cost c is at most c · (1/s − 1). So a flow's tags move
/// by at most c/(φ·s) from one request to the next, as if its weight here were φ·s and it got nothing elsewhere.
///
/// Virtual time advances n times as fast for applications that use n servers equally, so the configured share is
/// divided by n; otherwise the limit would cut the cost that ordinary requests reveal by their layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    min_share_ppm: u32,
    /// n million.
    whole_ppm: u64,
}

impl Guard {
    pub(super) fn new(sharing: &Sharing) -> Self {
        let whole_ppm = 1_000_000 * u64::from(sharing.servers.max(1));
        Self { min_share_ppm: sharing.min_local_share_ppm.min(1_000_000), whole_ppm }
    }

    /// The largest delay before a request of `cost`.
    pub(super) fn room(self, cost: Bytes) -> Bytes {
        let share = u128::from(self.min_share_ppm);
        let room = (u128::from(cost.0) * (u128::from(self.whole_ppm) - share)).checked_div(share);
        Bytes(room.map_or(u64::MAX, |room| u64::try_from(room).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_the_minimum_share() {
        let room = |ppm| Guard::new(&Sharing { min_local_share_ppm: ppm, ..Sharing::default() }).room(Bytes(700));
        assert_eq!(room(10_000), Bytes(99 * 700));
        assert_eq!(room(500_000), Bytes(700));
        assert_eq!(room(1_000_000), Bytes::ZERO);
        assert_eq!(room(2_000_000), Bytes::ZERO);
        assert_eq!(room(0), Bytes(u64::MAX), "no guard");
        let hundred = Sharing { min_local_share_ppm: 1_000_000, servers: 100, ..Sharing::default() };
        assert_eq!(Guard::new(&hundred).room(Bytes(700)), Bytes(99 * 700), "as the layout over all servers reveals");
    }
}
