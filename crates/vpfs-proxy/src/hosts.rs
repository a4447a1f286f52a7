//! What the connections of one client host share: the user that they stated last, memory, lines in the log, and how
//! many there may be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vpfs_session::User;

use crate::budget::Budget;
use crate::log_limit::LogLimit;
use crate::patience::Patience;

/// The known client hosts.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<HashMap<IpAddr, Arc<Host>>>);

/// One host.
#[derive(Default)]
pub(crate) struct Host {
    /// The number of its connections.
    connections: AtomicUsize,
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

/// One connection of a host, which is counted until this is dropped.
pub(crate) struct HostConnection(Arc<Host>);

impl HostConnection {
    /// Counts another connection of `host`, unless it has `limit` or more.
    pub(crate) fn new(host: Arc<Host>, limit: usize) -> Result<Self, Arc<Host>> {
        let more = |count| (count < limit).then_some(count + 1);
        match host.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(host)),
            Err(_) => Err(host),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0
    }
}

impl Drop for HostConnection {
    fn drop(&mut self) {
        let before = self.0.connections.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a connection that ends was counted");
    }
}

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

    /// All remembered hosts.
    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl Host {
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
}
