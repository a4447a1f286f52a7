//! The least time that an interactive request takes; the length of a piece of a long write is derived from it.

use core::time::Duration;

use crate::units::Time;

/// The minimum over the last ten to twenty seconds.
#[derive(Debug, Default)]
pub(crate) struct Quickest {
    latest_ns: Option<u64>,
    before_ns: Option<u64>,
    since: Time,
}

impl Quickest {
    const EVERY: Duration = Duration::from_secs(10);

    /// An interactive request took `took_ns` from enqueue to completion.
    pub(crate) fn add(&mut self, now: Time, took_ns: u64) {
        if now.since(self.since) >= Self::EVERY {
            (self.before_ns, self.latest_ns, self.since) = (self.latest_ns, None, now);
        }
        self.latest_ns = Some(self.latest_ns.map_or(took_ns, |least| least.min(took_ns)));
    }

    pub(crate) fn ns(&self) -> Option<u64> {
        [self.latest_ns, self.before_ns].into_iter().flatten().min()
    }
}
