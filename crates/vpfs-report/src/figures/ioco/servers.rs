//! [IOCO Fig. 7]: mean completion time of ten PIO-Bench instances with 8, 16 and 32 processes on 2 to 64 servers.
//!
//! As in the paper: each request has 8 KB at each server, and reads and writes were measured. Values are the mean of
//! both.

use vpfs_sim::model::plan::{Phase, PioBench};
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use crate::{Axis, Measured, Plot, Section, Series, Table, number};

use super::apps::PROCESSES;
use super::cluster::{self, Medium, Outcome, Pair, median};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};

const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-7.toml");
const SERVERS: [u32; 4] = [2, 8, 16, 64];
const BYTES_AT_SERVER: u32 = 8 << 10;
struct Point {
    medium: Medium,
    processes: u32,
    servers: u32,
    pair: Pair,
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let points = sweep(&scenario::parse("ioco-7.toml", TEXT)?, &PROCESSES, &SEEDS)?;
    let section = Section::new("IOCO Fig. 7: completion time by number of servers").text(
        "Each request has 8 KB at every server. With the original order, more servers mean a higher chance of being \
         last at one of them, so the completion time grows although no server has more to do; with coordination it \
         should stay constant.",
    );
    let section = Medium::ALL.into_iter().fold(section, |section, medium| {
        section.figure(chart(medium, &points), format!("Fig. 7, {}", medium.name())).table(table(medium, &points))
    });
    Ok((scenario::assumptions(section, TEXT), values(&points)))
}

fn sweep(base: &Scenario, processes: &[u32], seeds: &[u64]) -> Result<Vec<Point>, SimError> {
    let sizes = |medium: Medium| SERVERS.into_iter().filter(move |&servers| servers <= medium.most());
    let of =
        |medium| processes.iter().flat_map(move |&processes| sizes(medium).map(move |size| (medium, processes, size)));
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
    let point = |&(medium, processes, servers): &(Medium, u32, u32)| {
        let mut scenario = medium.on(base, servers);
        scenario.apps = scenario.apps.iter().map(|base| app(base, processes, servers)).collect();
        let of = |phase| Pair::of(&with_phase(&scenario, phase), seeds);
        Ok(Point { medium, processes, servers, pair: of(Phase::Read)?.midpoint(&of(Phase::Write)?) })
    };
    parallel::map(&places, point).into_iter().collect()
}

/// Only reads or only writes: memory is flushed before each run [IOCO §5.1].
fn with_phase(scenario: &Scenario, phase: Phase) -> Scenario {
    let apps = scenario.apps.iter().map(|app| App { phases: vec![phase], ..app.clone() }).collect();
    Scenario { apps, ..scenario.clone() }
}

/// A copy of the scenario's application for `servers` servers.
fn app(base: &App, processes: u32, servers: u32) -> App {
    let workload = match &base.workload {
        Workload::Pio(pio) => {
            let request_bytes = BYTES_AT_SERVER * servers;
            PioBench { processes, request_bytes, ..pio.clone() }.into()
        }
        other => other.clone(),
    };
    App { workload, nodes: processes, ..base.clone() }
}

fn of(points: &[Point], medium: Medium, processes: u32) -> impl Iterator<Item = &Point> {
    points.iter().filter(move |point| point.medium == medium && point.processes == processes)
}

fn chart(medium: Medium, points: &[Point]) -> Plot {
    let y = Axis::linear("mean completion time", "ms").include(0.0);
    PROCESSES.into_iter().fold(Plot::new(medium.name(), Axis::log2("servers", ""), y), |plot, processes| {
        let line = |suffix, value: fn(&Pair) -> &[Outcome]| {
            let ms = |pair: &Pair| median(value(pair), |outcome| outcome.completion) * 1e3;
            let points = of(points, medium, processes).map(|point| (f64::from(point.servers), ms(&point.pair)));
            Series::line(format!("{processes}C-{suffix}"), points).with_markers()
        };
        plot.series(line("ori", |pair| &pair.original)).series(line("cio", |pair| &pair.coordinated))
    })
}

fn table(medium: Medium, points: &[Point]) -> Table {
    let sizes = of(points, medium, PROCESSES[0]).map(|point| format!("{} servers", point.servers));
    let heading = [format!("{}: lower by [%]", medium.name())].into_iter().chain(sizes);
    PROCESSES.into_iter().fold(Table::new(heading), |table, processes| {
        let cells: Vec<_> = of(points, medium, processes)
            .map(|point| number(Measured::of(point.pair.reductions()).median().round()))
            .collect();
        if cells.is_empty() { table } else { table.row([format!("{processes} processes")].into_iter().chain(cells)) }
    })
}

/// On average over the numbers of processes: by how many % coordination lowers the mean completion time (`hdd.2` with 2
/// servers), and by how many % that grows from 2 servers to the most, coordinated and in the original order.
fn values(points: &[Point]) -> Values {
    let mut values = Values::default();
    for medium in Medium::ALL {
        let short = medium.short();
        let with = |servers: u32| points.iter().filter(move |point| (point.medium, point.servers) == (medium, servers));
        let sizes = SERVERS.into_iter().filter(|&servers| servers <= medium.most());
        for servers in sizes {
            let reductions: Vec<_> = with(servers).map(|point| point.pair.reductions()).collect();
            values.set(format!("{short}.{servers}"), cluster::means(&reductions));
        }
        let mut growth = |name: &str, runs: fn(&Pair) -> &[Outcome]| {
            let of = |few: &Point| {
                let many = with(medium.most()).find(|point| point.processes == few.processes)?;
                let both = runs(&few.pair).iter().zip(runs(&many.pair));
                Some(both.map(|(few, many)| (many.completion / few.completion - 1.0) * 100.0).collect())
            };
            let all: Vec<Vec<f64>> = with(SERVERS[0]).filter_map(of).collect();
            values.set(format!("{short}.{name}"), cluster::means(&all));
        };
        growth("coordinated growth", |pair| &pair.coordinated);
        growth("original growth", |pair| &pair.original);
    }
    values
}

/// One seed and eight processes.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = crate::figures::scenario::changes::apply(&scenario::parse("ioco-7.toml", TEXT)?, change);
    Ok(values(&sweep(&base, &PROCESSES[..1], &SEEDS[..1])?))
}
