//! What is being read from one side, and what it means when it has passed.

use bytes::{Bytes, BytesMut};

use crate::session::{Next, OpId};

#[derive(Debug)]
pub(super) enum Inbound {
    /// The start of a message is next.
    Header,
    /// The rest of a message passes through.
    Body { remaining: usize, meaning: Meaning },
    /// The rest of a request that has arrived is read, or passes when the request is sent.
    Rest { remaining: usize, op: OpId },
}

/// The meaning of the passing message for its operation, which may end before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// Nothing.
    Stray,
    /// An acknowledgement; the operation continues.
    Ack,
    Data(OpId),
    /// The operation ends with the last byte of this message.
    Last {
        op: OpId,
        status: i32,
    },
}

/// Bytes that are at least so many are held as a part of the buffer that they were read into, all of which stays in
/// memory; fewer are copied, as most of that buffer may be for others.
const KEPT_LEN: usize = 64 << 10;

/// Bytes that are held for a while.
pub(crate) fn kept(bytes: BytesMut) -> Bytes {
    if bytes.len() < KEPT_LEN { Bytes::copy_from_slice(&bytes) } else { bytes.freeze() }
}

impl Inbound {
    pub(super) fn is_passing(&self) -> bool {
        matches!(self, Self::Body { .. })
    }

    pub(super) fn is_rest(&self) -> bool {
        matches!(self, Self::Rest { .. })
    }

    pub(super) fn is_within_message(&self) -> bool {
        !matches!(self, Self::Header)
    }

    pub(super) fn next(&self) -> Next {
        match *self {
            Self::Header => Next::Unknown,
            Self::Body { remaining, .. } => Next::Passing(remaining),
            Self::Rest { remaining, .. } => Next::Waiting(remaining),
        }
    }
}
