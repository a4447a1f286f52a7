//! A small application that ends, beside a large one that never does: the common part of [vPFS+ Fig. 5 to 8].

use std::time::Duration;

use vpfs_sim::{App, Results, Scenario, SimError, parallel};

use crate::scenario;

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
pub(crate) struct Trial {
    pub(crate) scenario: Scenario,
    pub(crate) policy: &'static str,
}

/// The scenario with only its small application, the first one, without management.
pub(crate) fn small_alone(scenario: &Scenario) -> Trial {
    let apps = scenario.apps.iter().take(1).cloned().collect();
    Trial { scenario: Scenario { apps, ..scenario.clone() }, policy: NATIVE }
}

/// Runs all trials and returns the outcome of each.
pub(crate) fn outcomes(trials: &[Trial]) -> Result<Vec<Outcome>, SimError> {
    let run = |trial: &Trial| scenario::run(&trial.scenario, trial.policy).map(|results| outcome(&results));
    parallel::map(trials, run).into_iter().collect()
}

fn outcome(results: &Results) -> Outcome {
    let small = &results.apps[0];
    let run = small.run_time().unwrap_or_default();
    let (from, to) = (small.start, small.finish.unwrap_or(results.elapsed));
    Outcome {
        run: run.as_secs_f64(),
        think: small.think_time.as_secs_f64(),
        small: small.bytes() as f64 / 1e6 / run.as_secs_f64(),
        large: results.apps.get(1).map_or(0.0, |_| rate_between(results, 1, from, to)),
    }
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
