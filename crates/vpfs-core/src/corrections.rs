//! Cost corrections that are deferred until older requests of their flow have left the queue.
//!
//! A start tag depends on the service that its flow requested earlier, so a correction moves only requests that arrived
//! *after* the corrected one. If it moved the whole flow, an application could queue and cancel a large request
//! repeatedly, and so keep its head at virtual time, ahead of all other applications.
//!
//! Therefore a correction takes effect when neither its request nor an older one of the flow is queued; then it moves
//! the whole remaining queue. As only the head of a flow competes, requests are dispatched in the order of exact tags;
//! only the choice of backfilled requests may differ until then.
//!
//! Corrections between the same two queued requests of a flow take effect together, so they can be merged at once. That
//! is done when a flow has more than twice as many corrections as queued requests. So the number of corrections is
//! bounded by the number of queued requests, however many requests are enqueued and cancelled behind a waiting one.

use alloc::collections::BTreeMap;

use crate::units::AppId;

/// Deferred corrections by flow. Flows without corrections are not listed.
#[derive(Debug, Default)]
pub(crate) struct Corrections(BTreeMap<AppId, Waiting>);

/// By arrival number of the corrected request, or of a queued one with no queued request in between: the bytes that it
/// costs more (or less) than was charged.
type Waiting = BTreeMap<u64, i128>;

impl Corrections {
    /// The request of `app` with number `arrival` costs `delta` bytes more (or less) than was charged, and `oldest` is
    /// the oldest queued request of `app`. Returns by how much to move the tags of `app` now.
    pub(crate) fn add(&mut self, app: AppId, arrival: u64, delta: i128, oldest: u64) -> i128 {
        if oldest <= arrival {
            *self.0.entry(app).or_default().entry(arrival).or_default() += delta;
            return 0;
        }
        delta + self.take_due(app, oldest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the corrections of `app` whose requests arrived before `oldest`, its oldest queued one, and returns
    /// their sum.
    pub(crate) fn take_due(&mut self, app: AppId, oldest: u64) -> i128 {
        let Some(waiting) = self.0.get_mut(&app) else { return 0 };
        let mut sum = 0;
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() < oldest) {
            sum += first.remove();
        }
        if waiting.is_empty() {
            self.0.remove(&app);
        }
        sum
    }

    /// Whether `app`, which has `queued` requests queued, has so many corrections that [`Corrections::merge`] at least
    /// halves them. O(log n) in flows with corrections.
    pub(crate) fn are_many(&self, app: AppId, queued: usize) -> bool {
        self.count(app) > 2 * queued
    }

    /// Leaves at most one correction of `app` for each of its queued requests, whose arrival numbers are given in
    /// ascending order. Corrections that are due must have been taken. Does not change when each correction takes
    /// effect.
    pub(crate) fn merge(&mut self, app: AppId, queued: &[u64]) {
        let Some(waiting) = self.0.get_mut(&app) else { return };
        for (arrival, delta) in core::mem::take(waiting) {
            let older = queued.partition_point(|&other| other <= arrival);
            let waits_for = older.checked_sub(1).expect("corrections that are due were taken");
            *waiting.entry(queued[waits_for]).or_default() += delta;
        }
    }

    /// The number of deferred corrections of `app`.
    pub(crate) fn count(&self, app: AppId) -> usize {
        self.0.get(&app).map_or(0, BTreeMap::len)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const APP: AppId = AppId(3);

    #[test]
    fn corrections_between_the_same_two_requests_become_one() {
        let mut corrections = Corrections::default();
        for (arrival, delta) in [(10, 1), (11, 20), (14, 300), (15, 4000), (19, 50_000)] {
            assert_eq!(corrections.add(APP, arrival, delta, 10), 0);
        }
        corrections.merge(APP, &[10, 15, 18]);
        assert_eq!(corrections.count(APP), 3);
        assert_eq!(corrections.take_due(APP, 15), 321);
        assert_eq!(corrections.take_due(APP, 18), 4000);
        assert_eq!(corrections.take_due(APP, u64::MAX), 50_000);
        assert!(corrections.is_empty());
    }

    proptest! {
        /// Merging at any time does not change which sum is due when, whichever requests are queued and leave.
        #[test]
        fn merging_changes_no_sum(steps in prop::collection::vec((0..4_u8, any::<u8>(), -100..100_i128), 1..200)) {
            let (mut merged, mut kept) = (Corrections::default(), Corrections::default());
            let mut queued = Vec::new();
            for (arrival, (step, pick, delta)) in (0..).zip(steps) {
                let place = usize::from(pick) % queued.len().max(1);
                let corrected = match step {
                    0 => {
                        queued.push(arrival);
                        continue;
                    }
                    // A request that leaves the queue is corrected, or not.
                    1 | 2 if !queued.is_empty() => queued.remove(place),
                    // A request that arrived and left in the meantime.
                    _ => arrival,
                };
                let delta = if step == 1 { 0 } else { delta };
                let oldest = queued.first().copied().unwrap_or(u64::MAX);
                let due = kept.add(APP, corrected, delta, oldest) + kept.take_due(APP, oldest);
                prop_assert_eq!(merged.add(APP, corrected, delta, oldest) + merged.take_due(APP, oldest), due);
                merged.merge(APP, &queued);
                prop_assert!(merged.count(APP) <= queued.len());
            }
        }
    }
}
