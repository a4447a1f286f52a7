//! `vpfs slurm agent`: reads jobs and lets them be pushed.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::time::Instant;
use vpfs_admin::Change;
use vpfs_admin::events::Events;
use vpfs_config::sets::{AppText, SetText};
use vpfs_config::units::Span;
use vpfs_config::{Config, LogLevel};
use vpfs_slurm::{Built, Jobs, Reach, Settings, build, nodes_of};

use super::Rules;
use super::hosts::Hosts;
use super::pushing::Pushing;
use super::query;
use crate::cmd::asking::changing::{read_token, version_now};
use crate::cmd::{runtime, systemd};
use crate::exit::Exit;
use crate::log;
use crate::signals::Stop;

/// The shortest time between two readings, however often the agent is woken.
const PAUSE: Duration = Duration::from_millis(200);
/// The pause after a reading is at least as long as this times what the reading took: slurmctld has other work.
const REST: u32 = 2;

/// Push the running jobs to all proxies, until stopped
///
/// When squeue fails, the jobs that were read last stay: nodes whose jobs have ended are idle, and no others can start.
/// When the agent ends, proxies keep the jobs for the time of `ttl`.
#[derive(clap::Args)]
pub(super) struct Agent {
    #[command(flatten)]
    rules: Rules,

    /// Check the rules and exit
    #[arg(long)]
    check: bool,
}

impl Agent {
    pub(super) fn run(&self) -> Result<(), Exit> {
        let settings = self.rules.load()?;
        let config = Config::load(&settings.config)
            .map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))?;
        if settings.reach == Reach::Peers && config.peers.is_none() {
            let file = settings.config.display();
            return Err(Exit::Usage(format!(
                "{file} has no [peers], so its proxies have no address; use reach = \"sockets\""
            )));
        }
        let token = settings.token.as_deref().map(read_token).transpose()?;
        if self.check {
            eprintln!("the rules are valid: {}", settings.rules.len());
            return Ok(());
        }
        let _log = log::start(LogLevel::Info, false, &Events::default())?;
        let runtime = runtime()?;
        let result = runtime.block_on(serve(settings, config, token));
        runtime.shutdown_background();
        result
    }
}

async fn serve(settings: Settings, config: Config, token: Option<String>) -> Result<(), Exit> {
    let mut stop = Stop::new().map_err(|error| Exit::Failed(format!("cannot handle signals: {error}")))?;
    let bell = bell(&settings.wake)
        .inspect_err(|error| {
            let path = settings.wake.display();
            tracing::warn!(%error, "cannot be woken at {path}; jobs are found every {}", Span(settings.interval));
        })
        .ok();
    let pushing = Pushing::start(config, settings.reach == Reach::Peers, settings.interval);
    let mut reader = Reader { settings, token, pushing, hosts: Hosts::default(), pushed: None, said: Said::default() };
    systemd::ready("reading jobs", false);
    loop {
        let began = Instant::now();
        tokio::select! {
            () = reader.round() => {}
            () = stop.asked() => return Ok(()),
        }
        let rest = PAUSE.max(began.elapsed() * REST);
        tokio::select! {
            () = woken(bell.as_ref(), rest) => {}
            () = tokio::time::sleep(reader.settings.interval.max(rest)) => {}
            () = stop.asked() => return Ok(()),
        }
    }
}

/// The socket at which the agent is woken. It replaces that of an earlier agent.
fn bell(path: &Path) -> io::Result<UnixDatagram> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        fs::DirBuilder::new().mode(0o755).create(directory)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(socket)
}

/// Waits until somebody wakes the agent, but for `rest` at least.
async fn woken(bell: Option<&UnixDatagram>, rest: Duration) {
    let Some(bell) = bell else { return std::future::pending().await };
    let earliest = Instant::now() + rest;
    while bell.recv(&mut [0; 16]).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
    tokio::time::sleep_until(earliest).await;
    // Those that came meanwhile have the same answer.
    while bell.try_recv(&mut [0; 16]).is_ok() {}
}

/// Reads jobs, and says what is new.
struct Reader {
    settings: Settings,
    token: Option<String>,
    pushing: Pushing,
    hosts: Hosts,
    /// The version and the applications that are being pushed.
    pushed: Option<(u64, Vec<AppText>)>,
    said: Said,
}

/// What the log has said.
#[derive(Default)]
struct Said {
    failure: Option<String>,
    lacks: String,
}

impl Reader {
    async fn round(&mut self) {
        let patience = self.settings.timeout;
        let read = tokio::task::spawn_blocking(move || query::jobs(patience)).await;
        match read.map_err(|error| error.to_string()).flatten() {
            Ok(Jobs(jobs)) => {
                if self.said.failure.take().is_some() {
                    tracing::info!(jobs = jobs.len(), "jobs can be read again");
                }
                let addresses = self.hosts.find(&nodes_of(&jobs), &self.settings).await;
                let built = build(&jobs, &self.settings, &|node| addresses.get(node).cloned().unwrap_or_default());
                self.said.tell(&built);
                self.push(built.apps);
            }
            Err(error) => {
                if self.said.failure.as_ref() != Some(&error) {
                    tracing::warn!(error, "jobs cannot be read; those that were read last stay");
                }
                self.said.failure = Some(error);
            }
        }
    }

    /// Lets these be pushed, unless they are already, and no other agent has pushed a later version.
    fn push(&mut self, apps: Vec<AppText>) {
        let newer = self.pushing.newer();
        let is_news = self.pushed.as_ref().is_none_or(|(_, pushed)| *pushed != apps);
        if !is_news && self.pushed.as_ref().is_some_and(|(version, _)| newer < *version) {
            return;
        }
        let last = self.pushed.as_ref().map_or(0, |(version, _)| *version).max(newer);
        let version = version_now().max(last.saturating_add(1));
        let text = SetText { version, ttl: Span(self.settings.ttl).to_string(), apps };
        let json = serde_json::to_vec(&text).expect("names and numbers are JSON");
        let name = self.settings.owner.clone();
        self.pushing.set(Change { name, json: Some(json.into()), token: self.token.clone() });
        if is_news {
            tracing::info!(jobs = text.apps.len(), "pushing jobs");
        }
        self.pushed = Some((version, text.apps));
    }
}

impl Said {
    /// Logs what jobs lack, when that is another thing than before.
    fn tell(&mut self, built: &Built) {
        let lacks = super::show::lacks(built).join("; ");
        if lacks != self.lacks && !lacks.is_empty() {
            tracing::warn!("{lacks}");
        }
        self.lacks = lacks;
    }
}
