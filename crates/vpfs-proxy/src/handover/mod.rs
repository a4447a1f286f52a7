//! A process that hands its sockets over to its successor, so that an upgrade breaks no connection.
//!
//! Both ends of a Unix socket speak [`frames`]: the older process offers its listening sockets, the newer one confirms
//! once it serves them, and then receives each connection at a moment when nothing is in progress on it
//! (docs/decisions/0009-operation.md).

mod frames;
mod giving;
mod taking;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use vpfs_session::User;

use crate::stream::Detached;

pub use giving::Offer;
pub(crate) use giving::{PATIENCE, give, offer};
pub(crate) use taking::Connections;
pub use taking::Inheritance;

/// A connection between two processes: nothing is in progress on it.
pub(crate) struct Handed {
    /// Where the client connected: the address of the listening socket.
    pub(crate) listener: SocketAddr,
    /// Host and port of the server.
    pub(crate) upstream: (String, u16),
    pub(crate) client: Detached,
    pub(crate) server: Detached,
    /// The user that the client stated last.
    pub(crate) user: Option<Arc<User>>,
    /// Bytes that were read from the client and not processed.
    pub(crate) from_client: BytesMut,
    /// The same of the server.
    pub(crate) from_server: BytesMut,
}

impl Handed {
    /// Ends a connection that nobody serves. Dropping it does not: another process may have it, too.
    pub(crate) fn end(self) {
        self.client.reset_on_close();
    }
}
