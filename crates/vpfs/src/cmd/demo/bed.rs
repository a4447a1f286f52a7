//! The test bed of a run: embedded servers with a disk model, and proxies in front of them.

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use vpfs_config::{Config, Protocol};
use vpfs_core::ServerId;
use vpfs_proxy::Daemon;
use vpfs_testbed::nfs::{NfsConfig, NfsServer};
use vpfs_testbed::{ClusterConfig, DeviceClock, EmbeddedCluster};

use super::isolation::Management;
use super::scale::{self, SMALL_NETWORK, Scale, WRITER_NETWORK};
use crate::exit::Exit;

/// Servers and proxies; dropping it stops both.
pub(super) struct Bed {
    /// The URL that clients connect to: the first proxy.
    pub(super) url: String,
    proxies: Daemon,
    _servers: Servers,
}

enum Servers {
    OrangeFs(EmbeddedCluster),
    Nfs(NfsServer),
}

impl Servers {
    async fn start(scale: &Scale, clock: DeviceClock) -> io::Result<Self> {
        Ok(match scale.protocol {
            Protocol::OrangeFs => {
                let config = ClusterConfig::new(scale.servers().into());
                let config = ClusterConfig { devices: vec![scale::DEVICE], clock, ..config };
                Self::OrangeFs(EmbeddedCluster::start(config).await?)
            }
            Protocol::Nfs => {
                let config = NfsConfig { device: scale::DEVICE, clock, ..NfsConfig::default() };
                Self::Nfs(NfsServer::start(config).await?)
            }
        })
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::OrangeFs(cluster) => cluster.addresses().to_vec(),
            Self::Nfs(server) => vec![server.address()],
        }
    }

    /// The URL for clients, through a proxy in front of the first server.
    fn url_at(&self, proxy: SocketAddr) -> String {
        match self {
            Self::OrangeFs(cluster) => {
                cluster.url().replacen(&cluster.addresses()[0].to_string(), &proxy.to_string(), 1)
            }
            Self::Nfs(server) => server.url_at(proxy).to_string(),
        }
    }
}

impl Bed {
    pub(super) async fn start(management: Management, scale: &Scale, clock: DeviceClock) -> Result<Self, Exit> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Exit::Failed(format!("cannot start {what}: {error}"));
        let servers = Servers::start(scale, clock).await.map_err(|error| failed("file servers", &error))?;
        let (scheme, addresses) = (scale.protocol.scheme(), servers.addresses());
        let ports = free_ports(addresses.len()).map_err(|error| failed("proxies", &error))?;
        let text = configuration(management, scheme, &addresses, &ports);
        let config = Config::parse("demo", &text).map_err(|problems| failed("proxies", &problems))?;
        let ids: Vec<ServerId> = config.servers().map(|(id, _)| id).collect();
        let proxies = Daemon::start(config, &ids).await.map_err(|error| failed("proxies", &error))?;
        let url = servers.url_at((Ipv4Addr::LOCALHOST, ports[0]).into());
        Ok(Self { url, proxies, _servers: servers })
    }

    /// Bytes of the writer that have passed the proxies so far.
    pub(super) fn writer_bytes(&self) -> u64 {
        self.proxies.totals().iter().filter(|(app, _)| app == WRITER).map(|(_, totals)| totals.bytes).sum()
    }
}

/// The writer's name in the configuration.
const WRITER: &str = "checkpoint";

/// The daemon's configuration, in the form of its file.
fn configuration(management: Management, scheme: &str, servers: &[SocketAddr], ports: &[u16]) -> String {
    let mut text = String::new();
    for (index, address) in servers.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{index}\"\naddress = \"{scheme}{address}\"");
    }
    let told = (0..).zip(ports).map(|(index, port): (usize, _)| format!("s{index} = \"{scheme}127.0.0.1:{port}\""));
    let _ = writeln!(text, "[[listener]]\naddresses = {{ {} }}", told.collect::<Vec<_>>().join(", "));
    let depth = format!("depth = {}", scale::DEPTH);
    let (policy, set_by_hand) = match management {
        Management::None => ("fifo", &*depth),
        Management::SfqD | Management::Capped => ("sfq-d", &*depth),
        Management::SfqDPlus => ("sfq-d-plus", &*depth),
        Management::Isolation => ("isolation", ""),
    };
    let _ = writeln!(text, "[scheduler]\npolicy = \"{policy}\"\n{set_by_hand}");
    let cap = if management == Management::Capped { scale::CAP } else { "" };
    let _ = writeln!(text, "[[app]]\nname = \"small\"\nclients = [\"{SMALL_NETWORK}\"]");
    let _ = writeln!(text, "[[app]]\nname = \"{WRITER}\"\nclients = [\"{WRITER_NETWORK}\"]\n{cap}");
    text
}

/// Free ports. Another program could take one before the proxies do; they would report it.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_valid_and_without_warnings() {
        let servers: Vec<SocketAddr> = (1001..=1004).map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        for (management, scheme) in Management::ALL.into_iter().flat_map(|all| [(all, "tcp://"), (all, "nfs://")]) {
            let text = configuration(management, scheme, &servers, &[2001, 2002, 2003, 2004]);
            let config = Config::parse("demo", &text).unwrap();
            assert!(config.warnings.list.is_empty());
            assert_eq!(
                config.apps.iter().filter(|app| app.cap.is_some()).count(),
                usize::from(management == Management::Capped)
            );
        }
    }
}
