//! One listening address in front of one server.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vpfs_core::Time;
use vpfs_session::Interposer;

use crate::gate::Gate;
use crate::log_limit::{Kind, LogLimit};

/// Where clients connect.
pub(crate) struct Listener {
    /// The server's name, for the log.
    pub(crate) server: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Host and port of the server; resolved again for each connection, so that a moved server is found.
    pub(crate) upstream: (String, u16),
    /// Its index among the listeners of the configuration.
    pub(crate) index: usize,
    /// Creates the sessions, in the protocol of clients and server.
    pub(crate) interposer: Arc<dyn Interposer>,
    pub(crate) gate: Arc<Gate>,
    /// Whether the server was unreachable at the last attempt, so that failure and recovery are each logged once.
    pub(crate) down: AtomicBool,
    /// The lines in the log about failures of the server, and of accepting.
    pub(crate) log: LogLimit,
}

impl Listener {
    /// The server cannot be reached.
    pub(crate) fn failed(&self, error: &std::io::Error) {
        if !self.down.swap(true, Ordering::Relaxed) {
            let (host, port) = &self.upstream;
            tracing::warn!(server = %self.server, address = %format!("{host}:{port}"), %error, "server cannot be reached");
        }
    }

    /// No socket can be opened or accepted, at `now`.
    pub(crate) fn lacks_sockets(&self, now: Time, error: &dyn Display) {
        if let Some(suppressed) = self.log.due(Kind::NoSocket, now) {
            let suppressed = (suppressed > 0).then_some(suppressed);
            tracing::error!(server = %self.server, %error, suppressed, "cannot accept connections");
        }
    }

    /// A connection to the server was made.
    pub(crate) fn reached(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %self.server, "server can be reached again");
        }
    }
}
