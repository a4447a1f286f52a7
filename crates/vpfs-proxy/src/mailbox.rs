//! How a gate tells a session that its requests may go.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use vpfs_core::Pieces;
use vpfs_interpose::OpId;

/// An operation that may go, and how its data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) op: OpId,
    pub(crate) pieces: Option<Pieces>,
}

/// Grants for one session. Bounded by the operations the session holds.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    granted: Mutex<Vec<Grant>>,
    notify: Notify,
}

impl Mailbox {
    /// Adds a grant; [`Mailbox::wake`] follows. Apart, because waking a thread takes long and this is called in a lock.
    pub(crate) fn grant(&self, grant: Grant) {
        self.lock().push(grant);
    }

    /// Tells whoever waits in [`Mailbox::filled`].
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Moves the grants into `into`, in order.
    pub(crate) fn take(&self, into: &mut Vec<Grant>) {
        into.append(&mut self.lock());
    }

    /// Waits for a grant; cancel safe.
    pub(crate) async fn filled(&self) {
        loop {
            self.notify.notified().await;
            // A session that grants itself something takes it at once; then the news is old.
            if !self.lock().is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Grant>> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn what_was_taken_already_wakes_nobody() {
        let (mailbox, mut granted) = (Mailbox::default(), Vec::new());
        let mut context = Context::from_waker(Waker::noop());
        let mut filled = pin!(mailbox.filled());
        let [first, second] = [1, 2].map(|op| Grant { op: OpId(op), pieces: None });
        mailbox.grant(first);
        mailbox.take(&mut granted);
        mailbox.wake();
        assert!(filled.as_mut().poll(&mut context).is_pending());
        mailbox.grant(second);
        mailbox.wake();
        assert!(filled.as_mut().poll(&mut context).is_ready());
        mailbox.take(&mut granted);
        assert_eq!(granted, [first, second]);
    }
}
