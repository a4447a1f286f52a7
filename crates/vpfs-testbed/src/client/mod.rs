//! A client of OrangeFS-protocol servers: ours and real ones.
//!
//! One connection to each server, shared by all operations of a [`Client`] and its clones; replies may come in any
//! order. Retries, capabilities and the choice between bulk and inline transfers follow the stock client
//! (docs/protocols/orangefs.md), so servers and proxies cannot tell the difference.

mod file;
mod mount;
mod names;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use vpfs_protocol::wire::pvfs2::{Op, Status};

use crate::fsconfig::{FsConfig, FsConfigError};
pub use file::File;
use mount::Mount;
pub(crate) use mount::connect;
pub use mount::fetch_config;
pub use vpfs_protocol::wire::pvfs2::{Dist, Errno};

/// The result of a client operation.
pub type Result<T> = std::result::Result<T, ClientError>;

/// A mounted file system. Clones share connections; safe to use from many tasks at once.
///
/// Paths are absolute (`/a/b`), without `.` and `..`; links are not followed. An operation that was repeated because
/// its reply was lost may see the effect of its first attempt: a removal may then report that the name does not exist.
#[derive(Clone, Debug)]
pub struct Client {
    mount: Arc<Mount>,
}

impl Client {
    /// Connects to all servers and checks that their configurations are equal.
    pub fn connect(options: ClientOptions) -> BoxFuture<'static, Result<Self>> {
        Box::pin(async move { Ok(Self { mount: Arc::new(Mount::new(options).await?) }) })
    }

    /// The configuration returned by the servers.
    pub fn fs_config(&self) -> &FsConfig {
        &self.mount.config
    }

    /// The address that each open connection comes from, and that of the server or proxy at its other end.
    pub fn ends(&self) -> impl Iterator<Item = (IpAddr, SocketAddr)> {
        self.mount.ends()
    }

    /// Opens an existing file.
    pub fn open<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<File>> {
        Box::pin(async move {
            let handle = self.mount.resolve(path).await?;
            Ok(File::new(handle, self.mount.fetch_layout(handle).await?))
        })
    }

    /// The file's size in bytes.
    pub fn size<'a>(&'a self, file: &'a File) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move { self.mount.size(file).await })
    }
}

/// Why an operation failed, after all retries that the protocol allows.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ClientError {
    /// Not `tcp://host:port/filesystem`.
    #[error("`{0}` is not tcp://host:port/filesystem")]
    Url(String),
    /// An invalid path: not absolute, or the root where a name is needed.
    #[error("path `{path}`: {what}")]
    Path { path: String, what: &'static str },
    /// An argument that is invalid for the file or the cluster.
    #[error("{0}")]
    Argument(&'static str),
    /// The servers' configuration text cannot be used.
    #[error("configuration that {address} returns: {error}")]
    Config { address: String, error: FsConfigError },
    /// The servers have other file systems.
    #[error("{error}: write tcp://{address}/{name}")]
    FileSystem { error: FsConfigError, address: String, name: String },
    /// The servers' configurations differ: an address leads to another cluster or bypasses a proxy.
    #[error("{server} returns a different configuration than {first}; all servers must return the same bytes")]
    ConfigsDiffer { first: String, server: String },
    /// A server refused.
    #[error("{op}: {status}")]
    Refused { op: Op, status: Status },
    /// Every attempt failed to connect or lost the connection.
    #[error("connection to {server}: {reason}")]
    Connection { server: String, kind: io::ErrorKind, reason: String },
    /// Every attempt timed out without a reply or without progress of a transfer.
    #[error("{server} did not answer {op} for {waited:?}")]
    Timeout { server: String, op: Op, waited: Duration },
    /// A server violated the protocol, or used a feature that this client does not support.
    #[error("{server}: {what}")]
    Protocol { server: String, what: String },
}

impl ClientError {
    /// An error that the client itself detected.
    const fn refused(op: Op, errno: Errno) -> Self {
        Self::Refused { op, status: Status::error(errno) }
    }

    /// The server's reason, if a server refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { status, .. } => status.errno(),
            _ => None,
        }
    }

    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Some(Errno::ENOENT)
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.errno() == Some(Errno::EEXIST)
    }
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// Attributes of a file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The object's handle.
    pub handle: u64,
    /// Its kind.
    pub kind: FileKind,
    /// Size in bytes: of the data, of a link's target; 0 for a directory.
    pub size: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last access, in whole seconds.
    pub accessed: SystemTime,
    /// Last change of the data, in whole seconds.
    pub modified: SystemTime,
    /// Last change of the attributes, in whole seconds.
    pub changed: SystemTime,
    /// Datafiles the file is striped over; 0 for other objects.
    pub datafiles: usize,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name inside the directory.
    pub name: String,
    /// Handle of the object.
    pub handle: u64,
}

/// Space used and available, summed over the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes that may still be written.
    pub bytes_available: u64,
    /// Total bytes.
    pub bytes_total: u64,
    /// Objects that may still be created.
    pub handles_available: u64,
    /// Total objects.
    pub handles_total: u64,
}

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
    fn split_url(&self) -> std::result::Result<(&str, &str), ClientError> {
        let split = self.url.strip_prefix("tcp://").and_then(|rest| rest.split_once('/'));
        let named = split.filter(|(address, name)| address.contains(':') && !name.is_empty() && !name.contains('/'));
        named.ok_or_else(|| ClientError::Url(self.url.clone()))
    }
}

/// The layout of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    distribution: Dist,
    datafiles: Option<u32>,
    servers: Option<Vec<usize>>,
    mode: u32,
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
