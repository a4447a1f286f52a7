//! A session that continues in another process: what was sent to the server is completed here, the rest is left to it.

use bytes::BytesMut;
use vpfs_core::Time;

use super::OrangeFsSession;
use crate::orangefs::op::{Op, State};
use crate::{Session, Suspended};

impl OrangeFsSession {
    /// Cancels the requests that were not dispatched and keeps their bytes; data in pieces no longer waits.
    pub(super) fn take_back_requests(&mut self, now: Time) {
        self.drain();
        let mut queued = self.ids_where(Op::is_held);
        queued.sort_by_key(|&id| self.op_ref(id).arrived);
        let mut unsent = BytesMut::new();
        for id in queued {
            if let State::Queued(request) = &self.op_ref(id).state {
                unsent.extend_from_slice(request);
            }
            self.cancel(id);
        }
        self.unsent = Some(unsent);
        for op in self.ops.iter_mut().flatten() {
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

    /// What the next session needs; nothing may be in progress.
    pub(super) fn suspended(&mut self) -> Suspended {
        let requests = self.unsent.take().unwrap_or_default().freeze();
        self.closed = true;
        Suspended { requests, user: self.user.take() }
    }
}
