//! Why an operation failed.

use std::io;
use std::time::Duration;

use crate::fsconfig::FsConfigError;

/// Why an operation failed. Retries the protocol allows have been made already.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// Not `tcp://host:port/filesystem`.
    #[error("`{0}` is not tcp://host:port/filesystem")]
    Url(String),
    /// A path that no server could resolve: not absolute, or a component too long.
    #[error("path `{path}`: {what}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The servers' configuration text cannot be used.
    #[error(transparent)]
    Config(#[from] FsConfigError),
    /// The servers do not agree on the configuration: some address leads to another cluster or past a proxy.
    #[error("{server} gives another configuration than {first}; all must be equal, byte for byte")]
    ConfigsDiffer {
        /// The server that was asked first.
        first: String,
        /// The one that differs.
        server: String,
    },
    /// A server refused.
    #[error("{op}: {errno}")]
    Refused {
        /// The operation.
        op: &'static str,
        /// Its reason.
        errno: Errno,
    },
    /// No connection, or it was lost, on every attempt.
    #[error("connection to {server}: {reason} ({kind})")]
    Connection {
        /// `host:port`.
        server: String,
        /// The kind of the last error.
        kind: io::ErrorKind,
        /// The last error.
        reason: String,
    },
    /// No reply, or no progress of a transfer, on every attempt.
    #[error("{server} did not answer {op} for {waited:?}")]
    Timeout {
        /// `host:port`.
        server: String,
        /// The operation.
        op: &'static str,
        /// Time waited on the last attempt.
        waited: Duration,
    },
    /// A server broke the protocol.
    #[error("{server}: {what}")]
    Protocol {
        /// `host:port`.
        server: String,
        /// What it did.
        what: String,
    },
}

impl ClientError {
    /// The server's reason, if a server refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Some(Errno::NotFound)
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.errno() == Some(Errno::Exists)
    }
}

/// The reasons servers give, by meaning (OrangeFS 2.10 wire protocol, status codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Errno {
    /// Not the owner.
    #[error("operation not permitted")]
    NotPermitted,
    /// No such object or name.
    #[error("no such file or directory")]
    NotFound,
    /// The storage failed.
    #[error("input/output error")]
    Io,
    /// The capability has run out, or a resource is short for now.
    #[error("try again")]
    Again,
    /// The name exists.
    #[error("file exists")]
    Exists,
    /// A component of the path, or the object, is no directory.
    #[error("not a directory")]
    NotADirectory,
    /// The object is a directory.
    #[error("is a directory")]
    IsADirectory,
    /// An argument makes no sense.
    #[error("invalid argument")]
    Invalid,
    /// The file would become too large.
    #[error("file too large")]
    TooLarge,
    /// The server is full.
    #[error("no space left")]
    NoSpace,
    /// The name is too long.
    #[error("name too long")]
    NameTooLong,
    /// The server does not know the operation.
    #[error("operation not supported")]
    NotSupported,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// Permission bits forbid it.
    #[error("permission denied")]
    PermissionDenied,
    /// Any other status, as on the wire.
    #[error("status {0}")]
    Other(i32),
}
