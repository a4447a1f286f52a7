//! Host names: looked up in the background, never waited for (docs/decisions/0009-operation.md).
//!
//! [`Table`] decides what is looked up when, [`Names::run`] does it, and [`wanted`] lists the names of a configuration.
//! Each change of addresses goes to the daemon's [`Follower`](crate::daemon::Follower).

mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fmt, io, thread};

use futures_util::future::{BoxFuture, FutureExt};
use nix::unistd::{Group, User as SystemUser};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use vpfs_config::{Account, Config};
use vpfs_core::ServerId;

use table::Table;

use crate::clock::Clock;
use crate::lock;
use crate::state_dir::StateDir;

/// The address of a server to which connections are opened is not older than this when the next one is opened.
const IN_USE: Duration = Duration::from_secs(2);

/// What a daemon has around it: how it finds addresses, and where it keeps what outlives it.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Looks host names up.
    pub resolver: Resolver,
    /// For files that outlive the daemon.
    pub state: StateDir,
}

/// The addresses of all host names of a configuration. Copies share them.
#[derive(Clone)]
pub(crate) struct Names(Arc<Inner>);

struct Inner {
    clock: Clock,
    resolver: Resolver,
    table: Mutex<Table>,
    wake: Notify,
    answers: watch::Sender<u64>,
    changed: Notify,
    settled: Notify,
}

impl Names {
    pub(crate) fn new(clock: Clock, resolver: Resolver, state: &StateDir, own: &str) -> Self {
        let table = Mutex::new(Table::new(read_kept(state, own)));
        let (wake, changed, settled) = (Notify::new(), Notify::new(), Notify::new());
        Self(Arc::new(Inner { clock, resolver, table, wake, answers: watch::Sender::new(0), changed, settled }))
    }

    #[cfg(test)]
    pub(crate) fn unknown(clock: &Clock) -> Self {
        Self::new(clock.clone(), Resolver::default(), &StateDir::default(), "")
    }

    /// The names of this configuration are looked up from now on, at once and now and then.
    pub(crate) fn want(&self, config: &Config, own: &[ServerId]) {
        lock(&self.0.table).want(self.0.clock.now(), wanted_of(config, own));
        self.0.wake.notify_one();
    }

    pub(crate) fn known(&self, host: &str) -> Vec<IpAddr> {
        host.parse().map_or_else(|_| lock(&self.0.table).addresses(host).to_vec(), |ip| vec![ip])
    }

    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Waits until it is time to report, and to keep what is known. For one task.
    pub(crate) async fn settled(&self) {
        self.0.settled.notified().await;
    }

    /// Which names of this configuration have no address, or only an earlier one.
    pub(crate) fn findings(&self, config: &Config, own: &[ServerId]) -> Findings {
        Findings::of(config, own, &lock(&self.0.table))
    }

    pub(crate) fn to_keep(&self) -> Vec<u8> {
        content(&lock(&self.0.table))
    }

    pub(crate) async fn run(self) {
        let mut lookups = JoinSet::new();
        loop {
            let due = self.start_lookups(&mut lookups);
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(Ok((name, answer))) = lookups.join_next() => self.answered(&name, answer),
                () = timer => {}
                () = self.0.wake.notified() => {}
            }
        }
    }

    fn start_lookups(&self, lookups: &mut JoinSet<(String, io::Result<Vec<IpAddr>>)>) -> Option<Instant> {
        let now = self.0.clock.now();
        let mut table = lock(&self.0.table);
        while let Some(name) = table.poll_lookup(now) {
            let lookup = self.0.resolver.look_up(name.clone());
            lookups.spawn(async move { (name, lookup.await) }.boxed());
        }
        if table.take_changed(now) {
            self.0.changed.notify_one();
        }
        if table.take_settled(now) {
            self.0.settled.notify_one();
        }
        table.poll_timeout().map(|due| self.0.clock.instant(due))
    }

    fn answered(&self, name: &str, answer: io::Result<Vec<IpAddr>>) {
        lock(&self.0.table).answered(self.0.clock.now(), name, answer.map_err(|error| error.to_string()));
        self.0.answers.send_modify(|count| *count += 1);
    }

    async fn wait<T>(&self, answer: impl Fn(&Table) -> Option<T>) -> T {
        let mut answers = self.0.answers.subscribe();
        loop {
            answers.borrow_and_update();
            let answer = answer(&lock(&self.0.table));
            if let Some(answer) = answer {
                return answer;
            }
            // The sender is part of this.
            let _ = answers.changed().await;
        }
    }

    /// The addresses of a host to listen at: looked up in this process if that succeeds before `until`, or else those
    /// that it had last; an error says why there are none.
    pub(crate) async fn local(&self, host: &str, until: Instant) -> io::Result<Vec<IpAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![ip]);
        }
        let current = self.wait(|table| table.is_current(host).then_some(()));
        // Without a current answer, an earlier one is better than none.
        let _ = tokio::time::timeout_at(until, current).await;
        match lock(&self.0.table).answer(host) {
            Some(Ok(addresses)) => Ok(addresses.to_vec()),
            Some(Err(reason)) => Err(unresolved(host, reason)),
            None => Err(unresolved(host, NO_ANSWER)),
        }
    }

    pub(crate) async fn some_time(&self, host: &str) -> Vec<IpAddr> {
        if let Ok(ip) = host.parse() {
            return vec![ip];
        }
        self.wait(|table| Some(table.addresses(host).to_vec()).filter(|addresses| !addresses.is_empty())).await
    }

    /// The addresses to connect to: those that a host had last, while it is looked up again; if it has none yet, waits
    /// for the answer. So a name server that fails affects no connection to a host that was found before.
    pub(crate) async fn in_use(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![ip]);
        }
        lock(&self.0.table).hurry(self.0.clock.now(), host, IN_USE);
        self.0.wake.notify_one();
        let answer = |table: &Table| {
            Some(match table.answer(host)? {
                Ok(addresses) => Ok(addresses.to_vec()),
                Err(reason) => Err(unresolved(host, reason)),
            })
        };
        self.wait(answer).await
    }
}

/// Why a name has no address as long as its look-up has not ended.
const NO_ANSWER: &str = "no answer yet";

fn unresolved(host: &str, reason: &str) -> io::Error {
    io::Error::other(format!("{host} can't be resolved: {reason}"))
}

/// Looks up all names that these servers' proxies need, for at most ten seconds. Returns their number, and a line about
/// each application, list or group of servers for which some are missing, and about each user and group.
pub fn check_names<'a>(
    config: &'a Config,
    servers: &'a [ServerId],
    resolver: Resolver,
) -> BoxFuture<'a, (usize, Vec<String>)> {
    Box::pin(async move {
        let names = Names::new(Clock::start(), resolver, &StateDir::default(), "");
        names.want(config, servers);
        tokio::select! {
            () = names.clone().run() => {}
            () = names.settled() => {}
        }
        let missing = missing(config, servers, &lock(&names.0.table));
        let mut missing: Vec<String> = missing.into_iter().map(|line| line.text).collect();
        missing.extend(check(config).await);
        (wanted_of(config, servers).len(), missing)
    })
}

/// Names of rules and of `trust.servers`, of servers (nobody connects to a mount), and of addresses to listen at and of
/// peers.
fn wanted_of(config: &Config, own: &[ServerId]) -> BTreeSet<String> {
    let mut hosts: Vec<String> = config.unresolved().map(|(name, _)| name.to_owned()).collect();
    let is_needed = |id: &ServerId| config.trust.servers.is_none() || own.contains(id);
    let servers = config.servers().filter(|(id, server)| is_needed(id) && !server.is_mount());
    hosts.extend(servers.map(|(_, server)| server.address.host().to_owned()));
    hosts.extend(config.listeners.iter().flat_map(|listener| own.iter().map(|&id| listener.bind_address(id).0)));
    if let Some(peers) = &config.peers {
        hosts.extend(peers.addresses.iter().map(|(host, _)| host.clone()));
    }
    hosts.into_iter().filter(|host| host.parse::<IpAddr>().is_err()).collect()
}

type Answer = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks host names up. The default is the system's way, as configured in `/etc/nsswitch.conf`.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn(String) -> Answer + Send + Sync>);

impl Resolver {
    /// A resolver for tests.
    pub fn new<F>(look_up: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        Self(Arc::new(move |name| Box::pin(look_up(name))))
    }

    /// The addresses of a name. Dropping this does not stop the look-up.
    pub fn look_up(&self, name: String) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + use<> {
        (self.0)(name)
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self::new(by_system)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// `getaddrinfo` in a thread of its own. It cannot be interrupted, so the thread is left alone if nobody waits for the
/// answer any more: neither a runtime nor the end of the process waits for it, as they would for tokio's own threads.
async fn by_system(name: String) -> io::Result<Vec<IpAddr>> {
    let (answer, answered) = oneshot::channel();
    thread::Builder::new().name("name look-up".into()).spawn(move || {
        let found = (name.as_str(), 0).to_socket_addrs();
        // The one that asked may be gone.
        let _ = answer.send(found.map(|found| found.map(|address: SocketAddr| address.ip()).collect::<Vec<_>>()));
    })?;
    let mut addresses = answered.await.map_err(io::Error::other)?.map_err(|error| without_preamble(&error))?;
    addresses.dedup();
    Ok(addresses)
}

/// What every error of the standard library begins with says nothing that our messages do not.
fn without_preamble(error: &io::Error) -> io::Error {
    let text = error.to_string();
    io::Error::other(text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_owned())
}

/// Changes when an older program could not read the file.
const FORMAT: u32 = 1;

/// More than the largest file that is written: 65,536 names that are as long as a name can be.
const LIMIT: u64 = 32 << 20;

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    names: BTreeMap<String, Vec<IpAddr>>,
}

fn file(own: &str) -> String {
    format!("{own}.names.json")
}

/// What the last process kept; nothing if there is no such file, or if it is damaged, which is logged.
fn read_kept(state: &StateDir, own: &str) -> BTreeMap<String, Vec<IpAddr>> {
    let Some(bytes) = state.read(&file(own), LIMIT) else { return BTreeMap::new() };
    match serde_json::from_slice::<Kept>(&bytes) {
        Ok(Kept { format: FORMAT, names }) => names,
        Ok(Kept { format, .. }) => {
            tracing::info!(file = file(own), format, "addresses saved by another version of vpfs are ignored");
            BTreeMap::new()
        }
        Err(error) => {
            tracing::warn!(file = file(own), %error, "the addresses saved by an earlier process are damaged; ignored");
            BTreeMap::new()
        }
    }
}

fn content(table: &Table) -> Vec<u8> {
    let names = table.known().map(|(name, addresses)| (name.to_owned(), addresses.to_vec())).collect();
    serde_json::to_vec(&Kept { format: FORMAT, names }).expect("a map with text as keys is JSON")
}

pub(crate) fn keep(state: &StateDir, own: &str, content: &[u8]) {
    state.write(&file(own), content);
}

const LIST_MAX: usize = 60;

struct Line {
    /// What lacks them: an application or a setting.
    subject: String,
    missing: usize,
    text: String,
}

fn missing(config: &Config, own: &[ServerId], table: &Table) -> Vec<Line> {
    let listed = |key: &str| config.setting(key).unwrap_or_default();
    let mut lines = Vec::new();
    for app in &config.apps {
        let clients = app.rules().filter_map(|rule| rule.clients.as_ref());
        let names = clients.flat_map(|clients| &clients.names).map(|(name, _)| name.as_str());
        let list = listed(&format!("app.{}.clients", app.name));
        let effect = "its rule does not apply to them";
        lines.extend(line(format!("app {}", app.name), names, list, effect, table));
    }
    if let Some(servers) = &config.trust.servers {
        let names = servers.names.iter().map(|(name, _)| name.as_str());
        let effect = "requests that they send as servers are scheduled like a client's";
        lines.extend(line("trust.servers".into(), names, listed("trust.servers"), effect, table));
    }
    let host = |id: ServerId| config.servers[id.index()].address.host();
    // Nobody connects to a mount.
    let is_server = |id: &ServerId| !config.servers[id.index()].is_mount();
    let own: Vec<_> = own.iter().copied().filter(is_server).collect();
    let named =
        |ids: &[ServerId]| ids.iter().map(|id| config.servers[id.index()].name.as_str()).collect::<Vec<_>>().join(", ");
    let effect = "this proxy cannot connect to them, so their clients get no answer through it";
    lines.extend(line("[[server]]".into(), own.iter().map(|&id| host(id)), &named(&own), effect, table));
    if config.trust.servers.is_none() {
        let others: Vec<_> =
            config.servers().map(|(id, _)| id).filter(|id| is_server(id) && !own.contains(id)).collect();
        let effect = "requests that they send as servers are scheduled like a client's";
        let subject = "[[server]] of other proxies".into();
        lines.extend(line(subject, others.iter().map(|&id| host(id)), &named(&others), effect, table));
    }
    lines
}

fn line<'a>(
    subject: String,
    names: impl Iterator<Item = &'a str>,
    list: &str,
    effect: &str,
    table: &Table,
) -> Option<Line> {
    let names: BTreeSet<&str> = names.filter(|name| name.parse::<std::net::IpAddr>().is_err()).collect();
    let missing: Vec<&str> = names.iter().copied().filter(|name| table.addresses(name).is_empty()).collect();
    let first = missing.first()?;
    let reason = match table.answer(first) {
        Some(Err(reason)) => reason,
        _ => NO_ANSWER,
    };
    let text = format!(
        "{subject}: {} of {} hosts of {} can't be resolved ({}: {reason}); until they are, {effect}",
        missing.len(),
        names.len(),
        shortened(list),
        shortened(&missing.join(", ")),
    );
    Some(Line { subject, missing: missing.len(), text })
}

fn shortened(list: &str) -> String {
    match list.char_indices().nth(LIST_MAX) {
        Some((end, _)) => format!("{}…", &list[..end]),
        None => list.to_owned(),
    }
}

pub(crate) struct Findings {
    missing: Vec<Line>,
    /// Names that can't be looked up but have addresses: their number, and one of them with the reason.
    stale: Option<(usize, String, String)>,
}

impl Findings {
    fn of(config: &Config, own: &[ServerId], table: &Table) -> Self {
        let first = table.stale().next().map(|(name, reason)| (name.to_owned(), reason.to_owned()));
        let stale = first.map(|(name, reason)| (table.stale().count(), name, reason));
        Self { missing: missing(config, own, table), stale }
    }
}

#[derive(Default)]
pub(crate) struct Reporter {
    missing: BTreeMap<String, usize>,
    is_stale: bool,
}

impl Reporter {
    /// Logs what is worse than before, and what is as it should be again.
    pub(crate) fn tell(&mut self, findings: Findings) {
        for line in &findings.missing {
            if line.missing > self.missing.get(&line.subject).copied().unwrap_or_default() {
                tracing::warn!("{}; they are looked up again in the background", line.text);
            }
        }
        let now: BTreeMap<_, _> = findings.missing.into_iter().map(|line| (line.subject, line.missing)).collect();
        for subject in self.missing.keys().filter(|subject| !now.contains_key(*subject)) {
            tracing::info!("{subject}: all hosts are resolved");
        }
        self.missing = now;
        match findings.stale {
            Some((hosts, name, reason)) if !self.is_stale => {
                self.is_stale = true;
                tracing::warn!(hosts, name, reason, "host names cannot be looked up now; keeping their last addresses");
            }
            None if self.is_stale => {
                self.is_stale = false;
                tracing::info!("host names can be looked up again");
            }
            _ => {}
        }
    }
}

/// After this time an id may have changed.
const REFRESH: Duration = Duration::from_secs(300);

/// The pause before names without an id are looked up again.
const RETRY: Duration = Duration::from_secs(10);

const PATIENCE: Duration = Duration::from_secs(10);

/// The id of a user or group, as configured in `/etc/nsswitch.conf`; `None` if there is no such one. Blocks.
///
/// # Errors
/// If the system cannot say.
pub fn account_id(account: &Account) -> io::Result<Option<u32>> {
    Ok(match account {
        Account::User(name) => SystemUser::from_name(name)?.map(|user| user.uid.as_raw()),
        Account::Group(name) => Group::from_name(name)?.map(|group| group.gid.as_raw()),
    })
}

type LookUp = fn(&Account) -> io::Result<Option<u32>>;

/// The ids of all accounts of a configuration. Copies share them.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<AccountsInner>);

struct AccountsInner {
    look_up: LookUp,
    state: Mutex<State>,
    wake: Notify,
    changed: Notify,
}

#[derive(Default)]
struct State {
    wanted: BTreeSet<Account>,
    /// The last ids; one that is not found any more keeps what it had.
    known: BTreeMap<Account, u32>,
    missing: BTreeSet<Account>,
}

impl Accounts {
    pub(crate) fn new(look_up: LookUp) -> Self {
        let (state, wake, changed) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(AccountsInner { look_up, state, wake, changed }))
    }

    /// Those of this configuration are looked up from now on, at once and now and then.
    pub(crate) fn want(&self, config: &Config) {
        let mut state = lock(&self.0.state);
        state.wanted = config.accounts();
        let State { wanted, known, missing } = &mut *state;
        known.retain(|account, _| wanted.contains(account));
        missing.retain(|account| wanted.contains(account));
        self.0.wake.notify_one();
    }

    pub(crate) fn known(&self, account: &Account) -> Option<u32> {
        lock(&self.0.state).known.get(account).copied()
    }

    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Looks accounts up for ever. One look-up that hangs holds up the others, and nothing else.
    pub(crate) async fn run(self) {
        loop {
            let wanted = lock(&self.0.state).wanted.clone();
            let pause = async {
                if wanted.is_empty() {
                    return std::future::pending().await;
                }
                let look_up = self.0.look_up;
                let ask = move || wanted.into_iter().map(|account| (look_up(&account), account)).collect();
                let answers: Vec<_> = tokio::task::spawn_blocking(ask).await.unwrap_or_default();
                let all_are_known = self.take(answers);
                tokio::time::sleep(if all_are_known { REFRESH } else { RETRY }).await;
            };
            tokio::select! {
                () = pause => {}
                () = self.0.wake.notified() => {}
            }
        }
    }

    fn take(&self, answers: Vec<(io::Result<Option<u32>>, Account)>) -> bool {
        let (mut has_changed, mut missing) = (false, BTreeSet::new());
        let mut state = lock(&self.0.state);
        for (answer, account) in answers {
            match answer {
                // A reload may have come in between.
                _ if !state.wanted.contains(&account) => {}
                Ok(Some(id)) => has_changed |= state.known.insert(account, id) != Some(id),
                _ => drop(missing.insert(account)),
            }
        }
        let unknown = |account: &&Account| !state.known.contains_key(*account);
        let strange: Vec<String> = missing.iter().filter(unknown).map(ToString::to_string).collect();
        if !missing.is_subset(&state.missing) && !strange.is_empty() {
            let accounts = strange.join(", ");
            tracing::warn!(accounts, "not known to the system; rules do not apply to them until they are");
        } else if missing.is_empty() && !state.missing.is_empty() {
            tracing::info!("all users and groups of rules are known");
        }
        let all_are_known = missing.is_empty();
        state.missing = missing;
        drop(state);
        if has_changed {
            self.0.changed.notify_one();
        }
        all_are_known
    }
}

/// A line for each user or group of the configuration that this system does not know, or not within ten seconds.
pub(crate) async fn check(config: &Config) -> Vec<String> {
    let wanted = config.accounts();
    let ask = move || {
        let answers = wanted.into_iter().map(|account| (account_id(&account), account));
        let line = |(answer, account): (io::Result<Option<u32>>, Account)| match answer {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{account} is not known here; rules do not apply to it until it is")),
            Err(error) => Some(format!("{account} cannot be looked up: {error}")),
        };
        answers.filter_map(line).collect()
    };
    let asked = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(ask)).await;
    asked.ok().and_then(Result::ok).unwrap_or_else(|| vec!["users and groups cannot be looked up in 10 s".to_owned()])
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU32, Ordering};

    use vpfs_core::Time;

    use super::*;

    #[test]
    fn only_names_that_are_used_are_wanted() {
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://oss1:3334\"\n\
                    [[server]]\nname = \"s2\"\naddress = \"tcp://oss2:3334\"\n\
                    [[listener]]\naddresses = { s1 = \"tcp://p1:5334\", s2 = \"tcp://10.0.0.2:5334\" }\n\
                    [[app]]\nname = \"a\"\nclients = [\"c[1-2]\", \"10.1.0.1\"]\n";
        let wanted = |text: &str, own: &[ServerId]| {
            let names = wanted_of(&Config::parse("test", text).unwrap(), own);
            names.into_iter().collect::<Vec<_>>().join(" ")
        };
        let both = [ServerId(0), ServerId(1)];
        assert_eq!(wanted(text, &both), "c1 c2 oss1 oss2 p1");
        assert_eq!(wanted(text, &both[1..]), "c1 c2 oss1 oss2");
        let listed = format!("{text}[trust]\nservers = [\"mds\"]\n");
        assert_eq!(wanted(&listed, &both[1..]), "c1 c2 mds oss2");
        let peers = "[peers]\nsecurity = \"none\"\naddresses = { s1 = \"n1:1\", s2 = \"n2:1\" }\n";
        assert_eq!(wanted(&format!("{listed}{peers}"), &both[1..]), "c1 c2 mds n1 n2 oss2");
        assert_eq!(wanted(&format!("{listed}{peers}"), &both), "c1 c2 mds n1 n2 oss1 oss2 p1");
    }

    /// Symptom: a mount on a host that no name server knows warned about clients that get no answer.
    #[test]
    fn the_host_of_a_mount_is_only_a_name() {
        let text =
            "[[server]]\nname = \"a\"\naddress = \"mount://c1\"\n[[server]]\nname = \"b\"\naddress = \"mount://c2\"\n";
        let wanted = |text: &str| wanted_of(&Config::parse("test", text).unwrap(), &[ServerId(0)]);
        assert!(wanted(text).is_empty());
        let peers = "[peers]\nsecurity = \"none\"\nport = 7350\n";
        assert_eq!(wanted(&format!("{text}{peers}")).into_iter().collect::<Vec<_>>(), ["c1", "c2"], "peers connect");
    }

    #[tokio::test]
    async fn the_system_knows_this_host() {
        assert!(by_system("localhost".into()).await.unwrap().iter().any(IpAddr::is_loopback));
        // Not a name at all, so no name server is asked.
        let error = by_system("a name with blanks".into()).await.unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains("look"), "{error}");
    }

    #[test]
    fn what_is_kept_is_read_again_and_damage_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDir::at(directory.path());
        let mut table = Table::new(BTreeMap::new());
        table.want(Time::ZERO, ["a", "b"].map(str::to_owned).into());
        while table.poll_lookup(Time::ZERO).is_some() {}
        let addresses = vec![IpAddr::from([10, 0, 0, 1]), "fd00::1".parse().unwrap()];
        table.answered(Time::ZERO, "a", Ok(addresses.clone()));
        table.answered(Time::ZERO, "b", Err("no such host".into()));
        let content = content(&table);
        keep(&state, "s1", &content);
        assert_eq!(read_kept(&state, "s1"), BTreeMap::from([("a".to_owned(), addresses)]));
        assert_eq!(read_kept(&state, "s2"), BTreeMap::new(), "the file of another process");
        for cut in 0..content.len() {
            fs::write(directory.path().join(file("s1")), &content[..cut]).unwrap();
            assert_eq!(read_kept(&state, "s1"), BTreeMap::new());
        }
        for other in ["{\"format\":2,\"names\":{}}", "{\"format\":1,\"names\":{\"a\":[\"10.0.0.256\"]}}", "\0\0\0"] {
            fs::write(directory.path().join(file("s1")), other).unwrap();
            assert_eq!(read_kept(&state, "s1"), BTreeMap::new());
        }
    }

    const TEXT: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://oss1:3334\"\n\
                        [[server]]\nname = \"s2\"\naddress = \"tcp://oss2:3334\"\n[[listener]]\nport = 5334\n\
                        [[app]]\nname = \"climate\"\nclients = \"c[001-064]\"\n";

    fn lines(text: &str, resolved: &[&str]) -> Vec<String> {
        let config = Config::parse("test", text).unwrap();
        let mut table = Table::new(BTreeMap::new());
        table.want(Time::ZERO, super::wanted_of(&config, &[ServerId(0)]));
        while let Some(name) = table.poll_lookup(Time::ZERO) {
            let found = resolved.contains(&name.as_str());
            let answer = if found { Ok(vec![[10, 0, 0, 1].into()]) } else { Err("no such host".to_owned()) };
            table.answered(Time::ZERO, &name, answer);
        }
        missing(&config, &[ServerId(0)], &table).into_iter().map(|line| line.text).collect()
    }

    /// Symptom: 64 lines for 64 hosts that cannot be resolved.
    #[test]
    fn one_line_for_each_application() {
        let lines = lines(TEXT, &["oss1", "oss2"]);
        assert_eq!(lines.len(), 1);
        let start = "app climate: 64 of 64 hosts of c[001-064] can't be resolved (c001, c002, c003, ";
        assert!(lines[0].starts_with(start), "{}", lines[0]);
        assert!(lines[0].ends_with("…: no such host); until they are, its rule does not apply to them"));
    }

    #[test]
    fn a_line_says_what_happens_to_whom() {
        let text = TEXT.replace("c[001-064]", "c064");
        assert_eq!(
            lines(&text, &["c064", "oss1"]),
            [
                "[[server]] of other proxies: 1 of 1 hosts of s2 can't be resolved (oss2: no such host); until they are, \
              requests that they send as servers are scheduled like a client's"
            ]
        );
        let listed = format!("{text}[trust]\nservers = [\"oss1\", \"10.0.0.1\", \"mds\"]\n");
        assert_eq!(
            lines(&listed, &["c064"]),
            [
                "trust.servers: 2 of 2 hosts of oss1, 10.0.0.1, mds can't be resolved (mds, oss1: no such host); until \
                 they are, requests that they send as servers are scheduled like a client's",
                "[[server]]: 1 of 1 hosts of s1 can't be resolved (oss1: no such host); until they are, this proxy \
                 cannot connect to them, so their clients get no answer through it",
            ]
        );
    }

    #[test]
    fn a_mount_needs_no_address_for_itself() {
        assert_eq!(lines("[[server]]\nname = \"s1\"\naddress = \"mount://unknown\"\n", &[]), [""; 0]);
    }

    /// The id of alice; 0 if she is unknown, and 1 if the system cannot say.
    static ALICE: AtomicU32 = AtomicU32::new(0);

    fn look_up(account: &Account) -> io::Result<Option<u32>> {
        match (account.to_string().as_str(), ALICE.load(Ordering::SeqCst)) {
            ("user alice", 0) => Ok(None),
            ("user alice", 1) => Err(io::Error::other("LDAP is down")),
            ("user alice", id) => Ok(Some(id)),
            _ => Ok(Some(500)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ids_follow_the_system_and_outlive_its_outages() {
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                    [[app]]\nname = \"a\"\nusers = [\"alice\"]\ngroups = [\"physics\"]\n";
        let accounts = Accounts::new(look_up);
        accounts.want(&Config::parse("f", text).unwrap());
        tokio::spawn(accounts.clone().run());
        let (alice, physics) = (Account::User("alice".into()), Account::Group("physics".into()));
        assert_eq!(accounts.known(&physics), None, "nothing waits");
        accounts.changed().await;
        assert_eq!((accounts.known(&alice), accounts.known(&physics)), (None, Some(500)));
        for id in [3001, 3002] {
            ALICE.store(id, Ordering::SeqCst);
            accounts.changed().await;
            assert_eq!(accounts.known(&alice), Some(id));
        }
        for outage in [0, 1] {
            ALICE.store(outage, Ordering::SeqCst);
            tokio::time::sleep(2 * REFRESH).await;
            assert_eq!(accounts.known(&alice), Some(3002));
        }
    }

    #[test]
    fn the_system_knows_root() {
        assert_eq!(account_id(&Account::User("root".into())).unwrap(), Some(0));
        assert_eq!(account_id(&Account::User("no such user".into())).unwrap(), None);
    }
}
