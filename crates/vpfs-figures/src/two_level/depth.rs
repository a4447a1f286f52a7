//! [Two-level], issue rates and adaptation of queue length.

use vpfs_report::{Axis, Check, Plot, Section, Series, number};
use vpfs_sim::{Results, Scenario, SimError};

use super::run::{self, HALF_SECONDS, Runs, SECONDS};
use crate::scenario;

/// The same times in intervals of the series.
const HALF: usize = HALF_SECONDS as usize;

pub(super) fn run() -> Result<Section, SimError> {
    let runs = Runs::of(&run::scenario()?)?;
    let section = Section::new("Two-level: issue rates and the outstanding limit")
        .text(
            "Each second the scheduler sets a new Lo, the limit on outstanding requests, from what the storage did in \
             the last second. While deadlines are met, Lo rises with the demand; when a class is about to miss its \
             deadline, Lo falls; when it would miss it with any Lo, Lo grows until the storage keeps up, but to no \
             more than the storage completes in half of the shortest deadline, or needs for the promised rates.",
        )
        .figure(rates(&run::scenario()?), "The demand of the applications.")
        .figure(throughput(&runs.two_level), "Their throughput with the two-level scheduler.")
        .figure(depth(&runs), "Lo, and the number of outstanding requests.");
    Ok(checks(&runs).into_iter().fold(scenario::assumptions(section, run::TEXT), Section::check))
}

fn seconds(values: &[u32]) -> impl Iterator<Item = (f64, f64)> {
    (1..).zip(values).map(|(second, &value)| (f64::from(second), f64::from(value)))
}

fn rates(scenario: &Scenario) -> Plot {
    let (x, y) = (Axis::linear("time", "s"), Axis::linear("issue rate", "MB/s").include(0.0));
    scenario.apps.iter().fold(Plot::new("Issue rates", x, y), |plot, app| {
        let points = (0..SECONDS).map(f64::from).map(|second| (second, run::asked(&app.workload, second) / 1e6));
        plot.series(Series::line(&app.name, points))
    })
}

fn throughput(results: &Results) -> Plot {
    let (x, y) = (Axis::linear("time", "s"), Axis::linear("throughput", "MB/s").include(0.0));
    results.apps.iter().fold(Plot::new("Throughput", x, y), |plot, app| {
        let points = (1..).zip(&app.bytes_series).map(|(second, &bytes)| (f64::from(second), bytes as f64 / 1e6));
        plot.series(Series::line(&app.name, points))
    })
}

fn depth(runs: &Runs) -> Plot {
    let server = &runs.two_level.servers[0];
    Plot::new("Outstanding limit", Axis::linear("time", "s"), Axis::linear("requests", "").include(0.0))
        .series(Series::line("Lo", seconds(&server.depth_series)))
        .series(Series::line("outstanding", seconds(&server.outstanding_series)))
}

/// The largest value within these seconds.
fn largest(values: &[u32], from: usize, to: usize) -> f64 {
    values.iter().take(to).skip(from).copied().max().map_or(f64::NAN, f64::from)
}

/// The smallest value within these seconds.
fn least(values: &[u32], from: usize, to: usize) -> f64 {
    values.iter().take(to).skip(from).copied().min().map_or(f64::NAN, f64::from)
}

fn checks(runs: &Runs) -> Vec<Check> {
    let server = &runs.two_level.servers[0];
    let (limit, outstanding) = (&server.depth_series, &server.outstanding_series);
    let on = |values: &[u32], period: usize| largest(values, 2 * period * HALF, (2 * period + 1) * HALF);
    // The last waiting requests are served in the first seconds.
    let alone = |period: usize| largest(outstanding, (2 * period + 1) * HALF + 8, (2 * period + 2) * HALF);
    let drop = |period: usize| {
        let off = (2 * period + 1) * HALF;
        (largest(limit, off - 5, off), least(limit, off, off + HALF))
    };
    let drops = [0, 1, 2].map(drop);
    let share = drops.iter().map(|(before, after)| after / before).fold(0.0, f64::max);
    let named = drops.map(|(before, after)| format!("{} to {}", number(before), number(after))).join(", ");
    let up = |what: &str, first: f64, last: f64| {
        Check::of("queue length", what).falling([("last", last), ("first", first)], 0.0)
    };
    let throughput = runs.two_level.throughput() / runs.fifo.throughput() * 100.0;
    vec![
        up("largest Lo while both are on, last and first period", on(limit, 0), on(limit, 2)),
        Check::of("queue length", "Lo at its least while App1 is off, of that before")
            .at_most(share * 100.0, 99.0)
            .unit("%")
            .because(format!(
                "{named}; while deadlines are met nothing requires a small Lo: it is a limit, not a target"
            )),
        up("largest number outstanding with both and with App2 alone", alone(1), on(outstanding, 2)),
        Check::of("throughput", "of that with FIFO").at_least(throughput, 97.0).unit("%"),
    ]
}
