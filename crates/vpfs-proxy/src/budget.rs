//! A bounded count of bytes that many connections share.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tokio::sync::Notify;

/// How much is used of something that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// Now.
    pub now: usize,
    /// At most.
    pub limit: usize,
}

/// The number of bytes that many connections hold together. The bound is passed with each call, because all hosts have
/// the same bound and a reload may change it.
#[derive(Default)]
pub(crate) struct Budget {
    held: AtomicUsize,
    is_scarce: AtomicBool,
    /// Whether memory has been scarce since the bound was set.
    was_scarce: AtomicBool,
    eased: Notify,
}

impl Budget {
    /// Adds `bytes`. Returns whether this made memory scarce for the first time since the bound was set.
    pub(crate) fn take(&self, bytes: usize, limit: usize) -> bool {
        let held = self.held.fetch_add(bytes, SeqCst) + bytes;
        if held < limit - limit / 8 {
            return false;
        }
        self.is_scarce.store(true, SeqCst);
        // Another thread may have given back the last bytes before the flag was set; then no later call would clear it.
        self.ease(limit);
        !self.was_scarce.swap(true, SeqCst)
    }

    pub(crate) fn give_back(&self, bytes: usize, limit: usize) {
        let before = self.held.fetch_sub(bytes, SeqCst);
        assert!(before >= bytes, "more memory is given back than was taken");
        self.ease(limit);
    }

    /// Ends the scarcity and wakes all waiting tasks, if at most three quarters of the bound are held.
    fn ease(&self, limit: usize) {
        if self.is_scarce.load(SeqCst) && self.held() <= limit / 4 * 3 && self.is_scarce.swap(false, SeqCst) {
            self.eased.notify_waiters();
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    pub(crate) fn is_scarce(&self) -> bool {
        self.is_scarce.load(SeqCst)
    }

    /// Waits while memory is scarce; cancel safe.
    pub(crate) async fn eased(&self) {
        while self.is_scarce() {
            let mut eased = std::pin::pin!(self.eased.notified());
            // From this point on, no notification is missed.
            eased.as_mut().enable();
            if self.is_scarce() {
                eased.await;
            }
        }
    }

    /// Adopts a new bound. The next time that it is nearly reached is reported again.
    pub(crate) fn renew(&self, limit: usize) {
        self.was_scarce.store(false, SeqCst);
        self.ease(limit);
    }
}
