//! Users by host: who a connection is from that has shown no user itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vpfs_interpose::User;

/// What is known of client hosts.
#[derive(Default)]
pub(crate) struct Hosts(Mutex<HashMap<IpAddr, Arc<Host>>>);

/// The user whom any connection from one host showed last.
#[derive(Default)]
pub(crate) struct Host {
    user: Mutex<Option<Arc<User>>>,
    /// Counts changes of `user`, so that connections notice without a lock.
    changes: AtomicU64,
}

impl Hosts {
    /// Hosts that are remembered; the memory of more is dropped.
    const MAX: usize = 1 << 16;

    /// What is known of the host at `ip`.
    pub(crate) fn get(&self, ip: IpAddr) -> Arc<Host> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= Self::MAX && !hosts.contains_key(&ip) {
            hosts.clear();
        }
        Arc::clone(hosts.entry(ip).or_default())
    }
}

impl Host {
    /// A connection from there showed this user.
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

    /// The user shown last.
    pub(crate) fn shown(&self) -> Option<Arc<User>> {
        self.user().clone()
    }

    /// How often that changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}
