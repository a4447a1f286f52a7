//! Cost corrections that wait for older requests of their flow.
//!
//! A start tag depends on what its flow asked for earlier, so a correction moves only what arrived *after* the
//! corrected request. Moving the whole flow would let an application queue and cancel a large request again and again
//! and so keep its head at virtual time, before everybody else's.
//!
//! So a correction takes effect when neither its request nor an older one of its flow is queued; then it moves all
//! that is left. As only the head of a flow competes, requests go in the order of exact tags; only which request is
//! backfilled may differ until then.
//!
//! Corrections between the same two queued requests of a flow take effect together, so they can be added up at once.
//! That is done when a flow has more than twice as many corrections as requests queued. So however many requests are
//! enqueued and cancelled behind one that waits, what waits to be corrected is bounded by what is queued.

use alloc::collections::BTreeMap;

use crate::units::AppId;

/// By flow: its corrections that wait. No flow is listed without one.
#[derive(Debug, Default)]
pub(crate) struct Corrections(BTreeMap<AppId, Waiting>);

/// By arrival number of the corrected request, or of a queued one between which and that one none is queued: bytes that
/// it costs more (or less) than was charged.
type Waiting = BTreeMap<u64, i128>;

impl Corrections {
    /// The request of `app` that arrived as number `arrival` costs `delta` more (or less) than was charged, while
    /// `oldest` is its oldest one queued: by how much to move the tags of `app` now.
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

    /// Removes and sums up the corrections of `app` whose requests arrived before `oldest`, its oldest one queued.
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

    /// There are so many corrections of `app`, which has `queued` requests queued, that [`Corrections::merge`] at least
    /// halves them. O(log n) in flows with corrections.
    pub(crate) fn are_many(&self, app: AppId, queued: usize) -> bool {
        self.count(app) > 2 * queued
    }

    /// Leaves at most one correction of `app` for each of its queued requests, whose arrival numbers are given in
    /// ascending order; all that are due must have been taken. When each of them takes effect stays the same.
    pub(crate) fn merge(&mut self, app: AppId, queued: &[u64]) {
        let Some(waiting) = self.0.get_mut(&app) else { return };
        for (arrival, delta) in core::mem::take(waiting) {
            let older = queued.partition_point(|&other| other <= arrival);
            let waits_for = older.checked_sub(1).expect("what is due was taken");
            *waiting.entry(queued[waits_for]).or_default() += delta;
        }
    }

    /// How many corrections of `app` wait.
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
        /// Whatever is queued and leaves, merging at any time changes nothing of what is due when.
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
                    // What leaves the queue is corrected, or not.
                    1 | 2 if !queued.is_empty() => queued.remove(place),
                    // One that came and went in the meantime.
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
