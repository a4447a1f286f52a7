//! The times of a class of equal servers, as HARL's cost model has them [HARL §III-D, Table I]: a start-up time drawn
//! evenly between two limits, then bytes at a constant rate, for reads and writes, and the network's time for a byte.

mod fit;
mod output;
mod plan;

use std::time::Duration;

use serde::Serialize;
use vpfs_core::Bytes;

pub use self::fit::{AccessFit, ClassFit, ClassFitError, Figure, fit_class, fit_network};
pub use self::output::{ClassLabels, class_summary, class_toml, network_summary, network_toml};
pub use self::plan::{ClassPlan, ClassProgress};
use crate::profile::ProfileError;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// Bytes that come over the network, but from no storage.
    Network,
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Accesses of one kind, one at a time, at random places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// What they do.
    pub probe: Probe,
    /// Bytes of each.
    pub size: Bytes,
    /// The number of the repetition, from 0. Each has other places.
    pub repetition: u32,
    /// How long the series may take, unless that is too short for `least` accesses.
    pub time: Duration,
    /// The least number of accesses.
    pub least: u32,
    /// The largest number of accesses.
    pub most: u32,
}

/// Storage whose accesses can be timed one by one.
pub trait TimedStorage {
    /// What can be timed.
    fn probes(&self) -> Vec<Probe>;

    /// The times of the accesses of `series`.
    ///
    /// # Errors
    /// An access failed.
    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError>;
}

/// A series that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// What was timed.
    pub probe: Probe,
    /// The repetition, from 0.
    pub repetition: u32,
    /// Bytes of each access.
    pub size_bytes: u64,
    /// The number of accesses.
    pub accesses: u32,
    /// The time that 1 % of them are below.
    pub p1_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The time that 99 % of them are below.
    pub p99_ns: u64,
}

impl Timing {
    /// The summary of a series; `None` without accesses.
    fn new(series: Series, mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = |percent: usize| nanos(times[(last * percent + 50) / 100]);
        Some(Self {
            probe: series.probe,
            repetition: series.repetition,
            size_bytes: series.size.0,
            accesses: u32::try_from(times.len()).unwrap_or(u32::MAX),
            p1_ns: at(1),
            mean_ns: nanos(times.iter().sum::<Duration>()) / times.len() as u64,
            p99_ns: at(99),
        })
    }
}
