//! Says in the log, once, that the storage is slower than it was, and once that it is not any more.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{MissedTickBehavior, interval};

use crate::Observer;
use crate::admin::api::{AtServer, Span, Status};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);

/// Looks for ever.
pub fn watch_storage(observer: Observer) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (mut before, mut servers) = (None::<Status>, HashMap::<String, Slowness>::new());
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = Status::from(&observer.status().await);
            let span = Span::between(before.as_slice(), std::slice::from_ref(&now));
            for server in &span.servers {
                let Some(slower) = server.slowness() else { continue };
                let change = servers.entry(server.name.clone()).or_default().look(slower.factor);
                tell(&server.name, change);
            }
            before = Some(now);
        }
    })
}

fn tell(server: &str, change: Option<Change>) {
    match change {
        Some(Change::Slower(factor)) => tracing::warn!(
            server,
            factor = format!("{factor:.1}"),
            "the storage is slower than it was: requests of applications that have it to themselves take longer; look for \
             a failing disk, a rebuild, a full cache, the network to it"
        ),
        Some(Change::Back) => tracing::info!(server, "the storage is as fast as it was"),
        None => {}
    }
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// Requests take so many times as long as at best.
    Slower(f64),
    Back,
}

/// Whether a server's storage is slower than it was, by the rule of `vpfs why`, but not by a single look.
#[derive(Debug, Default)]
struct Slowness {
    is_slow: bool,
    /// Looks in a row that say the opposite.
    against: u32,
}

impl Slowness {
    /// Half a minute: what is over sooner is no news for an administrator.
    const LOOKS: u32 = 3;
    /// It is back below this factor.
    const BACK: f64 = 1.5;

    /// Requests took `factor` times as long as at best since the last look in which there were any.
    fn look(&mut self, factor: f64) -> Option<Change> {
        let is_against = if self.is_slow { factor < Self::BACK } else { factor > AtServer::SLOWER };
        self.against = if is_against { self.against + 1 } else { 0 };
        if self.against < Self::LOOKS {
            return None;
        }
        *self = Self { is_slow: !self.is_slow, against: 0 };
        Some(if self.is_slow { Change::Slower(factor) } else { Change::Back })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(factors: &[f64]) -> Vec<(usize, Change)> {
        let mut slowness = Slowness::default();
        let looks = factors.iter().enumerate();
        looks.filter_map(|(look, factor)| Some((look, slowness.look(*factor)?))).collect()
    }

    #[test]
    fn each_change_is_said_once() {
        let factors = [1.0, 3.0, 3.1, 3.2, 4.0, 5.0, 3.0, 1.2, 1.1, 1.0, 1.0, 1.0];
        assert_eq!(changes(&factors), [(3, Change::Slower(3.2)), (9, Change::Back)]);
    }

    #[test]
    fn what_is_short_or_in_between_changes_nothing() {
        assert_eq!(changes(&[3.0, 3.0, 1.0, 3.0, 3.0, 1.9, 3.0, 9.0]), []);
        let flapping = [3.0, 3.0, 3.0, 1.9, 2.1, 1.6, 1.4, 1.4, 1.7, 1.4, 2.1];
        assert_eq!(changes(&flapping), [(2, Change::Slower(3.0))]);
    }
}
