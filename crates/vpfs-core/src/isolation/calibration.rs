//! Moments in which the storage shows what bulk costs.

use core::time::Duration;

use super::device_time::{DeviceTimes, Lesson};
use super::learning::SAVED_UP;
use crate::request::OpKind;
use crate::units::{AppId, Bytes, Time};

/// A moment without protection, or with requests of one bulk flow only, in which the storage is saturated and its costs
/// can be learned.
///
/// - While bulk goes at a limited rate nothing shows what it costs, so shares of it mean nothing. So there is a moment
///   without limit when that cost is not known, when bulk does not get its share although nothing but the storage holds
///   it back, when it takes much longer or shorter in the storage than it did, and every minute unless bulk that waits
///   inside the storage would show it.
/// - While several flows are bulk, the storage shows what they cost together, but not each. So each goes alone for a
///   moment when its cost is not known. Its tags run ahead meanwhile, so the others get their shares afterwards.
///
/// It lasts until costs turn out to be right in some windows of saturation.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    running: Option<Running>,
    ended_solo: Option<(AppId, Duration)>,
    last: Option<Time>,
    /// How long it is to the next one if that one, too, does not help.
    again: Duration,
}

/// What a moment without limit showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Costs were right.
    Confirmed,
    /// They differ by half or more.
    Changed,
    /// It was too short for what there is in the storage.
    Nothing,
}

/// A usual bulk request, and what it is thought to cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    pub(super) op: OpKind,
    pub(super) size: Bytes,
    pub(super) cost_ns: u64,
}

impl Bulk {
    /// Its cost is another one now, by half or more.
    fn has_changed(self, times: &DeviceTimes) -> bool {
        let now_ns = times.cost_ns(self.op, self.size);
        now_ns.max(self.cost_ns) * 2 > now_ns.min(self.cost_ns) * 3
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    solo: Option<AppId>,
    since: Time,
    /// Windows to come.
    windows: u32,
    /// When it ends, and when it does even if it has shown nothing yet.
    until: Time,
    at_last: Time,
    /// Some window told of costs.
    learned: bool,
    /// When what a volume had saved up is gone, and the first request that came after that.
    settled_at: Time,
    /// What was thought before.
    bulk: Option<Bulk>,
}

impl Calibration {
    /// Device time in the storage meanwhile; two bulk requests in any case.
    pub(super) const IN_FLIGHT_NS: u64 = 20_000_000;
    const WINDOWS: u32 = 4;
    /// It lasts no longer than this, ...
    const LONGEST: Duration = Duration::from_millis(1000);
    /// ... or than so many usual bulk requests take, ...
    const REQUESTS: u32 = 8;
    /// ... up to this.
    const LONGEST_LARGE: Duration = Duration::from_secs(3);
    const AGAIN: Duration = Duration::from_secs(2);
    const EVERY: Duration = Duration::from_secs(60);

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The bulk flow that goes alone.
    pub(super) fn solo(&self) -> Option<AppId> {
        self.running?.solo
    }

    /// What the storage shows is what it can do in the long run.
    pub(super) fn is_settled(&self, now: Time) -> bool {
        self.running.is_none_or(|running| now >= running.settled_at)
    }

    /// Begins a moment without limit if it is `needed` because costs are not known or doubtful, or if it is time for
    /// one and nothing else would show that costs are others now (`blind`).
    pub(super) fn consider(&mut self, now: Time, needed: bool, blind: bool, bulk: Option<Bulk>) {
        let since = self.last.map_or(Duration::MAX, |last| now.since(last));
        let needed = needed && since >= self.again;
        if needed || blind && since >= Self::EVERY {
            self.again = if needed { (self.again * 2).clamp(Self::AGAIN, Self::EVERY) } else { Self::AGAIN };
            let windows = if needed { Self::WINDOWS } else { Self::WINDOWS / 2 };
            self.begin(now, None, windows, bulk, bulk.map_or(0, |bulk| bulk.cost_ns));
        }
    }

    /// Lets `app`, whose requests are thought to cost `cost_ns`, go alone for a moment.
    pub(super) fn begin_solo(&mut self, now: Time, app: AppId, cost_ns: u64) {
        if !self.is_running() {
            // It begins with what others left in the storage, and its cost may be a guess.
            self.begin(now, Some(app), Self::WINDOWS, None, 2 * cost_ns);
        }
    }

    fn begin(&mut self, now: Time, solo: Option<AppId>, windows: u32, bulk: Option<Bulk>, cost_ns: u64) {
        let bulk_takes = Duration::from_nanos(cost_ns);
        let until = now + (bulk_takes * Self::REQUESTS).clamp(Self::LONGEST, Self::LONGEST_LARGE);
        let settled_at = now + bulk_takes.clamp(SAVED_UP, Self::LONGEST);
        let at_last = now + Self::LONGEST_LARGE;
        self.running = Some(Running { solo, since: now, windows, until, at_last, learned: false, settled_at, bulk });
        self.last = Some(now);
    }

    /// Ends a flow's going alone: somebody is to be protected, or the flow has nothing to send.
    pub(super) fn end_solo(&mut self, now: Time) {
        if let Some(Running { solo: Some(app), since, .. }) = self.running {
            self.running = None;
            self.ended_solo = Some((app, now.since(since)));
        }
    }

    /// Who went alone until lately, and for how long.
    pub(super) fn take_ended_solo(&mut self) -> Option<(AppId, Duration)> {
        self.ended_solo.take()
    }

    /// After each completion: what a moment without limit showed, if one just ended.
    pub(super) fn on_window(&mut self, now: Time, lesson: Option<Lesson>, times: &DeviceTimes) -> Option<Outcome> {
        let Some(running) = &mut self.running else {
            // There is no limit now, as there is nobody to protect.
            if lesson == Some(Lesson::Confirmation) {
                self.last = Some(now);
            }
            return None;
        };
        running.windows -= u32::from(lesson == Some(Lesson::Confirmation));
        running.learned |= lesson.is_some();
        let until = if running.learned || running.solo.is_some() { running.until } else { running.at_last };
        if running.windows > 0 && now < until {
            return None;
        }
        self.last = Some(now);
        let Running { solo, bulk, learned, .. } = *running;
        if solo.is_some() {
            self.end_solo(now);
            return None;
        }
        self.running = None;
        if !learned {
            return Some(Outcome::Nothing);
        }
        let changed = bulk.is_some_and(|bulk| bulk.has_changed(times));
        if changed {
            self.again = Self::AGAIN;
        }
        Some(if changed { Outcome::Changed } else { Outcome::Confirmed })
    }
}
