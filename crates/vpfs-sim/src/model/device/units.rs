//! Arithmetic shared by the models.

use std::time::Duration;

/// Time to move `len` bytes at `rate` bytes per second, rounded down to a nanosecond.
pub fn transfer_time(len: u64, rate: u64) -> Duration {
    let exact = || u64::try_from(u128::from(len) * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX);
    // Nearly every product fits, and divisions of 128 bits cost several times those of 64.
    Duration::from_nanos(len.checked_mul(1_000_000_000).map_or_else(exact, |nanos| nanos / rate.max(1)))
}
