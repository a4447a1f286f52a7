//! Whether bulk starts to wait inside the storage, which shows that it is dispatched too fast long before other flows
//! are affected.

use crate::units::Time;

/// Compares how long bulk requests take in the storage, relative to the device time that is due for them, with how long
/// they take while bulk is dispatched at the floor.
///
/// A volume that has tokens left, or storage that serves in parallel, completes a request long before the next one may
/// be dispatched. A request takes until then only if the storage gets more work than it can do. Where all requests
/// share one head, each takes its full device time, and congestion is not visible. Delay-based congestion control of
/// networks uses the same signal (TCP Vegas, LEDBAT).
///
/// In between, with a base of 0.4 to 0.7 of the due time, neither is certain: latency alone decides, with its usual
/// tolerance.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// Time in the storage while bulk is dispatched at the floor, in thousandths of the due time. It is a mean like
    /// `recent`, because some requests may wait there as well, ...
    base: Option<u64>,
    /// ... over so many requests, at most [`Congestion::MEAN`].
    at_floor: u64,
    /// The mean of that ratio over the latest requests.
    recent: u64,
    /// Requests dispatched before this were not limited, and are ignored.
    since: Time,
}

/// A bulk request waited inside the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) ns: u64,
    /// Other requests waited, too, so this is not chance.
    pub(super) often: bool,
}

impl Congestion {
    /// The number of requests in a mean.
    const MEAN: u64 = 8;
    const RATIO_MAX: u64 = 1500;
    /// Above this base congestion is not visible.
    const BASE_MAX: u64 = 400;
    /// From this base on, requests are served one after another.
    const SERIAL: u64 = 700;
    /// A request waited if its ratio exceeds the base times `TIMES` and the base plus `WAITED`.
    const TIMES: u64 = 3;
    const WAITED: u64 = 120;
    /// Storage varies by itself, so one or two requests may wait. If the mean exceeds the base by this as well, it is
    /// congestion.
    const OFTEN: u64 = 200;

    /// A bulk request took `took_ns` in the storage where `due_ns` of device time were due. It was dispatched at
    /// `dispatched_at`, while bulk was at the floor (`at_floor`) or not. Returns how long it waited, if it did.
    pub(super) fn on_complete(
        &mut self,
        dispatched_at: Time,
        took_ns: u64,
        due_ns: u64,
        at_floor: bool,
    ) -> Option<Waited> {
        if dispatched_at < self.since {
            return None;
        }
        let ratio = (took_ns.saturating_mul(1000) / due_ns.max(1)).min(Self::RATIO_MAX);
        let mean = |mean: u64, parts: u64| (mean * (parts - 1) + ratio) / parts;
        if at_floor {
            self.at_floor = (self.at_floor + 1).min(Self::MEAN);
            self.base = Some(mean(self.base.unwrap_or(0), self.at_floor));
        }
        self.recent = mean(self.recent, Self::MEAN);
        let base = self.base.filter(|base| !at_floor && *base <= Self::BASE_MAX)?;
        let waits = |ratio, least| ratio > (base * Self::TIMES).max(base + least);
        waits(ratio, Self::WAITED).then(|| Waited {
            ns: u64::try_from(u128::from(due_ns) * u128::from(ratio - base) / 1000).unwrap_or(u64::MAX),
            often: waits(self.recent, Self::OFTEN),
        })
    }

    /// Whether congestion would be visible if bulk were dispatched too fast.
    pub(super) fn is_visible(&self) -> bool {
        self.base.is_some_and(|base| base <= Self::BASE_MAX)
    }

    /// Whether the storage serves requests one after another: bulk takes its full device time even at the floor.
    pub(super) fn is_serial(&self) -> bool {
        self.base.is_some_and(|base| base >= Self::SERIAL)
    }

    /// A calibration without limit has just ended; `changed` if it changed costs.
    pub(super) fn settle(&mut self, now: Time, changed: bool) {
        self.since = now;
        if changed {
            (self.base, self.at_floor, self.recent) = (None, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: u64 = 70_000_000;

    fn complete(congestion: &mut Congestion, took_ms: u32, at_floor: bool) -> Option<Waited> {
        congestion.on_complete(Time::ZERO, u64::from(took_ms) * 1_000_000, DUE, at_floor)
    }

    #[test]
    fn a_volume_without_tokens_is_congested() {
        let mut volume = Congestion::default();
        assert_eq!(complete(&mut volume, 70, false), None, "nothing is known");
        (0..30).for_each(|_| assert_eq!(complete(&mut volume, 5, true), None));
        (0..30).for_each(|_| assert_eq!(complete(&mut volume, 6, false), None));
        let first = complete(&mut volume, 40, false).expect("it waits");
        assert!((30_000_000..=36_000_000).contains(&first.ns) && !first.often, "{first:?}");
        assert_eq!(complete(&mut volume, 5, false), None);
        assert!((0..5).any(|_| complete(&mut volume, 40, false).expect("it waits again").often));
    }

    #[test]
    fn congestion_is_not_visible_on_a_disk_with_one_head() {
        let mut disk = Congestion::default();
        (0..30).for_each(|_| assert_eq!(complete(&mut disk, 65, true), None));
        (0..30).for_each(|_| assert_eq!(complete(&mut disk, 200, false), None));
    }

    /// Symptom: behind NFS, writers were kept at the floor. Cause: every fourth to sixth write waits for the next time
    /// slice of the disk's limit, at the floor as well as above, and was compared with those that do not.
    #[test]
    fn requests_that_wait_at_the_floor_as_well_do_not_show_congestion() {
        for every in [4, 5, 6] {
            let mut sliced = Congestion::default();
            let took_ms = |n: u32| if n.is_multiple_of(every) { 95 } else { 5 };
            (0..60).for_each(|n| assert_eq!(complete(&mut sliced, took_ms(n), true), None));
            let waited = (0..600).filter_map(|n| complete(&mut sliced, took_ms(n), false));
            assert!(!waited.into_iter().any(|waited| waited.often), "every {every}");
        }
    }

    #[test]
    fn the_base_follows_what_is_usual_at_the_floor() {
        let mut volume = Congestion::default();
        (0..30).for_each(|_| _ = complete(&mut volume, 5, true));
        assert!(complete(&mut volume, 40, false).is_some());
        // Some clients have become slow, so requests take as long even at the floor.
        (0..60).for_each(|request| _ = complete(&mut volume, if request % 2 == 0 { 24 } else { 5 }, true));
        assert_eq!(complete(&mut volume, 24, false), None);
    }
}
