//! The state machine of one pair of connections.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use vpfs_core::{FileKey, Pieces, Time};
use vpfs_wire::DecodeError;
use vpfs_wire::bmi::{Header, Tag};
use vpfs_wire::pvfs2::rewrite::RewriteError;

use crate::classify::Submission;
use crate::op::{Completed, Op, OpId, Outcome, State};
use crate::{AddressMap, Limits, Outbound};

mod client;
mod ops;
mod server;

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
        error: DecodeError,
    },
    /// The server's configuration cannot be rewritten.
    #[error("the server's configuration cannot be passed on: {0}")]
    Config(RewriteError),
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
    /// The client showed a credential; requests that follow without one are taken to be this user's.
    Learned {
        /// User id.
        uid: u32,
        /// Group ids, the primary one first.
        gids: Vec<u32>,
    },
    /// Ask the scheduler for a place; call [`Session::dispatch`] when it has one.
    Enqueue(OpId, Submission),
    /// The real cost of a dispatched operation is known, or better known than before.
    CorrectCost(OpId, vpfs_core::Bytes),
    /// A dispatched operation is over: free its slots.
    Complete(Completed),
    /// A queued request will never be sent: refund it.
    Cancel(OpId),
    /// The size of a datafile on this server, as the server told it.
    SizeLearned {
        /// The datafile.
        file: FileKey,
        /// Its bytes.
        size: u64,
    },
    /// The server's configuration names a server that no proxy stands for: clients will go around vpfs.
    UnmappedServer(String),
    /// The session is over because of a peer; close both connections.
    Close(CloseReason),
}

/// What is being read from one side.
#[derive(Debug)]
enum Inbound {
    /// A header is next.
    Header,
    /// The rest of a message passes through.
    Body { remaining: usize, meaning: Meaning },
}

/// What the message that passes through is for its operation.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// Nothing (any more).
    Stray,
    /// An acknowledgement; the operation goes on.
    Ack,
    /// Bulk data.
    Data(OpId),
    /// The operation ends with the last byte of this message.
    Last { op: OpId, status: i32 },
}

impl Meaning {
    fn is_of(self, id: OpId) -> bool {
        matches!(self, Self::Data(op) | Self::Last { op, .. } if op == id)
    }
}

/// One client connection and its server connection. See the crate documentation for how to drive it.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    addresses: Arc<AddressMap>,
    from_client: Inbound,
    from_server: Inbound,
    to_client: Outbound,
    to_server: Outbound,
    ops: Vec<Option<Op>>,
    free: Vec<OpId>,
    by_tag: HashMap<Tag, OpId>,
    dispatched: VecDeque<OpId>,
    /// Operations that were sent: those that can time out.
    in_progress: usize,
    /// Dispatched writes whose data is still to come from the client.
    awaiting_data: usize,
    actions: VecDeque<Action>,
    credential: Option<(u32, Vec<u32>)>,
    next_watch: Option<Time>,
    /// The next data of the client has to wait for its turn.
    paused_until: Option<Time>,
    client_done: bool,
    draining: bool,
    closed: bool,
}

impl Session {
    /// A session with nothing in progress.
    pub fn new(limits: Limits, addresses: Arc<AddressMap>) -> Self {
        Self {
            limits,
            addresses,
            from_client: Inbound::Header,
            from_server: Inbound::Header,
            to_client: Outbound::default(),
            to_server: Outbound::default(),
            ops: Vec::new(),
            free: Vec::new(),
            by_tag: HashMap::new(),
            dispatched: VecDeque::new(),
            in_progress: 0,
            awaiting_data: 0,
            actions: VecDeque::new(),
            credential: None,
            next_watch: None,
            paused_until: None,
            client_done: false,
            draining: false,
            closed: false,
        }
    }

    /// Takes the bytes that arrived from the client. What stays in `buf` is the start of an incomplete header or
    /// request, at most 16 KiB + 24 bytes, or data that has to wait for its turn; then call it again after
    /// [`Session::handle_timeout`].
    pub fn handle_client(&mut self, now: Time, buf: &mut BytesMut) {
        while !self.closed && self.paused_until.is_none() {
            let step = match self.from_client {
                Inbound::Header => self.client_message(now, buf),
                Inbound::Body { .. } => Ok(self.client_body(now, buf)),
            };
            match step {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => self.close(reason),
            }
        }
    }

    /// Takes the bytes that arrived from the server. What stays in `buf` is the start of an incomplete header or reply,
    /// at most 24 bytes and 48 of a reply, 16 KiB of a small read's, or 128 KiB of a configuration.
    pub fn handle_server(&mut self, now: Time, buf: &mut BytesMut) {
        while !self.closed {
            let step = match self.from_server {
                Inbound::Header => self.server_message(now, buf),
                Inbound::Body { .. } => Ok(self.server_body(now, buf)),
            };
            match step {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => self.close(reason),
            }
        }
    }

    /// The scheduler lets `op` go, the data of a write in `pieces` if there are any.
    ///
    /// # Panics
    /// If `op` is not queued: a bug of the driver.
    pub fn dispatch(&mut self, now: Time, op: OpId, pieces: Option<Pieces>) {
        if self.closed {
            return;
        }
        self.op_mut(op).pieces = pieces;
        let state = &mut self.op_mut(op).state;
        let State::Queued(request) = std::mem::replace(state, State::Sent) else {
            panic!("dispatched an operation that is not queued");
        };
        *state = State::Dispatched(request);
        self.dispatched.push_back(op);
        self.send_dispatched(now);
    }

    /// The client sends nothing more. Queued requests are cancelled; replies still pass.
    pub fn handle_client_eof(&mut self, unread: usize) {
        if self.closed || self.client_done {
            return;
        }
        if unread > 0 || matches!(self.from_client, Inbound::Body { .. }) {
            return self.close(CloseReason::Truncated(Side::Client));
        }
        self.client_done = true;
        for id in self.ids_where(Op::is_held) {
            self.cancel(id);
        }
    }

    /// The server sends nothing more: every operation ends. What is queued towards the client still goes.
    pub fn handle_server_eof(&mut self, unread: usize) {
        if self.closed {
            return;
        }
        if unread > 0 || matches!(self.from_server, Inbound::Body { .. }) {
            return self.close(CloseReason::Truncated(Side::Server));
        }
        self.end();
    }

    /// Gives every operation back to the scheduler; the session is over.
    pub fn end(&mut self) {
        for id in self.ids_where(Op::is_held) {
            self.cancel(id);
        }
        // Nothing else ends an operation that is dispatched but not sent.
        self.dispatched.clear();
        for id in self.ids_where(|_| true) {
            self.complete(id, Outcome::Disconnected);
        }
        self.to_server.clear();
        self.next_watch = None;
        self.paused_until = None;
        self.closed = true;
    }

    /// Frees the slots of operations that made no progress for longer than the limits allow.
    pub fn handle_timeout(&mut self, now: Time) {
        self.paused_until = self.paused_until.filter(|until| now < *until);
        if self.closed || self.next_watch.is_none_or(|at| now < at) {
            return;
        }
        for id in self.ids_where(|op| self.deadline(op).is_some_and(|at| at <= now)) {
            self.complete(id, Outcome::TimedOut);
        }
        self.next_watch = None;
        self.arm_watch(now);
    }

    /// When [`Session::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next_watch.into_iter().chain(self.paused_until).min()
    }

    /// The next thing for the driver to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Bytes for the server.
    pub fn to_server(&mut self) -> &mut Outbound {
        &mut self.to_server
    }

    /// Bytes for the client.
    pub fn to_client(&mut self) -> &mut Outbound {
        &mut self.to_client
    }

    /// The client may be read now. O(1).
    pub fn wants_client(&self) -> bool {
        debug_assert!(self.counts_are_right());
        !self.closed
            && !self.client_done
            && self.paused_until.is_none()
            && self.to_server.len() < self.limits.outbound_bytes
            && (self.must_read_on() || !(self.draining || self.by_tag.len() >= self.limits.ops))
    }

    /// Though no further request is welcome: dispatched requests wait for the end of the message that the client is in
    /// the middle of, and nothing but their data frees the slots of dispatched writes.
    fn must_read_on(&self) -> bool {
        matches!(self.from_client, Inbound::Body { .. }) || self.awaiting_data > 0
    }

    /// The server may be read now.
    pub fn wants_server(&self) -> bool {
        !self.closed && self.to_client.len() < self.limits.outbound_bytes
    }

    /// The client is done and everything it sent was passed on, so the server may be told.
    pub fn server_side_done(&self) -> bool {
        self.client_done && self.to_server.is_empty() && self.dispatched.is_empty()
    }

    /// Takes no further requests from now on; `true` once nothing is queued, in progress or on its way.
    pub fn drain(&mut self) -> bool {
        self.draining = true;
        self.by_tag.is_empty()
            && self.to_client.is_empty()
            && self.to_server.is_empty()
            && matches!((&self.from_client, &self.from_server), (Inbound::Header, Inbound::Header))
    }

    /// The session is over; only [`Session::to_client`] may still hold bytes.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

/// The header at the start of `buf`, `None` while it is incomplete.
fn decode_header(buf: &BytesMut, side: Side) -> Result<Option<Header>, CloseReason> {
    match Header::decode(buf) {
        Ok(header) => Ok(Some(header)),
        Err(DecodeError::Incomplete { .. }) => Ok(None),
        Err(error) => Err(CloseReason::Malformed { side, error }),
    }
}

fn violation(side: Side, what: &'static str) -> CloseReason {
    CloseReason::Violation { side, what }
}

/// Bytes of the payload behind a header.
fn payload_len(header: &Header) -> usize {
    // At most 16 MiB, which decoding checked.
    usize::try_from(header.size).unwrap_or(usize::MAX)
}

/// A whole message.
fn message(header: &Header, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(Header::LEN + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    bytes.freeze()
}
