//! The directories used lately.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vpfs_wire::pvfs2::{Capability, Handle};

/// How long a directory's attributes are cached: the stock client's attribute cache time.
const LIFE: Duration = Duration::from_secs(5);
/// Number of directories cached; beyond it, the cache is cleared.
const KNOWN_MAX: usize = 4096;

/// What is needed to use a directory.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) handle: Handle,
    /// The object that holds its entries.
    pub(super) dirdata: Handle,
    pub(super) capability: Capability,
    pub(super) fetched: Instant,
}

/// The directories used lately.
#[derive(Debug, Default)]
pub(super) struct Directories(Mutex<HashMap<Handle, Arc<Directory>>>);

impl Directories {
    pub(super) fn get(&self, handle: Handle) -> Option<Arc<Directory>> {
        self.lock().get(&handle).filter(|directory| directory.fetched.elapsed() < LIFE).cloned()
    }

    pub(super) fn put(&self, directory: &Arc<Directory>) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(directory.handle, Arc::clone(directory));
    }

    pub(super) fn forget(&self, handle: Handle) {
        self.lock().remove(&handle);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Handle, Arc<Directory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
