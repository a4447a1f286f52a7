//! Figures of [vPFS+].

pub(crate) mod metadata;
pub(crate) mod profile;

use std::sync::OnceLock;
use std::time::Duration;

use vpfs_core::slot_cost::{SMALL_THRESHOLD, SizeClass};
use vpfs_core::{Bytes, Cap, SlotCost, SlotCostTable, Weight};
use vpfs_sim::model::plan::{Btio, BtioClass, Subtype, Wrf};
use vpfs_sim::{App, Results, Scenario, SimError, Workload, parallel};

use crate::figures::Figure;
use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Bar, Bars, Measured, Plot, Section, Series, Table, number};

pub(crate) const FIGURES: &[Figure] = &[
    Figure::new("vpfs-plus-2", "vPFS+ Fig. 2 and 3: depth and slot costs of a data server", profile::run),
    Figure::new("vpfs-plus-5", "vPFS+ Fig. 5 and 6: BTIO beside IOR", isolation::run),
    Figure::new("vpfs-plus-7", "vPFS+ Fig. 7: WRF beside IOR", wrf::run),
    Figure::new("vpfs-plus-8", "vPFS+ Fig. 8: how many slots a large request should occupy", large_slots::run),
    Figure::new("vpfs-plus-9", "vPFS+ Fig. 9: metadata of two applications at 2:1", metadata::run),
];

/// How long the large application is measured alone, after a start-up of the same length as beside the small one.
const LARGE_ALONE: Duration = Duration::from_secs(120);

/// Of a small application that ends, and of a large one that never does during the same time: [vPFS+ Fig. 5 to 8],
/// [vPFS Fig. 7].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Seconds from the start of the small application to its end.
    pub(crate) run: f64,
    /// Of these, seconds of computation.
    think: f64,
    /// MB/s of the small application over its whole run.
    small: f64,
    /// MB/s of the large application during that time.
    large: f64,
    /// Requests of the small application for metadata, for each one for data.
    metadata: f64,
}

impl Outcome {
    /// Seconds of I/O, barriers among processes included.
    pub(crate) fn io(&self) -> f64 {
        self.run - self.think
    }

    /// MB/s of both together.
    fn total(&self) -> f64 {
        self.small + self.large
    }
}

/// The policy that represents no management in all scenarios.
const NATIVE: &str = "native";

/// One point of a sweep: a scenario and the name of its policy.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) scenario: Scenario,
    pub(crate) policy: &'static str,
}

/// Seconds that the processes of BTIO's full subtype exchange data before a burst is written, and after it was read:
/// with what the servers need alone, half a second, the 4 s and 3 s of [vPFS Fig. 8].
const EXCHANGE: [f64; 2] = [3.5, 2.5];

/// Seconds of a trial's small application that are simulated as computation, but are I/O.
fn exchange(trial: &Trial) -> f64 {
    match &trial.scenario.apps[0].workload {
        Workload::Btio(btio) if btio.subtype == Subtype::Full => {
            EXCHANGE.iter().sum::<f64>() * f64::from(btio.iterations)
        }
        _ => 0.0,
    }
}

fn small_alone(scenario: &Scenario) -> Trial {
    let apps = scenario.apps.iter().take(1).cloned().collect();
    Trial { scenario: Scenario { apps, ..scenario.clone() }, policy: NATIVE }
}

fn outcomes(trials: &[Trial], seeds: &[u64]) -> Result<Vec<Vec<Outcome>>, SimError> {
    let runs: Vec<_> = seeds.iter().flat_map(|&seed| trials.iter().map(move |trial| (seed, trial))).collect();
    let run = |(seed, trial): &(u64, &Trial)| {
        scenario::run(&scenario::seeded(&trial.scenario, *seed), trial.policy)
            .map(|results| outcome(&results, exchange(trial)))
    };
    let outcomes = parallel::map(&runs, run).into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(outcomes.chunks(trials.len()).map(<[Outcome]>::to_vec).collect())
}

/// `exchange`: seconds at the clients that count as I/O.
fn outcome(results: &Results, exchange: f64) -> Outcome {
    let small = &results.apps[0];
    let run = small.run_time().unwrap_or_default();
    let (from, to) = (small.start, small.finish.unwrap_or(results.elapsed));
    Outcome {
        run: run.as_secs_f64(),
        think: small.think_time.as_secs_f64() - exchange,
        small: small.bytes() as f64 / 1e6 / run.as_secs_f64(),
        large: results.apps.get(1).map_or(0.0, |_| rate_between(results, 1, from, to)),
        metadata: small.metadata_requests as f64 / (small.service.count - small.metadata_requests).max(1) as f64,
    }
}

/// The small application alone and beside the large one without management, seed by seed.
pub(crate) fn baseline(base: &Scenario, seeds: &[u64]) -> Result<Vec<Vec<Outcome>>, SimError> {
    outcomes(&[small_alone(base), Trial { scenario: base.clone(), policy: NATIVE }], seeds)
}

/// MB/s of the large application, the second one, without management and without the small one.
pub(crate) fn large_alone(scenario: &Scenario) -> Result<f64, SimError> {
    let start = scenario.apps[0].start;
    let apps = scenario.apps.iter().skip(1).map(|app| App { background: false, ..app.clone() }).collect();
    let duration = Some(start + LARGE_ALONE);
    let results = scenario::run(&Scenario { apps, duration, ..scenario.clone() }, NATIVE)?;
    Ok(rate_between(&results, 0, start, start + LARGE_ALONE))
}

/// MB/s of an application in the whole seconds from `from` to `to`.
fn rate_between(results: &Results, app: usize, from: Duration, to: Duration) -> f64 {
    let (from, to) = (Duration::from_secs(from.as_secs()), Duration::from_secs(to.as_secs()));
    let bytes = results.bytes_between(from, to)[app];
    bytes as f64 / 1e6 / to.saturating_sub(from).as_secs_f64()
}

/// The small application alone and beside the large one in some ways, with each seed.
pub(crate) struct Experiment {
    /// Which small application, such as `class A`.
    name: &'static str,
    ways: Vec<String>,
    /// For each seed: alone, then each way.
    seeds: Vec<Vec<Outcome>>,
}

impl Experiment {
    fn new(name: &'static str, base: &Scenario, ways: Vec<(String, Trial)>, seeds: &[u64]) -> Result<Self, SimError> {
        let (ways, trials): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
        let trials: Vec<_> = [small_alone(base)].into_iter().chain(trials).collect();
        Ok(Self { name, ways, seeds: outcomes(&trials, seeds)? })
    }

    /// The same where the [`baseline`] is known; `ways` are those after the first one, which is without management.
    pub(crate) fn beyond(
        name: &'static str,
        baseline: &[Vec<Outcome>],
        ways: Vec<(&str, Trial)>,
        seeds: &[u64],
    ) -> Result<Self, SimError> {
        let (names, trials): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
        let ways = [NATIVE].into_iter().chain(names).map(str::to_owned).collect();
        let others = outcomes(&trials, seeds)?;
        let seeds = baseline.iter().zip(others).map(|(known, others)| [known.clone(), others].concat()).collect();
        Ok(Self { name, ways, seeds })
    }

    /// A value of each seed's run alone and of its runs in each way.
    pub(crate) fn measure(&self, of: impl Fn(&Outcome, &[Outcome]) -> f64) -> Vec<f64> {
        self.seeds.iter().map(|outcomes| of(&outcomes[0], &outcomes[1..])).collect()
    }

    /// By how much longer than alone the small application runs, in %.
    pub(crate) fn extra_run_time(&self, way: usize) -> Vec<f64> {
        self.measure(|alone, ways| (ways[way].run / alone.run - 1.0) * 100.0)
    }

    /// Its throughput during I/O, in % of alone.
    pub(crate) fn throughput(&self, way: usize) -> Vec<f64> {
        self.measure(|alone, ways| alone.io() / ways[way].io() * 100.0)
    }
}

/// A value of the small application in one way of sharing.
type Value = fn(&Experiment, usize) -> Vec<f64>;

/// Bars of a value in each way of several experiments, beside those of the paper.
pub(crate) fn bars(title: &str, axis: Axis, experiments: &[Experiment], paper: &[&[f64]], ours: Value) -> Bars {
    let bars = Bars::new(title, axis, experiments[0].ways.clone());
    experiments.iter().zip(paper).fold(bars, |bars, (experiment, paper)| {
        let ours = (0..experiment.ways.len()).map(|way| Bar::from(Measured::of(ours(experiment, way))));
        bars.series(format!("{}, paper", experiment.name), paper.iter().copied().map(Bar::new))
            .series(format!("{}, ours", experiment.name), ours)
    })
}

/// Seconds and rates of the runs with the first seed.
pub(crate) fn table(experiments: &[Experiment]) -> Table {
    let heading = ["small application", "way", "run time [s]", "computation [s]", "small [MB/s]", "large [MB/s]"];
    let rows = experiments.iter().flat_map(|experiment| {
        let names = ["alone".to_owned()].into_iter().chain(experiment.ways.iter().cloned());
        experiment.seeds[0].iter().zip(names).map(|(outcome, way)| {
            let numbers = [outcome.run, outcome.think, outcome.small, outcome.large].map(number);
            [vec![experiment.name.to_owned(), way], numbers.to_vec()].concat()
        })
    });
    rows.fold(Table::new(heading), Table::row)
}

pub(crate) mod isolation {
    //! [vPFS+ Fig. 5 and 6]: BTIO alone, and beside IOR without management and under each scheduler.
    //!
    //! The scenario file states what was taken from the text and what was assumed. In addition:
    //!
    //! - Class C with the full subtype instead of class A: one process of each node writes calls of 4 to 16 MiB.
    //! - Not work-conserving: SFQ(D) with a cap on IOR. The paper gives the outcome only, 0.69 MB/s on eight servers;
    //!   that is the cap.
    //!
    //! The bars without management and of SFQ(D) are those of [vPFS Fig. 7], and count there.

    use super::*;

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
    /// SFQ(D)+: for class A its throughput is 3.35 times that of SFQ(D); for class C the text says that it does no
    /// better than SFQ(D).
    const RUN_TIMES: [[f64; 4]; 2] = [[228.8, 153.3, 1.9, 20.0], [75.0, 20.3, 1.1, 20.3]];
    const THROUGHPUTS: [[f64; 4]; 2] = [[7.5, 16.8, 93.2, 3.35 * 16.8], [31.6, 72.1, 98.5, 72.1]];

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let base = scenario::parse("vpfs-plus-5.toml", BASE)?;
        let Baselines { classes: [class_a, class_c], ior_alone } = baselines()?;
        let classes =
            [class_of("class A", &base, class_a, &SEEDS)?, class_of("class C", &of_class_c(&base), class_c, &SEEDS)?];
        let bars = |title, paper: [&[f64]; 2], ours: Value| {
            super::bars(title, Axis::linear("of that alone", "%"), &classes, &paper, ours)
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
            .table(super::table(&classes));
        Ok((scenario::assumptions(section, BASE), values(&classes, *ior_alone)))
    }

    /// What [vPFS Fig. 7] needs as well.
    pub(crate) struct Baselines {
        /// Class A and class C, seed by seed: alone, and beside IOR without management.
        pub(crate) classes: [Vec<Vec<Outcome>>; 2],
        pub(crate) ior_alone: f64,
    }

    /// Runs them once for both figures.
    pub(crate) fn baselines() -> Result<&'static Baselines, SimError> {
        static RUN: OnceLock<Result<Baselines, SimError>> = OnceLock::new();
        let run = || {
            let base = scenario::parse("vpfs-plus-5.toml", BASE)?;
            let classes = [super::baseline(&base, &SEEDS)?, super::baseline(&of_class_c(&base), &SEEDS)?];
            Ok(Baselines { classes, ior_alone: super::large_alone(&base)? })
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
            let [write, read] = super::EXCHANGE.map(Duration::from_secs_f64);
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
        let mut base = scenario::changes::apply(&scenario::parse("vpfs-plus-5.toml", BASE)?, change);
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
        let baseline = super::baseline(&base, &SEEDS[..1])?;
        let shared = |policy| Trial { scenario: base.clone(), policy };
        let cap = |policy| Trial { policy, ..capped(&base) };
        let trials = match change {
            "uncapped" => [shared("SFQ(D)"), shared("SFQ(D)"), shared("SFQ(D)+")],
            "capped" => [shared("SFQ(D)"), cap("SFQ(D)"), cap("SFQ(D)+")],
            _ => [shared("SFQ(D)"), cap("SFQ(D)"), shared("SFQ(D)+")],
        };
        let ways = WAYS[SFQ..].iter().copied().zip(trials).collect();
        Ok(values(&[Experiment::beyond("class A", &baseline, ways, &SEEDS[..1])?], super::large_alone(&base)?))
    }
}

pub(crate) mod wrf {
    //! [vPFS+ Fig. 7]: run time of WRF beside IOR. The scenario file states the assumptions.

    use super::*;

    const BASE: &str = include_str!("../../../../../scenarios/figures/vpfs-plus-7.toml");

    /// Ways of sharing with WRF's weight (IOR's is 1).
    const WAYS: [(&str, u32); 3] = [("native", 1), ("SFQ(D)", 16), ("SFQ(D)+", 1)];
    /// The paper's additional run time in the order of [`WAYS`], in %.
    const RUN_TIMES: [f64; 3] = [582.0, 180.0, 79.0];

    /// The scenario that [vPFS+ Fig. 8] uses as well.
    pub(super) fn base() -> Result<Scenario, SimError> {
        scenario::parse("vpfs-plus-7.toml", BASE)
    }

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let wrf = [experiment(&base()?, &SEEDS)?];
        let section = Section::new("vPFS+ Fig. 7: WRF beside IOR")
            .text(
                "A weather model that makes small requests and many attribute look-ups runs beside an application that \
                 writes 8 MB at a time. SFQ(D) needs a ratio of 16:1 to help the model, and still lets 14 large requests \
                 into each disk at once. SFQ(D)+ counts five slots for each of them, and does better with equal weights.",
            )
            .figure(
                super::bars(
                    "Additional run time of WRF",
                    Axis::linear("of that alone", "%"),
                    &wrf,
                    &[&RUN_TIMES],
                    Experiment::extra_run_time,
                ),
                "Fig. 7: medians, with the smallest and the largest of five runs.",
            )
            .table(super::table(&wrf));
        Ok((scenario::assumptions(section, BASE), values(&wrf[0])))
    }

    fn experiment(base: &Scenario, seeds: &[u64]) -> Result<Experiment, SimError> {
        let ways = WAYS.map(|(policy, weight)| {
            let mut scenario = base.clone();
            scenario.apps[0].weight = Weight::new(weight).unwrap_or(Weight::ONE);
            let label = if policy == "native" { policy.to_owned() } else { format!("{policy} {weight}:1") };
            (label, Trial { scenario, policy })
        });
        Experiment::new("WRF", base, ways.into(), seeds)
    }

    /// Additional run time in %, and how often faster WRF is under SFQ(D)+.
    fn values(wrf: &Experiment) -> Values {
        let mut values = Values::default();
        for (way, name) in ["native", "sfq", "plus"].into_iter().enumerate() {
            values.set(format!("{name}.time"), wrf.extra_run_time(way));
            values.set(format!("run {name}/plus"), wrf.measure(|_, ways| ways[way].run / ways[2].run));
        }
        values.set("metadata", wrf.measure(|alone, _| alone.metadata));
        values
    }

    /// Two minutes of the forecast with one seed.
    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        let mut base = scenario::changes::apply(&base()?, change);
        base.apps[0].workload = vpfs_sim::Workload::Wrf(vpfs_sim::model::plan::Wrf::PAPER.with_minutes(2));
        Ok(values(&experiment(&base, &SEEDS[..1])?))
    }
}

pub(crate) mod large_slots {
    //! [vPFS+ Fig. 8]: throughput of WRF and IOR under SFQ(D)+ against L, the slots of a large request. The scenario of
    //! Fig. 7 with eight minutes of forecast, as only throughputs are compared.

    use super::*;

    const SLOTS: [u32; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    /// The paper's L: 14 slots then hold two large requests at a time.
    const CHOSEN: u32 = 5;
    const POLICY: &str = "SFQ(D)+";

    pub(super) fn run() -> Result<(Section, Values), SimError> {
        let outcomes = outcomes(&wrf::base()?, 8, &SEEDS)?;
        let section = Section::new("vPFS+ Fig. 8: how many slots a large request should occupy")
            .text(
                "With one slot SFQ(D)+ is SFQ(D) and lets 14 large requests into a disk at once; with more slots for \
                 each, small requests compete with fewer of them there. WRF gains most from the first steps and hardly \
                 anything beyond L = 5, where two large requests are in the disk; IOR loses with each step.",
            )
            .figure(
                plot(&outcomes[0]),
                "Throughput of WRF, IOR and both; weights 1:1, D = 14, the first of five runs. The paper prints no values.",
            );
        Ok((section, values(&outcomes)))
    }

    /// For each seed, one outcome for each of [`SLOTS`].
    fn outcomes(base: &Scenario, minutes: u32, seeds: &[u64]) -> Result<Vec<Vec<Outcome>>, SimError> {
        let trial = |slots| Ok(Trial { scenario: with_slots(base, minutes, slots)?, policy: POLICY });
        super::outcomes(&SLOTS.map(trial).into_iter().collect::<Result<Vec<_>, SimError>>()?, seeds)
    }

    /// The same scenario with this L for all requests that are not small.
    fn with_slots(base: &Scenario, minutes: u32, slots: u32) -> Result<Scenario, SimError> {
        let slot_cost = SlotCost::new(slots).unwrap_or(SlotCost::ONE);
        let large = vec![SizeClass { up_to: Bytes::mib(2), slot_cost }];
        let table = SlotCostTable::new(SMALL_THRESHOLD, large.clone(), large);
        let table = table.map_err(|error| SimError::Scenario(error.to_string()))?;
        let mut scenario = base.clone();
        scenario.apps[0].workload = Workload::Wrf(Wrf::PAPER.with_minutes(minutes));
        let policies = scenario.policies.iter_mut().filter(|policy| policy.name == POLICY);
        policies.for_each(|policy| policy.settings.slot_costs = table.clone());
        Ok(scenario)
    }

    fn plot(outcomes: &[Outcome]) -> Plot {
        let points = |of: fn(&Outcome) -> f64| SLOTS.into_iter().map(f64::from).zip(outcomes.iter().map(of));
        let line = |name: &str, of| Series::line(name, points(of)).with_markers();
        Plot::new("Throughput against L", Axis::linear("L", "slots"), Axis::linear("throughput", "MB/s"))
            .reference_when(f64::from(CHOSEN), "profiled")
            .series(line("IOR", |outcome| outcome.large))
            .series(line("both", Outcome::total))
            .right(Axis::linear("throughput of WRF", "MB/s").include(0.0), [line("WRF", |outcome| outcome.small)])
    }

    /// MB/s of each and of both with each L.
    fn values(seeds: &[Vec<Outcome>]) -> Values {
        let mut values = Values::default();
        for (at, slots) in SLOTS.into_iter().enumerate() {
            values.set(format!("wrf L={slots}"), seeds.iter().map(|outcomes| outcomes[at].small));
            values.set(format!("ior L={slots}"), seeds.iter().map(|outcomes| outcomes[at].large));
            values.set(format!("both L={slots}"), seeds.iter().map(|outcomes| outcomes[at].total()));
        }
        let more = |outcomes: &Vec<Outcome>| (outcomes[4].total() / outcomes[0].total() - 1.0) * 100.0;
        values.set("more with L=5", seeds.iter().map(more));
        values
    }

    /// Two minutes with one seed. `equal`: every L is 1.
    #[cfg(test)]
    pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
        let base = scenario::changes::apply(&wrf::base()?, change);
        let trial = |slots| {
            Ok(Trial { scenario: with_slots(&base, 2, if change == "equal" { 1 } else { slots })?, policy: POLICY })
        };
        let trials = SLOTS.map(trial).into_iter().collect::<Result<Vec<_>, SimError>>()?;
        Ok(values(&super::outcomes(&trials, &SEEDS[..1])?))
    }
}
