//! [IOCO Fig. 3 and 5]: when each of eight servers finishes its part of ten applications' requests.
//!
//! As in the paper: one process each, one read of 4 MB, 64 KB strips. [IOCO §2] has InfiniBand for the disks too.
//! Charts show the first run.

use vpfs_report::{Axis, Check, Measured, Plot, Section, Series, Table, number};
use vpfs_sim::{CallTrace, Results, Scenario, ServerGroup, SimError, parallel};

use super::cluster::{self, Medium, POLICIES};
use crate::scenario::{self, SEEDS};
use crate::testbed;

const TEXT: &str = include_str!("../../../../scenarios/figures/ioco-3.toml");
const SERVERS: u32 = 8;
/// The paper's two, and coordination without the clients' times.
const WAYS: [&str; 3] = [POLICIES[0], POLICIES[1], "by arrival"];

/// Largest by smallest finish time in both orders, and the reduction of the mean completion time in %, for disks and
/// for flash.
const PAPERS: [(f64, f64, f64); 2] = [(4.4, 1.3, 29.8), (3.1, 1.2, 19.5)];

/// The runs of one environment under one policy.
struct Runs {
    medium: Medium,
    policy: &'static str,
    all: Vec<Results>,
}

pub(super) fn run() -> Result<Section, SimError> {
    let base = scenario::parse("ioco-3.toml", TEXT)?;
    let places: Vec<_> = Medium::ALL.into_iter().flat_map(|medium| WAYS.map(|policy| (medium, policy))).collect();
    let runs = parallel::map(&places, |&(medium, policy)| Runs::new(&base, medium, policy));
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
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
    Ok(checks(&runs).into_iter().fold(scenario::assumptions(section, TEXT), Section::check))
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

impl Runs {
    fn new(base: &Scenario, medium: Medium, policy: &'static str) -> Result<Self, SimError> {
        let mut scenario = Scenario { servers: vec![servers(medium)], ..base.clone() };
        medium.set_depth(&mut scenario);
        let run = |seed| scenario::run(&cluster::seeded(&scenario, seed), policy);
        Ok(Self { medium, policy, all: SEEDS.into_iter().map(run).collect::<Result<_, _>>()? })
    }

    /// The mean over all applications, run by run.
    fn means(&self, value: fn(&CallTrace) -> f64) -> impl Iterator<Item = f64> {
        self.all.iter().map(move |results| results.trace.iter().map(value).sum::<f64>() / results.trace.len() as f64)
    }

    fn spread(&self) -> Measured {
        Measured::of(self.means(|call| extent(call).1 / extent(call).0))
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
    let heading = Table::new(["environment", "order", "max/min finish time", "mean completion [ms]"]);
    runs.iter().fold(heading, |table, runs| {
        let numbers = [runs.spread(), Measured::of(runs.completions())].map(|value| number(value.median()));
        table.row([vec![runs.medium.name().to_owned(), runs.policy.to_owned()], numbers.to_vec()].concat())
    })
}

fn checks(runs: &[Runs]) -> Vec<Check> {
    runs.chunks(WAYS.len()).zip(PAPERS).flat_map(|(runs, papers)| checks_of(&runs[0], &runs[1], papers)).collect()
}

fn checks_of(original: &Runs, coordinated: &Runs, papers: (f64, f64, f64)) -> [Check; 4] {
    let name = |what: &str| format!("{}: {what}", original.medium.name());
    let spreads = [("original", original.spread().median()), ("coordinated", coordinated.spread().median())];
    let reductions =
        original.completions().zip(coordinated.completions()).map(|(before, after)| (1.0 - after / before) * 100.0);
    [
        Check::of("Fig. 3", name("max/min finish time, original"))
            .within(papers.0, original.spread(), 25.0)
            .because("servers read in the order of Linux 2.6.28; in a random one this row agrees (decision 0014)"),
        Check::of("Fig. 5", name("max/min finish time, coordinated"))
            .within(papers.1, coordinated.spread(), 25.0)
            .because(
                "idle servers take what comes first; with 5 instead of 33 us between parts this row agrees (decision 0014)",
            ),
        Check::of("Fig. 5", name("reduction of the mean completion time"))
            .within(papers.2, Measured::of(reductions), 25.0)
            .unit("%")
            .because("as for the original order"),
        Check::of("Fig. 3, 5", name("max/min finish time")).falling(spreads, 0.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::perturbed::{self, must_differ};

    #[test]
    fn finishing_together_needs_coordination() {
        let base = perturbed::fifo(&scenario::parse("ioco-3.toml", TEXT).unwrap());
        for medium in Medium::ALL {
            let [original, coordinated] = POLICIES.map(|policy| Runs::new(&base, medium, policy).unwrap());
            let rows = checks_of(&original, &coordinated, PAPERS[usize::from(medium == Medium::Ssd)]);
            must_differ(&rows, |what| what.contains("coordinated") || what.contains("reduction"));
        }
    }
}
