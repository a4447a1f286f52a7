//! Time limits of operations.

use vpfs_core::Time;

use super::op::{Op, State};
use super::{Core, Protocol};
use crate::Outcome;

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
    pub(super) fn arm_watch(&mut self, now: Time) {
        if self.next_watch.is_none() && self.table.in_progress + self.dispatched.len() > 0 {
            let shortest = self.limits.flow_timeout.min(self.limits.reply_timeout);
            self.next_watch = Some(now + (shortest / 4).min(self.stall.patience / 2));
        }
    }

    /// Checks all operations if that is due.
    pub(super) fn watch(&mut self, now: Time) {
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
