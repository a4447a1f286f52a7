//! How much a disk may have ahead of a new write (docs/decisions/0004-write-back.md).

use alloc::vec::Vec;

use crate::Bytes;

/// The part of a second that a disk takes at most to store what is ahead of a new write: 1/8.
const PART: u64 = 8;
/// What a disk may hold of which nothing is known yet, or only that it had little to do.
const LEAST: u64 = 1 << 20;
/// Seconds of storing that are remembered. One in which small writes keep a disk busy says little of its speed.
const SECONDS: usize = 16;

/// What a disk stores in an eighth of a second, by the best of the last 16 seconds in which it stored anything.
///
/// Neither a disk that becomes faster nor one whose load was light keeps it too low: with a limit that is too low, more
/// is still stored than the limit was made for, so it rises each second until the disk is the limit.
#[derive(Debug, Default)]
pub struct UnstoredLimit {
    /// Bytes of each such second, the newest last.
    stored: Vec<u64>,
}

impl UnstoredLimit {
    /// A second has passed, in which the disk stored `bytes`.
    pub fn observe(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if self.stored.len() == SECONDS {
            self.stored.remove(0);
        }
        self.stored.push(bytes);
    }

    /// What it may hold, at least 1 MiB.
    pub fn get(&self) -> Bytes {
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

    fn saturated(limit: &mut UnstoredLimit, speed: u64, seconds: usize) {
        for _ in 0..seconds {
            limit.observe(stored(speed, limit.get()));
        }
    }

    #[test]
    fn a_disk_holds_what_it_stores_in_an_eighth_of_a_second() {
        for speed in [15_000_000, 60_000_000, 3_000_000_000] {
            let mut limit = UnstoredLimit::default();
            saturated(&mut limit, speed, 4);
            assert_eq!(limit.get().0, (speed / 8).max(1 << 20));
        }
    }

    #[test]
    fn small_or_no_writes_leave_what_is_known_for_a_while() {
        let mut limit = UnstoredLimit::default();
        saturated(&mut limit, 60_000_000, 2);
        (0..1000).for_each(|_| limit.observe(0));
        (0..15).for_each(|_| limit.observe(2_000_000));
        assert_eq!(limit.get().0, 7_500_000);
    }

    #[test]
    fn a_disk_that_changes_is_followed() {
        let mut limit = UnstoredLimit::default();
        saturated(&mut limit, 60_000_000, 5);
        saturated(&mut limit, 240_000_000, 2);
        assert_eq!(limit.get().0, 30_000_000, "up within two seconds");
        saturated(&mut limit, 60_000_000, 16);
        assert_eq!(limit.get().0, 7_500_000);
        (0..16).for_each(|_| limit.observe(1000));
        assert_eq!(limit.get().0, 1 << 20);
        saturated(&mut limit, 3_000_000_000, 4);
        assert_eq!(limit.get().0, 375_000_000, "up from the least");
    }
}
