//! How a gate passes dispatches to a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use vpfs_core::Pieces;
use vpfs_session::OpId;

/// A dispatched operation, and how its data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dispatched {
    pub(crate) op: OpId,
    pub(crate) pieces: Option<Pieces>,
}

/// Dispatched operations of one session. Limited by the number of operations that the session holds.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    inner: Mutex<Inner>,
    /// Whether the task is to be woken: not while it runs, as it looks here before it waits.
    is_awaited: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    dispatched: Vec<Dispatched>,
    /// The task that waited last.
    waker: Option<Waker>,
}

impl Mailbox {
    /// Adds one. Whether [`Mailbox::wake`] must follow: separate, because waking a thread is slow and this is called
    /// under a lock.
    #[must_use]
    pub(crate) fn put(&self, dispatched: Dispatched) -> bool {
        self.lock().dispatched.push(dispatched);
        self.is_awaited.load(Ordering::Acquire)
    }

    /// Wakes the task that waits by [`Mailbox::poll_filled`].
    pub(crate) fn wake(&self) {
        if self.is_awaited.swap(false, Ordering::AcqRel) {
            let waker = self.lock().waker.clone();
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Moves all into `into`, in order.
    pub(crate) fn take(&self, into: &mut Vec<Dispatched>) {
        let dispatched = &mut self.lock().dispatched;
        into.append(dispatched);
        trim(dispatched);
    }

    /// Waits for a dispatch. [`Mailbox::end_wait`] must follow when the task goes on, for this or another reason.
    pub(crate) fn poll_filled(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.lock();
        if !inner.dispatched.is_empty() {
            return Poll::Ready(());
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        self.is_awaited.store(true, Ordering::Release);
        Poll::Pending
    }

    /// The task runs: it need not be woken for what it dispatches itself.
    pub(crate) fn end_wait(&self) {
        self.is_awaited.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_once_and_only_while_it_waits() {
        let (mailbox, mut dispatched) = (Mailbox::default(), Vec::new());
        let wakes = Arc::new(Wakes::default());
        let waker = Arc::clone(&wakes).into();
        let filled = || mailbox.poll_filled(&mut Context::from_waker(&waker)).is_ready();
        let [first, second] = [1, 2].map(|serial| Dispatched { op: OpId { index: 0, serial }, pieces: None });
        let put = |dispatched| {
            if mailbox.put(dispatched) {
                mailbox.wake();
            }
            wakes.0.load(Ordering::SeqCst)
        };
        assert_eq!(put(first), 0, "nobody waits");
        assert!(filled());
        mailbox.take(&mut dispatched);
        assert!(!filled());
        mailbox.end_wait();
        assert_eq!(put(first), 0, "it runs");
        mailbox.take(&mut dispatched);
        assert!(!filled());
        assert_eq!([put(second), put(first)], [1, 1]);
        assert!(filled());
        mailbox.take(&mut dispatched);
        assert_eq!(dispatched, [first, first, second, first]);
    }
}
