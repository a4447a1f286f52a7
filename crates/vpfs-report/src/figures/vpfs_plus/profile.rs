//! [vPFS+ Fig. 2 and 3]: throughput and latency of a data server's disk against the number of outstanding accesses, and
//! the resulting D and L.
//!
//! As in the paper, accesses of each size go to random places of the disk itself, without a file system's cache, and a
//! constant number of them is outstanding. The paper does not say whether they read or write; the disk model treats
//! both alike. Figures show reads; the fit uses both.

use vpfs_core::{Bytes, OpKind};
use vpfs_sim::model::device::{DeviceProfile, IoKind};
use vpfs_sim::{SimError, parallel};
use vpfs_testbed::profile::{Measurement, OpFit, StorageFit, fit, measure};

use crate::figures::papers::Values;
use crate::figures::scenario;
use crate::{Axis, Plot, Section, Series, Table, number};

/// Sizes below 128 KiB are small in the paper, which shows sizes up to 4 MiB.
const SIZES_KIB: [u64; 11] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
const OUTSTANDING: [u32; 13] = [1, 2, 4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64];
const ACCESSES: u32 = 2_000;
/// The part of the disk that they are spread over.
const SPAN: Bytes = Bytes::mib(64 << 10);

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let (reads, fit) = measured(&scenario::vpfs_servers().device)?;
    let models = fit.reads.as_ref().expect("reads were measured");
    let section = Section::new("vPFS+ Fig. 2 and 3: depth and slot costs of a data server")
        .text(
            "A disk serves more small random accesses per second the more of them it can choose from, until its \
             command queue is full: the knee is D, the number of slots. A large access spends its time on transfer, \
             so a few of them saturate the disk and latency grows fast with each additional one: its slope, in units \
             of the smallest size's, is L, the number of slots that such an access occupies. `vpfs profile` does the \
             same on your own storage.",
        )
        .figure(throughput(&reads), "Fig. 2: small accesses need 10 to 15 outstanding, large ones few.")
        .figure(latency(&reads), "Fig. 3a: latency of small accesses is alike, that of large ones is not.")
        .figure(slopes(models), "Fig. 3b: below 128 KiB the slope hardly changes, above it grows with size.")
        .table(table(models, &reads));
    Ok((section, values(&fit, &reads)))
}

fn measured(device: &DeviceProfile) -> Result<(Vec<Measurement>, StorageFit), SimError> {
    let (reads, writes) = (sweep(device, IoKind::Read), sweep(device, IoKind::Write));
    let fit = fit(&reads, &writes).map_err(|error| SimError::Scenario(error.to_string()))?;
    Ok((reads, fit))
}

fn sweep(device: &DeviceProfile, kind: IoKind) -> Vec<Measurement> {
    let points: Vec<_> = SIZES_KIB.iter().flat_map(|&kib| OUTSTANDING.map(|outstanding| (kib, outstanding))).collect();
    parallel::map(&points, |&(kib, outstanding)| measure(device, kind, Bytes::kib(kib), outstanding, ACCESSES, SPAN))
}

fn of_size(measured: &[Measurement], kib: u64) -> impl Iterator<Item = &Measurement> {
    measured.iter().filter(move |one| one.size == Bytes::kib(kib))
}

fn name(kib: u64) -> String {
    if kib < 1024 { format!("{kib} KiB") } else { format!("{} MiB", kib / 1024) }
}

fn lines(plot: Plot, measured: &[Measurement], y: impl Fn(&Measurement) -> f64) -> Plot {
    SIZES_KIB.into_iter().fold(plot, |plot, kib| {
        let points = of_size(measured, kib).map(|one| (f64::from(one.outstanding), y(one)));
        plot.series(Series::line(name(kib), points).with_markers())
    })
}

fn throughput(measured: &[Measurement]) -> Plot {
    let (x, y) = (Axis::log2("outstanding accesses", ""), Axis::linear("throughput", "% of the size's largest"));
    let part = |one: &Measurement| 100.0 * reached(measured, one.size.0 >> 10, one.outstanding);
    lines(Plot::new("Throughput model", x, y).reference_at(95.0, "saturated"), measured, part)
}

fn latency(measured: &[Measurement]) -> Plot {
    let (x, y) = (Axis::linear("outstanding accesses", ""), Axis::linear("mean latency", "ms"));
    lines(Plot::new("Latency model", x, y), measured, |one| one.mean_latency.as_secs_f64() * 1e3)
}

fn slopes(models: &OpFit) -> Plot {
    let points = models.sizes.iter().map(|fit| (fit.size.0 as f64 / 1024.0, fit.slope_ns / 1e6));
    let y = Axis::linear("slope of latency", "ms/access");
    Plot::new("Slopes of the latency models", Axis::log2("size", "KiB"), y)
        .series(Series::line("slope", points).with_markers())
        .reference_when(128.0, "small up to here (paper)")
}

fn table(models: &OpFit, reads: &[Measurement]) -> Table {
    let heading = Table::new(["size", "largest throughput [MB/s]", "knee", "slope [ms]", "in units of 4 KiB's", "L"]);
    let unit = models.sizes[0].slope_ns;
    models.sizes.iter().fold(heading, |table, fit| {
        let kib = fit.size.0 >> 10;
        let largest = largest(reads, kib) / 1e6;
        let numbers = [largest, knee(reads, kib), fit.slope_ns / 1e6, fit.slope_ns / unit].map(number);
        table.row([vec![name(kib)], numbers.to_vec(), vec![fit.slot_cost.get().to_string()]].concat())
    })
}

/// The largest throughput of a size, in bytes per second.
fn largest(measured: &[Measurement], kib: u64) -> f64 {
    of_size(measured, kib).map(|one| one.throughput.0).max().unwrap_or(0) as f64
}

/// The part of its largest throughput that a size reaches with `outstanding` accesses.
fn reached(measured: &[Measurement], kib: u64, outstanding: u32) -> f64 {
    let there = of_size(measured, kib).find(|one| one.outstanding == outstanding);
    there.map_or(f64::NAN, |one| one.throughput.0 as f64 / largest(measured, kib))
}

/// The smallest number of outstanding accesses that reaches 95 % of the largest throughput.
fn knee(measured: &[Measurement], kib: u64) -> f64 {
    let knee = OUTSTANDING.into_iter().find(|&outstanding| reached(measured, kib, outstanding) >= 0.95);
    knee.map_or(f64::NAN, f64::from)
}

fn values(fit: &StorageFit, reads: &[Measurement]) -> Values {
    let mut values = Values::default();
    SIZES_KIB.iter().for_each(|&kib| values.set(format!("knee {kib}"), [knee(reads, kib)]));
    values.set("D", [f64::from(fit.depth.get())]);
    values.set("small", [fit.slot_costs.small_threshold().0 as f64 / 1024.0]);
    values.set("L", [f64::from(fit.slot_costs.slot_cost(OpKind::Write, Bytes::mib(2)).get())]);
    values
}

/// `no queue`: the disk serves accesses one by one in order of arrival, so that there is nothing to choose from.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let name = if change == "no queue" { "one-head" } else { "hdd" };
    let device = DeviceProfile::by_name(name).map_err(|error| SimError::Scenario(error.to_string()))?;
    let reads = sweep(&device, IoKind::Read);
    let mut values = Values::default();
    SIZES_KIB.iter().for_each(|&kib| values.set(format!("knee {kib}"), [knee(&reads, kib)]));
    Ok(values)
}
