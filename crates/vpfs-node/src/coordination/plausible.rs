//! How much service a peer can have given since its last message.

use std::time::Duration;

use vpfs_core::Time;

/// What a peer may report: what a server can give at most, for the time since its last message. So one that had nothing
/// to say for an hour may report an hour's service at once, but one that sends messages all the time may at no time
/// report more than [`Allowance::SLACK`] gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// In nanoseconds of service at the highest rate.
    nanos: u128,
    filled_at: Time,
}

impl Allowance {
    /// Messages are late, and tell of service that was given before they were sent.
    const SLACK: Duration = Duration::from_secs(10);

    pub(crate) fn new(now: Time) -> Self {
        Self { nanos: Self::SLACK.as_nanos(), filled_at: now }
    }

    /// A message arrived, which may tell of all the time since the last one.
    pub(crate) fn open(&mut self, now: Time) {
        self.nanos += u128::from(now.as_nanos().saturating_sub(self.filled_at.as_nanos()));
        self.filled_at = self.filled_at.max(now);
    }

    /// Whether the peer can have given `bytes`, at `rate` bytes per second. If not, they do not count.
    pub(crate) fn take(&mut self, bytes: u64, rate: u64) -> bool {
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        let left = self.nanos.checked_sub(nanos);
        self.nanos = left.unwrap_or(self.nanos);
        left.is_some()
    }

    /// All that the peer has reported so far is known.
    pub(crate) fn close(&mut self) {
        self.nanos = self.nanos.min(Self::SLACK.as_nanos());
    }
}
