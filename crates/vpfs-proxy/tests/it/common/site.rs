//! A cluster, its proxies, and clients that connect to them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::{AppTotals, Daemon, Environment, Inheritance, Offer, StartError};
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, EmbeddedCluster};

use super::raw::{FakeServer, Peer};

/// Servers and listeners of a configuration, and their addresses.
pub(crate) struct Network {
    /// The addresses of the servers themselves.
    servers: Vec<String>,
    /// The application of each listener.
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

    /// The same with its first listener only.
    pub(crate) fn first_listener(&self) -> Self {
        let Self { servers, apps, addresses } = self;
        Self { servers: servers.clone(), apps: apps[..1].to_vec(), addresses: addresses[..1].to_vec() }
    }

    /// One listener in front of one server.
    pub(crate) fn before(server: SocketAddr) -> Self {
        Self::new(&[server.to_string()], &[None])
    }

    /// A configuration with `text` for the other sections.
    pub(crate) fn config(&self, text: &str) -> Config {
        self.config_of(&(0..self.servers.len()).collect::<Vec<_>>(), text)
    }

    /// The same with these servers only, in this order.
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

    /// The address of a listener in front of a server.
    pub(crate) fn address(&self, listener: usize, server: usize) -> SocketAddr {
        self.addresses[listener][server]
    }

    /// The successor of a daemon in front of all servers.
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

    /// The same in this environment.
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

/// Embedded servers with a daemon in front of them.
pub(crate) struct Site {
    pub(crate) cluster: EmbeddedCluster,
    pub(crate) network: Network,
    pub(crate) daemon: Daemon,
}

impl Site {
    /// Servers in memory without a device model, one listener.
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

    /// A client that appears to be another host.
    pub(crate) async fn client_at(&self, host: [u8; 4]) -> Client {
        Client::connect(ClientOptions { local_address: Some(IpAddr::from(host)), ..self.options(0) }).await.unwrap()
    }

    /// A client that bypasses the proxies.
    pub(crate) async fn direct(&self) -> Client {
        Client::connect(patient(ClientOptions::new(self.cluster.url()))).await.unwrap()
    }

    /// The totals of an application so far.
    pub(crate) fn totals(&self, app: &str) -> AppTotals {
        self.daemon
            .totals()
            .into_iter()
            .find(|(name, _)| name == app)
            .map_or(AppTotals::default(), |(_, totals)| totals)
    }

    /// The applications that got any service so far.
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
    /// `text` is the configuration without servers and listeners.
    pub(crate) async fn start(text: &str) -> Self {
        let server = FakeServer::start().await;
        let network = Network::before(server.address());
        let daemon = network.daemon(text).await;
        Self { server, network, daemon }
    }

    /// The address that clients connect to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.network.address(0, 0)
    }

    /// A client, and its connection to the server.
    pub(crate) async fn pair(&self) -> (Peer, Peer) {
        self.server.pair(self.address()).await
    }

    /// The same with a client that appears to be another host.
    pub(crate) async fn pair_from(&self, host: [u8; 4]) -> (Peer, Peer) {
        (Peer::connect_from(host, self.address()).await, self.server.accept().await)
    }

    pub(crate) async fn reload(&mut self, text: &str) {
        self.daemon.reload(self.network.config(text)).await.unwrap();
    }
}
