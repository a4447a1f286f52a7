//! How a gate tells a session that its requests may go.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use vpfs_interpose::OpId;

/// Grants for one session. Bounded by the operations the session holds.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    granted: Mutex<Vec<OpId>>,
    notify: Notify,
}

impl Mailbox {
    pub(crate) fn grant(&self, op: OpId) {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).push(op);
        self.notify.notify_one();
    }

    /// Moves the grants into `into`, in order.
    pub(crate) fn take(&self, into: &mut Vec<OpId>) {
        into.append(&mut self.granted.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for a grant; cancel safe.
    pub(crate) async fn filled(&self) {
        self.notify.notified().await;
    }
}
