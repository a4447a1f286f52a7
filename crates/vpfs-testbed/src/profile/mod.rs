//! Measures storage as in the papers, and finds its depth D and slot costs L [vPFS+ §III-B].
//!
//! A [`Sweep`] defines which accesses to measure; a [`Storage`] measures them: a
//! [directory](RealStorage::in_directory), a block device, or a device model in virtual time.
//! [`fit`] derives D and L from the [`Measurements`]; [`to_toml`] writes the fragment that a
//! daemon's configuration includes.
//!
//! For `vpfs layout advise`, a [`ClassPlan`] times single accesses to a [`TimedStorage`], [`fit_class`] finds the
//! parameters of HARL's cost model, and [`class_toml`] writes them. A [`NetworkPath`] is such a storage too: what
//! [`answer_network`] sends, without storage.
//!
//! Each outstanding access has its own thread and uses the standard library: at these depths the kernel sees the same
//! queue as with io_uring, and the io_uring crates (`io-uring`, `tokio-uring`, `rio`) need `unsafe` in the caller or
//! are unmaintained. `rustix` provides the flags and file system calls that the standard library lacks.
//!
//! Nothing but a file of our own is ever written, except for a device that is named a second time, is not in use and is
//! empty at both ends.

mod class;
mod fit;
mod real;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vpfs_core::hash::mix;
use vpfs_core::{Bytes, OpKind, Time};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

pub use class::{
    AccessFit, ClassFit, ClassFitError, ClassLabels, ClassPlan, ClassProgress, Figure, NetworkPath, Probe, Series,
    TimedStorage, Timing, answer_network, class_summary, class_toml, fit_class, fit_network, network_summary,
    network_toml,
};
pub use fit::{FitError, Measurement, OpFit, Record, SizeFit, StorageFit, fit, records, to_toml};
pub use real::{Options, RealStorage};

/// Storage that can be measured.
pub trait Storage {
    /// Whether writes may be measured as well as reads.
    fn is_writable(&self) -> bool;

    /// Measures the random accesses of `point` for about `time`.
    fn measure(&mut self, point: Point, time: Duration) -> Result<Measurement, ProfileError>;
}

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

/// Why storage cannot be measured, and what would help.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ProfileError {
    #[error("cannot {action} {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is neither a directory nor a block device; name the directory that the servers store in", .0.display())]
    Unsuitable(PathBuf),
    #[error(
        "the file system of {} refuses direct I/O, so its page cache would be measured with it; if that is meant, use --buffered",
        .0.display()
    )]
    NoDirectIo(PathBuf),
    #[error("the test file takes {} MiB and {} has {} MiB free; use a smaller --size", .needed.0 >> 20, .path.display(), .free.0 >> 20)]
    NoSpace { path: PathBuf, needed: Bytes, free: Bytes },
    #[error("{} KiB are not enough to measure with; {} KiB are needed", .has.0 >> 10, .needed.0 >> 10)]
    TooSmall { has: Bytes, needed: Bytes },
    /// Data in a directory is never destroyed.
    #[error("--destroy-data is for block devices, and {} is none", .0.display())]
    NotADevice(PathBuf),
    #[error("--destroy-data must name the device that is measured, {}, once more; it names {}", .measured.display(), .named.display())]
    OtherDevice { measured: PathBuf, named: PathBuf },
    #[error("{} is in use (mounted, swap, or part of a volume); its data is not destroyed", .0.display())]
    InUse(PathBuf),
    /// The device contains data where file systems, partition tables and volumes keep their signatures.
    #[error(
        "{} is not empty: there is data at byte {at}; its data is not destroyed. If nobody needs it, write zeros to the \
         first and last MiB of the device",
        .path.display()
    )]
    NotEmpty { path: PathBuf, at: u64 },
    #[error("cannot {action} {address}: {source}")]
    Network { action: &'static str, address: String, source: io::Error },
    #[error("{0} is not `vpfs profile network --listen`; start that on the server, at this port")]
    NotOurServer(String),
}

impl ProfileError {
    /// For `map_err`.
    pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// For `map_err`.
    fn network(action: &'static str, address: &str) -> impl FnOnce(io::Error) -> Self {
        let address = address.to_owned();
        move |source| Self::Network { action, address, source }
    }
}

/// A device model, newly created for each point and measured in its own time.
#[derive(Clone, Debug)]
pub struct ModelStorage(
    /// The model.
    pub DeviceProfile,
);

/// Accesses for each point: with fixed seeds, enough to locate the knee of the papers' disk.
const ACCESSES: u32 = 2_000;
/// Range of the accesses in bytes.
const SPAN: Bytes = Bytes::mib(64 << 10);

impl Storage for ModelStorage {
    fn is_writable(&self) -> bool {
        true
    }

    fn measure(&mut self, point: Point, _time: Duration) -> Result<Measurement, ProfileError> {
        let kind = if point.op == OpKind::Read { IoKind::Read } else { IoKind::Write };
        Ok(measure(&self.0, kind, point.size, point.outstanding, ACCESSES, SPAN))
    }
}

impl TimedStorage for ModelStorage {
    fn probes(&self) -> Vec<Probe> {
        vec![Probe::Read, Probe::Write]
    }

    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError> {
        let kind = if series.probe == Probe::Write { IoKind::Write } else { IoKind::Read };
        let (mut device, mut now) = (self.0.build(), Time::ZERO);
        let places = SPAN.saturating_sub(series.size).0 / 4096 + 1;
        let object = u64::from(series.repetition) + 1;
        let mut times = Vec::new();
        // The first access finds the head elsewhere.
        for number in 0..=u64::from(series.most) {
            let offset = mix(mix(object) ^ number) % places * 4096;
            device.submit(now, Io { kind, object, offset, len: series.size.0 });
            let begin = now;
            while let Some(next) = device.poll_timeout() {
                now = next.max(now);
                if let Some(completion) = device.poll_completed(now) {
                    times.extend((number > 0).then(|| completion.at.since(begin)));
                    break;
                }
            }
        }
        Ok(times)
    }
}

/// Measures accesses of `size` bytes at random multiples of 4 KiB in a file of `span` bytes, `outstanding` at a time,
/// until `accesses` are done.
///
/// The device starts new and idle. Calls the model O(accesses) times.
///
/// # Panics
/// If `outstanding`, `accesses` or `size` is zero, as there would be nothing to measure.
pub fn measure(
    device: &DeviceProfile,
    kind: IoKind,
    size: Bytes,
    outstanding: u32,
    accesses: u32,
    span: Bytes,
) -> Measurement {
    assert!(outstanding > 0 && accesses > 0 && size > Bytes::ZERO, "there is nothing to measure");
    let (mut device, mut now) = (device.build(), Time::ZERO);
    let (mut begins, mut submitted, mut done, mut waited) = (BTreeMap::new(), 0, 0, Duration::ZERO);
    let places = span.saturating_sub(size).0 / 4096 + 1;
    while done < accesses {
        while begins.len() < outstanding as usize {
            let io = Io { kind, object: 1, offset: mix(submitted) % places * 4096, len: size.0 };
            begins.insert(device.submit(now, io), now);
            submitted += 1;
        }
        now = device.poll_timeout().map_or(now, |next| next.max(now));
        while let Some(completion) = device.poll_completed(now) {
            waited += begins.remove(&completion.id).map_or(Duration::ZERO, |begin| completion.at.since(begin));
            done += 1;
        }
    }
    let moved = u128::from(done) * u128::from(size.0) * 1_000_000_000;
    let throughput = moved.checked_div(u128::from(now.as_nanos())).unwrap_or(u128::MAX);
    Measurement {
        size,
        outstanding,
        throughput: Bytes(u64::try_from(throughput).unwrap_or(u64::MAX)),
        mean_latency: waited / done,
    }
}
