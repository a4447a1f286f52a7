//! Gives each change of addresses and ids to the daemon, reports what is missing, and keeps what is known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;
use vpfs_config::{AppTable, Config};
use vpfs_core::ServerId;

use crate::accounts::Accounts;
use crate::gate::Gate;
use crate::names::{Names, Reporter, keep};
use crate::shared::{Rules, Shared};
use crate::state_dir::StateDir;

/// Keeps the daemon's rules in step with the configuration and with what its names stand for.
pub(crate) struct Follower {
    names: Names,
    accounts: Accounts,
    shared: Arc<Shared>,
    own: Vec<ServerId>,
    /// Rules are made under this lock, so that those of an older file never replace newer ones.
    config: Mutex<Arc<Config>>,
}

impl Follower {
    /// For the proxies of the servers `own`; the rules of `shared` are those of `config`.
    pub(crate) fn new(
        (names, accounts): (Names, Accounts),
        shared: Arc<Shared>,
        own: Vec<ServerId>,
        config: Arc<Config>,
    ) -> Self {
        Self { names, accounts, shared, own, config: Mutex::new(config) }
    }

    fn config(&self) -> MutexGuard<'_, Arc<Config>> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rules(&self, config: &Config) -> Rules {
        Rules::new(config, &|name| self.names.known(name), &|account| self.accounts.known(account))
    }

    /// Switches to a newer configuration; `update` updates the applications and the gates first. Its new names are
    /// looked up, which nothing waits for.
    pub(crate) fn reload(&self, newer: Arc<Config>, update: impl FnOnce(&mut AppTable, &[Arc<Gate>])) {
        let mut config = self.config();
        self.names.want(&newer, &self.own);
        self.accounts.want(&newer);
        self.shared.replace(self.rules(&newer), update);
        *config = newer;
    }

    /// Addresses or ids have changed.
    fn refresh(&self) {
        let config = self.config();
        self.shared.replace(self.rules(&config), |_, _| {});
        tracing::debug!("addresses of host names, or ids of users or groups, have changed");
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
                    let config = Arc::clone(&self.config());
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
