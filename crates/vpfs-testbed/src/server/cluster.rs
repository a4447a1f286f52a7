//! State shared by the servers of one cluster: configuration, names, and each server's storage.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use vpfs_wire::pvfs2::{Errno, Handle, Text};

use super::ServerLimits;
use super::namespace::Namespace;
use vpfs_model::device::{Io, IoKind};

use crate::device::DeviceHandle;
use crate::fsconfig::FsConfig;
use crate::store::{MemoryStore, StoreError};

/// Object number of a server's metadata log on its device, larger than any handle.
const LOG_OBJECT: u64 = u64::MAX;
/// Bytes after which the metadata log wraps around: the size of a common file system journal.
const LOG_BYTES: u64 = 128 << 20;

/// A cluster in one process.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) config: FsConfig,
    pub(crate) config_text: Text,
    pub(crate) storage: Vec<Storage>,
    pub(crate) limits: ServerLimits,
    pub(crate) started: Instant,
    namespace: Mutex<Namespace>,
    /// New files placed so far; spreads their first datafiles.
    placed: AtomicU64,
}

impl Cluster {
    pub(crate) fn new(config: FsConfig, storage: Vec<Storage>, limits: ServerLimits, namespace: Namespace) -> Self {
        let (namespace, config_text, started) = (Mutex::new(namespace), config.to_text().into(), Instant::now());
        Self { config, config_text, storage, limits, started, namespace, placed: AtomicU64::new(0) }
    }

    /// The namespace, locked. Never hold it across an await.
    pub(crate) fn namespace(&self) -> MutexGuard<'_, Namespace> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The storage of the server that holds `datafile`.
    pub(crate) fn storage_of(&self, datafile: Handle) -> Result<&Storage, Errno> {
        let owner = self.config.owner_of(datafile.0).ok_or(Errno::ENOENT)?;
        self.storage.get(owner).ok_or(Errno::ENOENT)
    }

    /// A number that differs from file to file.
    pub(crate) fn next_placement(&self) -> u64 {
        self.placed.fetch_add(1, Ordering::Relaxed)
    }
}

/// The data of one server, and the device model that determines how long accesses take.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) store: MemoryStore,
    pub(crate) device: DeviceHandle,
    /// Bytes that each metadata change writes to the device's log; 0 for none.
    metadata_bytes: u64,
    log_offset: AtomicU64,
}

impl Storage {
    pub(crate) fn new(store: MemoryStore, device: DeviceHandle, metadata_bytes: u64) -> Self {
        Self { store, device, metadata_bytes, log_offset: AtomicU64::new(0) }
    }

    /// The device time of a metadata change: one sequential write to its log.
    pub(crate) async fn log_metadata(&self) {
        if self.metadata_bytes > 0 {
            let offset = self.log_offset.fetch_add(self.metadata_bytes, Ordering::Relaxed) % LOG_BYTES;
            let len = self.metadata_bytes;
            self.device.submit(Io { kind: IoKind::Write, object: LOG_OBJECT, offset, len }).await;
        }
    }
}

/// The protocol's error number for a store error.
pub(crate) fn errno_of(error: &StoreError) -> Errno {
    match error {
        StoreError::Full { .. } => Errno::ENOSPC,
        StoreError::TooLarge { .. } => Errno::EFBIG,
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}
