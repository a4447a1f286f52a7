//! Whether bulk begins to wait inside the storage: long before others notice it, that shows that bulk goes too fast.

use crate::units::Time;

/// Compares how long bulk requests take in the storage, as a part of the device time that is due for them, with how
/// long they take while bulk goes as slowly as it may be made to.
///
/// A volume that has tokens left, or storage that serves in parallel, is done with a request long before the next one
/// may come. A request takes until then only when the storage is given more than it can do. Where all requests share
/// one head, each takes its time, and nothing can be told. Delay-based congestion control of networks does the same
/// (TCP Vegas, LEDBAT).
///
/// In between, with a base of 0.4 to 0.7 of what is due, neither is sure: latency alone decides, with its usual
/// tolerance.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    /// Time in the storage in thousandths of what is due, while bulk went slowly.
    base: Option<u64>,
    /// The mean of the latest requests.
    recent: u64,
    /// What was let in before was so without limit, and is not looked at.
    since: Time,
}

/// A bulk request waited inside the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) ns: u64,
    /// It is no chance: so did others.
    pub(super) often: bool,
}

impl Congestion {
    /// Means are over so many requests, ...
    const MEAN: u64 = 8;
    /// ... or so many while bulk goes slowly, as it does so for a moment only.
    const AT_FLOOR: u64 = 4;
    const RATIO_MAX: u64 = 1500;
    /// Above this base nothing can be told.
    const BASE_MAX: u64 = 400;
    /// Above this requests are served one after the other.
    const SERIAL: u64 = 700;
    /// A request waited if it took so many times what is usual, and so much more than that at least.
    const TIMES: u64 = 3;
    const WAITED: u64 = 120;
    /// Storage has its own moods, in which one request waits or two. If the mean is so much higher, it is something
    /// else.
    const OFTEN: u64 = 200;

    /// A bulk request took so long in the storage where `due_ns` of device time were due. It was let in at
    /// `dispatched_at`, while bulk went as slowly as it may be made to (`at_floor`) or not.
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
        self.base = match self.base {
            None => at_floor.then_some(ratio),
            Some(base) if at_floor => Some(mean(base, Self::AT_FLOOR)),
            Some(base) => Some(base.min(mean(base, Self::MEAN))),
        };
        self.recent = mean(self.recent, Self::MEAN);
        let base = self.base.filter(|base| !at_floor && *base <= Self::BASE_MAX)?;
        let waits = |ratio, least| ratio > (base * Self::TIMES).max(base + least);
        waits(ratio, Self::WAITED).then(|| Waited {
            ns: u64::try_from(u128::from(due_ns) * u128::from(ratio - base) / 1000).unwrap_or(u64::MAX),
            often: waits(self.recent, Self::OFTEN),
        })
    }

    /// Bulk that goes too fast would show here.
    pub(super) fn is_telling(&self) -> bool {
        self.base.is_some_and(|base| base <= Self::BASE_MAX)
    }

    /// Bulk takes its time, however slowly it goes.
    pub(super) fn is_serial(&self) -> bool {
        self.base.is_some_and(|base| base >= Self::SERIAL)
    }

    /// Bulk went without limit until now, to see what it costs.
    pub(super) fn settle(&mut self, now: Time, changed: bool) {
        self.since = now;
        if changed {
            (self.base, self.recent) = (None, 0);
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
    fn one_head_tells_nothing() {
        let mut disk = Congestion::default();
        (0..30).for_each(|_| assert_eq!(complete(&mut disk, 65, true), None));
        (0..30).for_each(|_| assert_eq!(complete(&mut disk, 200, false), None));
    }

    #[test]
    fn what_is_usual_now_counts() {
        let mut volume = Congestion::default();
        (0..30).for_each(|_| _ = complete(&mut volume, 5, true));
        assert!(complete(&mut volume, 40, false).is_some());
        // Some clients have become slow: at the lowest rate it is the same.
        (0..60).for_each(|request| _ = complete(&mut volume, if request % 2 == 0 { 24 } else { 5 }, true));
        assert_eq!(complete(&mut volume, 24, false), None);
    }
}
