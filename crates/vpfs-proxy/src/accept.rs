//! Accepts clients at one listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::connection::{self, End, Failure};
use crate::connection_permits::{ConnectionPermit, ConnectionPermits};
use crate::listener::Listener;
use crate::shared::{Shared, left_serving};
use crate::sockets::prepare;

/// Accepts clients and creates a task for each.
pub(crate) struct Acceptor {
    pub(crate) listener: Arc<Listener>,
    pub(crate) shared: Arc<Shared>,
    /// Limits the connections of the whole daemon: when they are used up, further clients wait.
    pub(crate) permits: Arc<ConnectionPermits>,
}

impl Acceptor {
    /// Accepts until the daemon drains.
    pub(crate) async fn run(self, socket: TcpListener) {
        let mut stage = self.shared.stage();
        tokio::select! {
            () = left_serving(&mut stage) => {}
            () = self.accept_all(&socket) => {}
        }
    }

    async fn accept_all(&self, socket: &TcpListener) {
        let (mut was_full, mut was_failing) = (false, false);
        loop {
            match socket.accept().await {
                Ok((client, peer)) => {
                    was_failing = false;
                    let permit = self.permit(peer, &mut was_full).await;
                    self.admit(client, peer, permit);
                }
                Err(error) if is_the_clients_fault(&error) => {}
                Err(error) => {
                    // Probably out of descriptors: connections that end will free some.
                    if !std::mem::replace(&mut was_failing, true) {
                        tracing::error!(server = %self.listener.server, %error, "cannot accept connections; retrying");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn permit(&self, peer: SocketAddr, was_full: &mut bool) -> ConnectionPermit {
        if let Some(permit) = self.permits.try_take() {
            *was_full = false;
            return permit;
        }
        if !std::mem::replace(was_full, true) {
            tracing::warn!(server = %self.listener.server, %peer, "limits.connections is reached; clients wait");
        }
        self.permits.take().await
    }

    fn admit(&self, client: TcpStream, peer: SocketAddr, permit: ConnectionPermit) {
        let (listener, shared) = (Arc::clone(&self.listener), Arc::clone(&self.shared));
        if let Err(error) = prepare(&client) {
            tracing::debug!(server = %listener.server, %peer, %error, "client disconnected at once");
            return;
        }
        tokio::spawn(async move {
            tracing::debug!(server = %listener.server, %peer, "connected");
            let (ended, abandoned) = connection::serve(shared, Arc::clone(&listener), client, peer).await;
            tell(&listener, peer, &ended);
            if let Some(abandoned) = abandoned {
                abandoned.finish().await;
            }
            drop(permit);
        });
    }
}

fn tell(listener: &Listener, peer: SocketAddr, ended: &Result<End, Failure>) {
    let server = &listener.server;
    match ended {
        Ok(end) => tracing::debug!(%server, %peer, ?end, "connection closed"),
        Err(reason @ (Failure::Refused(_) | Failure::TimedOut(_) | Failure::OutOfMemory)) => {
            tracing::warn!(%server, %peer, %reason, "connection closed");
        }
        Err(Failure::Upstream(error)) => listener.failed(error),
        Err(reason @ Failure::Io { .. }) => tracing::debug!(%server, %peer, %reason, "connection closed"),
    }
}

/// Whether a failed accept does not affect the next one.
fn is_the_clients_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}
