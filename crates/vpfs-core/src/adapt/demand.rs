//! How long the storage works on one request, by operation and size class.

use crate::request::OpKind;
use crate::units::Bytes;

/// Requests of one operation whose sizes differ by less than a factor of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(usize);

impl Class {
    /// The largest size of the first class, as a power of two: 4 KiB.
    const FIRST_LOG2: u32 = 12;
    /// Up to 4 KiB, 8 KiB, ... 2 MiB, and everything larger.
    pub(super) const SIZES: usize = 11;
    /// Reads, writes, and one class for metadata.
    const COUNT: usize = 2 * Self::SIZES + 1;

    pub(super) fn of(op: OpKind, size: Bytes) -> Self {
        let log2 = size.0.clamp(1, 1 << 62).next_power_of_two().ilog2();
        let size = (log2.saturating_sub(Self::FIRST_LOG2) as usize).min(Self::SIZES - 1);
        match op {
            OpKind::Read => Self(size),
            OpKind::Write => Self(Self::SIZES + size),
            OpKind::Metadata => Self(2 * Self::SIZES),
        }
    }

    /// The largest size of class `index` of an operation; the last class has no upper limit.
    pub(super) fn largest(index: usize) -> Bytes {
        Bytes(1 << (Self::FIRST_LOG2 as usize + index))
    }
}

/// A running mean in which the last [`Mean::MEMORY`] samples weigh most.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    samples: u64,
    /// In 2⁻⁸ ns.
    scaled: u64,
    /// The fraction of samples below a quarter of the mean, in 2⁻¹⁶.
    short: u64,
}

impl Mean {
    const MEMORY: u64 = 128;
    /// A mean of fewer samples is not used.
    const ENOUGH: u64 = 16;
    /// A longer time is a stall of the storage, not work on one request; it is cut to this multiple of the mean.
    const STALL: u64 = 8;
    /// Keeps sums of squares of many samples within 128 bits: 68 seconds.
    const NANOS_MAX: u64 = 1 << 36;

    fn add(&mut self, nanos: u64) {
        let scaled = nanos.min(Self::NANOS_MAX) << 8;
        let known = self.samples >= Self::ENOUGH;
        let limit = if known { (self.scaled * Self::STALL).max(1 << 8) } else { u64::MAX };
        let short = if scaled < self.scaled / 4 { 1 << 16 } else { 0 };
        self.samples = (self.samples + 1).min(Self::MEMORY);
        approach(&mut self.scaled, scaled.min(limit), self.samples);
        approach(&mut self.short, short, self.samples);
    }
}

/// Moves `value` towards `target` by one part in `parts`.
fn approach(value: &mut u64, target: u64, parts: u64) {
    if target >= *value {
        *value += (target - *value) / parts;
    } else {
        *value -= (*value - target) / parts;
    }
}

/// The mean time from one completion to the next while the storage is busy, by the class of the later one.
///
/// The times of all completions add up to the time that passed, so this divides the storage's time among the requests.
/// If the storage serves requests one after another, each is assigned exactly the time that it took.
#[derive(Clone, Debug)]
pub(super) struct Demand([Mean; Class::COUNT]);

impl Demand {
    pub(super) fn new() -> Self {
        Self([Mean::default(); Class::COUNT])
    }

    pub(super) fn add(&mut self, class: Class, nanos: u64) {
        self.0[class.0].add(nanos);
    }

    /// In nanoseconds, at least 1; `None` if there are too few samples.
    pub(super) fn get(&self, class: Class) -> Option<u64> {
        let mean = self.0[class.0];
        (mean.samples >= Mean::ENOUGH).then_some((mean.scaled >> 8).max(1))
    }

    /// The same, but only if the storage serves these requests one after another. Requests that are served in parallel
    /// can complete right after one another, so the time between completions is not the time that one takes. `None` if
    /// more than one in 20 completed after less than a quarter of the mean.
    pub(super) fn get_serial(&self, class: Class) -> Option<u64> {
        let mean = self.0[class.0];
        self.get(class).filter(|_| mean.samples >= 4 * Mean::ENOUGH && mean.short * 20 <= 1 << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_end_at_powers_of_two() {
        let class = |size| Class::of(OpKind::Read, Bytes(size)).0;
        assert_eq!(
            [0, 1, 4096, 4097, 8192, 8193, 1 << 21, (1 << 21) + 1, u64::MAX].map(class),
            [0, 0, 0, 1, 1, 2, 9, 10, 10]
        );
        assert_eq!(Class::of(OpKind::Write, Bytes(4096)).0, Class::SIZES);
        assert_eq!(Class::of(OpKind::Read, Class::largest(7)).0, 7);
    }

    #[test]
    fn a_mean_follows_and_a_stall_does_not_spoil_it() {
        let class = Class::of(OpKind::Write, Bytes::kib(64));
        let mut demand = Demand::new();
        for _ in 0..64 {
            assert_eq!(demand.get_serial(class), None);
            demand.add(class, 1000);
        }
        demand.add(class, u64::MAX);
        assert!((1000..1200).contains(&demand.get_serial(class).unwrap()));
        for _ in 0..1000 {
            demand.add(class, 4000);
        }
        assert!((3900..=4000).contains(&demand.get(class).unwrap()));
    }

    #[test]
    fn overlap_is_recognised() {
        let class = Class::of(OpKind::Write, Bytes::kib(64));
        let mut demand = Demand::new();
        for n in 0..200 {
            demand.add(class, if n % 4 == 0 { 10 } else { 1000 });
        }
        assert!(demand.get(class).is_some());
        assert_eq!(demand.get_serial(class), None);
    }
}
