//! A policy in a case, and the best constant there.

use vpfs_core::{Bytes, Cap, Settings};
use vpfs_sim::{App, PolicySpec, Results, Scenario, Simulation};

use super::case::Case;
use super::load::workload;

/// A policy in a case.
#[derive(Debug)]
pub(super) struct Scored {
    pub(super) storage: &'static str,
    pub(super) weights: &'static str,
    /// Relative to the best constant.
    pub(super) score: f64,
    /// The seed, the case, what was best and what came of it, in words.
    pub(super) text: String,
}

impl Scored {
    /// Whether it is of this kind of storage, or of these weights.
    pub(super) fn is(&self, name: &str) -> bool {
        self.storage == name || self.weights == name
    }
}

/// What is set by hand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Constant {
    Nothing,
    /// Bulk's rate at each server, as a part of what it does alone.
    Cap(f64),
    /// Processes of bulk.
    Window(u32),
}

/// What is tried first; neighbours of the best cap follow.
const CAPS: [f64; 7] = [0.95, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1];
const WINDOWS: [u32; 5] = [1, 2, 3, 5, 8];

impl Constant {
    fn text(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::Cap(part) => format!("a cap of {part:.2}"),
            Self::Window(processes) => format!("a window of {processes}"),
        }
    }
}

/// What each application keeps, and what that is worth.
#[derive(Clone, Debug)]
struct Kept {
    of: Vec<f64>,
    utility: f64,
}

impl Kept {
    fn text(&self) -> String {
        self.of.iter().map(|kept| format!("{kept:.2}")).collect::<Vec<_>>().join("/")
    }
}

/// What each application does alone in a case, and the best constant.
#[derive(Debug)]
pub(super) struct Reference {
    alone: Vec<f64>,
    constant: Constant,
    reached: Kept,
}

/// Searches for the best constant.
///
/// # Errors
/// A simulation broke an invariant.
pub(super) fn reference(case: &Case) -> Result<Reference, String> {
    let fifo = PolicySpec::fifo();
    let alone = (0..case.scenario.apps.len()).map(|index| {
        let apps = vec![case.scenario.apps[index].clone()];
        Ok::<_, String>(done(&run(case, &Scenario { apps, ..case.scenario.clone() }, &fifo)?)[0])
    });
    let alone = alone.collect::<Result<Vec<f64>, String>>()?;
    let kept = |scenario: &Scenario, policy: &PolicySpec| {
        Ok::<_, String>(kept(scenario, &alone, &done(&run(case, scenario, policy)?)))
    };
    let with = |constant: Constant| kept(&by_hand(case, constant, alone[alone.len() - 1]), &fifo);
    let mut tried = vec![(Constant::Nothing, with(Constant::Nothing)?)];
    // Bursts ask for more than they do in the mean.
    let burst = case.bulk.bursts.map_or(1.0, |(on, off)| (on + off).as_secs_f64() / on.as_secs_f64());
    for cap in CAPS.map(|cap| cap * burst) {
        tried.push((Constant::Cap(cap), with(Constant::Cap(cap))?));
    }
    for window in WINDOWS.into_iter().filter(|window| *window < case.bulk.processes) {
        tried.push((Constant::Window(window), with(Constant::Window(window))?));
    }
    if let Constant::Cap(part) = best(&tried).0 {
        for near in [part * 1.1, part * 0.9] {
            tried.push((Constant::Cap(near), with(Constant::Cap(near))?));
        }
    }
    let (constant, reached) = best(&tried).clone();
    Ok(Reference { alone, constant, reached })
}

/// Runs a policy.
///
/// # Errors
/// A simulation broke an invariant.
pub(super) fn score(case: &Case, reference: &Reference, settings: &Settings) -> Result<Scored, String> {
    let Reference { alone, constant, reached } = reference;
    let policy = PolicySpec::new(settings.kind.name(), settings.clone());
    let ours = kept(&case.scenario, alone, &done(&run(case, &case.scenario, &policy)?));
    let score = ((ours.utility - reached.utility) * alone.len() as f64).exp();
    let (seed, text) = (case.seed, &case.text);
    let (constant, reached, ours) = (constant.text(), reached.text(), ours.text());
    let text = format!("seed {seed}: {score:.3}: {ours}, by {constant} {reached}: {text}");
    Ok(Scored { storage: case.storage, weights: case.weights, score, text })
}

fn best(tried: &[(Constant, Kept)]) -> &(Constant, Kept) {
    let order = |a: &&(Constant, Kept), b: &&(Constant, Kept)| a.1.utility.total_cmp(&b.1.utility);
    tried.iter().max_by(order).expect("something was tried")
}

/// The case with a constant for bulk, which does `alone` a second alone.
fn by_hand(case: &Case, constant: Constant, alone: f64) -> Scenario {
    let mut scenario = case.scenario.clone();
    let servers = f64::from(scenario.servers[0].count);
    let bulk = scenario.apps.last_mut().expect("bulk is there");
    match constant {
        Constant::Nothing => {}
        Constant::Cap(part) => {
            let rate = alone / scenario.duration.unwrap_or_default().as_secs_f64() * part / servers;
            #[expect(clippy::cast_possible_truncation, reason = "a rate")]
            let rate = (rate as u64).max(1);
            bulk.cap = Cap::new(rate, Bytes((rate / 100).max(64 << 10)));
        }
        Constant::Window(processes) => {
            *bulk = App { workload: workload(&case.bulk, processes), nodes: bulk.nodes.min(processes), ..bulk.clone() };
        }
    }
    scenario
}

fn run(case: &Case, scenario: &Scenario, policy: &PolicySpec) -> Result<Results, String> {
    let simulate = || Simulation::new(scenario, policy)?.run();
    simulate().map_err(|error| format!("seed {}: {error}", case.seed))
}

/// What each application did: bytes, and for each metadata request as many as it costs.
fn done(results: &Results) -> Vec<f64> {
    let cost = PolicySpec::fifo().metadata_cost.0;
    results.apps.iter().map(|app| (app.bytes() + app.metadata_requests * cost) as f64).collect()
}

fn kept(scenario: &Scenario, alone: &[f64], done: &[f64]) -> Kept {
    let of: Vec<f64> = done.iter().zip(alone).map(|(done, alone)| done / alone.max(1.0)).collect();
    let weights = scenario.apps.iter().map(|app| f64::from(app.weight.get()));
    let all: f64 = weights.clone().sum();
    let utility = weights.zip(&of).map(|(weight, kept)| weight * kept.max(1e-4).ln()).sum::<f64>() / all;
    Kept { of, utility }
}
