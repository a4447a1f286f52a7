//! The 99th percentile of times, in a fixed amount of memory.
//!
//! A histogram with logarithmic classes (like the crate `hdrhistogram`, which needs `std` and floating point): sixteen
//! for each power of two. A result is at most 1/16 (6.25 %) or 256 ns too large, and never too small; times above five
//! hours count as five hours.

use alloc::boxed::Box;

/// Leading bits of a time, after the first one, that select its class.
const BITS: u32 = 4;
/// Width of the first classes, as a power of two of nanoseconds.
const UNIT: u32 = 8;
const CLASSES: usize = 560;

#[derive(Debug)]
pub(super) struct Times {
    counts: Box<[u32; CLASSES]>,
    total: u32,
}

impl Times {
    pub(super) fn new() -> Self {
        Self { counts: Box::new([0; CLASSES]), total: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total == 0
    }

    pub(super) fn clear(&mut self) {
        if self.total > 0 {
            self.counts.fill(0);
            self.total = 0;
        }
    }

    pub(super) fn add(&mut self, nanos: u64) {
        let class = class_of(nanos).min(CLASSES - 1);
        self.counts[class] = self.counts[class].saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// The smallest time, rounded up, that 99 of 100 do not exceed; `None` if there are none. O(1).
    pub(super) fn percentile_99(&self) -> Option<u64> {
        let wanted = (u64::from(self.total) * 99).div_ceil(100);
        let mut below = 0;
        let reached = |&count: &u32| {
            below += u64::from(count);
            below >= wanted
        };
        (self.total > 0).then(|| self.counts.iter().position(reached).map_or(u64::MAX, end_of))
    }
}

/// The class of a time; a class is at most a sixteenth of its times wide.
fn class_of(nanos: u64) -> usize {
    let units = nanos >> UNIT;
    let shift = (u64::BITS - units.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (units >> shift) as usize
}

/// The last nanosecond of a class.
fn end_of(class: usize) -> u64 {
    let shift = (class >> BITS).saturating_sub(1);
    let units = class - (shift << BITS);
    (((units as u64 + 1) << shift) << UNIT) - 1
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::testing::Random;

    #[test]
    fn a_class_ends_where_the_next_begins() {
        for class in 0..CLASSES - 1 {
            let end = end_of(class);
            assert_eq!((class_of(end), class_of(end + 1)), (class, class + 1));
        }
        assert!(end_of(CLASSES - 1) > 5 * 3600 * 1_000_000_000);
    }

    #[test]
    fn the_error_is_as_stated() {
        let mut random = Random::new(3);
        for length in [1, 2, 19, 20, 21, 100, 1000] {
            let mut all: Vec<u64> = (0..length).map(|_| random.bits() >> (22 + random.below(40))).collect();
            let mut times = Times::new();
            all.iter().for_each(|&nanos| times.add(nanos));
            all.sort_unstable();
            let exact = all[(all.len() * 99).div_ceil(100) - 1];
            let ours = times.percentile_99().unwrap();
            assert!(exact <= ours && ours <= exact + (exact / 16).max(256), "{exact} {ours}");
            times.clear();
            assert!(times.is_empty() && times.percentile_99().is_none());
        }
    }
}
