//! One listening address in front of one server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use vpfs_interpose::Protocol;

use crate::connection::{self, End, Failure};
use crate::connection_permits::{ConnectionPermit, ConnectionPermits};
use crate::gate::Gate;
use crate::shared::{Shared, left_serving};
use crate::sockets::prepare;

/// Where clients come in.
pub(crate) struct Listener {
    /// The server's name, for the log.
    pub(crate) server: String,
    /// Host and port of the server; resolved anew for each connection, so that a moved server is found.
    pub(crate) upstream: (String, u16),
    /// Its place among the listeners of the configuration.
    pub(crate) index: usize,
    /// What clients and server speak.
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) gate: Arc<Gate>,
    /// The server was last seen unreachable; so that this is logged once, and once when it heals.
    pub(crate) down: AtomicBool,
}

impl Listener {
    /// Accepts until the daemon drains. `permits` bounds the connections of the whole daemon: when they are used up,
    /// further clients wait.
    pub(crate) async fn serve(
        self: Arc<Self>,
        shared: Arc<Shared>,
        socket: TcpListener,
        permits: Arc<ConnectionPermits>,
    ) {
        let mut stage = shared.stage();
        tokio::select! {
            () = left_serving(&mut stage) => {}
            () = self.accept_all(&shared, &socket, &permits) => {}
        }
    }

    async fn accept_all(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        socket: &TcpListener,
        permits: &Arc<ConnectionPermits>,
    ) {
        let (mut was_full, mut was_failing) = (false, false);
        loop {
            let accepted = socket.accept().await;
            match accepted {
                Ok((client, peer)) => {
                    was_failing = false;
                    let permit = self.permit(peer, permits, &mut was_full).await;
                    self.admit(shared, client, peer, permit);
                }
                Err(error) if is_the_clients_fault(&error) => {}
                Err(error) => {
                    // Out of descriptors, most likely: connections that end make room.
                    if !std::mem::replace(&mut was_failing, true) {
                        tracing::error!(server = %self.server, %error, "cannot accept; trying on");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn permit(
        &self,
        peer: SocketAddr,
        permits: &Arc<ConnectionPermits>,
        was_full: &mut bool,
    ) -> ConnectionPermit {
        if let Some(permit) = permits.try_take() {
            *was_full = false;
            return permit;
        }
        if !std::mem::replace(was_full, true) {
            tracing::warn!(server = %self.server, %peer, "limits.connections is reached; clients wait");
        }
        permits.take().await
    }

    fn admit(self: &Arc<Self>, shared: &Arc<Shared>, client: TcpStream, peer: SocketAddr, permit: ConnectionPermit) {
        if let Err(error) = prepare(&client) {
            tracing::debug!(server = %self.server, %peer, %error, "client was gone at once");
            return;
        }
        let (listener, shared) = (Arc::clone(self), Arc::clone(shared));
        tokio::spawn(async move {
            tracing::debug!(server = %listener.server, %peer, "connected");
            let ended = connection::serve(shared, Arc::clone(&listener), client, peer).await;
            listener.tell(peer, &ended);
            drop(permit);
        });
    }

    fn tell(&self, peer: SocketAddr, ended: &Result<End, Failure>) {
        let server = &self.server;
        match ended {
            Ok(end) => tracing::debug!(%server, %peer, ?end, "connection closed"),
            Err(reason @ (Failure::Refused(_) | Failure::TimedOut(_))) => {
                tracing::warn!(%server, %peer, %reason, "connection closed");
            }
            Err(Failure::Upstream(error)) => {
                if !self.down.swap(true, Ordering::Relaxed) {
                    let (host, port) = &self.upstream;
                    tracing::warn!(%server, address = %format!("{host}:{port}"), %error, "server cannot be reached");
                }
            }
            Err(reason @ Failure::Io { .. }) => tracing::debug!(%server, %peer, %reason, "connection closed"),
        }
    }

    /// A connection to the server was made.
    pub(crate) fn reached(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            tracing::info!(server = %self.server, "server can be reached again");
        }
    }
}

/// Whether a failed accept says nothing about the next one.
fn is_the_clients_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}
