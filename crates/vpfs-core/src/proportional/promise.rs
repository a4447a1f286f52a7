//! The latency that an application is promised for nine in ten of its requests.

use core::time::Duration;

use crate::units::Time;

/// Requests that may take longer, as one in so many.
pub(super) const ONE_IN: u32 = 10;

/// What is promised, and what is kept of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    latency: Option<Duration>,
    /// Requests of the tick that took longer, and those of late, as well as all of late.
    pub(super) late: u32,
    late_of_late: f64,
    done_of_late: f64,
    /// What nine in ten keep.
    kept: Duration,
    /// Since when it is missed, and when that was said.
    missed_since: Option<Time>,
    said_at: Option<Time>,
}

impl Promise {
    /// Fewer requests say nothing.
    const ENOUGH: f64 = 8.0;
    /// A promise that is missed for less than this may still be kept: bulk becomes slower first. It is said as often.
    const PATIENCE: Duration = Duration::from_secs(10);

    pub(super) fn set(&mut self, latency: Option<Duration>) {
        *self = Self { latency, ..Self::default() };
    }

    pub(super) fn complete(&mut self, took: Duration) {
        let Some(latency) = self.latency else { return };
        self.late += u32::from(took > latency);
        let step = self.kept.max(latency) / (8 * ONE_IN);
        self.kept = if took > self.kept { self.kept + step * (ONE_IN - 1) } else { self.kept.saturating_sub(step) };
    }

    pub(super) fn end_tick(&mut self, now: Time, done: u32) {
        self.late_of_late = self.late_of_late * 0.98 + f64::from(self.late);
        self.done_of_late = self.done_of_late * 0.98 + f64::from(done);
        self.late = 0;
        let is_missed = self.done_of_late >= Self::ENOUGH && self.late_of_late * f64::from(ONE_IN) > self.done_of_late;
        self.missed_since = if is_missed { self.missed_since.or(Some(now)) } else { None };
    }

    /// What is promised, and what would be kept, if that is to be said now; at once if nothing can help.
    pub(super) fn missed(&mut self, now: Time, at_once: bool) -> Option<(Duration, Duration)> {
        let (since, latency) = (self.missed_since?, self.latency?);
        let is_old = |at: Time| now.since(at) >= Self::PATIENCE;
        if !(at_once || is_old(since)) || self.said_at.is_some_and(|at| !is_old(at)) {
            return None;
        }
        self.said_at = Some(now);
        Some((latency, self.kept.max(latency)))
    }
}
