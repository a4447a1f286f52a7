//! Arithmetic shared by the models.

use std::time::Duration;

/// Time to move `len` bytes at `rate` bytes per second, rounded down to a nanosecond.
pub(crate) fn transfer_time(len: u64, rate: u64) -> Duration {
    let nanos = u128::from(len) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
