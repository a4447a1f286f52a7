//! What a driver passes to a node when a request arrives and when it ends.

use vpfs_core::{AppId, Bytes, FilePosition, Objects, OpKind, Time};

/// A request that is to be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The application that it belongs to.
    pub app: AppId,
    /// Read, write or metadata.
    pub op: OpKind,
    /// Data bytes that it moves at this server; for a read an upper bound until the server reveals the file's size. Not
    /// used for metadata, whose cost is configured [vPFS+ §IV].
    pub bytes: u64,
    /// For metadata: how many objects it works on.
    pub objects: Objects,
    /// For data: its start in the file, if known.
    pub position: Option<FilePosition>,
    /// For data: bytes that the same access moves at other servers, if the request reveals that.
    pub elsewhere: Option<Bytes>,
    /// When the application issued it, if known.
    pub issued_at: Option<Time>,
    /// For a write: the smallest piece in which its data can be sent; `None` if it can only be sent as a whole.
    pub piece: Option<Bytes>,
}

impl Arrival {
    /// A request of which only the size is known, for metadata on one object, that can only be sent as a whole.
    pub fn new(app: AppId, op: OpKind, bytes: u64) -> Self {
        Self { app, op, bytes, objects: Objects::ONE, position: None, elsewhere: None, issued_at: None, piece: None }
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
