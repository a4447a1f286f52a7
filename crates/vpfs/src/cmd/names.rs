//! Addresses of host names, looked up once by a command.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use futures_util::{StreamExt, stream};

/// How long one name may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many names are looked up at a time.
const AT_ONCE: usize = 32;

/// Whether an address is one of this host's.
pub(super) fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Addresses by name, as far as they were found.
#[derive(Debug)]
pub(super) struct Names(BTreeMap<String, Vec<IpAddr>>);

impl Names {
    /// Those of these names, or of addresses as text. Afterwards, threads may still wait for a name server: shut the
    /// runtime down in the background.
    pub(super) async fn look_up(wanted: BTreeSet<String>) -> Self {
        let look_up = async |name: String| {
            let found = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name.clone(), 0))).await;
            let found = found.ok().and_then(Result::ok).into_iter().flatten();
            let unique: BTreeSet<IpAddr> = found.map(|address| address.ip()).collect();
            (name, unique.into_iter().collect())
        };
        Self(stream::iter(wanted).map(look_up).buffer_unordered(AT_ONCE).collect().await)
    }

    /// None for a name that was not looked up.
    pub(super) fn of(&self, name: &str) -> Vec<IpAddr> {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
impl<const N: usize> From<[(String, Vec<IpAddr>); N]> for Names {
    fn from(known: [(String, Vec<IpAddr>); N]) -> Self {
        Self(known.into())
    }
}
