//! [vPFS Fig. 5]: the ratio of the total service of two applications, one on four servers and one on eight, with
//! threshold-driven DSFQ.
//!
//! As in the paper: 128 processes each, D = 8, thresholds of 10 MB and 512 KB, sequential writes of the first
//! application beside three patterns of the second one, ratios of 2, 8 and 32 in favour of the second one, repeated
//! runs. Keep-alives between servers are switched off, so that only messages of synchronisation are counted.

use std::time::Duration;

use vpfs_core::Weight;
use vpfs_model::plan::Phase;
use vpfs_report::{Axis, Bar, Bars, Check, Kind, Measured, Section, Table, number};
use vpfs_sim::{CoordinationResults, Results, Scenario, SimError, parallel};

use crate::scenario::{self, SEEDS};

const BASE: &str = include_str!("../../../../scenarios/figures/vpfs-5.toml");
/// Part of the figure, the second application's pattern, and its phase.
const PATTERNS: [(&str, &str, Phase); 3] = [
    ("Fig. 5a", "writes", Phase::Write),
    ("Fig. 5b", "reads", Phase::Read),
    ("Fig. 5c", "random reads and writes", Phase::Mixed),
];
const RATIOS: [u32; 3] = [2, 8, 32];
/// The threshold of the figure, and the one that it is compared with.
const POLICIES: [&str; 2] = ["10 MB", "512 KB"];
const WARM_UP: Duration = Duration::from_secs(60);

/// One run.
#[derive(Clone, Copy, Debug)]
struct Point {
    policy: &'static str,
    pattern: Phase,
    weights: [u32; 2],
    seed: u64,
}

/// Its results.
struct Outcome {
    point: Point,
    /// Service of the second application divided by that of the first.
    ratio: f64,
    /// Bytes per second of both together.
    throughput: f64,
    coordination: Option<CoordinationResults>,
}

impl Point {
    fn run(&self, base: &Scenario) -> Result<Outcome, SimError> {
        let results = scenario::run(&self.scenario(base), self.policy)?;
        let (ratio, throughput) = measured(&results);
        Ok(Outcome { point: *self, ratio, throughput, coordination: results.coordination })
    }

    fn scenario(&self, base: &Scenario) -> Scenario {
        let mut scenario = scenario::seeded(base, self.seed);
        scenario.peers.settings.keep_alive = None;
        scenario.apps[1].phases = vec![self.pattern];
        for (app, weight) in scenario.apps.iter_mut().zip(self.weights) {
            app.weight = Weight::new(weight).expect("no weight is zero");
        }
        scenario
    }
}

/// Ratio and throughput after the start-up.
fn measured(results: &Results) -> (f64, f64) {
    let bytes = results.bytes_between(WARM_UP, results.elapsed);
    let time = (results.elapsed - WARM_UP).as_secs_f64();
    (bytes[1] as f64 / bytes[0] as f64, (bytes[0] + bytes[1]) as f64 / time)
}

/// All runs of the figure: all seeds with the figure's threshold, one with the other.
fn points() -> Vec<Point> {
    let runs = [(POLICIES[0], &SEEDS[..]), (POLICIES[1], &SEEDS[..1])];
    let of = |policy, seeds: &'static [u64]| {
        let with =
            move |pattern, ratio| seeds.iter().map(move |&seed| Point { policy, pattern, weights: [1, ratio], seed });
        PATTERNS
            .into_iter()
            .flat_map(move |(_, _, pattern)| RATIOS.into_iter().flat_map(move |ratio| with(pattern, ratio)))
    };
    runs.into_iter().flat_map(|(policy, seeds)| of(policy, seeds)).chain(ASIDE).collect()
}

/// Runs beside the figure: without management, and with larger shares for the application on four servers.
const ASIDE: [Point; 2] = [
    Point { policy: "native", pattern: Phase::Write, weights: [1, 2], seed: 1 },
    Point { policy: "10 MB", pattern: Phase::Write, weights: [2, 1], seed: 1 },
];

pub(super) fn run() -> Result<Section, SimError> {
    let base = scenario::parse("vpfs-5.toml", BASE)?;
    let outcomes = parallel::map(&points(), |point| point.run(&base));
    Ok(section(&Outcomes(outcomes.into_iter().collect::<Result<_, _>>()?)))
}

struct Outcomes(Vec<Outcome>);

impl Outcomes {
    fn of(&self, policy: &'static str, pattern: Phase, ratio: u32) -> impl Iterator<Item = &Outcome> {
        self.0.iter().filter(move |Outcome { point, .. }| {
            point.policy == policy && point.pattern == pattern && point.weights == [1, ratio]
        })
    }

    fn ratio(&self, policy: &'static str, pattern: Phase, ratio: u32) -> Measured {
        Measured::of(self.of(policy, pattern, ratio).map(|outcome| outcome.ratio))
    }

    /// The traffic of coordination in all runs with the first seed that the figure's threshold leaves, in % of that
    /// with the other.
    fn left(&self, amount: fn(&CoordinationResults) -> u64) -> f64 {
        let sum = |policy| {
            let with = |outcome: &&Outcome| outcome.point.policy == policy && outcome.point.seed == SEEDS[0];
            let runs = self.0.iter().filter(with).filter(|outcome| outcome.point.weights[0] == 1);
            runs.filter_map(|outcome| outcome.coordination.as_ref().map(amount)).sum::<u64>() as f64
        };
        sum(POLICIES[0]) / sum(POLICIES[1]) * 100.0
    }

    /// The largest difference between both thresholds' ratios, in % of the target.
    fn difference(&self) -> f64 {
        let off = |pattern, ratio| {
            let [few, many] =
                POLICIES.map(|policy| self.of(policy, pattern, ratio).next().map_or(f64::NAN, |o| o.ratio));
            (few - many).abs() / f64::from(ratio) * 100.0
        };
        let all = PATTERNS.into_iter().flat_map(|(_, _, pattern)| RATIOS.map(|ratio| off(pattern, ratio)));
        all.fold(0.0, f64::max)
    }

    fn aside(&self, point: &Point) -> &Outcome {
        let is_it = |outcome: &&Outcome| (outcome.point.policy, outcome.point.weights) == (point.policy, point.weights);
        self.0.iter().find(is_it).expect("all points were run")
    }
}

fn section(outcomes: &Outcomes) -> Section {
    let section = Section::new("vPFS Fig. 5: shares over servers that not all applications use").text(
        "One application has files on four of eight servers, the other one on all. Each server's scheduler alone \
         would give both the same at the four that they share, and so twice as much in total to the second one. With \
         threshold-driven DSFQ the servers report their service to each other, and the totals over all servers have \
         the configured ratio, whatever the second application does. A threshold of 10 MB is as fair as a message for \
         each request.",
    );
    let section = PATTERNS.iter().fold(section, |section, &(part, what, pattern)| {
        section.figure(chart(outcomes, part, what, pattern), "Median of the runs, with the smallest and the largest.")
    });
    let section = scenario::assumptions(section.table(table(outcomes)).text(aside(outcomes)), BASE);
    checks(outcomes).into_iter().fold(section, Section::check)
}

fn chart(outcomes: &Outcomes, part: &str, what: &str, pattern: Phase) -> Bars {
    let title = format!("{part}: writes beside {what}");
    let bars = Bars::new(title, Axis::log2("service of App2 / App1", ""), RATIOS.map(|ratio| format!("{ratio}:1")));
    let bars = bars.series("paper, to 1 % and 3 %", RATIOS.map(|ratio| Bar::new(ratio.into())));
    POLICIES.into_iter().fold(bars, |bars, policy| {
        let ours = RATIOS.map(|ratio| Bar::from(outcomes.ratio(policy, pattern, ratio)));
        bars.series(format!("ours, threshold {policy}"), ours)
    })
}

fn table(outcomes: &Outcomes) -> Table {
    let heading = Table::new(["App2", "target", "threshold", "ratio", "MB/s", "messages", "their bytes [MB]"]);
    let first = outcomes.0.iter().filter(|outcome| outcome.point.seed == SEEDS[0]);
    first.fold(heading, |table, Outcome { point, ratio, throughput, coordination }| {
        let [one, two] = point.weights;
        let (messages, bytes) = coordination.as_ref().map_or((0, 0), |sent| (sent.messages, sent.bytes));
        let measured = [*ratio, throughput / 1e6, messages as f64, bytes as f64 / 1e6].map(number);
        let what = PATTERNS.iter().find(|(_, _, pattern)| *pattern == point.pattern).map_or("", |(_, what, _)| what);
        let target = if one == 1 { format!("{two}:1") } else { format!("{two}:{one}") };
        table.row([vec![what.into(), target, point.policy.into()], measured.to_vec()].concat())
    })
}

fn aside(outcomes: &Outcomes) -> String {
    let ours = outcomes.aside(&ASIDE[1]);
    format!(
        "The ratios are in favour of App2, as it has twice as many servers. App1 has four, and needs all of their \
         capacity to get as much as App2 gets at the other four alone. It can get more only by leaving those idle: a \
         call of App2 needs all eight servers, so holding it back at four keeps the others idle. At 1:2 both together \
         get {} MB/s (ratio {}), {} MB/s at 2:1.",
        number(ours.throughput / 1e6),
        number(ours.ratio),
        number(outcomes.of(POLICIES[0], Phase::Write, 2).next().map_or(f64::NAN, |at_two| at_two.throughput / 1e6)),
    )
}

/// The row of one ratio, with the paper's own tolerance.
fn ratio_row(part: &str, what: &str, target: u32, ours: Measured) -> Check {
    let percent = if target == 32 { 3.0 } else { 1.0 };
    Check::of(part, format!("{target}:1 beside {what}")).within(target.into(), ours, percent)
}

fn checks(outcomes: &Outcomes) -> Vec<Check> {
    let ratios = PATTERNS.iter().flat_map(|&(part, what, pattern)| {
        RATIOS.map(|target| ratio_row(part, what, target, outcomes.ratio(POLICIES[0], pattern, target)))
    });
    let more = [
        Check::of("§IV-C1", "traffic of synchronisation that 10 MB leaves of that of 512 KB")
            .within(5.0, outcomes.left(|sent| sent.bytes), 25.0)
            .unit("%"),
        Check::of("§IV-C1", "messages that it leaves")
            .within(5.0, outcomes.left(|sent| sent.messages), 25.0)
            .unit("%")
            .is(Kind::Derived, "the same statement of the paper as the row above"),
        Check::of("Fig. 5", "ratio without management")
            .within(2.0, outcomes.aside(&ASIDE[0]).ratio, 3.0)
            .is(Kind::Input, "follows from the numbers of servers"),
        Check::of("§IV-C1", "largest difference of ratios between both thresholds")
            .at_most(outcomes.difference(), 3.0)
            .unit("% of the target"),
    ];
    ratios.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use vpfs_report::Verdict;

    use super::*;
    use crate::scenario::perturbed::{self, must_differ};

    /// The rows of the figure beside writes with one seed, in a scenario that was changed.
    fn rows(targets: &[u32], change: impl Fn(&Scenario) -> Scenario) -> Vec<Check> {
        let base = scenario::parse("vpfs-5.toml", BASE).unwrap();
        let row = |&target: &u32| {
            let point = Point { policy: POLICIES[0], pattern: Phase::Write, weights: [1, target], seed: 1 };
            let (ratio, _) = measured(&scenario::run(&change(&point.scenario(&base)), POLICIES[0]).unwrap());
            ratio_row("Fig. 5a", "writes", target, ratio.into())
        };
        targets.iter().map(row).collect()
    }

    #[test]
    fn total_service_has_the_ratio_asked_for() {
        let rows = rows(&RATIOS, Clone::clone);
        assert!(rows.iter().all(|row| row.verdict() == Verdict::Passes), "{rows:#?}");
    }

    /// In order of arrival the ratio is that of the numbers of servers, 2:1.
    #[test]
    fn ratios_need_their_policy() {
        must_differ(&rows(&RATIOS[1..], perturbed::fifo), |_| true);
        must_differ(&rows(&RATIOS, perturbed::halved), |_| true);
        must_differ(&rows(&RATIOS, perturbed::unsynchronised), |_| true);
    }
}
