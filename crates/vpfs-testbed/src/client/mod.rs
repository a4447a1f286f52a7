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

use bytes::Bytes;
pub use vpfs_wire::pvfs2::{Dist, Errno};

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

    /// Creates a file; fails if the name exists.
    pub async fn create(&self, path: &str, options: &CreateOptions) -> Result<File> {
        self.mount.create(path, options).await
    }

    /// Opens an existing file.
    pub async fn open(&self, path: &str) -> Result<File> {
        let handle = self.mount.resolve(path).await?;
        Ok(File::new(handle, self.mount.fetch_layout(handle).await?))
    }

    /// Up to `len` bytes from `offset`; fewer only at the end of the file. Holes read as zeros.
    pub async fn read_at(&self, file: &File, offset: u64, len: usize) -> Result<Bytes> {
        io::read_at(&self.mount, file, offset, len).await
    }

    /// Writes all of `data` at `offset`, extending the file where needed.
    pub async fn write_at(&self, file: &File, offset: u64, data: Bytes) -> Result<()> {
        io::write_at(&self.mount, file, offset, data).await
    }

    /// Sets the size of a file: truncates it, or extends it with a hole.
    pub async fn truncate(&self, file: &File, size: u64) -> Result<()> {
        self.mount.truncate(file, size).await
    }

    /// Returns when all servers of the file have stored its data and attributes.
    pub async fn fsync(&self, file: &File) -> Result<()> {
        self.mount.fsync(file).await
    }

    /// The file's size in bytes.
    pub async fn size(&self, file: &File) -> Result<u64> {
        self.mount.size(file).await
    }

    /// Attributes and size of the object that `path` names.
    pub async fn stat(&self, path: &str) -> Result<Stat> {
        self.mount.stat(path).await
    }

    /// Sets the times of last access and last modification of the object that `path` names, in seconds since 1970.
    ///
    /// Fails with EACCES unless this client's user is the owner or user 0. Takes two requests besides the look-up.
    pub async fn set_times(&self, path: &str, atime_secs: u64, mtime_secs: u64) -> Result<()> {
        self.mount.set_times(path, atime_secs, mtime_secs).await
    }

    /// Sets owner, group and permission bits of the object that `path` names.
    ///
    /// Fails with EACCES unless this client's user may do that. Takes two requests besides the look-up.
    pub async fn set_owner(&self, path: &str, uid: u32, gid: u32, mode: u32) -> Result<()> {
        self.mount.set_owner(path, uid, gid, mode).await
    }

    /// The names of the extended attributes of the object that `path` names.
    pub async fn xattr_names(&self, path: &str) -> Result<Vec<Vec<u8>>> {
        self.mount.xattr_names(path).await
    }

    /// Removes a file or link.
    pub async fn remove(&self, path: &str) -> Result<()> {
        self.mount.remove(path).await
    }

    /// Creates a directory with permission bits `mode`.
    pub async fn mkdir(&self, path: &str, mode: u32) -> Result<()> {
        self.mount.mkdir(path, mode).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &str) -> Result<()> {
        self.mount.rmdir(path).await
    }

    /// Renames; an existing file under the new name is replaced and removed.
    pub async fn rename(&self, old: &str, new: &str) -> Result<()> {
        self.mount.rename(old, new).await
    }

    /// Renames a file; fails if the new name exists. A rename that was interrupted after it had added the new name can
    /// be repeated.
    pub async fn rename_new(&self, old: &str, new: &str) -> Result<()> {
        self.mount.rename_new(old, new).await
    }

    /// All entries of a directory, in the server's order.
    pub async fn readdir(&self, path: &str) -> Result<Vec<DirEntry>> {
        self.mount.readdir(path).await
    }

    /// Space and objects, summed over all servers.
    pub async fn statfs(&self) -> Result<StatFs> {
        self.mount.statfs().await
    }

    /// Creates a symbolic link that points at `target`.
    pub async fn symlink(&self, target: &str, path: &str) -> Result<()> {
        self.mount.symlink(target, path).await
    }

    /// Where a symbolic link points.
    pub async fn readlink(&self, path: &str) -> Result<String> {
        self.mount.readlink(path).await
    }
}
