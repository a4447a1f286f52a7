//! The latency that an application is promised for most of its requests.

use core::time::Duration;

use crate::units::Time;

/// What is promised, and what is kept of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    pub(super) latency: Option<Duration>,
    /// It holds for requests within a rate.
    pub(super) has_rate: bool,
    /// Requests of the tick that took longer, and those of late, as well as all of late.
    pub(super) late: u32,
    late_of_late: f64,
    done_of_late: f64,
    /// What as many of them keep as should.
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

    pub(super) fn set(&mut self, latency: Option<Duration>, has_rate: bool) {
        *self = Self { latency, has_rate, ..Self::default() };
    }

    /// Counts a request; the part `late` of all may be later than promised.
    pub(super) fn complete(&mut self, took: Duration, late: f64) {
        let Some(latency) = self.latency else { return };
        self.late += u32::from(took > latency);
        let step = self.kept.max(latency) / 8;
        self.kept = match took > self.kept {
            true => self.kept + step.mul_f64(1.0 - late),
            false => self.kept.saturating_sub(step.mul_f64(late)),
        };
    }

    pub(super) fn end_tick(&mut self, now: Time, done: u32, late: f64) {
        self.late_of_late = self.late_of_late * 0.98 + f64::from(self.late);
        self.done_of_late = self.done_of_late * 0.98 + f64::from(done);
        self.late = 0;
        let is_missed = self.done_of_late >= Self::ENOUGH && self.late_of_late > late * self.done_of_late;
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
