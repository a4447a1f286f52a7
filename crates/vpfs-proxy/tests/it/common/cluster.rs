//! A cluster with a daemon of its own in front of each server, as on separate hosts.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_model::device::{DeviceProfile, SsdProfile};
use vpfs_proxy::{Daemon, Environment, StartError};
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, DeviceClock, EmbeddedCluster};

use super::site::{Network, free_addresses, patient, start_successor};

/// Servers whose devices read this many bytes per second, one access after the other.
pub(crate) fn slow_servers(count: usize, bytes_per_second: u64) -> ClusterConfig {
    let device = SsdProfile { channels: 1, read_bytes_per_second: bytes_per_second, ..SsdProfile::PCIE_X4 };
    ClusterConfig {
        devices: vec![DeviceProfile::Ssd(device)],
        clock: DeviceClock::Tokio,
        metadata_write_bytes: 0,
        ..ClusterConfig::new(count)
    }
}

/// The key of all daemons of a test.
pub(crate) const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

pub(crate) struct Cluster {
    pub(crate) servers: EmbeddedCluster,
    network: Network,
    pub(crate) files: TempDir,
    settings: String,
    /// The end of `[peers]`.
    security: String,
    /// Where daemons listen for each other.
    pub(crate) peers: Vec<SocketAddr>,
    /// By server; `None` while it is down.
    pub(crate) daemons: Vec<Option<Daemon>>,
}

impl Cluster {
    /// Daemons that share the key in `peers.key`.
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

    /// All sections but those of servers and listeners.
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

    /// The servers to which the daemon of `server` is connected.
    pub(crate) async fn reached(&self, server: usize) -> Vec<String> {
        let report = self.daemons[server].as_ref().unwrap().observer().status().await.peers_report();
        let mut reached: Vec<String> =
            report.peers.into_iter().filter(|peer| peer.connected).map(|peer| peer.server).collect();
        reached.sort();
        reached
    }

    /// Waits until each running daemon is connected to all others that run.
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

    /// Bytes of an application at all servers.
    pub(crate) fn bytes(&self, app: &str) -> u64 {
        let totals = self.daemons.iter().flatten().flat_map(Daemon::totals);
        totals.filter(|(name, _)| name == app).map(|(_, totals)| totals.bytes).sum()
    }
}

/// Writes a key that only its owner can read.
pub(crate) fn write_key(files: &TempDir, name: &str, text: &str) {
    let path = files.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}
