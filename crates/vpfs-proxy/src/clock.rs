//! The daemon's clock: the only place where the core's [`Time`] meets the machine's.

use std::time::{Duration, SystemTime};

use vpfs_core::Time;

/// Nanoseconds since 1970, never going back: the wall clock is read once, so that windows of time begin at about the same
/// moment on all servers, and tokio's clock goes on from there, so that tests can pause it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: tokio::time::Instant,
    since_1970: Duration,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: tokio::time::Instant::now(), since_1970 }
    }

    /// The current time.
    pub(crate) fn now(self) -> Time {
        Time::ZERO + (self.since_1970 + self.started.elapsed())
    }

    /// When the machine will reach `time`.
    pub(crate) fn instant(self, time: Time) -> tokio::time::Instant {
        self.started + time.since(Time::ZERO + self.since_1970)
    }
}
