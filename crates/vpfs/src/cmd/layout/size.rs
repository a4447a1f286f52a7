//! Sizes as arguments, and as people read them.

use vpfs_config::units::parse_size;
use vpfs_core::Bytes;

const UNITS: [(&str, u32); 5] = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// An argument.
pub(super) fn some_size(text: &str) -> Result<Bytes, String> {
    match parse_size(text) {
        Ok(size) if (1..=1 << 30).contains(&size.0) => Ok(size),
        Ok(_) => Err("give a size from 1B to 1GiB".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// In the largest unit that fits: `16 MiB` where that is exact, and `120.5 GiB` to one decimal otherwise.
pub(super) fn size(bytes: u64) -> String {
    let Some((unit, bits)) = UNITS.into_iter().find(|(_, bits)| bytes >= 1 << bits) else {
        return format!("{bytes} B");
    };
    match bytes.is_multiple_of(1 << bits) {
        true => format!("{} {unit}", bytes >> bits),
        false => format!("{:.1} {unit}", bytes as f64 / (1_u64 << bits) as f64),
    }
}

/// A size that is set as it is printed, in the largest unit that makes it whole: `1152 KiB`.
pub(super) fn exact(bytes: u64) -> String {
    let whole = UNITS.into_iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits));
    whole.map_or_else(|| format!("{bytes} B"), |(unit, bits)| format!("{} {unit}", bytes >> bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_stripes_exact() {
        for (bytes, expected) in [
            (0, "0 B"),
            (2104, "2.1 KiB"),
            (36 << 10, "36 KiB"),
            (1152 << 10, "1.1 MiB"),
            (16 << 20, "16 MiB"),
            (142_344, "139.0 KiB"),
            (120 << 30, "120 GiB"),
            ((120 << 30) + 5, "120.0 GiB"),
            (65_842_315, "62.8 MiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
        let stripes = [0, 1000, 36 << 10, 1152 << 10, 16 << 20, 3 << 30].map(exact);
        assert_eq!(stripes, ["0 B", "1000 B", "36 KiB", "1152 KiB", "16 MiB", "3 GiB"]);
    }
}
