//! What the connections of one client host share: the user that they stated last, memory, lines in the log, and how
//! many there may be.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vpfs_core::Time;
use vpfs_session::User;

use crate::budget::Budget;
use crate::log_limit::LogLimit;
use crate::mailbox::Mailbox;
use crate::patience::Patience;
use crate::places::{Holder, largest};

/// The known client hosts.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<HashMap<IpAddr, Arc<Host>>>);

/// One host.
#[derive(Default)]
pub(crate) struct Host {
    /// The number of its connections.
    connections: AtomicUsize,
    /// Those connections, from the oldest on.
    seats: Mutex<BTreeMap<u64, Arc<Seat>>>,
    /// The memory that its connections hold together.
    pub(crate) memory: Budget,
    /// How long its clients may keep slots without progress.
    pub(crate) patience: Patience,
    /// The lines in the log about its failures.
    pub(crate) log: LogLimit,
    /// The user that a connection from this host stated last. Connections that have not stated a user are attributed to
    /// it.
    user: Mutex<Option<Arc<User>>>,
    /// Counts changes of `user`, so that connections notice without a lock.
    changes: AtomicU64,
}

/// What others see of a connection: whether it could leave its place to a newcomer.
#[derive(Default)]
pub(crate) struct Seat {
    /// Since when nothing is in progress, in nanoseconds; zero while something is.
    idle_since: AtomicU64,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Seat {
    /// Whether anything is in progress now.
    pub(crate) fn set_idle(&self, is_idle: bool, now: impl FnOnce() -> Time) {
        let was_idle = self.idle_since.load(Ordering::Relaxed) > 0;
        if is_idle != was_idle {
            let since = if is_idle { now().as_nanos().max(1) } else { 0 };
            self.idle_since.store(since, Ordering::Relaxed);
        }
    }

    fn idle_since(&self) -> Option<Time> {
        let since = self.idle_since.load(Ordering::Relaxed);
        (since > 0 && !self.mailbox.is_claimed()).then(|| Time::from_nanos(since))
    }
}

/// One connection of a host, which is counted until this is dropped.
pub(crate) struct HostConnection {
    host: Arc<Host>,
    number: u64,
    seat: Arc<Seat>,
}

impl HostConnection {
    /// Counts another connection of `host`, unless it has `limit` or more.
    pub(crate) fn new(host: Arc<Host>, limit: usize) -> Result<Self, Arc<Host>> {
        let more = |count| (count < limit).then_some(count + 1);
        if host.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err(host);
        }
        let seat = Arc::<Seat>::default();
        let mut seats = host.seats();
        let number = seats.last_key_value().map_or(0, |(last, _)| last + 1);
        seats.insert(number, Arc::clone(&seat));
        drop(seats);
        Ok(Self { host, number, seat })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Where it tells whether it could leave.
    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }
}

impl Drop for HostConnection {
    fn drop(&mut self) {
        self.host.seats().remove(&self.number);
        let before = self.host.connections.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection that ends was counted");
    }
}

/// A connection on which nothing was in progress for this long leaves for any newcomer; its client connects again when
/// it needs to.
const UNUSED: Duration = Duration::from_secs(60);

impl Hosts {
    /// The number of hosts to remember. When it is reached, those without connections are forgotten.
    const MAX: usize = 1 << 16;

    /// The entry of the host at `ip`.
    pub(crate) fn get(&self, ip: IpAddr) -> Arc<Host> {
        // A dual-stack socket reports ::ffff:10.1.2.3 for the host that others report as 10.1.2.3.
        let ip = ip.to_canonical();
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= Self::MAX && !hosts.contains_key(&ip) {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        Arc::clone(hosts.entry(ip).or_default())
    }

    /// Asks a connection on which nothing is in progress to leave its place to one of `newcomer`: of the hosts with
    /// such connections that with most, if it has more, and there the one that is idle for longest; otherwise one of
    /// any host that is unused for long. So hosts get equal parts of what there is, however much one holds. Returns
    /// whether there is one. O(connections).
    pub(crate) fn claim(&self, newcomer: &Host, now: Time) -> bool {
        let own = newcomer.connections.load(Ordering::Relaxed);
        let idlest = |host: Arc<Host>| {
            let idle = |seat: &Arc<Seat>| Some((seat.idle_since()?, Arc::clone(seat)));
            let (since, seat) = host.seats().values().filter_map(idle).min_by_key(|(since, _)| *since)?;
            Some((host.connections.load(Ordering::Relaxed), since, seat))
        };
        let candidates: Vec<_> = self.all().into_iter().filter_map(idlest).collect();
        let of_most = candidates.iter().max_by_key(|(count, since, _)| (*count, Reverse(*since)));
        let idlest = || candidates.iter().min_by_key(|(_, since, _)| *since);
        let found = of_most
            .filter(|(count, ..)| *count > own)
            .or_else(|| idlest().filter(|(_, since, _)| now.since(*since) >= UNUSED));
        found.inspect(|(.., seat)| seat.mailbox.claim()).is_some()
    }

    /// Hosts with at least half of the connections that one may have; the first ones have most.
    pub(crate) fn holders(&self, each: usize) -> Vec<(Holder, usize)> {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |(ip, host): (&IpAddr, &Arc<Host>)| (Holder::from(*ip), host.connections.load(Ordering::Relaxed));
        largest(hosts.iter().map(count).filter(|(_, count)| *count > 0 && 2 * count >= each))
    }

    /// All remembered hosts.
    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl Host {
    fn seats(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a connection from this host stated `user`.
    pub(crate) fn show(&self, user: &Arc<User>) {
        let mut known = self.user();
        if known.as_ref() != Some(user) {
            *known = Some(Arc::clone(user));
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    fn user(&self) -> MutexGuard<'_, Option<Arc<User>>> {
        self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The user stated last.
    pub(crate) fn shown(&self) -> Option<Arc<User>> {
        self.user().clone()
    }

    /// The number of changes of that user.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_count_until_they_end_by_any_name_of_their_host() {
        let hosts = Hosts::default();
        let [host, mapped] = ["10.0.0.1", "::ffff:10.0.0.1"].map(|ip| hosts.get(ip.parse().unwrap()));
        let connect = |host: &Arc<Host>, limit| HostConnection::new(Arc::clone(host), limit).ok();
        let (first, _second) = (connect(&host, 2).unwrap(), connect(&mapped, 2).unwrap());
        assert!(connect(&host, 2).is_none() && connect(&host, 1).is_none());
        let _third = connect(&host, 3).unwrap();
        drop(first);
        assert!(connect(&host, 2).is_none() && connect(&host, 3).is_some());
        assert!(connect(&hosts.get("10.0.0.2".parse().unwrap()), 1).is_some(), "another host");
    }

    /// Four addresses with a quarter of all connections each kept everybody else waiting.
    #[test]
    fn a_newcomer_gets_the_place_of_the_host_with_most() {
        let hosts = Hosts::default();
        let connect = |last: u8| HostConnection::new(hosts.get([10, 0, 0, last].into()), 9).ok().unwrap();
        let at = |seconds: u64| Time::from_millis(seconds * 1000);
        let many: Vec<HostConnection> = (0..3).map(|_| connect(1)).collect();
        let few: Vec<HostConnection> = (0..2).map(|_| connect(2)).collect();
        let newcomer = connect(3);
        assert!(!hosts.claim(newcomer.host(), at(9)), "something is in progress on all of them");
        few[1].seat().set_idle(true, || at(1));
        many[2].seat().set_idle(true, || at(3));
        many[1].seat().set_idle(true, || at(2));
        assert!(hosts.claim(newcomer.host(), at(9)) && many[1].seat().mailbox.take_claim());
        many[1].seat().set_idle(false, || at(9));
        assert!(hosts.claim(newcomer.host(), at(9)) && many[2].seat().mailbox.take_claim());
        many[2].seat().set_idle(false, || at(9));
        assert!(hosts.claim(newcomer.host(), at(9)) && few[1].seat().mailbox.take_claim(), "two are more than one");
        let second = connect(3);
        assert!(!hosts.claim(second.host(), at(9)), "two are not more than two");
        assert!(hosts.claim(second.host(), at(61)) && few[1].seat().mailbox.take_claim(), "unused for a minute");
        assert_eq!(hosts.holders(6), [(Holder::from(IpAddr::from([10, 0, 0, 1])), 3)]);
    }
}
