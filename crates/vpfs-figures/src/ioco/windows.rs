//! [IOCO Fig. 8]: mean completion time and aggregate bandwidth of three IOR, three PIO-Bench, two MPI-TILE-IO and two
//! Noncontig instances on 16 servers, by the width of the window.
//!
//! As in the paper: requests of 128 KB, strips of 4 KB, 8, 16 and 32 processes each. Assumed: 64 requests by each
//! process, a barrier after each, and where the pieces of a request are, see [`vpfs_model::plan`]. Bandwidth is the sum
//! of the values that ten concurrent benchmarks report, each over its own run time; the table also has all bytes
//! divided by the time of the whole run.

use std::time::Duration;

use vpfs_model::plan::{Ior, MpiTileIo, Noncontig, PioBench};
use vpfs_report::{Axis, Bar, Bars, Check, Section, Table, number};
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use super::apps::PROCESSES;
use super::cluster::{self, Medium, Outcome, POLICIES};
use crate::scenario;

const TEXT: &str = include_str!("../../../../scenarios/figures/ioco-8.toml");
/// Window in milliseconds; `None`: the original order.
const WINDOWS: [Option<u64>; 5] = [None, Some(250), Some(500), Some(1000), Some(2000)];
const REQUESTS: u64 = 64;
/// As in the paper.
const SEEDS: u64 = 3;

struct Point {
    medium: Medium,
    processes: u32,
    window: Option<u64>,
    outcome: Outcome,
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
    Ok(checks(&points).into_iter().fold(section, Section::check))
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
        let outcome = cluster::repeat(&scenario, POLICIES[usize::from(window.is_some())], SEEDS)?;
        Ok(Point { medium, processes, window, outcome })
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

fn find(points: &[Point], medium: Medium, processes: u32, window: Option<u64>) -> Outcome {
    let wanted = |point: &&Point| (point.medium, point.processes, point.window) == (medium, processes, window);
    points.iter().find(wanted).map(|point| point.outcome).unwrap_or_default()
}

fn chart(medium: Medium, points: &[Point], what: &str, unit: &str, value: fn(&Outcome) -> f64) -> Bars {
    let groups = PROCESSES.map(|processes| format!("{processes}C"));
    let bars = Bars::new(medium.name(), Axis::linear(what, unit).include(0.0), groups);
    WINDOWS.into_iter().fold(bars, |bars, window| {
        bars.series(name(window), PROCESSES.map(|processes| Bar::new(value(&find(points, medium, processes, window)))))
    })
}

fn table(medium: Medium, points: &[Point]) -> Table {
    let heading =
        ["window", "processes", "completion [ms]", "bandwidth, programs [MB/s]", "bandwidth, whole run [MB/s]"];
    let heading = heading.map(|title| format!("{}: {title}", medium.name()));
    points.iter().filter(|point| point.medium == medium).fold(Table::new(heading), |table, point| {
        let Outcome { completion, reported, bandwidth } = point.outcome;
        let numbers = [completion * 1e3, reported / 1e6, bandwidth / 1e6].map(number);
        table.row([name(point.window), point.processes.to_string()].into_iter().chain(numbers))
    })
}

/// The change of a value from the original order to these windows in %, for each number of processes.
fn changes(points: &[Point], medium: Medium, windows: &[Option<u64>], value: fn(&Outcome) -> f64) -> Vec<f64> {
    let wanted = points.iter().filter(|point| point.medium == medium && windows.contains(&point.window));
    let change = |point: &Point| {
        let original = find(points, medium, point.processes, None);
        (value(&point.outcome) / value(&original) - 1.0) * 100.0
    };
    wanted.map(change).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn checks(points: &[Point]) -> Vec<Check> {
    Medium::ALL.into_iter().flat_map(|medium| checks_of(points, medium)).collect()
}

fn checks_of(points: &[Point], medium: Medium) -> [Check; 7] {
    let (completion_figure, bandwidth_figure, best_paper) = match medium {
        Medium::Hdd => ("Fig. 8a", "Fig. 8b", 1000),
        Medium::Ssd => ("Fig. 8c", "Fig. 8d", 250),
    };
    let completion = |windows: &[Option<u64>]| changes(points, medium, windows, |outcome| outcome.completion);
    let bandwidth = |windows: &[Option<u64>]| changes(points, medium, windows, |outcome| outcome.reported);
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let name = |what: &str| format!("{}: {what}", medium.name());
    let at_best = |what: &str| format!("{}: {what}, window of {best_paper} ms", medium.name());
    let (recommended, all) = ([Some(best_paper)], &WINDOWS[1..]);
    let by_window = |window: &Option<u64>| mean(&completion(&[*window]));
    let best = all.iter().min_by(|&a, &b| by_window(a).total_cmp(&by_window(b))).copied().flatten().unwrap_or_default();
    let wider = "the wider the window, the longer an application keeps its place, and the more of them finish early; the paper \
                 does not say how long its runs are, and differences beyond its best window are small in its text as well as \
                 here";
    let narrow = "with 32 processes the requests of all applications in one round take a disk more than 250 ms, so a \
                  window ends before any application was served twice and the order is that of rounds";
    let alone = "with coordination applications end one after the other, and the last ones cannot keep 16 disks busy: \
                 with 8 processes each waits for the slowest disk in every round; the programs themselves see more \
                 bandwidth";
    let rising = [Some(2000), Some(1000), Some(500), Some(250)];
    let rising = rising.map(|window| (format!("{} ms", window.unwrap_or(0)), 100.0 + mean(&bandwidth(&[window]))));
    let any = Check::of(completion_figure, name("least reduction, any window")).at_least(-most(&completion(all)), 0.0);
    [
        Check::of(completion_figure, at_best("least reduction"))
            .between(-most(&completion(&recommended)), 8.0, 46.0)
            .unit("%"),
        Check::of(completion_figure, at_best("largest reduction"))
            .between(-least(&completion(&recommended)), 8.0, 46.0)
            .unit("%"),
        if medium == Medium::Hdd { any.because(narrow) } else { any }.unit("%"),
        Check::of(bandwidth_figure, at_best("least change of bandwidth"))
            .at_least(least(&bandwidth(&recommended)), -1.2)
            .unit("%"),
        Check::of(bandwidth_figure, at_best("least change of bytes by the time of the whole run"))
            .at_least(least(&changes(points, medium, &recommended, |outcome| outcome.bandwidth)), -1.2)
            .unit("%")
            .because(alone),
        Check::of(bandwidth_figure, name("bandwidth, of that of the original order, wider windows"))
            .falling(rising, 5.0)
            .unit("%"),
        Check::of(completion_figure, name("best window"))
            .within(best_paper as f64, best as f64, 0.0)
            .unit("ms")
            .because(wider),
    ]
}
