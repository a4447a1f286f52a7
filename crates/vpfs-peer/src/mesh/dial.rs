//! When to connect to another server's proxy.

use std::time::Duration;

use vpfs_core::Time;

use super::backoff::pause;

/// A link that lasted this long was a success; after shorter ones, pauses go on growing.
const LASTING: Duration = Duration::from_secs(5);

/// The attempts to reach one server.
#[derive(Debug, Default)]
pub(super) struct Dial {
    /// When to try next; `None` while trying or connected, or if the other process connects.
    pub(super) at: Option<Time>,
    failures: u32,
}

impl Dial {
    pub(super) fn start(now: Time) -> Self {
        Self { at: Some(now), failures: 0 }
    }

    /// No link came about; tries again after a pause.
    pub(super) fn failed(&mut self, now: Time, name: &str, longest: Duration) {
        self.at = Some(now + pause(name, self.failures, longest));
        self.failures = self.failures.saturating_add(1);
    }

    /// A link that was there for `lasted` has ended.
    pub(super) fn lost(&mut self, now: Time, lasted: Duration, name: &str, longest: Duration) {
        if lasted >= LASTING {
            self.failures = 0;
        }
        self.failed(now, name, longest);
    }
}
