//! How far the clock of another process is ahead, measured as NTP does it (RFC 5905 §8).

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::Time;

/// The estimate is the best of this many measurements.
const KEPT: usize = 8;

/// A difference between two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// How far the other clock is ahead, in nanoseconds; negative if it is behind.
    pub ahead_ns: i64,
    /// The estimate is at most this wrong, if no clock was set meanwhile.
    pub error: Duration,
}

impl ClockOffset {
    /// Whether the clocks differ by more than `limit` even if the estimate is as wrong as it can be.
    pub(super) fn exceeds(&self, limit: Duration) -> bool {
        Duration::from_nanos(self.ahead_ns.unsigned_abs()).saturating_sub(self.error) > limit
    }
}

/// The latest measurements.
#[derive(Debug, Default)]
pub(super) struct Measurements(VecDeque<ClockOffset>);

impl Measurements {
    /// The answer to a question of `sent` arrived at `now`; the other process received and answered at these times of
    /// its own clock. Answers that cannot be are ignored.
    pub(super) fn add(&mut self, sent: Time, received: Time, answered: Time, now: Time) {
        let [sent, received, answered, now] = [sent, received, answered, now].map(|time| i128::from(time.as_nanos()));
        let under_way = (now - sent) - (answered - received);
        if under_way < 0 || answered < received {
            return;
        }
        let ahead = ((received - sent) + (answered - now)) / 2;
        let (Ok(ahead_ns), Ok(error_ns)) = (i64::try_from(ahead), u64::try_from(under_way / 2 + 1)) else { return };
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(ClockOffset { ahead_ns, error: Duration::from_nanos(error_ns) });
    }

    /// The most exact one; `None` before the first.
    pub(super) fn best(&self) -> Option<ClockOffset> {
        self.0.iter().min_by_key(|offset| offset.error).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn the_fastest_answer_counts() {
        let mut measured = Measurements::default();
        assert_eq!(measured.best(), None);
        // The other clock is 500 ms ahead; 1 ms there, 3 ms back, then 40 ms there.
        measured.add(ms(1000), ms(1501), ms(1510), ms(1013));
        measured.add(ms(2000), ms(2540), ms(2540), ms(2041));
        let best = measured.best().unwrap();
        assert!((best.ahead_ns - 499_000_000).abs() < 10 && best.error <= Duration::from_micros(2001), "{best:?}");
        assert!(!best.exceeds(Duration::from_millis(498)) && best.exceeds(Duration::from_millis(490)));
    }

    #[test]
    fn impossible_answers_are_ignored() {
        let mut measured = Measurements::default();
        measured.add(ms(1000), ms(2000), ms(1000), ms(1001));
        measured.add(ms(1000), ms(0), ms(9000), ms(1001));
        measured.add(ms(1000), Time::ZERO, Time::ZERO, ms(900));
        measured.add(ms(0), Time::from_nanos(u64::MAX), Time::from_nanos(u64::MAX), ms(0));
        assert_eq!(measured.best(), None);
    }
}
