//! Shared by the tests: embedded servers with a daemon in front of them, and peers that send raw frames.

pub(crate) mod raw;

use std::fmt::{Debug, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use std::{fs, io};

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{AppTotals, Daemon, Environment, Inheritance, Offer, StartError};
use vpfs_sim::model::device::{DeviceProfile, SsdProfile};
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, DeviceClock, EmbeddedCluster, File};

use raw::{FakeServer, Peer};

pub(crate) fn distributions() -> [(&'static str, CreateOptions); 4] {
    [
        ("simple_stripe", CreateOptions::simple_stripe(10_000)),
        ("basic", CreateOptions::basic()),
        ("varstrip", CreateOptions::variable_strips("0:30K;1:100K;2:7K;3:64K")),
        ("twod_stripe", CreateOptions::two_dimensional(2, 16 << 10, 3)),
    ]
}

/// `len` bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut data: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
    data.truncate(len);
    data.into()
}

pub(crate) fn slow_servers(count: usize, bytes_per_second: u64) -> ClusterConfig {
    let device = SsdProfile { channels: 1, read_bytes_per_second: bytes_per_second, ..SsdProfile::PCIE_X4 };
    ClusterConfig {
        devices: vec![DeviceProfile::Ssd(device)],
        clock: DeviceClock::Tokio,
        metadata_write_bytes: 0,
        ..ClusterConfig::new(count)
    }
}

pub(crate) const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

pub(crate) struct Cluster {
    pub(crate) servers: EmbeddedCluster,
    network: Network,
    pub(crate) files: TempDir,
    settings: String,
    security: String,
    pub(crate) peers: Vec<SocketAddr>,
    /// By server; `None` while it is down.
    pub(crate) daemons: Vec<Option<Daemon>>,
}

impl Cluster {
    pub(crate) async fn start(servers: ClusterConfig, listeners: &[Option<&str>], settings: &str) -> Self {
        let files = TempDir::new().unwrap();
        let cluster = Self::prepare(servers, listeners, settings, files, "shared_key = \"{}/peers.key\"\n").await;
        cluster.running().await
    }

    /// A cluster whose daemons do not run yet. `security` ends `[peers]`; `{}` in it is the directory `files`.
    pub(crate) async fn prepare(
        servers: ClusterConfig,
        listeners: &[Option<&str>],
        settings: &str,
        files: TempDir,
        security: &str,
    ) -> Self {
        let servers = EmbeddedCluster::start(servers).await.unwrap();
        let addresses: Vec<String> = servers.addresses().iter().map(SocketAddr::to_string).collect();
        let network = Network::new(&addresses, listeners);
        let peers = free_addresses(addresses.len());
        write_key(&files, "peers.key", KEY);
        let security = security.replace("{}", files.path().to_str().unwrap());
        let daemons = peers.iter().map(|_| None).collect();
        Self { servers, network, files, settings: settings.to_owned(), security, peers, daemons }
    }

    pub(crate) async fn running(mut self) -> Self {
        for server in 0..self.daemons.len() {
            self.start_one(server).await;
        }
        self.all_connected().await;
        self
    }

    /// Starts the daemon of a server; waits while a dropped one still holds the addresses.
    pub(crate) async fn start_one(&mut self, server: usize) {
        self.start_with(server, &(0..self.peers.len()).collect::<Vec<_>>()).await;
    }

    /// The same with a file that has these servers; a daemon that runs ends first.
    pub(crate) async fn start_with(&mut self, server: usize, listed: &[usize]) {
        drop(self.daemons[server].take());
        self.daemons[server] = Some(loop {
            let (config, id) = self.config_of(listed, server);
            match Daemon::start(config, &[id]).await {
                Err(StartError::Listen { .. } | StartError::Peers(vpfs_proxy::PeersError::Listen { .. })) => {
                    tokio::task::yield_now().await;
                }
                started => break started.unwrap_or_else(|error| panic!("{error}")),
            }
        });
    }

    pub(crate) async fn try_start(&self, server: usize, settings: &str) -> Result<Daemon, StartError> {
        let config = self.network.config(settings);
        let (id, _) = config.servers().nth(server).unwrap();
        Daemon::start(config, &[id]).await
    }

    pub(crate) fn settings(&self) -> String {
        self.settings_of(&(0..self.peers.len()).collect::<Vec<_>>())
    }

    fn settings_of(&self, listed: &[usize]) -> String {
        let named: Vec<String> = listed.iter().map(|&id| format!("s{id} = \"{}\"", self.peers[id])).collect();
        format!("{}[peers]\naddresses = {{ {} }}\n{}", self.settings, named.join(", "), self.security)
    }

    /// A configuration with these servers only, in this order, and the id of `server` in it.
    fn config_of(&self, listed: &[usize], server: usize) -> (Config, ServerId) {
        let config = self.network.config_of(listed, &self.settings_of(listed));
        let id = config.server(&format!("s{server}")).unwrap();
        (config, id)
    }

    /// A successor with a file that has these servers takes over from the daemon of `server`.
    pub(crate) async fn succeed_with(&mut self, server: usize, listed: &[usize]) {
        let old = self.daemons[server].take().unwrap();
        let (config, id) = self.config_of(listed, server);
        let start = async |inheritance| Daemon::succeed(&Environment::default(), config, &[id], inheritance).await;
        let (successor, offer) = start_successor(&old, start).await;
        self.daemons[server] = Some(successor);
        old.hand_over(offer).await;
    }

    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    pub(crate) async fn reached(&self, server: usize) -> Vec<String> {
        let report = self.daemons[server].as_ref().unwrap().observer().status().await.peers_report();
        let mut reached: Vec<String> =
            report.peers.into_iter().filter(|peer| peer.connected).map(|peer| peer.server).collect();
        reached.sort();
        reached
    }

    pub(crate) async fn all_connected(&self) {
        let running: Vec<usize> = (0..self.daemons.len()).filter(|&id| self.daemons[id].is_some()).collect();
        for &id in &running {
            let others: Vec<String> =
                running.iter().filter(|other| **other != id).map(|other| format!("s{other}")).collect();
            while self.reached(id).await != others {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
    }

    pub(crate) async fn client(&self, listener: usize) -> Client {
        let url = format!("tcp://{}/{}", self.network.address(listener, 0), self.servers.fs_config().name);
        // As long as a daemon is down, its clients wait.
        let options = ClientOptions { retry_limit: Some(1_000_000), ..patient(ClientOptions::new(url)) };
        Client::connect(options).await.unwrap()
    }

    pub(crate) fn bytes(&self, app: &str) -> u64 {
        let totals = self.daemons.iter().flatten().flat_map(Daemon::totals);
        totals.filter(|(name, _)| name == app).map(|(_, totals)| totals.bytes).sum()
    }
}

pub(crate) fn write_key(files: &TempDir, name: &str, text: &str) {
    let path = files.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

pub(crate) struct Network {
    servers: Vec<String>,
    apps: Vec<Option<String>>,
    /// By listener, then by server.
    addresses: Vec<Vec<SocketAddr>>,
}

impl Network {
    /// A listener for each of `listeners`, bound to that application if it names one, in front of `servers`, which are
    /// given as clients know them (`host:port`).
    pub(crate) fn new(servers: &[String], listeners: &[Option<&str>]) -> Self {
        let mut free = free_addresses(servers.len() * listeners.len()).into_iter();
        let addresses = listeners.iter().map(|_| free.by_ref().take(servers.len()).collect()).collect();
        let apps = listeners.iter().map(|app| app.map(str::to_owned)).collect();
        Self { servers: servers.to_vec(), apps, addresses }
    }

    pub(crate) fn first_listener(&self) -> Self {
        let Self { servers, apps, addresses } = self;
        Self { servers: servers.clone(), apps: apps[..1].to_vec(), addresses: addresses[..1].to_vec() }
    }

    pub(crate) fn before(server: SocketAddr) -> Self {
        Self::new(&[server.to_string()], &[None])
    }

    pub(crate) fn config(&self, text: &str) -> Config {
        self.config_of(&(0..self.servers.len()).collect::<Vec<_>>(), text)
    }

    pub(crate) fn config_of(&self, listed: &[usize], text: &str) -> Config {
        let mut file = String::new();
        for &server in listed {
            file += &format!("[[server]]\nname = \"s{server}\"\naddress = \"tcp://{}\"\n", self.servers[server]);
        }
        for (app, addresses) in self.apps.iter().zip(&self.addresses) {
            let named = listed.iter().map(|&server| format!("s{server} = \"tcp://{}\"", addresses[server]));
            let app = app.as_ref().map_or(String::new(), |app| format!("app = \"{app}\"\n"));
            file += &format!("[[listener]]\naddresses = {{ {} }}\n{app}", named.collect::<Vec<_>>().join(", "));
        }
        Config::parse("test", &(file + text)).unwrap()
    }

    pub(crate) fn address(&self, listener: usize, server: usize) -> SocketAddr {
        self.addresses[listener][server]
    }

    pub(crate) async fn succeed(&self, text: &str, inheritance: Inheritance) -> Result<Daemon, StartError> {
        Daemon::succeed(&Environment::default(), self.config(text), &self.server_ids(text), inheritance).await
    }

    fn server_ids(&self, text: &str) -> Vec<ServerId> {
        self.config(text).servers().map(|(id, _)| id).collect()
    }

    /// A daemon in front of all servers; waits while a dropped one still holds the addresses.
    pub(crate) async fn daemon(&self, text: &str) -> Daemon {
        self.daemon_in(&Environment::default(), text).await
    }

    pub(crate) async fn daemon_in(&self, environment: &Environment, text: &str) -> Daemon {
        let servers = self.server_ids(text);
        loop {
            match Daemon::start_in(environment, self.config(text), &servers).await {
                Err(StartError::Listen { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
                    tokio::task::yield_now().await;
                }
                started => return started.unwrap_or_else(|error| panic!("{error}")),
            }
        }
    }
}

/// A successor of a daemon, which `start` starts and which has confirmed, and what to hand over to it.
pub(crate) async fn start_successor(
    daemon: &Daemon,
    start: impl AsyncFnOnce(Inheritance) -> Result<Daemon, StartError>,
) -> (Daemon, Offer) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let receiving = tokio::task::spawn_blocking(|| Inheritance::receive(theirs).unwrap());
    let (offer, successor) = tokio::join!(daemon.offer(ours), async { start(receiving.await.unwrap()).await.unwrap() });
    (successor, offer.unwrap())
}

/// Free addresses, on a separate loopback host: ports that other programs on this machine take later do not matter.
pub(crate) fn free_addresses(count: usize) -> Vec<SocketAddr> {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, high | 128, low, HOSTS.fetch_add(1, Ordering::Relaxed));
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind((host, 0)).unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

pub(crate) struct Site {
    pub(crate) cluster: EmbeddedCluster,
    pub(crate) network: Network,
    pub(crate) daemon: Daemon,
}

impl Site {
    pub(crate) async fn start(servers: usize, text: &str) -> Self {
        Self::of(ClusterConfig::new(servers), &[None], text).await
    }

    pub(crate) async fn of(cluster: ClusterConfig, listeners: &[Option<&str>], text: &str) -> Self {
        let cluster = EmbeddedCluster::start(cluster).await.unwrap();
        let servers: Vec<String> = cluster.addresses().iter().map(SocketAddr::to_string).collect();
        let network = Network::new(&servers, listeners);
        let daemon = network.daemon(text).await;
        Self { cluster, network, daemon }
    }

    /// Options of a client that connects to a listener; it retries often and after short pauses.
    pub(crate) fn options(&self, listener: usize) -> ClientOptions {
        let url = format!("tcp://{}/{}", self.network.address(listener, 0), self.cluster.fs_config().name);
        patient(ClientOptions::new(url))
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.options(0)).await.unwrap()
    }

    pub(crate) async fn client_at(&self, host: [u8; 4]) -> Client {
        Client::connect(ClientOptions { local_address: Some(IpAddr::from(host)), ..self.options(0) }).await.unwrap()
    }

    pub(crate) async fn direct(&self) -> Client {
        Client::connect(patient(ClientOptions::new(self.cluster.url()))).await.unwrap()
    }

    pub(crate) fn totals(&self, app: &str) -> AppTotals {
        self.daemon
            .totals()
            .into_iter()
            .find(|(name, _)| name == app)
            .map_or(AppTotals::default(), |(_, totals)| totals)
    }

    pub(crate) fn served(&self) -> Vec<String> {
        let totals = self.daemon.totals().into_iter();
        totals.filter(|(_, totals)| *totals != AppTotals::default()).map(|(name, _)| name).collect()
    }

    pub(crate) async fn reload(&mut self, text: &str) {
        self.daemon.reload(self.network.config(text)).await.unwrap();
    }
}

pub(crate) fn patient(options: ClientOptions) -> ClientOptions {
    ClientOptions { retry_limit: Some(200), retry_delay: Some(Duration::from_millis(10)), ..options }
}

/// A daemon with one listener in front of a [`FakeServer`].
pub(crate) struct Front {
    pub(crate) server: FakeServer,
    pub(crate) network: Network,
    pub(crate) daemon: Daemon,
}

impl Front {
    pub(crate) async fn start(text: &str) -> Self {
        let server = FakeServer::start().await;
        let network = Network::before(server.address());
        let daemon = network.daemon(text).await;
        Self { server, network, daemon }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.network.address(0, 0)
    }

    pub(crate) async fn pair(&self) -> (Peer, Peer) {
        self.server.pair(self.address()).await
    }

    pub(crate) async fn pair_from(&self, host: [u8; 4]) -> (Peer, Peer) {
        (Peer::connect_from(host, self.address()).await, self.server.accept().await)
    }

    pub(crate) async fn reload(&mut self, text: &str) {
        self.daemon.reload(self.network.config(text)).await.unwrap();
    }
}

const PIECES: usize = 16;

/// Readers without end, which verify what they read. Dropping it ends them.
pub(crate) struct Load {
    done: Arc<watch::Sender<u64>>,
    readers: JoinSet<()>,
}

impl Load {
    pub(crate) fn new() -> Self {
        Self { done: Arc::new(watch::Sender::new(0)), readers: JoinSet::new() }
    }

    /// Reads pieces of `piece` bytes of a new file, as many at once as `concurrency`.
    pub(crate) async fn add(
        &mut self,
        client: &Client,
        path: &str,
        options: &CreateOptions,
        piece: usize,
        concurrency: usize,
    ) {
        self.read(&Written::new(client, path, options, piece).await, concurrency);
    }

    pub(crate) fn read(&mut self, written: &Written, concurrency: usize) {
        for reader in 0..concurrency {
            let (Written { client, file, content, piece }, done) = (written.clone(), Arc::clone(&self.done));
            self.readers.spawn(async move {
                for number in reader.. {
                    let at = number % PIECES * piece;
                    let read = client.read_at(&file, at as u64, piece).await.unwrap();
                    assert!(read[..] == content[at..at + piece], "wrong bytes");
                    done.send_modify(|count| *count += 1);
                }
            });
        }
    }

    pub(crate) async fn pass(&mut self, count: u64) {
        let mut completed = self.done.subscribe();
        let begin = *completed.borrow_and_update();
        completed.wait_for(|done| *done >= begin + count).await.unwrap();
        assert!(self.readers.try_join_next().is_none(), "a reader failed");
    }
}

#[derive(Clone)]
pub(crate) struct Written {
    client: Client,
    file: File,
    content: Bytes,
    piece: usize,
}

impl Written {
    pub(crate) async fn new(client: &Client, path: &str, options: &CreateOptions, piece: usize) -> Self {
        let file = client.create(path, options).await.unwrap();
        let content = pattern(piece as u64, piece * PIECES);
        client.write_at(&file, 0, content.clone()).await.unwrap();
        Self { client: client.clone(), file, content, piece }
    }
}

/// Lines logged by this thread while this lives.
pub(crate) struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

type Lines = Arc<Mutex<Vec<String>>>;

/// A second subscriber, for ever: as long as there is only one, a line that a thread without subscriber is the first to
/// log is switched off for all threads.
static SECOND: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(Collector { lines: Lines::default(), level: Level::ERROR }));

impl Log {
    pub(crate) fn of(level: Level) -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let collector = Collector { lines: Arc::clone(&lines), level };
        Self { lines, _guard: tracing::subscriber::set_default(collector) }
    }

    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(text)).cloned().collect()
    }
}

struct Collector {
    lines: Lines,
    level: Level,
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
