//! A sum with a bound that many connections count in.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tokio::sync::Notify;

/// Bytes that many connections hold together. The bound is an argument: all hosts have the same, and a reload may
/// change it.
#[derive(Default)]
pub(crate) struct Budget {
    held: AtomicUsize,
    is_scarce: AtomicBool,
    /// It was scarce since the bound was set.
    was_scarce: AtomicBool,
    eased: Notify,
}

impl Budget {
    /// More is held; whether memory became scarce by that for the first time.
    pub(crate) fn take(&self, bytes: usize, limit: usize) -> bool {
        let held = self.held.fetch_add(bytes, SeqCst) + bytes;
        if held < limit - limit / 8 {
            return false;
        }
        self.is_scarce.store(true, SeqCst);
        // What another thread gave back in between may have been the last that anybody gives back.
        self.ease(limit);
        !self.was_scarce.swap(true, SeqCst)
    }

    pub(crate) fn give_back(&self, bytes: usize, limit: usize) {
        let before = self.held.fetch_sub(bytes, SeqCst);
        assert!(before >= bytes, "more memory is given back than was taken");
        self.ease(limit);
    }

    /// Lets all that wait go on if there is room again.
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
            // From here on no change is missed.
            eased.as_mut().enable();
            if self.is_scarce() {
                eased.await;
            }
        }
    }

    /// The bound is another one; that it is nearly reached will be news again.
    pub(crate) fn renew(&self, limit: usize) {
        self.was_scarce.store(false, SeqCst);
        self.ease(limit);
    }
}
