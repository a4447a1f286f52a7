//! What a daemon knows about itself at one moment: the core of every API, metric and command.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use vpfs_config::Charge;
use vpfs_core::{AppId, PolicyKind, Time};
use vpfs_node::{AppTotals, PeerService, Snapshot};

use crate::hosts::{ConnectionPermits, Holder, Places, Used};
use crate::lock;
use crate::peers::{AppReport, PeerReport, PeerStates, PeersReport};
use crate::shared::Shared;

/// Looks into a daemon from outside; copies look into the same one, also while it drains.
#[derive(Clone)]
pub struct Observer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) permits: Arc<ConnectionPermits>,
    pub(crate) names: Arc<[String]>,
    pub(crate) peers: Option<PeerStates>,
    pub(crate) ports: Ports,
}

pub(crate) type Ports = Arc<Mutex<BTreeMap<&'static str, Places>>>;

/// A host with at least half of the connections that one may have at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderReport {
    /// What the port is for: `clients`, `peers`, `metrics`, `page`, `socket`.
    pub port: &'static str,
    /// Its address; the number of the user at the socket.
    pub holder: String,
    /// Its connections, and how many it may have.
    pub connections: Used,
}

/// A daemon at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// When it started, since 1970.
    pub started: Time,
    /// How long it has run.
    pub uptime: Duration,
    /// What connections hold, and may hold.
    pub memory: Used,
    /// The connections of clients, and how many there may be.
    pub connections: Used,
    /// The servers that it serves.
    pub servers: Vec<ServerStatus>,
    /// All applications, by [`AppId`].
    pub apps: Vec<AppStatus>,
    /// The servers of other processes.
    pub peers: Vec<PeerReport>,
    /// Hosts that hold many connections, at most four per port.
    pub holders: Vec<HolderReport>,
    /// The same in all processes of this version that have the same configuration in force.
    pub fingerprint: u64,
    /// The policy that the configuration has, if it only observes and requests pass as with `fifo`.
    pub observed: Option<PolicyKind>,
    /// Bytes of files that this host has in memory and on no disk yet.
    pub unstored: u64,
}

/// A server of the daemon.
#[derive(Clone, Debug)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Connections that were closed because their host had too many.
    pub refused_connections: u64,
    /// What its node knows.
    pub snapshot: Snapshot,
}

/// An application, whichever servers it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppStatus {
    /// Its name.
    pub name: String,
    /// No table of the configuration has it.
    pub is_automatic: bool,
    /// Whose it is, if its owner said so when it was pushed.
    pub charge: Charge,
}

impl Observer {
    /// Returns once each gate has answered: its lock is free and its task runs. The caller holds no lock, and
    /// waits for ever if one hangs or the daemon is gone.
    pub fn pulse(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for gate in &self.shared.gates {
                gate.pulse().await;
            }
        })
    }

    /// Counts the connections at another port from now on, too.
    pub fn count(&self, port: &'static str, places: &Places) {
        lock(&self.ports).insert(port, places.clone());
    }

    fn holders(&self) -> Vec<HolderReport> {
        let report = |port, limit| {
            move |(holder, now): (Holder, usize)| HolderReport {
                port,
                holder: holder.to_string(),
                connections: Used { now, limit },
            }
        };
        let each = self.shared.rules().limits.host_connections;
        let clients = self.shared.hosts.holders(each).into_iter().map(report("clients", each));
        let ports = lock(&self.ports);
        let others =
            ports.iter().flat_map(|(port, places)| places.holders().into_iter().map(report(*port, places.room().each)));
        clients.chain(others).collect()
    }

    /// The daemon now. Each gate is locked for one [`Snapshot`], which takes O(applications), and never two at a time.
    pub fn status(&self) -> BoxFuture<'_, Status> {
        Box::pin(async move {
            let states = match &self.peers {
                Some(peers) => peers.now().await,
                None => Vec::new(),
            };
            let name = |id: vpfs_core::ServerId| self.names[id.index()].clone();
            let peers = states.into_iter().map(|state| PeerReport::new(name(state.server()), state)).collect();
            let mut servers = Vec::new();
            for gate in &self.shared.gates {
                let refused_connections = gate.refused.load(Ordering::Relaxed);
                servers.push(ServerStatus {
                    name: name(gate.server()),
                    refused_connections,
                    snapshot: gate.snapshot(),
                });
                // Many large snapshots in a row would keep a thread from its connections.
                tokio::task::yield_now().await;
            }
            let status = |(_, entry): (AppId, &vpfs_config::AppEntry)| AppStatus {
                name: entry.name.clone(),
                is_automatic: entry.is_automatic,
                charge: entry.charge.clone(),
            };
            let rules = self.shared.rules();
            // After the snapshots: all that is in them has a name.
            let apps = self.shared.apps().iter().map(status).collect();
            Status {
                started: self.shared.clock.started(),
                uptime: self.shared.clock.uptime(),
                memory: self.shared.memory.used(),
                connections: self.permits.used(),
                servers,
                apps,
                peers,
                holders: self.holders(),
                fingerprint: rules.fingerprint,
                observed: rules.observed,
                unstored: unstored(),
            }
        })
    }
}

impl Status {
    /// Who else is there, and what applications got here and elsewhere.
    pub fn peers_report(&self) -> PeersReport {
        let snapshots: Vec<&Snapshot> = self.servers.iter().map(|server| &server.snapshot).collect();
        let apps = (0..).map(AppId).zip(&self.apps).zip(totals(self.apps.len(), snapshots.iter().copied()));
        let apps = apps.filter_map(|((id, app), totals)| {
            let elsewhere = elsewhere(&snapshots, id);
            let (here, metadata_here) = (totals.bytes, totals.metadata_requests);
            let report = || AppReport { app: app.name.clone(), here, metadata_here, elsewhere };
            (here + metadata_here + elsewhere > 0).then(report)
        });
        PeersReport {
            servers: self.servers.iter().map(|server| server.name.clone()).collect(),
            up_seconds: self.uptime.as_secs_f64(),
            peers: self.peers.clone(),
            apps: apps.collect(),
        }
    }
}

pub(crate) fn totals<'a>(apps: usize, snapshots: impl Iterator<Item = &'a Snapshot>) -> Vec<AppTotals> {
    let mut sums = vec![AppTotals::default(); apps];
    for found in snapshots.flat_map(|snapshot| &snapshot.apps) {
        if let Some(sum) = sums.get_mut(found.app.index()) {
            sum.add(&found.account);
        }
    }
    sums
}

/// What an application got at the servers of other processes, as the first gate heard it: without what the other gates
/// of this process reported.
fn elsewhere(snapshots: &[&Snapshot], app: AppId) -> u64 {
    let mut services = snapshots.iter().map(|Snapshot { apps, .. }| {
        let found = apps.binary_search_by_key(&app, |found| found.app);
        found.map_or(PeerService::default(), |index| apps[index].peers)
    });
    let Some(first) = services.next() else { return 0 };
    let reported: i64 = services.map(|service| service.reported).sum();
    u64::try_from(first.heard - reported).unwrap_or(0)
}

const NODES: &str = "/sys/devices/system/node";

/// Bytes; 0 where the kernel does not show it. A few files of the kernel are read, which never waits for a disk.
pub(crate) fn unstored() -> u64 {
    let nodes = fs::read_dir(NODES).into_iter().flatten().flatten();
    nodes.map(|node| of_node(&node.path())).sum()
}

fn of_node(node: &Path) -> u64 {
    fs::read_to_string(node.join("meminfo")).map_or(0, |text| text.lines().filter_map(dirty_kib).sum::<u64>() << 10)
}

/// Of a line such as `Node 0 Dirty:   332 kB`.
fn dirty_kib(line: &str) -> Option<u64> {
    let (name, value) = line.split_once(':')?;
    let is_unstored = ["Dirty", "Writeback"].contains(&name.split_whitespace().nth(2)?);
    is_unstored.then(|| value.split_whitespace().next()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_pages_and_those_on_their_way_are_unstored() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "Node 0 MemTotal: 9 kB\nNode 0 Dirty:   332 kB\nNode 0 Writeback:  4 kB\nNode 0 WritebackTmp: 7 kB\n";
        fs::write(folder.path().join("meminfo"), text).unwrap();
        assert_eq!(of_node(folder.path()), 336 << 10);
        assert_eq!(of_node(&folder.path().join("none")), 0);
    }
}
