//! [IOCO Fig. 6]: mean completion time with 2 to 16 IOR instances of 8, 16 and 32 processes on 16 servers.
//!
//! As in the paper: requests of 128 KiB, strips of 4 KiB, windows of 1 s, a barrier between requests.

use vpfs_sim::model::plan::Ior;
use vpfs_sim::{App, Scenario, SimError, Workload, parallel};

use crate::{Axis, Measured, Plot, Section, Series, Table, number};

use super::cluster::{self, Medium, Outcome, Pair, median};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};

const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-6.toml");
const APPS: [u32; 5] = [2, 4, 8, 12, 16];
pub(super) const PROCESSES: [u32; 3] = [8, 16, 32];

struct Point {
    medium: Medium,
    processes: u32,
    apps: u32,
    pair: Pair,
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let points = sweep(&scenario::parse("ioco-6.toml", TEXT)?, &SEEDS)?;
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
    Ok((scenario::assumptions(section, TEXT), values(&points)?))
}

fn sweep(base: &Scenario, seeds: &[u64]) -> Result<Vec<Point>, SimError> {
    let of = |medium| PROCESSES.into_iter().flat_map(move |processes| APPS.map(move |apps| (medium, processes, apps)));
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(of).collect();
    let point = |&(medium, processes, apps): &(Medium, u32, u32)| {
        let mut scenario = medium.on(base, 16);
        let first = scenario.apps[0].clone();
        scenario.apps = (1..=apps).map(|number| app(&first, number, processes)).collect();
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
        let cells =
            of(points, medium, processes).map(|point| number(Measured::of(point.pair.reductions()).median().round()));
        table.row([format!("{processes} processes")].into_iter().chain(cells))
    })
}

/// By how many % coordination lowers the mean completion time: `hdd.8C.2` with 8 processes and 2 applications, `hdd.2`
/// on average over the numbers of processes, `hdd.least` with any number of both.
fn values(points: &[Point]) -> Result<Values, SimError> {
    let mut values = Values::default();
    for medium in Medium::ALL {
        let short = medium.short();
        let own = || points.iter().filter(move |point| point.medium == medium);
        let name = |point: &Point| format!("{short}.{}C.{}", point.processes, point.apps);
        own().for_each(|point| values.set(name(point), point.pair.reductions()));
        for apps in APPS {
            let with: Vec<_> = own().filter(|point| point.apps == apps).map(|point| point.pair.reductions()).collect();
            values.set(format!("{short}.{apps}"), cluster::means(&with));
        }
        let least = values.least(own().map(name))?;
        values.set(format!("{short}.least"), least);
    }
    Ok(values)
}

/// One seed.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = crate::figures::scenario::changes::apply(&scenario::parse("ioco-6.toml", TEXT)?, change);
    values(&sweep(&base, &SEEDS[..1])?)
}
