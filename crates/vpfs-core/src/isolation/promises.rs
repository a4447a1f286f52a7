//! Rates within which requests keep a deadline, the promises of Two-level [Two-level], kept by pacing instead of by the
//! number of requests outstanding: where one bulk request takes the storage longer than a deadline, any number is too
//! large.
//!
//! A flow with a promise has its rate as a minimum, so what is within it goes first. It is entitled to that rate
//! instead of its share: while it stays within it, it is interactive, whatever it takes, and beyond it bulk. Its
//! deadline alone decides how much its latency exceeds what is tolerable. Bulk then has no claim to its share: of the
//! storage's time only [`FLOOR_PPM`] are its own, until all deadlines are kept.

use core::time::Duration;

use super::Isolation;
use super::meter::Kind;
use crate::app_policy::{AppPolicy, Minimum};
use crate::minima::Minima;
use crate::total::TotalKind;
use crate::units::{AppId, Time};

/// What bulk keeps of the storage's time beside a flow with a promise: as much as minima leave to others.
const FLOOR_PPM: u64 = 1_000_000 / Minima::OTHERS;

impl Isolation {
    /// Sets what an application is promised; see [`TotalKind`] for which of its parameters counts.
    pub(super) fn set_promise(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        let AppPolicy { mut minimum, mut latency, target, .. } = *policy;
        let keeps_targets = self.minima.kind() == TotalKind::Target;
        if keeps_targets {
            minimum = target.map(|target| Minimum { rate: target.rate, scope: target.scope });
            latency = target.map(|target| target.deadline);
        }
        self.meter_mut(app).set_target(latency, keeps_targets);
        self.minima.set(now, &mut self.queue, app.into(), minimum);
    }

    /// The kind of a flow, which is `judged` by its share. Of those that keep to their rate, the ones with the
    /// `shortest` deadline come first: the others would have as much of the storage as these.
    pub(super) fn kind_by_promise(&self, app: AppId, judged: Kind, shortest: Option<Duration>) -> Kind {
        let meter = &self.meters[app.index()];
        match meter.deadline() {
            None => judged,
            Some(_) if self.minima.is_waiting(app.into()) => Kind::Bulk,
            deadline if deadline == shortest => Kind::Interactive,
            Some(_) => judged,
        }
    }

    /// The shortest deadline of those that keep to their rate. O(n) in the active flows.
    pub(super) fn shortest_deadline(&self) -> Option<Duration> {
        let kept = self.active.iter().filter(|app| !self.minima.is_waiting((**app).into()));
        kept.filter_map(|app| self.meters[app.index()].deadline()).min()
    }

    /// The least part of the storage's time that bulk gets, which is `due` to it by its share.
    pub(super) fn floor_ppm(&self, due: u64) -> u64 {
        if self.interactive().any(|app| self.has_deadline(app)) { due.min(FLOOR_PPM) } else { due }
    }

    /// Whether latency is compared with the best that is possible: not if all interactive flows have a deadline,
    /// because that alone shows whether bulk is too fast. Without interactive flows, as before.
    pub(super) fn measures_best(&self) -> bool {
        let mut interactive = self.interactive().peekable();
        match interactive.peek() {
            None => self.pace.measures_best(),
            Some(_) => interactive.any(|app| !self.has_deadline(app)),
        }
    }

    fn interactive(&self) -> impl Iterator<Item = AppId> {
        self.active.iter().copied().filter(|app| self.kind(*app) == Kind::Interactive)
    }

    fn has_deadline(&self, app: AppId) -> bool {
        self.meters[app.index()].deadline().is_some()
    }
}
