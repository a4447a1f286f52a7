//! How much a disk may have ahead of a new write.

use vpfs_core::Bytes;

/// The part of a second that a disk takes at most to store what is ahead of a new write: 1/8.
const PART: u64 = 8;
/// What a disk may hold of which nothing is known yet, or only that it had little to do.
const LEAST: u64 = 1 << 20;
/// Seconds of storing that are remembered. One in which small writes keep a disk busy says little of its speed.
const SECONDS: usize = 16;

/// What a disk stores in an eighth of a second, by the best of the last 16 seconds in which it stored anything.
///
/// Neither a disk that becomes faster nor one whose load was light keeps it too low: with a bound that is too low, more
/// is still stored than the bound was made for, so it rises each second until the disk is the limit.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// Bytes of each such second, the newest last.
    stored: Vec<u64>,
}

impl Bound {
    /// A second has passed, in which the disk stored `bytes`.
    pub(super) fn observe(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.stored.len() == SECONDS {
            self.stored.remove(0);
        }
        self.stored.push(bytes);
    }

    /// What it may hold.
    pub(super) fn limit(&self) -> Bytes {
        let best = self.stored.iter().max().copied().unwrap_or(0);
        Bytes((best / PART).max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a disk of this speed stores in a second of saturation with this limit: all that it can if the limit lasts
    /// for 20 ms, which is how often the kernel looks.
    fn stored(speed: u64, limit: Bytes) -> u64 {
        speed.min(limit.0 * 50)
    }

    fn saturated(bound: &mut Bound, speed: u64, seconds: usize) {
        for _ in 0..seconds {
            bound.observe(stored(speed, bound.limit()));
        }
    }

    #[test]
    fn a_disk_holds_what_it_stores_in_an_eighth_of_a_second() {
        for speed in [15_000_000, 60_000_000, 3_000_000_000] {
            let mut bound = Bound::default();
            saturated(&mut bound, speed, 4);
            assert_eq!(bound.limit().0, (speed / 8).max(1 << 20));
        }
    }

    #[test]
    fn small_or_no_writes_leave_what_is_known_for_a_while() {
        let mut bound = Bound::default();
        saturated(&mut bound, 60_000_000, 2);
        (0..1000).for_each(|_| bound.observe(0));
        (0..15).for_each(|_| bound.observe(2_000_000));
        assert_eq!(bound.limit().0, 7_500_000);
    }

    #[test]
    fn a_disk_that_changes_is_followed() {
        let mut bound = Bound::default();
        saturated(&mut bound, 60_000_000, 5);
        saturated(&mut bound, 240_000_000, 2);
        assert_eq!(bound.limit().0, 30_000_000, "up within two seconds");
        saturated(&mut bound, 60_000_000, 16);
        assert_eq!(bound.limit().0, 7_500_000);
        (0..16).for_each(|_| bound.observe(1000));
        assert_eq!(bound.limit().0, 1 << 20);
        saturated(&mut bound, 3_000_000_000, 4);
        assert_eq!(bound.limit().0, 375_000_000, "up from the least");
    }
}
