//! Accepts connections for one server.

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::connection::serve;
use super::ops::Server;

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
