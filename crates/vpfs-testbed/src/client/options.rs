//! Options: how to connect, and the layout of new files.

use std::net::IpAddr;
use std::time::Duration;

use vpfs_wire::pvfs2::Dist;

use super::ClientError;

/// How a client connects, and its identity. Start from [`ClientOptions::new`] and change fields.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `tcp://host:port/filesystem` of any one server; its configuration names the others.
    pub url: String,
    /// User in every credential.
    pub uid: u32,
    /// Groups in every credential, the primary one first; at most 32.
    pub gids: Vec<u32>,
    /// Host name in every credential (issuer `C:<host name>`).
    pub host_name: String,
    /// Local address to connect from, for example 127.0.0.7 to look like another host. Default: the system's choice.
    pub local_address: Option<IpAddr>,
    /// Attempts after the first one; default: from the servers' configuration (5).
    pub retry_limit: Option<u32>,
    /// Pause before an attempt on a lost connection; default: from the configuration (2 s).
    pub retry_delay: Option<Duration>,
    /// How long to wait for a reply; default: from the configuration (300 s).
    pub reply_timeout: Option<Duration>,
    /// How long a bulk transfer may make no progress; default: from the configuration (300 s).
    pub flow_timeout: Option<Duration>,
    /// Name and value pairs sent with each request, for servers or proxies that use them (hint type 0).
    pub hints: Vec<(String, String)>,
}

impl ClientOptions {
    /// Root on host `vpfs`, with the servers' own time-outs and retries.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            uid: 0,
            gids: vec![0],
            host_name: "vpfs".to_owned(),
            local_address: None,
            retry_limit: None,
            retry_delay: None,
            reply_timeout: None,
            flow_timeout: None,
            hints: Vec::new(),
        }
    }

    /// `host:port` and the file system's name.
    pub(super) fn split_url(&self) -> Result<(&str, &str), ClientError> {
        let split = self.url.strip_prefix("tcp://").and_then(|rest| rest.split_once('/'));
        let named = split.filter(|(address, name)| address.contains(':') && !name.is_empty() && !name.contains('/'));
        named.ok_or_else(|| ClientError::Url(self.url.clone()))
    }
}

/// The layout of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    pub(super) distribution: Dist,
    pub(super) datafiles: Option<u32>,
    pub(super) servers: Option<Vec<usize>>,
    pub(super) mode: u32,
}

impl Default for CreateOptions {
    /// Strips of 64 KiB over all servers, mode 0644.
    fn default() -> Self {
        Self::simple_stripe(64 << 10)
    }
}

impl CreateOptions {
    /// Any distribution of the protocol.
    pub fn new(distribution: Dist) -> Self {
        Self { distribution, datafiles: None, servers: None, mode: 0o644 }
    }

    /// Strips of `strip_bytes`, round robin (`simple_stripe`).
    pub fn simple_stripe(strip_bytes: u64) -> Self {
        Self::new(Dist::SimpleStripe { strip_size: signed(strip_bytes) })
    }

    /// The whole file on one server (`basic_dist`).
    pub fn basic() -> Self {
        Self { datafiles: Some(1), ..Self::new(Dist::Basic) }
    }

    /// Strips as listed, for example `0:64K;1:1M`, repeated (`varstrip_dist`).
    pub fn variable_strips(strips: impl Into<String>) -> Self {
        Self::new(Dist::VarStrip { strips: strips.into().into() })
    }

    /// Servers in groups; each group takes `factor` strips per server in turn (`twod_stripe`).
    pub fn two_dimensional(groups: u32, strip_bytes: u64, factor: u32) -> Self {
        Self::new(Dist::TwoDStripe { groups, strip_size: signed(strip_bytes), factor })
    }

    /// The number of datafiles, instead of one for each server.
    #[must_use]
    pub fn datafiles(mut self, count: u32) -> Self {
        self.datafiles = Some(count);
        self
    }

    /// Exactly these servers in this order, by index in the configuration. Also sets the number of datafiles.
    #[must_use]
    pub fn on_servers(mut self, servers: impl Into<Vec<usize>>) -> Self {
        let servers = servers.into();
        self.datafiles = u32::try_from(servers.len()).ok();
        self.servers = Some(servers);
        self
    }

    /// Permission bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}

/// A strip size too large for the wire becomes zero, which servers reject.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(0)
}
