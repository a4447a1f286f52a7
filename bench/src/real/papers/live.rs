//! A case in front of servers: proxies as the case says, and the processes of all applications.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use vpfs_core::stripe::Distribution;
use vpfs_model::plan::{Amount, Limit, Phase, Plan, Steps};
use vpfs_sim::{App, Scenario};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, Run, RunOptions};

use super::outcome::{AppOutcome, Outcome, Used};
use super::trial::Trial;
use crate::real::cluster::Cluster;
use crate::real::proxies::Proxies;
use crate::real::scratch::{PREFIX, Scratch};

/// A case that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(600);

/// Where cases run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) scratch: &'a Scratch,
    pub(super) program: &'a Path,
    pub(super) cluster: &'a Cluster,
}

/// Runs a case once.
pub(super) fn run(trial: &Trial, place: &Place<'_>, seed: u64) -> Result<Outcome, String> {
    let Place { scratch, program, cluster } = *place;
    let start = |scheduler| Proxies::start(scratch, program, cluster, &trial.apps, scheduler);
    let proxies = trial.scheduler.as_deref().map(start).transpose()?;
    let address = |app| proxies.as_ref().map_or_else(|| cluster.addresses[0].clone(), |proxies| proxies.address(app));
    let urls: Vec<String> = (0..trial.apps.len()).map(|app| cluster.spec(&address(app))).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
    let began = Instant::now();
    let limited = async { tokio::time::timeout(LIMIT, load(&trial.scenario, &urls, seed)).await };
    let apps = runtime.block_on(limited).map_err(|_| format!("not done after {LIMIT:?}"))??;
    let seconds = began.elapsed().as_secs_f64();
    let used = |proxies: &Proxies<'_>| {
        let (time, memory_bytes) = proxies.used()?;
        Ok::<_, String>(Used { processor_seconds: time.as_secs_f64(), seconds, memory_bytes })
    };
    Ok(Outcome { apps, proxies: proxies.as_ref().map(used).transpose()? })
}

/// Runs all applications until those that are not in the background are done.
async fn load(scenario: &Scenario, urls: &[String], seed: u64) -> Result<Vec<AppOutcome>, String> {
    let told = Arc::new(AtomicBool::new(false));
    let [mut foreground, mut background] = [JoinSet::new(), JoinSet::new()];
    for (number, (app, url)) in scenario.apps.iter().zip(urls).enumerate() {
        let plan = app.workload.plan(seed << 16 | number as u64);
        let plan = UntilTold { plan, told: app.background.then(|| Arc::clone(&told)) };
        let run = Run::prepare(Arc::new(plan), options(app, url)?).await.map_err(|error| error.to_string())?;
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
                return Err(format!("{}: data is wrong: {:?}", urls[number], report.verification.examples));
            }
            outcomes.push((number, AppOutcome::live(&scenario.apps[number], &report)));
        }
    }
    outcomes.sort_by_key(|(number, _)| *number);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Processes with connections of their own, as MPI programs have.
fn options(app: &App, url: &str) -> Result<RunOptions, String> {
    /// Each run has a directory of its own, so that nothing is left of another.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let Distribution::SimpleStripe { strip } = app.layout.distribution else {
        return Err(format!("{}: only simple-stripe files run live", app.name));
    };
    let create = CreateOptions::simple_stripe(strip);
    let servers: Vec<usize> = app.layout.servers.iter().map(|server| *server as usize).collect();
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(RunOptions {
        client: ClientOptions { reply_timeout: Some(LIMIT), ..ClientOptions::new(url.to_owned()) },
        local_addresses: Vec::new(),
        nodes: app.nodes.clamp(1, app.workload.plan(0).processes()),
        connections: Connections::PerProcess,
        directory: format!("/{PREFIX}{}-{run}-{}", std::process::id(), app.name),
        create: if servers.is_empty() { create } else { create.on_servers(servers) },
        overwrite: true,
        keep: false,
        seed: 1,
        interval: Duration::from_secs(1),
        trace: None,
    })
}

/// A plan whose processes stop when they are told to, and clean up.
#[derive(Debug)]
struct UntilTold {
    plan: Arc<dyn Plan>,
    told: Option<Arc<AtomicBool>>,
}

impl Plan for UntilTold {
    fn processes(&self) -> u32 {
        self.plan.processes()
    }

    fn phases(&self) -> Vec<Phase> {
        self.plan.phases()
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
        self.plan.limit(phase)
    }

    fn amount(&self, phase: Phase) -> Option<Amount> {
        self.plan.amount(phase)
    }
}
