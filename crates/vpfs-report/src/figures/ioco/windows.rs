//! [IOCO Fig. 8]: mean completion time and aggregate bandwidth of three IOR, three PIO-Bench, two MPI-TILE-IO and two
//! Noncontig instances on 16 servers, by the width of the window.
//!
//! As in the paper: requests of 128 KB, strips of 4 KB, 8, 16 and 32 processes each. Assumed: 64 requests by each
//! process, a barrier after each, and where the pieces of a request are, see [`vpfs_sim::model::plan`]. Bandwidth is
//! the sum of the values that ten concurrent benchmarks report, each over its own run time; the table also has all
//! bytes divided by the time of the whole run.

use std::time::Duration;

use vpfs_sim::model::plan::{Ior, MpiTileIo, Noncontig, PioBench};
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use crate::{Axis, Bar, Bars, Section, Table, number};

use super::apps::PROCESSES;
use super::cluster::{self, Medium, Outcome, POLICIES, median};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};

const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-8.toml");
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

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let points = sweep(&scenario::parse("ioco-8.toml", TEXT)?, &PROCESSES, &SEEDS)?;
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
    Ok((scenario::assumptions(section, TEXT), values(&points, &PROCESSES)?))
}

fn sweep(base: &Scenario, processes: &[u32], seeds: &[u64]) -> Result<Vec<Point>, SimError> {
    let of =
        |medium| processes.iter().flat_map(move |&processes| WINDOWS.map(move |window| (medium, processes, window)));
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
    let point = |&(medium, processes, window): &(Medium, u32, Option<u64>)| {
        let mut scenario = medium.on(base, 16);
        scenario.apps = scenario.apps.iter().map(|base| app(base, processes)).collect();
        for policy in &mut scenario.policies {
            policy.settings.ioco.window = Duration::from_millis(window.unwrap_or(1));
        }
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

/// Of each medium: by how many % each window lowers the mean completion time on average over the numbers of processes
/// (`hdd.250`), the least of these, the window with the most, and by how many % the paper's best window raises the
/// bandwidth that programs report, with each number of processes (`hdd.bandwidth 8`) and the least of these.
fn values(points: &[Point], processes: &[u32]) -> Result<Values, SimError> {
    let mut values = Values::default();
    for medium in Medium::ALL {
        let short = medium.short();
        let change = |processes: u32, window: u64, value: fn(&Outcome) -> f64| -> Vec<f64> {
            let [before, after] = [None, Some(window)].map(|window| find(points, medium, processes, window));
            before.iter().zip(after).map(|(before, after)| (value(after) / value(before) - 1.0) * 100.0).collect()
        };
        for window in WINDOWS.into_iter().flatten() {
            let lower = |&processes: &u32| -> Vec<f64> {
                change(processes, window, |one| one.completion).iter().map(|change| -change).collect()
            };
            let all: Vec<Vec<f64>> = processes.iter().map(lower).collect();
            values.set(format!("{short}.{window}"), cluster::means(&all));
        }
        let names = || WINDOWS.into_iter().flatten().map(|window| format!("{short}.{window}"));
        let least = values.least(names())?;
        let best = (0..least.len()).map(|seed| {
            let gain = |window: &u64| values.get(&format!("{short}.{window}")).map_or(f64::NAN, |seeds| seeds[seed]);
            let best = WINDOWS.into_iter().flatten().max_by(|one, other| gain(one).total_cmp(&gain(other)));
            best.unwrap_or_default() as f64
        });
        let best: Vec<f64> = best.collect();
        values.set(format!("{short}.least"), least);
        values.set(format!("{short}.best window"), best);
        let bandwidth = |processes: &u32| format!("{short}.bandwidth {processes}");
        for count in processes {
            values.set(bandwidth(count), change(*count, medium.best_window(), |one| one.reported));
        }
        let least = values.least(processes.iter().map(bandwidth))?;
        values.set(format!("{short}.bandwidth least"), least);
    }
    Ok(values)
}

/// One seed and eight processes.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = crate::figures::scenario::changes::apply(&scenario::parse("ioco-8.toml", TEXT)?, change);
    let mut values = values(&sweep(&base, &PROCESSES[..1], &SEEDS[..1])?, &PROCESSES[..1])?;
    for medium in ["hdd", "ssd"] {
        let eight = values.get(&format!("{medium}.bandwidth 8"))?.to_vec();
        values.set(format!("{medium}.bandwidth 32"), eight);
    }
    Ok(values)
}
