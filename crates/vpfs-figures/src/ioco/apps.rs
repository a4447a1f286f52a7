//! [IOCO Fig. 6]: mean completion time with 2 to 16 IOR instances of 8, 16 and 32 processes on 16 servers.
//!
//! As in the paper: requests of 128 KiB, strips of 4 KiB, windows of 1 s, a barrier between requests.

use vpfs_model::plan::Ior;
use vpfs_report::{Axis, Check, Measured, Plot, Section, Series, Table, number};
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use super::cluster::{self, Medium, Outcome, Pair, median};
use crate::scenario;

const TEXT: &str = include_str!("../../../../scenarios/figures/ioco-6.toml");
const APPS: [u32; 8] = [2, 4, 6, 8, 10, 12, 14, 16];
pub(super) const PROCESSES: [u32; 3] = [8, 16, 32];

struct Point {
    medium: Medium,
    processes: u32,
    apps: u32,
    pair: Pair,
}

pub(super) fn run() -> Result<Section, SimError> {
    let points = sweep(&scenario::parse("ioco-6.toml", TEXT)?)?;
    let section = Section::new("IOCO Fig. 6: completion time by number of applications").text(
        "Every process reads 128 KiB, a part from each of 16 servers, eight times, and all applications start together. \
         With the original order each application waits for the server that serves it last; with coordination the first \
         ones finish early. The more applications share the servers, the more of them gain.",
    );
    let section = Medium::ALL.into_iter().fold(section, |section, medium| {
        let caption =
            format!("Fig. 6, {}: 8C, 16C and 32C are the numbers of processes of each application.", medium.name());
        section.figure(chart(medium, &points), caption).table(table(medium, &points))
    });
    Ok(checks(&points).into_iter().fold(scenario::assumptions(section, TEXT), Section::check))
}

fn sweep(base: &Scenario) -> Result<Vec<Point>, SimError> {
    let of = |medium| PROCESSES.into_iter().flat_map(move |processes| APPS.map(move |apps| (medium, processes, apps)));
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
    let point = |&(medium, processes, apps): &(Medium, u32, u32)| {
        let mut scenario = medium.on(base, 16);
        let first = scenario.apps[0].clone();
        scenario.apps = (1..=apps).map(|number| app(&first, number, processes)).collect();
        let seeds = cluster::seeds(apps == APPS[0] || apps == APPS[APPS.len() - 1]);
        Ok(Point { medium, processes, apps, pair: Pair::of(&scenario, seeds)? })
    };
    parallel::map(&places, point).into_iter().collect()
}

/// A copy of the scenario's application with `processes` processes.
fn app(base: &App, number: u32, processes: u32) -> App {
    let workload = match &base.workload {
        Workload::Ior(ior) => Ior { processes, ..ior.clone() }.into(),
        other => other.clone(),
    };
    App { name: format!("app-{number}"), workload, nodes: processes, ..base.clone() }
}

fn of(points: &[Point], medium: Medium, processes: u32) -> impl Iterator<Item = &Point> {
    points.iter().filter(move |point| point.medium == medium && point.processes == processes)
}

fn chart(medium: Medium, points: &[Point]) -> Plot {
    let y = Axis::linear("mean completion time", "ms").include(0.0);
    let plot = Plot::new(medium.name(), Axis::linear("applications", "").include(0.0), y);
    PROCESSES.into_iter().fold(plot, |plot, processes| {
        let line = |suffix, value: fn(&Pair) -> &[Outcome]| {
            let ms = |pair: &Pair| median(value(pair), |outcome| outcome.completion) * 1e3;
            let points = of(points, medium, processes).map(|point| (f64::from(point.apps), ms(&point.pair)));
            Series::line(format!("{processes}C-{suffix}"), points).with_markers()
        };
        plot.series(line("ori", |pair| &pair.original)).series(line("cio", |pair| &pair.coordinated))
    })
}

fn table(medium: Medium, points: &[Point]) -> Table {
    let heading =
        [format!("{}: lower by [%]", medium.name())].into_iter().chain(APPS.map(|apps| format!("{apps} apps")));
    PROCESSES.into_iter().fold(Table::new(heading), |table, processes| {
        let cells = of(points, medium, processes).map(|point| number(point.pair.reduction().median().round()));
        table.row([format!("{processes} processes")].into_iter().chain(cells))
    })
}

/// Reductions with this many applications, by number of processes.
fn reductions(points: &[Point], medium: Medium, apps: u32) -> Vec<Measured> {
    let all = points.iter().filter(|point| point.medium == medium && point.apps == apps);
    all.map(|point| point.pair.reduction()).collect()
}

fn checks(points: &[Point]) -> Vec<Check> {
    Medium::ALL.into_iter().flat_map(|medium| checks_of(points, medium)).collect()
}

fn checks_of(points: &[Point], medium: Medium) -> [Check; 3] {
    let (figure, [least, largest], [why_least, why_largest]) = match medium {
        Medium::Hdd => (
            "Fig. 6a",
            [8.0, 42.0],
            [
                "with 8 processes three of four rounds are in memory, as the first one read a chunk of 256 KiB, so there is \
                 hardly anything to order; with each round in a chunk of its own it is 10 % (decision 0014)",
                "a disk reads 256 KiB at once, so what an application wants of it in a round is one access; if it reads \
                 what it is asked for, in one window, it is 51 %, where formula (3) has 47 % (decision 0014)",
            ],
        ),
        Medium::Ssd => (
            "Fig. 6b",
            [11.0, 43.0],
            [
                "it depends on how many requests a server passes to its flash at a time, which is assumed: with one it is \
                 9 %, with four 8 % (decision 0014)",
                "",
            ],
        ),
    };
    let name = |what: &str| format!("{}: {what}", medium.name());
    let with = |apps| reductions(points, medium, apps).into_iter();
    let nothing = || Measured::of([]);
    let of_two = with(2).min_by(|a, b| a.median().total_cmp(&b.median())).unwrap_or_else(nothing);
    let of_most = with(16).max_by(|a, b| a.median().total_cmp(&b.median())).unwrap_or_else(nothing);
    // The falling value is the part of the completion time that is left.
    let mean = |apps| with(apps).map(Measured::median).sum::<f64>() / PROCESSES.len() as f64;
    let left = APPS.map(|apps| (format!("{apps} apps"), 100.0 - mean(apps)));
    [
        Check::of(figure, name("least reduction, with 2 applications"))
            .within(least, of_two, 25.0)
            .unit("%")
            .because(why_least),
        Check::of(figure, name("largest reduction, with 16 applications"))
            .within(largest, of_most, 25.0)
            .unit("%")
            .because(why_largest),
        Check::of(figure, name("completion time left by coordination, more applications")).falling(left, 1.0).unit("%"),
    ]
}
