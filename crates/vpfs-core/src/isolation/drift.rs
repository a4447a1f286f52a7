//! Whether bulk still takes as long in the storage as it did while its costs were known to be right.

use crate::units::Time;

/// Compares how long bulk requests take in the storage with the device time that was outstanding when they were
/// dispatched, or with the time over which their pieces are spread, if that is longer.
///
/// At saturation the two are equal, however the storage serves requests. Otherwise requests take less on a volume that
/// has saved up tokens, and more on storage that serves in parallel, so the ratio is no measure of costs. But if it
/// leaves the range that it had with correct costs, the storage may have become slower or faster, and costs should be
/// measured again.
#[derive(Debug, Default)]
pub(super) struct Drift {
    /// The smallest ratio while costs were right, and the usual one, in thousandths.
    range: Option<(u64, u64)>,
    batch: Batch,
    /// Consecutive batches outside the range, and the ratio of the latest batch.
    unexpected: u32,
    latest: u64,
    /// Requests dispatched before this are ignored: other costs applied to them.
    since: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    requests: u32,
    took_ns: u128,
    due_ns: u128,
}

impl Drift {
    const BATCH: u32 = 4;
    /// One batch may be chance.
    const UNEXPECTED_MAX: u32 = 2;
    /// At a ratio above this the storage was busy.
    const BUSY: u64 = 700;
    /// Ratios between a third and three times what they were are usual.
    const USUAL: u64 = 3;

    /// A bulk request is complete that was dispatched at `dispatched_at` and expected to take `due_ns`.
    pub(super) fn on_complete(&mut self, now: Time, dispatched_at: Time, due_ns: u64) {
        if dispatched_at < self.since {
            return;
        }
        self.batch.requests += 1;
        self.batch.took_ns += now.since(dispatched_at).as_nanos();
        self.batch.due_ns += u128::from(due_ns);
        if self.batch.requests < Self::BATCH {
            return;
        }
        let Batch { took_ns, due_ns, .. } = core::mem::take(&mut self.batch);
        self.latest = u64::try_from(took_ns * 1000 / due_ns.max(1)).unwrap_or(u64::MAX).max(1);
        let expected = self.range.is_none_or(|(least, usual)| {
            // A short time is suspicious only if the storage was busy so far. On a volume that saves up tokens, any
            // shorter time is normal.
            let busy = usual >= Self::BUSY && least >= Self::BUSY / 2;
            let least = if busy { usual.min(1000) / Self::USUAL } else { 0 };
            (least..=usual.max(1000).saturating_mul(Self::USUAL)).contains(&self.latest)
        });
        self.unexpected = if expected { 0 } else { self.unexpected + 1 };
        if expected {
            self.extend();
        }
    }

    /// The smallest and the usual ratio while costs were right.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// The same, before a restart.
    pub(super) fn remember(&mut self, range: (u64, u64)) {
        self.range = Some(range);
    }

    fn extend(&mut self) {
        let (least, usual) = self.range.unwrap_or((self.latest, self.latest));
        self.range = Some((least.min(self.latest), (usual * 7 + self.latest) / 8));
    }

    /// Whether costs should be measured again.
    pub(super) fn has_drifted(&self) -> bool {
        self.unexpected >= Self::UNEXPECTED_MAX
    }

    /// Costs were measured again, and were confirmed or have `changed`.
    pub(super) fn settle(&mut self, now: Time, changed: bool) {
        self.since = now;
        if changed {
            self.range = None;
        } else if let Some((least, usual)) = self.range {
            self.range = Some((least.min(self.latest), usual.max(self.latest)));
        }
        (self.batch, self.unexpected) = (Batch::default(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(drift: &mut Drift, count: u32, took_ms: u64) {
        (0..count * Drift::BATCH).for_each(|_| drift.on_complete(Time::from_millis(took_ms), Time::ZERO, 20_000_000));
    }

    #[test]
    fn four_times_slower_or_faster_is_drift_and_tokens_spent_are_not() {
        for (took_ms, drifted) in [(20, false), (50, false), (80, true), (8, false), (5, true)] {
            let mut drift = Drift::default();
            batches(&mut drift, 4, 20);
            batches(&mut drift, 1, took_ms);
            assert!(!drift.has_drifted(), "one batch may be chance");
            batches(&mut drift, 1, took_ms);
            assert_eq!(drift.has_drifted(), drifted, "{took_ms} ms where 20 ms are usual");
        }
        let mut volume = Drift::default();
        batches(&mut volume, 4, 2);
        batches(&mut volume, 2, 20);
        assert!(!volume.has_drifted(), "it has run out of tokens");
        batches(&mut volume, 2, 1);
        assert!(!volume.has_drifted(), "it has saved up more tokens");
    }

    #[test]
    fn a_confirmed_ratio_is_usual_unless_costs_changed() {
        let mut drift = Drift::default();
        batches(&mut drift, 1, 20);
        batches(&mut drift, 2, 80);
        drift.settle(Time::ZERO, false);
        batches(&mut drift, 2, 80);
        assert!(!drift.has_drifted());
        batches(&mut drift, 2, 300);
        assert!(drift.has_drifted());
        drift.settle(Time::ZERO, true);
        batches(&mut drift, 2, 5);
        assert!(!drift.has_drifted(), "nothing is known about the new costs");
    }
}
