//! Accepts connections for one server.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinHandle, JoinSet};

use super::connection::serve;
use super::ops::Server;

/// Connections that wait to be accepted, enough for the start of a large job. The kernel allows at most
/// `net.core.somaxconn`.
const BACKLOG: u32 = 4096;

/// A socket that listens at `address`.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restarted server does not wait for the end of old connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A listening server. Dropping it closes its port and its connections.
#[derive(Debug)]
pub(super) struct Listening {
    task: JoinHandle<()>,
}

impl Listening {
    pub(super) fn start(listener: TcpListener, server: Server) -> Self {
        Self { task: tokio::spawn(accept(listener, server)) }
    }

    /// Closes everything and returns once the port is free.
    pub(super) async fn stop(mut self) {
        self.task.abort();
        // The only possible result is that the task was aborted.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// At the limit, new connections wait in the operating system's queue.
async fn accept(listener: TcpListener, server: Server) {
    let mut connections = JoinSet::new();
    loop {
        let may_accept = connections.len() < server.cluster.limits.connections;
        tokio::select! {
            accepted = listener.accept(), if may_accept => match accepted {
                Ok((stream, peer)) => drop(connections.spawn(serve(stream, peer, server.clone()))),
                Err(error) => {
                    // Usually out of file descriptors: other connections must close before the next attempt can
                    // succeed.
                    tracing::warn!(%error, "cannot accept");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
