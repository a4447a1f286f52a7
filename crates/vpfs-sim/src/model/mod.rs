//! Pure models: storage that serves accesses, and applications that make them.
//!
//! Equal parameters and inputs give equal results. Embedded servers and `vpfs workload` use them in real time,
//! `vpfs-sim` in virtual time. Nothing here does I/O, reads a clock or starts a thread.

pub mod device;
pub mod plan;

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies of many calls, in seconds, as exact as [`Latencies`] was told. Zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of calls.
    pub count: u64,
    /// The fastest; simulations leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_seconds: Option<f64>,
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

/// Collects latencies in bounded memory: a histogram that is allocated for the first one.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Option<Box<Histogram<u64>>>,
    digits: u8,
    longest: Duration,
}

impl Latencies {
    /// From 1 ns to `longest`, with this number of significant digits, at most 5: 270 KiB for an hour with three.
    pub fn new(digits: u8, longest: Duration) -> Self {
        Self { histogram: None, digits, longest }
    }

    /// Counts one call; more than the longest counts as that.
    ///
    /// # Panics
    /// If there are more than 5 digits, or the longest is less than 2 ns.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let new =
            || Box::new(Histogram::new_with_bounds(1, nanoseconds(self.longest), self.digits).expect("valid bounds"));
        self.histogram.get_or_insert_with(new).saturating_record(nanoseconds(latency));
    }

    /// All of them.
    pub fn summary(&self) -> Latency {
        let Some(histogram) = &self.histogram else {
            return Latency { min_seconds: Some(0.0), ..Latency::default() };
        };
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
        Latency {
            count: histogram.len(),
            min_seconds: Some(histogram.min() as f64 / 1e9),
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
        let mut histogram = Latencies::new(3, Duration::from_secs(3600));
        assert_eq!((histogram.summary().count, histogram.summary().min_seconds), (0, Some(0.0)));
        (1..=100).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        let latency = histogram.summary();
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.001;
        assert_eq!(latency.count, 100);
        assert!(near(latency.p50_seconds, 0.050) && near(latency.p99_seconds, 0.099), "{latency:?}");
        assert!(near(latency.mean_seconds, 0.0505) && near(latency.max_seconds, 0.1), "{latency:?}");
    }
}
