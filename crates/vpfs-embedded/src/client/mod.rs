//! A client of OrangeFS-protocol servers: ours and real ones.
//!
//! One connection to each server, shared by all operations of a [`Client`] and its clones; replies may come in any
//! order. Retries, capabilities and the choice between bulk and inline transfers follow the stock client
//! (OrangeFS 2.10 wire protocol), so servers and proxies cannot tell the difference.

mod error;
mod options;
mod types;

use bytes::Bytes;

pub use error::{ClientError, Errno};
pub use options::{ClientOptions, CreateOptions};
pub use types::{DirEntry, FileKind, Stat, StatFs};

/// The result of a client operation.
pub type Result<T> = std::result::Result<T, ClientError>;

/// A mounted file system. Clones share connections; safe to use from many tasks at once.
///
/// Paths are absolute (`/a/b`), without `.` and `..`; links are not followed.
#[derive(Clone, Debug)]
pub struct Client {}

/// An open file: where its bytes lie and the right to use them. Nothing to close.
#[derive(Clone, Debug)]
pub struct File {}

impl File {
    /// The file's handle.
    pub fn handle(&self) -> u64 {
        0
    }

    /// The servers that hold its datafiles, in the order of the distribution, by index in the configuration.
    /// One server as long as the file is small and not yet striped.
    pub fn servers(&self) -> Vec<usize> {
        Vec::new()
    }
}

const UNFINISHED: ClientError = ClientError::Refused { op: "client", errno: Errno::NotSupported };

impl Client {
    /// Connects to all servers, after checking that they agree on the configuration.
    pub async fn connect(options: ClientOptions) -> Result<Self> {
        options.split_url()?;
        Err(UNFINISHED)
    }

    /// Creates a file; refused if the name exists.
    pub async fn create(&self, path: &str, options: &CreateOptions) -> Result<File> {
        let _ = (path, options);
        Err(UNFINISHED)
    }

    /// Opens an existing file.
    pub async fn open(&self, path: &str) -> Result<File> {
        let _ = path;
        Err(UNFINISHED)
    }

    /// Up to `len` bytes from `offset`; less only at the end of the file. Holes read as zeros.
    pub async fn read_at(&self, file: &File, offset: u64, len: usize) -> Result<Bytes> {
        let _ = (file, offset, len);
        Err(UNFINISHED)
    }

    /// Writes all of `data` at `offset`, extending the file where needed.
    pub async fn write_at(&self, file: &File, offset: u64, data: Bytes) -> Result<()> {
        let _ = (file, offset, data);
        Err(UNFINISHED)
    }

    /// Sets the size of a file: cuts, or extends by a hole.
    pub async fn truncate(&self, file: &File, size: u64) -> Result<()> {
        let _ = (file, size);
        Err(UNFINISHED)
    }

    /// Returns when all servers of the file have its data and attributes on storage.
    pub async fn fsync(&self, file: &File) -> Result<()> {
        let _ = file;
        Err(UNFINISHED)
    }

    /// The file's size in bytes.
    pub async fn size(&self, file: &File) -> Result<u64> {
        let _ = file;
        Err(UNFINISHED)
    }

    /// Attributes and size of what `path` names.
    pub async fn stat(&self, path: &str) -> Result<Stat> {
        let _ = path;
        Err(UNFINISHED)
    }

    /// Removes a file or link.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let _ = path;
        Err(UNFINISHED)
    }

    /// Creates a directory with permission bits `mode`.
    pub async fn mkdir(&self, path: &str, mode: u32) -> Result<()> {
        let _ = (path, mode);
        Err(UNFINISHED)
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &str) -> Result<()> {
        let _ = path;
        Err(UNFINISHED)
    }

    /// Renames; an existing file under the new name is replaced and removed.
    pub async fn rename(&self, old: &str, new: &str) -> Result<()> {
        let _ = (old, new);
        Err(UNFINISHED)
    }

    /// All entries of a directory, in the server's order.
    pub async fn readdir(&self, path: &str) -> Result<Vec<DirEntry>> {
        let _ = path;
        Err(UNFINISHED)
    }

    /// Space and objects, summed over all servers.
    pub async fn statfs(&self) -> Result<StatFs> {
        Err(UNFINISHED)
    }

    /// Creates a symbolic link that points at `target`.
    pub async fn symlink(&self, target: &str, path: &str) -> Result<()> {
        let _ = (target, path);
        Err(UNFINISHED)
    }

    /// Where a symbolic link points.
    pub async fn readlink(&self, path: &str) -> Result<String> {
        let _ = path;
        Err(UNFINISHED)
    }
}
