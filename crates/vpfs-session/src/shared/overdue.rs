//! Requests that are held for longer than their clients wait for an answer.
//!
//! Such a client repeats its request with a new tag, and ignores the answer to the first one. If both were sent, the
//! operation would be done twice, and the first one would use the client's share for nothing. So what was held for
//! [`SessionLimits::max_hold`](crate::SessionLimits::max_hold) is not sent any more. It keeps its place in the order,
//! and its repetition takes that place, so a client gets as far as it has patience for all of its attempts together.
//!
//! If the turn of such a request comes before it is repeated, it is charged but has no slots, and goes as soon as it
//! is.

use bytes::Bytes;
use vpfs_core::Time;

use super::op::{Op, State};
use super::{Core, Protocol};
use crate::{Action, OpId};

impl<P: Protocol> Core<P> {
    /// Whether an operation was held for too long.
    pub(super) fn is_overdue(&self, now: Time, id: OpId) -> bool {
        P::IS_REPEATED && now >= self.overdue_at(self.op(id))
    }

    fn overdue_at(&self, op: &Op<P>) -> Time {
        op.asked + self.limits.max_hold
    }

    /// Its turn has come, but its client is about to repeat it.
    pub(super) fn wait_for_repetition(&mut self, id: OpId) {
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
    ///
    /// If a client has two equal requests in progress, the younger takes the place of the older by mistake, and the
    /// older is repeated as well: it is late, but done.
    pub(super) fn repeated(&mut self, now: Time, message: &[u8]) -> Option<OpId> {
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

    /// A request takes the place of an earlier one of the same content.
    pub(super) fn take_place(&mut self, now: Time, id: OpId, tag: P::Tag, message: Bytes) {
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

    /// When the next overdue operation is forgotten: its client would have repeated it.
    pub(super) fn overdue_deadline(&self) -> Option<Time> {
        if self.table.overdue == 0 {
            return None;
        }
        let overdue = self.table.iter().filter(|op| op.is_overdue());
        overdue.map(|op| self.overdue_at(op) + self.limits.max_hold).min()
    }

    pub(super) fn forget_overdue(&mut self, now: Time) {
        if self.overdue_deadline().is_some_and(|at| at <= now) {
            for id in self.table.ids_where(|op| op.is_overdue() && self.overdue_at(op) + self.limits.max_hold <= now) {
                self.cancel(id);
            }
        }
    }

    pub(super) fn cancel_overdue(&mut self) {
        if self.table.overdue > 0 {
            self.table.ids_where(Op::is_overdue).into_iter().for_each(|id| self.cancel(id));
        }
    }
}
