//! Why an operation failed.

use std::io;
use std::time::Duration;

use nfs3_types::mount::mountstat3;
use nfs3_types::nfs3::nfsstat3;

/// Why an operation failed. Nothing is repeated.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum NfsError {
    /// No URL of an export.
    #[error("`{0}` is not nfs://HOST/EXPORT or nfs://HOST:PORT/EXPORT?mountport=PORT")]
    Url(String),
    /// An argument that the protocol cannot express.
    #[error("{0}")]
    Argument(&'static str),
    /// The mount daemon refused.
    #[error("{server} does not export {export}: {status}")]
    Mount { server: String, export: String, status: mountstat3 },
    /// The server refused.
    #[error("{0}")]
    Refused(nfsstat3),
    /// No connection, or it broke.
    #[error("connection to {server}: {reason}")]
    Connection { server: String, kind: io::ErrorKind, reason: String },
    /// No reply.
    #[error("{server} did not answer for {waited:?}")]
    Timeout { server: String, waited: Duration },
    /// The server does not offer this, or violated the protocol.
    #[error("{server}: {what}")]
    Protocol { server: String, what: String },
}

impl NfsError {
    pub(super) fn connection(server: &str, error: &io::Error) -> Self {
        Self::Connection { server: server.to_owned(), kind: error.kind(), reason: error.to_string() }
    }

    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(nfsstat3::NFS3ERR_NOENT))
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused(nfsstat3::NFS3ERR_EXIST))
    }
}
