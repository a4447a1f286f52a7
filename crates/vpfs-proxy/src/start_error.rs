//! Why a daemon cannot start.

use std::io;

use crate::peers::PeersError;

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum StartError {
    /// The process to succeed is gone.
    #[error("cannot take over from the predecessor: {0}")]
    Predecessor(io::Error),
    /// Other processes cannot be reached.
    #[error("{0}")]
    Peers(#[from] PeersError),
    /// An address cannot be bound.
    #[error("cannot listen at {host}:{port} for server {server}: {error}")]
    Listen { server: String, host: String, port: u16, error: io::Error },
    /// The same for metrics or the page.
    #[error("cannot listen at {host}:{port} for {what}: {error}")]
    Serve { what: String, host: String, port: u16, error: io::Error },
}
