//! Calibration: short moments in which the storage reveals the cost of bulk.

use core::time::Duration;

use super::device_time::{DeviceTimes, Lesson};
use super::learning::SAVED_UP;
use crate::request::OpKind;
use crate::units::{AppId, Bytes, Time};

/// A moment without protection, or with bulk of one flow only, in which the storage is saturated and costs can be
/// learned.
///
/// - While bulk is paced, nothing reveals its cost, so its share means nothing. Therefore bulk is not limited for a
///   moment if its cost is not known, if it does not get its share although its pace allows it, or if requests take
///   much longer or shorter in the storage than they did. This is also done every minute, unless bulk that waits inside
///   the storage would reveal wrong costs.
/// - While several flows are bulk, the storage reveals the sum of their costs, but not the cost of each. Therefore each
///   flow runs alone for a moment if its cost is not known. Its tags advance meanwhile, so the others get their shares
///   afterwards.
///
/// A calibration lasts until some windows of saturation confirm the costs, or until a time limit.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    running: Option<Running>,
    ended_solo: Option<(AppId, Duration)>,
    last: Option<Time>,
    /// The minimum time before the next one; it doubles as long as calibrations do not help.
    again: Duration,
}

/// The result of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Costs were right.
    Confirmed,
    /// They changed by half or more.
    Changed,
    /// It ended before any window of saturation did.
    Nothing,
}

/// A usual bulk request and its assumed cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    pub(super) op: OpKind,
    pub(super) extent: Bytes,
    pub(super) cost_ns: u64,
}

impl Bulk {
    /// Whether its cost has changed by half or more.
    fn has_changed(self, times: &DeviceTimes) -> bool {
        let now_ns = times.extent_ns(self.op, self.extent);
        now_ns.max(self.cost_ns) * 2 > now_ns.min(self.cost_ns) * 3
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    solo: Option<AppId>,
    since: Time,
    /// Windows that still have to confirm the costs.
    windows: u32,
    /// When it ends, and when it ends even if nothing has been learned yet.
    until: Time,
    at_last: Time,
    /// At least one window of saturation has ended.
    learned: bool,
    /// When the tokens that a volume had saved up are used, and the first request after that is complete.
    settled_at: Time,
    /// The usual bulk request and its cost before the calibration.
    bulk: Option<Bulk>,
}

impl Calibration {
    /// The limit on outstanding device time meanwhile; two bulk requests are always allowed.
    pub(super) const IN_FLIGHT_NS: u64 = 20_000_000;
    const WINDOWS: u32 = 4;
    /// It lasts no longer than this, ...
    const LONGEST: Duration = Duration::from_millis(1000);
    /// ... or than this number of usual bulk requests takes, ...
    const REQUESTS: u32 = 8;
    /// ... up to this.
    pub(super) const LONGEST_LARGE: Duration = Duration::from_secs(3);
    const AGAIN: Duration = Duration::from_secs(2);
    const EVERY: Duration = Duration::from_secs(60);

    /// When the storage last confirmed the costs.
    pub(super) fn confirmed(&self) -> Option<Time> {
        self.last
    }

    /// Costs were confirmed then, before a restart.
    pub(super) fn remember(&mut self, confirmed: Option<Time>) {
        self.last = confirmed;
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The bulk flow that runs alone.
    pub(super) fn solo(&self) -> Option<AppId> {
        self.running?.solo
    }

    /// Whether the storage runs at its sustained speed.
    pub(super) fn is_settled(&self, now: Time) -> bool {
        self.running.is_none_or(|running| now >= running.settled_at)
    }

    /// Starts a calibration if it is `needed` because costs are unknown or doubtful, or if one is due and nothing else
    /// would reveal that costs have changed (`blind`).
    pub(super) fn consider(&mut self, now: Time, needed: bool, blind: bool, bulk: Option<Bulk>) {
        let since = self.last.map_or(Duration::MAX, |last| now.since(last));
        let needed = needed && since >= self.again;
        if needed || blind && since >= Self::EVERY {
            self.again = if needed { (self.again * 2).clamp(Self::AGAIN, Self::EVERY) } else { Self::AGAIN };
            let windows = if needed { Self::WINDOWS } else { Self::WINDOWS / 2 };
            self.begin(now, None, windows, bulk, bulk.map_or(0, |bulk| bulk.cost_ns));
        }
    }

    /// Lets `app`, whose requests are assumed to cost `cost_ns`, run alone for a moment.
    pub(super) fn begin_solo(&mut self, now: Time, app: AppId, cost_ns: u64) {
        if !self.is_running() {
            // Requests of other flows are still outstanding, and the cost may be a guess.
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

    /// Ends the time in which a flow runs alone: an interactive flow must be protected, no other bulk flow competes,
    /// the flow has no requests, or enough is known.
    pub(super) fn end_solo(&mut self, now: Time) {
        if let Some(Running { solo: Some(app), since, .. }) = self.running {
            self.running = None;
            self.ended_solo = Some((app, now.since(since)));
        }
    }

    /// The flow that has stopped running alone since the last call, and how long it ran alone.
    pub(super) fn take_ended_solo(&mut self) -> Option<(AppId, Duration)> {
        self.ended_solo.take()
    }

    /// Call after each completion. Returns the result if a calibration without limit has just ended.
    pub(super) fn on_window(&mut self, now: Time, lesson: Option<Lesson>, times: &DeviceTimes) -> Option<Outcome> {
        let Some(running) = &mut self.running else {
            // Bulk is not limited now, because no flow must be protected: this is as good as a calibration.
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
