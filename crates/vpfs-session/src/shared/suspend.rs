//! A session that continues in another process: what was sent to the server is completed here, the rest is left to it.

use std::cmp::Reverse;

use bytes::{Bytes, BytesMut};
use vpfs_core::Time;

use super::op::{Op, State};
use super::{Core, Protocol};

impl<P: Protocol> Core<P> {
    /// Cancels the requests that were not dispatched and keeps their bytes; data in pieces no longer waits.
    pub(super) fn take_back_requests(&mut self, now: Time) {
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

    /// Bytes of the requests that are left to the next session.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.as_ref().map_or(0, BytesMut::len)
    }

    /// Ends the session, in which nothing is in progress, and returns the requests for the next one.
    pub(super) fn suspended(&mut self) -> Bytes {
        self.closed = true;
        self.unsent.take().unwrap_or_default().freeze()
    }
}
