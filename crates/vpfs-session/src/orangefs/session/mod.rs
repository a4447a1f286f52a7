//! The state machine of one OrangeFS client connection and its server connection.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use vpfs_core::{Pieces, Time};
use vpfs_wire::DecodeError;
use vpfs_wire::bmi::{Header, Tag};

use super::AddressMap;
use super::op::{Op, State};
use crate::{Action, CloseReason, OpId, Outbound, Outcome, Requester, Session, SessionLimits, Side, Suspended, User};

mod client;
mod incomplete;
mod ops;
mod overdue;
mod refusals;
mod server;
mod stall;
mod suspend;

use stall::Stall;

/// After this many steps of [`Transfer`](vpfs_wire::pvfs2::Transfer), about 100 µs, the session lets others have their
/// turn. Usual accesses take a handful, so only a series of long descriptions reaches it.
const STEPS_AT_ONCE: u32 = 1 << 14;

/// Bytes of the longest payload of a request.
const LONGEST_REQUEST: usize = 16 << 10;

/// What is being read from one side.
#[derive(Debug)]
enum Inbound {
    /// A header is next.
    Header,
    /// The rest of a message passes through.
    Body { remaining: usize, meaning: Meaning },
}

/// The meaning of the passing message for its operation.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// Nothing, or nothing any more.
    Stray,
    /// An acknowledgement; the operation continues.
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

/// One OrangeFS client connection and its server connection.
#[derive(Debug)]
pub struct OrangeFsSession {
    limits: SessionLimits,
    requester: Requester,
    addresses: Arc<AddressMap>,
    from_client: Inbound,
    from_server: Inbound,
    to_client: Outbound,
    to_server: Outbound,
    /// Answers to refused requests that wait for the end of the server's message.
    refusals: BytesMut,
    ops: Vec<Option<Op>>,
    free: Vec<OpId>,
    by_tag: HashMap<Tag, OpId>,
    dispatched: VecDeque<OpId>,
    /// The number of operations whose requests were sent; only these can time out.
    in_progress: usize,
    /// The number of operations that were sent at once.
    unscheduled: usize,
    /// The number of dispatched writes whose data is still to come from the client.
    awaiting_data: usize,
    /// The number of operations that are sent only when their client repeats them.
    overdue: usize,
    /// No request that was held is too old before this time.
    overdue_from: Option<Time>,
    /// Bytes of memory that all operations take up.
    held: usize,
    actions: VecDeque<Action>,
    user: Option<Arc<User>>,
    /// A claim to be a server was reported.
    claimed: bool,
    next_watch: Option<Time>,
    stall: Stall,
    /// The time until which the next data of the client must wait.
    paused_until: Option<Time>,
    /// The steps taken for the latest input.
    steps: u32,
    /// They were too many, so that bytes of the client or of the server are left.
    client_is_behind: bool,
    server_is_behind: bool,
    /// Since when the client is in the middle of a header or a request.
    incomplete_since: Option<Time>,
    client_done: bool,
    abandoned: bool,
    draining: bool,
    /// Requests for the session that continues this one; `None` if none will.
    unsent: Option<BytesMut>,
    closed: bool,
}

impl OrangeFsSession {
    /// A session of this requester, with nothing in progress.
    pub fn new(limits: SessionLimits, requester: Requester, addresses: Arc<AddressMap>) -> Self {
        Self {
            limits,
            requester,
            addresses,
            from_client: Inbound::Header,
            from_server: Inbound::Header,
            to_client: Outbound::default(),
            to_server: Outbound::default(),
            refusals: BytesMut::new(),
            ops: Vec::new(),
            free: Vec::new(),
            by_tag: HashMap::new(),
            dispatched: VecDeque::new(),
            in_progress: 0,
            unscheduled: 0,
            awaiting_data: 0,
            overdue: 0,
            overdue_from: None,
            held: 0,
            actions: VecDeque::new(),
            user: None,
            claimed: false,
            next_watch: None,
            stall: Stall::default(),
            paused_until: None,
            steps: 0,
            client_is_behind: false,
            server_is_behind: false,
            incomplete_since: None,
            client_done: false,
            abandoned: false,
            draining: false,
            unsent: None,
            closed: false,
        }
    }

    /// Continues a session whose connection had stated this user last.
    pub fn of_user(self, user: Option<Arc<User>>) -> Self {
        Self { user, ..self }
    }

    fn has_room_for_requests(&self) -> bool {
        let waiting = self.by_tag.len() - self.overdue;
        !self.draining && waiting < self.limits.ops && self.held < self.limits.request_bytes
    }
}

impl Session for OrangeFsSession {
    /// Takes the bytes that arrived from the client. Bytes that remain in `buf` are the start of an incomplete header
    /// or request, at most 16 KiB + 24 bytes, or data that must wait for its turn; in that case call it again after
    /// [`Session::handle_timeout`]; or anything, see [`Session::is_behind`].
    fn handle_client(&mut self, now: Time, buf: &mut BytesMut) {
        self.excuse_client(now);
        self.steps = 0;
        while !self.closed && !self.abandoned && self.paused_until.is_none() && self.steps < STEPS_AT_ONCE {
            let step = match self.from_client {
                Inbound::Header => self.client_message(now, buf),
                Inbound::Body { .. } => Ok(self.client_body(now, buf)),
            };
            match step {
                Ok(true) => self.incomplete_since = None,
                Ok(false) => break,
                Err(reason) => self.refuse_client(reason),
            }
        }
        self.client_is_behind = self.steps >= STEPS_AT_ONCE && !buf.is_empty();
        if self.client_is_behind {
            // The request in the buffer may be complete.
            return;
        }
        self.note_incomplete(now, buf.len());
        debug_assert!(
            self.closed || self.abandoned || self.paused_until.is_some() || buf.len() < Header::LEN + LONGEST_REQUEST,
            "no more than the start of a request stays in the buffer"
        );
    }

    /// Takes the bytes that arrived from the server. Bytes that remain in `buf` are the start of an incomplete header
    /// or reply, at most 24 bytes and 48 of a reply, 16 KiB of a small read's, or 128 KiB of a configuration; or
    /// anything, see [`Session::is_behind`].
    fn handle_server(&mut self, now: Time, buf: &mut BytesMut) {
        self.steps = 0;
        while !self.closed && self.steps < STEPS_AT_ONCE {
            let step = match self.from_server {
                Inbound::Header => self.server_message(now, buf),
                Inbound::Body { .. } => Ok(self.server_body(now, buf)),
            };
            match step {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => self.refuse_server(reason),
            }
        }
        self.server_is_behind = self.steps >= STEPS_AT_ONCE && !buf.is_empty();
    }

    fn is_behind(&self) -> bool {
        !self.closed && (self.server_is_behind || self.client_is_behind && !self.abandoned)
    }

    fn client_waited(&mut self, now: Time) {
        self.incomplete_since = self.incomplete_since.map(|_| now);
    }

    fn dispatch(&mut self, now: Time, op: OpId, pieces: Option<Pieces>) {
        if self.closed {
            return;
        }
        if self.is_overdue(now, op) {
            return self.wait_for_repetition(op);
        }
        self.op_mut(op).pieces = pieces;
        let state = &mut self.op_mut(op).state;
        let State::Queued(request) = std::mem::replace(state, State::Sent) else {
            panic!("dispatched an operation that is not queued");
        };
        *state = State::Dispatched(request);
        self.dispatched.push_back(op);
        self.send_dispatched(now);
        self.release_stalled(now);
        self.arm_watch(now);
    }

    fn handle_client_eof(&mut self, unread: usize) {
        if self.closed || self.client_done {
            return;
        }
        if unread > 0 || matches!(self.from_client, Inbound::Body { .. }) {
            return self.refuse_client(CloseReason::Truncated(Side::Client));
        }
        self.client_done = true;
        self.cancel_queued();
    }

    fn handle_server_eof(&mut self, unread: usize) {
        if self.closed {
            return;
        }
        if unread > 0 || matches!(self.from_server, Inbound::Body { .. }) {
            return self.refuse_server(CloseReason::Truncated(Side::Server));
        }
        self.end();
    }

    fn abandon(&mut self) {
        if self.closed || self.abandoned {
            return;
        }
        (self.client_done, self.abandoned) = (true, true);
        (self.paused_until, self.incomplete_since) = (None, None);
        self.cancel_queued();
        for id in std::mem::take(&mut self.dispatched) {
            self.complete(id, Outcome::Disconnected);
        }
    }

    fn awaits_server(&self) -> bool {
        self.ops.iter().flatten().any(|op| op.kind.is_some() && !op.is_released && op.ends_without_client())
    }

    fn end(&mut self) {
        self.cancel_queued();
        // Nothing else ends operations that are dispatched but not sent.
        self.dispatched.clear();
        for id in self.ids_where(|_| true) {
            self.complete(id, Outcome::Disconnected);
        }
        self.to_server.clear();
        self.next_watch = None;
        self.paused_until = None;
        self.incomplete_since = None;
        self.closed = true;
    }

    fn set_patience(&mut self, patience: Duration) {
        self.stall.patience = patience;
    }

    fn set_requester(&mut self, requester: Requester) {
        self.requester = requester;
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.client_may_send(now);
        }
        if self.request_deadline().is_some_and(|at| at <= now) {
            self.refuse_client(CloseReason::Incomplete);
        }
        self.forget_overdue(now);
        if self.closed || self.next_watch.is_none_or(|at| now < at) {
            return;
        }
        self.excuse_client(now);
        self.release_stalled(now);
        for id in self.ids_where(|op| self.deadline(op).is_some_and(|at| at <= now)) {
            self.complete(id, Outcome::TimedOut);
        }
        self.next_watch = None;
        self.arm_watch(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let others = [self.paused_until, self.request_deadline(), self.overdue_deadline()];
        self.next_watch.into_iter().chain(others.into_iter().flatten()).min()
    }

    fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        if action.is_none() {
            self.forget_actions();
        }
        action
    }

    fn to_server(&mut self) -> &mut Outbound {
        &mut self.to_server
    }

    fn to_client(&mut self) -> &mut Outbound {
        &mut self.to_client
    }

    fn wants_client(&self) -> bool {
        debug_assert!(self.counts_are_right());
        !self.closed
            && !self.client_done
            && self.paused_until.is_none()
            && self.to_server.len() < self.limits.outbound_bytes
            && (self.awaits_rest(Side::Client) || self.has_room_for_requests())
    }

    /// True for the client even if no further request is accepted: dispatched requests wait for the end of its current
    /// message, and only their data frees the slots of dispatched writes.
    fn awaits_rest(&self, side: Side) -> bool {
        match side {
            Side::Client => matches!(self.from_client, Inbound::Body { .. }) || self.awaiting_data > 0,
            Side::Server => matches!(self.from_server, Inbound::Body { .. }),
        }
    }

    fn held_requests(&self) -> usize {
        self.held + self.refusals.len() + self.unsent_bytes()
    }

    fn wants_server(&self) -> bool {
        !self.closed && self.to_client.len() < self.limits.outbound_bytes
    }

    fn server_side_done(&self) -> bool {
        self.client_done && self.to_server.is_empty() && self.dispatched.is_empty() && !self.awaits_server()
    }

    fn drain(&mut self) {
        self.draining = true;
        self.cancel_overdue();
    }

    fn is_idle(&self) -> bool {
        self.by_tag.is_empty()
            && self.to_client.is_empty()
            && self.to_server.is_empty()
            && matches!((&self.from_client, &self.from_server), (Inbound::Header, Inbound::Header))
    }

    fn suspend(&mut self, now: Time) -> Option<Suspended> {
        if self.unsent.is_none() {
            self.take_back_requests(now);
        }
        (self.is_idle() && !self.closed && !self.client_done).then(|| self.suspended())
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

/// The header at the start of `buf`, `None` while it is incomplete.
fn decode_header(buf: &BytesMut, side: Side) -> Result<Option<Header>, CloseReason> {
    match Header::decode(buf) {
        Ok(header) => Ok(Some(header)),
        Err(DecodeError::Incomplete { .. }) => Ok(None),
        Err(error) => Err(CloseReason::Malformed { side, error: error.to_string() }),
    }
}

fn violation(side: Side, what: &'static str) -> CloseReason {
    CloseReason::Violation { side, what }
}

/// The size of the payload after a header.
fn payload_len(header: &Header) -> usize {
    // At most 16 MiB, as checked by decoding.
    usize::try_from(header.size).unwrap_or(usize::MAX)
}

/// A whole message.
fn message(header: &Header, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(Header::LEN + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    bytes.freeze()
}
