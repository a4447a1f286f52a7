//! A case in front of servers: proxies as the case says, and the processes of all applications.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use vpfs_core::stripe::Distribution;
use vpfs_sim::App;
use vpfs_testbed::client::{Client, ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, Run, RunOptions, SyncMode};

use super::outcome::{AppOutcome, Outcome, Used};
use super::part::Part;
use super::trial::Trial;
use super::watch::Watched;
use crate::real::proxies::{Place, Proxies};

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
pub(super) fn run(trial: &Trial, place: &Place<'_>, seed: u64) -> Result<Outcome, String> {
    let Place { dir, cluster, .. } = *place;
    let start = |scheduler| Proxies::start(place, &trial.apps, scheduler);
    let proxies = trial.scheduler.as_deref().map(start).transpose()?;
    let direct = cluster.spec(&cluster.addresses[0]);
    let url = |app| proxies.as_ref().map_or_else(|| direct.clone(), |proxies| cluster.spec(&proxies.address(app)));
    let urls: Vec<String> = (0..trial.apps.len()).map(url).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    let socket = proxies.as_ref().map(|_| vpfs_proxy::admin::socket::path(&dir.join("sockets"), "s0"));
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
