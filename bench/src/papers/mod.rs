//! The papers' experiments, scaled to four servers on one machine: simulated, and live in front of real servers, each
//! with several policies and without a proxy.
//!
//! An experiment is a scenario of `scenarios/papers` with variants, and the rows that its results give. The simulator
//! and the live run read the same file: the applications' processes do the same calls, the proxies have the same
//! `[scheduler]` and `[[app]]`. To add one, add its file and an entry in experiments.toml.

mod experiments;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use vpfs_core::stripe::Distribution;
use vpfs_sim::model::plan::{Amount, Limit, Phase, Plan, Steps};
use vpfs_sim::{App, Simulation, parallel};
use vpfs_testbed::client::{Client, ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, Run, RunOptions, SyncMode};

use crate::servers::{Origin, Place, Proxies, Target, write};
use experiments::{AppOutcome, Experiment, Outcome, Row, Trial, Used};

/// The scenarios' servers.
const SERVERS: u16 = 4;

/// The papers' experiments, scaled to four servers: simulated and live
///
/// Servers of the published page: four OrangeFS servers, each on a disk limited to 15 MB/s and 300 I/Os a second.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Names of experiments; by default all that need no special servers
    names: Vec<String>,
    /// Live runs of each case, in turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Keep all results in this file; those that it has already are not measured again
    #[arg(long, value_name = "FILE", default_value = "papers.json")]
    json: PathBuf,
    /// Also write the page to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Device model of the embedded servers, see `vpfs serve`
    #[arg(long, value_name = "NAME", default_value = "throttled-disk")]
    device: String,
    #[command(flatten)]
    target: Target,
}

/// Runs what the record lacks, and prints the page.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let chosen = experiments::chosen(&options.names)?;
    let mut record = Record::read(&options.json)?;
    let dir = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
    let started = options.target.start(dir.path(), SERVERS, &options.device)?;
    let servers = started.cluster.addresses.len();
    if servers != usize::from(SERVERS) {
        return Err(format!("the experiments are for {SERVERS} servers; this file system has {servers}"));
    }
    let place = Place { dir: dir.path(), program: &started.program, cluster: &started.cluster };
    measure(&chosen, options, &place, &mut record)?;
    let embedded = options.target.cluster.is_none().then_some(options.device.as_str());
    let page = markdown(&chosen, &record, embedded)?;
    println!("{page}");
    options.page.as_ref().map_or(Ok(()), |file| write(file, &page))
}

/// Each case once, then each again, so that a change of the machine's load meets all of them. Experiments that need
/// special servers only by name.
fn measure(chosen: &[Experiment], options: &Options, place: &Place<'_>, record: &mut Record) -> Result<(), String> {
    let trials = trials(chosen, |one| one.servers.is_none() || options.names.contains(&one.name))?;
    let wanted = (1..=options.runs).flat_map(|run| trials.iter().map(move |trial| (run, trial)));
    let missing: Vec<_> = wanted.filter(|(run, trial)| !record.has(&trial.key, *run)).collect();
    let start = Instant::now();
    for (done, (run, trial)) in missing.iter().enumerate() {
        let left = start.elapsed().as_secs_f64() / done.max(1) as f64 * (missing.len() - done) as f64 / 60.0;
        let left = if done > 0 { format!(", about {left:.0} min left") } else { String::new() };
        eprintln!("[{}/{}] {}, run {run}{left}", done + 1, missing.len(), trial.key);
        let outcome = run_live(trial, place, u64::from(*run)).map_err(|error| format!("{}: {error}", trial.key))?;
        record.add(&trial.key, *run, outcome);
        record.write(&options.json)?;
    }
    Ok(())
}

/// All cases of some experiments.
fn trials(chosen: &[Experiment], are_wanted: impl Fn(&Experiment) -> bool) -> Result<Vec<Trial>, String> {
    let all: Result<Vec<_>, String> = chosen.iter().filter(|one| are_wanted(one)).map(Experiment::trials).collect();
    Ok(all?.into_iter().flatten().collect())
}

/// A case that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(600);

/// An application of a case.
struct Job<'a> {
    app: &'a App,
    /// What prepares its files, if anything does.
    before: Option<Arc<Part>>,
    measured: Arc<Part>,
    /// Straight to the servers.
    options: RunOptions,
}

/// Runs a case once: files are prepared without the proxies, and are not measured.
fn run_live(trial: &Trial, place: &Place<'_>, seed: u64) -> Result<Outcome, String> {
    let Place { dir, cluster, .. } = *place;
    let start = |scheduler| Proxies::start(place, &trial.apps, scheduler);
    let proxies = trial.scheduler.as_deref().map(start).transpose()?;
    let direct = cluster.spec(&cluster.addresses[0]);
    let url = |app| proxies.as_ref().map_or_else(|| direct.clone(), |proxies| cluster.spec(&proxies.address(app)));
    let urls: Vec<String> = (0..trial.apps.len()).map(url).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    let socket = proxies.as_ref().map(|_| vpfs_proxy::admin::socket_path(&dir.join("sockets"), "s0"));
    let all = applications(trial, &direct, &urls, socket.as_deref(), seed);
    let limited = async { tokio::time::timeout(LIMIT, all).await };
    let (apps, depth_series, time) = runtime.block_on(limited).map_err(|_| format!("not done after {LIMIT:?}"))??;
    let used = |proxies: &Proxies| {
        let (processors, memory_bytes) = proxies.used()?;
        let (processor_seconds, seconds) = (processors.as_secs_f64(), time.as_secs_f64());
        Ok::<_, String>(Used { processor_seconds, seconds, memory_bytes })
    };
    Ok(Outcome { apps, proxies: proxies.as_ref().map(used).transpose()?, depth_series })
}

/// The results of all applications, the depth at `socket` meanwhile, and how long they took without the preparation.
async fn applications(
    trial: &Trial,
    direct: &str,
    urls: &[String],
    socket: Option<&Path>,
    seed: u64,
) -> Result<(Vec<AppOutcome>, Vec<f64>, Duration), String> {
    let told = Arc::new(AtomicBool::new(false));
    let job = |(number, app): (usize, _)| -> Result<Job<'_>, String> {
        let (before, measured) = Part::split(app, seed << 16 | number as u64, &told);
        let options = options(app, trial.strips[number].as_deref(), direct)?;
        Ok(Job { app, before: before.map(Arc::new), measured: Arc::new(measured), options })
    };
    let jobs: Vec<_> = trial.scenario.apps.iter().enumerate().map(job).collect::<Result<_, _>>()?;
    prepare(&jobs).await?;
    let runs = connect(&jobs, urls).await?;
    let began = Instant::now();
    let mut watched = Watched::default();
    let mut outcomes = tokio::select! {
        outcomes = load(&jobs, runs, &told) => outcomes?,
        never = watched.watch(socket) => match never {},
    };
    let time = began.elapsed();
    clear(&jobs).await?;
    outcomes.iter_mut().for_each(|app| app.requests_series = watched.requests(&app.name));
    Ok((outcomes, watched.depths, time))
}

/// Writes the files that applications only read, all at once.
async fn prepare(jobs: &[Job<'_>]) -> Result<(), String> {
    let mut runs = JoinSet::new();
    for Job { before, options, .. } in jobs {
        let Some(before) = before else { continue };
        let options = RunOptions { keep: true, ..options.clone() };
        let run = Run::prepare(Arc::<Part>::clone(before), options).await.map_err(|error| error.to_string())?;
        runs.spawn(run.execute());
    }
    while let Some(ended) = runs.join_next().await {
        ended.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Removes the directories in which files were prepared; all others are gone.
async fn clear(jobs: &[Job<'_>]) -> Result<(), String> {
    for Job { options, .. } in jobs.iter().filter(|job| job.before.is_some()) {
        let client = Client::connect(options.client.clone()).await.map_err(|error| error.to_string())?;
        client.rmdir(&options.directory).await.map_err(|error| format!("rmdir {}: {error}", options.directory))?;
    }
    Ok(())
}

/// All applications connect before any begins: with hundreds of connections that takes seconds.
async fn connect(jobs: &[Job<'_>], urls: &[String]) -> Result<Vec<Run>, String> {
    let mut runs = Vec::new();
    for (Job { measured, options, .. }, url) in jobs.iter().zip(urls) {
        let client = ClientOptions { url: url.clone(), ..options.client.clone() };
        let options = RunOptions { client, ..options.clone() };
        runs.push(Run::prepare(Arc::<Part>::clone(measured), options).await.map_err(|error| error.to_string())?);
    }
    Ok(runs)
}

/// Runs all applications until those that are not in the background are done.
async fn load(jobs: &[Job<'_>], runs: Vec<Run>, told: &AtomicBool) -> Result<Vec<AppOutcome>, String> {
    let [mut foreground, mut background] = [JoinSet::new(), JoinSet::new()];
    for (number, (Job { app, .. }, run)) in jobs.iter().zip(runs).enumerate() {
        let start = app.start;
        let task = async move {
            tokio::time::sleep(start).await;
            run.execute().await.map(|report| (number, report))
        };
        _ = if app.background { background.spawn(task) } else { foreground.spawn(task) };
    }
    let mut outcomes = Vec::new();
    for (mut tasks, last) in [(foreground, false), (background, true)] {
        told.store(last, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            let report = ended.map_err(|error| error.to_string())?.map_err(|error| error.to_string());
            let (number, report) = report?;
            if !report.verification.is_clean() {
                return Err(format!("{}: data is wrong: {:?}", jobs[number].app.name, report.verification.examples));
            }
            outcomes.push((number, AppOutcome::live(jobs[number].app, &report)));
        }
    }
    outcomes.sort_by_key(|(number, _)| *number);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Processes with connections of their own, as MPI programs have. `strips` is the text of a `varstrip`.
fn options(app: &App, strips: Option<&str>, url: &str) -> Result<RunOptions, String> {
    /// Each run has a directory of its own, so that nothing is left of another.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let create = match (&app.layout.distribution, strips) {
        (Distribution::SimpleStripe { strip }, _) => CreateOptions::simple_stripe(*strip),
        (Distribution::VarStrip(_), Some(strips)) => CreateOptions::variable_strips(strips),
        _ => return Err(format!("{}: only simple-stripe and varstrip files run live", app.name)),
    };
    let servers: Vec<usize> = app.layout.servers.iter().map(|server| *server as usize).collect();
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(RunOptions {
        client: ClientOptions { reply_timeout: Some(LIMIT), ..ClientOptions::new(url.to_owned()) },
        local_addresses: Vec::new(),
        nodes: app.nodes.clamp(1, app.workload.plan(0).processes()),
        connections: Connections::PerProcess,
        directory: format!("/vpfs-bench-{}-{run}-{}", std::process::id(), app.name),
        create: if servers.is_empty() { create } else { create.on_servers(servers) },
        overwrite: true,
        keep: false,
        sync: SyncMode::Stable,
        seed: 1,
        interval: Duration::from_secs(1),
        trace: None,
        stop: Arc::default(),
    })
}

/// Whether a phase belongs to the results: those that the application names, or all but what prepares and cleans up.
fn counts(app: &App, phase: Phase) -> bool {
    if app.phases.is_empty() { !matches!(phase, Phase::Setup | Phase::Cleanup) } else { app.phases.contains(&phase) }
}

/// Some phases of a plan.
#[derive(Debug)]
struct Part {
    plan: Arc<dyn Plan>,
    phases: Vec<Phase>,
    /// Whether to do no more than what later phases need.
    is_brief: bool,
    /// Tells a part in the background to stop, and to clean up.
    told: Option<Arc<AtomicBool>>,
}

impl Part {
    /// The phases before the first one that counts, if they write what it needs, and all others.
    fn split(app: &App, seed: u64, told: &Arc<AtomicBool>) -> (Option<Self>, Self) {
        let plan: Arc<dyn Plan> = app.workload.plan(seed);
        let mut before = plan.phases();
        let mut rest = before.split_off(before.iter().position(|phase| counts(app, *phase)).unwrap_or_default());
        if !before.iter().any(|phase| matches!(phase, Phase::Setup | Phase::Write)) {
            rest = plan.phases();
            before.clear();
        }
        let part = |phases, is_brief, told| Self { plan: Arc::clone(&plan), phases, is_brief, told };
        let told = app.background.then(|| Arc::clone(told));
        ((!before.is_empty()).then(|| part(before, true, None)), part(rest, false, told))
    }
}

impl Plan for Part {
    fn processes(&self) -> u32 {
        self.plan.processes()
    }

    fn phases(&self) -> Vec<Phase> {
        self.phases.clone()
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        let steps = self.plan.steps(phase, process);
        let cleans = matches!(phase, Phase::Remove | Phase::RemoveDir | Phase::Cleanup);
        match self.told.clone().filter(|_| !cleans) {
            Some(told) => Box::new(steps.take_while(move |_| !told.load(Ordering::Relaxed))),
            None => steps,
        }
    }

    fn limit(&self, phase: Phase) -> Option<Limit> {
        let limit = self.plan.limit(phase)?;
        Some(if self.is_brief { Limit { time: Duration::ZERO, ..limit } } else { limit })
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        self.plan.amount(phase)
    }
}

/// Values of each second.
#[derive(Debug, Default)]
struct Watched {
    /// The depth, if the policy has found one.
    depths: Vec<f64>,
    /// Metadata requests that have ended so far, by application.
    ended: BTreeMap<String, Vec<u64>>,
}

impl Watched {
    /// Asks the proxy at `socket` each second.
    async fn watch(&mut self, socket: Option<&Path>) -> Infallible {
        let Some(socket) = socket else { return std::future::pending().await };
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.tick().await;
        loop {
            seconds.tick().await;
            let metrics = vpfs_proxy::admin::get(socket, vpfs_proxy::admin::METRICS).await.unwrap_or_default();
            self.add(&String::from_utf8_lossy(&metrics));
        }
    }

    fn add(&mut self, metrics: &str) {
        for (series, value) in metrics.lines().filter_map(|line| line.rsplit_once(' ')) {
            let labels: Vec<&str> = series.split('"').collect();
            match labels[..] {
                ["vpfs_server_depth{server=", ..] => self.depths.extend(value.parse::<f64>()),
                ["vpfs_app_requests_total{server=", _, ",app=", app, ",op=", "metadata", _] => {
                    let whole = value.split('.').next().and_then(|whole| whole.parse::<u64>().ok());
                    self.ended.entry(app.to_owned()).or_default().extend(whole);
                }
                _ => {}
            }
        }
    }

    /// The metadata requests of an application that ended in each second.
    fn requests(&self, app: &str) -> Vec<u64> {
        let ended = self.ended.get(app).map(Vec::as_slice).unwrap_or_default();
        let before = [0].iter().chain(ended);
        ended.iter().zip(before).map(|(now, before)| now.saturating_sub(*before)).collect()
    }
}

/// Outcomes by case and run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Record(BTreeMap<String, BTreeMap<u32, Recorded>>);

/// An outcome and where it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Recorded {
    origin: Origin,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Record {
    /// Reads a file; one that does not exist is empty.
    fn read(file: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| format!("{}: {error}; give --json another file", file.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    /// Replaces the file at once, so that an interruption leaves the old one. A line for each case: with one for each
    /// number of all series, nobody could look at it.
    fn write(&self, file: &Path) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let line = |(case, runs)| Ok(format!("{}:{}", serde_json::to_string(case)?, serde_json::to_string(runs)?));
        let lines = self.0.iter().map(line).collect::<Result<Vec<_>, serde_json::Error>>();
        let new = file.with_extension("new");
        let lines = lines.map_err(|error| failed(&error))?;
        write(&new, &format!("{{\n{}\n}}\n", lines.join(",\n")))?;
        std::fs::rename(&new, file).map_err(|error| failed(&error))
    }

    fn has(&self, case: &str, run: u32) -> bool {
        self.0.get(case).is_some_and(|runs| runs.contains_key(&run))
    }

    fn add(&mut self, case: &str, run: u32, outcome: Outcome) {
        let origin = Origin::here();
        self.0.entry(case.to_owned()).or_default().insert(run, Recorded { origin, outcome });
    }

    /// The outcomes of a run, by case.
    fn run(&self, run: u32) -> BTreeMap<&str, &Outcome> {
        self.0.iter().filter_map(|(case, runs)| Some((case.as_str(), &runs.get(&run)?.outcome))).collect()
    }

    /// The largest number of runs of a case.
    fn runs(&self) -> u32 {
        self.0.values().filter_map(|runs| runs.keys().max()).max().copied().unwrap_or_default()
    }
}

/// Markdown. `embedded` names the device of embedded servers.
fn markdown(chosen: &[Experiment], record: &Record, embedded: Option<&str>) -> Result<String, String> {
    let simulated = simulate(chosen)?;
    let simulated: BTreeMap<&str, &Outcome> = simulated.iter().map(|(key, outcome)| (key.as_str(), outcome)).collect();
    let runs: Vec<_> = (1..=record.runs()).map(|run| record.run(run)).collect();
    let storage = embedded.map_or("OrangeFS servers".to_owned(), |device| format!("**embedded** servers ({device})"));
    let mut text = format!(
        "Live: four {storage}; the median of up to {} runs, and the smallest and largest. Simulated: the same \
         scenario in `vpfs sim`, which knows no processors and no overhead of proxies.\n",
        runs.len()
    );
    for experiment in chosen {
        let Experiment { name, title, scaled, servers, rows, .. } = experiment;
        let servers = servers.as_ref().map_or_else(String::new, |servers| format!(" Live servers: {servers}."));
        let _ = writeln!(
            text,
            "\n## {title}\n\n`{name}`: {scaled}{servers}\n\n| | paper | simulated | live |\n|---|---|---|---|"
        );
        for row in rows {
            let live: Vec<f64> = runs.iter().filter_map(|run| row.value(name, run)).collect();
            let cell = |value: Option<f64>| value.map_or("–".to_owned(), |value| row.number(value));
            let simulated = row.value(name, &simulated);
            let _ =
                writeln!(text, "| {} | {} | {} | {} |", row.what, cell(row.paper), cell(simulated), spread(row, live));
        }
    }
    Ok(text)
}

/// The median, with the smallest and the largest.
fn spread(row: &Row, mut live: Vec<f64>) -> String {
    live.sort_by(f64::total_cmp);
    match live.as_slice() {
        [] => "–".to_owned(),
        [one] => row.number(*one),
        [least, .., most] => {
            let median = (live[(live.len() - 1) / 2] + live[live.len() / 2]) / 2.0;
            format!("**{}** ({} to {})", row.number(median), row.number(*least), row.number(*most))
        }
    }
}

/// All cases whose experiments the simulator can tell something about.
fn simulate(chosen: &[Experiment]) -> Result<Vec<(String, Outcome)>, String> {
    let trials = trials(chosen, |experiment| experiment.is_simulated)?;
    let one = |trial: &Trial| {
        let results = Simulation::new(&trial.scenario, &trial.policy).and_then(Simulation::run);
        let outcome = Outcome::simulated(&results.map_err(|error| format!("{}: {error}", trial.key))?);
        Ok((trial.key.clone(), outcome))
    };
    parallel::map(&trials, one).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use vpfs_sim::model::plan::Ior;

    use super::*;

    fn phases(named: Vec<Phase>) -> (Vec<Phase>, Vec<Phase>) {
        let ior = Ior { read: true, time_limit: Some(Duration::from_secs(9)), ..Ior::writes(2, 1, 4) };
        let app = App { phases: named, ..App::new("a", ior) };
        let (before, rest) = Part::split(&app, 1, &Arc::default());
        let limit = before.as_ref().and_then(|part| part.limit(Phase::Write));
        assert!(limit.is_none_or(|limit| limit == Limit { time: Duration::ZERO, at_least_steps: 4 }));
        (before.map(|part| part.phases).unwrap_or_default(), rest.phases)
    }

    #[test]
    fn files_that_are_only_read_are_written_before() {
        use Phase::{Create, Open, Read, Remove, Write};
        assert_eq!(phases(vec![Read]), (vec![Create, Open, Write], vec![Read, Remove]));
        assert_eq!(phases(vec![Write]), (vec![], vec![Create, Open, Write, Read, Remove]));
        assert_eq!(phases(vec![]), (vec![], vec![Create, Open, Write, Read, Remove]));
    }

    #[test]
    fn metrics_become_values_of_seconds() {
        let mut watched = Watched::default();
        let metadata = "vpfs_app_requests_total{server=\"s0\",app=\"a\",op=\"metadata\"}";
        watched.add(&format!("vpfs_server_depth{{server=\"s0\"}} 8.0\n{metadata} 5\n{metadata}x\n"));
        let reads = metadata.replace("metadata", "read");
        watched.add(&format!("# TYPE vpfs_server_depth gauge\n{reads} 9\n{metadata} 7\n"));
        assert_eq!(
            (&watched.depths[..], watched.requests("a"), watched.requests("b")),
            (&[8.0][..], vec![5, 2], vec![])
        );
    }
}
