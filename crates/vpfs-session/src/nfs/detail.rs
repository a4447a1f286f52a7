//! What an operation of NFS is, beyond what every protocol knows of one.

use vpfs_core::{FileKey, FilePosition};
use vpfs_wire::nfs::Protection;

use super::Messages;
use crate::shared::{OP_BYTES, Op};

/// What is remembered of a call.
#[derive(Debug)]
pub(super) struct Detail {
    /// What its reply reveals.
    pub(super) answer: Answer,
    /// How its results are protected.
    pub(super) protection: Protection,
    pub(super) content: Content,
}

/// What a reply reveals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A status, or what is not understood.
    Plain,
    /// How much was read, and the file's size.
    Read(FileKey),
    /// The file's size.
    Write(FileKey),
    /// Entries of a directory.
    List { is_plus: bool },
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
