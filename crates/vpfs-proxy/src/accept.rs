//! Accepts clients at one listener.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::net::TcpListener;
use tokio::time::Instant;
use vpfs_config::{Config, Protocol};
use vpfs_core::ServerId;
use vpfs_protocol::session::nfs::Nfs;
use vpfs_protocol::session::orangefs::{AddressMap, OrangeFs};
use vpfs_protocol::session::{Interposer, Side};

use crate::check::Exhausted;
use crate::connection;
use crate::connection::{End, Failure, Newcomer};
use crate::event_log::{Kind, LogLimit};
use crate::gate::Gate;
use crate::handover::{Handed, Inheritance};
use crate::hosts::{ConnectionPermit, ConnectionPermits, Host, HostConnection};
use crate::lock;
use crate::names::Names;
use crate::shared::{Shared, Stage, reached};
use crate::sockets::{Bound, Listener, listen, listen_later, prepare, reset_on_close};

/// After a failure to accept, or to find a connection that can leave, the time to the next attempt.
const RETRY: Duration = Duration::from_millis(100);

pub(crate) struct Acceptor {
    pub(crate) listener: Arc<Listener>,
    pub(crate) shared: Arc<Shared>,
    /// Limits the connections of the whole daemon: when they are used up, further clients wait.
    pub(crate) permits: Arc<ConnectionPermits>,
}

impl Acceptor {
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
        tokio::spawn(
            async move {
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
            }
            .boxed(),
        );
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
                        tracing::warn!(%server, %peer, %reason, suppressed, "connection closed");
                    }
                    None => tracing::debug!(%server, %peer, %reason, "connection closed"),
                }
            }
        }
    }
}

fn is_the_clients_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

#[derive(Clone)]
pub(crate) struct Site {
    acceptor: Arc<Acceptor>,
    socket: Arc<TcpListener>,
}

impl Site {
    /// Accepts clients until the daemon drains or hands over.
    pub(crate) async fn run(self) {
        let mut stage = self.acceptor.shared.stage();
        tokio::select! {
            () = reached(&mut stage, Stage::HandingOver) => {}
            () = self.acceptor.accept_all(&self.socket) => {}
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Sites(Arc<Mutex<Vec<Site>>>);

impl Sites {
    pub(crate) fn add(&self, site: Site) {
        lock(&self.0).push(site);
    }

    pub(crate) fn acceptor(&self, listener: SocketAddr, upstream: &(String, u16)) -> Option<Arc<Acceptor>> {
        let serves =
            |site: &&Site| site.acceptor.listener.address == listener && site.acceptor.listener.upstream == *upstream;
        lock(&self.0).iter().find(serves).map(|site| Arc::clone(&site.acceptor))
    }

    pub(crate) fn close(&self) {
        lock(&self.0).clear();
    }

    pub(crate) fn sockets(&self) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let socket = |site: &Site| Ok((site.acceptor.listener.address, site.socket.as_fd().try_clone_to_owned()?));
        lock(&self.0).iter().map(socket).collect()
    }
}

pub(crate) struct Entrance {
    server: String,
    address: String,
    listen: (String, u16),
    upstream: (String, u16),
    index: usize,
    interposer: Arc<dyn Interposer>,
    gate: Arc<Gate>,
    names: Names,
}

impl Entrance {
    /// All listeners of the servers, whose gates are in the same order.
    pub(crate) fn all(config: &Config, servers: &[ServerId], gates: &[Arc<Gate>], names: &Names) -> Vec<Self> {
        let mut entrances = Vec::new();
        for (index, configured) in config.listeners.iter().enumerate() {
            let pairs = config.address_pairs(index).map(|(server, proxy)| (server.to_string(), proxy.to_string()));
            let orangefs: Arc<dyn Interposer> = Arc::new(OrangeFs::new(AddressMap::new(pairs)));
            entrances.extend(servers.iter().zip(gates).filter_map(|(&id, gate)| {
                let server = &config.servers[id.index()];
                let interposer: Arc<dyn Interposer> = match server.address.protocol() {
                    Some(Protocol::OrangeFs) => Arc::clone(&orangefs),
                    Some(Protocol::Nfs) => Arc::new(Nfs),
                    None => return None,
                };
                Some(Self {
                    server: server.name.clone(),
                    address: server.address.to_string(),
                    listen: configured.bind_address(id),
                    upstream: (server.address.host().to_owned(), server.address.port()),
                    index,
                    interposer,
                    gate: Arc::clone(gate),
                    names: names.clone(),
                })
            }));
        }
        entrances
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn listen(&self) -> (&str, u16) {
        (&self.listen.0, self.listen.1)
    }

    /// Listens; `None` if the name to listen at has no address by `until`.
    pub(crate) async fn bind(
        &self,
        until: Instant,
        mut inheritance: Option<&mut Inheritance>,
    ) -> io::Result<Option<TcpListener>> {
        let (host, port) = self.listen();
        let inherit = |addresses: &[_]| inheritance.as_mut()?.take_listener(addresses, port);
        let (server, listen_at) = (&self.server, format!("{host}:{port}"));
        Ok(match listen(&self.names, (host, port), until, inherit).await? {
            Bound::Now(socket) => {
                tracing::info!(%server, address = %self.address, listen = %listen_at, "listening");
                Some(socket)
            }
            Bound::Later(error) => {
                tracing::warn!(%server, listen = %listen_at, %error, "clients cannot connect here yet");
                None
            }
        })
    }

    pub(crate) fn open(
        self,
        socket: TcpListener,
        shared: Arc<Shared>,
        permits: Arc<ConnectionPermits>,
    ) -> io::Result<Site> {
        let address = socket.local_addr()?;
        let Self { server, upstream, index, interposer, gate, names, .. } = self;
        let (down, log) = (false.into(), LogLimit::default());
        let listener = Listener { server, address, upstream, names, index, interposer, gate, down, log };
        let acceptor = Acceptor { listener: Arc::new(listener), shared, permits };
        Ok(Site { acceptor: Arc::new(acceptor), socket: Arc::new(socket) })
    }

    /// Joins `sites` and accepts clients as soon as there is an address, unless the daemon drains or hands over first.
    pub(crate) async fn open_later(self, shared: Arc<Shared>, permits: Arc<ConnectionPermits>, sites: Sites) {
        let mut stage = shared.stage();
        let socket = tokio::select! {
            socket = listen_later(&self.names, self.listen()) => socket,
            () = reached(&mut stage, Stage::HandingOver) => return,
        };
        let server = self.server.clone();
        match self.open(socket, shared, permits) {
            Ok(site) => {
                sites.add(site.clone());
                site.run().await;
            }
            Err(error) => tracing::error!(%server, %error, "cannot listen"),
        }
    }
}
