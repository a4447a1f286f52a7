//! [IOCO Fig. 7]: mean completion time of ten PIO-Bench instances with 8, 16 and 32 processes on 2 to 64 servers.
//!
//! As in the paper: each request has 8 KB at each server, and reads and writes were measured. Values are the mean of
//! both.

use vpfs_model::plan::{Phase, PioBench};
use vpfs_report::{Axis, Check, Measured, Plot, Section, Series, Table, number};
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use super::apps::PROCESSES;
use super::cluster::{self, Medium, Outcome, Pair, median};
use crate::scenario;

const TEXT: &str = include_str!("../../../../scenarios/figures/ioco-7.toml");
const SERVERS: [u32; 6] = [2, 4, 8, 16, 32, 64];
const BYTES_AT_SERVER: u32 = 8 << 10;
struct Point {
    medium: Medium,
    processes: u32,
    servers: u32,
    pair: Pair,
}

pub(super) fn run() -> Result<Section, SimError> {
    let base = scenario::parse("ioco-7.toml", TEXT)?;
    let points = sweep(&base, &PROCESSES)?;
    let section = Section::new("IOCO Fig. 7: completion time by number of servers").text(
        "Each request has 8 KB at every server. With the original order, more servers mean a higher chance of being \
         last at one of them, so the completion time grows although no server has more to do; with coordination it \
         should stay constant.",
    );
    let section = Medium::ALL.into_iter().fold(section, |section, medium| {
        section.figure(chart(medium, &points), format!("Fig. 7, {}", medium.name())).table(table(medium, &points))
    });
    Ok(checks(&points).into_iter().fold(scenario::assumptions(section, TEXT), Section::check))
}

fn sweep(base: &Scenario, processes: &[u32]) -> Result<Vec<Point>, SimError> {
    let sizes = |medium: Medium| SERVERS.into_iter().filter(move |&servers| servers <= medium.most());
    let of =
        |medium| processes.iter().flat_map(move |&processes| sizes(medium).map(move |size| (medium, processes, size)));
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
    let point = |&(medium, processes, servers): &(Medium, u32, u32)| {
        let mut scenario = medium.on(base, servers);
        scenario.apps = scenario.apps.iter().map(|base| app(base, processes, servers)).collect();
        let seeds = cluster::seeds(servers == SERVERS[0] || servers == medium.most());
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
        let cells: Vec<_> =
            of(points, medium, processes).map(|point| number(point.pair.reduction().median().round())).collect();
        if cells.is_empty() { table } else { table.row([format!("{processes} processes")].into_iter().chain(cells)) }
    })
}

/// Mean over all numbers of processes, run by run.
fn mean(points: &[Point], medium: Medium, servers: u32, value: impl Fn(&Outcome, &Outcome) -> f64) -> Measured {
    let pairs: Vec<&Pair> = points
        .iter()
        .filter(|point| point.medium == medium && point.servers == servers)
        .map(|point| &point.pair)
        .collect();
    let of = |seed: usize| {
        let values = pairs.iter().map(|pair| value(&pair.original[seed], &pair.coordinated[seed]));
        values.sum::<f64>() / pairs.len() as f64
    };
    let seeds = pairs.iter().map(|pair| pair.original.len()).min().unwrap_or(0);
    Measured::of((0..seeds).map(of))
}

fn checks(points: &[Point]) -> Vec<Check> {
    let of = |(medium, figure, paper)| checks_of(points, medium, figure, paper);
    [(Medium::Hdd, "Fig. 7a", 46.0), (Medium::Ssd, "Fig. 7b", 39.0)].into_iter().flat_map(of).collect()
}

fn checks_of(points: &[Point], medium: Medium, figure: &str, paper: f64) -> [Check; 4] {
    let most = medium.most();
    let name = |what: &str| format!("{}: {what}", medium.name());
    let why = match medium {
        Medium::Hdd => {
            "with depth 1 a write waits for the whole way of the one before, so writes take 54 to 62 % longer; reads take 1 to \
             26 % less, and 39 to 49 % if a disk reads what it is asked for, in one window (decision 0014)"
        }
        Medium::Ssd => "",
    };
    let reduction = |servers| {
        mean(points, medium, servers, |original, coordinated| {
            (1.0 - coordinated.completion / original.completion) * 100.0
        })
    };
    let sizes = || SERVERS.into_iter().filter(|&servers| servers <= most);
    let left = sizes().map(|servers| (format!("{servers} servers"), 100.0 - reduction(servers).median()));
    let completion = |servers| mean(points, medium, servers, |_, coordinated| coordinated.completion).median();
    let largest = sizes().map(completion).fold(0.0, f64::max);
    [
        Check::of(figure, name("reduction with 2 servers"))
            .within(10.0, reduction(2), 25.0)
            .unit("%")
            .because("formula (3) gives 23 % for ten applications on two servers"),
        Check::of(figure, name(&format!("reduction with {most} servers")))
            .within(paper, reduction(most), 25.0)
            .unit("%")
            .because(why),
        Check::of(figure, name("completion time left by coordination, more servers")).falling(left, 1.0).unit("%"),
        Check::of(figure, name("growth of the coordinated completion time from 2 servers on"))
            .at_most((largest / completion(2) - 1.0) * 100.0, 25.0)
            .unit("%"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::perturbed::{self, must_differ};

    /// Without coordination nothing is reduced.
    #[test]
    fn reductions_need_coordination() {
        let base = perturbed::fifo(&scenario::parse("ioco-7.toml", TEXT).unwrap());
        let points = sweep(&base, &PROCESSES[..1]).unwrap();
        must_differ(&checks(&points), |what| what.contains("reduction"));
    }
}
