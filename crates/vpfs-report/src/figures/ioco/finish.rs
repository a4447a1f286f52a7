//! [IOCO Fig. 3 and 5]: when each of eight servers finishes its part of ten applications' requests.
//!
//! As in the paper: one process each, one read of 4 MB, 64 KB strips. [IOCO §2] has InfiniBand for the disks too.
//! Charts show the first run.

use vpfs_sim::{CallTrace, Results, Scenario, ServerGroup, SimError, parallel};

use crate::{Axis, Measured, Plot, Section, Series, Table, number};

use super::cluster::{self, Medium, POLICIES};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::figures::testbed;

const TEXT: &str = include_str!("../../../../../scenarios/figures/ioco-3.toml");
const SERVERS: u32 = 8;
/// The paper's two, and coordination without the clients' times.
const WAYS: [&str; 3] = [POLICIES[0], POLICIES[1], "by arrival"];

/// The runs of one environment under one policy.
struct Runs {
    medium: Medium,
    policy: &'static str,
    all: Vec<Results>,
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let runs = runs(&scenario::parse("ioco-3.toml", TEXT)?, WAYS, &SEEDS)?;
    let section = Section::new("IOCO Fig. 3 and 5: when servers are done with each application").text(
        "Each application reads 4 MB, of which every server has 512 KB, and continues when the last server is done. \
         With the original order the points of an application are spread over the whole time: nearly all applications \
         wait for the slowest server. With coordination they are close together and applications finish one after the \
         other. The few outliers are requests that found an idle server before those with a smaller number had \
         arrived.",
    );
    let of_paper = || runs.iter().filter(|runs| POLICIES.contains(&runs.policy));
    let section = of_paper().fold(section, |section, runs| section.figure(runs.chart(), runs.caption()));
    let section = section.table(table(&runs)).text(
        "The paper's clients send the time of each request along; clients of OrangeFS and NFS do not, so that the proxy \
         goes by the time of arrival.",
    );
    Ok((scenario::assumptions(section, TEXT), values(&runs)))
}

fn runs(base: &Scenario, ways: [&'static str; 3], seeds: &[u64]) -> Result<Vec<Runs>, SimError> {
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(|medium| ways.map(|policy| (medium, policy))).collect();
    let runs = parallel::map(&places, |&(medium, policy)| Runs::new(base, medium, policy, seeds));
    runs.into_iter().collect()
}

fn servers(medium: Medium) -> ServerGroup {
    match medium {
        Medium::Hdd => testbed::ioco_disks_on_infiniband(),
        Medium::Ssd => testbed::ioco_flash(SERVERS),
    }
}

fn finished(call: &CallTrace) -> impl Iterator<Item = (u32, f64)> {
    call.parts.iter().map(|part| (part.server, (part.finished - call.issued).as_secs_f64() * 1e3))
}

/// When the first and the last server finish a call, in ms.
fn extent(call: &CallTrace) -> (f64, f64) {
    let times = || finished(call).map(|(_, time)| time);
    (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max))
}

fn spread(call: &CallTrace) -> f64 {
    extent(call).1 / extent(call).0
}

impl Runs {
    fn new(base: &Scenario, medium: Medium, policy: &'static str, seeds: &[u64]) -> Result<Self, SimError> {
        let mut scenario = Scenario { servers: vec![servers(medium)], ..base.clone() };
        medium.set_depth(&mut scenario);
        let run = |&seed: &u64| scenario::run(&cluster::seeded(&scenario, seed), policy);
        Ok(Self { medium, policy, all: seeds.iter().map(run).collect::<Result<_, _>>()? })
    }

    /// The mean over all applications, run by run.
    fn means(&self, value: fn(&CallTrace) -> f64) -> impl Iterator<Item = f64> {
        self.all.iter().map(move |results| results.trace.iter().map(value).sum::<f64>() / results.trace.len() as f64)
    }

    /// Largest by smallest finish time: of the median application, run by run.
    fn spreads(&self) -> Vec<f64> {
        let of = |results: &Results| Measured::of(results.trace.iter().map(spread)).median();
        self.all.iter().map(of).collect()
    }

    fn completions(&self) -> impl Iterator<Item = f64> {
        self.means(|call| extent(call).1)
    }

    fn caption(&self) -> String {
        let (figure, shown) =
            if self.policy == POLICIES[0] { ("Fig. 3", "original") } else { ("Fig. 5", "coordinated") };
        format!(
            "{figure}, {}, {shown}: one series of points for each server, and the slowest of them.",
            self.medium.name()
        )
    }

    fn chart(&self) -> Plot {
        let calls = &self.all[0].trace;
        let y = Axis::linear("finish time", "ms").include(0.0);
        let plot = Plot::new(format!("{}, {}", self.medium.name(), self.policy), Axis::linear("application", ""), y);
        let plot = (0..SERVERS).fold(plot, |plot, server| {
            let of = |call: &CallTrace| {
                finished(call).find(|(at, _)| *at == server).map(|(_, time)| (call.app.into(), time))
            };
            plot.series(Series::scatter(format!("FS{server}"), calls.iter().filter_map(of)))
        });
        let mut last: Vec<(f64, f64)> = calls.iter().map(|call| (call.app.into(), extent(call).1)).collect();
        last.sort_by(|a, b| a.0.total_cmp(&b.0));
        plot.series(Series::line("MAX", last))
    }
}

fn table(runs: &[Runs]) -> Table {
    let heading = ["environment", "order", "max/min finish time, median application", "mean", "mean completion [ms]"];
    runs.iter().fold(Table::new(heading), |table, runs| {
        let values = [runs.spreads(), runs.means(spread).collect(), runs.completions().collect()];
        let numbers = values.map(|value| number(Measured::of(value).median()));
        table.row([vec![runs.medium.name().to_owned(), runs.policy.to_owned()], numbers.to_vec()].concat())
    })
}

/// Largest by smallest finish time in each order, of the median application (`hdd.original`) and on average
/// (`hdd.original mean`), and by how many % coordination lowers the mean completion time.
fn values(runs: &[Runs]) -> Values {
    let mut values = Values::default();
    for runs in runs.chunks(WAYS.len()) {
        let medium = runs[0].medium.short();
        for (runs, order) in runs.iter().zip(WAYS) {
            values.set(format!("{medium}.{order}"), runs.spreads());
            values.set(format!("{medium}.{order} mean"), runs.means(spread));
        }
        let both = runs[0].completions().zip(runs[1].completions());
        values.set(format!("{medium}.reduction"), both.map(|(before, after)| (1.0 - after / before) * 100.0));
    }
    values
}

/// One seed. `together`: the original order is the coordinated one.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = crate::figures::scenario::changes::apply(&scenario::parse("ioco-3.toml", TEXT)?, change);
    let ways = if change == "together" { [POLICIES[1]; 3] } else { WAYS };
    Ok(values(&runs(&base, ways, &SEEDS[..1])?))
}
