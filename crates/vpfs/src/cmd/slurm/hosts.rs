//! The addresses from which a node's requests come. Those that were found stay when a name server fails.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use vpfs_slurm::Settings;

use super::query;

/// After this time an address may have changed.
const REFRESH: Duration = Duration::from_secs(600);
/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(30);
/// Names that are looked up at a time.
const AT_A_TIME: usize = 32;
/// How long all of them may take together; the others are looked up the next time.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known about nodes.
#[derive(Default)]
pub(super) struct Hosts {
    /// What slurm.conf says, and when it was read.
    addresses: HashMap<String, String>,
    read: Option<Instant>,
    /// By client host.
    found: HashMap<String, Found>,
}

struct Found {
    addresses: Vec<IpAddr>,
    /// When to look again.
    due: Instant,
}

impl Hosts {
    /// Finds the addresses of these nodes, as far as possible now; forgets others.
    pub(super) async fn find(&mut self, nodes: &BTreeSet<String>, settings: &Settings) -> HashMap<String, Vec<IpAddr>> {
        if settings.clients.contains("{address}") {
            self.read_addresses(nodes, settings.timeout).await;
        }
        let host_of = |node: &String| {
            let address = self.addresses.get(node).map_or(node.as_str(), String::as_str);
            settings.client_of(node, address)
        };
        let hosts: HashMap<&String, String> = nodes.iter().map(|node| (node, host_of(node))).collect();
        let wanted: BTreeSet<&str> = hosts.values().map(String::as_str).collect();
        self.found.retain(|host, _| wanted.contains(host.as_str()));
        let now = Instant::now();
        let is_due = |host: &&str| self.found.get(*host).is_none_or(|found| found.due <= now);
        let due: Vec<String> = wanted.into_iter().filter(is_due).map(str::to_owned).collect();
        self.look_up(due).await;
        let addresses = |host: &String| self.found.get(host).map(|found| found.addresses.clone()).unwrap_or_default();
        hosts.into_iter().map(|(node, host)| (node.clone(), addresses(&host))).collect()
    }

    /// Reads what slurm.conf says, when a node is new and now and then.
    async fn read_addresses(&mut self, nodes: &BTreeSet<String>, patience: Duration) {
        let after = if nodes.iter().all(|node| self.addresses.contains_key(node)) { REFRESH } else { RETRY };
        if self.read.is_some_and(|read| read.elapsed() < after) {
            return;
        }
        self.read = Some(Instant::now());
        match tokio::task::spawn_blocking(move || query::addresses(patience)).await {
            Ok(Ok(addresses)) => self.addresses = addresses,
            Ok(Err(error)) => {
                tracing::warn!(error, "addresses of nodes cannot be read; their names are used if they are new")
            }
            Err(error) => tracing::error!(%error, "a bug in vpfs"),
        }
    }

    async fn look_up(&mut self, hosts: Vec<String>) {
        let looking = hosts.into_iter().map(|host| async move {
            let addresses = match host.parse::<IpAddr>() {
                Ok(ip) => vec![ip],
                Err(_) => tokio::net::lookup_host((host.as_str(), 0))
                    .await
                    .map(|found| found.map(|address| address.ip()).collect())
                    .unwrap_or_default(),
            };
            (host, addresses)
        });
        let mut looking = futures_util::stream::iter(looking).buffer_unordered(AT_A_TIME);
        let until = tokio::time::Instant::now() + PATIENCE;
        while let Ok(Some((host, addresses))) = tokio::time::timeout_at(until, looking.next()).await {
            let pause = if addresses.is_empty() { RETRY } else { REFRESH };
            let due = Instant::now() + pause;
            let known = self.found.entry(host).or_insert(Found { addresses: Vec::new(), due });
            known.due = due;
            if !addresses.is_empty() {
                known.addresses = addresses.into_iter().map(|ip| ip.to_canonical()).collect();
            }
        }
    }
}
