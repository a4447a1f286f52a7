//! The test bed of a run: embedded servers with a disk model, and proxies in front of them.

use std::fmt::Write;
use std::net::{Ipv4Addr, TcpListener};

use vpfs_config::Config;
use vpfs_core::ServerId;
use vpfs_proxy::Daemon;
use vpfs_testbed::{ClusterConfig, DeviceClock, EmbeddedCluster};

use super::isolation::Management;
use super::scale::{self, SMALL_NETWORK, WRITER_NETWORK};
use crate::exit::Exit;

/// Servers and proxies; dropping it stops both.
pub(super) struct Bed {
    /// The URL that clients connect to: the first proxy.
    pub(super) url: String,
    proxies: Daemon,
    _servers: EmbeddedCluster,
}

impl Bed {
    pub(super) async fn start(management: Management, clock: DeviceClock) -> Result<Self, Exit> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Exit::Failed(format!("cannot start {what}: {error}"));
        let cluster = ClusterConfig { devices: vec![scale::DEVICE], clock, ..ClusterConfig::new(scale::SERVERS) };
        let servers = EmbeddedCluster::start(cluster).await.map_err(|error| failed("file servers", &error))?;
        let addresses: Vec<String> = servers.addresses().iter().map(ToString::to_string).collect();
        let ports = free_ports(addresses.len()).map_err(|error| failed("proxies", &error))?;
        let text = configuration(management, &addresses, &ports);
        let config = Config::parse("demo", &text).map_err(|problems| failed("proxies", &problems))?;
        let ids: Vec<ServerId> = config.servers().map(|(id, _)| id).collect();
        let proxies = Daemon::start(config, &ids).await.map_err(|error| failed("proxies", &error))?;
        let url = format!("tcp://127.0.0.1:{}/{}", ports[0], servers.fs_config().name);
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
fn configuration(management: Management, servers: &[String], ports: &[u16]) -> String {
    let mut text = String::new();
    for (index, address) in servers.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{index}\"\naddress = \"tcp://{address}\"");
    }
    let told = (0..).zip(ports).map(|(index, port): (usize, _)| format!("s{index} = \"tcp://127.0.0.1:{port}\""));
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
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<std::io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_valid_and_without_warnings() {
        let servers: Vec<String> = (1..=4).map(|n| format!("127.0.0.1:100{n}")).collect();
        for management in Management::ALL {
            let config =
                Config::parse("demo", &configuration(management, &servers, &[2001, 2002, 2003, 2004])).unwrap();
            assert!(config.warnings.list.is_empty());
            assert_eq!(
                config.apps.iter().filter(|app| app.cap.is_some()).count(),
                usize::from(management == Management::Capped)
            );
        }
    }
}
