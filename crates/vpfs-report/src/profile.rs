//! Both models of a profile of storage as charts, in the manner of [vPFS+ Fig. 2 and 3].

use vpfs_config::units::Size;
use vpfs_core::Bytes;
use vpfs_testbed::profile::{Measurement, Measurements, OpFit, StorageFit};

use crate::{Axis, Plot, Report, Section, Series, Table};

/// A page with throughput and latency against the number of outstanding accesses, the slopes, and the results.
pub fn profile_report(measurements: &Measurements, fit: &StorageFit, measured: &str) -> Report {
    let depth = fit.depth.get();
    let introduction = format!(
        "Random accesses to {measured}. The storage handles {depth} small accesses at once (depth), and requests up to {} take \
         one of these slots.",
        Size(fit.slot_costs.small_threshold())
    );
    let report = Report::new("Storage profile").introduction(introduction);
    let reads = fit.reads.as_ref().map(|model| ("reads", &measurements.reads, model));
    let writes = fit.writes.as_ref().map(|model| ("writes", &measurements.writes, model));
    let both = reads.into_iter().chain(writes);
    both.fold(report, |report, (name, measured, model)| report.section(section(name, measured, model)))
}

fn section(name: &str, measured: &[Measurement], model: &OpFit) -> Section {
    let knee = model.knee.get();
    let throughput = Plot::new(format!("Throughput of {name}"), outstanding(), Axis::log("throughput", "MB/s"))
        .reference_when(f64::from(knee), format!("knee of the smallest size: {knee}"));
    let latency = Plot::new(format!("Latency of {name}"), outstanding(), Axis::linear("mean latency", "ms"));
    let throughput_of = |one: &Measurement| one.throughput.0 as f64 / 1e6;
    let latency_of = |one: &Measurement| one.mean_latency.as_secs_f64() * 1e3;
    Section::new(name)
        .figure(curves(throughput, measured, throughput_of), "It flattens out where the storage is saturated.")
        .figure(
            curves(latency, measured, latency_of),
            "From there on latency grows in proportion to the number outstanding.",
        )
        .figure(slopes(name, model), "A slope divided by that of the smallest size is the slot cost.")
        .table(table(model))
}

fn outstanding() -> Axis {
    Axis::log2("outstanding", "")
}

fn curves(plot: Plot, measured: &[Measurement], value: impl Fn(&Measurement) -> f64) -> Plot {
    measured.chunk_by(|left, right| left.size == right.size).fold(plot, |plot, of_size| {
        let points = of_size.iter().map(|one| (f64::from(one.outstanding), value(one)));
        plot.series(Series::line(Size(of_size[0].size).to_string(), points).with_markers())
    })
}

fn slopes(name: &str, model: &OpFit) -> Plot {
    let points = model.sizes.iter().map(|one| (kib(one.size), one.slope_ns / 1e6));
    Plot::new(
        format!("Slopes of {name}"),
        Axis::log2("size", "KiB"),
        Axis::linear("latency for each outstanding", "ms"),
    )
    .series(Series::line("slope", points).with_markers())
    .reference_when(kib(model.small_threshold), format!("small up to {}", Size(model.small_threshold)))
}

fn kib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / 1024.0
}

fn table(model: &OpFit) -> Table {
    model.sizes.iter().fold(Table::new(["size", "slope [ms]", "slots"]), |table, one| {
        table.row([Size(one.size).to_string(), format!("{:.4}", one.slope_ns / 1e6), one.slot_cost.get().to_string()])
    })
}
