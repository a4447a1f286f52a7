//! The embedded server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use nfs3_server::tcp::{NFSTcp, NFSTcpListener};
use tokio::task::JoinSet;
use vpfs_model::device::DeviceProfile;

use super::files::Files;
use super::url::Url;
use crate::device::{DeviceClock, DeviceHandle};
use crate::server::Storage;
use crate::store::MemoryStore;

/// After a failure to accept, the time to the next attempt.
const RETRY: Duration = Duration::from_millis(100);

/// A server to start. Start from [`NfsConfig::default`] and change fields.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// Where NFS and the mount protocol listen, both at one port.
    pub listen: SocketAddrV4,
    /// Name of the export.
    pub export: String,
    /// The device that determines how long accesses take.
    pub device: DeviceProfile,
    /// The clock that the device runs on.
    pub clock: DeviceClock,
    /// Bytes that each change of names or attributes writes to the device.
    pub metadata_write_bytes: u64,
    /// Largest number of bytes stored.
    pub capacity_bytes: u64,
}

impl Default for NfsConfig {
    /// A free port on loopback, without a device model.
    fn default() -> Self {
        Self {
            listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            export: "vpfs".to_owned(),
            device: DeviceProfile::None,
            clock: DeviceClock::default(),
            metadata_write_bytes: 4096,
            capacity_bytes: 8 << 30,
        }
    }
}

/// A running server of NFSv3, with its files in memory. Dropping it closes its port; connections end when their clients
/// close them.
#[derive(Debug)]
pub struct NfsServer {
    address: SocketAddr,
    export: String,
    _task: JoinSet<()>,
}

impl NfsServer {
    /// Starts it; when this returns it accepts connections.
    ///
    /// # Errors
    /// The name cannot be an export's, or the address cannot be used.
    pub async fn start(config: NfsConfig) -> io::Result<Self> {
        let NfsConfig { export, .. } = &config;
        if export.is_empty() || !export.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '/' | '?')) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{export}` cannot name an export")));
        }
        let device = DeviceHandle::start(&config.device, config.clock);
        let store = MemoryStore::new(config.capacity_bytes);
        let files = Files::new(Storage::new(store, device, config.metadata_write_bytes));
        let mut listener = NFSTcpListener::bind(&config.listen.to_string(), files).await?;
        listener.with_export_name(export);
        let address = SocketAddr::new((*config.listen.ip()).into(), listener.get_listen_port());
        let mut task = JoinSet::new();
        task.spawn(serve(Arc::new(listener)));
        Ok(Self { address, export: format!("/{export}"), _task: task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> Url {
        self.url_at(self.address)
    }

    /// The URL for clients of a proxy at this address, of NFS and the mount protocol.
    pub fn url_at(&self, proxy: SocketAddr) -> Url {
        let (port, export) = (proxy.port(), self.export.clone());
        Url { host: proxy.ip().to_string(), port, mount_port: port, export }
    }
}

/// Accepts connections, also after one could not be accepted: for want of file descriptors, or because it was reset at
/// once, at which `nfs3_server` panics.
async fn serve(listener: Arc<NFSTcpListener<Files>>) {
    loop {
        let mut accepting = JoinSet::new();
        let listener = Arc::clone(&listener);
        accepting.spawn(async move { listener.handle_forever().await });
        match accepting.join_next().await {
            Some(Ok(Err(error))) => tracing::warn!(%error, "cannot accept"),
            ended => tracing::warn!(?ended, "accepting ended"),
        }
        tokio::time::sleep(RETRY).await;
    }
}
