//! Embedded file servers that speak the OrangeFS protocol to stock clients and tools.
//!
//! The servers of a cluster live in one process and share their names and attributes; each has its own address,
//! handles, store and device, and serves only what it owns, so clients see an ordinary cluster.

mod access;
mod cluster;
mod config;
mod connection;
mod data;
mod listener;
mod namespace;
mod ops;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;

pub(crate) use self::cluster::Storage;
use self::cluster::{Cluster, now};
pub use self::config::{ClusterConfig, ServerLimits};
use self::listener::{Listening, listen};
use self::namespace::Namespace;
use self::ops::Server;
use crate::device::DeviceHandle;
use crate::fsconfig::FsConfig;
use crate::store::MemoryStore;

/// A running cluster. Dropping it stops all servers at once.
#[derive(Debug)]
pub struct EmbeddedCluster {
    cluster: Arc<Cluster>,
    addresses: Vec<SocketAddr>,
    /// `None` for stopped servers.
    listening: Mutex<Vec<Option<Listening>>>,
}

impl EmbeddedCluster {
    /// Starts all servers; when this returns they accept connections.
    pub async fn start(config: ClusterConfig) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for address in config.listen_addresses()? {
            listeners.push(listen(address)?);
        }
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
        let fs = config.fs_config(&addresses)?;
        let storage = (0..config.servers).map(|server| {
            let device = DeviceHandle::start(&config.device_of(server), config.clock);
            Storage::new(MemoryStore::new(config.capacity_bytes), device, config.metadata_write_bytes)
        });
        let namespace = Namespace::new(&fs, config.objects_max, now());
        let cluster = Arc::new(Cluster::new(fs, storage.collect(), config.limits, namespace));
        let listening = listeners
            .into_iter()
            .enumerate()
            .map(|(index, listener)| Some(Listening::start(listener, Server { index, cluster: Arc::clone(&cluster) })));
        let listening = Mutex::new(listening.collect());
        Ok(Self { cluster, addresses, listening })
    }

    /// Where the servers listen, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The configuration announced to clients.
    pub fn fs_config(&self) -> &FsConfig {
        &self.cluster.config
    }

    /// The URL for clients: the first server's advertised address and the file system's name.
    pub fn url(&self) -> String {
        let fs = self.fs_config();
        format!("{}/{}", fs.servers[0].address, fs.name)
    }

    /// Bytes stored on a server.
    pub fn used_bytes(&self, server: usize) -> u64 {
        self.cluster.storage[server].store.usage().used
    }

    /// Number of accesses that a server's device has not finished.
    pub fn outstanding(&self, server: usize) -> usize {
        self.cluster.storage[server].device.outstanding()
    }

    /// Stops one server as a crash would: closes its port and all its connections. Its data is kept.
    pub async fn stop_server(&self, server: usize) {
        let stopped = self.lock()[server].take();
        if let Some(listening) = stopped {
            listening.stop().await;
        }
    }

    /// Starts a stopped server again on its old address; no effect on a running one.
    pub async fn restart_server(&self, server: usize) -> io::Result<()> {
        if self.lock()[server].is_some() {
            return Ok(());
        }
        let listener = listen(self.addresses[server])?;
        let started = Listening::start(listener, Server { index: server, cluster: Arc::clone(&self.cluster) });
        self.lock()[server] = Some(started);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Option<Listening>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
