//! A token bucket in exact integers.

use core::time::Duration;

use crate::units::{Bytes, Time};

/// A byte in tokens: bytes per second are then tokens per nanosecond, and nothing is ever rounded.
const TOKENS_PER_BYTE: i128 = 1_000_000_000;

fn tokens(bytes: Bytes) -> i128 {
    i128::from(bytes.0) * TOKENS_PER_BYTE
}

/// How a bucket fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    /// Bytes per second; zero counts as one.
    pub(super) rate: u64,
    /// What it holds.
    pub(super) burst: Bytes,
}

impl Filling {
    fn burst_tokens(self) -> i128 {
        tokens(self.burst)
    }

    /// Tokens added per nanosecond.
    fn rate_tokens(self) -> i128 {
        self.rate.max(1).into()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Bucket {
    filling: Filling,
    /// Negative: in debt.
    tokens: i128,
    filled_at: Time,
}

impl Bucket {
    pub(super) fn full(filling: Filling, now: Time) -> Self {
        Self { filling, tokens: filling.burst_tokens(), filled_at: now }
    }

    /// When it is out of debt; `None` if it is.
    pub(super) fn due(&mut self, now: Time) -> Option<Time> {
        self.fill(now);
        (self.tokens < 0).then(|| self.out_of_debt())
    }

    /// Takes `cost` in any case, which may lead into debt.
    pub(super) fn charge(&mut self, now: Time, cost: Bytes) {
        self.fill(now);
        self.tokens -= tokens(cost);
    }

    /// Takes `cost`, but no more than leads into a debt that is paid within `nanos`.
    pub(super) fn charge_up_to(&mut self, now: Time, cost: Bytes, nanos: u64) {
        self.fill(now);
        let lowest = -self.filling.rate_tokens() * i128::from(nanos);
        self.tokens = (self.tokens - tokens(cost)).max(lowest.min(self.tokens));
    }

    /// Takes `cost`, but no more than leads into the debt of this one cost, or one that is paid within `nanos`. Returns
    /// what it took.
    pub(super) fn charge_received(&mut self, now: Time, cost: Bytes, nanos: u64) -> Bytes {
        self.fill(now);
        let before = self.tokens;
        let lowest = -(self.filling.rate_tokens() * i128::from(nanos)).max(tokens(cost));
        self.tokens = (before - tokens(cost)).max(lowest.min(before));
        Bytes(u64::try_from((before - self.tokens) / TOKENS_PER_BYTE).unwrap_or(u64::MAX))
    }

    /// What was charged as `charged` costs `real`.
    pub(super) fn recharge(&mut self, now: Time, charged: Bytes, real: Bytes) {
        self.fill(now);
        self.tokens = (self.tokens + tokens(charged) - tokens(real)).min(self.filling.burst_tokens());
    }

    /// Fills in another way from now on; tokens are kept, up to the new burst.
    pub(super) fn set(&mut self, now: Time, filling: Filling) {
        self.fill(now);
        self.filling = filling;
        self.tokens = self.tokens.min(filling.burst_tokens());
    }

    fn fill(&mut self, now: Time) {
        let nanos = i128::from(now.as_nanos().saturating_sub(self.filled_at.as_nanos()));
        let filled = self.tokens.saturating_add(nanos.saturating_mul(self.filling.rate_tokens()));
        self.tokens = filled.min(self.filling.burst_tokens());
        self.filled_at = self.filled_at.max(now);
    }

    /// The first nanosecond at which the debt is paid.
    fn out_of_debt(&self) -> Time {
        let nanos = self.tokens.unsigned_abs().div_ceil(self.filling.rate_tokens().unsigned_abs());
        self.filled_at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Bucket {
        fn take(&mut self, now: Time, cost: Bytes) -> Result<(), Time> {
            if let Some(due) = self.due(now) {
                return Err(due);
            }
            self.charge(now, cost);
            Ok(())
        }
    }

    #[test]
    fn debt_is_paid_to_the_nanosecond() {
        let mut bucket = Bucket::full(Filling { rate: 3, burst: Bytes(2) }, Time::ZERO);
        assert_eq!(bucket.take(Time::ZERO, Bytes(3)), Ok(()));
        let due = Time::from_nanos(333_333_334);
        assert_eq!(bucket.take(Time::ZERO, Bytes(1)), Err(due));
        assert_eq!(bucket.take(Time::from_nanos(333_333_333), Bytes(1)), Err(due));
        assert_eq!(bucket.take(due, Bytes(1)), Ok(()));
    }

    #[test]
    fn filling_in_many_small_steps_loses_nothing() {
        let mut bucket = Bucket::full(Filling { rate: 7, burst: Bytes(0) }, Time::ZERO);
        bucket.take(Time::ZERO, Bytes(7)).unwrap();
        for nanos in (0..1_000_000_000).step_by(999_999) {
            assert_eq!(bucket.take(Time::from_nanos(nanos), Bytes(1)), Err(Time::from_millis(1000)));
        }
        assert_eq!(bucket.take(Time::from_millis(1000), Bytes(1)), Ok(()));
    }

    #[test]
    fn a_pause_gives_the_burst_and_no_more() {
        let mut bucket = Bucket::full(Filling { rate: 1_000_000, burst: Bytes(100) }, Time::ZERO);
        let hour = Time::from_millis(3_600_000);
        bucket.take(hour, Bytes(100)).unwrap();
        bucket.take(hour, Bytes(1)).unwrap();
        assert!(bucket.take(hour, Bytes(1)).is_err());
        bucket.recharge(hour, Bytes(1), Bytes::ZERO);
        assert_eq!(bucket.take(hour, Bytes(1)), Ok(()));
    }
}
