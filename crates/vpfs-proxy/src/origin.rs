//! Whose requests are.

use std::net::IpAddr;
use std::sync::Arc;

use vpfs_core::AppId;
use vpfs_session::User;

/// Whose a request is: its application is looked for again if the rules change while it waits.
pub(crate) struct Origin {
    pub(crate) ip: IpAddr,
    pub(crate) listener: usize,
    /// As the request stated, or as its host had shown when it came.
    pub(crate) user: Option<Arc<User>>,
}

/// Where a request belongs by the rules in force.
#[derive(Clone)]
pub(crate) struct Belonging {
    pub(crate) app: AppId,
    pub(crate) origin: Arc<Origin>,
}
