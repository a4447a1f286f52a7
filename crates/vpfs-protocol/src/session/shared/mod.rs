//! The half of a session that every protocol shares: its streams, the table of its operations, and all rules about time
//! and limits (docs/decisions/0001-architecture.md).

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use vpfs_core::{Objects, Pieces, Time};

use crate::session::{
    Action, CloseReason, Next, OpId, Outbound, Outcome, Requester, SessionLimits, Side, Submission, User,
};

mod inbound;
mod op;
mod order;
mod session;
mod stall;

pub(crate) use inbound::{Meaning, kept};
pub(crate) use op::{Arriving, Class, OP_BYTES, Op, State, data_cost};
pub(crate) use order::{Numbered, Order};
pub(crate) use session::ProtocolSession;

use inbound::Inbound;
use op::{KEPT_OPS, Table};
use order::{Lines, Windows};
use stall::Stall;

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

    pub(crate) fn find(&self, tag: P::Tag) -> Option<OpId> {
        self.table.find(tag)
    }

    pub(crate) fn op(&self, id: OpId) -> &Op<P> {
        self.table.get(id)
    }

    pub(crate) fn op_mut(&mut self, id: OpId) -> &mut Op<P> {
        self.table.get_mut(id)
    }

    pub(crate) fn pauses(&mut self, now: Time, id: OpId) -> bool {
        self.paused_until = self.op(id).next_piece().filter(|due| *due > now);
        self.paused_until.is_some()
    }

    fn drain(&mut self) {
        self.draining = true;
        self.cancel_overdue();
    }

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
        if self.table.is_empty() && self.dispatched.capacity() > KEPT_OPS {
            self.dispatched = VecDeque::new();
        }
        op
    }

    /// A request that was not dispatched, or only when it was overdue, will not be sent.
    fn cancel(&mut self, id: OpId) {
        let op = self.remove(id);
        assert!(op.is_held(), "only an operation that was not sent is cancelled");
        if !self.windows.leave(id, op.numbered) && self.lines.cancel(id, op.order) {
            self.actions.push_back(Action::Cancel(id));
        }
    }

    fn cancel_queued(&mut self) {
        for id in self.table.ids_where(Op::is_held) {
            self.cancel(id);
        }
    }

    pub(crate) fn complete(&mut self, id: OpId, outcome: Outcome) {
        let op = self.remove(id);
        assert!(!op.is_held(), "only a dispatched operation is complete");
        let cost = op.final_cost(outcome).filter(|_| !op.is_released);
        self.actions.extend(cost.map(|cost| Action::CorrectCost(id, cost)));
        self.actions.push_back(Action::Complete(op.completed(id, outcome)));
        self.windows.leave(id, op.numbered);
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

    fn refuse_client(&mut self, reason: CloseReason) {
        self.abandon();
        self.to_client.clear();
        self.actions.push_back(Action::Close(reason));
    }

    fn refuse_server(&mut self, reason: CloseReason) {
        self.end();
        self.to_client.clear();
        if !self.abandoned {
            self.actions.push_back(Action::Close(reason));
        }
    }
}

/// Requests from their arrival to the server.
impl<P: Protocol> Core<P> {
    /// Whether a request is to be looked at; otherwise it is left to the session that continues this one, or to nobody
    /// if this one drains: its client finds the connection closed without an answer, as when a server ends. An error if
    /// there are too many.
    pub(crate) fn takes_request(&mut self, message: &[u8]) -> Result<bool, CloseReason> {
        let held = self.table.held + self.unsent_bytes();
        if self.table.len() >= self.limits.most_ops() || held >= self.limits.most_request_bytes(P::LONGEST_REQUEST) {
            return Err(violation(Side::Client, "too many requests while write data is expected"));
        }
        if let Some(unsent) = &mut self.unsent {
            unsent.extend_from_slice(message);
            return Ok(false);
        }
        Ok(!self.draining)
    }

    /// Whether a request that has arrived may be scheduled before all of it was read.
    fn leaves_unread(&self) -> bool {
        !self.suspending && !self.draining
    }

    /// The request at the start of the client's buffer, which needs no more than that to be scheduled, lacks `missing`
    /// bytes. Returns whether they are all there.
    pub(crate) fn arrives(&mut self, missing: usize) -> bool {
        if !self.is_there && self.leaves_unread() {
            self.arriving = missing;
        }
        self.is_there
    }

    pub(crate) fn has_exempt(&self) -> bool {
        self.table.unscheduled > 0
    }

    pub(crate) fn arrive(&mut self, now: Time, arriving: Arriving<P>) {
        let Arriving { tag, message, unread, class, detail, detail_bytes, carried, expected, order, numbered } =
            arriving;
        if matches!(class, Class::Scheduled(_))
            && let Some(earlier) = self.repeated(now, &message)
        {
            return self.take_place(now, earlier, tag, message);
        }
        let (kind, cost) = match &class {
            Class::Exempt => (None, vpfs_core::Bytes::ZERO),
            Class::Scheduled(submission) => (Some(submission.kind), submission.cost),
        };
        let id = self.table.insert(Op {
            tag,
            detail,
            kind,
            cost,
            held: OP_BYTES + message.len() + detail_bytes,
            state: State::Queued(message),
            rest: None,
            carried,
            expected,
            order,
            numbered,
            moved: 0,
            is_uncounted: false,
            is_stored: false,
            is_released: false,
            pieces: None,
            arrived: now,
            asked: now,
            dispatched: now,
            progressed: now,
        });
        if unread > 0 {
            self.from_client = Inbound::Rest { remaining: unread, op: id };
        }
        self.windows.enter(id, numbered);
        match class {
            Class::Exempt => self.dispatch(now, id, None),
            Class::Scheduled(submission) => self.enqueue(id, submission),
        }
    }

    /// Changes the word of a queued write by which the server may answer before it has stored.
    fn ask_to_store(&mut self, id: OpId) {
        if !self.table.contains(id) {
            return;
        }
        let op = self.table.get_mut(id);
        let (Some((at, instead)), State::Queued(request)) = (P::stored_instead(&op.detail), &mut op.state) else {
            return;
        };
        // What is around it is shared with buffers and not copied.
        let behind = request.split_off(at + instead.len());
        request.truncate(at);
        op.rest.get_or_insert_default().0.splice(..0, [Bytes::from_static(instead), behind]);
    }

    fn dispatch(&mut self, now: Time, id: OpId, pieces: Option<Pieces>) {
        if self.closed || !self.table.contains(id) {
            return;
        }
        if self.is_overdue(now, id) {
            return self.wait_for_repetition(id);
        }
        let op = self.op_mut(id);
        op.pieces = pieces;
        let State::Queued(request) = std::mem::replace(&mut op.state, State::Sent) else {
            panic!("dispatched an operation that is not queued");
        };
        op.state = State::Dispatched(request);
        self.dispatched.push_back(id);
        self.send_dispatched(now);
        self.release_stalled(now);
        self.arm_watch(now);
    }

    /// Sends dispatched requests, unless the client is in the middle of a message: messages never interleave.
    fn send_dispatched(&mut self, now: Time) {
        if self.from_client.is_passing() {
            return;
        }
        while let Some(id) = self.dispatched.pop_front() {
            let op = self.table.get_mut(id);
            let State::Dispatched(request) = std::mem::replace(&mut op.state, State::Sent) else {
                unreachable!("only dispatched operations are in this list")
            };
            let (order, rest) = (op.order, op.rest.take());
            op.dispatched = now;
            op.progressed = now;
            op.moved += op.carried;
            self.table.in_progress += 1;
            for part in std::iter::once(request).chain(rest.into_iter().flat_map(|rest| rest.0)) {
                self.table.let_go(id, part.len());
                self.to_server.push(part);
            }
            self.lines.leave(order, &mut self.actions);
            if let Inbound::Rest { remaining, op } = self.from_client
                && op == id
            {
                self.client_may_send(now);
                self.from_client = Inbound::Body { remaining, meaning: Meaning::Stray };
                break;
            }
        }
        self.arm_watch(now);
    }

    pub(crate) fn correct_objects(&mut self, id: OpId, objects: Objects) {
        if self.op(id).is_charged() {
            self.actions.push_back(Action::CorrectObjects(id, objects));
        }
    }

    fn correct(&mut self, id: OpId, bytes: u64) {
        let cost = data_cost(bytes);
        let op = self.op_mut(id);
        op.cost = cost;
        if op.is_charged() {
            self.actions.push_back(Action::CorrectCost(id, cost));
        }
    }

    pub(crate) fn is_ahead(&self, numbered: Numbered) -> bool {
        self.windows.holds_back(numbered)
    }

    fn enqueue(&mut self, id: OpId, submission: Submission) {
        let Op { numbered, order, .. } = *self.op(id);
        let submission = self.windows.admit(id, numbered, submission);
        let submission = submission.and_then(|submission| self.lines.enter(id, order, submission));
        self.actions.extend(submission.map(|submission| Action::Enqueue(id, submission)));
    }

    fn enqueue_next(&mut self, numbered: Option<Numbered>) {
        let Some(Numbered { sequence, .. }) = numbered else { return };
        while let Some((id, submission)) = self.windows.next(sequence) {
            let order = self.op(id).order;
            let submission = self.lines.enter(id, order, submission);
            self.actions.extend(submission.map(|submission| Action::Enqueue(id, submission)));
        }
    }
}

/// Messages that pass: each is sent on as it arrives, and ends what it belongs to.
impl<P: Protocol> Core<P> {
    /// Passes the message at the start of the client's `buf`: `head` bytes of it now, `body` bytes as they come, which
    /// are those that count.
    pub(crate) fn pass_client(&mut self, now: Time, buf: &mut BytesMut, [head, body]: [usize; 2], meaning: Meaning) {
        if !self.awaits_rest(Side::Client) {
            self.client_may_send(now);
        }
        self.to_server.push(buf.split_to(head).freeze());
        self.from_client = Inbound::Body { remaining: body, meaning };
    }

    pub(crate) fn pass_server(&mut self, buf: &mut BytesMut, [head, body]: [usize; 2], meaning: Meaning) {
        self.to_client.push(buf.split_to(head).freeze());
        self.from_server = Inbound::Body { remaining: body, meaning };
    }

    pub(crate) fn progressed(&mut self, now: Time, id: OpId) {
        self.op_mut(id).progressed = now;
    }

    pub(crate) fn read_in_reply(&mut self, id: OpId, bytes: u64) {
        self.op_mut(id).moved = bytes;
        self.correct(id, bytes);
    }

    /// A read was acknowledged, and `bytes` bytes of data follow.
    pub(crate) fn read_acknowledged(&mut self, id: OpId, bytes: u64) -> Meaning {
        self.correct(id, bytes);
        if bytes == 0 {
            return Meaning::Last { op: id, status: 0 };
        }
        self.op_mut(id).state = State::Reading { remaining: bytes };
        Meaning::Ack
    }

    /// A read was acknowledged, and nobody can say how much data follows: it is complete, and its cost stays as it was
    /// estimated.
    pub(crate) fn uncounted(&mut self, id: OpId) -> Meaning {
        self.leave_uncounted(id);
        Meaning::Last { op: id, status: 0 }
    }

    pub(crate) fn leave_uncounted(&mut self, id: OpId) {
        self.op_mut(id).is_uncounted = true;
    }

    pub(crate) fn next(&self, side: Side) -> Next {
        match side {
            Side::Client if !self.takes_client() => Next::Unknown,
            Side::Client if self.arriving > 0 => Next::Arriving(self.arriving),
            Side::Client => self.from_client.next(),
            Side::Server if self.closed || self.abandoned => Next::Unknown,
            Side::Server => self.from_server.next(),
        }
    }

    /// The rest of a request whose turn has not come is read, so that those behind it need not wait for that. `false`:
    /// more bytes are needed.
    fn client_rest(&mut self, buf: &mut BytesMut) -> bool {
        let Inbound::Rest { remaining, op } = self.from_client else { return true };
        let count = remaining.min(buf.len());
        if count == 0 {
            return false;
        }
        let part = kept(buf.split_to(count));
        self.table.hold(op, part.len());
        self.op_mut(op).rest.get_or_insert_default().0.push(part);
        self.from_client = match remaining - count {
            0 => Inbound::Header,
            remaining => Inbound::Rest { remaining, op },
        };
        true
    }

    fn client_body(&mut self, now: Time, buf: &mut BytesMut) -> bool {
        let Inbound::Body { remaining, .. } = self.from_client else { return true };
        let count = remaining.min(buf.len());
        if count == 0 && remaining > 0 {
            return false;
        }
        self.to_server.push(buf.split_to(count).freeze());
        self.client_passed(now, count);
        true
    }

    fn client_passed(&mut self, now: Time, count: usize) {
        let Inbound::Body { remaining, meaning } = self.from_client else { return };
        let awaiting = self.table.awaiting_data;
        if let Meaning::Data(id) = meaning {
            self.table.moved(now, id, count);
        }
        self.client_sent(now, count, self.table.awaiting_data < awaiting);
        self.from_client = match remaining - count {
            0 => Inbound::Header,
            remaining => Inbound::Body { remaining, meaning },
        };
        self.send_dispatched(now);
    }

    fn server_body(&mut self, now: Time, buf: &mut BytesMut) -> bool {
        let Inbound::Body { remaining, .. } = self.from_server else { return true };
        let count = remaining.min(buf.len());
        if count == 0 && remaining > 0 {
            return false;
        }
        self.to_client.push(buf.split_to(count).freeze());
        self.server_passed(now, count);
        true
    }

    fn server_passed(&mut self, now: Time, count: usize) {
        let Inbound::Body { remaining, meaning } = self.from_server else { return };
        if let Meaning::Data(id) = meaning {
            self.table.moved(now, id, count);
        }
        match remaining - count {
            0 => self.server_message_end(meaning),
            remaining => self.from_server = Inbound::Body { remaining, meaning },
        }
    }

    fn server_message_end(&mut self, meaning: Meaning) {
        self.from_server = Inbound::Header;
        self.send_answers();
        match meaning {
            Meaning::Data(id) if self.table.has_read_all(id) => self.complete(id, Outcome::Answered { status: 0 }),
            Meaning::Last { op, status } if self.table.contains(op) => self.complete(op, Outcome::Answered { status }),
            _ => {}
        }
    }
}

/// Answers to requests that are not passed on.
impl<P: Protocol> Core<P> {
    /// Sends this whole message to the client in place of the server.
    pub(crate) fn answer(&mut self, message: &[u8]) -> Result<(), CloseReason> {
        // Nothing else bounds them: other requests wait in the table of operations while replies are not taken.
        if self.to_client.len() + self.answers.len() >= self.limits.outbound_bytes {
            return Err(violation(Side::Client, "refused requests whose answers are not taken"));
        }
        self.answers.extend_from_slice(message);
        self.send_answers();
        Ok(())
    }

    /// Sends these answers, unless the server is in the middle of a message: messages never interleave.
    fn send_answers(&mut self) {
        if !self.from_server.is_passing() {
            self.to_client.push(std::mem::take(&mut self.answers).freeze());
        }
    }
}

/// Requests that are held for longer than their clients wait for an answer.
///
/// Such a client repeats its request with a new tag, and ignores the answer to the first one. If both were sent, the
/// operation would be done twice. So what was held for [`SessionLimits::max_hold`] is not sent until it is repeated:
/// the repetition takes its place in the order. If its turn comes before, it is charged but has no slots.
impl<P: Protocol> Core<P> {
    fn is_overdue(&self, now: Time, id: OpId) -> bool {
        P::IS_REPEATED && now >= self.overdue_at(self.op(id))
    }

    fn overdue_at(&self, op: &Op<P>) -> Time {
        op.asked + self.limits.max_hold
    }

    /// Its turn has come, but its client is about to repeat it.
    fn wait_for_repetition(&mut self, id: OpId) {
        let op = self.op_mut(id);
        let State::Queued(request) = std::mem::replace(&mut op.state, State::Sent) else {
            panic!("dispatched an operation that is not queued");
        };
        op.state = State::Overdue(request);
        op.is_released = true;
        self.table.overdue += 1;
        self.actions.push_back(Action::Overdue(id));
        if self.draining {
            self.cancel(id);
        }
    }

    /// The operation that was held for too long and that this request repeats. O(1) unless there are such operations.
    /// Of two equal requests in progress, the younger takes the place of the older by mistake: that one is late, but
    /// done.
    fn repeated(&mut self, now: Time, message: &[u8]) -> Option<OpId> {
        if !P::IS_REPEATED {
            return None;
        }
        self.overdue_from.get_or_insert(now + self.limits.max_hold);
        if self.overdue_from.is_some_and(|from| now < from) {
            return None;
        }
        let is_late = |op: &Op<P>| op.is_held() && now >= self.overdue_at(op);
        let is_same = |op: &Op<P>| match &op.state {
            State::Queued(held) | State::Overdue(held) => P::content(held) == P::content(message),
            _ => false,
        };
        let found = self.table.ids_where(|op| is_late(op) && is_same(op)).first().copied();
        let held = self.table.iter().filter(|op| op.is_held());
        self.overdue_from = held.map(|op| self.overdue_at(op)).min();
        found
    }

    fn take_place(&mut self, now: Time, id: OpId, tag: P::Tag, message: Bytes) {
        self.table.rename(id, tag);
        let op = self.op_mut(id);
        op.asked = now;
        match &mut op.state {
            State::Queued(request) => *request = message,
            state => *state = State::Dispatched(message),
        }
        let is_due = matches!(op.state, State::Dispatched(_));
        self.actions.push_back(Action::Repeated);
        if is_due {
            self.table.overdue -= 1;
            self.dispatched.push_back(id);
            self.send_dispatched(now);
        }
    }

    fn overdue_deadline(&self) -> Option<Time> {
        if self.table.overdue == 0 {
            return None;
        }
        let overdue = self.table.iter().filter(|op| op.is_overdue());
        overdue.map(|op| self.overdue_at(op) + self.limits.max_hold).min()
    }

    fn forget_overdue(&mut self, now: Time) {
        if self.overdue_deadline().is_some_and(|at| at <= now) {
            for id in self.table.ids_where(|op| op.is_overdue() && self.overdue_at(op) + self.limits.max_hold <= now) {
                self.cancel(id);
            }
        }
    }

    fn cancel_overdue(&mut self) {
        if self.table.overdue > 0 {
            self.table.ids_where(Op::is_overdue).into_iter().for_each(|id| self.cancel(id));
        }
    }
}

/// Clients that stop or trickle in the middle of an operation: what waits for them frees its slots.
impl<P: Protocol> Core<P> {
    /// The client may send from now on: before, nothing was expected, or something else was in its way.
    fn client_may_send(&mut self, now: Time) {
        self.stall.may_send(now, self.table.awaiting_data);
    }

    /// If earlier bytes of the client still wait for the server, it is not the client that is slow. Call before any are
    /// added.
    fn excuse_client(&mut self, now: Time) {
        if !self.to_server.is_empty() {
            self.client_may_send(now);
        }
    }

    /// The client sent `bytes` bytes of a message, which are all that was due for an operation if `is_all`.
    fn client_sent(&mut self, now: Time, bytes: usize, is_all: bool) {
        self.stall.sent(now, bytes, is_all, self.table.awaiting_data);
    }

    pub(crate) fn write_acknowledged(&mut self, now: Time, id: OpId) {
        let op = self.op_mut(id);
        op.state = State::Writing;
        if !op.awaits_client_data() {
            return;
        }
        if !self.awaits_rest(Side::Client) {
            self.client_may_send(now);
        }
        self.table.awaiting_data += 1;
        if self.is_slow(now) {
            self.release(id);
        }
    }

    fn release_stalled(&mut self, now: Time) {
        let is_due = !self.wants_server();
        self.stall.received(now, self.to_client.sent(), is_due, self.table.in_progress);
        if self.stall.does_not_receive(now) || self.is_slow(now) {
            for id in self.table.ids_where(|op| self.waits_for_client(op)) {
                self.release(id);
            }
        }
    }

    /// Whether the client has sent next to nothing for a while, although it is in the middle of a message or the data
    /// of a write is expected, and nothing else is in its way.
    fn is_slow(&self, now: Time) -> bool {
        self.stall.does_not_send(now) && self.awaits_rest(Side::Client) && self.is_listening()
    }

    fn is_listening(&self) -> bool {
        self.to_server.is_empty() && self.paused_until.is_none()
    }

    /// Whether only the client can make an operation progress: by sending its data or the rest of the message before
    /// it, or by receiving what is queued for it.
    fn waits_for_client(&self, op: &Op<P>) -> bool {
        match op.state {
            State::Queued(_) | State::Overdue(_) => false,
            State::Dispatched(_) => self.from_client.is_passing() && self.is_listening(),
            _ if op.awaits_client_data() => self.is_listening(),
            _ => !self.wants_server(),
        }
    }

    fn release(&mut self, id: OpId) {
        let op = self.op_mut(id);
        if op.is_charged() {
            op.is_released = true;
            self.actions.push_back(Action::Release(id));
        }
    }
}

/// Clients that begin a message and do not complete its header or its request: they are disconnected after a while, as
/// real servers do it. The data of writes is not covered: see above.
impl<P: Protocol> Core<P> {
    /// All complete messages were handled, and `left` bytes of the client remain.
    fn note_incomplete(&mut self, now: Time, left: usize) {
        let is_incomplete = left > 0
            && !self.closed
            && !self.client_done
            && self.paused_until.is_none()
            && !self.from_client.is_passing();
        // Further bytes do not extend the time limit; only the end of the message does.
        self.incomplete_since = is_incomplete.then(|| self.incomplete_since.unwrap_or(now));
    }

    fn request_deadline(&self) -> Option<Time> {
        self.incomplete_since.map(|since| since + self.limits.request_timeout)
    }
}

impl<P: Protocol> Core<P> {
    /// When an operation times out; `None` while it is not sent, or if no reply is expected.
    fn deadline(&self, op: &Op<P>) -> Option<Time> {
        let patience = match op.state {
            State::Queued(_) | State::Dispatched(_) | State::Overdue(_) => return None,
            _ if self.waits_for_client(op) => self.limits.stall_timeout,
            State::Sent => self.limits.reply_timeout,
            // All data was sent: the server is busy storing it.
            State::Writing if !op.awaits_client_data() => self.limits.reply_timeout,
            State::Writing | State::Reading { .. } => self.limits.flow_timeout,
        };
        Some(op.progressed + patience)
    }

    /// Ensures that operations in progress are checked regularly: often enough for stalled clients and for the shorter
    /// of the timeouts, without a timer for each operation.
    fn arm_watch(&mut self, now: Time) {
        if self.next_watch.is_none() && self.table.in_progress + self.dispatched.len() > 0 {
            let shortest = self.limits.flow_timeout.min(self.limits.reply_timeout);
            self.next_watch = Some(now + (shortest / 4).min(self.stall.patience / 2));
        }
    }

    fn watch(&mut self, now: Time) {
        if self.closed || self.next_watch.is_none_or(|at| now < at) {
            return;
        }
        self.excuse_client(now);
        self.release_stalled(now);
        for id in self.table.ids_where(|op| self.deadline(op).is_some_and(|at| at <= now)) {
            self.complete(id, Outcome::TimedOut);
        }
        self.next_watch = None;
        self.arm_watch(now);
    }
}

/// A session that continues in another process: what was sent to the server is completed here, the rest is left to it.
impl<P: Protocol> Core<P> {
    /// Cancels the requests that were not dispatched and keeps their bytes; data in pieces no longer waits.
    fn take_back_requests(&mut self, now: Time) {
        self.drain();
        let mut queued = self.table.ids_where(Op::is_held);
        queued.sort_by_key(|&id| Reverse(self.table.age(id)));
        let mut unsent = BytesMut::new();
        for id in queued {
            let op = self.op(id);
            if let State::Queued(request) = &op.state {
                let rest = op.rest.iter().flat_map(|rest| &rest.0);
                std::iter::once(request).chain(rest).for_each(|part| unsent.extend_from_slice(part));
            }
            self.cancel(id);
        }
        self.unsent = Some(unsent);
        for op in self.table.iter_mut() {
            op.pieces = None;
        }
        if self.paused_until.take().is_some() {
            self.client_may_send(now);
        }
    }

    fn unsent_bytes(&self) -> usize {
        self.unsent.as_ref().map_or(0, BytesMut::len)
    }

    /// Ends the session, in which nothing is in progress, and returns the requests for the next one.
    fn suspended(&mut self) -> Bytes {
        self.closed = true;
        self.unsent.take().unwrap_or_default().freeze()
    }
}

pub(crate) fn violation(side: Side, what: &'static str) -> CloseReason {
    CloseReason::Violation { side, what }
}
