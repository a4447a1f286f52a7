//! Limits the number of connected clients.

use std::sync::Arc;

use tokio::sync::watch;

use crate::budget::Used;

/// Permits for connections; their number may change at any time.
pub(crate) struct ConnectionPermits(watch::Sender<Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    taken: usize,
    limit: usize,
}

impl Count {
    fn has_room(&self) -> bool {
        self.taken < self.limit
    }
}

/// One permit; returned when this is dropped.
pub(crate) struct ConnectionPermit(Arc<ConnectionPermits>);

impl ConnectionPermits {
    pub(crate) fn new(limit: usize) -> Self {
        Self(watch::Sender::new(Count { taken: 0, limit }))
    }

    /// A permit, if one is free.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let mut found = false;
        self.0.send_if_modified(|count| {
            found = count.has_room();
            count.taken += usize::from(found);
            // No task waits for a permit to be taken.
            false
        });
        found.then(|| ConnectionPermit(Arc::clone(self)))
    }

    /// Waits for a permit. Waiters are served in no particular order: they are the listeners of one daemon.
    pub(crate) async fn take(self: &Arc<Self>) -> ConnectionPermit {
        loop {
            self.until(Count::has_room).await;
            if let Some(permit) = self.try_take() {
                return permit;
            }
        }
    }

    /// Returns when all permits are free.
    pub(crate) async fn all_free(&self) {
        self.until(|count| count.taken == 0).await;
    }

    /// The number of permits taken.
    pub(crate) fn taken(&self) -> usize {
        self.0.borrow().taken
    }

    /// The number taken, and the limit.
    pub(crate) fn used(&self) -> Used {
        let Count { taken, limit } = *self.0.borrow();
        Used { now: taken, limit }
    }

    /// Changes the number of permits. If more are already taken, none is free until enough have been returned.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.0.send_modify(|count| count.limit = limit);
    }

    async fn until(&self, condition: impl FnMut(&Count) -> bool) {
        // The sender is in `self`.
        let _ = self.0.subscribe().wait_for(condition).await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| {
            count.taken = count.taken.checked_sub(1).expect("a permit is returned only once");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of this runtime run in turn, so every task that was ready has run after this.
    async fn others_run() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_waiter_gets_the_next_free_permit() {
        let permits = Arc::new(ConnectionPermits::new(1));
        let first = permits.try_take().unwrap();
        assert!(permits.try_take().is_none());
        let waiting = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.take().await }
        });
        others_run().await;
        assert!(!waiting.is_finished());
        drop(first);
        let second = waiting.await.unwrap();
        assert_eq!(permits.taken(), 1);
        drop(second);
        permits.all_free().await;
    }

    #[tokio::test]
    async fn the_number_of_permits_changes_while_some_are_taken() {
        let permits = Arc::new(ConnectionPermits::new(2));
        let mut taken = vec![permits.try_take().unwrap(), permits.try_take().unwrap()];
        permits.set_limit(1);
        taken.pop();
        assert!(permits.try_take().is_none(), "all permits are taken");
        let waiting = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move { permits.take().await }
        });
        others_run().await;
        permits.set_limit(2);
        let _other = waiting.await.unwrap();
        assert_eq!(permits.taken(), 2);
    }
}
