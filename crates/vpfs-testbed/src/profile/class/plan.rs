//! Which series are timed, and for how long.

use std::time::{Duration, Instant};

use vpfs_core::Bytes;

use super::{Probe, Series, TimedStorage, Timing};
use crate::profile::ProfileError;

/// Which series are timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// Sizes, ascending. The smallest finds the start-up times and gets half of the time; all find the rate.
    pub sizes: Vec<Bytes>,
    /// How often everything is repeated.
    pub repetitions: u32,
    /// The most accesses of a series.
    pub most: u32,
}

/// The least number of accesses of a series.
const LEAST: u32 = 3;

impl Default for ClassPlan {
    /// 4 KiB to 4 MiB, five times.
    fn default() -> Self {
        Self { sizes: [4, 64, 256, 1024, 4096].map(Bytes::kib).to_vec(), repetitions: 5, most: 10_000 }
    }
}

/// The progress of a plan.
#[derive(Clone, Copy, Debug)]
pub struct ClassProgress {
    /// The series being timed.
    pub series: Series,
    /// Number of series before it.
    pub done: usize,
    /// Number of all series.
    pub all: usize,
}

impl ClassPlan {
    /// The largest access.
    pub fn largest(&self) -> Bytes {
        self.sizes.iter().copied().max().unwrap_or(Bytes::ZERO)
    }

    /// Times all series in about `time`; without a limit, each has its largest number of accesses. Repetitions follow
    /// each other, so that a disturbance falls into few of them.
    ///
    /// # Errors
    /// An access failed.
    pub fn run(
        &self,
        storage: &mut dyn TimedStorage,
        time: Option<Duration>,
        mut on_progress: impl FnMut(ClassProgress),
    ) -> Result<Vec<Timing>, ProfileError> {
        let all = self.series(&storage.probes());
        let end = time.map(|time| Instant::now() + time);
        let mut timings = Vec::with_capacity(all.len());
        for (done, series) in all.iter().enumerate() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let parts: u32 = all[done..].iter().map(|series| self.parts(series)).sum();
            let time = left.map_or(Duration::MAX, |left| left * self.parts(series) / parts.max(1));
            let series = Series { time, ..*series };
            on_progress(ClassProgress { series, done, all: all.len() });
            timings.extend(Timing::new(series, storage.times(series)?));
        }
        Ok(timings)
    }

    fn series(&self, probes: &[Probe]) -> Vec<Series> {
        let of = |repetition| {
            let sizes = |probe| self.sizes.iter().map(move |&size| (probe, size));
            probes.iter().copied().flat_map(sizes).map(move |(probe, size)| Series {
                probe,
                size,
                repetition,
                time: Duration::MAX,
                least: LEAST.min(self.most),
                most: self.most,
            })
        };
        (0..self.repetitions).flat_map(of).collect()
    }

    /// Parts of the time that a series gets.
    fn parts(&self, series: &Series) -> u32 {
        let others = u32::try_from(self.sizes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let finds_startup = Some(&series.size) == self.sizes.first() && series.probe != Probe::Network;
        if finds_startup { others.max(1) } else { 1 }
    }
}
