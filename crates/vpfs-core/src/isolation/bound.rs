//! How much device time is inside the storage at once: as little as throughput allows, found online.

use core::time::Duration;

use super::device_time::{DeviceTimes, Done};
use crate::units::Time;

/// The bound W for all requests, and W_b for bulk while somebody is protected.
///
/// W is compared with twice and with half of itself, in turn, over windows in which it held requests back all the time.
/// Work is counted by costs that do not change during a comparison. Neither comparison lets more in than
/// [`Bound::MAX_NS`].
#[derive(Debug)]
pub(super) struct Bound {
    window_ns: u64,
    bulk_ns: u64,
    limit_ns: u64,
    trial: Trial,
    /// Windows at W before the next comparison.
    rest: u32,
    /// The next comparison is with more.
    upwards: bool,
    since: Option<Time>,
    interrupted: Option<Time>,
    work_ns: u64,
    completed: u32,
}

/// A comparison: windows at W and at the other one take turns.
#[derive(Debug, Default)]
struct Trial {
    other_ns: Option<u64>,
    costs: Option<DeviceTimes>,
    turn: u32,
    own: Speed,
    other: Speed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    work_ns: u64,
    elapsed: Duration,
}

impl Speed {
    fn add(&mut self, work_ns: u64, elapsed: Duration) {
        self.work_ns = self.work_ns.saturating_add(work_ns);
        self.elapsed += elapsed;
    }

    /// Work for each unit of time, in parts of a million.
    fn ppm(&self) -> u64 {
        let ppm = u128::from(self.work_ns) * 1_000_000 / self.elapsed.as_nanos().max(1);
        u64::try_from(ppm).unwrap_or(u64::MAX)
    }
}

impl Bound {
    const START_NS: u64 = 100_000_000;
    const MIN_NS: u64 = 500_000;
    /// Nobody waits longer than for this and one request, whatever is tried.
    const MAX_NS: u64 = 250_000_000;
    const WINDOW_MIN: Duration = Duration::from_millis(40);
    const COMPLETED_MIN: u32 = 16;
    const TURNS: u32 = 8;
    const REST: u32 = 20;
    const GAP_MAX: Duration = Duration::from_millis(250);

    pub(super) fn new() -> Self {
        Self {
            window_ns: Self::START_NS,
            bulk_ns: 0,
            limit_ns: u64::MAX,
            trial: Trial::default(),
            rest: 2,
            upwards: true,
            since: None,
            interrupted: None,
            work_ns: 0,
            completed: 0,
        }
    }

    /// W.
    pub(super) fn window_ns(&self) -> u64 {
        match self.trial.other_ns {
            Some(other_ns) if !self.trial.turn.is_multiple_of(2) => other_ns,
            _ => self.window_ns,
        }
        .min(self.limit_ns)
    }

    /// No more than so much may be in the storage, whatever throughput says.
    pub(super) fn set_limit(&mut self, limit_ns: u64) {
        self.limit_ns = limit_ns.max(Self::MIN_NS);
    }

    /// W_b: besides one request that may always be there.
    pub(super) fn bulk_ns(&self) -> u64 {
        self.bulk_ns
    }

    /// Costs may be learned now: W is what it usually is.
    pub(super) fn is_usual(&self) -> bool {
        self.trial.other_ns.is_none() || self.trial.turn.is_multiple_of(2)
    }

    /// Bulk does not get its share for want of places in the storage, or nobody minds if it has more (`up`); or
    /// somebody does.
    pub(super) fn adjust_bulk(&mut self, up: bool, usual_ns: u64) {
        let most = self.window_ns.max(2 * usual_ns);
        self.bulk_ns = if up {
            (self.bulk_ns + (self.bulk_ns / 4).max(usual_ns / 2)).min(most)
        } else {
            self.bulk_ns - self.bulk_ns / 3
        };
    }

    /// Costs were wrong, and so was W_b.
    pub(super) fn reset_bulk(&mut self) {
        self.bulk_ns = 0;
    }

    /// After everything that may go has gone: whether W, and nothing else, holds requests back.
    pub(super) fn on_drained(&mut self, now: Time, limited: bool) {
        if !limited {
            self.since = None;
            self.interrupted.get_or_insert(now);
            return;
        }
        // A comparison with a long gap in it compares nothing.
        let interrupted = self.interrupted.take();
        if interrupted.is_some_and(|since| now.since(since) > Self::GAP_MAX) {
            (self.trial, self.rest) = (Trial::default(), 2);
        }
        if self.since.is_none() {
            self.begin_window(now);
        }
    }

    fn begin_window(&mut self, now: Time) {
        (self.since, self.work_ns, self.completed) = (Some(now), 0, 0);
    }

    /// A request is complete; W, if it is another one now.
    pub(super) fn on_complete(&mut self, now: Time, done: Done, costs: &DeviceTimes) -> Option<Duration> {
        let since = self.since?;
        let cost_ns = self.trial.costs.as_ref().map_or(done.cost_ns, |costs| costs.cost_ns(done.op, done.size));
        self.work_ns = self.work_ns.saturating_add(cost_ns);
        self.completed += 1;
        let elapsed = now.since(since);
        let longest = Self::WINDOW_MIN.max(Duration::from_nanos(2 * self.window_ns()));
        if elapsed < longest || self.completed < Self::COMPLETED_MIN {
            return None;
        }
        let before_ns = self.window_ns();
        self.end_window(elapsed, costs);
        self.begin_window(now);
        (self.window_ns() != before_ns).then(|| Duration::from_nanos(self.window_ns()))
    }

    fn end_window(&mut self, elapsed: Duration, costs: &DeviceTimes) {
        let Some(other_ns) = self.trial.other_ns else {
            self.rest = self.rest.saturating_sub(1);
            if self.rest == 0 {
                self.begin_trial(costs);
            }
            return;
        };
        // The first turn of each is left out: what is in the storage then was let in before.
        let turn = self.trial.turn;
        if turn >= 2 {
            let side = if turn % 2 == 1 { &mut self.trial.other } else { &mut self.trial.own };
            side.add(self.work_ns, elapsed);
        }
        self.trial.turn += 1;
        if self.trial.turn > Self::TURNS + 1 {
            self.decide(other_ns);
        }
    }

    fn begin_trial(&mut self, costs: &DeviceTimes) {
        let other = if self.upwards { self.window_ns * 2 } else { self.window_ns / 2 };
        let other = other.clamp(Self::MIN_NS, Self::MAX_NS);
        if other == self.window_ns {
            self.upwards = !self.upwards;
            self.rest = Self::REST;
        } else {
            self.trial = Trial { other_ns: Some(other), costs: Some(costs.clone()), ..Trial::default() };
        }
    }

    /// More is worth it from 3 % on; less costs less than 2 %.
    fn decide(&mut self, other_ns: u64) {
        let (own, other) = (self.trial.own.ppm(), self.trial.other.ppm());
        let better = if other_ns > self.window_ns { other / 100 > own / 97 } else { other / 98 > own / 100 };
        self.trial = Trial::default();
        if better {
            self.window_ns = other_ns;
            self.rest = 1;
        } else {
            self.rest = if self.upwards { 1 } else { Self::REST };
            self.upwards = !self.upwards;
        }
    }
}
