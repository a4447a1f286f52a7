//! What model clients do, stated in the tags of their operations.

use vpfs_wire::bmi::Tag;

/// Kinds of operations, stated in their tags, so that servers need not decode requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Metadata,
    Write,
    Read,
    SmallWrite,
}

const KINDS: [Kind; 4] = [Kind::Metadata, Kind::Write, Kind::Read, Kind::SmallWrite];

pub(crate) fn tag(number: u64, kind: usize, kib: u64) -> Tag {
    Tag(number << 16 | (kind as u64) << 14 | kib)
}

pub(crate) fn meaning(tag: Tag) -> (Kind, usize) {
    (KINDS[usize::try_from(tag.0 >> 14 & 3).unwrap()], usize::try_from(tag.0 & 0x3fff).unwrap() << 10)
}
