//! Which accesses are measured, and for how long.

use std::time::{Duration, Instant};

use vpfs_core::{Bytes, OpKind};

use crate::profile::fit::{FitError, Measurement, StorageFit, fit};
use crate::profile::{ProfileError, Storage};

/// Accesses of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// [`OpKind::Read`] or [`OpKind::Write`].
    pub op: OpKind,
    /// Bytes of each access.
    pub size: Bytes,
    /// Accesses outstanding throughout.
    pub outstanding: u32,
}

/// Which accesses are measured. The smallest size finds the depth, so it is measured at more depths.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Sizes, ascending.
    pub sizes: Vec<Bytes>,
    /// Numbers of outstanding accesses for the smallest size, ascending.
    pub fine_depths: Vec<u32>,
    /// Numbers of outstanding accesses for all other sizes, ascending.
    pub depths: Vec<u32>,
}

/// Limit on outstanding bytes, that is, on the size of the threads' buffers.
const MAX_OUTSTANDING: Bytes = Bytes::mib(64);

/// Least time for a point, however little time is left.
const SHORTEST: Duration = Duration::from_millis(20);

impl Default for Sweep {
    /// 4 KiB to 4 MiB with 1 to 64 outstanding, as in [vPFS+ Fig. 2 and 3].
    fn default() -> Self {
        Self {
            sizes: [4, 16, 64, 128, 256, 512, 1024, 2048, 4096].map(Bytes::kib).to_vec(),
            fine_depths: vec![1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64],
            depths: vec![1, 2, 4, 8, 16, 32, 64],
        }
    }
}

/// The progress of a sweep.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The point being measured.
    pub point: Point,
    /// Number of points before it.
    pub done: usize,
    /// Number of all points.
    pub all: usize,
}

/// The results of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// By size and depth.
    pub reads: Vec<Measurement>,
    /// By size and depth; empty if writing was not allowed.
    pub writes: Vec<Measurement>,
}

impl Measurements {
    /// Depth and slot costs.
    ///
    /// # Errors
    /// The measurements are not sufficient.
    pub fn fit(&self) -> Result<StorageFit, FitError> {
        fit(&self.reads, &self.writes)
    }
}

impl Sweep {
    /// The largest access.
    pub fn largest(&self) -> Bytes {
        self.sizes.iter().copied().max().unwrap_or(Bytes::ZERO)
    }

    /// Measures all points, those of the smallest size twice as long as the others.
    ///
    /// With a limit of `time`, depths of a size that would take several times their share of it are left out, except
    /// for the first two.
    ///
    /// # Errors
    /// An access failed.
    pub fn run(
        &self,
        storage: &mut dyn Storage,
        time: Option<Duration>,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<Measurements, ProfileError> {
        let ops: &[OpKind] = if storage.is_writable() { &[OpKind::Read, OpKind::Write] } else { &[OpKind::Read] };
        let points: Vec<Point> = ops.iter().flat_map(|op| self.points(*op)).collect();
        let end = time.map(|time| Instant::now() + time);
        let mut measurements = Measurements::default();
        for (done, point) in points.iter().enumerate() {
            let share = end.map(|end| self.share(&points[done..], end.saturating_duration_since(Instant::now())));
            let of_op = if point.op == OpKind::Read { &mut measurements.reads } else { &mut measurements.writes };
            if share.is_some_and(|share| takes_too_long(point, of_op, share)) {
                continue;
            }
            on_progress(Progress { point: *point, done, all: points.len() });
            of_op.push(storage.measure(*point, share.unwrap_or(Duration::ZERO))?);
        }
        Ok(measurements)
    }

    fn points(&self, op: OpKind) -> impl Iterator<Item = Point> {
        self.sizes.iter().flat_map(move |&size| {
            let depths = if Some(&size) == self.sizes.first() { &self.fine_depths } else { &self.depths };
            let fits = move |depth: &&u32| u64::from(**depth) * size.0 <= MAX_OUTSTANDING.0;
            depths.iter().filter(fits).map(move |&outstanding| Point { op, size, outstanding })
        })
    }

    /// The share of the remaining time for the first of `points`.
    fn share(&self, points: &[Point], left: Duration) -> Duration {
        let parts = |point: &Point| if Some(&point.size) == self.sizes.first() { 2 } else { 1 };
        let all: u32 = points.iter().map(parts).sum();
        (left * parts(&points[0]) / all.max(1)).max(SHORTEST)
    }
}

/// Whether two rounds of `point` take more than four times its share, judged by the size's last depth, and there are
/// two depths already.
fn takes_too_long(point: &Point, measured: &[Measurement], share: Duration) -> bool {
    let of_size = || measured.iter().filter(|one| one.size == point.size);
    let Some(last) = of_size().next_back().filter(|_| of_size().count() >= 2) else { return false };
    last.mean_latency * point.outstanding / last.outstanding * 2 > share * 4
}
