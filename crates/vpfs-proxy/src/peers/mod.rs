//! The proxies of other processes: connections to them, and what they report (docs/decisions/0008-peers.md).
//!
//! Gates put messages into a bounded queue and never wait. One task, [`switch`], owns the state of all links
//! ([`vpfs_node::mesh`]); each connection has a task that reads and one that writes.

mod security;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use vpfs_config::{Config, PeerSecurity, Peers as Configured};
use vpfs_core::{ServerId, Time};
use vpfs_node::frames::{Frame, Hello, WireError};
use vpfs_node::mesh::{Action, Event, LinkId, Mesh, MeshSettings, Origin, PeerStatus, Refusal};

use crate::clock::Clock;
use crate::event_log::{Kind, LogLimit};
use crate::gate::{Gate, Outbox, Outgoing};
use crate::handover::Inheritance;
use crate::hosts::{Place, Places, Room};
use crate::lock;
use crate::names::Names;
use crate::sockets::{Bound, listen, listen_later};
use security::{Accepted, Introduced, Security};
pub use security::{KeyError, Stream};

const PING: Duration = Duration::from_secs(1);

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

struct Cluster {
    /// The names of all servers, and host and port of their proxies, by id.
    names: Vec<String>,
    addresses: Vec<(String, u16)>,
    hello: Hello,
    clock: Clock,
    hosts: Names,
    security: RwLock<Security>,
    askers: mpsc::Sender<(IpAddr, Box<dyn Stream>)>,
    unproven: Unproven,
}

impl Cluster {
    fn security(&self) -> Security {
        self.security.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct PeerState {
    status: PeerStatus,
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
pub fn connect_to_ask(peers: &Configured, server: ServerId) -> BoxFuture<'_, io::Result<Box<dyn Stream>>> {
    Box::pin(async move {
        let security = load(peers.security.clone()).await.map_err(io::Error::other)?;
        let (host, port) = &peers.addresses[server.index()];
        let none =
            || io::Error::other("peers.security is \"none\"; proxies tell only those who have a key or certificate");
        security::dial_to_ask(&security, host, *port).await?.ok_or_else(none)
    })
}

pub(crate) struct Peers {
    askers: Option<Askers>,
    cluster: Arc<Cluster>,
    configured: PeerSecurity,
    sockets: Sockets,
    states: PeerStates,
    _tasks: JoinSet<()>,
}

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
        let unproven = Unproven::new(addresses.len());
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
        let (inputs, taken) = mpsc::channel(INPUTS);
        let (asking, asked) = mpsc::channel(1);
        for socket in &sockets {
            tasks.spawn(accept_peers(Arc::clone(&cluster), Arc::clone(socket), inputs.clone()).boxed());
        }
        let sockets: Sockets = Arc::new(Mutex::new(sockets));
        for address in missing {
            tasks.spawn(accept_later(Arc::clone(&cluster), address, Arc::clone(&sockets), inputs.clone()).boxed());
        }
        let switch = Switch {
            mesh,
            cluster: Arc::clone(&cluster),
            outbox,
            gates,
            inputs,
            connections: BTreeMap::new(),
            opened: 0,
            dials: JoinSet::new(),
            log: LogLimit::default(),
        };
        tasks.spawn(switch.run(outgoing, taken, asked).boxed());
        Peers { askers: Some(askers), cluster, configured, sockets, states: PeerStates(asking), _tasks: tasks }
    }
}

impl Peers {
    pub(crate) async fn reload(&self) -> Result<(), PeersError> {
        let security = load(self.configured.clone()).await?;
        *self.cluster.security.write().unwrap_or_else(PoisonError::into_inner) = security;
        Ok(())
    }

    pub(crate) fn take_askers(&mut self) -> Option<Askers> {
        self.askers.take()
    }

    pub(crate) fn sockets(&self) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
        let socket = |socket: &Arc<TcpListener>| Ok((socket.local_addr()?, socket.as_fd().try_clone_to_owned()?));
        lock(&self.sockets).iter().map(socket).collect()
    }

    /// Unauthenticated connections that are not from the address of a peer.
    pub(crate) fn strangers(&self) -> Places {
        self.cluster.unproven.strangers.clone()
    }

    pub(crate) fn states(&self) -> PeerStates {
        self.states.clone()
    }
}

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
    inputs: mpsc::Sender<Input>,
) {
    let socket = Arc::new(listen_later(&cluster.hosts, (&host, port)).await);
    lock(&sockets).push(Arc::clone(&socket));
    accept_peers(cluster, socket, inputs).await;
}

struct Connection {
    address: String,
    batches: mpsc::Sender<Vec<u8>>,
    is_writing: bool,
    _tasks: JoinSet<()>,
}

/// All links of a process. Dropping it closes them.
struct Switch {
    mesh: Mesh,
    cluster: Arc<Cluster>,
    outbox: Outbox,
    gates: Vec<Arc<Gate>>,
    inputs: mpsc::Sender<Input>,
    connections: BTreeMap<LinkId, Connection>,
    opened: u64,
    dials: JoinSet<()>,
    log: LogLimit,
}

impl Switch {
    async fn run(
        mut self,
        mut outgoing: mpsc::Receiver<Outgoing>,
        mut inputs: mpsc::Receiver<Input>,
        mut asked: mpsc::Receiver<oneshot::Sender<Vec<PeerState>>>,
    ) {
        loop {
            self.drain();
            let due = self.mesh.poll_timeout().map(|time| self.cluster.clock.instant(time));
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((from, to, message)) = outgoing.recv() => {
                    self.mesh.send(from, to, message);
                    // All that wait go into one batch.
                    while let Ok((from, to, message)) = outgoing.try_recv() {
                        self.mesh.send(from, to, message);
                    }
                }
                Some(input) = inputs.recv() => self.take(input),
                Some(answer) = asked.recv() => {
                    // The one that asked may be gone.
                    let _ = answer.send(self.state());
                }
                () = timer => self.mesh.handle_timeout(self.cluster.clock.now()),
                Some(_) = self.dials.join_next() => {}
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.cluster.clock.now();
        match input {
            Input::Connected(origin, introduced) => self.connected(origin, introduced),
            Input::DialFailed(server, error) => {
                tracing::debug!(server = %self.cluster.names[server.index()], %error, "peer cannot be reached");
                if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) {
                    self.refused(Kind::Malformed, &self.cluster.names[server.index()], &error);
                }
                self.mesh.dial_failed(now, server);
            }
            Input::Frame(id, frame) => {
                if let Err(refusal) = self.mesh.receive(now, id, frame) {
                    self.cut(id, &refusal);
                }
            }
            Input::Malformed(id, error) => {
                self.mesh.closed(now, id);
                self.cut(id, &error);
            }
            Input::Closed(id, error) => {
                tracing::debug!(link = id.0, %error, "a connection to a peer ended");
                self.mesh.closed(now, id);
                self.connections.remove(&id);
            }
            Input::Written(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.is_writing = false;
                    self.transmit(id);
                }
            }
        }
    }

    fn connected(&mut self, origin: Origin, introduced: Introduced) {
        let Introduced { stream, hello, rest, address } = introduced;
        let id = LinkId(self.opened);
        self.opened += 1;
        if let Err(refusal) = self.mesh.connected(self.cluster.clock.now(), id, origin, &hello) {
            let is_usual = matches!(refusal, Refusal::Duplicate | Refusal::Earlier);
            if !is_usual {
                self.refused(Kind::Violation, &address, &refusal);
            }
            if let Some(farewell) = refusal.farewell() {
                self.dials.spawn(security::part(stream, farewell).boxed());
            }
            return;
        }
        let (reading, writing) = tokio::io::split(stream);
        let (batches, taken) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        tasks.spawn(read_frames(id, reading, rest, self.inputs.clone()).boxed());
        tasks.spawn(write_frames(id, writing, taken, self.inputs.clone()).boxed());
        self.connections.insert(id, Connection { address, batches, is_writing: false, _tasks: tasks });
    }

    fn drain(&mut self) {
        while let Some(action) = self.mesh.poll_action() {
            match action {
                Action::Dial(server) => self.dial(server),
                Action::Close(id) => drop(self.connections.remove(&id)),
                Action::Deliver { from, to, message } => self.outbox.deliver(from, to, message),
                Action::SetClock { ahead_ns } => {
                    tracing::debug!(ahead_ms = ahead_ns / 1_000_000, "the median of all clocks, for ioco");
                    self.gates.iter().for_each(|gate| gate.set_clock(ahead_ns));
                }
            }
        }
        while let Some(event) = self.mesh.poll_event() {
            self.tell(&event);
        }
        while let Some(id) = self.mesh.poll_ready() {
            self.transmit(id);
        }
    }

    fn dial(&mut self, server: ServerId) {
        let (cluster, inputs) = (Arc::clone(&self.cluster), self.inputs.clone());
        self.dials.spawn(
            async move {
                let security = cluster.security();
                let input = match security::dial(&cluster, &security, server).await {
                    Ok(introduced) => Input::Connected(Origin::Dialed(server), introduced),
                    Err(error) => Input::DialFailed(server, error),
                };
                // Fails only if the process ends.
                let _ = inputs.send(input).await;
            }
            .boxed(),
        );
    }

    /// Gives the writer of a connection what there is to send, unless it is busy; then it asks when it is not.
    fn transmit(&mut self, id: LinkId) {
        let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.is_writing) else {
            return;
        };
        let mut batch = Vec::new();
        self.mesh.poll_transmit(self.cluster.clock.now(), id, &mut batch);
        if !batch.is_empty() {
            connection.is_writing = connection.batches.try_send(batch).is_ok();
        }
    }

    fn cut(&mut self, id: LinkId, reason: &dyn std::fmt::Display) {
        let address = self.connections.remove(&id).map(|connection| connection.address).unwrap_or_default();
        self.refused(Kind::Violation, &address, reason);
    }

    fn refused(&self, kind: Kind, peer: &str, reason: &dyn std::fmt::Display) {
        if let Some(suppressed) = self.log.due(kind, self.cluster.clock.now()) {
            tracing::warn!(peer, %reason, suppressed, "a peer was refused");
        }
    }

    fn tell(&self, event: &Event) {
        let names = |servers: &[ServerId]| {
            servers.iter().map(|id| self.cluster.names[id.index()].as_str()).collect::<Vec<_>>().join(",")
        };
        match event {
            Event::Up { servers, again: false } => tracing::info!(servers = names(servers), "peer connected"),
            Event::Up { servers, again: true } => {
                tracing::info!(servers = names(servers), "peer is back: shares count its service again");
            }
            Event::Absent { server } => tracing::warn!(
                server = names(&[*server]),
                "the proxy of this server cannot be reached: shares do not count what applications get there"
            ),
            Event::Unlisted { servers } => tracing::warn!(
                servers = names(servers),
                "the proxies of these servers do not have a server of this process in their configuration: nothing counts \
                 that applications get here or there. Was it removed, or do they have to read the file again?"
            ),
            Event::Clock { servers, offset, exceeds: true } => tracing::warn!(
                servers = names(servers),
                ahead_ms = offset.ahead_ns / 1_000_000,
                "the clock of this peer differs by more than peers.clock_limit: synchronise both hosts with NTP; until \
                 then ioco goes by the median of all clocks"
            ),
            Event::Clock { servers, .. } => {
                tracing::info!(servers = names(servers), "the clock of this peer agrees again")
            }
        }
    }

    fn state(&self) -> Vec<PeerState> {
        let address = |id| self.connections.get(&id).map(|connection| connection.address.clone());
        let status = self.mesh.status(self.cluster.clock.now());
        status.map(|status| PeerState { status, address: status.link.and_then(address) }).collect()
    }
}

/// The most inputs that wait: a reader beyond it waits, and so does its peer.
const INPUTS: usize = 256;

enum Input {
    Connected(Origin, Introduced),
    DialFailed(ServerId, io::Error),
    Frame(LinkId, Frame),
    Malformed(LinkId, WireError),
    Closed(LinkId, io::Error),
    Written(LinkId),
}

/// The pause after each read: with it a peer can occupy this process with at most 4 MB of reports in a second.
const PAUSE: Duration = Duration::from_millis(2);

const READ: usize = 8 << 10;

async fn read_frames(
    id: LinkId,
    mut stream: ReadHalf<Box<dyn Stream>>,
    mut buffer: BytesMut,
    inputs: mpsc::Sender<Input>,
) {
    let error = loop {
        loop {
            match Frame::decode(&buffer) {
                Ok(Some((frame, len))) => {
                    buffer.advance(len);
                    if inputs.send(Input::Frame(id, frame)).await.is_err() {
                        return;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = inputs.send(Input::Malformed(id, error)).await;
                    return;
                }
            }
        }
        let mut chunk = (&mut stream).take(READ as u64);
        match chunk.read_buf(&mut buffer).await {
            Ok(0) => break io::Error::from(io::ErrorKind::UnexpectedEof),
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(error) => break error,
        }
    };
    let _ = inputs.send(Input::Closed(id, error)).await;
}

/// Writes batches for ever, and asks for the next one after each.
async fn write_frames(
    id: LinkId,
    mut stream: WriteHalf<Box<dyn Stream>>,
    mut batches: mpsc::Receiver<Vec<u8>>,
    inputs: mpsc::Sender<Input>,
) {
    while let Some(batch) = batches.recv().await {
        let writing = async {
            stream.write_all(&batch).await?;
            stream.flush().await
        };
        // A peer that does not read for so long is as good as gone.
        let written = tokio::time::timeout(LOST_AFTER, writing).await;
        let input = match written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(()) => Input::Written(id),
            Err(error) => Input::Closed(id, error),
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}

/// Unauthenticated connections. Hosts of the configuration have places of their own, however many connections others
/// hold.
const STRANGERS: Room = Room { all: 64, each: 8 };

/// A connection that failed occupies its place for this long, so that one host cannot try without end.
const PENALTY: Duration = Duration::from_secs(1);

struct Unproven {
    strangers: Places,
    known: Places,
}

impl Unproven {
    fn new(peers: usize) -> Self {
        let known = Room { all: peers.saturating_mul(STRANGERS.each), ..STRANGERS };
        Self { strangers: Places::new(STRANGERS), known: Places::new(known) }
    }

    fn admit(&self, cluster: &Cluster, ip: IpAddr) -> Option<Place> {
        let ip = ip.to_canonical();
        let is_known = cluster.addresses.iter().any(|(host, _)| cluster.hosts.known(host).contains(&ip));
        if is_known { self.known.admit(ip.into()) } else { self.strangers.admit(ip.into()) }
    }
}

async fn accept_peers(cluster: Arc<Cluster>, socket: Arc<TcpListener>, inputs: mpsc::Sender<Input>) {
    let log = Arc::new(LogLimit::default());
    let mut handshakes = JoinSet::new();
    loop {
        let (stream, address) = match socket.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                refused(&cluster, &log, Kind::NoSocket, &error.to_string());
                // Most likely there are no descriptors; the kernel keeps the connection.
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        while handshakes.try_join_next().is_some() {}
        match cluster.unproven.admit(&cluster, address.ip()) {
            Some(place) => {
                handshakes
                    .spawn(introduce(Arc::clone(&cluster), Arc::clone(&log), stream, place, inputs.clone()).boxed());
            }
            None => {
                refused(&cluster, &log, Kind::TooManyConnections, &format!("{address}: too many unknown connections"))
            }
        }
    }
}

async fn introduce(
    cluster: Arc<Cluster>,
    log: Arc<LogLimit>,
    stream: TcpStream,
    mut place: Place,
    inputs: mpsc::Sender<Input>,
) {
    let address = stream.peer_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
    let security = cluster.security();
    match place.keep(security::accept(&cluster, &security, stream)).await {
        Some(Ok(Accepted::Asker(stream, ip))) => {
            drop(place);
            // Beyond what may wait, it is closed; who asked may ask again.
            let _ = cluster.askers.try_send((ip, stream));
        }
        Some(Ok(Accepted::Peer(introduced))) => {
            drop(place);
            // Fails only if the process ends.
            let _ = inputs.send(Input::Connected(Origin::Accepted, introduced)).await;
        }
        Some(Err(error)) => {
            refused(&cluster, &log, Kind::Malformed, &format!("{address}: {error}"));
            place.penalize();
            place.keep(tokio::time::sleep(PENALTY)).await;
        }
        None => {
            let reason = format!("{address}: closed for a newer connection, because it had not authenticated yet");
            refused(&cluster, &log, Kind::TooManyConnections, &reason);
        }
    }
}

fn refused(cluster: &Cluster, log: &LogLimit, kind: Kind, reason: &str) {
    if let Some(suppressed) = log.due(kind, cluster.clock.now()) {
        tracing::warn!(reason, suppressed, "a connection to the port of peers was refused");
    }
}

/// A process, its peers, and what applications got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersReport {
    /// The servers whose proxies it runs.
    pub servers: Vec<String>,
    /// How long it has run, in seconds.
    pub up_seconds: f64,
    /// Those of other processes.
    pub peers: Vec<PeerReport>,
    /// All applications that got any service.
    pub apps: Vec<AppReport>,
}

/// A server of another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Its name.
    pub server: String,
    /// Whether its proxy is connected.
    pub connected: bool,
    /// The address at the other end.
    pub address: Option<String>,
    /// How long that has been so, in seconds.
    pub since_seconds: f64,
    /// The age of its latest report in seconds; `None` if there was none.
    pub news_age_seconds: Option<f64>,
    /// Reports to it.
    pub sent: TrafficReport,
    /// Reports from it.
    pub received: TrafficReport,
    /// Reports to it that newer ones replaced, or that a full queue dropped.
    pub dropped: u64,
    /// How far its clock is ahead, in seconds.
    pub clock_ahead_seconds: Option<f64>,
    /// How wrong that may be.
    pub clock_error_seconds: Option<f64>,
}

/// Reports, without what is around them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficReport {
    /// Their number.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The service of an application since the process started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AppReport {
    /// Its name.
    pub app: String,
    /// Data bytes that it moved at the servers of this process.
    pub here: u64,
    /// Its metadata requests there.
    pub metadata_here: u64,
    /// What it got elsewhere in bytes of cost, as far as that was reported: data, and `scheduler.metadata_cost` for
    /// each object of a metadata request. 0 if shares do not depend on it.
    pub elsewhere: u64,
}

impl PeerReport {
    pub(crate) fn new(server: String, state: PeerState) -> Self {
        let PeerState { status, address } = state;
        let traffic = |traffic: vpfs_node::coordination::Traffic| TrafficReport {
            messages: traffic.messages,
            bytes: traffic.bytes,
        };
        let ahead = status.offset.map(|offset| {
            let size = Time::from_nanos(offset.ahead_ns.unsigned_abs()).since(Time::ZERO).as_secs_f64();
            if offset.ahead_ns < 0 { -size } else { size }
        });
        Self {
            server,
            connected: status.link.is_some(),
            address,
            since_seconds: status.since.as_secs_f64(),
            news_age_seconds: status.news.map(|age| age.as_secs_f64()),
            sent: traffic(status.sent),
            received: traffic(status.received),
            dropped: status.dropped,
            clock_ahead_seconds: ahead,
            clock_error_seconds: status.offset.map(|offset| offset.error.as_secs_f64()),
        }
    }
}

impl PeerState {
    pub(crate) fn server(&self) -> vpfs_core::ServerId {
        self.status.server
    }
}
