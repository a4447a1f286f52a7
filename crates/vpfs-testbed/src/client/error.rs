//! Why an operation failed.

use std::io;
use std::time::Duration;

use vpfs_wire::pvfs2::{Errno, Op, Status};

use crate::fsconfig::FsConfigError;

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
    pub(super) const fn refused(op: Op, errno: Errno) -> Self {
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
