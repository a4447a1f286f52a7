//! Classes of requests that cost about the same for each byte, or for each object.

use crate::request::{OpKind, Request};
use crate::units::{Bytes, Objects};

/// Sizes up to 4 KiB, 8 KiB, ... 8 MiB, and one class for all larger sizes; or one object, 2, 4, ... 2048, and more.
pub(super) const SIZES: usize = 13;
const SMALLEST_LOG2: u32 = 12;
/// Reads, writes, and metadata.
pub(super) const CLASSES: usize = 3 * SIZES;

/// What the class of a request goes by, its *extent*: the size of data, and the number of objects of metadata. To list
/// many names takes a server a fortieth of what it takes to create as many (Ganesha; docs/decisions/0003-isolation.md).
pub(super) fn extent(op: OpKind, size: Bytes, objects: Objects) -> Bytes {
    if op == OpKind::Metadata { Bytes(objects.get().into()) } else { size }
}

/// Requests of one operation whose extents differ by less than a factor of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(pub(super) usize);

impl Class {
    pub(super) fn of(op: OpKind, extent: Bytes) -> Self {
        let log2 = extent.0.clamp(1, 1 << 62).next_power_of_two().ilog2();
        let of_data = (log2.saturating_sub(SMALLEST_LOG2) as usize).min(SIZES - 1);
        match op {
            OpKind::Read => Self(of_data),
            OpKind::Write => Self(SIZES + of_data),
            OpKind::Metadata => Self(2 * SIZES + (log2 as usize).min(SIZES - 1)),
        }
    }

    pub(super) fn of_request(&Request { op, cost, objects, .. }: &Request) -> Self {
        Self::of(op, extent(op, cost, objects))
    }

    /// The nominal size of a class of reads or writes: its largest size, or 16 MiB for the last class.
    pub(super) fn data_size(self) -> Option<Bytes> {
        (self.0 < 2 * SIZES).then(|| Bytes(1 << (SMALLEST_LOG2 as usize + self.0 % SIZES)))
    }

    /// Its operation, and the extent of a usual request.
    pub(super) fn usual(self) -> (OpKind, Bytes) {
        match (self.data_size(), self.0 < SIZES) {
            (Some(size), true) => (OpKind::Read, size),
            (Some(size), false) => (OpKind::Write, size),
            (None, _) => (OpKind::Metadata, Bytes(1 << (self.0 - 2 * SIZES))),
        }
    }

    /// The classes of the same operation, nearest first.
    pub(super) fn neighbours(self) -> impl Iterator<Item = usize> {
        let first = self.0 / SIZES * SIZES;
        let pairs = (0..SIZES).map(move |distance| (self.0.checked_sub(distance), self.0 + distance));
        pairs
            .flat_map(|(below, above)| [below, Some(above)])
            .flatten()
            .filter(move |class| (first..first + SIZES).contains(class))
    }
}
