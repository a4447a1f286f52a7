//! The experiments: files, variants and rows, of which experiments.toml is the list.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::Value;
use vpfs_core::fairness::{jain_index, unfairness};
use vpfs_core::{Bytes, Weight};

use super::outcome::{AppOutcome, Outcome};
use super::trial::{self, Trial};

/// An experiment of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    pub(super) name: String,
    /// Its scenario is `scenarios/papers/SCENARIO.toml`; by default, it has its name.
    scenario: Option<String>,
    pub(super) title: String,
    /// What is scaled, and why.
    pub(super) scaled: String,
    /// Other servers than those of the page, which have to be started before: it runs only by name.
    pub(super) servers: Option<String>,
    /// Whether the simulator models what is measured.
    #[serde(default = "yes", rename = "simulated")]
    pub(super) is_simulated: bool,
    /// By default, the scenario as it is.
    #[serde(default = "plain")]
    variants: Vec<Variant>,
    #[serde(default)]
    pub(super) rows: Vec<Row>,
    /// The experiment that has the rows.
    rows_of: Option<String>,
}

/// A scenario with other values at some paths, and without what is at others.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Variant {
    name: String,
    set: BTreeMap<String, Value>,
    without: Vec<String>,
}

/// A value that a paper has, or that explains one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) paper: Option<f64>,
    value: Measure,
    #[serde(default)]
    apps: Vec<String>,
    phase: Option<String>,
    /// From the first of these seconds to before the last.
    #[serde(default)]
    during: [usize; 2],
    of: String,
    per: Option<String>,
    per_app: Option<String>,
    percent: Option<Percent>,
}

/// What is measured; of several applications, the sum.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Measure {
    /// How long an application runs.
    Seconds,
    /// How long its I/O takes: the inverse of its I/O throughput.
    IoSeconds,
    /// The mean of all run times.
    MeanSeconds,
    /// Bytes in a second.
    Rate,
    /// Calls in a second.
    Operations,
    PhaseBytes,
    PhaseOperations,
    /// In seconds in which all applications always have requests pending.
    Bytes,
    /// The latency that 95 % of the calls keep.
    #[serde(rename = "p95-ms")]
    P95Ms,
    /// The mean of a server's depth.
    Depth,
    Unfairness,
    Service,
    Jain,
    /// Of each proxy, of one processor.
    ProcessorPercent,
    MemoryMb,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Percent {
    More,
    Less,
}

fn yes() -> bool {
    true
}

fn plain() -> Vec<Variant> {
    vec![Variant::default()]
}

impl Row {
    pub(super) fn number(&self, value: f64) -> String {
        if value.abs() >= 20.0 { format!("{value:.0}") } else { format!("{value:.2}") }
    }

    /// Its value in the outcomes of one run of an experiment's cases, which have its name; `None` if one is missing.
    pub(super) fn value(&self, name: &str, outcomes: &BTreeMap<&str, &Outcome>) -> Option<f64> {
        let measured = |case: &str, apps: &[String]| self.measured(outcomes.get(&*format!("{name}, {case}"))?, apps);
        let value = measured(&self.of, &self.apps)?;
        let ratio = match (&self.per, &self.per_app) {
            (None, None) => return Some(value),
            (Some(case), _) => value / measured(case, &self.apps)?,
            (None, Some(app)) => value / measured(&self.of, std::slice::from_ref(app))?,
        };
        Some(match self.percent {
            None => ratio,
            Some(Percent::More) => (ratio - 1.0) * 100.0,
            Some(Percent::Less) => (1.0 - ratio) * 100.0,
        })
    }

    fn measured(&self, outcome: &Outcome, apps: &[String]) -> Option<f64> {
        let [start, end] = self.during;
        let used = || outcome.proxies.map(|used| (used, f64::from(super::SERVERS)));
        match self.value {
            Measure::MeanSeconds => Some(mean(outcome.apps.iter().map(|app| app.seconds))),
            Measure::Depth => outcome.depth_series.get(start..end).map(|depths| mean(depths.iter().copied())),
            Measure::Unfairness => largest_unfairness(outcome, start..end),
            Measure::Service => service(outcome),
            Measure::Jain => jain(outcome),
            Measure::ProcessorPercent => {
                used().map(|(used, servers)| used.processor_seconds / used.seconds * 100.0 / servers)
            }
            Measure::MemoryMb => used().map(|(used, servers)| used.memory_bytes as f64 / 1e6 / servers),
            _ if apps.is_empty() => self.of_app(outcome.apps.first()?),
            _ => apps.iter().map(|app| self.of_app(outcome.app(app)?)).sum(),
        }
    }

    fn of_app(&self, app: &AppOutcome) -> Option<f64> {
        let phase = || app.phase(self.phase.as_deref()?);
        let [start, end] = self.during;
        match self.value {
            Measure::Seconds => Some(app.seconds),
            Measure::IoSeconds => Some(app.io_seconds),
            Measure::Rate => Some(app.bytes as f64 / app.seconds),
            Measure::Operations => Some(app.operations as f64 / app.seconds),
            Measure::PhaseBytes => phase().map(|rate| rate.bytes_per_second),
            Measure::PhaseOperations => phase().map(|rate| rate.operations_per_second),
            Measure::Bytes => app.bytes_series.get(start..end).map(|series| series.iter().sum::<u64>() as f64),
            Measure::P95Ms => app.p95_latency_seconds.map(|seconds| seconds * 1e3),
            _ => None,
        }
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// The largest unfairness of these windows, in %, among the applications that are there. Each window is as long as
/// the time between two arrivals, and each application has its number as weight.
fn largest_unfairness(outcome: &Outcome, mut windows: std::ops::Range<usize>) -> Option<f64> {
    const WINDOW: usize = 15;
    let largest = |largest: f64, window: usize| {
        let service = |number: u32| {
            let series = outcome.app(&format!("app{number}"))?.bytes_series.iter();
            Some((Bytes(series.skip(window * WINDOW).take(WINDOW).sum()), Weight::new(number)?))
        };
        let there: Option<Vec<_>> = (1..=8).take(window + 1).map(service).collect();
        Some(largest.max(unfairness(&there?) * 100.0))
    };
    windows.try_fold(0.0, largest)
}

/// The service of the first of two applications that do the same work, relative to the second's, for as long as
/// both run: from the times at which they end, if all service in a unit of time is the same.
fn service(outcome: &Outcome) -> Option<f64> {
    let [first, second] = ["app1", "app2"].map(|app| outcome.app(app).map(|app| app.seconds));
    Some(1.0 / (2.0 * first? / second? - 1.0))
}

/// The mean of Jain's index of metadata requests over ten seconds each, as long as both have some, with twice the
/// weight for the first one.
fn jain(outcome: &Outcome) -> Option<f64> {
    let sums = |app| Some(outcome.app(app)?.requests_series.chunks_exact(10).map(|times| times.iter().sum::<u64>()));
    let [two, one] = [2, 1].map(|weight| Weight::new(weight).unwrap_or(Weight::ONE));
    let both = sums("app1")?.zip(sums("app2")?).filter(|(first, second)| *first > 0 && *second > 0);
    let indices: Vec<f64> =
        both.map(|(first, second)| jain_index(&[(Bytes(first), two), (Bytes(second), one)])).collect();
    (!indices.is_empty()).then(|| mean(indices.into_iter()))
}

impl Experiment {
    /// All cases.
    pub(super) fn trials(&self) -> Result<Vec<Trial>, String> {
        let file = format!("scenarios/papers/{}.toml", self.scenario.as_ref().unwrap_or(&self.name));
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&file));
        let text = text.map_err(|error| format!("{file}: {error}"))?;
        let of = |Variant { name, set, without }: &Variant| {
            let prefix = if name.is_empty() { self.name.clone() } else { format!("{}, {name}", self.name) };
            trial::trials(&prefix, &file, &text, set, without)
        };
        let all: Result<Vec<_>, String> = self.variants.iter().map(of).collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

/// The experiments with these names; all if there are none.
pub(super) fn chosen(names: &[String]) -> Result<Vec<Experiment>, String> {
    let mut all = all()?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|one| one.name != name.as_str())) {
        let known: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
        return Err(format!("there is no experiment {unknown:?}, only {}", known.join(", ")));
    }
    all.retain(|one| names.is_empty() || names.contains(&one.name));
    Ok(all)
}

fn all() -> Result<Vec<Experiment>, String> {
    #[derive(Deserialize)]
    struct List {
        experiment: Vec<Experiment>,
    }
    let List { experiment: mut all } =
        toml::from_str(include_str!("experiments.toml")).map_err(|error| format!("experiments.toml: {error}"))?;
    let rows: BTreeMap<String, Vec<Row>> = all.iter().map(|one| (one.name.clone(), one.rows.clone())).collect();
    for one in &mut all {
        if let Some(other) = &one.rows_of {
            one.rows.clone_from(rows.get(other).ok_or_else(|| format!("there is no experiment {other:?}"))?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{PhaseRate, Used};
    use super::*;

    #[test]
    fn all_scenarios_are_valid_and_each_row_refers_to_cases() {
        for experiment in all().unwrap() {
            let outcomes = experiment.trials().unwrap().into_iter().map(|trial| {
                let apps = trial.scenario.apps.iter().map(|app| outcome(&app.name)).collect();
                let proxies = Some(Used { processor_seconds: 1.0, seconds: 1.0, memory_bytes: 1 });
                (trial.key, Outcome { apps, proxies, depth_series: vec![1.0; 39] })
            });
            let outcomes: Vec<_> = outcomes.collect();
            let outcomes = outcomes.iter().map(|(key, outcome)| (key.as_str(), outcome)).collect();
            assert!(!experiment.rows.is_empty(), "{}", experiment.name);
            for row in &experiment.rows {
                assert!(row.value(&experiment.name, &outcomes).is_some(), "{}: {}", experiment.name, row.what);
            }
        }
    }

    fn outcome(name: &str) -> AppOutcome {
        let phases = ["write", "read", "mkdir", "create", "stat", "utime", "readdir", "unlink", "rmdir"];
        let rate =
            |phase: &str| PhaseRate { phase: phase.to_owned(), operations_per_second: 1.0, bytes_per_second: 1.0 };
        AppOutcome {
            name: name.to_owned(),
            seconds: 1.0,
            io_seconds: 1.0,
            bytes: 1,
            bytes_series: vec![1; 65],
            requests_series: vec![1; 19],
            operations: 1,
            mean_latency_seconds: 1.0,
            p95_latency_seconds: Some(1.0),
            phases: phases.map(rate).to_vec(),
        }
    }
}
