//! Connections from other processes.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use vpfs_peer::mesh::Origin;

use super::Cluster;
use super::handshake::{self, Accepted};
use super::input::Input;
use super::strangers::{Place, Strangers};
use crate::log_limit::{Kind, LogLimit};

/// Accepts for ever.
pub(super) async fn run(cluster: Arc<Cluster>, socket: Arc<TcpListener>, inputs: mpsc::Sender<Input>) {
    let (strangers, log) = (Strangers::default(), Arc::new(LogLimit::default()));
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
        match strangers.admit(address.ip().to_canonical()) {
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
    place: Place,
    inputs: mpsc::Sender<Input>,
) {
    let address = stream.peer_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
    let security = cluster.security();
    match handshake::accept(&cluster, &security, stream).await {
        Ok(Accepted::Asker(stream)) => {
            drop(place);
            // Beyond what may wait, it is closed; who asked may ask again.
            let _ = cluster.askers.try_send(stream);
        }
        Ok(Accepted::Peer(introduced)) => {
            drop(place);
            // Fails only if the process ends.
            let _ = inputs.send(Input::Connected(Origin::Accepted, introduced)).await;
        }
        Err(error) => {
            refused(&cluster, &log, Kind::Malformed, &format!("{address}: {error}"));
            place.free_later().await;
        }
    }
}

fn refused(cluster: &Cluster, log: &LogLimit, kind: Kind, reason: &str) {
    if let Some(suppressed) = log.due(kind, cluster.clock.now()) {
        let suppressed = (suppressed > 0).then_some(suppressed);
        tracing::warn!(reason, suppressed, "a connection to the port of peers was refused");
    }
}
