//! Where a request comes from, which decides about its application.

use std::net::IpAddr;
use std::sync::Arc;

use vpfs_core::AppId;
use vpfs_session::User;

/// Where a request comes from: its application is looked up again if the rules change while it waits.
pub(crate) struct Origin {
    pub(crate) ip: IpAddr,
    pub(crate) listener: usize,
    /// As the request stated, or the latest one of its host when it arrived.
    pub(crate) user: Option<Arc<User>>,
}

/// Where a request belongs by the rules in force.
#[derive(Clone)]
pub(crate) struct Belonging {
    pub(crate) app: AppId,
    pub(crate) origin: Arc<Origin>,
}
