//! Latency percentiles.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies of many calls, in seconds, each within 0.1 % of the true value. Zero if there were no calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of calls.
    pub count: u64,
    /// The fastest.
    pub min_seconds: f64,
    /// Mean.
    pub mean_seconds: f64,
    /// Half are at most this.
    pub p50_seconds: f64,
    /// 90 in 100 are at most this.
    pub p90_seconds: f64,
    /// 95 in 100 are at most this.
    pub p95_seconds: f64,
    /// 99 in 100 are at most this.
    pub p99_seconds: f64,
    /// 999 in 1000 are at most this.
    pub p999_seconds: f64,
    /// The slowest.
    pub max_seconds: f64,
}

/// Collects latencies, in nanoseconds, in bounded memory.
#[derive(Clone, Debug)]
pub(super) struct LatencyHistogram(Histogram<u64>);

const HOUR_NS: u64 = 3_600_000_000_000;

impl LatencyHistogram {
    /// 1 ns to 1 hour with three significant digits: about 270 KiB.
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, HOUR_NS, 3).expect("constant bounds are valid"))
    }

    /// Counts one call; more than an hour counts as an hour.
    pub(super) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn summary(&self) -> Latency {
        let histogram = &self.0;
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
        Latency {
            count: histogram.len(),
            min_seconds: histogram.min() as f64 / 1e9,
            mean_seconds: histogram.mean() / 1e9,
            p50_seconds: at(0.5),
            p90_seconds: at(0.9),
            p95_seconds: at(0.95),
            p99_seconds: at(0.99),
            p999_seconds: at(0.999),
            max_seconds: histogram.max() as f64 / 1e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred_milliseconds() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(histogram.summary(), Latency::default());
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let latency = histogram.summary();
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.001;
        assert_eq!(latency.count, 100);
        assert!(near(latency.p50_seconds, 0.050) && near(latency.p99_seconds, 0.099), "{latency:?}");
        assert!(near(latency.mean_seconds, 0.0505) && near(latency.max_seconds, 0.1), "{latency:?}");
    }
}
