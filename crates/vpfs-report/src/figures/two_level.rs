//! The experiment of both plots of [Two-level]: two IOR instances on one server, one on and off, one with growing
//! demand.
//!
//! From the slides: one server with gigabit Ethernet, one client with 64 processes, storage of about 50 MB/s, (40 MB/s,
//! 100 ms) for the first application and (20 MB/s, 300 ms) for the second one. The scenario file has what was chosen,
//! as the slides give no numbers. "App1 conforms to 100 ms 10 times than App2" is read as: App2 misses its deadline ten
//! times as often.

use vpfs_sim::{CallTrace, Results, Scenario, SimError, Simulation, Workload, parallel};

use crate::figures::Figure;
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Plot, Section, Series, Table, number};

pub(crate) const FIGURES: &[Figure] =
    &[Figure::new("two-level", "Two-level: issue rates, the outstanding limit, and latency of two classes", run)];

const TEXT: &str = include_str!("../../../../scenarios/figures/two-level.toml");
const SECONDS: u32 = 120;
/// Seconds for which the first application is on, and then off; also the intervals of the series.
const HALF: usize = 20;
/// The applications' promises.
const DEADLINES_MS: [f64; 2] = [100.0, 300.0];
/// Names of the policies in values: in the order of the scenario's.
const POLICIES: [&str; 3] = ["fifo", "slides", "paced"];
/// Seconds for each point of the chart of latency.
const STEP: u32 = 2;

fn run() -> Result<(Section, Values), SimError> {
    let base = scenario::parse("two-level.toml", TEXT)?;
    let seeds = runs(&base, &SEEDS)?;
    let shown = &seeds[0];
    let section = Section::new("Two-level: issue rates, the outstanding limit, and latency of two classes")
        .text(
            "App1 stays within its rate and is promised 100 ms; App2's demand grows to more than twice its rate, and it \
             is promised 300 ms. With FIFO both wait in one queue, which overload fills, and the class with the short \
             deadline suffers. With the two-level scheduler the class that keeps its rate meets its deadline, and \
             requests beyond a class's rate wait.",
        )
        .text(
            "Each second the slides' control sets a new Lo, the limit on outstanding requests, from what the storage did \
             in the last second. While deadlines are met, Lo rises with the demand; when a class is about to miss its \
             deadline, Lo falls; when it would miss it with any Lo, Lo grows until the storage keeps up, but to no more \
             than the storage completes in half of the shortest deadline, or needs for the promised rates. By default \
             vpfs limits the storage's time that the others take instead (paced).",
        )
        .figure(rates(&base), "The demand of the applications.")
        .figure(throughput(&shown[1]), "Their throughput with the two-level scheduler.")
        .figure(depth(&shown[1]), "Lo, and the number of outstanding requests.");
    let section = shown.iter().fold(section, |section, results| {
        section
            .figure(latency(results), format!("{}: 95th percentile of the calls in each two seconds.", results.policy))
    });
    Ok((scenario::assumptions(section.table(table(shown)), TEXT), values(&seeds)))
}

/// For each seed the results of each policy.
fn runs(base: &Scenario, seeds: &[u64]) -> Result<Vec<Vec<Results>>, SimError> {
    let all: Vec<_> = seeds.iter().flat_map(|&seed| base.policies.iter().map(move |policy| (seed, policy))).collect();
    let results = parallel::map(&all, |(seed, policy)| Simulation::new(&scenario::seeded(base, *seed), policy)?.run());
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(results.chunks(base.policies.len()).map(<[Results]>::to_vec).collect())
}

fn values(seeds: &[Vec<Results>]) -> Values {
    let mut values = Values::default();
    let mut set = |name: String, of: &dyn Fn(&[Results]) -> f64| values.set(name, seeds.iter().map(|runs| of(runs)));
    for (policy, name) in POLICIES.into_iter().enumerate() {
        for app in [0, 1] {
            set(format!("{name}.missed {}", app + 1), &|runs| missed_percent(&runs[policy], app));
            set(format!("{name}.p95 {}", app + 1), &|runs| p95(calls(&runs[policy], app).map(latency_ms).collect()));
        }
        set(format!("{name}.missed 2/1"), &|runs| missed_percent(&runs[policy], 1) / missed_percent(&runs[policy], 0));
        set(format!("{name}.rate"), &|runs| runs[policy].throughput() / runs[0].throughput() * 100.0);
    }
    set("capacity".to_owned(), &|runs| capacity(&runs[0]));
    // The last period, in which both together ask for more than the storage has.
    let limits = |runs: &[Results]| runs[1].servers[0].depth_series.clone();
    set("Lo first".to_owned(), &|runs| extreme(&limits(runs), 0..HALF, f64::max));
    set("Lo overload".to_owned(), &|runs| extreme(&limits(runs), 4 * HALF..5 * HALF, f64::max));
    set("Lo after".to_owned(), &|runs| extreme(&limits(runs), 5 * HALF..6 * HALF, f64::min));
    values
}

/// One seed. `capped`: each application gets no more than its rate. `swapped`: each is promised what the other one was.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let mut base = scenario::changes::apply(&scenario::parse("two-level.toml", TEXT)?, change);
    let mut fifo = base.clone();
    if change == "capped" {
        for app in &mut base.apps {
            app.cap = app.target.and_then(|target| vpfs_core::Cap::new(target.rate.0, vpfs_core::Bytes::ZERO));
        }
    }
    if change == "swapped" {
        let targets = [base.apps[1].target, base.apps[0].target];
        base.apps.iter_mut().zip(targets).for_each(|(app, target)| app.target = target);
    }
    fifo.policies.truncate(1);
    base.policies.remove(0);
    let [mut fifo, managed] = [runs(&fifo, &SEEDS[..1])?, runs(&base, &SEEDS[..1])?];
    fifo[0].extend(managed.into_iter().flatten());
    Ok(values(&fifo))
}

fn extreme(values: &[u32], range: std::ops::Range<usize>, which: fn(f64, f64) -> f64) -> f64 {
    values.get(range).unwrap_or_default().iter().map(|&value| f64::from(value)).fold(f64::NAN, which)
}

fn latency_ms(call: &CallTrace) -> f64 {
    (call.finished - call.issued).as_secs_f64() * 1e3
}

fn calls(results: &Results, app: usize) -> impl Iterator<Item = &CallTrace> {
    results.trace.iter().filter(move |call| call.app as usize == app)
}

/// Percentage of an application's calls that took longer than its deadline.
fn missed_percent(results: &Results, app: usize) -> f64 {
    let missed = calls(results, app).filter(|call| latency_ms(call) > DEADLINES_MS[app]).count();
    missed as f64 * 100.0 / calls(results, app).count().max(1) as f64
}

/// MB/s of both applications in the last period in which both are on and ask for more than the storage has.
fn capacity(results: &Results) -> f64 {
    let bytes: u64 = results.apps.iter().flat_map(|app| app.bytes_series.get(4 * HALF..5 * HALF)).flatten().sum();
    bytes as f64 / 1e6 / HALF as f64
}

/// The 95th percentile; not a number if there are no values.
fn p95(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let index = (values.len() * 95).div_ceil(100);
    index.checked_sub(1).map_or(f64::NAN, |index| values[index])
}

fn rates(scenario: &Scenario) -> Plot {
    let asked = |workload: &Workload, second: u32| match workload {
        Workload::Paced(paced) => paced.pace.at(second.into(), paced.time) / 1e6,
        _ => 0.0,
    };
    let (x, y) = (Axis::linear("time", "s"), Axis::linear("issue rate", "MB/s").include(0.0));
    scenario.apps.iter().fold(Plot::new("Issue rates", x, y), |plot, app| {
        let points = (0..SECONDS).map(|second| (f64::from(second), asked(&app.workload, second)));
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

fn depth(results: &Results) -> Plot {
    let seconds =
        |values: &[u32]| (1..).zip(values.to_vec()).map(|(second, value)| (f64::from(second), f64::from(value)));
    let server = &results.servers[0];
    Plot::new("Outstanding limit", Axis::linear("time", "s"), Axis::linear("requests", "").include(0.0))
        .series(Series::line("Lo", seconds(&server.depth_series)))
        .series(Series::line("outstanding", seconds(&server.outstanding_series)))
}

fn latency(results: &Results) -> Plot {
    let plot = Plot::new(&results.policy, Axis::linear("time", "s"), Axis::log("latency", "ms"))
        .reference_at(DEADLINES_MS[0], "App1's deadline")
        .reference_at(DEADLINES_MS[1], "App2's deadline");
    (0..results.apps.len()).fold(plot, |plot, app| {
        let of = |step: u32| {
            let here = |seconds: u64| seconds / u64::from(STEP) == u64::from(step);
            let calls = calls(results, app).filter(|call| here(call.finished.as_secs()));
            (f64::from(step * STEP), p95(calls.map(latency_ms).collect()))
        };
        let points = (0..SECONDS / STEP).map(of).filter(|(_, latency)| latency.is_finite());
        plot.series(Series::scatter(&results.apps[app].name, points))
    })
}

fn table(runs: &[Results]) -> Table {
    let heading = ["policy", "App1 missed [%]", "App2 missed [%]", "App1 p95 [ms]", "App2 p95 [ms]", "MB/s"];
    runs.iter().fold(Table::new(heading), |table, results| {
        let missed = [0, 1].map(|app| missed_percent(results, app));
        let p95 = [0, 1].map(|app| p95(calls(results, app).map(latency_ms).collect()));
        let values = missed.into_iter().chain(p95).chain([results.throughput() / 1e6]);
        table.row([results.policy.clone()].into_iter().chain(values.map(number)))
    })
}
