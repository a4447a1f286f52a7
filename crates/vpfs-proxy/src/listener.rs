//! One listening address in front of one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vpfs_session::Interposer;

use crate::gate::Gate;

/// Where clients come in.
pub(crate) struct Listener {
    /// The server's name, for the log.
    pub(crate) server: String,
    /// Host and port of the server; resolved anew for each connection, so that a moved server is found.
    pub(crate) upstream: (String, u16),
    /// Its place among the listeners of the configuration.
    pub(crate) index: usize,
    /// Makes the sessions, in the protocol that clients and server speak.
    pub(crate) interposer: Arc<dyn Interposer>,
    pub(crate) gate: Arc<Gate>,
    /// The server was last seen unreachable; so that this is logged once, and once when it heals.
    pub(crate) down: AtomicBool,
}

impl Listener {
    /// The server cannot be reached.
    pub(crate) fn failed(&self, error: &std::io::Error) {
        if !self.down.swap(true, Ordering::Relaxed) {
            let (host, port) = &self.upstream;
            tracing::warn!(server = %self.server, address = %format!("{host}:{port}"), %error, "server cannot be reached");
        }
    }

    /// A connection to the server was made.
    pub(crate) fn reached(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %self.server, "server can be reached again");
        }
    }
}
