//! The daemon's clock: the only place where the core's [`Time`] meets the machine's.

use vpfs_core::Time;

/// Nanoseconds since the daemon started. Uses tokio's clock, so that tests can pause it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }

    /// The current time.
    pub(crate) fn now(self) -> Time {
        // 584 years of nanoseconds fit.
        Time::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// When the machine will reach `time`.
    pub(crate) fn instant(self, time: Time) -> tokio::time::Instant {
        self.origin + time.since(Time::ZERO)
    }
}
