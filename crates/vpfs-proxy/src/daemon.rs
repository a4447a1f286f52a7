//! The daemon as a library: start, reload, drain.

use std::collections::BTreeSet;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle as TaskHandle, JoinSet};
use tokio::time::Instant;
use vpfs_config::sets::{Overlap, Put, Refusal, Set, SetName, SetText, Sets, difference};
use vpfs_config::units::Span;
use vpfs_config::{App, AppTable, Config, PushedApps};
use vpfs_core::{Scope, ServerId, SharingMode, Time};
use vpfs_node::{AppTotals, Snapshot};

use crate::accept::{Entrance, Sites};
use crate::check::StartError;
use crate::clock::Clock;
use crate::gate::{Gate, Outbox, deliver, watch_processors};
use crate::handover::{Connections, Inheritance, Offer};
use crate::hosts::ConnectionPermits;
use crate::lock;
use crate::names::{Accounts, Environment, Names, Reporter, account_id, keep};
use crate::observer::{Observer, Ports};
use crate::peers::{Askers, Peers, PeersError, Prepared};
use crate::secrets::check_secrets;
use crate::shared::{Rules, Shared, Stage};
use crate::state_dir::{Known, StateDir};
use crate::turns::Turns;
use crate::{check, handover, observer};

/// How long a start waits for the names that it has to listen at; it waits for no others.
const LISTEN_PATIENCE: Duration = Duration::from_secs(2);

/// Why a newer configuration was rejected; the current one stays active.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It changes settings that need a restart.
    #[error("a restart is needed for: {0}; SIGUSR2 restarts without dropping a connection")]
    NeedsRestart(String),
    /// A key or certificate is not valid.
    #[error("{0}")]
    Peers(#[from] PeersError),
}

/// Proxies in front of one or more servers. Dropping it closes everything at once.
pub struct Daemon {
    shared: Arc<Shared>,
    config: Arc<Config>,
    follower: Arc<Follower>,
    keeper: Keeper,
    permits: Arc<ConnectionPermits>,
    /// The listening sockets, and the tasks that accept from them.
    sites: Sites,
    accepting: JoinSet<()>,
    peers: Option<Peers>,
    ports: Ports,
    /// Serves the connections of a predecessor.
    taking_over: Option<JoinHandle<()>>,
    _timers: JoinSet<()>,
}

impl Daemon {
    /// [`Self::start_in`] an environment that keeps nothing.
    ///
    /// # Errors
    /// As [`Self::start_in`].
    pub fn start(config: Config, servers: &[ServerId]) -> BoxFuture<'_, Result<Self, StartError>> {
        Box::pin(async move { Self::start_in(&Environment::default(), config, servers).await })
    }

    /// Listens in front of `servers`; all addresses are bound before any connection is accepted. Host names to
    /// listen at are waited for, at most two seconds; all names take effect when they are found. Call within a tokio
    /// runtime.
    ///
    /// # Errors
    /// If an address cannot be bound, or a key or certificate is not valid.
    pub fn start_in<'a>(
        environment: &'a Environment,
        config: Config,
        servers: &'a [ServerId],
    ) -> BoxFuture<'a, Result<Self, StartError>> {
        Box::pin(async move { Self::start_with(environment, config, servers, None).await })
    }

    /// As [`Self::start_in`], but takes over what a predecessor offers: first its listening sockets, then its
    /// connections. Those that are not served according to this configuration are closed.
    ///
    /// # Errors
    /// As [`Self::start_in`], or if the predecessor is gone; it continues if it is not.
    pub fn succeed<'a>(
        environment: &'a Environment,
        config: Config,
        servers: &'a [ServerId],
        mut inheritance: Inheritance,
    ) -> BoxFuture<'a, Result<Self, StartError>> {
        Box::pin(async move {
            let mut daemon = Self::start_with(environment, config, servers, Some(&mut inheritance)).await?;
            let connections = inheritance.confirm().map_err(StartError::Predecessor)?;
            daemon.taking_over = Some(take_over(daemon.sites.clone(), connections));
            Ok(daemon)
        })
    }

    /// Whether a predecessor may still have connections for this daemon. If it ended or handed over now, they would be
    /// lost.
    pub fn is_taking_over(&self) -> bool {
        self.taking_over.as_ref().is_some_and(|taking_over| !taking_over.is_finished())
    }

    async fn start_with(
        environment: &Environment,
        config: Config,
        servers: &[ServerId],
        mut inheritance: Option<&mut Inheritance>,
    ) -> Result<Self, StartError> {
        check::disjoint(&config, servers)?;
        warn_of_secrets(config.clone()).await;
        let (config, clock, mut timers) = (Arc::new(config), Clock::start(), JoinSet::new());
        let first = servers.first().map_or("", |id| &config.servers[id.index()].name);
        let names = Names::new(clock.clone(), environment.resolver.clone(), &environment.state, first);
        names.want(&config, servers);
        let kept = names.to_keep();
        timers.spawn(names.clone().run().boxed());
        let until = Instant::now() + LISTEN_PATIENCE;
        let sets_file = SetsFile::new(environment.state.clone(), first);
        let sets = sets_file.read(clock.now(), inheritance.as_deref());
        let (mut apps, pushed) = (AppTable::new(&config), sets.apps(&config.owners));
        apps.push(clock.now(), Arc::clone(&pushed));
        let (mut outbox, incoming) = Outbox::between(servers);
        let prepared = Prepared::new(&config, servers, &clock, (&names, until), inheritance.as_deref_mut()).await?;
        let prepared = prepared.map(|prepared| (prepared, outbox.open_remote()));
        let gate = |&server| Arc::new(Gate::new(clock.clone(), server, outbox.clone(), &config, &apps));
        let gates: Vec<Arc<Gate>> = servers.iter().map(gate).collect();
        remember(&gates, &config, inheritance.as_deref(), &environment.state);
        warn_of_other_processes(&config, servers);
        let permits = Arc::new(ConnectionPermits::new(config.limits.connections));
        check::provide_descriptors(config.limits.connections);
        let mut bound = Vec::new();
        for entrance in Entrance::all(&config, servers, &gates, &names) {
            let socket = entrance.bind(until, inheritance.as_deref_mut()).await.map_err(refused(&entrance))?;
            bound.push((entrance, socket));
        }
        let accounts = Accounts::new(account_id);
        accounts.want(&config);
        timers.spawn(accounts.clone().run().boxed());
        let known = |name: &str| names.known(name);
        let rules = Rules::new(&config, Arc::clone(&pushed), &known, &|account| accounts.known(account));
        let shared = Arc::new(Shared::new(clock.clone(), gates, rules, apps));
        let current = Mutex::new(Current { config: Arc::clone(&config), sets, pushed, told: BTreeSet::new() });
        let (own, of_all) = (servers.to_vec(), Arc::clone(&shared));
        let follower = Arc::new(Follower { names, accounts, shared: of_all, own, sets_file, current });
        timers.spawn(Arc::clone(&follower).run_sets().boxed());
        timers.spawn(Arc::clone(&follower).run(environment.state.clone(), kept).boxed());
        let keeper = Keeper::new(Arc::clone(&shared), environment.state.clone(), &config);
        timers.spawn(keeper.clone().run().boxed());
        let peers = prepared.map(|(prepared, outgoing)| prepared.start((outbox, outgoing), shared.gates.clone()));
        let ports = peers.as_ref().map(|peers: &Peers| ("peers", peers.strangers()));
        let ports = Ports::new(Mutex::new(ports.into_iter().collect()));
        timers.spawn(clock.follow_wall().boxed());
        timers.spawn(watch_processors(shared.gates.clone()).boxed());
        for (gate, incoming) in shared.gates.iter().zip(incoming) {
            timers.spawn(deliver(Arc::clone(gate), incoming).boxed());
            let gate = Arc::clone(gate);
            timers.spawn(async move { gate.run_timer().await }.boxed());
        }
        let (sites, mut accepting) = (Sites::default(), JoinSet::new());
        for (entrance, socket) in bound {
            let (shared, permits) = (Arc::clone(&shared), Arc::clone(&permits));
            match socket {
                Some(socket) => {
                    let failed = refused(&entrance);
                    let site = entrance.open(socket, shared, permits).map_err(failed)?;
                    sites.add(site.clone());
                    accepting.spawn(site.run().boxed());
                }
                None => drop(accepting.spawn(entrance.open_later(shared, permits, sites.clone()).boxed())),
            }
        }
        Ok(Self {
            shared,
            config,
            follower,
            keeper,
            permits,
            sites,
            accepting,
            peers,
            ports,
            taking_over: None,
            _timers: timers,
        })
    }

    /// Whether the host of a server limits what that has not stored; otherwise clients of NFS may leave only so much to
    /// it to store later. Returns whether that is news.
    pub fn set_limited_there(&self, server: ServerId, is_limited: bool) -> bool {
        let mut gates = self.shared.gates.iter();
        gates.find(|gate| gate.server() == server).is_some_and(|gate| gate.set_limited_there(is_limited))
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Connections of those who want to ask what [`Daemon::observer`] sees; `None` if there are no peers, or the second
    /// time.
    pub fn take_askers(&mut self) -> Option<Askers> {
        self.peers.as_mut()?.take_askers()
    }

    /// Switches to a newer configuration without dropping a connection: policy, depth, costs, weights, caps, rules and
    /// limits. The limits of one connection apply to new connections. Returns the number of settings that have changed.
    ///
    /// # Errors
    /// If a key or certificate is not valid, or servers, listeners or peers change; nothing is changed then.
    pub fn reload(&mut self, newer: Config) -> BoxFuture<'_, Result<usize, ReloadError>> {
        Box::pin(async move {
            let diff = self.config.diff(&newer);
            if !diff.restart.is_empty() {
                let changes: Vec<String> = diff.restart.iter().map(ToString::to_string).collect();
                return Err(ReloadError::NeedsRestart(changes.join(", ")));
            }
            if let Some(peers) = &self.peers {
                peers.reload().await?;
            }
            warn_of_secrets(newer.clone()).await;
            self.config = Arc::new(newer);
            check::provide_descriptors(self.config.limits.connections);
            self.permits.set_limit(self.config.limits.connections);
            self.follower.reload(Arc::clone(&self.config), |apps, gates| {
                let changed = apps.reload(&self.config);
                for gate in gates {
                    gate.reconfigure(&self.config);
                    gate.set_shares(&self.config);
                    for &app in &changed {
                        gate.set_app(app, apps.get(app).expect("an id of this table"));
                    }
                }
            });
            for change in &diff.live {
                tracing::info!(%change, "reloaded");
            }
            if diff.live.is_empty() {
                tracing::info!("reloaded, nothing changed");
            }
            Ok(diff.live.len())
        })
    }

    /// Shuts down in good order: no new connections or requests; operations in progress may finish within
    /// `limits.drain_timeout`. Logs each application's totals, and returns the number of connections that had to be cut
    /// off. All addresses are free again afterwards.
    pub fn drain(self) -> BoxFuture<'static, usize> {
        Box::pin(async move {
            // Now: when all is quiet, nobody is there who must be protected from those that come first.
            let keeper = self.keeper.clone();
            keeper.finish(self.leave(Stage::Draining)).await
        })
    }

    /// Offers the listening sockets to a successor, and waits for at most 20 seconds until it serves them. Until
    /// [`Daemon::hand_over`] this daemon continues as if nothing had happened, also if what is returned is dropped.
    ///
    /// # Errors
    /// If the successor ends before it is ready, is not ready in time, or answers anything else.
    pub fn offer(&self, successor: UnixStream) -> impl Future<Output = io::Result<Offer>> + Send + use<> {
        let listeners = self.sites.sockets().and_then(|mut listeners| {
            let of_peers = self.peers.as_ref().map(Peers::sockets).transpose()?;
            listeners.extend(of_peers.into_iter().flatten());
            Ok(listeners)
        });
        let (learned, sets) = (self.keeper.contents(), self.follower.sets_json());
        async move {
            let listeners = listeners?;
            let mut waiting = Waiting(Some(successor.try_clone()?));
            let offering = tokio::task::spawn_blocking(move || handover::offer(successor, &listeners, learned, &sets));
            match tokio::time::timeout(handover::PATIENCE, offering).await {
                Ok(offered) => {
                    waiting.0 = None;
                    offered.map_err(io::Error::other)?
                }
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it was not ready in time")),
            }
        }
    }

    /// Hands every connection over as soon as nothing is in progress on it. Those for which that takes longer than
    /// `limits.drain_timeout` are cut off. Returns how many were handed over, and how many cut off.
    pub fn hand_over(self, offer: Offer) -> BoxFuture<'static, (usize, usize)> {
        Box::pin(async move {
            let (sender, receiver) = mpsc::unbounded_channel();
            self.shared.set_successor(Some(sender));
            let giving = tokio::task::spawn_blocking(move || handover::give(offer, receiver));
            let shared = Arc::clone(&self.shared);
            let cut_off = self.leave(Stage::HandingOver).await;
            shared.set_successor(None);
            match giving.await.map_err(io::Error::other).flatten() {
                Ok(given) => (given, cut_off),
                Err(error) => {
                    tracing::error!(%error, "the successor is gone; connections ended");
                    (0, cut_off)
                }
            }
        })
    }

    async fn leave(mut self, stage: Stage) -> usize {
        self.shared.enter(stage);
        // A successor speaks for these servers from now on.
        self.peers = None;
        while self.accepting.join_next().await.is_some() {}
        self.sites.close();
        let cut_off = self.shared.end_connections(&self.permits).await;
        // Threads of a mount may still be ending requests that they have answered.
        debug_assert!(
            self.config.listeners.is_empty() || self.shared.gates.iter().all(|gate| gate.is_idle() || gate.is_broken()),
            "closed connections have no requests"
        );
        debug_assert_eq!(self.held_memory(), 0, "closed connections hold no memory");
        let snapshots = self.snapshots();
        for (app, totals) in self.totals_of(&snapshots) {
            log_totals(&app, &totals);
        }
        for (gate, Snapshot { bulk, limits, .. }) in self.shared.gates.iter().zip(&snapshots) {
            tracing::debug!(server = gate.server().0, ?limits, ?bulk, "limits");
        }
        cut_off
    }

    /// Where the requests of programs wait that use the mount with this number among `servers` of the start.
    pub fn turns(&self, mount: usize) -> Turns {
        Turns::new(Arc::clone(&self.shared), Arc::clone(&self.shared.gates[mount]))
    }

    /// Looks into this daemon from outside.
    pub fn observer(&self) -> Observer {
        Observer {
            shared: Arc::clone(&self.shared),
            permits: Arc::clone(&self.permits),
            names: self.config.servers.iter().map(|server| server.name.clone()).collect(),
            peers: self.peers.as_ref().map(Peers::states),
            ports: Arc::clone(&self.ports),
        }
    }

    /// Changes the pushed applications of this daemon from outside.
    pub fn pushes(&self) -> Pushes {
        Pushes(Arc::clone(&self.follower))
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.shared.gates.iter().map(|gate| gate.snapshot()).collect()
    }

    /// Bytes that connections hold now and that count towards `limits.memory`.
    pub fn held_memory(&self) -> usize {
        self.shared.memory.held()
    }

    /// The totals of each application so far, over all servers of this daemon, by name.
    pub fn totals(&self) -> Vec<(String, AppTotals)> {
        self.totals_of(&self.snapshots()).collect()
    }

    fn totals_of(&self, snapshots: &[Snapshot]) -> impl Iterator<Item = (String, AppTotals)> + use<> {
        let names: Vec<String> = self.shared.apps().iter().map(|(_, entry)| entry.name.clone()).collect();
        let sums = observer::totals(names.len(), snapshots.iter());
        names.into_iter().zip(sums)
    }
}

/// A thread that waits at the other end of this channel; it need not wait any longer when this is dropped.
struct Waiting(Option<UnixStream>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(channel) = &self.0 {
            // If it is closed already, nobody waits.
            let _ = channel.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.shared.enter(Stage::Stopped);
    }
}

/// Gives each gate what was learned in front of its server: by the predecessor, otherwise by an earlier process.
fn remember(gates: &[Arc<Gate>], config: &Config, inheritance: Option<&Inheritance>, state: &StateDir) {
    for gate in gates {
        let server = &config.servers[gate.server().index()];
        let inherited = inheritance.and_then(|inheritance| inheritance.learned(&server.name)).map(<[u8]>::to_vec);
        let content = inherited.or_else(|| Known::read(state, &server.name));
        let known = content.and_then(|content| Known::parse(&content, &server.name, &server.address.to_string()));
        if let Some(known) = known {
            gate.remember(&known);
        }
    }
}

fn take_over(sites: Sites, mut connections: Connections) -> JoinHandle<()> {
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let _entered = runtime.enter();
        let mut count = 0;
        loop {
            let handed = match connections.next() {
                Ok(Some(handed)) => handed,
                Ok(None) => return tracing::info!(connections = count, "took over"),
                Err(error) => return tracing::error!(%error, "cannot take over more connections"),
            };
            let Some(acceptor) = sites.acceptor(handed.listener, &handed.upstream) else {
                tracing::info!(listener = %handed.listener, "no longer served; connection closed");
                handed.end();
                continue;
            };
            if acceptor.take_over(handed) {
                count += 1;
            } else {
                tracing::warn!("limits.connections is reached; a connection of the predecessor is closed");
            }
        }
    })
}

fn log_totals(app: &str, totals: &AppTotals) {
    let requests = totals.data_requests + totals.metadata_requests;
    let mean = |sum: Duration| Span(sum / u32::try_from(requests.max(1)).unwrap_or(u32::MAX));
    tracing::info!(
        %app,
        data_requests = totals.data_requests,
        metadata_requests = totals.metadata_requests,
        bytes = totals.bytes,
        failed = totals.failed,
        late = totals.late,
        mean_wait = %format_args!("{:.1}", mean(totals.waited)),
        mean_service = %format_args!("{:.1}", mean(totals.served)),
        "served"
    );
}

/// Warns that proxies in different processes do not report to each other without `[peers]`, neither for shares nor for
/// totals.
fn warn_of_other_processes(config: &Config, servers: &[ServerId]) {
    let others = config.servers().filter(|(id, _)| !servers.contains(id));
    let others: Vec<&str> = others.map(|(_, server)| server.name.as_str()).collect();
    if others.is_empty() || config.peers.is_some() {
        return;
    }
    let servers = others.join(",");
    if config.scheduler.policy.sharing.mode != SharingMode::Local {
        tracing::warn!(
            servers,
            "these servers belong to another process, and the configuration has no [peers] table: the service that \
             applications receive there counts only as far as the layout of their requests reveals it"
        );
    }
    let is_total = |app: &&App| {
        let cap = app.cap.is_some_and(|cap| cap.scope == Scope::Total);
        let minimum = app.minimum.is_some_and(|minimum| minimum.scope == Scope::Total);
        cap || minimum || app.target.is_some_and(|target| target.scope == Scope::Total)
    };
    let apps = config.apps.iter().filter(is_total).map(|app| app.name.as_str());
    let shares = config.shares.iter().filter(|share| share.policy.totals().next().is_some());
    let members: Vec<&str> = apps.chain(shares.map(|share| share.path.as_str())).collect();
    if !members.is_empty() {
        tracing::warn!(
            servers,
            apps = members.join(","),
            "these servers belong to another process, and the configuration has no [peers] table: of a cap, \
             min_rate or target_rate for all servers, each server gets its even part only; add [peers], or write \
             server_cap, server_min_rate or server_target_rate"
        );
    }
}

/// Says which tokens and keys open nothing, or everything: a proxy serves storage without them.
async fn warn_of_secrets(config: Config) {
    let problems = tokio::task::spawn_blocking(move || check_secrets(&config, None)).await;
    for problem in problems.unwrap_or_default() {
        tracing::warn!("{problem}");
    }
}

fn refused(entrance: &Entrance) -> impl FnOnce(io::Error) -> StartError + use<> {
    let (server, (host, port)) = (entrance.server().to_owned(), entrance.listen());
    let host = host.to_owned();
    move |error| StartError::Listen { server, host, port, error }
}

const LOOK: Duration = Duration::from_secs(1);

/// How long the id of a pushed application that is gone stays unused: longer than any connection looks at older rules.
const REST: Duration = Duration::from_secs(60);

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

pub(crate) struct Current {
    config: Arc<Config>,
    sets: Sets,
    pushed: Arc<PushedApps>,
    /// The owners of which the log says that their applications have the same clients.
    told: BTreeSet<[String; 2]>,
}

impl Current {
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
    fn rules(&self, Current { config, pushed, .. }: &Current) -> Rules {
        let known = |name: &str| self.names.known(name);
        Rules::new(config, Arc::clone(pushed), &known, &|account| self.accounts.known(account))
    }

    /// Switches to a newer configuration; `update` updates the applications and the gates first. Its new names are
    /// looked up, which nothing waits for.
    pub(crate) fn reload(&self, newer: Arc<Config>, update: impl FnOnce(&mut AppTable, &[Arc<Gate>])) {
        let mut current = lock(&self.current);
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

    fn refresh(&self) {
        let current = lock(&self.current);
        self.shared.replace(self.rules(&current), |_, _| {});
        tracing::debug!("addresses of host names, or ids of users or groups, have changed");
    }

    /// Replaces a set, which changes nothing for applications that stay as they are; `by` says who asked for it.
    pub(crate) fn put(&self, name: &SetName, set: Set, by: &str) -> Result<Put, Refusal> {
        let mut current = lock(&self.current);
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
        let mut current = lock(&self.current);
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
        let mut current = lock(&self.current);
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

    fn apply(&self, current: &mut Current) {
        current.pushed = current.sets.apps(&current.config.owners);
        let (now, pushed) = (self.shared.clock.now(), Arc::clone(&current.pushed));
        self.shared.replace(self.rules(current), |apps, gates| {
            for app in apps.push(now, pushed) {
                gates.iter().for_each(|gate| gate.set_app(app, apps.get(app).expect("an id of this table")));
            }
        });
    }

    pub(crate) fn sets_json(&self) -> String {
        lock(&self.current).sets.to_json()
    }

    pub(crate) async fn run_sets(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.expire();
        }
    }

    pub(crate) async fn run(self: Arc<Self>, state: StateDir, mut kept: Vec<u8>) {
        let mut reporter = Reporter::default();
        let mut writing: Option<TaskHandle<()>> = None;
        loop {
            tokio::select! {
                () = self.names.changed() => self.refresh(),
                () = self.accounts.changed() => self.refresh(),
                () = self.names.settled() => {
                    let config = Arc::clone(&lock(&self.current).config);
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

    fn keep(&self, config: &Config, state: StateDir, known: Vec<u8>) -> TaskHandle<()> {
        let first = self.own.first().map_or_else(String::new, |id| config.servers[id.index()].name.clone());
        tokio::task::spawn_blocking(move || keep(&state, &first, &known))
    }
}

/// How long the answer to a push waits for the disk, which may hang.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes the pushed applications of a daemon from outside; copies change the same one.
#[derive(Clone)]
pub struct Pushes(pub(crate) Arc<Follower>);

impl Pushes {
    /// Replaces an owner's set, and keeps it; the caller has checked who asks, which `by` says for the log. Clients
    /// belong to its applications at once, also with requests that wait.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    pub fn put(&self, name: SetName, set: Set, by: String) -> BoxFuture<'_, Result<Put, Refusal>> {
        Box::pin(async move {
            let follower = Arc::clone(&self.0);
            // Indexing thousands of jobs takes milliseconds.
            let put = tokio::task::spawn_blocking(move || follower.put(&name, set, &by)).await;
            let put = put.unwrap_or_else(|_| Err(Refusal::Full("a bug in vpfs; its log says where".into())))?;
            self.keep().await;
            Ok(put)
        })
    }

    /// Removes a set; whether there was one. `by` says who asked for it.
    pub fn remove<'a>(&'a self, name: &'a SetName, by: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let removed = self.0.remove(name, by);
            if removed {
                self.keep().await;
            }
            removed
        })
    }

    /// All sets by name, and how long each still holds. O(applications).
    pub fn sets(&self) -> Vec<(SetName, SetText, Duration)> {
        let now = self.0.shared.clock.now();
        let current = lock(&self.0.current);
        current.sets.iter(now).map(|(name, text, left)| (name.clone(), text.clone(), left)).collect()
    }

    /// The file with the secret of an owner; `None` if the configuration does not have this owner.
    pub fn token_of(&self, owner: &str) -> Option<PathBuf> {
        let current = lock(&self.0.current);
        let found = current.config.owners.iter().find(|known| known.name == owner)?;
        Some(found.token.clone())
    }

    async fn keep(&self) {
        let follower = Arc::clone(&self.0);
        let writing = tokio::task::spawn_blocking(move || follower.sets_file.write(|| follower.sets_json()));
        let _ = tokio::time::timeout(PATIENCE, writing).await;
    }
}

/// How much is lost if the process is killed. What is written is a few KiB.
const EVERY: Duration = Duration::from_secs(60);

/// How long the end of a daemon waits for the files: their disk may hang.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    state: StateDir,
    /// By gate: the server's name and address, which do not change while a daemon runs.
    servers: Arc<[(String, String)]>,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>, state: StateDir, config: &Config) -> Self {
        let server = |index: usize| &config.servers[index];
        let servers = shared.gates.iter().map(|gate| server(gate.server().index()));
        let servers = servers.map(|server| (server.name.clone(), server.address.to_string())).collect();
        Self { shared, state, servers }
    }

    /// By the name of each server whose policy learns: what a file or a successor gets.
    pub(crate) fn contents(&self) -> Vec<(String, String)> {
        let of = |(gate, (name, address)): (&Arc<Gate>, &(String, String))| {
            let learned = gate.learned()?;
            Some((name.clone(), Known::of(address.clone(), &learned).content()))
        };
        self.shared.gates.iter().zip(&*self.servers).filter_map(of).collect()
    }

    /// Keeps it once a minute, for ever, if it has changed and there is a directory for it.
    pub(crate) async fn run(self) {
        let mut kept = self.contents();
        while self.state.is_there() {
            tokio::time::sleep(EVERY).await;
            let contents = self.contents();
            if contents != kept {
                kept.clone_from(&contents);
                // A disk that hangs holds up nothing but this.
                let _ = self.write(contents).await;
            }
        }
    }

    /// Keeps what is known now, while `until_done` runs, and returns the result of that; waits at most a second longer.
    pub(crate) async fn finish<R>(&self, until_done: impl Future<Output = R>) -> R {
        let writing = self.state.is_there().then(|| self.write(self.contents()));
        let result = until_done.await;
        if let Some(writing) = writing {
            let _ = tokio::time::timeout(KEEPER_PATIENCE, writing).await;
        }
        result
    }

    /// Writes the files in a thread that does not outlive the process; returns what tells of its end.
    fn write(&self, contents: Vec<(String, String)>) -> oneshot::Receiver<()> {
        let (done, writing) = oneshot::channel();
        let state = self.state.clone();
        thread::spawn(move || {
            contents.iter().for_each(|(name, content)| Known::write(&state, name, content));
            let _ = done.send(());
        });
        writing
    }
}

const LIMIT: u64 = 64 << 20;

pub(crate) struct SetsFile {
    state: StateDir,
    name: String,
    /// One writes at a time; others that find it busy leave it to that one.
    writing: Mutex<()>,
    is_due: AtomicBool,
}

impl SetsFile {
    pub(crate) fn new(state: StateDir, first: &str) -> Self {
        let (writing, is_due) = (Mutex::default(), AtomicBool::default());
        Self { state, name: format!("{first}.sets.json"), writing, is_due }
    }

    /// What the predecessor held, or else an earlier process. Nothing if it is damaged, which is logged. Blocks.
    pub(crate) fn read(&self, now: Time, inheritance: Option<&Inheritance>) -> Sets {
        let content = inheritance.and_then(Inheritance::sets).or_else(|| self.state.read(&self.name, LIMIT));
        let sets = content.map_or(Ok(Sets::default()), |content| Sets::from_json(now, &content));
        sets.unwrap_or_else(|error| {
            let file = &self.name;
            tracing::warn!(
                file,
                error,
                "the applications that an earlier process held are damaged; their owners have to push again"
            );
            Sets::default()
        })
    }

    pub(crate) fn write(&self, content: impl Fn() -> String) {
        self.is_due.store(true, Ordering::Release);
        while self.is_due.load(Ordering::Acquire) {
            let _writing = match self.writing.try_lock() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // It sees that more is due when it has written.
                Err(TryLockError::WouldBlock) => return,
            };
            if self.is_due.swap(false, Ordering::AcqRel) {
                self.state.write(&self.name, content().as_bytes());
            }
        }
    }
}
