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
    /// When the peer's totals began, as the message says that took the shortest time.
    began_at: Option<Time>,
    /// How much longer the latest message took than that.
    late: Duration,
}

impl Allowance {
    /// Messages are late, and tell of service that was given before they were sent.
    const SLACK: Duration = Duration::from_secs(10);

    pub(crate) fn new(now: Time) -> Self {
        Self { nanos: Self::SLACK.as_nanos(), filled_at: now, began_at: None, late: Duration::ZERO }
    }

    /// The peer's totals start from zero.
    pub(crate) fn start_again(&mut self) {
        self.began_at = None;
    }

    /// A message arrived, which may tell of all the time since the last one. When it was sent, the peer's totals were
    /// of this age.
    pub(crate) fn open(&mut self, now: Time, age: Duration) {
        self.nanos += u128::from(now.as_nanos().saturating_sub(self.filled_at.as_nanos()));
        self.filled_at = self.filled_at.max(now);
        let began_at = Time::ZERO + now.since(Time::ZERO).saturating_sub(age);
        let earliest = self.began_at.map_or(began_at, |earliest| earliest.min(began_at));
        self.began_at = Some(earliest);
        self.late = began_at.since(earliest);
    }

    /// Whether the peer can have given `bytes`, at `rate` bytes per second. If not, they do not count.
    pub(crate) fn take(&mut self, bytes: u64, rate: u64) -> bool {
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        let left = self.nanos.checked_sub(nanos);
        self.nanos = left.unwrap_or(self.nanos);
        left.is_some()
    }

    /// All is known that the peer had given when it sent this message; if that was before a cut, it tells nothing of
    /// the time since.
    pub(crate) fn close(&mut self) {
        self.nanos = self.nanos.min((Self::SLACK + self.late).as_nanos());
    }
}
