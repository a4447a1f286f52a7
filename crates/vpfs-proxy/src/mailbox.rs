//! How a gate passes dispatches to a session, and others what they want of its connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use vpfs_core::Pieces;
use vpfs_session::OpId;

/// A dispatched operation, and how its data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatched {
    pub(crate) op: OpId,
    pub(crate) pieces: Option<Pieces>,
    /// The server is to answer it only once its data is stored.
    pub(crate) is_to_store: bool,
}

/// Dispatched operations of one session. Limited by the number of operations that the session holds.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    dispatched: Mutex<Vec<Dispatched>>,
    /// Somebody needs the place of the connection.
    is_claimed: AtomicBool,
    notify: Notify,
}

impl Mailbox {
    /// Adds one; [`Mailbox::wake`] must follow. Separate, because waking a thread is slow and this is called under a
    /// lock.
    pub(crate) fn put(&self, dispatched: Dispatched) {
        self.lock().push(dispatched);
    }

    /// Wakes the task that waits in [`Mailbox::filled`].
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Asks the connection to leave, if nothing is in progress.
    pub(crate) fn claim(&self) {
        self.is_claimed.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether it has been asked to, and has not answered.
    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Relaxed)
    }

    /// The same; it answers now.
    pub(crate) fn take_claim(&self) -> bool {
        self.is_claimed() && self.is_claimed.swap(false, Ordering::Relaxed)
    }

    /// Moves all into `into`, in order.
    pub(crate) fn take(&self, into: &mut Vec<Dispatched>) {
        let mut dispatched = self.lock();
        into.append(&mut dispatched);
        trim(&mut dispatched);
    }

    /// Waits for a dispatch or a claim; cancel safe.
    pub(crate) async fn filled(&self) {
        loop {
            self.notify.notified().await;
            // A session whose own input dispatches an operation takes it at once; then the notification is stale.
            if self.is_claimed() || !self.lock().is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Dispatched>> {
        self.dispatched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty vector with room for more entries than this is freed.
const KEPT: usize = 16;

/// Frees the memory of a vector that is empty but once had many entries: thousands of connections may be idle.
pub(crate) fn trim<T>(vec: &mut Vec<T>) {
    if vec.is_empty() && vec.capacity() > KEPT {
        *vec = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn dispatches_that_were_taken_do_not_wake_the_task() {
        let (mailbox, mut dispatched) = (Mailbox::default(), Vec::new());
        let mut context = Context::from_waker(Waker::noop());
        let mut filled = pin!(mailbox.filled());
        let [first, second] =
            [1, 2].map(|serial| Dispatched { op: OpId { index: 0, serial }, pieces: None, is_to_store: false });
        mailbox.put(first);
        mailbox.take(&mut dispatched);
        mailbox.wake();
        assert!(filled.as_mut().poll(&mut context).is_pending());
        mailbox.put(second);
        mailbox.wake();
        assert!(filled.as_mut().poll(&mut context).is_ready());
        mailbox.take(&mut dispatched);
        assert_eq!(dispatched, [first, second]);
    }
}
