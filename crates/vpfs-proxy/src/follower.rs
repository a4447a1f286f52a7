//! Gives each change of addresses, ids and pushed applications to the daemon, reports what is missing, and keeps what
//! is known.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use vpfs_config::sets::{Overlap, Put, Refusal, Set, SetName, SetText, Sets, difference};
use vpfs_config::{AppTable, Config, PushedApps};
use vpfs_core::ServerId;

use crate::accounts::Accounts;
use crate::gate::Gate;
use crate::names::{Names, Reporter, keep};
use crate::sets_file::SetsFile;
use crate::shared::{Rules, Shared};
use crate::state_dir::StateDir;

/// How often to look for sets that have expired.
const LOOK: Duration = Duration::from_secs(1);
/// How long the id of a pushed application that is gone stays unused: longer than any connection looks at older rules.
const REST: Duration = Duration::from_secs(60);

/// Pairs of owners of which the log says at most that they have the same clients.
const TOLD: usize = 1000;

/// Keeps the daemon's rules in step with the configuration, with what its names stand for, and with pushed
/// applications.
pub(crate) struct Follower {
    names: Names,
    accounts: Accounts,
    shared: Arc<Shared>,
    own: Vec<ServerId>,
    sets_file: SetsFile,
    /// Rules are made under this lock, so that those of an older file never replace newer ones.
    current: Mutex<Current>,
}

/// What the rules are made of, besides addresses.
pub(crate) struct Current {
    config: Arc<Config>,
    sets: Sets,
    pushed: Arc<PushedApps>,
    /// The owners of which the log says that their applications have the same clients.
    told: BTreeSet<[String; 2]>,
}

impl Current {
    pub(crate) fn new(config: Arc<Config>, sets: Sets, pushed: Arc<PushedApps>) -> Self {
        Self { config, sets, pushed, told: BTreeSet::new() }
    }

    /// Says once of each two owners that clients belong to applications of both.
    fn tell_overlaps(&mut self, name: &SetName) {
        for overlap in self.sets.overlaps(name, &self.config.owners) {
            if self.told.len() < TOLD && self.told.insert(overlap.owners().map(str::to_owned)) {
                let Overlap { first, second, common } = overlap;
                tracing::warn!(
                    first,
                    second,
                    common,
                    "owners have pushed applications with the same clients, which the first one gets: the order of \
                     [[owner]] decides; `vpfs app which` shows it for a client"
                );
            }
        }
    }
}

impl Follower {
    /// For the proxies of the servers `own`; the rules of `shared` are those of `current`.
    pub(crate) fn new(
        (names, accounts): (Names, Accounts),
        shared: Arc<Shared>,
        own: Vec<ServerId>,
        sets_file: SetsFile,
        current: Current,
    ) -> Self {
        Self { names, accounts, shared, own, sets_file, current: Mutex::new(current) }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rules(&self, Current { config, pushed, .. }: &Current) -> Rules {
        let known = |name: &str| self.names.known(name);
        Rules::new(config, Arc::clone(pushed), &known, &|account| self.accounts.known(account))
    }

    /// Switches to a newer configuration; `update` updates the applications and the gates first. Its new names are
    /// looked up, which nothing waits for.
    pub(crate) fn reload(&self, newer: Arc<Config>, update: impl FnOnce(&mut AppTable, &[Arc<Gate>])) {
        let mut current = self.current();
        self.names.want(&newer, &self.own);
        self.accounts.want(&newer);
        current.config = newer;
        // Owners may rank otherwise.
        current.pushed = current.sets.apps(&current.config.owners);
        let (now, pushed) = (self.shared.clock.now(), Arc::clone(&current.pushed));
        self.shared.replace(self.rules(&current), |apps, gates| {
            apps.push(now, pushed);
            update(apps, gates);
        });
    }

    /// Addresses or ids have changed.
    fn refresh(&self) {
        let current = self.current();
        self.shared.replace(self.rules(&current), |_, _| {});
        tracing::debug!("addresses of host names, or ids of users or groups, have changed");
    }

    /// Replaces a set, which changes nothing for applications that stay as they are; `by` says who asked for it.
    pub(crate) fn put(&self, name: &SetName, set: Set, by: &str) -> Result<Put, Refusal> {
        let mut current = self.current();
        let changes = difference(current.sets.apps_of(name), &set.text.apps);
        let (apps, ttl) = (set.text.apps.len(), set.ttl);
        let put = current.sets.put(self.shared.clock.now(), name.clone(), set)?;
        if put == Put::Replaced {
            self.apply(&mut current);
            tracing::info!(set = %name, by, changes, apps, ?ttl, "applications were pushed");
            current.tell_overlaps(name);
        }
        Ok(put)
    }

    /// Removes a set; whether there was one. `by` says who asked for it.
    pub(crate) fn remove(&self, name: &SetName, by: &str) -> bool {
        let mut current = self.current();
        let changes = difference(current.sets.apps_of(name), &[]);
        let removed = current.sets.remove(name);
        if removed {
            self.apply(&mut current);
            tracing::info!(set = %name, by, changes, "pushed applications were removed");
        }
        removed
    }

    fn expire(&self) {
        let now = self.shared.clock.now();
        let mut current = self.current();
        let expired = current.sets.expire(now);
        if !expired.is_empty() {
            self.apply(&mut current);
        }
        drop(current);
        for set in expired {
            tracing::warn!(%set, "pushed applications have expired: their owner has not pushed them again");
        }
        self.shared.recycle(REST);
    }

    /// Sets have changed.
    fn apply(&self, current: &mut Current) {
        current.pushed = current.sets.apps(&current.config.owners);
        let (now, pushed) = (self.shared.clock.now(), Arc::clone(&current.pushed));
        self.shared.replace(self.rules(current), |apps, gates| {
            for app in apps.push(now, pushed) {
                gates.iter().for_each(|gate| gate.set_app(app, apps.get(app).expect("an id of this table")));
            }
        });
    }

    pub(crate) fn sets(&self) -> Vec<(SetName, SetText, Duration)> {
        let now = self.shared.clock.now();
        self.current().sets.iter(now).map(|(name, text, left)| (name.clone(), text.clone(), left)).collect()
    }

    pub(crate) fn sets_json(&self) -> String {
        self.current().sets.to_json()
    }

    pub(crate) fn sets_file(&self) -> &SetsFile {
        &self.sets_file
    }

    pub(crate) fn token_of(&self, owner: &str) -> Option<PathBuf> {
        let current = self.current();
        let found = current.config.owners.iter().find(|known| known.name == owner)?;
        Some(found.token.clone())
    }

    /// Lets sets expire, for ever.
    pub(crate) async fn run_sets(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.expire();
        }
    }

    /// Runs for ever; `kept` is what the file of an earlier process has.
    pub(crate) async fn run(self: Arc<Self>, state: StateDir, mut kept: Vec<u8>) {
        let mut reporter = Reporter::default();
        let mut writing: Option<JoinHandle<()>> = None;
        loop {
            tokio::select! {
                () = self.names.changed() => self.refresh(),
                () = self.accounts.changed() => self.refresh(),
                () = self.names.settled() => {
                    let config = Arc::clone(&self.current().config);
                    reporter.tell(self.names.findings(&config, &self.own));
                    let is_busy = writing.as_ref().is_some_and(|writing| !writing.is_finished());
                    let known = self.names.to_keep();
                    if known != kept && !is_busy {
                        kept.clone_from(&known);
                        writing = Some(self.keep(&config, state.clone(), known));
                    }
                }
            }
        }
    }

    fn keep(&self, config: &Config, state: StateDir, known: Vec<u8>) -> JoinHandle<()> {
        let first = self.own.first().map_or_else(String::new, |id| config.servers[id.index()].name.clone());
        tokio::task::spawn_blocking(move || keep(&state, &first, &known))
    }
}
