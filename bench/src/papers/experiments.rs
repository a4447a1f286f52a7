//! The experiments: files, variants and rows, of which experiments.toml is the list; their cases, as the simulator and
//! the proxies need them; and what a case gave its applications.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use vpfs_core::fairness::{jain_index, unfairness};
use vpfs_core::{Bytes, Weight};
use vpfs_sim::model::Latency;
use vpfs_sim::{App, AppResults, PolicySpec, Results, Scenario};
use vpfs_testbed::load::measure::{PhaseReport, Report};

use super::counts;
use crate::servers::AppConfig;

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
            trials(&prefix, &file, &text, set, without)
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

/// The policy of a scenario that stands for no proxy at all; it is simulated as `fifo`.
const NO_PROXY: &str = "no proxy";

/// Keys that an application has in scenarios and in vpfs.toml.
const APP_KEYS: [&str; 10] = [
    "weight",
    "cap",
    "server_cap",
    "burst",
    "target_rate",
    "server_target_rate",
    "deadline",
    "latency",
    "min_rate",
    "server_min_rate",
];

/// A scenario with one policy.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Experiment, variant and policy.
    pub(super) key: String,
    pub(super) scenario: Scenario,
    pub(super) policy: PolicySpec,
    /// The applications of the scenario, in its order.
    pub(super) apps: Vec<AppConfig>,
    /// The `strips` of each application's files, where they are not simple stripes.
    pub(super) strips: Vec<Option<String>>,
    /// The table `[scheduler]`; `None` without a proxy.
    pub(super) scheduler: Option<String>,
}

/// The trials of a scenario's text, one for each policy, with other values at some paths such as `app.1.weight`, and
/// without what is at others.
fn trials(
    prefix: &str,
    file: &str,
    text: &str,
    set: &BTreeMap<String, Value>,
    without: &[String],
) -> Result<Vec<Trial>, String> {
    let mut table: Table = text.parse().map_err(|error| format!("{file}: {error}"))?;
    for (path, value) in set {
        let edited = place(&mut table, path).and_then(|(place, last)| {
            place.as_table_mut()?.insert(last.to_owned(), value.clone());
            Some(())
        });
        edited.ok_or_else(|| format!("{file}: {path} = {value} does not fit"))?;
    }
    for path in without {
        let removed = place(&mut table, path).and_then(|(place, last)| match place {
            Value::Array(array) => {
                let index: usize = last.parse().ok()?;
                (index < array.len()).then(|| array.remove(index))
            }
            place => place.as_table_mut()?.remove(last),
        });
        removed.ok_or_else(|| format!("{file}: there is no {path}"))?;
    }
    let text = toml::to_string(&table).map_err(|error| format!("{file}: {error}"))?;
    let scenario = Scenario::parse(file, &text).map_err(|error| error.to_string())?;
    let apps: Vec<AppConfig> = tables(&table, "app").flat_map(configs).collect();
    let strips: Vec<_> = tables(&table, "app").flat_map(strips).collect();
    let of = |(table, policy): (&Table, &PolicySpec)| {
        let scheduler = Table::from_iter([("scheduler".to_owned(), table["scheduler"].clone())]);
        Trial {
            key: format!("{prefix}, {}", policy.name),
            scenario: scenario.clone(),
            policy: policy.clone(),
            apps: apps.clone(),
            strips: strips.clone(),
            scheduler: (policy.name != NO_PROXY).then(|| scheduler.to_string()),
        }
    };
    Ok(tables(&table, "policy").zip(&scenario.policies).map(of).collect())
}

/// What the last part of a path is in, and that part.
fn place<'t, 'p>(table: &'t mut Table, path: &'p str) -> Option<(&'t mut Value, &'p str)> {
    let (parent, last) = path.rsplit_once('.')?;
    let mut parts = parent.split('.');
    let first = table.get_mut(parts.next()?)?;
    let place = parts.try_fold(first, |place, part| match part.parse::<usize>() {
        Ok(index) => place.get_mut(index),
        Err(_) => place.get_mut(part),
    });
    Some((place?, last))
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

/// An `[[app]]` of a scenario as `[[app]]`s of vpfs.toml, one for each copy.
fn configs(app: &Table) -> Vec<AppConfig> {
    let name = app.get("name").and_then(Value::as_str).unwrap_or_default();
    let kept = APP_KEYS.iter().filter_map(|key| Some(((*key).to_owned(), app.get(*key)?.clone())));
    let lines = Table::from_iter(kept).to_string();
    let config = |name: String| AppConfig { name, lines: lines.clone() };
    match copies(app) {
        1 => vec![config(name.to_owned())],
        copies => (1..=copies).map(|copy| config(format!("{name}-{copy}"))).collect(),
    }
}

fn strips(app: &Table) -> impl Iterator<Item = Option<String>> + use<> {
    let strips = app.get("strips").and_then(Value::as_str).map(str::to_owned);
    std::iter::repeat_n(strips, copies(app))
}

fn copies(app: &Table) -> usize {
    app.get("copies").and_then(Value::as_integer).and_then(|copies| copies.try_into().ok()).unwrap_or(1)
}

/// The results of one run of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// In the scenario's order.
    pub(super) apps: Vec<AppOutcome>,
    /// What the proxies used; `None` in a simulation and without them.
    pub(super) proxies: Option<Used>,
    /// What the policy limited the requests in the first server's storage to, in each second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) depth_series: Vec<f64>,
}

/// The results of one application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AppOutcome {
    pub(super) name: String,
    /// From its first call to its last one, with its computation.
    pub(super) seconds: f64,
    /// The mean over its processes of the time in calls.
    pub(super) io_seconds: f64,
    pub(super) bytes: u64,
    pub(super) operations: u64,
    pub(super) mean_latency_seconds: f64,
    /// The latency that 95 in 100 calls keep: of data and of metadata, or of each phase, the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p95_latency_seconds: Option<f64>,
    /// Bytes in each second since the start of the first application.
    pub(super) bytes_series: Vec<u64>,
    /// Metadata requests likewise; live, those to the first server, if it has a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) requests_series: Vec<u64>,
    /// Live: operations and bytes a second by phase.
    pub(super) phases: Vec<PhaseRate>,
}

/// The speed of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PhaseRate {
    pub(super) phase: String,
    pub(super) operations_per_second: f64,
    pub(super) bytes_per_second: f64,
}

/// What all proxies together used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Used {
    /// Time of processors.
    pub(super) processor_seconds: f64,
    /// Time that passed meanwhile.
    pub(super) seconds: f64,
    /// The most memory that each occupied, summed.
    pub(super) memory_bytes: u64,
}

impl Outcome {
    /// An application by its name.
    pub(super) fn app(&self, name: &str) -> Option<&AppOutcome> {
        self.apps.iter().find(|app| app.name == name)
    }

    /// From a simulation.
    pub(super) fn simulated(results: &Results) -> Self {
        let depths = results.servers.first().map(|server| &server.depth_series[..]).unwrap_or_default();
        let depth_series = depths.iter().copied().map(f64::from).collect();
        let apps = results.apps.iter().map(|app| AppOutcome::simulated(app, results)).collect();
        Self { apps, proxies: None, depth_series }
    }
}

impl AppOutcome {
    fn simulated(app: &AppResults, results: &Results) -> Self {
        let seconds = app.run_time().unwrap_or(results.elapsed.saturating_sub(app.start)).as_secs_f64();
        Self {
            name: app.name.clone(),
            seconds,
            io_seconds: app.io_time.as_secs_f64(),
            bytes: app.bytes(),
            operations: app.calls,
            mean_latency_seconds: mean_latency(&[app.read, app.write, app.metadata]),
            p95_latency_seconds: Some(p95(&[app.read, app.write, app.metadata])),
            bytes_series: app.bytes_series.clone(),
            requests_series: app.metadata_series.clone(),
            phases: Vec::new(),
        }
    }

    /// From a live run of `app`: the phases that count.
    pub(super) fn live(app: &App, report: &Report) -> Self {
        let phases: Vec<&PhaseReport> = report.phases.iter().filter(|report| counts(app, report.phase)).collect();
        let latencies: Vec<Latency> = phases.iter().map(|report| report.latency).collect();
        let before = std::iter::repeat_n(0, usize::try_from(app.start.as_secs()).unwrap_or_default());
        let rate = |report: &&PhaseReport| PhaseRate {
            phase: report.phase.to_string(),
            operations_per_second: report.operations_per_second,
            bytes_per_second: report.bytes_per_second,
        };
        Self {
            name: app.name.clone(),
            seconds: phases.iter().map(|report| report.seconds).sum(),
            io_seconds: phases.iter().map(|report| report.io_seconds).sum(),
            bytes: phases.iter().map(|report| report.bytes).sum(),
            operations: phases.iter().map(|report| report.operations).sum(),
            mean_latency_seconds: mean_latency(&latencies),
            p95_latency_seconds: Some(p95(&latencies)),
            bytes_series: before.chain(report.timeline.samples.iter().map(|sample| sample.bytes)).collect(),
            requests_series: Vec::new(),
            phases: phases.iter().map(rate).collect(),
        }
    }

    /// The speed of a phase by its name.
    pub(super) fn phase(&self, name: &str) -> Option<&PhaseRate> {
        self.phases.iter().find(|rate| rate.phase == name)
    }
}

fn mean_latency(latencies: &[Latency]) -> f64 {
    let count: u64 = latencies.iter().map(|latency| latency.count).sum();
    latencies.iter().map(|latency| latency.mean_seconds * latency.count as f64).sum::<f64>() / count.max(1) as f64
}

fn p95(latencies: &[Latency]) -> f64 {
    latencies.iter().map(|latency| latency.p95_seconds).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
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

    const TEXT: &str = "[[servers]]\n[[policy]]\nname = \"no proxy\"\nscheduler = { policy = \"fifo\" }\n\
        [[policy]]\nname = \"ours\"\nscheduler = { policy = \"sfq-d-plus\", slot_cost = [{ up_to = \"2MiB\", slots = 5 }] }\n\
        [[app]]\nname = \"a\"\nweight = 3\nior = { processes = 1, transfer = \"1MiB\", block = \"1MiB\" }\n\
        [[app]]\nname = \"b\"\ncopies = 2\nior = { processes = 1, transfer = \"1MiB\", block = \"1MiB\" }\n";

    #[test]
    fn proxies_and_simulator_get_the_same() {
        let trials = trials("x", "x.toml", TEXT, &[("app.0.weight".to_owned(), 7.into())].into(), &[]).unwrap();
        let [none, ours] = &trials[..] else { panic!("two policies") };
        assert_eq!((none.key.as_str(), &none.scheduler), ("x, no proxy", &None));
        let scheduler = ours.scheduler.as_deref().unwrap();
        assert!(scheduler.starts_with("[scheduler]\n") && scheduler.contains("slots = 5"), "{scheduler}");
        let names: Vec<_> = ours.apps.iter().map(|app| app.name.as_str()).collect();
        assert_eq!(names, ["a", "b-1", "b-2"]);
        assert_eq!(ours.scenario.apps.iter().map(|app| app.name.as_str()).collect::<Vec<_>>(), names);
        assert_eq!((ours.apps[0].lines.as_str(), ours.scenario.apps[0].weight.get()), ("weight = 7\n", 7));
    }

    #[test]
    fn an_application_can_be_left_out() {
        let without = |path: &str| trials("x", "x.toml", TEXT, &BTreeMap::new(), &[path.to_owned()]);
        assert_eq!(without("app.1").unwrap()[0].apps.len(), 1);
        assert!(without("app.7").unwrap_err().contains("app.7"));
    }
}
