//! How long a host's clients may keep slots without progress: shorter, the more often they stalled lately.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vpfs_core::Time;
use vpfs_session::SessionLimits;

/// The patience with one host.
///
/// With the same patience for all, a client that stalls with one large write after another keeps slots for a second
/// each time; where only a few such requests are outstanding at once, that is most of the server's time. Halving it
/// makes that harmless, and a host whose client hangs once loses nothing: what is released continues without a slot.
#[derive(Default)]
pub(crate) struct Patience(Mutex<Stalls>);

#[derive(Clone, Copy, Default)]
struct Stalls {
    /// How often the patience is halved.
    halvings: u32,
    latest: Time,
}

impl Stalls {
    /// The shortest patience is a sixteenth, 62 ms: longer than a loaded but healthy client needs to send the data of
    /// an acknowledged write.
    const MOST: u32 = 4;

    /// After each such time without a stall the patience doubles again.
    const FORGOTTEN: Duration = Duration::from_secs(10);

    fn at(self, now: Time) -> u32 {
        let forgotten = now.since(self.latest).as_secs() / Self::FORGOTTEN.as_secs();
        self.halvings.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

impl Patience {
    /// The time without progress after which slots are freed.
    pub(crate) fn at(&self, now: Time) -> Duration {
        SessionLimits::PATIENCE / (1 << self.stalls().at(now))
    }

    /// A client of the host has stalled. Those that stall together, as all processes of a host that is suspended do,
    /// count once.
    pub(crate) fn shorten(&self, now: Time) {
        let mut stalls = self.stalls();
        let halvings = stalls.at(now);
        if halvings == 0 || now.since(stalls.latest) >= SessionLimits::PATIENCE / (1 << halvings) {
            *stalls = Stalls { halvings: Stalls::MOST.min(halvings + 1), latest: now };
        }
    }

    fn stalls(&self) -> MutexGuard<'_, Stalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn stalls_one_after_another_halve_it_down_to_a_sixteenth() {
        let patience = Patience::default();
        let mut now = ms(0);
        let mut seen = Vec::new();
        for _ in 0..7 {
            seen.push(patience.at(now).as_micros());
            now = now + patience.at(now);
            patience.shorten(now);
        }
        assert_eq!(seen, [1_000_000, 500_000, 250_000, 125_000, 62_500, 62_500, 62_500]);
    }

    #[test]
    fn stalls_at_the_same_time_count_once() {
        let patience = Patience::default();
        for late in 0..100 {
            patience.shorten(ms(60_000 + late));
        }
        assert_eq!(patience.at(ms(60_100)), Duration::from_millis(500));
    }

    #[test]
    fn it_comes_back() {
        let patience = Patience::default();
        for at in [1000, 2000, 3000] {
            patience.shorten(ms(at));
        }
        let at = [3, 12, 13, 23, 33, 1000].map(|s| patience.at(ms(s * 1000)).as_millis());
        assert_eq!(at, [125, 125, 250, 500, 1000, 1000]);
    }
}
