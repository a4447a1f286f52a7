//! The table of operations: numbers by tag, endings, and timeouts.

use std::collections::VecDeque;

use vpfs_core::Time;

use super::{Inbound, Meaning, OrangeFsSession};
use crate::orangefs::op::{Op, Reply, State};
use crate::{Action, CloseReason, OpId, Outcome, Session};

/// A session without operations keeps tables with room for this number of them.
const KEPT_OPS: usize = 16;

impl OrangeFsSession {
    pub(super) fn insert(&mut self, op: Op) -> OpId {
        let id = self.free.pop().unwrap_or_else(|| {
            let id = u32::try_from(self.ops.len()).expect("operations are bounded by the limits");
            self.ops.push(None);
            OpId(id)
        });
        self.held += op.held;
        self.unscheduled += usize::from(op.kind.is_none());
        let same_tag = self.by_tag.insert(op.tag, id);
        let same_id = self.ops[id.index()].replace(op);
        assert!(same_tag.is_none() && same_id.is_none(), "tags and numbers in use are unique");
        id
    }

    pub(super) fn op_ref(&self, id: OpId) -> &Op {
        self.ops[id.index()].as_ref().expect("an operation that is in progress")
    }

    pub(super) fn op_mut(&mut self, id: OpId) -> &mut Op {
        self.ops[id.index()].as_mut().expect("an operation that is in progress")
    }

    /// Operations in the order of their numbers, so that equal inputs give equal actions.
    pub(super) fn ids_where(&self, condition: impl Fn(&Op) -> bool) -> Vec<OpId> {
        let mut ids: Vec<OpId> = self.by_tag.values().copied().filter(|&id| condition(self.op_ref(id))).collect();
        ids.sort_unstable();
        ids
    }

    /// Whether the running counts match the table; for debug assertions.
    pub(super) fn counts_are_right(&self) -> bool {
        let count = |condition: fn(&Op) -> bool| self.ops.iter().flatten().filter(|op| condition(op)).count();
        let held: usize = self.ops.iter().flatten().map(|op| op.held).sum();
        self.in_progress == count(Op::is_sent)
            && self.awaiting_data == count(Op::awaits_client_data)
            && self.overdue == count(Op::is_overdue)
            && self.unscheduled == count(|op| op.kind.is_none())
            && self.held == held
    }

    /// Forgets an operation; a message of it that is currently passing continues without it.
    fn remove(&mut self, id: OpId) -> Op {
        let op = self.ops[id.index()].take().expect("an operation that is in progress");
        let known = self.by_tag.remove(&op.tag);
        assert_eq!(known, Some(id), "an operation is known by its tag");
        let (is_sent, awaits_data) = (usize::from(op.is_sent()), usize::from(op.awaits_client_data()));
        assert!(
            self.held >= op.held && self.in_progress >= is_sent && self.awaiting_data >= awaits_data,
            "an operation that ends was counted"
        );
        self.overdue -= usize::from(op.is_overdue());
        self.unscheduled -= usize::from(op.kind.is_none());
        self.held -= op.held;
        self.in_progress -= is_sent;
        self.awaiting_data -= awaits_data;
        for inbound in [&mut self.from_client, &mut self.from_server] {
            if let Inbound::Body { meaning, .. } = inbound
                && meaning.is_of(id)
            {
                *meaning = Meaning::Stray;
            }
        }
        self.free.push(id);
        self.forget_tables();
        op
    }

    /// Frees the tables of a session that has no operations but once had many: thousands of sessions may be idle.
    fn forget_tables(&mut self) {
        let counted = self.held + self.in_progress + self.awaiting_data;
        assert!(!self.by_tag.is_empty() || counted == 0, "nothing is counted without operations");
        if self.by_tag.is_empty() && self.ops.capacity() > KEPT_OPS {
            (self.ops, self.free, self.by_tag) = Default::default();
            self.dispatched = VecDeque::new();
        }
    }

    /// Frees the queue of actions, which is empty, if it once held many.
    pub(super) fn forget_actions(&mut self) {
        if self.actions.capacity() > KEPT_OPS {
            self.actions = VecDeque::new();
        }
    }

    /// A request that was not dispatched, or only when it was overdue, will not be sent.
    pub(super) fn cancel(&mut self, id: OpId) {
        let op = self.remove(id);
        assert!(op.is_held(), "only an operation that was not sent is cancelled");
        self.actions.push_back(Action::Cancel(id));
    }

    /// A dispatched operation ended.
    pub(super) fn complete(&mut self, id: OpId, outcome: Outcome) {
        let op = self.remove(id);
        assert!(!op.is_held(), "only a dispatched operation is complete");
        let cost = op.final_cost(outcome).filter(|_| !op.is_released);
        self.actions.extend(cost.map(|cost| Action::CorrectCost(id, cost)));
        self.actions.push_back(Action::Complete(op.completed(id, outcome)));
    }

    pub(super) fn moved(&mut self, now: Time, id: OpId, bytes: usize) {
        let op = self.op_mut(id);
        let awaited = op.awaits_client_data();
        op.moved += bytes as u64;
        op.progressed = now;
        if let State::Reading { remaining } = &mut op.state {
            *remaining = remaining.saturating_sub(bytes as u64);
        }
        let is_all = awaited && !op.awaits_client_data();
        assert!(self.awaiting_data >= usize::from(is_all), "a write that awaits data is counted");
        self.awaiting_data -= usize::from(is_all);
    }

    /// When an operation times out; `None` while it is not sent, or if no reply is expected.
    pub(super) fn deadline(&self, op: &Op) -> Option<Time> {
        let patience = match (&op.state, &op.reply) {
            (State::Queued(_) | State::Dispatched(_) | State::Overdue(_), _) => return None,
            _ if self.waits_for_client(op) => self.limits.stall_timeout,
            (State::Sent, _) => self.limits.reply_timeout,
            // All data was sent: the server is busy storing it.
            (State::Writing, Reply::Write { expected }) if op.moved >= *expected => self.limits.reply_timeout,
            (State::Writing | State::Reading { .. }, _) => self.limits.flow_timeout,
        };
        Some(op.progressed + patience)
    }

    /// Ensures that operations in progress are checked regularly: often enough for stalled clients and for the shorter
    /// of the timeouts, without a timer for each operation.
    pub(super) fn arm_watch(&mut self, now: Time) {
        if self.next_watch.is_none() && self.in_progress + self.dispatched.len() > 0 {
            let shortest = self.limits.flow_timeout.min(self.limits.reply_timeout);
            self.next_watch = Some(now + (shortest / 4).min(self.stall.patience / 2));
        }
    }

    pub(super) fn cancel_queued(&mut self) {
        for id in self.ids_where(Op::is_held) {
            self.cancel(id);
        }
    }

    /// The client broke the protocol.
    pub(super) fn refuse_client(&mut self, reason: CloseReason) {
        self.abandon();
        self.to_client.clear();
        self.actions.push_back(Action::Close(reason));
    }

    /// The server broke the protocol.
    pub(super) fn refuse_server(&mut self, reason: CloseReason) {
        self.end();
        self.to_client.clear();
        if !self.abandoned {
            self.actions.push_back(Action::Close(reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::BytesMut;
    use vpfs_wire::bmi::{Tag, reply_message, request_message};
    use vpfs_wire::pvfs2::{Handle, Op as OpCode, Reply, Request, RequestBody, request};

    use super::*;
    use crate::Requester;
    use crate::SessionLimits;
    use crate::orangefs::AddressMap;

    const BURST: u64 = 200;

    /// Symptom: a connection that once had many operations in progress kept their tables. Cause: these were freed only
    /// beyond the limit of operations.
    #[test]
    fn a_session_without_operations_keeps_no_large_table() {
        let flush = RequestBody::Flush(request::Flush { handle: Handle(7), fs: 1, flags: 0 });
        let (request, reply) = (Request::bare(flush).encode(), Reply::done(OpCode::Flush).encode());
        let mut session =
            OrangeFsSession::new(SessionLimits::default(), Requester::Server, Arc::new(AddressMap::default()));
        let mut enqueued = Vec::new();
        for tag in 1..=BURST {
            let mut message = BytesMut::from(&request_message(Tag(tag), &request).unwrap()[..]);
            session.handle_client(Time::ZERO, &mut message);
        }
        while let Some(Action::Enqueue(op, _)) = session.poll_action() {
            enqueued.push(op);
        }
        assert_eq!(enqueued.len() as u64, BURST);
        enqueued.into_iter().for_each(|op| session.dispatch(Time::ZERO, op, None));
        for tag in 1..=BURST {
            let mut message = BytesMut::from(&reply_message(Tag(tag), &reply).unwrap()[..]);
            session.handle_server(Time::ZERO, &mut message);
        }
        while session.poll_action().is_some() {}
        for out in [&mut session.to_server, &mut session.to_client] {
            out.advance(out.len());
        }
        assert!(session.is_idle());
        let tables = [session.ops.capacity(), session.free.capacity(), session.by_tag.capacity()];
        let queues = [session.actions.capacity(), session.dispatched.capacity()];
        assert!(tables.iter().chain(&queues).all(|capacity| *capacity <= KEPT_OPS), "{tables:?} {queues:?}");
    }
}
