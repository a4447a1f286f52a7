//! What an operation of NFS is, beyond what every protocol knows of one.

use vpfs_core::FilePosition;

use crate::wire::nfs::Protection;

use super::Messages;
use crate::session::shared::{OP_BYTES, Op};

/// What is remembered of a call.
#[derive(Debug)]
pub(super) struct Detail {
    /// What its reply reveals.
    pub(super) answer: Answer,
    /// How its results are protected.
    pub(super) protection: Protection,
    pub(super) content: Content,
    /// Where its record says that a WRITE may be stored later; `None` also where that can't be changed.
    pub(super) unstable_at: Option<u16>,
}

/// What a reply reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A status.
    Plain,
    /// What cannot be read counts by its length.
    Opaque,
    /// Only that what was asked for was done, which is charged as it was asked for.
    Uncounted,
    /// How much was read, and the file's size.
    Read,
    /// The file's size.
    Write,
    /// Entries of a directory.
    List { is_plus: bool },
    /// Whether what was written is stored, by NFSv4.
    CompoundWrite,
    /// How much was read, by NFSv4.
    CompoundRead,
    /// Entries of a directory, by NFSv4.
    CompoundList,
}

impl Answer {
    /// Whether the whole reply is of interest.
    pub(super) fn is_listing(self) -> bool {
        matches!(self, Self::List { .. } | Self::CompoundList)
    }
}

/// By which a call that a client sends again is recognised, as its transaction number may be one that is used again by
/// mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) program: u32,
    pub(super) procedure: u32,
    /// Bytes of the record.
    pub(super) len: usize,
    pub(super) position: Option<FilePosition>,
}

const _: () = assert!(size_of::<Op<Messages>>() <= OP_BYTES / 2, "half of it is for the other tables");
