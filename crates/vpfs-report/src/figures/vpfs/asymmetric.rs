//! [vPFS Fig. 5]: the ratio of the total service of two applications, one on four servers and one on eight, with
//! threshold-driven DSFQ.
//!
//! As in the paper: 128 processes each, D = 8, thresholds of 10 MB and 512 KB, sequential writes of the first
//! application beside three patterns of the second one, ratios of 2, 8 and 32 in favour of the second one, repeated
//! runs. Keep-alives between servers are switched off, so that only messages of synchronisation are counted.

use std::time::Duration;

use vpfs_core::Weight;
use vpfs_sim::model::plan::Phase;
use vpfs_sim::{CoordinationResults, Results, Scenario, SimError, parallel};

use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Bar, Bars, Section, Table, number};

const BASE: &str = include_str!("../../../../../scenarios/figures/vpfs-5.toml");
/// Part of the figure, the second application's pattern, and its phase.
const PATTERNS: [(&str, &str, Phase); 3] =
    [("Fig. 5a", "writes", Phase::Write), ("Fig. 5b", "reads", Phase::Read), ("Fig. 5c", "mixed", Phase::Mixed)];
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

/// All runs of the figure: all patterns with its threshold, and writes with the other.
fn points() -> impl Iterator<Item = Point> {
    let runs = [(POLICIES[0], &PATTERNS[..]), (POLICIES[1], &PATTERNS[..1])];
    let of = |policy, patterns: &'static [(&'static str, &'static str, Phase)]| {
        let all = patterns.iter().flat_map(|&(_, _, pattern)| RATIOS.map(|ratio| (pattern, ratio)));
        all.flat_map(move |(pattern, ratio)| SEEDS.map(|seed| Point { policy, pattern, weights: [1, ratio], seed }))
    };
    runs.into_iter().flat_map(move |(policy, patterns)| of(policy, patterns))
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let base = scenario::parse("vpfs-5.toml", BASE)?;
    let outcomes = parallel::map(&points().collect::<Vec<_>>(), |point| point.run(&base));
    let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let values = values(&outcomes);
    Ok((section(&outcomes, &values), values))
}

/// Ratios by pattern and target, such as `writes.8`; what the figure's threshold leaves of the other's traffic and
/// messages, and the largest difference of ratios, in %.
fn values(outcomes: &[Outcome]) -> Values {
    let mut values = Values::default();
    let of = |policy: &'static str, pattern: Phase, ratio: u32| {
        let is_it =
            move |o: &&Outcome| o.point.policy == policy && o.point.pattern == pattern && o.point.weights[1] == ratio;
        outcomes.iter().filter(is_it)
    };
    for (_, name, pattern) in PATTERNS {
        RATIOS
            .iter()
            .for_each(|&ratio| values.set(format!("{name}.{ratio}"), of(POLICIES[0], pattern, ratio).map(|o| o.ratio)));
    }
    let seeds = of(POLICIES[0], Phase::Write, RATIOS[0]).count();
    let both = |seed: usize| POLICIES.map(|policy| RATIOS.map(|ratio| of(policy, Phase::Write, ratio).nth(seed)));
    let left = |amount: fn(&CoordinationResults) -> u64| {
        let sum = move |runs: [Option<&Outcome>; 3]| -> u64 {
            runs.into_iter().flatten().filter_map(|o| o.coordination.as_ref().map(amount)).sum()
        };
        (0..seeds).map(move |seed| {
            let [few, many] = both(seed).map(sum);
            few as f64 / many as f64 * 100.0
        })
    };
    values.set("traffic left", left(|sent| sent.bytes));
    values.set("messages left", left(|sent| sent.messages));
    let difference = |seed| {
        let [few, many] = both(seed).map(|runs| runs.map(|o| o.map_or(f64::NAN, |o| o.ratio)));
        let off = |at: usize| (few[at] - many[at]).abs() / f64::from(RATIOS[at]) * 100.0;
        [0, 1, 2].map(off).into_iter().fold(0.0, f64::max)
    };
    values.set("difference", (0..seeds).map(difference));
    values
}

fn section(outcomes: &[Outcome], values: &Values) -> Section {
    let section = Section::new("vPFS Fig. 5: shares over servers that not all applications use").text(
        "One application has files on four of eight servers, the other one on all. Each server's scheduler alone \
         would give both the same at the four that they share, and so twice as much in total to the second one. With \
         threshold-driven DSFQ the servers report their service to each other, and the totals over all servers have \
         the configured ratio, whatever the second application does. A threshold of 10 MB is as fair as a message for \
         each request.",
    );
    let section = PATTERNS.iter().fold(section, |section, &(part, name, _)| {
        section.figure(chart(values, part, name), "Median of the runs, with the smallest and the largest.")
    });
    scenario::assumptions(section.table(table(outcomes)), BASE)
}

fn chart(values: &Values, part: &str, name: &str) -> Bars {
    let title = format!("{part}: writes next to {name}");
    let bars = Bars::new(title, Axis::log2("service of App2 / App1", ""), RATIOS.map(|ratio| format!("{ratio}:1")));
    bars.series("paper, to 1 % and 3 %", RATIOS.map(|ratio| Bar::new(ratio.into())))
        .series("ours", RATIOS.map(|ratio| Bar::from(values.median(&format!("{name}.{ratio}")))))
}

fn table(outcomes: &[Outcome]) -> Table {
    let heading = Table::new(["App2", "target", "threshold", "ratio", "MB/s", "messages", "their bytes [MB]"]);
    let first = outcomes.iter().filter(|outcome| outcome.point.seed == SEEDS[0]);
    first.fold(heading, |table, Outcome { point, ratio, throughput, coordination }| {
        let (messages, bytes) = coordination.as_ref().map_or((0, 0), |sent| (sent.messages, sent.bytes));
        let measured = [*ratio, throughput / 1e6, messages as f64, bytes as f64 / 1e6].map(number);
        let what = PATTERNS.iter().find(|(_, _, pattern)| *pattern == point.pattern).map_or("", |(_, what, _)| what);
        let target = format!("{}:1", point.weights[1]);
        table.row([vec![what.into(), target, point.policy.into()], measured.to_vec()].concat())
    })
}

/// Writes with one seed. `equal thresholds`: both are the small one.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = crate::figures::scenario::changes::apply(&scenario::parse("vpfs-5.toml", BASE)?, change);
    let run = |point: &Point| {
        let policy = if change == "equal thresholds" { POLICIES[1] } else { point.policy };
        let mut scenario = point.scenario(&base);
        if change == "halved" {
            scenario = crate::figures::scenario::changes::apply(&scenario, change);
        }
        let results = scenario::run(&scenario, policy)?;
        let (ratio, throughput) = measured(&results);
        Ok(Outcome { point: *point, ratio, throughput, coordination: results.coordination })
    };
    let points: Vec<_> = points().filter(|point| point.pattern == Phase::Write && point.seed == SEEDS[0]).collect();
    let points: Vec<_> =
        points.into_iter().filter(|p| change == "equal thresholds" || p.policy == POLICIES[0]).collect();
    Ok(values(&parallel::map(&points, run).into_iter().collect::<Result<Vec<_>, SimError>>()?))
}
