//! Accepts clients at one listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use vpfs_session::Side;

use crate::connection::{self, End, Failure, Newcomer};
use crate::connection_permits::{ConnectionPermit, ConnectionPermits};
use crate::descriptors::Exhausted;
use crate::handover::Handed;
use crate::hosts::{Host, HostConnection};
use crate::listener::Listener;
use crate::log_limit::Kind;
use crate::shared::{Shared, Stage, reached};
use crate::sockets::{prepare, reset_on_close};

/// After a failure to accept, or to find a connection that can leave, the time to the next attempt.
const RETRY: Duration = Duration::from_millis(100);

/// Accepts clients and creates a task for each.
pub(crate) struct Acceptor {
    pub(crate) listener: Arc<Listener>,
    pub(crate) shared: Arc<Shared>,
    /// Limits the connections of the whole daemon: when they are used up, further clients wait.
    pub(crate) permits: Arc<ConnectionPermits>,
}

impl Acceptor {
    /// Accepts until the daemon drains or hands over.
    pub(crate) async fn run(self: Arc<Self>, socket: Arc<TcpListener>) {
        let mut stage = self.shared.stage();
        tokio::select! {
            () = reached(&mut stage, Stage::HandingOver) => {}
            () = self.accept_all(&socket) => {}
        }
    }

    async fn accept_all(self: &Arc<Self>, socket: &TcpListener) {
        loop {
            match socket.accept().await {
                Ok((client, peer)) => {
                    let newcomer = Newcomer::Accepted(client);
                    let Some((newcomer, counted)) = self.count(newcomer, peer) else { continue };
                    let permit = self.permit(peer, &counted).await;
                    self.admit(newcomer, peer, counted, permit);
                }
                Err(error) if is_the_clients_fault(&error) => {}
                Err(error) => {
                    let now = self.shared.clock.now();
                    match Exhausted::of(&error) {
                        Some(exhausted) => self.listener.lacks_sockets(now, &exhausted),
                        None => self.listener.lacks_sockets(now, &error),
                    }
                    // Connections that end will free descriptors; clients wait meanwhile.
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// A permit for a connection of a host, which takes the place of another one if all are taken.
    async fn permit(&self, peer: SocketAddr, counted: &HostConnection) -> ConnectionPermit {
        if let Some(permit) = self.permits.try_take() {
            return permit;
        }
        if self.listener.log.due(Kind::ConnectionsUsedUp, self.shared.clock.now()).is_some() {
            let most = self.shared.hosts.holders(1).first().map(|(host, count)| format!("{host} ({count})"));
            tracing::warn!(
                server = %self.listener.server, %peer, most,
                "limits.connections is reached; clients get the places of idle connections of hosts with more, and wait \
                 if there are none"
            );
        }
        loop {
            let now = self.shared.clock.now();
            self.shared.hosts.claim(counted.host(), now);
            tokio::select! {
                permit = self.permits.take() => return permit,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Serves a connection of a predecessor; whether there was room.
    pub(crate) fn take_over(self: &Arc<Self>, handed: Handed) -> bool {
        let (Ok(peer), Some(permit)) = (handed.client.peer_addr(), self.permits.try_take()) else {
            handed.end();
            return false;
        };
        if let Some((newcomer, counted)) = self.count(Newcomer::Inherited(handed), peer) {
            self.admit(newcomer, peer, counted, permit);
        }
        true
    }

    /// Counts a connection of its host; closes it if that has too many.
    pub(crate) fn count(&self, newcomer: Newcomer, peer: SocketAddr) -> Option<(Newcomer, HostConnection)> {
        let limit = self.shared.rules().limits.host_connections;
        match HostConnection::new(self.shared.hosts.get(peer.ip()), limit) {
            Ok(counted) => Some((newcomer, counted)),
            Err(host) => {
                self.refuse(newcomer, peer, &host);
                None
            }
        }
    }

    pub(crate) fn admit(
        self: &Arc<Self>,
        newcomer: Newcomer,
        peer: SocketAddr,
        counted: HostConnection,
        permit: ConnectionPermit,
    ) {
        if let Newcomer::Accepted(client) = &newcomer
            && let Err(error) = prepare(client)
        {
            tracing::debug!(server = %self.listener.server, %peer, %error, "client disconnected at once");
            return;
        }
        let acceptor = Arc::clone(self);
        tokio::spawn(async move {
            let (listener, shared) = (Arc::clone(&acceptor.listener), Arc::clone(&acceptor.shared));
            tracing::debug!(server = %listener.server, %peer, "connected");
            let seat = Arc::clone(counted.seat());
            let (ended, abandoned) = connection::serve(shared, listener, newcomer, peer, seat).await;
            acceptor.tell(counted.host(), peer, &ended);
            if let Some(abandoned) = abandoned {
                abandoned.finish().await;
            }
            // Before the permit: another connection may get that of this host.
            drop(counted);
            drop(permit);
        });
    }

    /// Closes a connection of a host that has too many. It is not left waiting, because it would take the place of
    /// other hosts' connections in the queue of the listening socket.
    fn refuse(&self, newcomer: Newcomer, peer: SocketAddr, host: &Host) {
        self.listener.gate.refused.fetch_add(1, Ordering::Relaxed);
        match newcomer {
            Newcomer::Accepted(client) => reset_on_close(&client),
            Newcomer::Inherited(handed) => handed.end(),
            #[cfg(test)]
            Newcomer::Simulated(client, _) => client.reset_on_close(),
        }
        let server = &self.listener.server;
        if let Some(suppressed) = host.log.due(Kind::TooManyConnections, self.shared.clock.now()) {
            let suppressed = (suppressed > 0).then_some(suppressed);
            let reason = "limits.connections_per_host is reached";
            tracing::warn!(%server, %peer, reason, suppressed, "connection closed");
        }
    }

    fn tell(&self, host: &Host, peer: SocketAddr, ended: &Result<End, Failure>) {
        let server = &self.listener.server;
        match ended {
            Ok(end) => tracing::debug!(%server, %peer, ?end, "connection closed"),
            Err(Failure::Upstream(error)) => self.listener.failed(error),
            Err(Failure::NoDescriptors(exhausted)) => {
                self.listener.lacks_sockets(self.shared.clock.now(), exhausted);
            }
            Err(reason) => {
                let log = reason.blame().map(|(side, kind)| match side {
                    Side::Client => (&host.log, kind),
                    Side::Server => (&self.listener.log, kind),
                });
                match log.and_then(|(log, kind)| log.due(kind, self.shared.clock.now())) {
                    Some(suppressed) => {
                        let suppressed = (suppressed > 0).then_some(suppressed);
                        tracing::warn!(%server, %peer, %reason, suppressed, "connection closed");
                    }
                    None => tracing::debug!(%server, %peer, %reason, "connection closed"),
                }
            }
        }
    }
}

/// Whether a failed accept does not affect the next one.
fn is_the_clients_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}
