//! What an operation of OrangeFS is, beyond what every protocol knows of one.

use crate::wire::pvfs2::{Handle, Transfer};

use super::Messages;
use crate::session::shared::{OP_BYTES, Op};

/// The form of the reply.
#[derive(Debug)]
pub(super) enum Detail {
    /// One reply ends it.
    Plain,
    /// One reply ends it and states how many entries it lists.
    Listing,
    /// One reply ends it and is rewritten.
    Config,
    /// One reply ends it and states how much was read.
    SmallRead { handle: Handle },
    /// One reply ends it; the request carries `bytes` of data.
    SmallWrite { bytes: u64 },
    /// An acknowledgement, then data from the server.
    Read { handle: Handle, transfer: Box<Transfer> },
    /// An acknowledgement, `expected` bytes of data from the client, then a second reply.
    Write { expected: u64 },
    /// Like a read, but counting the bytes after the acknowledgement takes too long: treated as complete there.
    UncountedRead,
}

const _: () = assert!(size_of::<Op<Messages>>() <= OP_BYTES / 2, "half of it is for the other tables");

impl Detail {
    /// Bytes of memory that it takes up besides itself.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Read { transfer, .. } => transfer.memory(),
            _ => 0,
        }
    }

    /// Data bytes in the request itself.
    pub(super) fn carried(&self) -> u64 {
        if let Self::SmallWrite { bytes } = self { *bytes } else { 0 }
    }

    /// Data bytes that the client sends after the acknowledgement.
    pub(super) fn expected(&self) -> u64 {
        if let Self::Write { expected } = self { *expected } else { 0 }
    }
}
