//! `vpfs sim`: the effect of policies on a cluster that is described in a file.

mod report;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use vpfs_config::read_text;
use vpfs_config::units::{Span, parse_duration};
use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Time};
use vpfs_harl::{Op, Request};
use vpfs_sim::{App, PolicySpec, Progress, Results, Scenario, SimError, Simulation, Transfer};

use super::workload::output;
use super::workload::progress::ProgressLine;
use super::workload::trace::TraceFile;
use crate::exit::Exit;
use crate::print::print;
use report::Base;

/// Simulate a cluster under each policy, and compare what the applications get
///
/// Runs the same scheduling and coordination code as the proxies, between models of clients, links and devices. Equal
/// scenarios and seeds give equal results. Without SCENARIO, simulates a small application beside a large one.
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
        let line = ProgressLine::start(self.quiet);
        let policies = self.policies(&scenario)?;
        let mut trace = self.trace_of(&policies)?;
        let alone = if self.alone { scenario.apps.as_slice() } else { &[] };
        let alone: Result<Vec<_>, _> = alone.iter().map(|app| simulate_alone(&scenario, app, &line)).collect();
        let results: Result<Vec<_>, _> =
            policies.iter().map(|policy| simulate(&scenario, policy, &line, trace.as_mut())).collect();
        line.clear();
        self.tell(&scenario, &alone?, &results?)?;
        trace.map_or(Ok(()), TraceFile::finish)
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
        let read = match &self.scenario {
            None => Scenario::parse(DEFAULT.0, DEFAULT.1),
            Some(path) => {
                let text = read_text(path)
                    .map_err(|error| Exit::Usage(format!("{} cannot be read: {error}", path.display())))?;
                let folder = path.parent().unwrap_or(Path::new(""));
                let files = |name: &str| read_text(&folder.join(name));
                Scenario::parse_with(&path.display().to_string(), &text, &files)
            }
        };
        let scenario = read.map_err(|problems| Exit::Usage(problems.to_string()))?;
        let seed = self.seed.unwrap_or(scenario.seed);
        Ok(Scenario { seed, duration: self.duration.or(scenario.duration), ..scenario })
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
        let alone_base = self.alone.then(|| Base::alone(alone, results));
        let first = if self.compare.is_empty() { None } else { Base::first(results) };
        let bases: Vec<Base<'_>> = alone_base.into_iter().chain(first).collect();
        let report = report::of(scenario, results, &bases);
        if self.json.as_deref() != Some(Path::new("-")) {
            print(report.text())?;
        }
        if let Some(path) = &self.json {
            let (name, seed) = (&scenario.name, scenario.seed);
            output::write(path, &json!({ "scenario": name, "seed": seed, "alone": alone, "results": results }))?;
        }
        if let Some(path) = &self.html {
            fs::write(path, report.html())
                .map_err(|error| Exit::Failed(format!("cannot write {}: {error}", path.display())))?;
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

/// One application as if there were no other: a single run of its workload, from the start, without a policy.
fn simulate_alone(scenario: &Scenario, app: &App, line: &ProgressLine) -> Result<Results, Exit> {
    let end = app.end.map(|end| end.saturating_sub(app.start));
    let app = App { background: false, start: Duration::ZERO, end, ..app.clone() };
    let policy = PolicySpec { name: format!("{} alone", app.name), ..PolicySpec::fifo() };
    simulate(&Scenario { apps: vec![app], ..scenario.clone() }, &policy, line, None)
}

fn simulate(
    scenario: &Scenario,
    policy: &PolicySpec,
    line: &ProgressLine,
    trace: Option<&mut TraceFile>,
) -> Result<Results, Exit> {
    line.announce(format!("{}: started", policy.name));
    let show = |Progress { now, events }| {
        line.show(|| format!("{}: {:.1} simulated, {events} events", policy.name, Span(now.since(Time::ZERO))));
    };
    let run = Simulation::new(scenario, policy).and_then(|simulation| match trace {
        Some(trace) => simulation.run_traced(show, |transfer| add(trace, scenario, &transfer)),
        None => simulation.run_with(show),
    });
    run.map_err(|error| match error {
        SimError::Scenario(problem) => Exit::Usage(format!("{}: {problem}", scenario.name)),
        violation => Exit::Failed(format!("{}, {}: {violation}", scenario.name, policy.name)),
    })
}

/// Each application has files of its own.
fn add(trace: &mut TraceFile, scenario: &Scenario, transfer: &Transfer) {
    let app = scenario.apps.get(transfer.app as usize).map_or("", |app| app.name.as_str());
    let nanoseconds = |at: Time| u64::try_from(at.since(Time::ZERO).as_nanos()).unwrap_or(u64::MAX);
    let request = Request {
        rank: transfer.process,
        op: if transfer.is_write { Op::Write } else { Op::Read },
        offset: transfer.extent.offset,
        size: transfer.extent.bytes.into(),
        start: nanoseconds(transfer.issued),
        end: nanoseconds(transfer.finished),
    };
    trace.add(&request, &format!("/{app}/{}", transfer.extent.file));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_that_is_built_in_is_valid() {
        let scenario = Scenario::parse(DEFAULT.0, DEFAULT.1).expect("it is valid");
        assert!(Simulation::new(&scenario, &scenario.policies[0]).is_ok());
        assert!(policy(&scenario, "ioco").is_ok() && policy(&scenario, "oico").is_err());
    }
}
