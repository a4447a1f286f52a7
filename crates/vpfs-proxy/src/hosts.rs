//! What the connections of one client host share: the user that they stated last, memory, and lines in the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vpfs_session::User;

use crate::budget::Budget;
use crate::log_limit::LogLimit;

/// The known client hosts.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<HashMap<IpAddr, Arc<Host>>>);

/// One host.
#[derive(Default)]
pub(crate) struct Host {
    /// The memory that its connections hold together.
    pub(crate) memory: Budget,
    /// The lines in the log about its failures.
    pub(crate) log: LogLimit,
    /// The user that a connection from this host stated last. Connections that have not stated a user are attributed to
    /// it.
    user: Mutex<Option<Arc<User>>>,
    /// Counts changes of `user`, so that connections notice without a lock.
    changes: AtomicU64,
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
