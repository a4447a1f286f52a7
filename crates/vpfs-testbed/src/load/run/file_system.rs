//! The file systems that a run can be on.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use nfs3_types::nfs3::stable_how;

use super::SyncMode;
use crate::client::{Client, ClientError, ClientOptions, CreateOptions, File};
use crate::nfs::{self, NfsError};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum FileSystemError {
    /// On OrangeFS.
    OrangeFs(#[from] ClientError),
    /// On NFS.
    Nfs(#[from] NfsError),
}

type Result<T> = std::result::Result<T, FileSystemError>;

impl FileSystemError {
    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::OrangeFs(error) => error.is_not_found(),
            Self::Nfs(error) => error.is_not_found(),
        }
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        match self {
            Self::OrangeFs(error) => error.is_already_exists(),
            Self::Nfs(error) => error.is_already_exists(),
        }
    }

    /// Why there is no connection, if that is the reason.
    pub fn connection(&self) -> Option<std::io::ErrorKind> {
        match self {
            Self::OrangeFs(ClientError::Connection { kind, .. }) | Self::Nfs(NfsError::Connection { kind, .. }) => {
                Some(*kind)
            }
            _ => None,
        }
    }
}

/// A client of either. Clones share connections.
#[derive(Clone)]
pub(super) enum FileSystem {
    OrangeFs(Client),
    Nfs(nfs::Client),
}

/// An open file.
#[derive(Clone)]
pub(super) enum OpenFile {
    OrangeFs(Client, File),
    Nfs(nfs::Client, nfs::File),
}

/// The same call to either client.
macro_rules! either {
    ($self:expr, $client:ident => $call:expr) => {
        match $self {
            FileSystem::OrangeFs($client) => $call.await?,
            FileSystem::Nfs($client) => $call.await?,
        }
    };
}

impl FileSystem {
    /// The scheme of the URL says which it is.
    pub(super) async fn connect(options: ClientOptions) -> Result<Self> {
        Ok(match options.url.starts_with("nfs://") {
            true => Self::Nfs(nfs::Client::connect(&options).await?),
            false => Self::OrangeFs(Client::connect(options).await?),
        })
    }

    /// The address that each open connection comes from, and that of the server or proxy at its other end.
    pub(super) fn ends(&self) -> Vec<(IpAddr, SocketAddr)> {
        match self {
            Self::OrangeFs(client) => client.ends().collect(),
            Self::Nfs(client) => vec![client.ends()],
        }
    }

    pub(super) async fn open(&self, path: &str) -> Result<OpenFile> {
        Ok(match self {
            Self::OrangeFs(client) => OpenFile::OrangeFs(client.clone(), client.open(path).await?),
            Self::Nfs(client) => OpenFile::Nfs(client.clone(), client.open(path).await?),
        })
    }

    /// The layout is OrangeFS's: an export of NFS has one server.
    pub(super) async fn create(&self, path: &str, layout: &CreateOptions) -> Result<OpenFile> {
        Ok(match self {
            Self::OrangeFs(client) => OpenFile::OrangeFs(client.clone(), client.create(path, layout).await?),
            Self::Nfs(client) => OpenFile::Nfs(client.clone(), client.create(path).await?),
        })
    }

    pub(super) async fn mkdir(&self, path: &str) -> Result<()> {
        either!(self, client => client.mkdir(path, 0o755));
        Ok(())
    }

    pub(super) async fn rmdir(&self, path: &str) -> Result<()> {
        either!(self, client => client.rmdir(path));
        Ok(())
    }

    pub(super) async fn remove(&self, path: &str) -> Result<()> {
        either!(self, client => client.remove(path));
        Ok(())
    }

    /// Reads all names of a directory.
    pub(super) async fn readdir(&self, path: &str) -> Result<()> {
        either!(self, client => async { client.readdir(path).await.map(drop) });
        Ok(())
    }

    /// Asks for the attributes of a file.
    pub(super) async fn stat(&self, path: &str) -> Result<()> {
        either!(self, client => async { client.stat(path).await.map(drop) });
        Ok(())
    }

    /// Sets both times of a file, in seconds since 1970.
    pub(super) async fn set_times(&self, path: &str, time: u64) -> Result<()> {
        either!(self, client => client.set_times(path, time, time));
        Ok(())
    }
}

impl OpenFile {
    pub(super) async fn write_at(&self, offset: u64, data: &Bytes, sync: SyncMode) -> Result<()> {
        let stable = if sync == SyncMode::Stable { stable_how::FILE_SYNC } else { stable_how::UNSTABLE };
        match self {
            Self::OrangeFs(client, file) => client.write_at(file, offset, data.clone()).await?,
            Self::Nfs(client, file) => client.write_at(file, offset, data, stable).await?,
        };
        if sync == SyncMode::Each { self.fsync().await } else { Ok(()) }
    }

    pub(super) async fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        Ok(match self {
            Self::OrangeFs(client, file) => client.read_at(file, offset, len).await?,
            Self::Nfs(client, file) => client.read_at(file, offset, len).await?,
        })
    }

    pub(super) async fn fsync(&self) -> Result<()> {
        match self {
            Self::OrangeFs(client, file) => client.fsync(file).await?,
            Self::Nfs(client, file) => client.fsync(file).await?,
        }
        Ok(())
    }
}
