//! What all connections of a daemon share.
//! Among it are the rules by which the client of a connection is identified.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use vpfs_config::{Account, AppTable, Client, Config, HostSet, Identify, Identity, Program, PushedApps};
use vpfs_core::{AppId, OpKind, PolicyKind, Time};
use vpfs_protocol::session::{Requester, User};

use crate::clock::Clock;
use crate::event_log::Kind;
use crate::gate::{Belonging, Gate, Origin};
use crate::handover::Handed;
use crate::hosts::{ConnectionPermits, Host, Hosts};
use crate::lock;
use crate::memory::{DaemonLimits, Memory};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// Connections are handed over to the process that succeeds this one, each as soon as nothing is in progress on it.
    HandingOver,
    Draining,
    Stopped,
}

pub(crate) async fn reached(stage: &mut watch::Receiver<Stage>, at_least: Stage) {
    // The sender is part of the state that the caller shares.
    let _ = stage.wait_for(|stage| *stage >= at_least).await;
}

/// State of the daemon that outlives a connection.
///
/// Locks are taken in this order: applications, then rules or a gate.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) gates: Vec<Arc<Gate>>,
    pub(crate) hosts: Hosts,
    pub(crate) memory: Arc<Memory>,
    stage: watch::Sender<Stage>,
    successor: Mutex<Option<UnboundedSender<Handed>>>,
    rules: RwLock<Arc<Rules>>,
    /// Counts replacements of `rules`, so that connections notice without a lock.
    generation: AtomicU64,
    apps: Mutex<AppTable>,
    unmapped: Warned,
    unknown_servers: Warned,
}

pub(crate) struct Rules {
    identify: Identify,
    servers: HostSet,
    may_manage: bool,
    pub(crate) fingerprint: u64,
    /// The policy that holds nothing, if requests only pass.
    pub(crate) observed: Option<PolicyKind>,
    pub(crate) limits: DaemonLimits,
}

impl Rules {
    /// The rules of a configuration and of pushed applications; `known` has the addresses of each host name, or none,
    /// and `accounts` the id of each user and group.
    pub(crate) fn new(
        config: &Config,
        pushed: Arc<PushedApps>,
        known: &dyn Fn(&str) -> Vec<IpAddr>,
        accounts: &dyn Fn(&Account) -> Option<u32>,
    ) -> Self {
        Self {
            identify: config.resolve_with(known, accounts).with(pushed),
            servers: config.resolve_servers(known),
            may_manage: config.trust.may_manage,
            fingerprint: config.fingerprint(),
            observed: config.scheduler.observed,
            limits: (&config.limits).into(),
        }
    }

    #[cfg(test)]
    pub(crate) fn resolved(config: &Config) -> Self {
        Self::new(config, Arc::default(), &|_| Vec::new(), &|_| None)
    }

    pub(crate) fn requester(&self, ip: IpAddr) -> Requester {
        let may_manage = self.may_manage;
        if self.servers.contains(ip) { Requester::Server } else { Requester::Client { may_manage } }
    }
}

/// What the log has warned of, so that it does so once; it stops at a thousand.
#[derive(Default)]
struct Warned(Mutex<Vec<String>>);

impl Warned {
    const MAX: usize = 1000;

    fn is_news(&self, what: &str) -> bool {
        let mut warned = lock(&self.0);
        let is_news = warned.len() < Self::MAX && !warned.iter().any(|known| known == what);
        if is_news {
            warned.push(what.to_owned());
        }
        is_news
    }
}

impl Shared {
    pub(crate) fn new(clock: Clock, gates: Vec<Arc<Gate>>, rules: Rules, apps: AppTable) -> Self {
        Self {
            clock,
            gates,
            hosts: Hosts::default(),
            memory: Arc::new(Memory::new(rules.limits.memory, rules.limits.host_memory)),
            stage: watch::Sender::new(Stage::Serving),
            successor: Mutex::default(),
            rules: RwLock::new(Arc::new(rules)),
            generation: AtomicU64::new(0),
            apps: Mutex::new(apps),
            unmapped: Warned::default(),
            unknown_servers: Warned::default(),
        }
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Switches to new rules, also for requests that wait; `update` updates the applications and the gates first.
    pub(crate) fn replace(&self, rules: Rules, update: impl FnOnce(&mut AppTable, &[Arc<Gate>])) {
        let mut apps = self.apps();
        update(&mut apps, &self.gates);
        self.memory.set_limits(rules.limits.memory, rules.limits.host_memory, &self.hosts.all());
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.generation.fetch_add(1, Ordering::Release);
        drop(apps);
        self.gates.iter().for_each(|gate| gate.reassign_all(|origin, op| self.assign(origin, op)));
    }

    /// Forgets pushed applications that have been gone for the time of `rest`, as far as they have no requests, so that
    /// others can have their ids, and their places in metrics.
    pub(crate) fn recycle(&self, rest: Duration) {
        let mut apps = self.apps();
        for app in apps.retired(self.clock.now(), rest) {
            if self.gates.iter().all(|gate| gate.is_idle_for(app)) {
                self.gates.iter().for_each(|gate| gate.forget_app(app));
                apps.recycle(app);
            }
        }
        for app in apps.show_more() {
            self.gates.iter().for_each(|gate| gate.set_other(app, false));
        }
    }

    pub(crate) fn apps(&self) -> MutexGuard<'_, AppTable> {
        lock(&self.apps)
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.stage.borrow() >= Stage::Draining
    }

    pub(crate) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Waits until all connections have ended as the stage demands, and cuts off those for which that takes longer than
    /// `limits.drain_timeout`. Returns their number.
    pub(crate) async fn end_connections(&self, permits: &ConnectionPermits) -> usize {
        let patience = self.rules().limits.drain_timeout;
        // The number of remaining connections reveals whether the time was enough.
        let _ = tokio::time::timeout(patience, permits.all_free()).await;
        let cut_off = permits.taken();
        self.enter(Stage::Stopped);
        permits.all_free().await;
        cut_off
    }

    /// Sets where connections go; with `None`, those that are still given away end with a reset.
    pub(crate) fn set_successor(&self, successor: Option<UnboundedSender<Handed>>) {
        *lock(&self.successor) = successor;
    }

    pub(crate) fn give(&self, handed: Handed) {
        let successor = lock(&self.successor);
        let Some(successor) = successor.as_ref() else { return handed.end() };
        if let Err(rejected) = successor.send(handed) {
            rejected.0.end();
        }
    }

    pub(crate) fn warn_unmapped(&self, address: &str) {
        if !self.unmapped.is_news(address) {
            return;
        }
        if vpfs_config::Address::parse(address).is_err() {
            tracing::warn!(
                %address,
                "a server has an address that vpfs cannot proxy; clients that use it bypass vpfs"
            );
        } else {
            tracing::error!(
                %address,
                "the file system has a server that the configuration does not name: clients reach it around vpfs, \
                 or refuse to mount; add a [[server]] with exactly this address"
            );
        }
    }

    pub(crate) fn warn_unknown_server(&self, ip: IpAddr) {
        if self.unknown_servers.is_news(&ip.to_string()) {
            tracing::warn!(
                address = %ip,
                "sends requests as only servers do, but is not known as a server: they are scheduled and charged like \
                 a client's, and operations that wait for them inside a server wait as well; if it is a server, add \
                 all its addresses to trust.servers, otherwise find out who pretends to be one"
            );
        }
    }

    /// The application of a client's request; a new one is announced to all gates.
    pub(crate) fn assign(&self, Origin { ip, listener, user }: &Origin, op: OpKind) -> AppId {
        let (listener, ip, user) = (*listener, *ip, user.as_deref());
        let (uid, gids) = user.map_or((None, &[][..]), |user| (Some(user.uid), &user.gids));
        let machine = user.map_or("", |user| &user.machine[..]);
        self.find(&ip, |rules| rules.identify.identify(&Client { listener, ip, uid, gids, machine, op }))
    }

    /// The application of a program on this host; a new one is announced to all gates.
    pub(crate) fn assign_program(&self, program: &Program<'_>) -> AppId {
        self.find(&format_args!("uid {}", program.uid), |rules| rules.identify.identify_program(program))
    }

    fn find(&self, client: &dyn std::fmt::Display, identify: impl FnOnce(&Rules) -> Identity) -> AppId {
        // The rules are read under this lock, so that both belong to the same configuration.
        let mut apps = self.apps();
        let (app, is_new) = apps.assign(identify(&self.rules()));
        let entry = if is_new { apps.get(app).cloned() } else { None };
        if let Some(entry) = &entry {
            for gate in &self.gates {
                gate.set_app(app, entry);
                gate.set_other(app, !apps.is_shown(app));
            }
        }
        drop(apps);
        if let Some(entry) = entry {
            tracing::info!(app = %entry.name, weight = entry.policy.weight.get(), %client, "new application");
        }
        app
    }
}

/// Identifies the client of one connection.
///
/// Requests that state no user are attributed to the user that another connection from the same host stated last.
pub(crate) struct ClientIdentity {
    ip: IpAddr,
    listener: usize,
    host: Arc<Host>,
    /// Of the rules by which the applications below were found.
    generation: u64,
    known: [Known; 3],
}

#[derive(Default)]
struct Known {
    latest: Option<(Arc<User>, Belonging)>,
    apps: HashMap<Arc<User>, Belonging>,
    /// The application of requests without a user, and the changes of the host's user that it is based on.
    unstated: Option<(u64, Belonging)>,
}

/// The number of users of one connection to remember: those of a busy login node.
const USERS: usize = 256;

impl ClientIdentity {
    pub(crate) fn new(shared: &Shared, ip: IpAddr, listener: usize) -> Self {
        // A dual-stack socket reports ::ffff:10.1.2.3 for the host that others report as 10.1.2.3.
        let ip = ip.to_canonical();
        let host = shared.hosts.get(ip);
        Self { ip, listener, host, generation: shared.generation(), known: Default::default() }
    }

    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.host
    }

    pub(crate) fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Tells, once a minute for each host, that a client repeated a request that waited for its turn.
    pub(crate) fn tell_repeated(&self, now: Time, server: &str) {
        if let Some(suppressed) = self.host.log.due(Kind::HeldForTooLong, now) {
            tracing::warn!(
                server,
                client = %self.ip,
                suppressed,
                "a request waited for longer than limits.max_hold, and its client repeated it; it keeps its place. Clients \
                 give up after a few repetitions: raise the application's cap or weight, or limits.client_timeout"
            );
        }
    }

    pub(crate) fn app(&mut self, shared: &Shared, user: Option<&Arc<User>>, op: OpKind) -> Belonging {
        let generation = shared.generation();
        if generation != self.generation {
            self.generation = generation;
            self.known = Default::default();
        }
        match user {
            Some(user) => self.of_user(shared, user, op),
            None => self.of_host(shared, op),
        }
    }

    fn of_user(&mut self, shared: &Shared, user: &Arc<User>, op: OpKind) -> Belonging {
        // Usually the same allocation.
        if let Some((latest, found)) = &self.known[op as usize].latest
            && Arc::ptr_eq(latest, user)
        {
            return found.clone();
        }
        self.host.show(user);
        let found = match self.known[op as usize].apps.get(user) {
            Some(found) => found.clone(),
            None => {
                let found = self.find(shared, Some(Arc::clone(user)), op);
                let apps = &mut self.known[op as usize].apps;
                if apps.len() >= USERS {
                    apps.clear();
                }
                apps.insert(Arc::clone(user), found.clone());
                found
            }
        };
        self.known[op as usize].latest = Some((Arc::clone(user), found.clone()));
        found
    }

    fn of_host(&mut self, shared: &Shared, op: OpKind) -> Belonging {
        let changes = self.host.changes();
        match &self.known[op as usize].unstated {
            Some((known, found)) if *known == changes => found.clone(),
            _ => {
                let found = self.find(shared, self.host.shown(), op);
                self.known[op as usize].unstated = Some((changes, found.clone()));
                found
            }
        }
    }

    fn find(&self, shared: &Shared, user: Option<Arc<User>>, op: OpKind) -> Belonging {
        let origin = Origin { ip: self.ip, listener: self.listener, user };
        Belonging { app: shared.assign(&origin, op), origin: Arc::new(origin) }
    }

    pub(crate) fn is_outdated(&self, shared: &Shared) -> bool {
        shared.generation() != self.generation
    }
}

#[cfg(test)]
mod tests {
    use vpfs_config::sets::{AppText, Set, SetName, SetText, Sets};
    use vpfs_core::Objects;
    use vpfs_node::Served;
    use vpfs_protocol::session::{OpId, Submission};

    use super::*;
    use crate::gate::{Mailbox, Ticket};

    fn push(shared: &Shared, config: &Config, jobs: impl Iterator<Item = u32>) {
        let app = |job: u32| AppText {
            name: job.to_string(),
            clients: vec![host(job).to_string()],
            account: Some("physics".into()),
            ..AppText::default()
        };
        let set = Set::check(SetText { version: 1, ttl: "1h".into(), apps: jobs.map(app).collect() }).unwrap();
        let mut sets = Sets::default();
        sets.put(shared.clock.now(), SetName::parse("slurm").unwrap(), set).unwrap();
        let pushed = sets.apps(&[]);
        let rules = Rules::new(config, Arc::clone(&pushed), &|_| Vec::new(), &|_| None);
        shared.replace(rules, |apps, _| drop(apps.push(shared.clock.now(), pushed)));
    }

    fn host(job: u32) -> IpAddr {
        IpAddr::from([10, 0, u8::try_from(job / 250).unwrap(), u8::try_from(job % 250).unwrap()])
    }

    fn origin(job: u32) -> Origin {
        Origin { ip: host(job), listener: 0, user: None }
    }

    fn read(shared: &Shared, job: u32) {
        let (ticket, gate) = (Arc::new(Ticket::default()), &shared.gates[0]);
        let app = shared.assign(&origin(job), OpKind::Read);
        let request = gate.enqueue_program(&ticket, app, OpKind::Read, 4096);
        let now = gate.now();
        gate.complete_program(request, &Served::new(OpKind::Read, now, now));
    }

    /// Symptom: after 130 jobs had come and gone, 20 running ones had no metrics of their own, and the sum of all
    /// others was a counter that fell. Cause: the first hundred ids had them, also of jobs that were gone, and what
    /// those of the sum got was forgotten with them. Proof: also after thousands, and of many at a time, those that run
    /// are shown, and no sum falls.
    #[tokio::test(start_paused = true)]
    async fn jobs_that_run_have_metrics_of_their_own_and_no_count_falls() {
        let (config, shared) = (config(LISTENER), shared(""));
        let mut others = 0;
        let mut look = |shared: &Shared| {
            let snapshot = shared.gates[0].snapshot();
            let sum = snapshot.others.map_or(0, |seen| seen.account.read.requests);
            assert!(sum >= others, "{sum} after {others}");
            others = sum;
            let shown = snapshot.apps.iter().filter(|seen| !seen.is_other && seen.account.read.requests > 0);
            let shown: Vec<_> = shown.map(|seen| (seen.app, seen.account.read.requests)).collect();
            (sum, shown.iter().map(|(_, requests)| requests).sum::<u64>(), shown.len())
        };
        push(&shared, &config, 0..300);
        (0..300).for_each(|job| read(&shared, job));
        assert_eq!(look(&shared), (100, 200, 200));
        push(&shared, &config, 280..300);
        shared.recycle(Duration::from_secs(60));
        (280..300).for_each(|job| read(&shared, job));
        assert_eq!(look(&shared), (100, 200 + 40, 220), "those that were not shown are, with all that they read");
        tokio::time::advance(Duration::from_secs(60)).await;
        shared.recycle(Duration::from_secs(60));
        assert_eq!(look(&shared), (100, 40, 20), "the others are gone");
        for turn in 0..30 {
            let jobs = || (300 + turn * 100)..(300 + turn * 100 + 150);
            push(&shared, &config, jobs());
            jobs().for_each(|job| read(&shared, job));
            look(&shared);
            tokio::time::advance(Duration::from_secs(20)).await;
            shared.recycle(Duration::from_secs(60));
            assert!(look(&shared).2 <= 2 * AppTable::PUSHED_SHOWN);
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        push(&shared, &config, 9000..9020);
        shared.recycle(Duration::from_secs(60));
        (9000..9020).for_each(|job| read(&shared, job));
        let apps = shared.apps();
        assert!((9000..9020).all(|job| apps.find(&format!("slurm:{job}")).is_some_and(|app| apps.is_shown(app))));
    }

    /// Each job has an id, and a cluster runs thousands each day.
    #[tokio::test(start_paused = true)]
    async fn jobs_without_number_take_no_memory_without_bound() {
        let (config, shared) = (config(LISTENER), shared(""));
        let rest = Duration::from_secs(60);
        push(&shared, &config, 0..1);
        let busy = shared.assign(&origin(0), OpKind::Read);
        let belonging = Belonging { app: busy, origin: Arc::new(origin(0)) };
        let mailbox = Arc::new(Mailbox::default());
        let submission = Submission {
            kind: OpKind::Metadata,
            cost: vpfs_core::Bytes::ZERO,
            objects: Objects::ONE,
            position: None,
            elsewhere: None,
            piece: None,
            may_be_left: false,
            user: None,
        };
        let op = OpId { index: 0, serial: 0 };
        let request = shared.gates[0].enqueue((&mailbox, op), belonging, &submission);
        for job in 1..1000 {
            push(&shared, &config, job..job + 1);
            let app = shared.assign(&origin(job), OpKind::Read);
            assert_eq!(shared.apps().get(app).unwrap().name, format!("slurm:{job}"));
            assert_ne!(app, busy, "it has a request that has not ended");
            tokio::time::advance(Duration::from_secs(20)).await;
            shared.recycle(rest);
        }
        assert!(shared.apps().len() < 10, "{}", shared.apps().len());
        shared.gates[0].cancel(request);
        shared.recycle(rest);
        assert!(!shared.apps().retired(shared.clock.now(), rest).contains(&busy));
    }

    const NETWORK: &str = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n";

    const LISTENER: &str = "[[listener]]\nport = 5334\n";

    fn config(text: &str) -> Config {
        Config::parse("test", &format!("{NETWORK}{text}")).unwrap()
    }

    fn shared(text: &str) -> Shared {
        let config = config(&format!("{LISTENER}{text}"));
        let (apps, clock) = (AppTable::new(&config), Clock::start());
        let gate = Arc::new(Gate::alone(clock.clone(), &config, &apps));
        Shared::new(clock, vec![gate], Rules::resolved(&config), apps)
    }

    fn name(shared: &Shared, client: &mut ClientIdentity) -> String {
        name_of(shared, client, None)
    }

    fn name_of(shared: &Shared, client: &mut ClientIdentity, user: Option<&Arc<User>>) -> String {
        let app = client.app(shared, user, OpKind::Read).app;
        shared.apps().get(app).unwrap().name.clone()
    }

    fn client(shared: &Shared, ip: &str) -> ClientIdentity {
        ClientIdentity::new(shared, ip.parse().unwrap(), 0)
    }

    fn user(uid: u32) -> Arc<User> {
        Arc::new(User { uid, gids: vec![uid], ..User::default() })
    }

    const BY_USER: &str = "[[app]]\nname = \"a\"\nuids = 1\n[[app]]\nname = \"b\"\nuids = 2\n[apps]\nauto = \"off\"\n";

    #[test]
    fn a_connection_without_credentials_follows_its_host() {
        let shared = shared(BY_USER);
        let mut metadata = client(&shared, "10.0.0.1");
        let mut data = client(&shared, "::ffff:10.0.0.1");
        let mut elsewhere = client(&shared, "10.0.0.2");
        assert_eq!(name(&shared, &mut data), "other");
        metadata.app(&shared, Some(&user(1)), OpKind::Metadata);
        assert_eq!(name(&shared, &mut data), "a");
        // Symptom: the data of all users of a host was attributed to the first one. Cause: the first user found was
        // kept for the life of the connection.
        metadata.app(&shared, Some(&user(2)), OpKind::Metadata);
        assert_eq!(name(&shared, &mut data), "b");
        assert_eq!(name(&shared, &mut elsewhere), "other");
    }

    /// Symptom: each change of the user looked up the application again, under the lock of all. Cause: only the latest
    /// one was remembered. Users take turns on a connection of a host's kernel client.
    #[test]
    fn users_who_take_turns_are_looked_up_once() {
        let shared = shared(BY_USER);
        let mut clients = [client(&shared, "10.0.0.1"), client(&shared, "10.0.0.1")];
        let users = [(user(1), "a"), (user(2), "b")];
        for _ in 0..2 {
            for client in &mut clients {
                users.iter().for_each(|(user, app)| assert_eq!(name_of(&shared, client, Some(user)), *app));
            }
        }
        assert_eq!(clients[0].known[OpKind::Read as usize].apps.len(), 2);
    }

    /// A storm of lookups has a share of its own, for any user and whatever else that user does.
    #[test]
    fn requests_of_one_client_belong_to_applications_by_what_they_do() {
        let shared = shared("[[app]]\nname = \"storm\"\noperations = \"metadata\"\n[apps]\nauto = \"off\"\n");
        let mut client = client(&shared, "10.0.0.1");
        let mut app = |user, op| {
            let app = client.app(&shared, user, op).app;
            shared.apps().get(app).unwrap().name.clone()
        };
        for user in [None, Some(&user(1))] {
            let names = [OpKind::Read, OpKind::Metadata, OpKind::Write].map(|op| app(user, op));
            assert_eq!(names, ["other", "storm", "other"]);
        }
    }

    #[test]
    fn users_without_number_take_no_memory_without_bound() {
        let shared = shared(BY_USER);
        let mut client = client(&shared, "10.0.0.1");
        for uid in 0..3 * u32::try_from(USERS).unwrap() {
            let expected = ["other", "a", "b", "other"][usize::try_from(uid.min(3)).unwrap()];
            assert_eq!(name_of(&shared, &mut client, Some(&user(uid))), expected);
            assert!(client.known[OpKind::Read as usize].apps.len() <= USERS);
        }
    }

    #[test]
    fn new_rules_apply_to_known_clients() {
        let shared = shared("[[app]]\nname = \"a\"\nclients = \"10.0.0.1\"\n");
        let mut client = client(&shared, "10.0.0.1");
        assert_eq!(name(&shared, &mut client), "a");
        let newer = config(&format!("{LISTENER}[[app]]\nname = \"b\"\nclients = \"10.0.0.0/8\"\n"));
        shared.replace(Rules::resolved(&newer), |apps, _| drop(apps.reload(&newer)));
        assert_eq!(name(&shared, &mut client), "b");
    }

    /// Symptom: after a reload that put an application before another one in the file, clients of a listener bound to
    /// the latter were attributed to the former. Cause: the listener kept the position of its application in the older
    /// file.
    #[test]
    fn a_listeners_application_is_looked_up_in_the_newer_file() {
        let listener = "[[listener]]\nport = 5334\napp = \"a\"\n";
        let older = config(&format!("{listener}[[app]]\nname = \"a\"\n"));
        let (apps, clock) = (AppTable::new(&older), Clock::start());
        let shared = Shared::new(clock, Vec::new(), Rules::resolved(&older), apps);
        let mut client = client(&shared, "10.0.0.1");
        assert_eq!(name(&shared, &mut client), "a");
        let newer = config(&format!("{listener}[[app]]\nname = \"b\"\nuids = 0\n[[app]]\nname = \"a\"\n"));
        shared.replace(Rules::resolved(&newer), |apps, _| drop(apps.reload(&newer)));
        assert_eq!(name(&shared, &mut client), "a");
    }
}
