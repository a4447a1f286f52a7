//! `vpfs slurm agent`: reads jobs and lets them be pushed.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use std::{fs, mem};

use tokio::net::UnixDatagram;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use vpfs_admin::Change;
use vpfs_admin::events::Events;
use vpfs_config::LogLevel;
use vpfs_config::sets::SetText;
use vpfs_config::units::Span;
use vpfs_slurm::{Job, Jobs, Reach, Settings, Unreadable, nodes_of};

use super::Rules;
use super::files::{At, Files, look_at};
use super::hosts::Hosts;
use super::pushing::Pushing;
use super::query;
use super::sets::{Group, Sets, have_own_jobs, with_proven_accounts, without_share};
use crate::cmd::asking::changing::version_now;
use crate::cmd::{runtime, systemd};
use crate::exit::Exit;
use crate::log;
use crate::signals::Stop;

/// The shortest time between two readings, however often the agent is woken.
const PAUSE: Duration = Duration::from_millis(200);
/// The pause after a reading is at least as long as this times what the reading took: slurmctld has other work.
const REST: u32 = 2;

/// Push the running jobs to all proxies or mounts, until stopped
///
/// When squeue fails, the jobs that were read last stay: nodes whose jobs have ended are idle, and no others can start.
/// When the agent ends, proxies keep the jobs for the time of `ttl`. Rules, configuration and token are read again with
/// SIGHUP, and before each reading of jobs if a file has changed; while they are not valid, the old ones stay.
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
        let files = Files::load(&self.rules.rules)?;
        if self.check {
            eprintln!("the rules are valid: {}", files.settings.rules.len());
            return Ok(());
        }
        let _log = log::start(LogLevel::Info, false, &Events::default())?;
        let runtime = runtime()?;
        let result = runtime.block_on(serve(files));
        runtime.shutdown_background();
        result
    }
}

async fn serve(files: Files) -> Result<(), Exit> {
    let failed = |error: io::Error| Exit::Failed(format!("cannot handle signals: {error}"));
    let mut stop = Stop::new().map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let mut reader = Reader::new(files);
    systemd::ready("reading jobs", false);
    loop {
        let began = Instant::now();
        tokio::select! {
            () = reader.round() => {}
            () = stop.asked() => return Ok(()),
        }
        let (ended, rest) = (Instant::now(), PAUSE.max(began.elapsed() * REST));
        let mut next = ended + reader.files.settings.interval.max(rest);
        let is_asked = loop {
            tokio::select! {
                () = woken(reader.bell.as_ref()) => next = ended + rest,
                () = reader.hosts.changed() => reader.push(),
                () = tokio::time::sleep_until(next) => break false,
                _ = hangup.recv() => break true,
                () = stop.asked() => return Ok(()),
            }
        };
        reader.reread(is_asked).await;
    }
}

/// The socket at which the agent is woken. It replaces that of an agent that has ended, and nothing else.
fn bell(path: &Path) -> io::Result<UnixDatagram> {
    if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
        fs::DirBuilder::new().mode(0o755).create(directory)?;
    }
    match look_at(path).map_err(io::Error::other)? {
        At::Used => return Err(io::Error::other("a program receives there; is another agent running on this host?")),
        At::Free => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        },
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(socket)
}

/// Waits until somebody wakes the agent.
async fn woken(bell: Option<&UnixDatagram>) {
    let Some(bell) = bell else { return std::future::pending().await };
    while bell.recv(&mut [0; 16]).await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reads jobs, and says what is new.
struct Reader {
    files: Files,
    pushing: Pushing,
    bell: Option<UnixDatagram>,
    hosts: Hosts,
    /// The files were just read, so that addresses of nodes may only be unknown because nobody looked for them.
    is_new: bool,
    /// Whether users have only the accounts that they were given, as far as that is known.
    are_accounts_enforced: Option<bool>,
    /// Those that were read last.
    jobs: Vec<Job>,
    /// Of the set that is being pushed, or was.
    version: u64,
    /// What is being pushed.
    pushed: Vec<Group>,
    said: Said,
}

/// What the log has said.
#[derive(Default)]
struct Said {
    failure: Option<String>,
    /// Why the agent cannot be woken.
    deaf: Option<String>,
    unreadable: BTreeSet<Unreadable>,
    lacks: String,
    /// Why accounts are not trusted.
    accounts: String,
}

impl Reader {
    fn new(files: Files) -> Self {
        let pushing = start(&files);
        let hosts = Hosts::new(files.settings.clone());
        let (jobs, pushed, said) = (Vec::new(), Vec::new(), Said::default());
        let (bell, are_accounts_enforced) = (None, None);
        Self { files, pushing, bell, hosts, is_new: true, are_accounts_enforced, jobs, version: 0, pushed, said }
    }

    /// Reads the files again if one has changed, or somebody asks for it.
    async fn reread(&mut self, is_asked: bool) {
        let (path, known) = (self.files.rules.clone(), self.files.stamp.clone());
        let stamp = self.files.stamp_now();
        if !is_asked && stamp == known {
            return;
        }
        let read = tokio::task::spawn_blocking(move || Files::load(&path).map_err(|exit| exit.to_string())).await;
        match read.map_err(|error| error.to_string()).flatten() {
            Ok(files) => {
                tracing::info!(
                    rules = files.settings.rules.len(),
                    "the rules, configuration and token were read again"
                );
                let before = mem::replace(&mut self.files, files);
                if before.settings.wake != self.files.settings.wake {
                    (self.bell, self.said.deaf) = (None, None);
                }
                (self.pushing, self.pushed) = (start(&self.files), Vec::new());
                self.hosts.look_again(self.files.settings.clone());
                (self.is_new, self.are_accounts_enforced) = (true, None);
            }
            Err(reason) => {
                tracing::error!(reason, "the files were read again and are not valid; the old ones stay active");
                // Said once.
                self.files.stamp = stamp;
            }
        }
    }

    /// Each round tries again: the agent before may take some time to end.
    fn find_bell(&mut self) {
        let Settings { wake, interval, .. } = &self.files.settings;
        if self.bell.is_some() {
            return;
        }
        match bell(wake) {
            Ok(bell) => {
                if self.said.deaf.take().is_some() {
                    tracing::info!("the agent can be woken again");
                }
                self.bell = Some(bell);
            }
            Err(error) => {
                let (error, path, interval) = (error.to_string(), wake.display(), Span(*interval));
                if self.said.deaf.as_ref() != Some(&error) {
                    tracing::warn!(error, "cannot be woken at {path}; jobs are found every {interval}");
                }
                self.said.deaf = Some(error);
            }
        }
    }

    async fn round(&mut self) {
        self.find_bell();
        // Those that came meanwhile have the same answer.
        while self.bell.as_ref().is_some_and(|bell| bell.try_recv(&mut [0; 16]).is_ok()) {}
        self.ask_about_accounts().await;
        let patience = self.files.settings.timeout;
        let read = tokio::task::spawn_blocking(move || query::jobs(patience)).await;
        match read.map_err(|error| error.to_string()).flatten() {
            Ok(Jobs { jobs, unreadable }) => {
                if self.said.failure.take().is_some() {
                    tracing::info!(jobs = jobs.len(), "jobs can be read again");
                }
                self.said.tell_unreadable(unreadable);
                if !have_own_jobs(&self.files.config) {
                    self.hosts.want(nodes_of(&jobs));
                    // Otherwise jobs whose nodes proxies know from an earlier agent would lose their shares meanwhile.
                    if mem::take(&mut self.is_new) {
                        self.hosts.settle().await;
                    }
                }
                self.jobs = jobs;
                self.push();
            }
            Err(error) => {
                if self.said.failure.as_ref() != Some(&error) {
                    tracing::warn!(error, "jobs cannot be read; those that were read last stay");
                }
                self.said.failure = Some(error);
            }
        }
    }

    /// Asks once whether Slurm checks accounts, if a rule depends on it.
    async fn ask_about_accounts(&mut self) {
        let Settings { timeout, .. } = self.files.settings;
        if self.are_accounts_enforced.is_some() || !self.files.settings.trusts_accounts() {
            return;
        }
        let told = tokio::task::spawn_blocking(move || query::settings_of_slurm(timeout)).await;
        let told = told.map_err(|error| error.to_string()).flatten();
        self.are_accounts_enforced = told.as_ref().ok().map(query::are_accounts_enforced);
        let why = match told {
            Ok(_) if self.are_accounts_enforced == Some(true) => String::new(),
            Ok(_) => {
                "slurm.conf lacks AccountingStorageEnforce=associations, so users choose their accounts".to_owned()
            }
            Err(error) => format!("whether users choose their accounts is not known: {error}"),
        };
        if !why.is_empty() && self.said.accounts != why {
            tracing::warn!(
                "{why}; accounts without a [[share]] share one top-level share, unless the rule says account = \"*\""
            );
        }
        self.said.accounts = why;
    }

    /// Lets the jobs be pushed as far as their nodes' addresses are known, unless they are already, and no other agent
    /// has pushed a later version.
    fn push(&mut self) {
        let Files { config, settings, .. } = &self.files;
        let settings = with_proven_accounts(settings.clone(), config, self.are_accounts_enforced == Some(true));
        let Sets { groups, lacks } = Sets::of(&self.jobs, config, &settings, &self.hosts);
        self.said.tell(&lacks);
        let newer = self.pushing.newer();
        let is_news = |(index, group): &(usize, &Group)| self.pushed.get(*index) != Some(*group);
        let news: Vec<&Group> = groups
            .iter()
            .enumerate()
            .filter(|group| newer >= self.version || is_news(group))
            .map(|(_, it)| it)
            .collect();
        if news.is_empty() {
            return;
        }
        self.version = version_now().max(self.version.max(newer).saturating_add(1));
        for group in news {
            let (name, token) = (self.files.settings.owner.clone(), self.files.token.clone());
            let ttl = Span(self.files.settings.ttl).to_string();
            let text = SetText { version: self.version, ttl, apps: group.apps.clone() };
            let json = serde_json::to_vec(&text).expect("names and numbers are JSON");
            let change = Change { name, json: Some(json.into()), token };
            group.servers.iter().for_each(|server| self.pushing.set(*server, change.clone()));
        }
        if self.pushed != groups {
            tracing::info!(jobs = self.jobs.len(), "pushing jobs");
        }
        self.pushed = groups;
    }
}

fn start(Files { settings, config, .. }: &Files) -> Pushing {
    Pushing::start(config.clone(), settings.reach == Reach::Peers, settings.interval)
}

impl Said {
    /// Logs each job that cannot be read, once.
    fn tell_unreadable(&mut self, unreadable: Vec<Unreadable>) {
        let unreadable = BTreeSet::from_iter(unreadable);
        unreadable.difference(&self.unreadable).for_each(|job| tracing::warn!("{}", without_share(job)));
        self.unreadable = unreadable;
    }

    /// Logs what jobs lack, when that is another thing than before.
    fn tell(&mut self, lacks: &[String]) {
        let lacks = lacks.join("; ");
        if lacks != self.lacks && !lacks.is_empty() {
            tracing::warn!("{lacks}");
        }
        self.lacks = lacks;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Symptom: `wake = "vpfs.toml"` deleted that file. Cause: whatever stood at the path of the socket was removed.
    /// Proof: only the socket of a program that has ended is.
    #[tokio::test]
    async fn only_a_dead_socket_makes_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "text").unwrap();
        fs::create_dir(path("folder")).unwrap();
        let _others = UnixListener::bind(path("stream")).unwrap();
        drop(UnixListener::bind(path("dead")).unwrap());
        std::os::unix::fs::symlink(path("dead"), path("link")).unwrap();
        for (name, said) in [("file", "than a socket"), ("folder", "than a socket"), ("link", "than a socket")] {
            assert!(bell(&path(name)).unwrap_err().to_string().contains(said), "{name}");
        }
        assert!(bell(&path("stream")).unwrap_err().to_string().contains("another program"));
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "text");
        let first = bell(&path("new/wake.sock")).unwrap();
        assert!(bell(&path("new/wake.sock")).unwrap_err().to_string().contains("another agent"));
        drop(first);
        assert!(bell(&path("new/wake.sock")).is_ok());
        assert!(bell(&path("dead")).is_ok(), "nobody has it");
    }
}
