//! The configuration of a cluster.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use vpfs_model::device::DeviceProfile;

use crate::device::DeviceClock;
use crate::fsconfig::FsConfig;

/// Largest number of servers in one cluster.
const SERVERS_MAX: usize = 1024;

/// A cluster to start. Start from [`ClusterConfig::new`] and change fields.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Number of servers, each for metadata and data.
    pub servers: usize,
    /// Where they listen; servers beyond the list get a free port on 127.0.0.1.
    pub listen: Vec<SocketAddr>,
    /// Addresses (`host:port`) announced to clients instead; servers beyond the list announce where they listen.
    pub advertise: Vec<String>,
    /// Name of the file system, the last part of its URL.
    pub fs_name: String,
    /// Device models, taken in turn: one for all servers, or one for each.
    pub devices: Vec<DeviceProfile>,
    /// The clock that the devices run on.
    pub clock: DeviceClock,
    /// Bytes that each change of names or attributes writes to its server's device; 0 makes them free. Reading metadata
    /// is always free, because it is in memory.
    pub metadata_write_bytes: u64,
    /// Largest number of bytes that each server stores.
    pub capacity_bytes: u64,
    /// Largest number of files, directories, datafiles and links in the cluster.
    pub objects_max: usize,
    /// Size of a bulk data message in bytes.
    pub flow_buffer_bytes: u64,
    /// How many times clients retry, as announced to them.
    pub retry_limit: u32,
    /// Pause of a client before it retries on a lost connection.
    pub retry_delay: Duration,
    /// How long a client waits for a reply.
    pub reply_timeout: Duration,
    /// Limits on what clients can make a server do concurrently.
    pub limits: ServerLimits,
}

/// Limits on what clients can make one server do concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Open connections; further ones wait to be accepted.
    pub connections: usize,
    /// Operations of one connection that run concurrently; further ones wait.
    pub running_requests: usize,
    /// Requests of one connection that wait while data of running writes must still be read; a client that sends more
    /// is disconnected. Without such writes the connection is simply not read.
    pub waiting_requests: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { connections: 1024, running_requests: 256, waiting_requests: 4096 }
    }
}

impl ClusterConfig {
    /// Servers on loopback, in memory, without a device model.
    pub fn new(servers: usize) -> Self {
        let fs = FsConfig::new("vpfs", &[]);
        Self {
            servers,
            listen: Vec::new(),
            advertise: Vec::new(),
            fs_name: fs.name,
            devices: vec![DeviceProfile::None],
            clock: DeviceClock::default(),
            metadata_write_bytes: 4096,
            capacity_bytes: 8 << 30,
            objects_max: 4_000_000,
            flow_buffer_bytes: fs.flow_buffer_bytes,
            retry_limit: fs.retry_limit,
            retry_delay: fs.retry_delay,
            reply_timeout: fs.reply_timeout,
            limits: ServerLimits::default(),
        }
    }

    pub(super) fn listen_addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if !(1..=SERVERS_MAX).contains(&self.servers) {
            return Err(invalid(format!("a cluster has 1 to {SERVERS_MAX} servers, not {}", self.servers)));
        }
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok((0..self.servers).map(|server| self.listen.get(server).copied().unwrap_or(free)).collect())
    }

    pub(super) fn device_of(&self, server: usize) -> DeviceProfile {
        let turn = self.devices.iter().cycle().nth(server % self.devices.len().max(1));
        turn.cloned().unwrap_or_default()
    }

    pub(super) fn fs_config(&self, listening: &[SocketAddr]) -> io::Result<FsConfig> {
        let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '/');
        if !is_word(&self.fs_name) {
            return Err(invalid(format!("`{}` cannot name a file system", self.fs_name)));
        }
        if let Some(bad) = self.advertise.iter().find(|address| !is_word(address)) {
            return Err(invalid(format!("`{bad}` is not host:port")));
        }
        if !(1..=vpfs_wire::bmi::MAX_MESSAGE).contains(&self.flow_buffer_bytes) {
            return Err(invalid("flow buffers have 1 byte to 16 MiB".to_owned()));
        }
        let told = |server: usize| self.advertise.get(server).cloned().unwrap_or_else(|| listening[server].to_string());
        let addresses: Vec<_> = (0..self.servers).map(|server| format!("tcp://{}", told(server))).collect();
        let mut fs = FsConfig::new(&self.fs_name, &addresses);
        fs.flow_buffer_bytes = self.flow_buffer_bytes;
        fs.retry_limit = self.retry_limit;
        fs.retry_delay = self.retry_delay;
        (fs.reply_timeout, fs.flow_timeout) = (self.reply_timeout, self.reply_timeout);
        Ok(fs)
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
