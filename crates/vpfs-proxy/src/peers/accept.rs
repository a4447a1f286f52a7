//! Connections from other processes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use vpfs_peer::mesh::Origin;

use super::Cluster;
use super::handshake::{self, Accepted};
use super::input::Input;
use crate::log_limit::{Kind, LogLimit};
use crate::places::{Place, Places, Room};

/// Unauthenticated connections. Hosts of the configuration have places of their own, however many connections others
/// hold.
const STRANGERS: Room = Room { all: 64, each: 8 };
/// A connection that failed occupies its place for this long, so that one host cannot try without end.
const PENALTY: Duration = Duration::from_secs(1);

/// Places of connections that have not authenticated yet.
pub(super) struct Unproven {
    pub(super) strangers: Places,
    /// At the addresses of peers.
    known: Places,
}

impl Unproven {
    pub(super) fn new(peers: usize) -> Self {
        let known = Room { all: peers.saturating_mul(STRANGERS.each), ..STRANGERS };
        Self { strangers: Places::new(STRANGERS), known: Places::new(known) }
    }

    fn admit(&self, cluster: &Cluster, ip: IpAddr) -> Option<Place> {
        let ip = ip.to_canonical();
        let is_known = cluster.addresses.iter().any(|(host, _)| cluster.hosts.known(host).contains(&ip));
        if is_known { self.known.admit(ip.into()) } else { self.strangers.admit(ip.into()) }
    }
}

/// Accepts for ever.
pub(super) async fn run(cluster: Arc<Cluster>, socket: Arc<TcpListener>, inputs: mpsc::Sender<Input>) {
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
                handshakes.spawn(introduce(Arc::clone(&cluster), Arc::clone(&log), stream, place, inputs.clone()));
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
    match place.keep(handshake::accept(&cluster, &security, stream)).await {
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
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::warn!(reason, suppressed, "a connection to the port of peers was refused");
    }
}
