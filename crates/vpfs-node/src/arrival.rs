//! What a driver says of a request: when it comes, and when it is over.

use vpfs_core::{AppId, Bytes, FilePosition, OpKind, Time};

/// A request that asks for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whose it is.
    pub app: AppId,
    /// Read, write or metadata.
    pub op: OpKind,
    /// Data bytes that it moves at this server; for a read an upper bound until the server tells the file's size. Not
    /// used for metadata, whose cost is a setting [vPFS+ §IV].
    pub bytes: u64,
    /// For data: where in its file it starts, if that is known.
    pub position: Option<FilePosition>,
    /// For data: bytes that the same access moves at other servers, if it reveals that.
    pub elsewhere: Option<Bytes>,
    /// When the application issued it, if that is known.
    pub issued_at: Option<Time>,
}

impl Arrival {
    /// A request of which no more is known than what it moves.
    pub fn new(app: AppId, op: OpKind, bytes: u64) -> Self {
        Self { app, op, bytes, position: None, elsewhere: None, issued_at: None }
    }
}

/// How a dispatched request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Read, write or metadata.
    pub op: OpKind,
    /// Data bytes that passed, without headers.
    pub bytes: u64,
    /// When it arrived.
    pub arrived: Time,
    /// When it was dispatched.
    pub dispatched: Time,
    /// Whether the server answered it; otherwise it timed out or a connection was lost.
    pub answered: bool,
}

impl Served {
    /// An answered request that moved nothing.
    pub fn new(op: OpKind, arrived: Time, dispatched: Time) -> Self {
        Self { op, bytes: 0, arrived, dispatched, answered: true }
    }
}
