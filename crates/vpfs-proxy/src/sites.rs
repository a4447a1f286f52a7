//! The listening addresses of a daemon. One whose name has no address yet joins when it has, and the daemon serves at
//! the others meanwhile.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::time::Instant;
use vpfs_config::{Config, Protocol};
use vpfs_core::ServerId;
use vpfs_session::Interposer;
use vpfs_session::nfs::Nfs;
use vpfs_session::orangefs::{AddressMap, OrangeFs};

use crate::accept::Acceptor;
use crate::connection_permits::ConnectionPermits;
use crate::gate::Gate;
use crate::handover::Inheritance;
use crate::listener::Listener;
use crate::log_limit::LogLimit;
use crate::names::Names;
use crate::shared::{Shared, Stage, reached};
use crate::sockets::{Bound, listen, listen_later};

/// A listening socket, and what accepts from it.
#[derive(Clone)]
pub(crate) struct Site {
    acceptor: Arc<Acceptor>,
    socket: Arc<TcpListener>,
}

impl Site {
    /// Accepts clients until the daemon drains or hands over.
    pub(crate) async fn run(self) {
        self.acceptor.run(self.socket).await;
    }
}

/// All sites of a daemon so far. Copies share them.
#[derive(Clone, Default)]
pub(crate) struct Sites(Arc<Mutex<Vec<Site>>>);

impl Sites {
    fn list(&self) -> MutexGuard<'_, Vec<Site>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, site: Site) {
        self.list().push(site);
    }

    /// What accepts at this address for this server.
    pub(crate) fn acceptor(&self, listener: SocketAddr, upstream: &(String, u16)) -> Option<Arc<Acceptor>> {
        let serves =
            |site: &&Site| site.acceptor.listener.address == listener && site.acceptor.listener.upstream == *upstream;
        self.list().iter().find(serves).map(|site| Arc::clone(&site.acceptor))
    }

    /// Closes all sockets.
    pub(crate) fn close(&self) {
        self.list().clear();
    }

    /// The sockets with their addresses, for a successor.
    pub(crate) fn sockets(&self) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let socket = |site: &Site| Ok((site.acceptor.listener.address, site.socket.as_fd().try_clone_to_owned()?));
        self.list().iter().map(socket).collect()
    }
}

/// One listening address in front of one server, before it has a socket.
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

    /// The name of its server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Host and port to listen at.
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

    /// With its socket it is complete.
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
