//! A small application that ends, beside a large one that never does: the common part of [vPFS+ Fig. 5 to 8] and
//! [vPFS Fig. 7].

use std::time::Duration;

use vpfs_sim::model::plan::Subtype;
use vpfs_sim::{App, Results, Scenario, SimError, Workload, parallel};

use crate::figures::scenario;
use crate::{Axis, Bar, Bars, Measured, Table, number};

/// How long the large application is measured alone, after a start-up of the same length as beside the small one.
const LARGE_ALONE: Duration = Duration::from_secs(120);

/// Results of the small application, and of the large one during the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Seconds from the start of the small application to its end.
    pub(crate) run: f64,
    /// Of these, seconds of computation.
    pub(crate) think: f64,
    /// MB/s of the small application over its whole run.
    pub(crate) small: f64,
    /// MB/s of the large application during that time.
    pub(crate) large: f64,
    /// Requests of the small application for metadata, for each one for data.
    pub(crate) metadata: f64,
}

impl Outcome {
    /// Seconds of I/O, barriers among processes included.
    pub(crate) fn io(&self) -> f64 {
        self.run - self.think
    }

    /// MB/s of both together.
    pub(crate) fn total(&self) -> f64 {
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
pub(crate) const EXCHANGE: [f64; 2] = [3.5, 2.5];

/// Seconds of a trial's small application that are simulated as computation, but are I/O.
fn exchange(trial: &Trial) -> f64 {
    match &trial.scenario.apps[0].workload {
        Workload::Btio(btio) if btio.subtype == Subtype::Full => {
            EXCHANGE.iter().sum::<f64>() * f64::from(btio.iterations)
        }
        _ => 0.0,
    }
}

/// The scenario with only its small application, the first one, without management.
pub(crate) fn small_alone(scenario: &Scenario) -> Trial {
    let apps = scenario.apps.iter().take(1).cloned().collect();
    Trial { scenario: Scenario { apps, ..scenario.clone() }, policy: NATIVE }
}

/// Runs all trials with some seeds and returns, seed by seed, the outcome of each trial.
pub(crate) fn outcomes(trials: &[Trial], seeds: &[u64]) -> Result<Vec<Vec<Outcome>>, SimError> {
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
    pub(crate) name: &'static str,
    /// Names of the ways of sharing.
    ways: Vec<String>,
    /// For each seed: alone, then each way.
    seeds: Vec<Vec<Outcome>>,
}

impl Experiment {
    /// Runs `base` alone and each of `ways`.
    pub(crate) fn new(
        name: &'static str,
        base: &Scenario,
        ways: Vec<(String, Trial)>,
        seeds: &[u64],
    ) -> Result<Self, SimError> {
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
pub(crate) type Value = fn(&Experiment, usize) -> Vec<f64>;

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
