//! How many clients may be connected at one time.

use std::sync::Arc;

use tokio::sync::watch;

/// Places for connections; how many there are may change at any time.
pub(crate) struct Slots(watch::Sender<Count>);

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

/// One place; free again when this is dropped.
pub(crate) struct Slot(Arc<Slots>);

impl Slots {
    pub(crate) fn new(limit: usize) -> Self {
        Self(watch::Sender::new(Count { taken: 0, limit }))
    }

    /// A place, if there is one.
    pub(crate) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let mut found = false;
        self.0.send_if_modified(|count| {
            found = count.has_room();
            count.taken += usize::from(found);
            // Nobody waits for a place to be taken.
            false
        });
        found.then(|| Slot(Arc::clone(self)))
    }

    /// A place, as soon as there is one. In no order among those that wait: they are the doors of one daemon.
    pub(crate) async fn take(self: &Arc<Self>) -> Slot {
        loop {
            self.until(Count::has_room).await;
            if let Some(slot) = self.try_take() {
                return slot;
            }
        }
    }

    /// Returns when no place is taken.
    pub(crate) async fn all_free(&self) {
        self.until(|count| count.taken == 0).await;
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.0.borrow().taken
    }

    /// Changes the number of places. If more are taken already, there is none until enough have become free.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.0.send_modify(|count| count.limit = limit);
    }

    async fn until(&self, condition: impl FnMut(&Count) -> bool) {
        // The sender is in `self`.
        let _ = self.0.subscribe().wait_for(condition).await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.taken -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of this runtime run in turn, so a task that could go on has gone on after this.
    async fn others_run() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_finds_no_place_gets_the_next_one() {
        let slots = Arc::new(Slots::new(1));
        let first = slots.try_take().unwrap();
        assert!(slots.try_take().is_none());
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.take().await }
        });
        others_run().await;
        assert!(!waiting.is_finished());
        drop(first);
        let second = waiting.await.unwrap();
        assert_eq!(slots.taken(), 1);
        drop(second);
        slots.all_free().await;
    }

    #[tokio::test]
    async fn the_number_changes_while_places_are_taken() {
        let slots = Arc::new(Slots::new(2));
        let mut taken = vec![slots.try_take().unwrap(), slots.try_take().unwrap()];
        slots.set_limit(1);
        taken.pop();
        assert!(slots.try_take().is_none(), "as many are taken as there are now");
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.take().await }
        });
        others_run().await;
        slots.set_limit(2);
        let _other = waiting.await.unwrap();
        assert_eq!(slots.taken(), 2);
    }
}
