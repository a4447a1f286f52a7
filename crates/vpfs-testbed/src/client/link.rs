//! A server as the client sees it: an address, and a connection that is opened on first use.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vpfs_wire::bmi::Tag;

use super::connection::{Connection, LinkError};

/// Longest time to wait for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(30);

/// One server.
#[derive(Debug)]
pub(super) struct Link {
    /// `host:port`.
    pub(super) address: String,
    local: Option<IpAddr>,
    current: Mutex<Option<Arc<Connection>>>,
    /// Lets one operation connect while the others wait for it; guards nothing else.
    connecting: tokio::sync::Mutex<()>,
}

impl Link {
    pub(super) fn new(address: &str, local: Option<IpAddr>) -> Self {
        Self { address: address.to_owned(), local, current: Mutex::new(None), connecting: tokio::sync::Mutex::new(()) }
    }

    /// The open connection, or a new one.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, LinkError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let _turn = self.connecting.lock().await;
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let fresh = Arc::new(Connection::open(&self.address, self.local, CONNECT_WAIT).await?);
        *self.slot() = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The address that its connection comes from, and where that ends.
    pub(super) fn ends(&self) -> Option<(IpAddr, SocketAddr)> {
        self.open_connection().map(|connection| connection.ends)
    }

    fn open_connection(&self) -> Option<Arc<Connection>> {
        self.slot().as_ref().filter(|connection| connection.is_open()).cloned()
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives out tags: 1, 2, ... over all servers, never 0, positive as a signed 32-bit number.
#[derive(Debug, Default)]
pub(super) struct Tags(AtomicU32);

impl Tags {
    pub(super) fn next(&self) -> Tag {
        let count = self.0.fetch_add(1, Ordering::Relaxed);
        Tag(u64::from(count % (i32::MAX as u32)) + 1)
    }
}
