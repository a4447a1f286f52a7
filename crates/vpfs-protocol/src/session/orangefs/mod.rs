//! OrangeFS 2.10 (docs/protocols/orangefs.md).

mod address_map;
mod classify;
mod client;
mod detail;
mod frame;
mod server;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::Time;

use crate::wire::bmi::{Header, Tag};

pub use address_map::AddressMap;

use detail::Detail;

use crate::session::shared::{Core, Protocol, ProtocolSession};
use crate::session::{CloseReason, Interposer, Requester, Session, SessionLimits, User};

/// OrangeFS as a listener's protocol.
#[derive(Debug)]
pub struct OrangeFs {
    addresses: Arc<AddressMap>,
}

impl OrangeFs {
    /// `addresses` are the addresses announced to clients.
    pub fn new(addresses: AddressMap) -> Self {
        Self { addresses: Arc::new(addresses) }
    }
}

impl Interposer for OrangeFs {
    fn session(&self, limits: SessionLimits, requester: Requester, user: Option<Arc<User>>) -> Box<dyn Session> {
        let protocol = Messages { addresses: Arc::clone(&self.addresses), user, claimed: false };
        Box::new(ProtocolSession::new(limits, requester, protocol))
    }

    /// libpvfs2 loses an operation if it learns of the end between posting its receive and sending its request
    /// (sys-io.sm, "Receive immediately failed"), and that is what it does after each reply. Once it waits for the next
    /// reply it repeats the request, so that moment is the one to wait for: many round trips.
    fn quiet_at_end(&self) -> Duration {
        Duration::from_millis(250)
    }
}

/// The messages of one connection.
#[derive(Debug)]
struct Messages {
    addresses: Arc<AddressMap>,
    /// The user that the connection stated last.
    user: Option<Arc<User>>,
    /// A claim to be a server was reported.
    claimed: bool,
}

impl Protocol for Messages {
    type Tag = Tag;
    type Detail = Detail;

    const LONGEST_REQUEST: usize = Header::LEN + (16 << 10);

    /// OrangeFS reads into all buffers of a flow before the first one is sent, and again into each that was sent
    /// (flowproto-multiqueue.c): 8 of 256 KiB. Two sockets of Linux hold up to 8 MB between them, which was measured.
    const READ_AHEAD: u64 = 10 << 20;
    const IS_REPEATED: bool = true;

    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        self.on_client_message(core, now, buf)
    }

    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        self.on_server_message(core, now, buf)
    }

    fn content(request: &[u8]) -> &[u8] {
        &request[Header::LEN..]
    }

    fn stated_user(&mut self) -> Option<Arc<User>> {
        self.user.take()
    }
}
