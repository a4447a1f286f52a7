//! Cost corrections that wait for older requests of their flow.
//!
//! A start tag depends on what its flow asked for earlier, so a correction moves only what arrived *after* the corrected
//! request. Moving the whole flow would let an application queue and cancel a large request again and again and so
//! keep its head at virtual time, before everybody else's.
//!
//! So a correction takes effect when neither its request nor an older one of its flow is queued; then it moves all
//! that is left. As only the head of a flow competes, requests go in the order of exact tags; only which request is
//! backfilled may differ until then.

use alloc::collections::BTreeMap;

use crate::units::AppId;

/// By flow and arrival number of the corrected request: bytes that it costs more (or less) than was charged.
#[derive(Debug, Default)]
pub(crate) struct Corrections(BTreeMap<(AppId, u64), i128>);

impl Corrections {
    /// The request of `app` that arrived as number `arrival` costs `delta` more (or less) than was charged, while `oldest` is its
    /// oldest one queued: by how much to move the tags of `app` now.
    pub(crate) fn add(&mut self, app: AppId, arrival: u64, delta: i128, oldest: u64) -> i128 {
        if oldest <= arrival {
            *self.0.entry((app, arrival)).or_default() += delta;
            return 0;
        }
        delta + self.take_due(app, oldest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes and sums up the corrections of `app` whose requests arrived before `oldest`, its oldest one queued.
    pub(crate) fn take_due(&mut self, app: AppId, oldest: u64) -> i128 {
        let mut sum = 0;
        while let Some((&key, &delta)) = self.0.range((app, 0)..(app, oldest)).next() {
            self.0.remove(&key);
            sum += delta;
        }
        sum
    }
}
