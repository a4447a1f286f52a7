//! Host names: looked up in the background, never waited for (docs/decisions/0009-operation.md).
//!
//! [`Table`] decides what is looked up when, [`Names::run`] does it, and [`wanted`] lists the names of a configuration.
//! Each change of addresses goes to the daemon's [`Follower`](crate::follower::Follower).

mod kept;
mod report;
mod resolver;
mod table;
mod wanted;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use vpfs_config::Config;
use vpfs_core::ServerId;

use crate::clock::Clock;
use crate::state_dir::StateDir;
use table::Table;

pub(crate) use kept::write as keep;
pub(crate) use report::{Findings, Reporter};
pub use resolver::Resolver;

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
    /// There is something to look up.
    wake: Notify,
    /// Counts answers.
    answers: watch::Sender<u64>,
    /// Addresses have changed.
    changed: Notify,
    /// It is time to report, and to keep what is known.
    settled: Notify,
}

impl Names {
    /// Knows what an earlier process kept.
    pub(crate) fn new(clock: Clock, resolver: Resolver, state: &StateDir, own: &str) -> Self {
        let table = Mutex::new(Table::new(kept::read(state, own)));
        let (wake, changed, settled) = (Notify::new(), Notify::new(), Notify::new());
        Self(Arc::new(Inner { clock, resolver, table, wake, answers: watch::Sender::new(0), changed, settled }))
    }

    /// For servers that are given by address.
    #[cfg(test)]
    pub(crate) fn unknown(clock: &Clock) -> Self {
        Self::new(clock.clone(), Resolver::default(), &StateDir::default(), "")
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of this configuration are looked up from now on, at once and now and then.
    pub(crate) fn want(&self, config: &Config, own: &[ServerId]) {
        self.table().want(self.0.clock.now(), wanted::of(config, own));
        self.0.wake.notify_one();
    }

    /// The addresses that a host has now, if any.
    pub(crate) fn known(&self, host: &str) -> Vec<IpAddr> {
        host.parse().map_or_else(|_| self.table().addresses(host).to_vec(), |ip| vec![ip])
    }

    /// Waits until addresses have changed. For one task.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Waits until it is time to report, and to keep what is known. For one task.
    pub(crate) async fn settled(&self) {
        self.0.settled.notified().await;
    }

    /// Which names of this configuration have no address, or only an earlier one.
    pub(crate) fn findings(&self, config: &Config, own: &[ServerId]) -> Findings {
        Findings::of(config, own, &self.table())
    }

    /// What the next process should know, for [`keep`].
    pub(crate) fn to_keep(&self) -> Vec<u8> {
        kept::content(&self.table())
    }

    /// Looks names up for ever.
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

    /// Starts what is due, and says when to call again.
    fn start_lookups(&self, lookups: &mut JoinSet<(String, io::Result<Vec<IpAddr>>)>) -> Option<Instant> {
        let now = self.0.clock.now();
        let mut table = self.table();
        while let Some(name) = table.poll_lookup(now) {
            let lookup = self.0.resolver.look_up(name.clone());
            lookups.spawn(async move { (name, lookup.await) });
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
        self.table().answered(self.0.clock.now(), name, answer.map_err(|error| error.to_string()));
        self.0.answers.send_modify(|count| *count += 1);
    }

    /// Waits until `answer` is there.
    async fn wait<T>(&self, answer: impl Fn(&Table) -> Option<T>) -> T {
        let mut answers = self.0.answers.subscribe();
        loop {
            answers.borrow_and_update();
            let answer = answer(&self.table());
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
        match self.table().answer(host) {
            Some(Ok(addresses)) => Ok(addresses.to_vec()),
            Some(Err(reason)) => Err(unresolved(host, reason)),
            None => Err(unresolved(host, NO_ANSWER)),
        }
    }

    /// Waits until a host has addresses.
    pub(crate) async fn some_time(&self, host: &str) -> Vec<IpAddr> {
        if let Ok(ip) = host.parse() {
            return vec![ip];
        }
        self.wait(|table| Some(table.addresses(host).to_vec()).filter(|addresses| !addresses.is_empty())).await
    }

    /// Connects to the addresses that a host had last, while it is looked up again; if it has none yet, waits for the
    /// answer. So a name server that fails affects no connection to a host that was found before.
    pub(crate) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return TcpStream::connect((ip, port)).await;
        }
        self.table().hurry(self.0.clock.now(), host, IN_USE);
        self.0.wake.notify_one();
        let answer = |table: &Table| {
            Some(match table.answer(host)? {
                Ok(addresses) => Ok(addresses.to_vec()),
                Err(reason) => Err(unresolved(host, reason)),
            })
        };
        let addresses = self.wait(answer).await?;
        let addresses: Vec<SocketAddr> = addresses.into_iter().map(|ip| (ip, port).into()).collect();
        TcpStream::connect(&addresses[..]).await
    }
}

/// Why a name has no address as long as its look-up has not ended.
const NO_ANSWER: &str = "no answer yet";

fn unresolved(host: &str, reason: &str) -> io::Error {
    io::Error::other(format!("{host} can't be resolved: {reason}"))
}

/// Looks up all names that these servers' proxies need, for at most ten seconds. Returns their number, and a line about
/// each application, list or group of servers for which some are missing, and about each user and group.
pub async fn check_names(config: &Config, servers: &[ServerId], resolver: Resolver) -> (usize, Vec<String>) {
    let names = Names::new(Clock::start(), resolver, &StateDir::default(), "");
    names.want(config, servers);
    tokio::select! {
        () = names.clone().run() => {}
        () = names.settled() => {}
    }
    let missing = report::missing(config, servers, &names.table());
    let mut missing: Vec<String> = missing.into_iter().map(|line| line.text).collect();
    missing.extend(crate::accounts::check(config).await);
    (wanted::of(config, servers).len(), missing)
}
