//! `vpfs sim`: the effect of policies on a cluster that is described in a file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::json;
use vpfs_config::read_text;
use vpfs_config::units::{Rate, Span, parse_duration};
use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Time};
use vpfs_harl::{Op, Request};
use vpfs_report::{Axis, Bar, Bars, Plot, Report, Section, Series, Table};
use vpfs_sim::model::Latency;
use vpfs_sim::{
    App, AppResults, Files, PolicySpec, Progress, Results, Scenario, ServerResults, SimError, Simulation, Transfer,
    parallel,
};

use super::logs;
use super::workload;
use super::workload::{ProgressLine, TraceFile};
use crate::print::{Blocks, Exit, print};
use crate::service::Stop;

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
    ("small-beside-large.toml", include_str!("../../../../scenarios/small-beside-large.toml"));

impl Sim {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let scenario = self.scenario()?;
        let policies = self.policies(&scenario)?;
        let trace = self.trace_of(&policies)?.map(Mutex::new);
        // A run may take an hour.
        self.json.iter().chain(&self.html).try_for_each(|path| workload::check_output(path))?;
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
        let report = report_of(scenario, results, &bases);
        if self.json.as_deref() != Some(Path::new("-")) {
            print(report.text())?;
            ending_of(results, Blocks::of_locale()).map_or(Ok(()), print)?;
        }
        if let Some(path) = &self.json {
            let (name, seed) = (&scenario.name, scenario.seed);
            workload::write_output(
                path,
                &json!({ "scenario": name, "seed": seed, "alone": alone, "results": results }),
            )?;
        }
        if let Some(path) = &self.html {
            workload::write_text(path, &report.html())?;
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

struct Runs<'a> {
    scenario: &'a Scenario,
    line: ProgressLine,
    /// How far those are that run now.
    states: Mutex<BTreeMap<String, String>>,
    interrupted: Arc<AtomicBool>,
}

impl<'a> Runs<'a> {
    fn new(scenario: &'a Scenario, quiet: bool) -> Result<Self, Exit> {
        let interrupted = Arc::default();
        let flag = Arc::clone(&interrupted);
        let waiter = thread::Builder::new().name("signals".into()).spawn(move || wait(flag));
        waiter.map_err(|error| Exit::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Self { scenario, line: ProgressLine::start(quiet), states: Mutex::default(), interrupted })
    }

    /// One run for each policy. After an interruption those that were underway end at that time, and their names say
    /// so; the others are missing.
    fn of_policies(&self, policies: &[PolicySpec], trace: Option<&Mutex<TraceFile>>) -> Result<Vec<Results>, Exit> {
        let results = parallel::map(policies, |policy| self.run(self.scenario, policy, trace));
        results.into_iter().filter_map(Result::transpose).collect()
    }

    /// Each application as if there were no other: one run of its workload, from the start, without a policy, no longer
    /// than the longest time in which it ran beside others. After an interruption some are missing.
    fn alone(&self, shared: &[Results]) -> Result<Vec<Results>, Exit> {
        let numbered: Vec<(usize, &App)> = self.scenario.apps.iter().enumerate().collect();
        let results = parallel::map(&numbered, |&(number, app)| {
            let longest = shared.iter().map(|results| results.active(&results.apps[number])).max();
            let end = app.end.map(|end| end.saturating_sub(app.start));
            let app = App { background: false, start: Duration::ZERO, end, ..app.clone() };
            let policy = PolicySpec { name: format!("{} alone", app.name), ..PolicySpec::fifo() };
            self.run(&Scenario { apps: vec![app], duration: longest, ..self.scenario.clone() }, &policy, None)
        });
        let done = results.into_iter().filter_map(Result::transpose).collect();
        if self.is_interrupted() { Ok(Vec::new()) } else { done }
    }

    fn finish(self) -> Result<(), Exit> {
        self.line.clear();
        match self.is_interrupted() {
            true => Err(Exit::Failed("interrupted; what was complete until then is above".into())),
            false => Ok(()),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn run(
        &self,
        scenario: &Scenario,
        policy: &PolicySpec,
        trace: Option<&Mutex<TraceFile>>,
    ) -> Result<Option<Results>, Exit> {
        if self.is_interrupted() {
            return Ok(None);
        }
        let mut cut = None;
        let show = |Progress { now, events }| {
            let span = Span(now.since(Time::ZERO));
            self.show(&policy.name, Some(format!("{span:.1} simulated, {events} events")));
            cut = self.is_interrupted().then_some(span);
            if cut.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.show(&policy.name, Some("started".into()));
        let started = Instant::now();
        let run = Simulation::new(scenario, policy).and_then(|simulation| match trace {
            Some(trace) => {
                let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
                simulation.run_traced(show, |transfer| add(&mut trace, scenario, &transfer))
            }
            None => simulation.run_with(show),
        });
        self.show(&policy.name, None);
        let mut results = run.map_err(|error| match error {
            SimError::Scenario(problem) => Exit::Usage(format!("{}: {problem}", scenario.name)),
            violation => Exit::Failed(format!("{}, {}: {violation}", scenario.name, policy.name)),
        })?;
        self.line.tell(&rate(&results, started.elapsed()));
        if let Some(at) = cut {
            results.policy += &format!(" (until {at:.1})");
        }
        Ok(Some(results))
    }

    /// Shows the state of all runs after a change of one.
    fn show(&self, name: &str, state: Option<String>) {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        match state {
            Some(state) => states.insert(name.to_owned(), state),
            None => states.remove(name),
        };
        self.line.show(|| states.iter().map(|(name, state)| format!("{name}: {state}")).collect::<Vec<_>>().join("; "));
    }
}

/// How fast a run was, beside others that may have run at the same time; not among its results, which are the same each
/// time.
fn rate(results: &Results, took: Duration) -> String {
    let seconds = took.as_secs_f64().max(1e-9);
    let millions = results.events as f64 / seconds / 1e6;
    format!("{}: {} events in {seconds:.2} s, {millions:.2} million a second", results.policy, results.events)
}

/// A step of a simulation may take long: signals have a thread.
fn wait(flag: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        Stop::new()?.set(flag).await;
        Ok(())
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

/// The baseline that results are compared with.
struct Base<'a> {
    title: String,
    apps: Vec<(&'a AppResults, f64)>,
    results: &'a [Results],
}

impl<'a> Base<'a> {
    /// Compares all policies with the first of them.
    fn first(results: &'a [Results]) -> Option<Self> {
        let (first, results) = results.split_first()?;
        Some(Self { title: first.policy.clone(), apps: rated(first).collect(), results })
    }

    /// Compares all policies with each application alone: `alone` has a run for each application.
    fn alone(alone: &'a [Results], results: &'a [Results]) -> Self {
        Self { title: "each application alone".into(), apps: alone.iter().flat_map(rated).collect(), results }
    }
}

fn rated(results: &Results) -> impl Iterator<Item = (&AppResults, f64)> {
    results.apps.iter().map(|app| (app, throughput(app, results)))
}

/// The whole report of a scenario's results, compared with `bases`.
fn report_of(scenario: &Scenario, results: &[Results], bases: &[Base<'_>]) -> Report {
    let servers: u32 = scenario.servers.iter().map(|group| group.count).sum();
    let introduction = format!(
        "Servers: {servers}, applications: {}, seed: {}. Shares, Jain's index and unfairness are of bytes, in the time in which \
         all applications are there; the latter two only if the storage is saturated, that is, if applications get less than \
         they ask for.",
        scenario.apps.len(),
        scenario.seed
    );
    let report = Report::new(scenario.name.clone()).introduction(introduction).section(totals(results));
    let compared = bases.iter().filter(|base| !base.results.is_empty());
    let report = compared.fold(report, |report, base| report.section(comparison(base)));
    let charts = charts(results);
    let report = if charts.charts().next().is_some() { report.section(charts) } else { report };
    results.iter().fold(report, |report, results| report.section(policy_section(results)))
}

fn totals(results: &[Results]) -> Section {
    let table = Table::new([
        "policy",
        "simulated",
        "throughput",
        "metadata/s",
        "Jain",
        "unfairness",
        "device in use",
        "busiest link",
        "sync messages",
    ]);
    let row = |results: &Results| {
        let (from, to) = results.common_time();
        let is_saturated = unsaturated(results).is_none();
        let elapsed = results.elapsed.as_secs_f64().max(1e-9);
        let metadata: u64 = results.apps.iter().map(|app| app.metadata_requests).sum();
        let links = results.servers.iter().flat_map(|server| [server.inward_utilisation, server.outward_utilisation]);
        let busy: f64 = results.servers.iter().map(|server| server.device_utilisation).sum();
        [
            results.policy.clone(),
            span(results.elapsed),
            rate_text(results.throughput()),
            format!("{:.0}", metadata as f64 / elapsed),
            if is_saturated { format!("{:.3}", results.jain_between(from, to)) } else { "-".into() },
            if is_saturated { percent(results.unfairness_between(from, to)) } else { "-".into() },
            percent(busy / results.servers.len().max(1) as f64),
            percent(links.fold(0.0, f64::max)),
            results.coordination.as_ref().map_or("none".into(), |traffic| traffic.messages.to_string()),
        ]
    };
    let section = Section::new("Policies").table(results.iter().fold(table, |table, results| table.row(row(results))));
    let reasons = results.iter().filter_map(|results| Some((&results.policy, unsaturated(results)?)));
    reasons.fold(section, |section, (policy, reason)| section.text(format!("No index for {policy}: {reason}.")))
}

/// Of a saturated storage the busiest part is in use for at least this part of the time, unless calls wait longer to be
/// dispatched than in it; and applications compute for at most the rest of theirs: runs have a beginning and an end.
const SATURATED: f64 = 0.9;

/// Why applications would not get more if others got less, so that their shares say nothing about the policy.
fn unsaturated(results: &Results) -> Option<String> {
    if results.apps.len() < 2 || !has_moved(results) {
        return Some("no two applications move data".into());
    }
    let busiest = |of: fn(&ServerResults) -> f64| results.servers.iter().map(of).fold(0.0, f64::max);
    let device = busiest(|server| server.device_utilisation);
    let link = busiest(|server| server.inward_utilisation.max(server.outward_utilisation));
    // A policy that holds requests back leaves the storage idle now and then.
    let is_held = results.apps.iter().any(|app| app.scheduler_time > app.storage_time);
    if device.max(link) < SATURATED && !is_held {
        let (device, link) = (percent(device), percent(link));
        return Some(format!("the busiest device is in use {device} of the time, the busiest link {link}"));
    }
    let computing = |app: &AppResults| app.think_time.as_secs_f64() / results.active(app).as_secs_f64().max(1e-9);
    let modest = results.apps.iter().find(|app| computing(app) > 1.0 - SATURATED)?;
    Some(format!("processes of {} make no calls {} of their time", modest.name, percent(computing(modest).min(1.0))))
}

/// Whether any application moved data, so that there are shares.
fn has_moved(results: &Results) -> bool {
    let (from, to) = results.common_time();
    results.bytes_between(from, to).iter().any(|&bytes| bytes > 0)
}

/// The effect of each policy on each application, relative to the base.
fn comparison(base: &Base<'_>) -> Section {
    let mut table = Table::new(["application", "policy", "throughput", "run time", "99th percentile of latency"]);
    for results in base.results {
        for (app, rate_text) in rated(results) {
            let Some((base, base_rate)) = base.apps.iter().find(|(base, _)| base.name == app.name) else { continue };
            let run_time = |app: &AppResults| app.run_time().map_or(0.0, |time| time.as_secs_f64());
            let latencies = KINDS.iter().filter(|(_, report_of)| report_of(app).count > 0).map(|(calls, report_of)| {
                format!("{calls} {}", factor(report_of(app).p99_seconds, report_of(base).p99_seconds))
            });
            table = table.row([
                app.name.clone(),
                results.policy.clone(),
                factor(rate_text, *base_rate),
                factor(run_time(app), run_time(base)),
                latencies.collect::<Vec<_>>().join(", "),
            ]);
        }
    }
    Section::new(format!("Relative to {}", base.title)).table(table)
}

/// Run times and tail latencies of all applications under all policies, as far as there are any.
fn charts(results: &[Results]) -> Section {
    let section = Section::new("Applications");
    let run_time = bars("Run time", results, |app| app.run_time().map(|time| time.as_secs_f64()));
    let section = match run_time {
        Some(bars) => section.figure(bars, "From start to finish, of applications that finished."),
        None => section,
    };
    let latencies = KINDS.iter().filter_map(|&(calls, report_of)| {
        let tail = |app: &AppResults| (report_of(app).count > 0).then(|| report_of(app).p99_seconds);
        bars(&format!("Latency of {calls} calls"), results, tail)
    });
    latencies.fold(section, |section, bars| section.figure(bars, "99th percentile."))
}

/// A group of bars for each application that has a value under every policy.
fn bars(title: &str, results: &[Results], value: impl Fn(&AppResults) -> Option<f64>) -> Option<Bars> {
    let names = results.first()?.apps.iter().map(|app| app.name.as_str());
    let has_all = |name: &&str| results.iter().all(|results| results.app(name).and_then(&value).is_some());
    let names: Vec<&str> = names.filter(has_all).collect();
    let empty = Bars::new(title, Axis::linear(title.to_lowercase(), "s").include(0.0), names.iter().copied());
    let series = |bars: Bars, results: &Results| {
        let values = names.iter().filter_map(|name| value(results.app(name)?));
        bars.series(results.policy.clone(), values.map(Bar::new))
    };
    (!names.is_empty()).then(|| results.iter().fold(empty, series))
}

fn policy_section(results: &Results) -> Section {
    let (from, to) = results.common_time();
    let shares = results.shares_between(from, to);
    let mut table = Table::new(["application", "weight", "share", "throughput", "metadata/s"]);
    let mut times = Table::new([
        "application",
        "run time",
        "computing",
        "for each other",
        "in the scheduler",
        "in the storage",
        "in the network",
    ]);
    let mut latencies = Table::new(["application", "calls", "number", "mean", "median", "95 %", "99 %", "slowest"]);
    for (app, share) in results.apps.iter().zip(shares) {
        let metadata = app.metadata_requests as f64 / results.active(app).as_secs_f64().max(1e-9);
        table = table.row([
            app.name.clone(),
            app.weight.to_string(),
            if has_moved(results) { percent(share) } else { "-".into() },
            rate_text(throughput(app, results)),
            format!("{metadata:.0}"),
        ]);
        times = times.row(times_row(app, results.active(app)));
        for (calls, report_of) in KINDS.iter().filter(|(_, report_of)| report_of(app).count > 0) {
            latencies = latencies.row(latency_row(&app.name, calls, report_of(app)));
        }
    }
    let section = Section::new(results.policy.clone()).table(table).table(times).table(latencies);
    let section = match has_moved(results) {
        true => section.figure(over_time(results), "Bytes served in each interval."),
        false => section,
    };
    match results.servers.iter().any(|server| server.device_utilisation > 0.0) {
        true => section.figure(servers(results), "Fraction of the time in which each server's device is busy."),
        false => section,
    }
}

/// What the time of an application was spent on, as the mean of its processes.
fn times_row(app: &AppResults, active: Duration) -> [String; 7] {
    let network = app.io_time.saturating_sub(app.scheduler_time + app.storage_time);
    let others = active.saturating_sub(app.io_time + app.think_time);
    [
        app.name.clone(),
        app.run_time().map_or("not finished".into(), span),
        span(app.think_time.min(active)),
        span(others),
        span(app.scheduler_time),
        span(app.storage_time),
        span(network),
    ]
}

fn latency_row(app: &str, calls: &str, latency: &Latency) -> [String; 8] {
    let time = |seconds: f64| span(Duration::from_secs_f64(seconds));
    [
        app.to_owned(),
        calls.to_owned(),
        latency.count.to_string(),
        time(latency.mean_seconds),
        time(latency.p50_seconds),
        time(latency.p95_seconds),
        time(latency.p99_seconds),
        time(latency.max_seconds),
    ]
}

fn over_time(results: &Results) -> Plot {
    let interval = results.interval.as_secs_f64();
    let axes = (Axis::linear("time", "s"), Axis::linear("throughput", "MB/s").include(0.0));
    let plot = Plot::new(format!("Throughput, {}", results.policy), axes.0, axes.1);
    results.apps.iter().fold(plot, |plot, app| {
        let points = app.bytes_series.iter().enumerate();
        let points = points.map(|(at, &bytes)| ((at + 1) as f64 * interval, bytes as f64 / interval / 1e6));
        plot.series(Series::line(app.name.clone(), points))
    })
}

fn servers(results: &Results) -> Plot {
    let axes = (Axis::linear("server", ""), Axis::linear("utilisation", "%").include(0.0).include(100.0));
    let points = results.servers.iter().enumerate();
    let points = points.map(|(server, results)| (server as f64, results.device_utilisation * 100.0));
    Plot::new(format!("Devices, {}", results.policy), axes.0, axes.1).series(Series::scatter("device", points))
}

type Kind = (&'static str, fn(&AppResults) -> &Latency);

const KINDS: [Kind; 3] = [("read", |app| &app.read), ("write", |app| &app.write), ("metadata", |app| &app.metadata)];

fn throughput(app: &AppResults, results: &Results) -> f64 {
    app.bytes() as f64 / results.active(app).as_secs_f64().max(1e-9)
}

fn factor(value: f64, base: f64) -> String {
    if value > 0.0 && base > 0.0 { format!("× {:.2}", value / base) } else { "-".into() }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn span(time: Duration) -> String {
    if time.is_zero() { "-".into() } else { format!("{:.2}", Span(time)) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate of a simulated cluster, rounded")]
fn rate_text(bytes_per_second: f64) -> String {
    format!("{:.1}", Rate(bytes_per_second.round() as u64))
}

const WIDTH: usize = 48;

/// More rows would not be looked at.
const ROWS: usize = 16;

/// Picture and sentence; nothing if no application moved data.
fn ending_of(results: &[Results], blocks: Blocks) -> Option<String> {
    let sentence = sentence(results)?;
    Some(format!("{}\n{sentence}", picture(results, blocks)))
}

/// For each application one row under each policy, so that what the policies change is side by side.
fn picture(results: &[Results], blocks: Blocks) -> String {
    let longest = results.iter().map(|results| results.elapsed).max().unwrap_or_default();
    let mut text = format!(
        "Who got what in {:.0} s (a row is full where the application got the most of all its rows):\n",
        longest.as_secs_f64()
    );
    let names: Vec<&str> = results[0].apps.iter().map(|app| app.name.as_str()).collect();
    let app_width = widest(names.iter().copied());
    let policy_width = widest(results.iter().map(|results| results.policy.as_str()));
    let rows = names.iter().flat_map(|name| results.iter().map(move |results| (*name, results)));
    let shown = ROWS.max(results.len());
    for (number, (name, results_of)) in rows.clone().take(shown).enumerate() {
        let most = results.iter().flat_map(|results| columns(results, name, longest)).fold(0.0, f64::max);
        let first = if number % results.len() == 0 { name } else { "" };
        let columns = blocks.columns(columns(results_of, name, longest), most);
        let app = results_of.app(name).map_or(0.0, |app| throughput(app, results_of));
        // Writing to a string cannot fail.
        let policy = &results_of.policy;
        let _ =
            writeln!(text, "  {first:app_width$}  {policy:policy_width$}  {columns:WIDTH$}  {:>10}", rate_text(app));
    }
    match rows.count().saturating_sub(shown) {
        0 => {}
        more => _ = writeln!(text, "  and {more} more rows, which --html shows"),
    }
    text
}

fn widest<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0)
}

/// The bytes of an application in each part of the longest run.
fn columns(results: &Results, app: &str, longest: Duration) -> Vec<f64> {
    let mut columns = vec![0.0; WIDTH];
    let Some(app) = results.app(app) else { return columns };
    let per_column = longest.as_secs_f64() / WIDTH as f64;
    let interval = results.interval.as_secs_f64();
    for (index, bytes) in app.bytes_series.iter().enumerate() {
        // An interval may be longer or shorter than a column.
        let (mut at, end) = (index as f64 * interval / per_column, (index + 1) as f64 * interval / per_column);
        let density = *bytes as f64 / (end - at).max(f64::MIN_POSITIVE);
        while at < end {
            let next = (at.floor() + 1.0).min(end);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a column")]
            if let Some(column) = columns.get_mut(at as usize) {
                *column += density * (next - at);
            }
            at = next;
        }
    }
    columns
}

/// What the last policy changes, compared with the first one.
fn sentence(results: &[Results]) -> Option<String> {
    let (first, last) = (results.first()?, results.last()?);
    let moves = |app: &&AppResults| app.bytes() > 0;
    if results.len() < 2 {
        let (from, to) = first.common_time();
        let shares = first.apps.iter().zip(first.shares_between(from, to)).filter(|(app, _)| moves(app));
        let shares: Vec<String> =
            shares.map(|(app, share)| format!("{} got {:.0} % of the bytes", app.name, share * 100.0)).collect();
        return (!shares.is_empty()).then(|| format!("Under {}: {}.", first.policy, shares.join(", ")));
    }
    let ratio =
        |app: &AppResults| Some((app.name.clone(), throughput(last.app(&app.name)?, last) / throughput(app, first)));
    let mut ratios: Vec<(String, f64)> = first.apps.iter().filter(moves).filter_map(ratio).collect();
    ratios.sort_by(|one, other| other.1.total_cmp(&one.1));
    let parts: Vec<String> = ratios.iter().take(4).map(|(name, ratio)| change(name, *ratio)).collect();
    (!parts.is_empty()).then(|| format!("With {} instead of {}: {}.", last.policy, first.policy, parts.join("; ")))
}

/// Less than this is the same.
const SAME: f64 = 0.03;

fn change(name: &str, ratio: f64) -> String {
    match ratio {
        1.5.. => format!("{name} is {ratio:.1} times as fast"),
        _ if ratio >= 1.0 + SAME => format!("{name} is {:.0} % faster", (ratio - 1.0) * 100.0),
        _ if ratio > 1.0 - SAME => format!("{name} is as fast"),
        _ => format!("{name} keeps {:.0} % of its throughput", ratio * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use vpfs_sim::{Scenario, Simulation};

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
            !report_of(&scenario, &[run.expect("it runs")], &[]).text().contains("No index")
        };
        assert!(is_judged("0s"), "both always ask for more");
        assert!(!is_judged("100ms"), "the small one computes");
    }

    fn results() -> Vec<Results> {
        let scenario = Scenario::parse(DEFAULT.0, DEFAULT.1).expect("it is valid");
        let scenario = Scenario { duration: Some(Duration::from_secs(5)), ..scenario };
        let both = [&scenario.policies[0], scenario.policies.last().expect("some")];
        both.map(|policy| Simulation::new(&scenario, policy).and_then(Simulation::run).expect("it runs")).into()
    }

    #[test]
    fn a_simulation_ends_with_a_picture_and_a_sentence() {
        let results = results();
        let text = ending_of(&results, Blocks::Unicode).expect("data was moved");
        assert!(text.contains("With isolation instead of fifo: small is ") && text.contains("large "), "{text}");
        assert!(text.lines().take(5).all(|line| line.chars().count() <= 90) && text.contains('█'), "{text}");
        let text = ending_of(&results, Blocks::Ascii).expect("data was moved");
        assert!(text.is_ascii() && text.contains('#'), "{text}");
        let one = ending_of(&results[..1], Blocks::Ascii).expect("data was moved");
        assert!(one.contains("Under fifo: small got ") && one.contains("% of the bytes"), "{one}");
        assert_eq!(ending_of(&[], Blocks::Ascii), None);
    }

    #[test]
    fn every_byte_is_in_a_column() {
        let results = results();
        for app in &results[0].apps {
            let all: f64 = columns(&results[0], &app.name, results[0].elapsed.max(Duration::from_secs(9))).iter().sum();
            let bytes = app.bytes_series.iter().sum::<u64>() as f64;
            assert!((all - bytes).abs() <= bytes * 1e-6, "{all} of {bytes}");
        }
    }

    #[test]
    fn changes_are_said_in_words() {
        let said = [5.2, 1.2, 1.01, 0.82].map(|ratio| change("a", ratio));
        let expected = ["a is 5.2 times as fast", "a is 20 % faster", "a is as fast", "a keeps 82 % of its throughput"];
        assert_eq!(said, expected);
    }
}
