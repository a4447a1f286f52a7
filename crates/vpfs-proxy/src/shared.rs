//! What all connections of a daemon share.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use vpfs_config::{Account, AppTable, Client, Config, HostSet, Identify, Identity, Program, PushedApps};
use vpfs_core::{AppId, OpKind, PolicyKind};
use vpfs_protocol::session::Requester;

use crate::clock::Clock;
use crate::gate::{Gate, Origin};
use crate::handover::Handed;
use crate::hosts::{ConnectionPermits, Hosts};
use crate::memory::{DaemonLimits, Memory};

/// The stage in the life of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// New connections and requests are accepted.
    Serving,
    /// Connections are handed over to the process that succeeds this one, each as soon as nothing is in progress on it.
    HandingOver,
    /// Operations in progress may finish, no new ones start.
    Draining,
    /// Every connection is closed.
    Stopped,
}

/// Returns when the daemon is at this stage or beyond it.
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
    /// Where connections go while they are handed over.
    successor: Mutex<Option<UnboundedSender<Handed>>>,
    rules: RwLock<Arc<Rules>>,
    /// Counts replacements of `rules`, so that connections notice without a lock.
    generation: AtomicU64,
    apps: Mutex<AppTable>,
    unmapped: Warned,
    unknown_servers: Warned,
}

/// The part of the state that a reload replaces.
pub(crate) struct Rules {
    identify: Identify,
    /// Where requests between servers come from.
    servers: HostSet,
    /// Whether clients may administer servers.
    may_manage: bool,
    /// [`Config::fingerprint`].
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

    /// The rules of a configuration without host names.
    #[cfg(test)]
    pub(crate) fn resolved(config: &Config) -> Self {
        Self::new(config, Arc::default(), &|_| Vec::new(), &|_| None)
    }

    /// Who connects from this address.
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

    /// Whether the log has not warned of `what` yet.
    fn is_news(&self, what: &str) -> bool {
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Grows with every replacement of the rules.
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
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether operations are no longer waited for: the daemon drains, or has stopped.
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
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner) = successor;
    }

    /// Hands a connection over.
    pub(crate) fn give(&self, handed: Handed) {
        let successor = self.successor.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(successor) = successor.as_ref() else { return handed.end() };
        if let Err(rejected) = successor.send(handed) {
            rejected.0.end();
        }
    }

    /// Warns once for each address that clients will bypass vpfs.
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

    /// Warns once for each address that requests from there are not believed to be a server's.
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

#[cfg(test)]
mod tests {
    use vpfs_config::sets::{AppText, Set, SetName, SetText, Sets};
    use vpfs_core::Objects;
    use vpfs_node::Served;
    use vpfs_protocol::session::{OpId, Submission};

    use super::*;
    use crate::gate::{Belonging, Mailbox, Ticket};

    /// These jobs run, each on a host of its own.
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

    /// A job reads something.
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
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
        let config = Config::parse("test", text).unwrap();
        let (apps, clock) = (AppTable::new(&config), Clock::start());
        let gate = Arc::new(Gate::alone(clock.clone(), &config, &apps));
        let shared = Shared::new(clock, vec![gate], Rules::resolved(&config), apps);
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
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
        let config = Config::parse("test", text).unwrap();
        let (apps, clock) = (AppTable::new(&config), Clock::start());
        let gate = Arc::new(Gate::alone(clock.clone(), &config, &apps));
        let shared = Shared::new(clock, vec![gate], Rules::resolved(&config), apps);
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
}
