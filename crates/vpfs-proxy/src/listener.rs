//! One listening address in front of one server.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use vpfs_core::Time;
use vpfs_session::Interposer;

use crate::gate::Gate;
use crate::log_limit::{Kind, LogLimit};
use crate::names::Names;
use crate::sockets::prepare;

/// Where clients connect.
pub(crate) struct Listener {
    /// The server's name, for the log.
    pub(crate) server: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Host and port of the server.
    pub(crate) upstream: (String, u16),
    /// Has its address; looked up again when connections are opened, so that a moved server is found.
    pub(crate) names: Names,
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
    /// Connects to the server, within this time.
    pub(crate) async fn connect(&self, patience: Duration) -> io::Result<TcpStream> {
        let (host, port) = &self.upstream;
        let stream = tokio::time::timeout(patience, self.names.connect(host, *port))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer within limits.connect_timeout"))??;
        prepare(&stream)?;
        Ok(stream)
    }

    /// The server cannot be reached.
    pub(crate) fn failed(&self, error: &io::Error) {
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
