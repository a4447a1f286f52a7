//! Clients that begin a message and do not complete its header or its request: they are disconnected after a while, as
//! real servers do it. The data of writes is not covered, see `stall.rs`.

use vpfs_core::Time;

use super::{Core, Protocol};

impl<P: Protocol> Core<P> {
    /// All complete messages were handled, and `left` bytes of the client remain.
    pub(super) fn note_incomplete(&mut self, now: Time, left: usize) {
        let is_incomplete = left > 0
            && !self.closed
            && !self.client_done
            && self.paused_until.is_none()
            && !self.from_client.is_passing();
        // Further bytes do not extend the time limit; only the end of the message does.
        self.incomplete_since = is_incomplete.then(|| self.incomplete_since.unwrap_or(now));
    }

    /// When the rest of the client's request is overdue.
    pub(super) fn request_deadline(&self) -> Option<Time> {
        self.incomplete_since.map(|since| since + self.limits.request_timeout)
    }
}
