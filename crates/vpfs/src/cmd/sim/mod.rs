//! `vpfs sim`: the effect of policies on a cluster that is described in a file.

mod ending;
mod report;
mod runs;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use vpfs_config::read_text;
use vpfs_config::units::parse_duration;
use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable};
use vpfs_sim::{Files, PolicySpec, Results, Scenario};

use super::layout::logs;
use super::workload::output;
use super::workload::trace::TraceFile;
use crate::blocks::Blocks;
use crate::exit::Exit;
use crate::print::print;
use report::Base;
use runs::Runs;

/// Simulate a cluster under each policy, and compare what the applications get
///
/// Runs the same scheduling and coordination code as the proxies, between models of clients, links and devices. Equal
/// scenarios and seeds give equal results. Without SCENARIO, simulates a small application beside a large one. Ends
/// with who got what over time, and with what the last policy changes, compared with the first one.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs sim\n  \
    vpfs sim scenarios/two-to-one.toml --html two-to-one.html\n  \
    vpfs sim my-cluster.toml --compare fifo,isolation --seed 7 --json results.json\n  \
    vpfs sim my-cluster.toml --policy fifo --trace requests.csv")]
pub(crate) struct Sim {
    /// The scenario file; scenarios/ has some to start with
    scenario: Option<PathBuf>,

    /// Policies to run, by their names in the scenario, or fifo, sfq-d, sfq-d-plus, two-level, ioco or isolation with
    /// their defaults [default: all in the scenario]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policy: Vec<String>,

    /// Like --policy, and show all of them relative to the first one
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "policy")]
    compare: Vec<String>,

    /// Also run each application alone, and show all policies relative to that
    #[arg(long)]
    alone: bool,

    /// Use this seed instead of the scenario's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// End the simulation at this time instead of the scenario's
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,

    /// Write all results to this file; "-" for standard output instead of tables
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write tables and charts to this file, a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each transfer to this file, a CSV log for `vpfs layout advise`; only with one policy. Those that prepare
    /// files are left out
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Show no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

const DEFAULT: (&str, &str) =
    ("small-beside-large.toml", include_str!("../../../../../scenarios/small-beside-large.toml"));

impl Sim {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let scenario = self.scenario()?;
        let policies = self.policies(&scenario)?;
        let trace = self.trace_of(&policies)?.map(Mutex::new);
        // A run may take an hour.
        self.json.iter().chain(&self.html).try_for_each(|path| output::check(path))?;
        let runs = Runs::new(&scenario, self.quiet)?;
        let results = runs.of_policies(&policies, trace.as_ref())?;
        let alone = if self.alone { runs.alone(&results)? } else { Vec::new() };
        let finished = runs.finish();
        self.tell(&scenario, &alone, &results)?;
        trace.map_or(Ok(()), |trace| trace.into_inner().unwrap_or_else(PoisonError::into_inner).finish())?;
        finished
    }

    fn trace_of(&self, policies: &[PolicySpec]) -> Result<Option<TraceFile>, Exit> {
        match (&self.trace, policies) {
            (None, _) => Ok(None),
            (Some(path), [_]) => TraceFile::create(path).map(Some),
            (Some(_), all) => {
                let names: Vec<&str> = all.iter().map(|policy| policy.name.as_str()).collect();
                let problem = "--trace: a log is of one run; choose one with --policy of";
                Err(Exit::Usage(format!("{problem} {}", names.join(", "))))
            }
        }
    }

    fn scenario(&self) -> Result<Scenario, Exit> {
        let change = |scenario: Scenario| Scenario {
            seed: self.seed.unwrap_or(scenario.seed),
            duration: self.duration.or(scenario.duration),
            ..scenario
        };
        let read = match &self.scenario {
            None => Scenario::parse(DEFAULT.0, DEFAULT.1).map(change),
            Some(path) => {
                let text = read_text(path)
                    .map_err(|error| Exit::Usage(format!("{} cannot be read: {error}", path.display())))?;
                let folder = path.parent().unwrap_or(Path::new(""));
                let read = |name: &str| read_text(&folder.join(name));
                let log = |name: &str| logs::read_log(&folder.join(name)).map_err(|error| error.to_string());
                let files = Files { text: &read, log: &log };
                Scenario::parse_with(&path.display().to_string(), &text, &files, change)
            }
        };
        read.map_err(|problems| Exit::Usage(problems.to_string()))
    }

    /// The policies selected on the command line.
    fn policies(&self, scenario: &Scenario) -> Result<Vec<PolicySpec>, Exit> {
        let names = if self.compare.is_empty() { &self.policy } else { &self.compare };
        match names.as_slice() {
            [] => Ok(scenario.policies.clone()),
            [name] if !self.compare.is_empty() => Err(Exit::Usage(format!(
                "--compare: name another policy to compare {name:?} with, such as {name},fifo"
            ))),
            names => names.iter().map(|name| policy(scenario, name)).collect(),
        }
    }

    fn tell(&self, scenario: &Scenario, alone: &[Results], results: &[Results]) -> Result<(), Exit> {
        let alone_base = (!alone.is_empty()).then(|| Base::alone(alone, results));
        let first = if self.compare.is_empty() { None } else { Base::first(results) };
        let bases: Vec<Base<'_>> = alone_base.into_iter().chain(first).collect();
        let report = report::of(scenario, results, &bases);
        if self.json.as_deref() != Some(Path::new("-")) {
            print(report.text())?;
            ending::of(results, Blocks::of_locale()).map_or(Ok(()), print)?;
        }
        if let Some(path) = &self.json {
            let (name, seed) = (&scenario.name, scenario.seed);
            output::write(path, &json!({ "scenario": name, "seed": seed, "alone": alone, "results": results }))?;
        }
        if let Some(path) = &self.html {
            output::write_text(path, &report.html())?;
        }
        Ok(())
    }
}

/// A policy of the scenario, or one with default settings.
fn policy(scenario: &Scenario, name: &str) -> Result<PolicySpec, Exit> {
    let given = scenario.policies.iter().find(|policy| policy.name == name).cloned();
    let known = PolicyKind::ALL.into_iter().find(|kind| kind.name() == name);
    // The depth of the paper's storage, as in vpfs.toml.
    let depth = Depth::new(14).expect("not zero");
    let default = |kind| PolicySpec::new(name, Settings::new(kind, depth, SlotCostTable::default()));
    given.or_else(|| known.map(default)).ok_or_else(|| {
        let given = scenario.policies.iter().map(|policy| policy.name.as_str());
        let mut names: Vec<&str> = given.chain(PolicyKind::NAMES).collect();
        names.sort_unstable();
        names.dedup();
        Exit::Usage(format!("unknown policy {name:?}; the policies are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use vpfs_sim::Simulation;

    use super::*;

    #[test]
    fn the_scenario_that_is_built_in_is_valid() {
        let scenario = Scenario::parse(DEFAULT.0, DEFAULT.1).expect("it is valid");
        assert!(Simulation::new(&scenario, &scenario.policies[0]).is_ok());
        assert!(policy(&scenario, "ioco").is_ok() && policy(&scenario, "oico").is_err());
    }

    /// A policy that leaves the storage idle now and then for the sake of one application is judged as the others are.
    #[test]
    fn shares_are_judged_where_applications_want_more() {
        let text = |think| {
            format!(
                r#"
                duration = "20s"
                servers = [{{ count = 4, device = "throttled-disk" }}]
                policy = [{{ name = "isolation", scheduler = {{ policy = "isolation" }} }}]
                [[app]]
                name = "small"
                nodes = 4
                interactive = {{ processes = 4, transfer = "8KiB", think = "{think}", file = "1MiB" }}
                [[app]]
                name = "large"
                nodes = 4
                phases = ["write"]
                ior = {{ processes = 16, transfer = "4MiB", block = "64MiB", file = "per-process" }}
                "#
            )
        };
        let is_judged = |think| {
            let scenario = Scenario::parse("a.toml", &text(think)).expect("a scenario");
            let run = Simulation::new(&scenario, &scenario.policies[0]).and_then(Simulation::run);
            !report::of(&scenario, &[run.expect("it runs")], &[]).text().contains("No index")
        };
        assert!(is_judged("0s"), "both always ask for more");
        assert!(!is_judged("100ms"), "the small one computes");
    }
}
