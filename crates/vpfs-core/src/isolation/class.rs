//! Classes of requests that cost about the same for each byte.

use crate::request::OpKind;
use crate::units::Bytes;

/// Sizes up to 4 KiB, 8 KiB, ... 8 MiB, and one class for all larger sizes.
pub(super) const SIZES: usize = 13;
const SMALLEST_LOG2: u32 = 12;
/// Reads, writes, and one class for metadata.
pub(super) const CLASSES: usize = 2 * SIZES + 1;

/// Requests of one operation whose sizes differ by less than a factor of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) usize);

impl Class {
    pub(super) fn of(op: OpKind, size: Bytes) -> Self {
        let log2 = size.0.clamp(1, 1 << 62).next_power_of_two().ilog2();
        let size = (log2.saturating_sub(SMALLEST_LOG2) as usize).min(SIZES - 1);
        match op {
            OpKind::Read => Self(size),
            OpKind::Write => Self(SIZES + size),
            OpKind::Metadata => Self(2 * SIZES),
        }
    }

    /// The nominal size of a class of reads or writes: its largest size, or 16 MiB for the last class.
    pub(super) fn data_size(self) -> Option<Bytes> {
        (self.0 < 2 * SIZES).then(|| Bytes(1 << (SMALLEST_LOG2 as usize + self.0 % SIZES)))
    }

    /// Its operation, and the size of a usual request.
    pub(super) fn usual(self) -> (OpKind, Bytes) {
        match (self.data_size(), self.0 < SIZES) {
            (Some(size), true) => (OpKind::Read, size),
            (Some(size), false) => (OpKind::Write, size),
            (None, _) => (OpKind::Metadata, Bytes::ZERO),
        }
    }

    /// The classes of the same operation, nearest first.
    pub(super) fn neighbours(self) -> impl Iterator<Item = usize> {
        let first = if self.0 < 2 * SIZES { self.0 / SIZES * SIZES } else { self.0 };
        let last = if self.0 < 2 * SIZES { first + SIZES - 1 } else { self.0 };
        let pairs = (0..SIZES).map(move |distance| (self.0.checked_sub(distance), self.0 + distance));
        pairs
            .flat_map(|(below, above)| [below, Some(above)])
            .flatten()
            .filter(move |class| (first..=last).contains(class))
    }
}
