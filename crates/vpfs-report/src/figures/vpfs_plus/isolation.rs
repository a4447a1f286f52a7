//! [vPFS+ Fig. 5 and 6]: BTIO alone, and beside IOR without management and under each scheduler.
//!
//! The scenario file states what was taken from the text and what was assumed. In addition:
//!
//! - Class C with the full subtype instead of class A: one process of each node writes calls of 4 to 16 MiB.
//! - Not work-conserving: SFQ(D) with a cap on IOR. The paper gives the outcome only, 0.69 MB/s on eight servers; that
//!   is the cap.
//!
//! The bars without management and of SFQ(D) are those of [vPFS Fig. 7], and count there.

use std::sync::OnceLock;
use std::time::Duration;

use vpfs_core::{Bytes, Cap};
use vpfs_sim::model::plan::{Btio, BtioClass};
use vpfs_sim::{Scenario, SimError, Workload};

use crate::{Axis, Section};

use super::contention::{self, Experiment, Outcome, Trial, Value};
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};

/// Also that of [vPFS Fig. 7].
pub(crate) const BASE: &str = include_str!("../../../../../scenarios/figures/vpfs-plus-5.toml");

/// IOR's total throughput in the paper's run that was not work-conserving, over eight servers [vPFS+ §V-B].
const CAP_ALL_SERVERS: u64 = 690_000;

const WAYS: [&str; 4] = ["native", "SFQ(D)", "SFQ(D) capped", "SFQ(D)+"];
const NATIVE: usize = 0;
const SFQ: usize = 1;
const CAPPED: usize = 2;
const PLUS: usize = 3;
/// Additional run time, and I/O throughput relative to alone, both in %, in the order of [`WAYS`] [vPFS+ §V-B].
/// SFQ(D)+: for class A its throughput is 3.35 times that of SFQ(D); for class C the text says that it does no better
/// than SFQ(D).
const RUN_TIMES: [[f64; 4]; 2] = [[228.8, 153.3, 1.9, 20.0], [75.0, 20.3, 1.1, 20.3]];
const THROUGHPUTS: [[f64; 4]; 2] = [[7.5, 16.8, 93.2, 3.35 * 16.8], [31.6, 72.1, 98.5, 72.1]];

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let base = scenario::parse("vpfs-plus-5.toml", BASE)?;
    let Baselines { classes: [class_a, class_c], ior_alone } = baselines()?;
    let classes =
        [class_of("class A", &base, class_a, &SEEDS)?, class_of("class C", &of_class_c(&base), class_c, &SEEDS)?];
    let bars = |title, paper: [&[f64]; 2], ours: Value| {
        contention::bars(title, Axis::linear("of that alone", "%"), &classes, &paper, ours)
    };
    let section = Section::new("vPFS+ Fig. 5 and 6: BTIO beside IOR")
        .text(
            "A simulation that computes most of the time runs beside an application that writes checkpoints all the \
             time. Without management each of its calls waits behind everything that the writer has outstanding. \
             SFQ(D) bounds that to 14 requests for each server; SFQ(D)+ knows that a large request occupies five \
             slots, so that two of them are in the disk at a time, and dispatches small ones between them. A cap on \
             the writer shields the simulation completely, but leaves the storage idle.",
        )
        .figure(
            bars("Additional run time of BTIO", [&RUN_TIMES[0], &RUN_TIMES[1]], Experiment::extra_run_time),
            "Fig. 6, relative to the run time alone.",
        )
        .figure(
            bars("I/O throughput of BTIO", [&THROUGHPUTS[0], &THROUGHPUTS[1]], Experiment::throughput),
            "Fig. 5: throughput in I/O phases relative to alone.",
        )
        .table(contention::table(&classes));
    Ok((scenario::assumptions(section, BASE), values(&classes, *ior_alone)))
}

/// What [vPFS Fig. 7] needs as well.
pub(crate) struct Baselines {
    /// Class A and class C, seed by seed: alone, and beside IOR without management.
    pub(crate) classes: [Vec<Vec<Outcome>>; 2],
    /// MB/s of IOR alone.
    pub(crate) ior_alone: f64,
}

/// Runs them once for both figures.
pub(crate) fn baselines() -> Result<&'static Baselines, SimError> {
    static RUN: OnceLock<Result<Baselines, SimError>> = OnceLock::new();
    let run = || {
        let base = scenario::parse("vpfs-plus-5.toml", BASE)?;
        let classes = [contention::baseline(&base, &SEEDS)?, contention::baseline(&of_class_c(&base), &SEEDS)?];
        Ok(Baselines { classes, ior_alone: contention::large_alone(&base)? })
    };
    RUN.get_or_init(run).as_ref().map_err(Clone::clone)
}

fn class_of(
    name: &'static str,
    base: &Scenario,
    baseline: &[Vec<Outcome>],
    seeds: &[u64],
) -> Result<Experiment, SimError> {
    let shared = |policy| Trial { scenario: base.clone(), policy };
    let trials = [shared("SFQ(D)"), capped(base), shared("SFQ(D)+")];
    Experiment::beyond(name, baseline, WAYS[SFQ..].iter().copied().zip(trials).collect(), seeds)
}

fn capped(base: &Scenario) -> Trial {
    let mut scenario = base.clone();
    let servers: u64 = scenario.servers.iter().map(|group| u64::from(group.count)).sum();
    let cap = Cap::new(CAP_ALL_SERVERS / servers, Bytes::ZERO);
    scenario.apps.iter_mut().skip(1).for_each(|ior| ior.cap = cap);
    Trial { scenario, policy: "SFQ(D)" }
}

/// The same scenario with class C, whose processes take time to exchange data in each burst.
pub(crate) fn of_class_c(base: &Scenario) -> Scenario {
    let mut scenario = base.clone();
    if let Workload::Btio(btio) = &base.apps[0].workload {
        let class = Btio::class(BtioClass::C);
        let [write, read] = contention::EXCHANGE.map(Duration::from_secs_f64);
        scenario.apps[0].workload = Workload::Btio(Btio {
            iterations: btio.iterations,
            total_bytes: class.total_bytes / u64::from(class.iterations) * u64::from(btio.iterations),
            think_write: class.think_write + write,
            think_read: class.think_read + read,
            ..class
        });
    }
    scenario
}

/// Additional run time of each class and way in %, such as `a.plus.time`, and the factors and parts of the text.
fn values(classes: &[Experiment], ior_alone: f64) -> Values {
    let mut values = Values::default();
    for (class, name) in classes.iter().zip(["a", "c"]) {
        for (way, short) in ["native", "sfq", "capped", "plus"].into_iter().enumerate() {
            values.set(format!("{name}.{short}.time"), class.extra_run_time(way));
        }
        let io = |to: usize| class.measure(|_, ways| ways[to].io() / ways[PLUS].io());
        values.set(format!("{name}.io plus/sfq"), io(SFQ));
        values.set(format!("{name}.io plus/native"), io(NATIVE));
        let total = |to: usize| class.measure(|_, ways| ways[PLUS].total() / ways[to].total());
        values.set(format!("{name}.total plus/capped"), total(CAPPED));
        values.set(format!("{name}.total plus/sfq"), total(SFQ));
        values.set(format!("{name}.run plus/sfq"), class.measure(|_, ways| ways[PLUS].run / ways[SFQ].run));
        values.set(format!("{name}.ior plus/alone"), class.measure(|_, ways| ways[PLUS].large / ior_alone));
    }
    let less = classes[0].measure(|_, ways| (1.0 - ways[PLUS].total() / ways[SFQ].total()) * 100.0);
    values.set("a.total less", less);
    values.set("ior alone", [ior_alone]);
    values
}

/// The scenario with two bursts, changed. `alone`: IOR is not there.
#[cfg(test)]
pub(crate) fn short(change: &str) -> Result<Scenario, SimError> {
    let mut base = crate::figures::scenario::changes::apply(&scenario::parse("vpfs-plus-5.toml", BASE)?, change);
    if let Workload::Btio(btio) = &base.apps[0].workload {
        let (iterations, bytes) = (2, btio.total_bytes / u64::from(btio.iterations) * 2);
        base.apps[0].workload = Workload::Btio(Btio { iterations, total_bytes: bytes, ..btio.clone() });
    }
    if change == "alone" {
        base.apps.truncate(1);
    }
    Ok(base)
}

/// Class A with one seed and two bursts. `uncapped`: nothing is; `capped`: IOR is under SFQ(D)+.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let base = short(change)?;
    let baseline = contention::baseline(&base, &SEEDS[..1])?;
    let shared = |policy| Trial { scenario: base.clone(), policy };
    let cap = |policy| Trial { policy, ..capped(&base) };
    let trials = match change {
        "uncapped" => [shared("SFQ(D)"), shared("SFQ(D)"), shared("SFQ(D)+")],
        "capped" => [shared("SFQ(D)"), cap("SFQ(D)"), cap("SFQ(D)+")],
        _ => [shared("SFQ(D)"), cap("SFQ(D)"), shared("SFQ(D)+")],
    };
    let ways = WAYS[SFQ..].iter().copied().zip(trials).collect();
    Ok(values(&[Experiment::beyond("class A", &baseline, ways, &SEEDS[..1])?], contention::large_alone(&base)?))
}
