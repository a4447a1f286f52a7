//! A client of OrangeFS-protocol servers: ours and real ones.
//!
//! One connection to each server, shared by all operations of a [`Client`] and its clones; replies may come in any
//! order. Retries, capabilities and the choice between bulk and inline transfers follow the stock client
//! (docs/protocols/orangefs.md), so servers and proxies cannot tell the difference.

mod attributes;
mod connection;
mod directories;
mod directory_cache;
mod error;
mod file;
mod io;
mod link;
mod mount;
mod names;
mod options;
mod share;
mod types;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use vpfs_wire::pvfs2::{Dist, Errno};

pub(crate) use self::connection::connect;
pub use self::error::ClientError;
pub use self::file::File;
use self::mount::Mount;
pub use self::mount::fetch_config;
pub use self::options::{ClientOptions, CreateOptions};
pub use self::types::{DirEntry, FileKind, Stat, StatFs};
use crate::fsconfig::FsConfig;

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
    pub async fn connect(options: ClientOptions) -> Result<Self> {
        Ok(Self { mount: Arc::new(Mount::new(options).await?) })
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
    pub async fn open(&self, path: &str) -> Result<File> {
        let handle = self.mount.resolve(path).await?;
        Ok(File::new(handle, self.mount.fetch_layout(handle).await?))
    }

    /// The file's size in bytes.
    pub async fn size(&self, file: &File) -> Result<u64> {
        self.mount.size(file).await
    }
}
