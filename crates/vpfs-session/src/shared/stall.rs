//! Clients that stop or trickle in the middle of an operation: what waits for them frees its slots, so that a client
//! that hangs stops nobody else.

use std::time::Duration;

use vpfs_core::Time;

use super::op::{Op, State};
use super::{Core, Protocol};
use crate::{Action, OpId, SessionLimits, Side};

/// For each operation that waits for it, a client must move this number of bytes in [`SessionLimits::PATIENCE`], or all
/// of the operation's data.
///
/// No network of a storage system is that slow, and a disk moves more with the random accesses of a slot. But a client
/// that sends a byte now and then, or one write's data while many others wait, does not keep their slots.
const LEAST: u64 = 64 << 10;

/// The progress of the client in one direction, while something is due.
#[derive(Debug, Default)]
struct Progress {
    /// When it last had moved enough.
    since: Time,
    /// Bytes still to move for the next time.
    needed: u64,
}

impl Progress {
    /// It may begin now, with `ops` operations that wait for it.
    fn restart(&mut self, now: Time, ops: usize) {
        *self = Self { since: now, needed: LEAST * ops.max(1) as u64 };
    }

    fn moved(&mut self, now: Time, bytes: u64, ops: usize) {
        self.needed = self.needed.saturating_sub(bytes);
        if self.needed == 0 {
            self.restart(now, ops);
        }
    }

    fn has_stalled(&self, now: Time, patience: Duration) -> bool {
        now.since(self.since) >= patience
    }
}

/// The progress of the client.
#[derive(Debug)]
pub(super) struct Stall {
    /// How long it may make no progress.
    pub(super) patience: Duration,
    sending: Progress,
    receiving: Progress,
    /// The bytes that it had received at the latest check.
    received: u64,
}

impl Default for Stall {
    fn default() -> Self {
        let [sending, receiving] = [Progress::default(), Progress::default()];
        Self { patience: SessionLimits::PATIENCE, sending, receiving, received: 0 }
    }
}

impl<P: Protocol> Core<P> {
    /// The client may send from now on: before, nothing was expected, or something else was in its way.
    pub(super) fn client_may_send(&mut self, now: Time) {
        self.stall.sending.restart(now, self.table.awaiting_data);
    }

    /// If earlier bytes of the client still wait for the server, it is not the client that is slow. Call before any are
    /// added.
    pub(super) fn excuse_client(&mut self, now: Time) {
        if !self.to_server.is_empty() {
            self.client_may_send(now);
        }
    }

    /// The client sent `bytes` bytes of a message, which are all that was due for an operation if `is_all`. Requests do
    /// not count: they complete nothing.
    pub(super) fn client_sent(&mut self, now: Time, bytes: usize, is_all: bool) {
        let bytes = if is_all { LEAST.max(bytes as u64) } else { bytes as u64 };
        self.stall.sending.moved(now, bytes, self.table.awaiting_data);
    }

    /// A write was acknowledged, so its data is next.
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

    /// Frees the slots of all operations that wait for a client that has stalled. O(1) if it has not.
    pub(super) fn release_stalled(&mut self, now: Time) {
        let received = self.to_client.sent();
        let count = received - std::mem::replace(&mut self.stall.received, received);
        match self.wants_server() {
            true => self.stall.receiving.restart(now, self.table.in_progress),
            false => self.stall.receiving.moved(now, count, self.table.in_progress),
        }
        if self.stall.receiving.has_stalled(now, self.stall.patience) || self.is_slow(now) {
            for id in self.table.ids_where(|op| self.waits_for_client(op)) {
                self.release(id);
            }
        }
    }

    /// Whether the client has sent next to nothing for a while, although it is in the middle of a message or the data
    /// of a write is expected, and nothing else is in its way.
    fn is_slow(&self, now: Time) -> bool {
        self.stall.sending.has_stalled(now, self.stall.patience)
            && self.awaits_rest(Side::Client)
            && self.is_listening()
    }

    /// Whether whatever the client sends is passed on at once.
    fn is_listening(&self) -> bool {
        self.to_server.is_empty() && self.paused_until.is_none()
    }

    /// Whether only the client can make an operation progress: by sending its data or the rest of the message before
    /// it, or by receiving what is queued for it.
    pub(super) fn waits_for_client(&self, op: &Op<P>) -> bool {
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
