//! Whom a page is about.

use vpfs_admin::{Kept, get_here};
use vpfs_config::Config;
use vpfs_proxy::Observer;

use crate::cmd::asking::{Answer, Asking};
use crate::exit::Exit;

/// Where a page has what it shows from.
pub(in crate::cmd) enum Source<'a> {
    /// The proxies of this host, at their sockets.
    Host(&'a Asking, &'a Config),
    /// This process.
    Itself(Observer, Kept),
}

impl Source<'_> {
    /// The answers to GET `route`.
    pub(super) async fn answers<A: Answer>(&self, route: &str) -> Result<Vec<A>, Exit> {
        match self {
            Self::Host(asking, config) => Ok(asking.answers_to(route, config).await?.list),
            Self::Itself(observer, kept) => {
                let body = get_here(observer, kept, route).await.map_err(Exit::Failed)?;
                let answer = serde_json::from_str(&body).map_err(|error| Exit::Failed(error.to_string()))?;
                Ok(vec![answer])
            }
        }
    }
}
