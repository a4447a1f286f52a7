//! The proxies of other processes: connections to them, and what they report (docs/decisions/0008-peers.md).
//!
//! Gates put messages into a bounded queue and never wait. One task, [`switch`], owns the state of all links
//! ([`vpfs_peer::mesh`]); each connection has a task that reads and one that writes.

mod accept;
mod connection;
mod handshake;
mod input;
mod report;
mod security;
mod shared_key;
mod switch;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use vpfs_config::{Config, PeerSecurity, Peers as Configured};
use vpfs_core::ServerId;
use vpfs_peer::mesh::{Mesh, MeshSettings, PeerStatus};
use vpfs_peer::wire::{Hello, WireError};

use crate::clock::Clock;
use crate::gate::Gate;
use crate::handover::Inheritance;
use crate::names::Names;
use crate::outbox::{Outbox, Outgoing};
use crate::places::Places;
use crate::sockets::{Bound, listen, listen_later};
use security::Security;

pub use report::{AppReport, PeerReport, PeersReport, TrafficReport};
pub use security::{KeyError, Stream};

/// How often a peer is asked for its time.
const PING: Duration = Duration::from_secs(1);
/// A peer that is silent for this long is gone.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// The longest pause between attempts to connect: peers that come back are found within five seconds.
const REDIAL_MAX: Duration = Duration::from_millis(1500);

/// Why a process cannot have peers.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum PeersError {
    /// A key or certificate is not valid.
    #[error("[peers] {0}")]
    Key(#[from] KeyError),
    /// Names that cannot be told to others.
    #[error("[peers] {0}")]
    Name(#[from] WireError),
    /// An address cannot be bound.
    #[error("cannot listen at {host}:{port} for peers: {error}")]
    Listen { host: String, port: u16, error: io::Error },
}

/// What all connections of this process have in common.
struct Cluster {
    /// The names of all servers, and host and port of their proxies, by id.
    names: Vec<String>,
    addresses: Vec<(String, u16)>,
    hello: Hello,
    clock: Clock,
    /// Has the addresses of hosts.
    hosts: Names,
    security: RwLock<Security>,
    askers: mpsc::Sender<(IpAddr, Box<dyn Stream>)>,
    unproven: accept::Unproven,
}

impl Cluster {
    fn security(&self) -> Security {
        self.security.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A peer as the switch knows it.
pub(crate) struct PeerState {
    status: PeerStatus,
    /// The address at the other end of its link.
    address: Option<String>,
}

/// Where peers connect; those whose names are found late are added then.
type Sockets = Arc<Mutex<Vec<Arc<TcpListener>>>>;

/// Connections of those who want to ask what this process knows, by HTTP, and have proved that they may: they have the
/// key or a certificate of `[peers]`.
#[derive(Debug)]
pub struct Askers(mpsc::Receiver<(IpAddr, Box<dyn Stream>)>);

impl Askers {
    /// More wait for nobody: their connections are closed.
    const WAITING: usize = 4;

    /// The next connection, and the address that it comes from; pending for ever when the process hands over.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(IpAddr, Box<dyn Stream>)> {
        match self.0.poll_recv(context) {
            Poll::Ready(Some(asker)) => Poll::Ready(asker),
            _ => Poll::Pending,
        }
    }
}

/// A connection to the proxy of `server`, to ask it by HTTP, with the key or certificate of `[peers]`. Call within a
/// tokio runtime.
///
/// # Errors
/// If there is no key, it cannot be used, or no holder of it can be reached there within seconds.
pub async fn connect_to_ask(peers: &Configured, server: ServerId) -> io::Result<Box<dyn Stream>> {
    let security = load(peers.security.clone()).await.map_err(io::Error::other)?;
    let (host, port) = &peers.addresses[server.index()];
    let none = || io::Error::other("peers.security is \"none\"; proxies tell only those who have a key or certificate");
    handshake::dial_to_ask(&security, host, *port).await?.ok_or_else(none)
}

/// The connections to other processes. Dropping it closes them.
pub(crate) struct Peers {
    askers: Option<Askers>,
    cluster: Arc<Cluster>,
    configured: PeerSecurity,
    sockets: Sockets,
    states: PeerStates,
    _tasks: JoinSet<()>,
}

/// Asks what is known about each server of other processes.
#[derive(Clone)]
pub(crate) struct PeerStates(mpsc::Sender<oneshot::Sender<Vec<PeerState>>>);

impl PeerStates {
    /// What is known now; nothing if the connections are closed.
    pub(crate) async fn now(&self) -> Vec<PeerState> {
        let (answer, answered) = oneshot::channel();
        let _ = self.0.send(answer).await;
        answered.await.unwrap_or_default()
    }
}

/// Sockets that are bound, and keys that are valid, before the process starts to serve.
pub(crate) struct Prepared {
    askers: Askers,
    mesh: Mesh,
    cluster: Arc<Cluster>,
    configured: PeerSecurity,
    sockets: Vec<Arc<TcpListener>>,
    /// Addresses to listen at whose names have not been found.
    missing: Vec<(String, u16)>,
}

impl Prepared {
    /// Reads keys and listens for peers, as far as names are found in time; `None` if the configuration has no
    /// `[peers]`. Also without servers in other processes: agents and commands with `--remote` come there, too.
    pub(crate) async fn new(
        config: &Config,
        own: &[ServerId],
        clock: &Clock,
        names: (&Names, Instant),
        inheritance: Option<&mut Inheritance>,
    ) -> Result<Option<Self>, PeersError> {
        let Some(configured) = &config.peers else { return Ok(None) };
        let security = load(configured.security.clone()).await?;
        let now = clock.now();
        let servers: Vec<String> = config.servers.iter().map(|server| server.name.clone()).collect();
        let mesh = Mesh::new(
            now,
            MeshSettings {
                cluster: configured.cluster.clone(),
                incarnation: now.as_nanos(),
                servers: servers.clone(),
                own: own.to_vec(),
                ping: PING,
                lost_after: LOST_AFTER,
                redial_max: REDIAL_MAX,
                clock_limit: configured.clock_limit,
            },
        )?;
        let (sockets, missing) = bind(configured, own, names, inheritance).await?;
        let (addresses, hello) = (configured.addresses.clone(), mesh.hello().clone());
        let (clock, hosts, security) = (clock.clone(), names.0.clone(), RwLock::new(security));
        let (askers, asking) = mpsc::channel(Askers::WAITING);
        let unproven = accept::Unproven::new(addresses.len());
        let cluster = Cluster { names: servers, addresses, hello, clock, hosts, security, askers, unproven };
        if configured.security == PeerSecurity::None {
            tracing::warn!("peers.security is none: anyone who reaches the port of [peers] can change shares");
        }
        let configured = configured.security.clone();
        Ok(Some(Self { askers: Askers(asking), mesh, cluster: Arc::new(cluster), configured, sockets, missing }))
    }

    /// Connects to peers, passes messages between them and the gates of `outbox`, and tells `gates` the cluster's
    /// clock.
    pub(crate) fn start(self, (outbox, outgoing): (Outbox, mpsc::Receiver<Outgoing>), gates: Vec<Arc<Gate>>) -> Peers {
        let Self { askers, mesh, cluster, configured, sockets, missing } = self;
        let mut tasks = JoinSet::new();
        let (inputs, taken) = mpsc::channel(input::INPUTS);
        let (asking, asked) = mpsc::channel(1);
        for socket in &sockets {
            tasks.spawn(accept::run(Arc::clone(&cluster), Arc::clone(socket), inputs.clone()));
        }
        let sockets: Sockets = Arc::new(Mutex::new(sockets));
        for address in missing {
            tasks.spawn(accept_later(Arc::clone(&cluster), address, Arc::clone(&sockets), inputs.clone()));
        }
        let switch = switch::Switch::new(mesh, Arc::clone(&cluster), outbox, gates, inputs);
        tasks.spawn(switch.run(outgoing, taken, asked));
        Peers { askers: Some(askers), cluster, configured, sockets, states: PeerStates(asking), _tasks: tasks }
    }
}

impl Peers {
    /// Reads keys and certificates again, for new connections.
    pub(crate) async fn reload(&self) -> Result<(), PeersError> {
        let security = load(self.configured.clone()).await?;
        *self.cluster.security.write().unwrap_or_else(PoisonError::into_inner) = security;
        Ok(())
    }

    /// Those who want to ask, once.
    pub(crate) fn take_askers(&mut self) -> Option<Askers> {
        self.askers.take()
    }

    /// The listening sockets with their addresses, for a successor.
    pub(crate) fn sockets(&self) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let socket = |socket: &Arc<TcpListener>| Ok((socket.local_addr()?, socket.as_fd().try_clone_to_owned()?));
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).iter().map(socket).collect()
    }

    /// Unauthenticated connections that are not from the address of a peer.
    pub(crate) fn strangers(&self) -> Places {
        self.cluster.unproven.strangers.clone()
    }

    /// Asks these connections.
    pub(crate) fn states(&self) -> PeerStates {
        self.states.clone()
    }
}

/// Whether the keys or certificates can be used.
pub(crate) async fn check_keys(configured: &Configured) -> Result<(), PeersError> {
    load(configured.security.clone()).await?;
    Ok(())
}

async fn load(configured: PeerSecurity) -> Result<Security, KeyError> {
    tokio::task::spawn_blocking(move || Security::load(&configured)).await.expect("reading does not panic")
}

/// The addresses at which a process for these servers listens for peers.
pub(crate) fn listening(configured: &Configured, own: &[ServerId]) -> Vec<(String, u16)> {
    let host = |host: &String| configured.bind.map_or_else(|| host.clone(), |ip| ip.to_string());
    let mut addresses: Vec<(String, u16)> =
        own.iter().map(|id| &configured.addresses[id.index()]).map(|(name, port)| (host(name), *port)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Listens at the addresses of the own servers, at each once. Returns those whose names have not been found.
async fn bind(
    configured: &Configured,
    own: &[ServerId],
    (names, until): (&Names, Instant),
    mut inheritance: Option<&mut Inheritance>,
) -> Result<(Vec<Arc<TcpListener>>, Vec<(String, u16)>), PeersError> {
    let (mut sockets, mut missing) = (Vec::new(), Vec::new());
    for (host, port) in listening(configured, own) {
        let inherit = |addresses: &[_]| inheritance.as_mut()?.take_listener(addresses, port);
        match listen(names, (&host, port), until, inherit).await {
            Ok(Bound::Now(socket)) => sockets.push(Arc::new(socket)),
            Ok(Bound::Later(error)) => {
                tracing::warn!(listen = %format!("{host}:{port}"), %error, "peers cannot connect here yet");
                missing.push((host, port));
            }
            Err(error) => return Err(PeersError::Listen { host, port, error }),
        }
    }
    Ok((sockets, missing))
}

async fn accept_later(
    cluster: Arc<Cluster>,
    (host, port): (String, u16),
    sockets: Sockets,
    inputs: mpsc::Sender<input::Input>,
) {
    let socket = Arc::new(listen_later(&cluster.hosts, (&host, port)).await);
    sockets.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&socket));
    accept::run(cluster, socket, inputs).await;
}
