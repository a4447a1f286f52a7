//! Requests from their arrival to the server.

use bytes::Bytes;
use vpfs_core::{Objects, Pieces, Time};

use super::op::{Op, State, data_cost};
use super::passing::Inbound;
use super::{Core, Meaning, Numbered, Order, Protocol, violation};
use crate::{Action, CloseReason, OpId, Side, Submission};

/// Bytes that an operation takes up in the tables of session, driver and scheduler, besides its request.
pub(crate) const OP_BYTES: usize = 512;

/// Whether a request is scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Sent at once.
    Exempt,
    /// Waits to be scheduled.
    Scheduled(Submission),
}

/// A whole request.
#[derive(Debug)]
pub(crate) struct Arriving<P: Protocol> {
    /// Of no operation in progress.
    pub(crate) tag: P::Tag,
    /// What is sent to the server, as far as it was read,
    pub(crate) message: Bytes,
    /// and the number of bytes behind that, which are there. Zero if it is sent at once.
    pub(crate) unread: usize,
    pub(crate) class: Class,
    pub(crate) detail: P::Detail,
    /// Bytes of memory that the detail takes up besides itself.
    pub(crate) detail_bytes: usize,
    /// Data bytes of a write in the request itself.
    pub(crate) carried: u64,
    /// Data bytes of a write that the client sends after the acknowledgement.
    pub(crate) expected: u64,
    /// What it must not overtake; `None` if nothing, as for all that is sent at once.
    pub(crate) order: Option<Order>,
    /// What must not be left too far behind.
    pub(crate) numbered: Option<Numbered>,
}

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
    pub(super) fn leaves_unread(&self) -> bool {
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

    /// Whether an operation that was sent at once is in progress.
    pub(crate) fn has_exempt(&self) -> bool {
        self.table.unscheduled > 0
    }

    /// Sends a request at once or has it scheduled.
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
        self.enter_window(id);
        match class {
            Class::Exempt => self.dispatch(now, id, None),
            Class::Scheduled(submission) => self.enqueue(id, submission),
        }
    }

    /// Changes the word of a queued write by which the server may answer before it has stored.
    pub(super) fn ask_to_store(&mut self, id: OpId) {
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

    pub(super) fn dispatch(&mut self, now: Time, id: OpId, pieces: Option<Pieces>) {
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
    pub(super) fn send_dispatched(&mut self, now: Time) {
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
            self.leave_line(order);
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

    /// Reports to the scheduler how many objects a metadata operation really works on.
    pub(crate) fn correct_objects(&mut self, id: OpId, objects: Objects) {
        if self.op(id).is_charged() {
            self.actions.push_back(Action::CorrectObjects(id, objects));
        }
    }

    /// Reports to the scheduler how much a data operation really moves.
    pub(super) fn correct(&mut self, id: OpId, bytes: u64) {
        let cost = data_cost(bytes);
        let op = self.op_mut(id);
        op.cost = cost;
        if op.is_charged() {
            self.actions.push_back(Action::CorrectCost(id, cost));
        }
    }
}
