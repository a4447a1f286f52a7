//! The contract of a session, independent of any protocol: bytes and dispatches in; bytes to send and requests out; and
//! limits on everything a peer can make it hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use vpfs_core::{FileKey, FilePosition, Objects, OpKind, Pieces, Time};

use crate::session::Outbound;

/// What is known of the next bytes of one side, before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: they may be the start of a message.
    Unknown,
    /// So many pass to the other side, whatever they are: the rest of a message. A driver may pass them on without
    /// showing them, see [`Session::passed`].
    Passing(usize),
    /// So many are the rest of the request at the start of the client's buffer. A driver need not read them before it
    /// has all of them, see [`Session::arrived`].
    Arriving(usize),
    /// So many are the rest of a request that has arrived. If its turn comes before they are read, they pass.
    Waiting(usize),
}

/// One client connection and the server connection behind it, in one protocol. See the crate documentation for how to
/// drive it.
pub trait Session: fmt::Debug + Send {
    /// Takes the bytes that arrived from the client. Bytes that remain in `buf` are the start of an incomplete message,
    /// no longer than the protocol's longest request, or data that must wait for its turn; in that case call it again
    /// after [`Session::handle_timeout`].
    fn handle_client(&mut self, now: Time, buf: &mut BytesMut);

    /// Whether it left bytes in a buffer that it could use, because those before them have cost much computation. Let
    /// other tasks have their turn, and then call [`Session::handle_client`] and [`Session::handle_server`] again,
    /// before waiting for anything and before reporting the end of a stream.
    fn is_behind(&self) -> bool;

    /// The driver has not read from the client until now, whatever the reason: the time limit for the rest of an
    /// incomplete request starts again, because that may have arrived long ago.
    fn client_waited(&mut self, now: Time);

    /// Takes the bytes that arrived from the server. Bytes that remain in `buf` are the start of an incomplete message.
    fn handle_server(&mut self, now: Time, buf: &mut BytesMut);

    /// What is known of the bytes to arrive next from this side.
    fn next(&self, side: Side) -> Next;

    /// All bytes of [`Next::Arriving`] are at the driver, which has not read them: the request at the start of `buf`
    /// has arrived, unless it is one that must be read.
    fn arrived(&mut self, now: Time, buf: &mut BytesMut);

    /// The driver took `bytes` of [`Next::Passing`] from this side into its pipes to the other side, instead of
    /// giving them to [`Session::handle_client`] or [`Session::handle_server`]. They have their place in the
    /// [`Outbound`] of the other side.
    ///
    /// # Panics
    /// If fewer were passing: a bug of the driver.
    fn passed(&mut self, now: Time, side: Side, bytes: usize);

    /// The scheduler dispatches `op`, with its write data in `pieces` if there are any. Nothing happens if `op` has
    /// been cancelled: the dispatch may have been on its way.
    ///
    /// # Panics
    /// If `op` was dispatched before: a bug of the driver.
    fn dispatch(&mut self, now: Time, op: OpId, pieces: Option<Pieces>);

    /// The server is to answer a queued [`Submission::may_be_left`] only when its data is on stable storage. The reply
    /// says so to the client as well, which may expect less but not more. Nothing happens if `op` has been cancelled.
    fn ask_to_store(&mut self, op: OpId);

    /// The client sends nothing more, and left `unread` bytes of an incomplete message. Queued requests are cancelled;
    /// replies still pass.
    fn handle_client_eof(&mut self, unread: usize);

    /// The server sends nothing more: every operation ends. Bytes queued for the client are still sent.
    fn handle_server_eof(&mut self, unread: usize);

    /// The client is gone, or broke the protocol: queued requests are cancelled and its bytes are ignored. What was
    /// sent goes on in the server, whose answers still complete operations, but nobody receives them.
    fn abandon(&mut self);

    /// Whether the server is about to end an operation that occupies slots, without the client and without much more
    /// work than it has begun. O(n) in operations.
    fn awaits_server(&self) -> bool;

    /// Returns every operation to the scheduler; the session is over.
    fn end(&mut self);

    /// Sets the time after which a client that makes no progress loses the slots of what waits for it; longer than
    /// zero, at first [`SessionLimits::PATIENCE`]. Heeded from the next [`Session::handle_timeout`] at the latest.
    fn set_patience(&mut self, patience: Duration);

    /// More is known about who sends the requests: it counts for those that arrive from now on.
    fn set_requester(&mut self, requester: Requester);

    /// Frees the slots of operations that made no progress for longer than the limits allow. Ends the session if the
    /// rest of a request is overdue.
    fn handle_timeout(&mut self, now: Time);

    /// When [`Session::handle_timeout`] is due.
    fn poll_timeout(&self) -> Option<Time>;

    /// The next action for the driver.
    fn poll_action(&mut self) -> Option<Action>;

    /// Bytes for the server.
    fn to_server(&mut self) -> &mut Outbound;

    /// Bytes for the client.
    fn to_client(&mut self) -> &mut Outbound;

    /// Whether to read from the client now. O(1).
    fn wants_client(&self) -> bool;

    /// Whether only bytes from this side can complete what is in progress: it is in the middle of a message, or a
    /// dispatched write waits for its data. Reading from the client must not wait for memory then.
    fn awaits_rest(&self, side: Side) -> bool;

    /// Bytes of memory that requests take up: the operation itself from arrival to end, and the whole request,
    /// including data in it, until it is queued for the server. O(1).
    fn held_requests(&self) -> usize;

    /// Whether to read from the server now.
    fn wants_server(&self) -> bool;

    /// Whether the client is done, everything it sent was passed on, and the server is not about to end anything, so
    /// that the connection to the server may be half closed: a server may take that for the end of everything. O(n) in
    /// operations once the client is done.
    fn server_side_done(&self) -> bool;

    /// Accepts no further requests.
    fn drain(&mut self);

    /// Whether nothing is queued, in progress or in transit.
    fn is_idle(&self) -> bool;

    /// Prepares to continue as another session of the same two connections, in another process: accepts no further
    /// requests, and takes back those that were not sent, which are cancelled. Returns what the other session needs
    /// once nothing is in progress or in transit, unless the session is over; call it after every input until then.
    fn suspend(&mut self, now: Time) -> Option<Suspended>;

    /// Whether the session is over; only [`Session::to_client`] may still hold bytes.
    fn is_closed(&self) -> bool;
}

/// Creates the sessions of a listener.
pub trait Interposer: fmt::Debug + Send + Sync {
    /// A session of this requester, with nothing in progress. `user` is the one that an earlier session of the same
    /// connections had stated last, if there was one.
    fn session(&self, limits: SessionLimits, requester: Requester, user: Option<Arc<User>>) -> Box<dyn Session>;

    /// How long to leave a drained connection open without reading it, so that its client receives the last replies
    /// before the reset, which overtakes them, and is where it notices the end without losing an operation.
    fn quiet_at_end(&self) -> Duration;
}

/// What another session of the same two connections needs in order to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// Whole requests that were read from the client and not sent to the server; to be read again before anything else.
    pub requests: Bytes,
    /// The user that the connection stated last.
    pub user: Option<Arc<User>>,
}

/// Who sends requests over a connection, as far as its address shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// Maybe a server of the same file system: its requests between servers are sent at once, unscheduled.
    Server,
    /// No server, whatever its requests claim.
    Client {
        /// Requests that administer servers pass; otherwise they are refused as a server would.
        may_manage: bool,
    },
}

/// A user as stated in requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group ids, the primary one first.
    pub gids: Vec<u32>,
    /// The name that the host states for itself; empty if the protocol has none.
    pub machine: String,
}

/// A request that is to be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Read, write or metadata.
    pub kind: OpKind,
    /// This server's bytes; for a read an upper bound until the server reveals the file's size. Zero for metadata,
    /// whose cost for each object is a setting of the scheduler [vPFS+ §IV].
    pub cost: vpfs_core::Bytes,
    /// For metadata: how many objects it works on; an upper bound for a listing, until the server has answered.
    pub objects: Objects,
    /// For data: the file and where the access starts in it, to improve the estimate if the file's size is known.
    pub position: Option<FilePosition>,
    /// For data: bytes that the same access moves at other servers, if the request reveals that.
    pub elsewhere: Option<vpfs_core::Bytes>,
    /// For a write: the smallest piece in which its data can be sent on; `None` if it can only be sent as a whole.
    pub piece: Option<vpfs_core::Bytes>,
    /// For a write: its client leaves it to the server when to store the data, and [`Session::ask_to_store`] need not.
    pub may_be_left: bool,
    /// The user of this request, shared with other requests of the same user. `None` if the connection has not stated
    /// one: then it belongs to the user of other connections from the same host.
    pub user: Option<Arc<User>>,
}

impl Submission {
    /// A request of which nothing else is known.
    pub fn new(kind: OpKind, cost: vpfs_core::Bytes, objects: Objects) -> Self {
        Self { kind, cost, objects, position: None, elsewhere: None, piece: None, may_be_left: false, user: None }
    }
}

/// A session's name for one operation, which no later one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId {
    /// A place in tables, taken by another operation after the end of this one.
    pub index: u32,
    /// How many operations of the session came before it, modulo 2^32.
    pub serial: u32,
}

impl OpId {
    /// The place as an index into a table.
    pub fn index(self) -> usize {
        self.index as usize
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
    /// It made no progress within the time limit, so its slots are freed. Later bytes would still pass, but a driver
    /// should close both connections, so that the client repeats the request at once.
    TimedOut,
    /// One of the two connections ended first. Its charge includes what the server may have done unseen.
    Disconnected,
}

/// A dispatched operation at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The operation.
    pub op: OpId,
    /// `None` if it was sent at once, unscheduled.
    pub kind: Option<OpKind>,
    /// How it ended.
    pub outcome: Outcome,
    /// Data bytes that passed, both directions, without headers.
    pub moved: u64,
    /// They are on stable storage now, as the server says of a write.
    pub is_stored: bool,
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

/// Why a session ended itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum CloseReason {
    /// Bytes that do not follow the protocol.
    #[error("malformed message from the {side}: {error}")]
    Malformed { side: Side, error: String },
    /// The server's configuration cannot be rewritten.
    #[error("the server's configuration cannot be passed on: {0}")]
    Config(String),
    /// Well-formed, but not allowed at this point.
    #[error("protocol violation by the {side}: {what}")]
    Violation { side: Side, what: &'static str },
    /// A part of a request arrived, and not the rest of it within [`SessionLimits::request_timeout`].
    #[error("timed out: the client did not complete its request")]
    Incomplete,
    /// The connection ended in the middle of a message.
    #[error("the {0} closed the connection in the middle of a message")]
    Truncated(Side),
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Enqueue a request at the scheduler; call [`Session::dispatch`] when it is dispatched.
    Enqueue(OpId, Submission),
    /// The real cost of a dispatched operation is known, or a better estimate of it.
    CorrectCost(OpId, vpfs_core::Bytes),
    /// The real number of objects of a dispatched metadata operation is known.
    CorrectObjects(OpId, Objects),
    /// A dispatched operation ended: free its slots.
    Complete(Completed),
    /// A queued request, or an overdue one, will never be sent: refund it unless its slots were freed.
    Cancel(OpId),
    /// A dispatched operation waits for its client, which has stopped to send or to read: free its slots, so that
    /// others do not wait as well. Its charge stays, and it is still completed later.
    Release(OpId),
    /// A dispatched operation was held for longer than [`SessionLimits::max_hold`], so its client is about to repeat it
    /// and must find it not done: it is sent when that happens. Free its slots until its end; its charge stays. It is
    /// completed or cancelled later.
    Overdue(OpId),
    /// The client repeated a request that was held for too long. The new one has its place.
    Repeated,
    /// The server revealed the size of a file on it.
    SizeLearned {
        /// The file.
        file: FileKey,
        /// Its bytes.
        size: u64,
    },
    /// The server's configuration names a server without a proxy: clients will bypass vpfs there.
    UnmappedServer(String),
    /// A requester that is no server sent a request as only servers do; it is scheduled. Reported once.
    ClaimsServer,
    /// A peer ended the session; close both connections. If it was the client, the session is as after
    /// [`Session::abandon`], otherwise it is over.
    Close(CloseReason),
}

/// Bounds of one session; the defaults suit stock clients, which keep at most a few dozen requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Operations of one connection that are queued or in progress, at least 1. At the limit the client is not read,
    /// unless it is in the middle of a message or a dispatched write still waits for its data.
    pub ops: usize,
    /// Bytes of the requests of one connection, as [`Session::held_requests`] counts them; at the limit the client is
    /// not read, with the same exceptions.
    pub request_bytes: usize,
    /// Bytes queued towards one side, at least 1; at the limit the other side is not read.
    pub outbound_bytes: usize,
    /// A reply or acknowledgement that takes longer frees the operation's slots. Longer than the clients' own timeout
    /// (300 s), after which they repeat the request.
    pub reply_timeout: Duration,
    /// A request that was held for so long is not sent until its client repeats it, see [`Action::Overdue`]. Shorter
    /// than the clients' own timeout (300 s) by more than a server takes to answer, and longer than half of it.
    pub max_hold: Duration,
    /// A started transfer without progress for this long frees the operation's slots: a server that fails in the middle
    /// of a flow sends nothing at all.
    pub flow_timeout: Duration,
    /// The same for a transfer or reply that waits for the client: its slots are free by then, so others do not suffer.
    pub stall_timeout: Duration,
    /// A client that has sent a part of a header or a request must complete it within this time. Not for the data of
    /// writes.
    pub request_timeout: Duration,
    /// How long clients wait for an answer, as announced to them in whole seconds; `None` keeps the servers' value.
    /// Must be equal in all proxies, like the addresses.
    pub client_timeout: Option<Duration>,
}

impl SessionLimits {
    /// After this time without progress by the client, the slots of what waits for it are freed, unless
    /// [`Session::set_patience`] says otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// The number of operations at which a client is disconnected. Only an endless series of requests reaches it: a
    /// single read of 256 KiB holds 3000 of the shortest requests.
    pub(crate) fn most_ops(&self) -> usize {
        self.ops.saturating_mul(8).max(self.ops.saturating_add(4096))
    }

    /// The corresponding bound for [`SessionLimits::request_bytes`]; at least two of the `longest` requests more.
    pub(crate) fn most_request_bytes(&self, longest: usize) -> usize {
        let more = (2 * longest).max(1 << 20);
        self.request_bytes.saturating_mul(2).max(self.request_bytes.saturating_add(more))
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            ops: 256,
            request_bytes: 4 << 20,
            outbound_bytes: 1 << 20,
            reply_timeout: Duration::from_secs(330),
            max_hold: Duration::from_secs(270),
            flow_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(300),
            request_timeout: Duration::from_secs(10),
            client_timeout: None,
        }
    }
}
