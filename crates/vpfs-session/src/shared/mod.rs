//! The half of a session that every protocol shares: its streams, the table of its operations, and all rules about time
//! and limits (docs/decisions/0001-architecture.md).

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use bytes::BytesMut;
use vpfs_core::Time;

use crate::{Action, CloseReason, OpId, Outbound, Outcome, Requester, SessionLimits, Side, User};

mod answers;
mod arrival;
mod incomplete;
mod op;
mod order;
mod overdue;
mod passing;
mod session;
mod stall;
mod suspend;
mod table;
mod watch;
mod window;

pub(crate) use arrival::{Arriving, Class, OP_BYTES};
pub(crate) use op::{Op, State, data_cost};
pub(crate) use order::Order;
pub(crate) use passing::{Meaning, kept};
pub(crate) use session::ProtocolSession;
pub(crate) use window::Numbered;

use order::Lines;
use passing::Inbound;
use stall::Stall;
use table::Table;
use window::Windows;

/// What the bytes of a connection mean.
pub(crate) trait Protocol: fmt::Debug + Send + Sized {
    /// How messages name the operation that they belong to; unique among those in progress.
    type Tag: Copy + Eq + Hash + fmt::Debug + Send;
    /// What the protocol remembers of an operation.
    type Detail: fmt::Debug + Send;

    /// Bytes of the longest request: no more than that stays in the buffer of the client.
    const LONGEST_REQUEST: usize;
    /// Bytes of a read that a server may have read from its storage although they have not arrived here.
    const READ_AHEAD: u64;
    /// Whether clients that have waited for too long repeat a request under another tag, so that what was held for
    /// [`SessionLimits::max_hold`] must not be sent before.
    const IS_REPEATED: bool;

    /// Reads the start of one message of the client, all of it if it is a request. `Ok(false)`: more bytes are needed.
    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason>;

    /// Reads the start of one message of the server, and enough of it to know its meaning. `Ok(false)`: more bytes are
    /// needed.
    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason>;

    /// For a write that may be answered before it is stored: where its request says so, and what is to be there
    /// instead.
    fn stored_instead(_: &Self::Detail) -> Option<(usize, &'static [u8])> {
        None
    }

    /// The part of a whole request that is equal if its client repeats it.
    fn content(request: &[u8]) -> &[u8];

    /// The user that later requests belong to if they state none, for a session that continues this one.
    fn stated_user(&mut self) -> Option<Arc<User>>;
}

/// The state of a session, whatever its protocol.
#[derive(Debug)]
pub(crate) struct Core<P: Protocol> {
    pub(crate) limits: SessionLimits,
    pub(crate) requester: Requester,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) to_client: Outbound,
    to_server: Outbound,
    from_client: Inbound,
    from_server: Inbound,
    /// The bytes that the request at the start of the client's buffer lacks, if they need not be read.
    arriving: usize,
    /// They are there.
    is_there: bool,
    /// Answers given here that wait for the end of the server's message.
    answers: BytesMut,
    table: Table<P>,
    lines: Lines,
    windows: Windows,
    dispatched: VecDeque<OpId>,
    /// No request that was held is too old before this time.
    overdue_from: Option<Time>,
    next_watch: Option<Time>,
    stall: Stall,
    /// The time until which the next data of the client must wait.
    paused_until: Option<Time>,
    /// The steps of computation taken for the latest input, of [`Core::STEPS_AT_ONCE`].
    pub(crate) steps: u32,
    /// They were too many, so that bytes of the client or of the server are left.
    client_is_behind: bool,
    server_is_behind: bool,
    /// Since when the client is in the middle of a header or a request.
    incomplete_since: Option<Time>,
    client_done: bool,
    abandoned: bool,
    draining: bool,
    /// Another session is to continue this one.
    suspending: bool,
    /// Requests for that one; `None` if there is none, or not yet.
    unsent: Option<BytesMut>,
    closed: bool,
}

impl<P: Protocol> Core<P> {
    /// After this many steps of computation, about 100 µs, the session lets others have their turn. Usual requests take
    /// a handful, so only a series of long descriptions reaches it.
    const STEPS_AT_ONCE: u32 = 1 << 14;

    fn new(limits: SessionLimits, requester: Requester) -> Self {
        Self {
            limits,
            requester,
            actions: VecDeque::new(),
            to_client: Outbound::default(),
            to_server: Outbound::default(),
            from_client: Inbound::Header,
            from_server: Inbound::Header,
            arriving: 0,
            is_there: false,
            answers: BytesMut::new(),
            table: Table::default(),
            lines: Lines::default(),
            windows: Windows::default(),
            dispatched: VecDeque::new(),
            overdue_from: None,
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
            suspending: false,
            unsent: None,
            closed: false,
        }
    }

    /// The operation that messages with this tag belong to.
    pub(crate) fn find(&self, tag: P::Tag) -> Option<OpId> {
        self.table.find(tag)
    }

    /// An operation in progress.
    pub(crate) fn op(&self, id: OpId) -> &Op<P> {
        self.table.get(id)
    }

    /// The same, to change it.
    pub(crate) fn op_mut(&mut self, id: OpId) -> &mut Op<P> {
        self.table.get_mut(id)
    }

    /// Whether data of a write must not pass yet, because its next piece is not due.
    pub(crate) fn pauses(&mut self, now: Time, id: OpId) -> bool {
        self.paused_until = self.op(id).next_piece().filter(|due| *due > now);
        self.paused_until.is_some()
    }

    /// The next action; frees the queue of actions if it is empty and once held many.
    fn poll_action(&mut self) -> Option<Action> {
        let action = self.actions.pop_front();
        if action.is_none() && self.actions.capacity() > table::KEPT_OPS {
            self.actions = VecDeque::new();
        }
        action
    }

    /// Accepts no further requests.
    fn drain(&mut self) {
        self.draining = true;
        self.cancel_overdue();
    }

    /// Whether the client's bytes are looked at.
    fn takes_client(&self) -> bool {
        !self.closed && !self.abandoned && self.paused_until.is_none()
    }

    fn has_room_for_requests(&self) -> bool {
        let waiting = self.table.len() - self.table.overdue;
        !self.draining && waiting < self.limits.ops && self.table.held < self.limits.request_bytes
    }

    fn wants_client(&self) -> bool {
        debug_assert!(self.table.counts_are_right());
        !self.closed
            && !self.client_done
            && self.paused_until.is_none()
            && self.to_server.len() < self.limits.outbound_bytes
            && (self.awaits_rest(Side::Client) || self.has_room_for_requests())
    }

    /// True for the client even if no further request is accepted: dispatched requests wait for the end of its current
    /// message, and only their data frees the slots of dispatched writes. What another session gets must be whole.
    fn awaits_rest(&self, side: Side) -> bool {
        match side {
            Side::Client if self.from_client.is_rest() => self.suspending,
            Side::Client => self.from_client.is_passing() || self.table.awaiting_data > 0,
            Side::Server => self.from_server.is_passing(),
        }
    }

    fn wants_server(&self) -> bool {
        !self.closed && self.to_client.len() < self.limits.outbound_bytes
    }

    fn is_idle(&self) -> bool {
        self.table.is_empty()
            && self.to_client.is_empty()
            && self.to_server.is_empty()
            && !self.from_client.is_within_message()
            && !self.from_server.is_within_message()
    }

    fn remove(&mut self, id: OpId) -> Op<P> {
        let op = self.table.remove(id);
        if self.table.is_empty() && self.dispatched.capacity() > table::KEPT_OPS {
            self.dispatched = VecDeque::new();
        }
        op
    }

    /// A request that was not dispatched, or only when it was overdue, will not be sent.
    fn cancel(&mut self, id: OpId) {
        let op = self.remove(id);
        assert!(op.is_held(), "only an operation that was not sent is cancelled");
        if !self.leave_window(id, op.numbered) && self.cancel_in_line(id, op.order) {
            self.actions.push_back(Action::Cancel(id));
        }
    }

    fn cancel_queued(&mut self) {
        for id in self.table.ids_where(Op::is_held) {
            self.cancel(id);
        }
    }

    /// A dispatched operation ended.
    pub(crate) fn complete(&mut self, id: OpId, outcome: Outcome) {
        let op = self.remove(id);
        assert!(!op.is_held(), "only a dispatched operation is complete");
        let cost = op.final_cost(outcome).filter(|_| !op.is_released);
        self.actions.extend(cost.map(|cost| Action::CorrectCost(id, cost)));
        self.actions.push_back(Action::Complete(op.completed(id, outcome)));
        self.leave_window(id, op.numbered);
        self.enqueue_next(op.numbered);
    }

    fn abandon(&mut self) {
        if self.closed || self.abandoned {
            return;
        }
        (self.client_done, self.abandoned) = (true, true);
        (self.paused_until, self.incomplete_since) = (None, None);
        self.cancel_queued();
        self.lines = Lines::default();
        for id in std::mem::take(&mut self.dispatched) {
            self.complete(id, Outcome::Disconnected);
        }
    }

    fn end(&mut self) {
        self.cancel_queued();
        self.lines = Lines::default();
        // Nothing else ends operations that are dispatched but not sent.
        self.dispatched.clear();
        for id in self.table.ids_where(|_| true) {
            self.complete(id, Outcome::Disconnected);
        }
        self.to_server.clear();
        self.next_watch = None;
        self.paused_until = None;
        self.incomplete_since = None;
        self.closed = true;
    }

    /// The client broke the protocol.
    fn refuse_client(&mut self, reason: CloseReason) {
        self.abandon();
        self.to_client.clear();
        self.actions.push_back(Action::Close(reason));
    }

    /// The server broke the protocol.
    fn refuse_server(&mut self, reason: CloseReason) {
        self.end();
        self.to_client.clear();
        if !self.abandoned {
            self.actions.push_back(Action::Close(reason));
        }
    }
}

/// A well-formed message at the wrong time.
pub(crate) fn violation(side: Side, what: &'static str) -> CloseReason {
    CloseReason::Violation { side, what }
}

#[cfg(test)]
mod tests;
