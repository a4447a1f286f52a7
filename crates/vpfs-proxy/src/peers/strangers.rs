//! Bounds what connections cost that have not proved who they are.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections of all addresses together that may be unknown at a time.
const ALL: usize = 64;
/// Those of one address.
const EACH: usize = 8;
/// Who failed occupies its place for this long, so that handshakes cannot be tried without end.
const PENALTY: Duration = Duration::from_secs(1);

/// Connections that have not proved who they are, by address.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// The place of one connection.
pub(super) struct Place {
    strangers: Strangers,
    ip: IpAddr,
}

impl Strangers {
    /// A place for a connection from `ip`; `None` if it must be closed.
    pub(super) fn admit(&self, ip: IpAddr) -> Option<Place> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = counts.values().sum();
        let count = counts.entry(ip).or_default();
        if *count >= EACH || all >= ALL {
            if *count == 0 {
                counts.remove(&ip);
            }
            return None;
        }
        *count += 1;
        Some(Place { strangers: self.clone(), ip })
    }
}

impl Place {
    /// Frees the place of a connection that failed, after a while.
    pub(super) async fn free_later(self) {
        tokio::time::sleep(PENALTY).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.strangers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_freed() {
        let strangers = Strangers::default();
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let mut places: Vec<Place> = std::iter::from_fn(|| strangers.admit(ip(1))).collect();
        assert_eq!(places.len(), EACH);
        places.extend((2..=255).filter_map(|last| strangers.admit(ip(last))));
        assert_eq!(places.len(), ALL);
        assert_eq!(strangers.0.lock().unwrap().len(), ALL - EACH + 1, "no entry for those that were not admitted");
        drop(places);
        assert!(strangers.0.lock().unwrap().is_empty() && strangers.admit(ip(1)).is_some());
    }
}
