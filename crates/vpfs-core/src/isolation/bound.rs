//! The limit on outstanding device time: as little as throughput allows, found online.

use core::time::Duration;

use super::device_time::{DeviceTimes, Done};
use crate::units::Time;

/// The bound W for all requests, and W_b for bulk while an interactive flow is protected.
///
/// W is compared with twice and with half its value, in turn, over windows in which it held requests back all the time.
/// Work is counted with costs that do not change during a comparison. No comparison exceeds [`Bound::MAX_NS`].
#[derive(Debug)]
pub(super) struct Bound {
    window_ns: u64,
    bulk_ns: u64,
    limit_ns: u64,
    least_ns: u64,
    trial: Trial,
    /// Windows at W before the next comparison.
    rest: u32,
    /// The next comparison is with a larger W.
    upwards: bool,
    since: Option<Time>,
    interrupted: Option<Time>,
    work_ns: u64,
    completed: u32,
}

/// A comparison: windows at W and at the other value alternate.
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

    /// Work per unit of time, in parts per million.
    fn ppm(&self) -> u64 {
        let ppm = u128::from(self.work_ns) * 1_000_000 / self.elapsed.as_nanos().max(1);
        u64::try_from(ppm).unwrap_or(u64::MAX)
    }
}

impl Bound {
    /// W until it is found.
    pub(super) const START_NS: u64 = 100_000_000;
    const MIN_NS: u64 = 500_000;
    /// The largest W that is tried, so no request waits for more than this and one other request.
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
            least_ns: Self::MIN_NS,
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
        .max(self.least_ns)
        .min(self.limit_ns)
    }

    /// Limits W to `limit_ns`, even if more would raise throughput.
    pub(super) fn set_limit(&mut self, limit_ns: u64) {
        self.limit_ns = limit_ns.max(Self::MIN_NS);
    }

    /// One request may always be outstanding, and a usual one costs `usual_ns`: less than that makes no difference.
    /// Twice as much must make one, or W would stay there even where requests are served in parallel.
    pub(super) fn set_least(&mut self, usual_ns: u64) {
        self.least_ns = usual_ns.clamp(Self::MIN_NS, Self::MAX_NS);
    }

    /// W_b. One bulk request may always be outstanding, whatever it costs.
    pub(super) fn bulk_ns(&self) -> u64 {
        self.bulk_ns
    }

    /// Whether W has its usual value, so that costs may be learned.
    pub(super) fn is_usual(&self) -> bool {
        self.trial.other_ns.is_none() || self.trial.turn.is_multiple_of(2)
    }

    /// Raises W_b (`up`), because bulk does not get its share otherwise or no interactive flow suffers, or lowers it.
    pub(super) fn adjust_bulk(&mut self, up: bool, usual_ns: u64) {
        let most = self.window_ns.max(2 * usual_ns);
        self.bulk_ns = if up {
            (self.bulk_ns + (self.bulk_ns / 4).max(usual_ns / 2)).min(most)
        } else {
            self.bulk_ns - self.bulk_ns / 3
        };
    }

    /// Resets W_b, because the costs on which it was based were wrong.
    pub(super) fn reset_bulk(&mut self) {
        self.bulk_ns = 0;
    }

    /// Call when nothing more may be dispatched; `limited` if W, and nothing else, holds requests back.
    pub(super) fn on_drained(&mut self, now: Time, limited: bool) {
        if !limited {
            self.since = None;
            self.interrupted.get_or_insert(now);
            return;
        }
        // A comparison with a long interruption is not valid.
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

    /// A request is complete. Returns W if it has changed.
    pub(super) fn on_complete(&mut self, now: Time, done: Done, costs: &DeviceTimes) -> Option<Duration> {
        let since = self.since?;
        let cost_ns =
            self.trial.costs.as_ref().map_or(done.cost_ns, |costs| costs.request_ns(done.op, done.size, done.objects));
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
        // The first turn of each value is ignored: requests outstanding then were dispatched under the other value.
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
        let own = self.window_ns();
        let other = if self.upwards { own * 2 } else { own / 2 };
        let other = other.clamp(self.least_ns, Self::MAX_NS).min(self.limit_ns);
        if other == own {
            self.upwards = !self.upwards;
            self.rest = Self::REST;
        } else {
            self.trial = Trial { other_ns: Some(other), costs: Some(costs.clone()), ..Trial::default() };
        }
    }

    /// A larger W must gain more than 3 %; a smaller one must lose less than 2 %.
    fn decide(&mut self, other_ns: u64) {
        let (own, other) = (self.trial.own.ppm(), self.trial.other.ppm());
        let better = if other_ns > self.window_ns() { other / 100 > own / 97 } else { other / 98 > own / 100 };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::OpKind;
    use crate::units::Bytes;

    const SIZE: Bytes = Bytes::mib(1);

    /// What W is, apart from comparisons, at the end of 5,000 requests of storage that serves two at a time.
    fn after(least_ns: u64) -> u64 {
        let mut bound = Bound { window_ns: Bound::MIN_NS, ..Bound::new() };
        bound.set_least(least_ns);
        let costs = DeviceTimes::new();
        let cost_ns = costs.cost_ns(OpKind::Write, SIZE);
        let mut now = Time::ZERO;
        for _ in 0..5_000 {
            bound.on_drained(now, true);
            let parallel = (bound.window_ns() / cost_ns).clamp(1, 2);
            now = now + Duration::from_nanos(2 * cost_ns / parallel);
            bound.on_complete(now, costs.done(OpKind::Write, SIZE, true, false), &costs);
        }
        bound.window_ns
    }

    /// Symptom: a server served one request at a time, for minutes, on storage that serves reads beside writes. Cause:
    /// W was far below what one request costs, where twice as much makes no difference. Proof: it stays there if the
    /// least W is not known.
    #[test]
    fn a_bound_below_one_request_rises_again() {
        let cost_ns = DeviceTimes::new().cost_ns(OpKind::Write, SIZE);
        let (stuck, found) = (after(0), after(cost_ns));
        assert!(stuck < cost_ns && found >= 2 * cost_ns, "{stuck} without, {found} with: {cost_ns}");
    }
}
