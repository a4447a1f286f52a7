//! OrangeFS 2.10 (docs/protocols/orangefs.md).

mod address_map;
mod classify;
mod op;
mod session;

use std::sync::Arc;

pub use address_map::AddressMap;
pub use session::OrangeFsSession;

use crate::{Interposer, Requester, Session, SessionLimits, User};

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
        Box::new(OrangeFsSession::new(limits, requester, Arc::clone(&self.addresses)).of_user(user))
    }
}
