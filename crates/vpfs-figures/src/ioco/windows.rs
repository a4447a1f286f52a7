//! [IOCO Fig. 8]: mean completion time and aggregate bandwidth of three IOR, three PIO-Bench, two MPI-TILE-IO and two
//! Noncontig instances on 16 servers, by the width of the window.
//!
//! As in the paper: requests of 128 KB, strips of 4 KB, 8, 16 and 32 processes each. Assumed: 64 requests by each
//! process, a barrier after each, and where the pieces of a request are, see [`vpfs_model::plan`]. Bandwidth is the sum
//! of the values that ten concurrent benchmarks report, each over its own run time; the table also has all bytes
//! divided by the time of the whole run.

use std::time::Duration;

use vpfs_model::plan::{Ior, MpiTileIo, Noncontig, PioBench};
use vpfs_report::{Axis, Bar, Bars, Check, Measured, Section, Table, number};
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use super::apps::PROCESSES;
use super::cluster::{self, Medium, Outcome, POLICIES, median};
use crate::scenario;

const TEXT: &str = include_str!("../../../../scenarios/figures/ioco-8.toml");
/// Window in milliseconds; `None`: the original order.
const WINDOWS: [Option<u64>; 5] = [None, Some(250), Some(500), Some(1000), Some(2000)];
const REQUESTS: u64 = 64;

struct Point {
    medium: Medium,
    processes: u32,
    window: Option<u64>,
    /// With each seed.
    runs: Vec<Outcome>,
}

pub(super) fn run() -> Result<Section, SimError> {
    let points = sweep(&scenario::parse("ioco-8.toml", TEXT)?)?;
    let section = Section::new("IOCO Fig. 8: completion time and bandwidth by window").text(
        "Ten applications of four kinds read back to back, and wait for their own processes after each request. \
         Within a window the application with the smallest number is always served first, so a wide window lets it \
         finish early and keeps the others waiting once per window; a narrow one is fairer and gains less. With every \
         window, requests complete sooner on average than with the original order, except for the narrowest one on \
         disks with many processes.",
    );
    let section = Medium::ALL.into_iter().fold(section, |section, medium| {
        let completion = chart(medium, &points, "mean completion time", "ms", |outcome| outcome.completion * 1e3);
        let bandwidth = chart(medium, &points, "aggregate bandwidth", "MB/s", |outcome| outcome.reported / 1e6);
        section
            .figure(completion, format!("Fig. 8, {}: ORI is the original order.", medium.name()))
            .figure(bandwidth, format!("Fig. 8, {}", medium.name()))
            .table(table(medium, &points))
    });
    Ok(checks(&points).into_iter().fold(scenario::assumptions(section, TEXT), Section::check))
}

fn sweep(base: &Scenario) -> Result<Vec<Point>, SimError> {
    let of = |medium| {
        PROCESSES.into_iter().flat_map(move |processes| WINDOWS.map(move |window| (medium, processes, window)))
    };
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
    let point = |&(medium, processes, window): &(Medium, u32, Option<u64>)| {
        let mut scenario = medium.on(base, 16);
        scenario.apps = scenario.apps.iter().map(|base| app(base, processes)).collect();
        for policy in &mut scenario.policies {
            policy.settings.ioco.window = Duration::from_millis(window.unwrap_or(1));
        }
        let is_needed = processes != 16 && window.is_none_or(|window| window == medium.best_window());
        let seeds = cluster::seeds(is_needed);
        let runs = cluster::repeat(&scenario, POLICIES[usize::from(window.is_some())], seeds)?;
        Ok(Point { medium, processes, window, runs })
    };
    parallel::map(&places, point).into_iter().collect()
}

/// A copy of the scenario's application with `processes` processes.
fn app(base: &App, processes: u32) -> App {
    let workload = match &base.workload {
        Workload::Ior(ior) => Ior { processes, segments: REQUESTS, ..ior.clone() }.into(),
        Workload::Pio(pio) => PioBench { processes, requests: REQUESTS, ..pio.clone() }.into(),
        Workload::Tile(tile) => {
            MpiTileIo { tiles_y: processes / tile.tiles_x, requests: REQUESTS, ..tile.clone() }.into()
        }
        Workload::Noncontig(plan) => Noncontig { processes, requests: REQUESTS, ..plan.clone() }.into(),
        other => other.clone(),
    };
    App { workload, nodes: processes, ..base.clone() }
}

fn name(window: Option<u64>) -> String {
    window.map_or_else(|| "ORI".into(), |window| format!("{window} ms"))
}

fn find(points: &[Point], medium: Medium, processes: u32, window: Option<u64>) -> &[Outcome] {
    let wanted = |point: &&Point| (point.medium, point.processes, point.window) == (medium, processes, window);
    points.iter().find(wanted).map_or(&[], |point| &point.runs)
}

fn chart(medium: Medium, points: &[Point], what: &str, unit: &str, value: fn(&Outcome) -> f64) -> Bars {
    let groups = PROCESSES.map(|processes| format!("{processes}C"));
    let bars = Bars::new(medium.name(), Axis::linear(what, unit).include(0.0), groups);
    WINDOWS.into_iter().fold(bars, |bars, window| {
        bars.series(
            name(window),
            PROCESSES.map(|processes| Bar::new(median(find(points, medium, processes, window), value))),
        )
    })
}

fn table(medium: Medium, points: &[Point]) -> Table {
    let heading =
        ["window", "processes", "completion [ms]", "bandwidth, programs [MB/s]", "bandwidth, whole run [MB/s]"];
    let heading = heading.map(|title| format!("{}: {title}", medium.name()));
    points.iter().filter(|point| point.medium == medium).fold(Table::new(heading), |table, point| {
        let values: [fn(&Outcome) -> f64; 3] =
            [|one| one.completion * 1e3, |one| one.reported / 1e6, |one| one.bandwidth / 1e6];
        let numbers = values.map(|value| number(median(&point.runs, value)));
        table.row([name(point.window), point.processes.to_string()].into_iter().chain(numbers))
    })
}

/// The change of a value from the original order to a window in %, with a number of processes.
fn change(points: &[Point], medium: Medium, processes: u32, window: u64, value: fn(&Outcome) -> f64) -> Measured {
    let [before, after] = [None, Some(window)].map(|window| find(points, medium, processes, window));
    Measured::of(before.iter().zip(after).map(|(before, after)| (value(after) / value(before) - 1.0) * 100.0))
}

fn checks(points: &[Point]) -> Vec<Check> {
    Medium::ALL.into_iter().flat_map(|medium| checks_of(points, medium)).collect()
}

fn checks_of(points: &[Point], medium: Medium) -> Vec<Check> {
    let best_paper = medium.best_window();
    let (completion_figure, bandwidth_figure) = match medium {
        Medium::Hdd => ("Fig. 8a", "Fig. 8b"),
        Medium::Ssd => ("Fig. 8c", "Fig. 8d"),
    };
    let completion =
        |processes, window| change(points, medium, processes, window, |outcome| outcome.completion).median();
    let bandwidth = |processes| change(points, medium, processes, best_paper, |outcome| outcome.reported);
    let whole =
        PROCESSES.map(|processes| change(points, medium, processes, best_paper, |outcome| outcome.bandwidth).median());
    let windows = || WINDOWS.into_iter().flatten();
    let mean = |window| PROCESSES.map(|processes| completion(processes, window)).iter().sum::<f64>() / 3.0;
    let best = windows().min_by(|&a, &b| mean(a).total_cmp(&mean(b))).unwrap_or_default();
    let most = windows().flat_map(|window| PROCESSES.map(|processes| completion(processes, window)));
    let name = |what: &str| format!("{}: {what}", medium.name());
    let of_window = |what: &str| name(&format!("{what}, window of {best_paper} ms"));
    let wider = "the wider the window, the longer an application keeps its place, and the more of them finish early; \
                 the paper does not say how long its runs are";
    let least = -most.fold(f64::NEG_INFINITY, f64::max);
    let row = |processes: u32, what: &str| {
        (Check::of(bandwidth_figure, of_window(&format!("{what} with {processes} processes"))), bandwidth(processes))
    };
    let of_bandwidth = match medium {
        Medium::Hdd => {
            let [(few, of_few), (many, of_many)] = [row(8, "change of bandwidth"), row(32, "change of bandwidth")];
            vec![few.at_least(of_few, -1.2).paper(-1.2).unit("%"), many.within(10.9, of_many, 25.0).unit("%").because(
                "the sum of what ten programs report, which rises as some of them finish early; over the whole run it \
                 is 4 % less (the table)",
            )]
        }
        Medium::Ssd => PROCESSES
            .into_iter()
            .map(|processes| row(processes, "change of bandwidth"))
            .map(|(subject, ours)| subject.at_least(ours, 0.0).unit("%"))
            .collect(),
    };
    let others = [
        Check::of(completion_figure, name("best window"))
            .within(best_paper as f64, best as f64, 0.0)
            .unit("ms")
            .because(wider),
        Check::of(completion_figure, name("least reduction, any window and number of processes"))
            .at_least(least, 0.0)
            .unit("%"),
        Check::of(bandwidth_figure, of_window("least change of bytes by the time of the whole run"))
            .at_least(whole.into_iter().fold(f64::INFINITY, f64::min), -1.2)
            .unit("%")
            .because("the last applications run alone, and do not use all servers"),
    ];
    others.into_iter().chain(of_bandwidth).collect()
}
