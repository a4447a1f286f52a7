//! Whether a client stops or trickles in the middle of an operation.

use std::time::Duration;

use vpfs_core::Time;

use crate::session::SessionLimits;

/// For each operation that waits for it, a client must move this number of bytes in [`SessionLimits::PATIENCE`], or
/// all of the operation's data. No network of a storage system is that slow, but a client that sends a byte now and
/// then does not keep the slots.
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

#[derive(Debug)]
pub(super) struct Stall {
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

impl Stall {
    pub(super) fn may_send(&mut self, now: Time, ops: usize) {
        self.sending.restart(now, ops);
    }

    /// `is_all`: they are all that was due for an operation.
    pub(super) fn sent(&mut self, now: Time, bytes: usize, is_all: bool, ops: usize) {
        let bytes = if is_all { LEAST.max(bytes as u64) } else { bytes as u64 };
        self.sending.moved(now, bytes, ops);
    }

    /// The client has received `received` bytes since the start; `is_due`: more are queued for it.
    pub(super) fn received(&mut self, now: Time, received: u64, is_due: bool, ops: usize) {
        let count = received - std::mem::replace(&mut self.received, received);
        if is_due {
            self.receiving.moved(now, count, ops);
        } else {
            self.receiving.restart(now, ops);
        }
    }

    pub(super) fn does_not_send(&self, now: Time) -> bool {
        self.sending.has_stalled(now, self.patience)
    }

    pub(super) fn does_not_receive(&self, now: Time) -> bool {
        self.receiving.has_stalled(now, self.patience)
    }
}
