//! Clients that stop to send or to read in the middle of an operation: what waits for them frees its slots, so that a
//! client that hangs stops nobody else.

use vpfs_core::Time;

use super::{Inbound, OrangeFsSession};
use crate::orangefs::op::{Op, State};
use crate::{Action, OpId, Session, SessionLimits};

/// The progress of the client.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// When it last sent something, or when something was first expected from it.
    moved: Time,
    /// The bytes that it had received at the latest check, and when it last received some.
    received: u64,
    received_at: Time,
}

impl Stall {
    /// The client sent something.
    pub(super) fn client_moved(&mut self, now: Time) {
        self.moved = now;
    }
}

impl OrangeFsSession {
    /// A write was acknowledged, so its data is next.
    pub(super) fn await_data(&mut self, now: Time, id: OpId) {
        if self.awaiting_data == 0 {
            // It could not send anything before.
            self.stall.moved = now;
        }
        self.awaiting_data += 1;
        if self.is_silent(now) {
            self.release(id);
        }
    }

    /// Frees the slots of all operations that wait for a client that has stalled. O(1) if it has not.
    pub(super) fn release_stalled(&mut self, now: Time) {
        if self.to_client.sent() != self.stall.received || self.wants_server() {
            (self.stall.received, self.stall.received_at) = (self.to_client.sent(), now);
        }
        let is_deaf = now.since(self.stall.received_at) >= SessionLimits::STALL;
        if is_deaf || self.is_silent(now) {
            for id in self.ids_where(|op| self.waits_for_client(op)) {
                self.release(id);
            }
        }
    }

    /// Whether the client has sent nothing for a while, although it is in the middle of a message or the data of a
    /// write is expected, and nothing else is in its way.
    fn is_silent(&self, now: Time) -> bool {
        now.since(self.stall.moved) >= SessionLimits::STALL && self.must_read_client() && self.is_listening()
    }

    /// Whether whatever the client sends is passed on at once.
    fn is_listening(&self) -> bool {
        self.to_server.is_empty() && self.paused_until.is_none()
    }

    /// Whether only the client can make an operation progress: by sending its data or the rest of the message before
    /// it, or by receiving what is queued for it.
    pub(super) fn waits_for_client(&self, op: &Op) -> bool {
        match op.state {
            State::Queued(_) => false,
            State::Dispatched(_) => matches!(self.from_client, Inbound::Body { .. }) && self.is_listening(),
            _ if op.awaits_client_data() => self.is_listening(),
            _ => !self.wants_server(),
        }
    }

    fn release(&mut self, id: OpId) {
        let op = self.op_mut(id);
        if op.kind.is_some() && !std::mem::replace(&mut op.is_released, true) {
            self.actions.push_back(Action::Release(id));
        }
    }
}
