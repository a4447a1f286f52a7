//! The contract of a session, without any protocol: bytes and dispatches in; bytes to send and requests out.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use vpfs_core::{Bytes, FileKey, FilePosition, OpKind, Pieces, Time};

use crate::{Outbound, SessionLimits};

/// One client connection and the server connection behind it, in one protocol. See the crate documentation for how to
/// drive it.
pub trait Session: fmt::Debug + Send {
    /// Takes the bytes that arrived from the client. What stays in `buf` is the start of an incomplete message, no
    /// longer than the protocol's longest request, or data that has to wait for its turn; then call it again after
    /// [`Session::handle_timeout`].
    fn handle_client(&mut self, now: Time, buf: &mut BytesMut);

    /// Takes the bytes that arrived from the server. What stays in `buf` is the start of an incomplete message.
    fn handle_server(&mut self, now: Time, buf: &mut BytesMut);

    /// The scheduler lets `op` go, the data of a write in `pieces` if there are any.
    ///
    /// # Panics
    /// If `op` is not queued: a bug of the driver.
    fn dispatch(&mut self, now: Time, op: OpId, pieces: Option<Pieces>);

    /// The client sends nothing more, and left so many bytes of an incomplete message. Queued requests are cancelled;
    /// replies still pass.
    fn handle_client_eof(&mut self, unread: usize);

    /// The server sends nothing more: every operation ends. What is queued towards the client still goes.
    fn handle_server_eof(&mut self, unread: usize);

    /// Gives every operation back to the scheduler; the session is over.
    fn end(&mut self);

    /// Frees the slots of operations that made no progress for longer than the limits allow.
    fn handle_timeout(&mut self, now: Time);

    /// When [`Session::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Time>;

    /// The next thing for the driver to do.
    fn poll_action(&mut self) -> Option<Action>;

    /// Bytes for the server.
    fn to_server(&mut self) -> &mut Outbound;

    /// Bytes for the client.
    fn to_client(&mut self) -> &mut Outbound;

    /// The client may be read now. O(1).
    fn wants_client(&self) -> bool;

    /// Only bytes of the client can end what is in progress, so its next bytes may not wait for other memory to become
    /// free: it is in the middle of a message, or a dispatched write waits for its data.
    fn must_read_client(&self) -> bool;

    /// Bytes that requests take up from their arrival to their end: the operation itself, and the whole request with
    /// the data in it until it is queued towards the server. O(1).
    fn held_requests(&self) -> usize;

    /// The server may be read now.
    fn wants_server(&self) -> bool;

    /// The client is done and everything it sent was passed on, so the server may be told.
    fn server_side_done(&self) -> bool;

    /// Takes no further requests from now on.
    fn drain(&mut self);

    /// Nothing is queued, in progress or on its way.
    fn is_idle(&self) -> bool;

    /// The session is over; only [`Session::to_client`] may still hold bytes.
    fn is_closed(&self) -> bool;
}

/// What makes the sessions of a listener.
pub trait Interposer: fmt::Debug + Send + Sync {
    /// A session with nothing in progress.
    fn session(&self, limits: SessionLimits) -> Box<dyn Session>;
}

/// A user as requests show one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group ids, the primary one first.
    pub gids: Vec<u32>,
}

/// A request for a place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Read, write or metadata.
    pub kind: OpKind,
    /// This server's bytes; for a read an upper bound until the server tells the file's size. Zero for metadata, whose
    /// cost is a setting of the scheduler [vPFS+ §IV].
    pub cost: Bytes,
    /// For data: the file and where in it the access starts, to better the estimate from what is known of the file.
    pub position: Option<FilePosition>,
    /// For data: what the same access moves at other servers, if it reveals that.
    pub elsewhere: Option<Bytes>,
    /// Whose request it is, if the protocol tells. A request that shows no user is that of the one before it.
    pub user: Option<Arc<User>>,
}

/// A session's name for one operation; dense, reused after the operation is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u32);

impl OpId {
    /// The number as an index into a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered; a negative status is the server's own refusal.
    Answered {
        /// Zero, or the server's negative error status.
        status: i32,
    },
    /// Nothing moved for so long that its slots are freed. Later bytes would pass, but a driver does better to close
    /// both connections: the client then asks again at once.
    TimedOut,
    /// One of the two connections ended first.
    Disconnected,
}

/// What is known of a dispatched operation at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The operation.
    pub op: OpId,
    /// `None` if it went at once, unscheduled.
    pub kind: Option<OpKind>,
    /// How it ended.
    pub outcome: Outcome,
    /// Data bytes that passed, both directions, without headers.
    pub moved: u64,
    /// When its request arrived.
    pub arrived: Time,
    /// When it was sent to the server.
    pub dispatched: Time,
}

/// One of the two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The connection that was accepted.
    Client,
    /// The connection that was opened on its behalf.
    Server,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Why a session was ended by its own judgement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Bytes that are not the protocol.
    #[error("malformed message from the {side}: {error}")]
    Malformed {
        /// Who sent it.
        side: Side,
        /// What is wrong, and where.
        error: String,
    },
    /// The server's configuration cannot be rewritten.
    #[error("the server's configuration cannot be passed on: {0}")]
    Config(String),
    /// Well-formed, but not at this point.
    #[error("protocol violation by the {side}: {what}")]
    Violation {
        /// Who sent it.
        side: Side,
        /// What was sent.
        what: &'static str,
    },
    /// The connection ended in the middle of a message.
    #[error("the {0} closed the connection in the middle of a message")]
    Truncated(Side),
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the scheduler for a place; call [`Session::dispatch`] when it has one.
    Enqueue(OpId, Submission),
    /// The real cost of a dispatched operation is known, or better known than before.
    CorrectCost(OpId, Bytes),
    /// A dispatched operation is over: free its slots.
    Complete(Completed),
    /// A queued request will never be sent: refund it.
    Cancel(OpId),
    /// The size of a file on this server, as the server told it.
    SizeLearned {
        /// The file.
        file: FileKey,
        /// Its bytes.
        size: u64,
    },
    /// The server's configuration names a server that no proxy stands for: clients will go around vpfs.
    UnmappedServer(String),
    /// The session is over because of a peer; close both connections.
    Close(CloseReason),
}
