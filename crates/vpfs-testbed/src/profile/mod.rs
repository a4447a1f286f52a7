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
//!
//! # Depth and slot costs [vPFS+ §III-B, Fig. 2-3]
//!
//! - *Throughput model*: throughput against the number of outstanding accesses, for the smallest size. D is its knee:
//!   the smallest number that reaches 95 % of the largest throughput.
//! - *Latency model*: mean latency against the number of outstanding accesses, for each size. Its slope, divided by
//!   that of the smallest size and rounded, is L. Sizes with a slope at most 25 % above the smallest size's are small.
//!   The slope is that of the saturated part, from the size's own knee on: below the knee latency hardly grows, because
//!   nothing waits. The paper does not state which part it uses.
//!
//! Runs once, before a daemon starts; it uses floating point, and decides nothing online.
//!
//! Added: reads and writes are measured separately, and one slot is the time of the cheaper of the two at the smallest
//! size, so that on flash even a small write takes several slots.

mod class;
mod real;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use thiserror::Error;
use vpfs_config::units::Size;
use vpfs_core::hash::mix;
use vpfs_core::slot_cost::{SizeClass, SlotCostError};
use vpfs_core::{Bytes, Depth, OpKind, SlotCost, SlotCostTable, Time};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

pub use class::{
    AccessFit, ClassFit, ClassFitError, ClassLabels, ClassPlan, ClassProgress, Figure, NetworkPath, Probe, Series,
    TimedStorage, Timing, answer_network, class_summary, class_toml, fit_class, fit_network, network_summary,
    network_toml,
};
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

/// The knee of the throughput model, as a fraction of the largest throughput.
const SATURATED: f64 = 0.95;
/// A slope up to this multiple of the smallest size's counts as small.
const SMALL: f64 = 1.25;

/// Accesses of one size at random places, with a constant number of them outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// Bytes of each access.
    pub size: Bytes,
    /// Accesses outstanding throughout.
    pub outstanding: u32,
    /// Bytes per second of all of them together.
    pub throughput: Bytes,
    /// From submission to completion.
    pub mean_latency: Duration,
}

/// Why measurements do not yield a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum FitError {
    #[error("there are no measurements")]
    Nothing,
    #[error("accesses of {} bytes were measured with one number outstanding only; measure at least two", .size.0)]
    OneDepth { size: Bytes },
    /// No access completed, or completions took no time.
    #[error("accesses of {} bytes with {outstanding} outstanding have no throughput or no outstanding ones", .size.0)]
    NoThroughput { size: Bytes, outstanding: u32 },
    /// As fast as memory: a slope of zero.
    #[error("accesses of {} bytes take no time, so there is nothing to schedule", .size.0)]
    NoLatency { size: Bytes },
    /// More size classes than a table holds.
    #[error(transparent)]
    Table(#[from] SlotCostError),
}

/// What was found for one size of access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeFit {
    /// Bytes of each access.
    pub size: Bytes,
    /// Nanoseconds of latency for each outstanding access.
    pub slope_ns: f64,
    /// L.
    pub slot_cost: SlotCost,
}

/// What was found for reads or for writes.
#[derive(Clone, Debug, PartialEq)]
pub struct OpFit {
    /// The smallest number of outstanding accesses that saturates the storage with the smallest size.
    pub knee: Depth,
    /// The largest number of outstanding accesses measured at the smallest size; a knee there may really be higher.
    pub deepest: Depth,
    /// The largest size that costs the same as the smallest.
    pub small_threshold: Bytes,
    /// All sizes, ascending.
    pub sizes: Vec<SizeFit>,
}

/// Depth and slot costs of a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageFit {
    /// D.
    pub depth: Depth,
    /// L by operation and size; if only one operation was measured, its costs hold for both.
    pub slot_costs: SlotCostTable,
    /// The models of reads, if reads were measured.
    pub reads: Option<OpFit>,
    /// The models of writes, if writes were measured.
    pub writes: Option<OpFit>,
}

/// Finds D and L from measurements in any order; if one operation was not measured, the other stands for both.
///
/// O(n log n).
///
/// # Errors
/// Measurements that are too few or reveal nothing, see [`FitError`].
pub fn fit(reads: &[Measurement], writes: &[Measurement]) -> Result<StorageFit, FitError> {
    let (reads, writes) = (Model::of(reads)?, Model::of(writes)?);
    let cheapest = reads.iter().chain(&writes).min_by(|left, right| left.unit().total_cmp(&right.unit()));
    let cheapest = cheapest.ok_or(FitError::Nothing)?;
    let (unit, depth) = (cheapest.unit(), cheapest.knee);
    let [reads, writes] = [&reads, &writes].map(|model| model.as_ref().map(|model| model.fit(unit, depth)));
    let either = reads.as_ref().or(writes.as_ref()).ok_or(FitError::Nothing)?;
    let slot_costs = table(reads.as_ref().unwrap_or(either), writes.as_ref().unwrap_or(either))?;
    Ok(StorageFit { depth, slot_costs, reads, writes })
}

struct Model {
    knee: Depth,
    deepest: Depth,
    slopes: Vec<(Bytes, f64)>,
}

impl Model {
    /// `None` without measurements.
    fn of(measurements: &[Measurement]) -> Result<Option<Self>, FitError> {
        let mut sorted = measurements.to_vec();
        sorted.sort_by_key(|measured| (measured.size, measured.outstanding));
        let by_size: Vec<&[Measurement]> = sorted.chunk_by(|left, right| left.size == right.size).collect();
        let Some(smallest) = by_size.first() else { return Ok(None) };
        let (knee, deepest) = knee(smallest)?;
        let slopes = by_size.iter().map(|of_size| Ok((of_size[0].size, slope(of_size)?)));
        let slopes: Vec<(Bytes, f64)> = slopes.collect::<Result<_, FitError>>()?;
        let (size, unit) = slopes[0];
        if unit > 0.0 { Ok(Some(Self { knee, deepest, slopes })) } else { Err(FitError::NoLatency { size }) }
    }

    fn unit(&self) -> f64 {
        self.slopes[0].1
    }

    /// Slot costs in units of `unit`, at most `depth`. All small sizes get the smallest one's, and no size gets less
    /// than a smaller one.
    fn fit(&self, unit: f64, depth: Depth) -> OpFit {
        let is_small = |slope: f64| slope <= self.unit() * SMALL;
        let small = self.slopes.iter().rev().find(|(_, slope)| is_small(*slope));
        let small_threshold = small.map_or(self.slopes[0].0, |(size, _)| *size);
        let mut least = rounded(self.unit() / unit);
        let sizes = self.slopes.iter().map(|&(size, slope)| {
            if size > small_threshold {
                least = least.max(rounded(slope / unit));
            }
            SizeFit { size, slope_ns: slope, slot_cost: least.clamp_to(depth) }
        });
        OpFit { sizes: sizes.collect(), knee: self.knee, deepest: self.deepest, small_threshold }
    }
}

fn knee(of_size: &[Measurement]) -> Result<(Depth, Depth), FitError> {
    let depth = |measured: &Measurement| {
        let depth = Depth::new(measured.outstanding).filter(|_| measured.throughput > Bytes::ZERO);
        depth.ok_or(FitError::NoThroughput { size: measured.size, outstanding: measured.outstanding })
    };
    let depths = of_size.iter().map(depth).collect::<Result<Vec<_>, _>>()?;
    Ok((depths[saturates_at(of_size)], depths[depths.len() - 1]))
}

fn saturates_at(of_size: &[Measurement]) -> usize {
    let largest = of_size.iter().map(|measured| measured.throughput.0).max().unwrap_or(0) as f64;
    of_size.iter().position(|measured| measured.throughput.0 as f64 >= largest * SATURATED).unwrap_or(0)
}

/// Nanoseconds for each outstanding access in the saturated part. If that is a single point, or noise makes the line
/// fall: the latency there divided by the number outstanding, which is the slope that saturated storage would have from
/// there on.
fn slope(of_size: &[Measurement]) -> Result<f64, FitError> {
    least_squares(of_size).ok_or(FitError::OneDepth { size: of_size[0].size })?;
    let saturated = &of_size[saturates_at(of_size)..];
    let at_knee = saturated[0].mean_latency.as_nanos() as f64 / f64::from(saturated[0].outstanding);
    Ok(least_squares(saturated).filter(|slope| *slope > 0.0).unwrap_or(at_knee))
}

/// `None` unless there are at least two depths.
fn least_squares(measured: &[Measurement]) -> Option<f64> {
    let points = || measured.iter().map(|one| (f64::from(one.outstanding), one.mean_latency.as_nanos() as f64));
    let count = measured.len() as f64;
    let (sum_x, sum_y) = points().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let covariance: f64 = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates at both ends")]
fn rounded(ratio: f64) -> SlotCost {
    SlotCost::new((ratio + 0.5) as u32).unwrap_or(SlotCost::ONE)
}

/// One row at each size where the cost changes. The threshold is the largest size that is small for both operations;
/// one byte if there is none.
fn table(reads: &OpFit, writes: &OpFit) -> Result<SlotCostTable, SlotCostError> {
    let is_one = |op: &OpFit| op.sizes[0].slot_cost == SlotCost::ONE;
    let small = reads.small_threshold.min(writes.small_threshold);
    let small = if is_one(reads) && is_one(writes) { small } else { Bytes(1) };
    SlotCostTable::new(small, rows(reads, small), rows(writes, small))
}

fn rows(op: &OpFit, small: Bytes) -> Vec<SizeClass> {
    let above: Vec<&SizeFit> = op.sizes.iter().filter(|fit| fit.size > small).collect();
    let classes = above.chunk_by(|left, right| left.slot_cost == right.slot_cost);
    let last = classes.filter_map(|class| class.last());
    last.map(|fit| SizeClass { up_to: fit.size, slot_cost: fit.slot_cost }).collect()
}

// A profile for the daemon's configuration, and measurements for programs.

/// The `[scheduler]` table of a configuration, with exactly the keys that depth and slot costs have there.
pub fn to_toml(fit: &StorageFit, measured: &str) -> String {
    let table = &fit.slot_costs;
    let small = table.small_threshold();
    let [reads, writes] = [OpKind::Read, OpKind::Write].map(|op| at_least_one(table.rows(op), small));
    let lines: Vec<String> = if reads == writes {
        reads.iter().map(|class| row("", class)).collect()
    } else {
        let reads = reads.iter().map(|class| row("op = \"read\", ", class));
        reads.chain(writes.iter().map(|class| row("op = \"write\", ", class))).collect()
    };
    let mut text = format!("# {measured}\n[scheduler]\ndepth = {}\n", fit.depth.get());
    // Writing to a string does not fail.
    let _ = writeln!(text, "small_threshold = \"{}\"\nslot_cost = [", Size(small));
    lines.iter().for_each(|line| text.push_str(line));
    text + "]\n"
}

/// A configuration without rows selects the paper's slot costs, so always write at least one.
fn at_least_one(classes: &[SizeClass], small: Bytes) -> Vec<SizeClass> {
    match classes {
        [] => vec![SizeClass { up_to: small + small, slot_cost: SlotCost::ONE }],
        classes => classes.to_vec(),
    }
}

fn row(op: &str, class: &SizeClass) -> String {
    format!("    {{ {op}up_to = \"{}\", slots = {} }},\n", Size(class.up_to), class.slot_cost.get())
}

/// One measurement for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Record {
    /// `read` or `write`.
    pub op: &'static str,
    /// Bytes of each access.
    pub size_bytes: u64,
    /// Accesses outstanding throughout.
    pub outstanding: u32,
    /// Throughput of all accesses.
    pub bytes_per_second: u64,
    /// From submission to completion.
    pub mean_latency_ns: u64,
}

/// All measurements, reads first.
pub fn records(measurements: &Measurements) -> Vec<Record> {
    let record = |op, one: &Measurement| Record {
        op,
        size_bytes: one.size.0,
        outstanding: one.outstanding,
        bytes_per_second: one.throughput.0,
        mean_latency_ns: u64::try_from(one.mean_latency.as_nanos()).unwrap_or(u64::MAX),
    };
    let reads = measurements.reads.iter().map(|one| record("read", one));
    reads.chain(measurements.writes.iter().map(|one| record("write", one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTHS: [u32; 11] = [1, 2, 4, 8, 10, 12, 14, 16, 32, 48, 64];

    /// Storage that needs `base` for each access and completes one every `cost`: it saturates with base/cost
    /// outstanding.
    fn queue(kib: u64, base_us: u64, cost_us: u64) -> Vec<Measurement> {
        let point = |outstanding: u32| {
            let latency_us = base_us.max(u64::from(outstanding) * cost_us);
            let throughput = u64::from(outstanding) * (kib << 10) * 1_000_000 / latency_us;
            let (throughput, mean_latency) = (Bytes(throughput), Duration::from_micros(latency_us));
            Measurement { size: Bytes::kib(kib), outstanding, throughput, mean_latency }
        };
        DEPTHS.into_iter().map(point).collect()
    }

    /// Saturated from the first access on, with these costs by size.
    fn sizes(costs: &[(u64, u64)]) -> Vec<Measurement> {
        costs.iter().flat_map(|&(kib, cost_us)| queue(kib, 1, cost_us)).collect()
    }

    fn slots(fit: &StorageFit, op: OpKind, kib: u64) -> u32 {
        fit.slot_costs.slot_cost(op, Bytes::kib(kib)).get()
    }

    #[test]
    fn depth_is_the_knee_of_the_smallest_size() {
        let measured = [queue(1024, 1, 900), queue(4, 1_400, 100)].concat();
        let fit = fit(&measured, &[]).unwrap();
        assert_eq!(fit.depth.get(), 14);
        let reads = fit.reads.unwrap();
        assert_eq!((reads.knee.get(), reads.deepest.get()), (14, 64));
        assert_eq!(fit.writes, None);
    }

    #[test]
    fn slot_costs_are_ratios_of_slopes_and_hold_for_both_operations() {
        let costs = [(4, 100), (64, 110), (128, 125), (256, 126), (512, 170), (1024, 249), (2048, 500)];
        // Saturated by one access, D would be 1 and clamp all costs; the smallest size has a knee.
        let measured = [queue(4, 1_000, 100), sizes(&costs[1..])].concat();
        let fit = fit(&[], &measured).unwrap();
        let writes = fit.writes.as_ref().unwrap();
        // Its latency is flat up to 10 outstanding; that part does not count.
        assert!((99_999.0..100_001.0).contains(&writes.sizes[0].slope_ns), "{:?}", writes.sizes[0]);
        assert_eq!(writes.small_threshold, Bytes::kib(128));
        for op in [OpKind::Read, OpKind::Write] {
            let found = [4, 64, 128, 256, 257, 512, 1024, 2048, 9999].map(|kib| slots(&fit, op, kib));
            assert_eq!(found, [1, 1, 1, 1, 2, 2, 2, 5, 5]);
        }
        let rows: Vec<u64> = fit.slot_costs.rows(OpKind::Write).iter().map(|row| row.up_to.0 >> 10).collect();
        assert_eq!(rows, [256, 1024, 2048]);
    }

    #[test]
    fn the_threshold_is_inclusive_and_sees_through_one_odd_size() {
        let measured = sizes(&[(4, 100), (8, 140), (16, 125), (32, 126)]);
        assert_eq!(fit(&measured, &[]).unwrap().reads.unwrap().small_threshold, Bytes::kib(16));
    }

    #[test]
    fn writes_that_cost_more_take_more_slots_at_every_size() {
        let reads = [queue(4, 800, 100), sizes(&[(64, 110), (1024, 300)])].concat();
        let writes = [queue(4, 900, 300), sizes(&[(64, 320), (1024, 600)])].concat();
        let fit = fit(&reads, &writes).unwrap();
        assert_eq!(fit.depth.get(), 8);
        assert_eq!(fit.slot_costs.small_threshold(), Bytes(1));
        assert_eq!([4, 64, 1024].map(|kib| slots(&fit, OpKind::Read, kib)), [1, 1, 3]);
        assert_eq!([4, 64, 1024].map(|kib| slots(&fit, OpKind::Write, kib)), [3, 3, 6]);
    }

    #[test]
    fn no_size_takes_fewer_slots_than_a_smaller_one_nor_more_than_there_are() {
        let measured = [queue(4, 1_000, 100), sizes(&[(256, 400), (512, 300), (1024, 5_000)])].concat();
        let fit = fit(&measured, &[]).unwrap();
        assert_eq!([256, 512, 1024].map(|kib| slots(&fit, OpKind::Read, kib)), [4, 4, 10]);
    }

    #[test]
    fn storage_that_is_not_saturated_has_the_slope_that_comes_next() {
        // 64 at once take as long as one.
        let fit = fit(&[queue(4, 6_400, 100), sizes(&[(1024, 1_000)])].concat(), &[]).unwrap();
        assert_eq!((fit.depth.get(), slots(&fit, OpKind::Read, 1024)), (64, 10));
        assert!(fit.reads.is_some_and(|reads| reads.knee == reads.deepest));
    }

    #[test]
    fn order_does_not_matter() {
        let measured = [queue(4, 1_000, 100), sizes(&[(256, 400), (512, 300)])].concat();
        let reversed: Vec<Measurement> = measured.iter().rev().copied().collect();
        assert_eq!(fit(&measured, &reversed), fit(&reversed, &measured));
    }

    #[test]
    fn too_few_measurements_are_refused() {
        assert_eq!(fit(&[], &[]), Err(FitError::Nothing));
        let size = Bytes::kib(4);
        let one = queue(4, 1, 1)[..1].to_vec();
        assert_eq!(fit(&one, &[]), Err(FitError::OneDepth { size }));
        let instant = queue(4, 1, 1).into_iter().map(|one| Measurement { mean_latency: Duration::ZERO, ..one });
        assert_eq!(fit(&instant.collect::<Vec<_>>(), &[]), Err(FitError::NoLatency { size }));
        let nothing = Measurement { throughput: Bytes::ZERO, ..one[0] };
        let error = Err(FitError::NoThroughput { size, outstanding: 1 });
        assert_eq!(fit(&[nothing; 2], &[]), error);
        let many: Vec<(u64, u64)> = (0..35).map(|i| (4 + i, 100 * (i + 1))).collect();
        let measured = [queue(2, 4_000, 100), sizes(&many)].concat();
        assert!(matches!(fit(&measured, &[]), Err(FitError::Table(_))));
    }
}
