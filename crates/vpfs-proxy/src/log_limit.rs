//! Limits the lines in the log about what can happen again and again, such as failures that a peer repeats.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use vpfs_core::Time;

/// The time between two lines of the same kind.
const PERIOD: Duration = Duration::from_secs(60);

/// What is limited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Bytes that do not follow the protocol.
    Malformed,
    /// A message that is not allowed at this point.
    Violation,
    /// The end of a connection in the middle of a message.
    Truncated,
    /// A configuration that cannot be passed on.
    Configuration,
    /// Too long without progress.
    TimedOut,
    /// A bound of memory.
    OutOfMemory,
    /// The limit of connections of the daemon.
    ConnectionsUsedUp,
    /// Connections cannot be accepted, or no socket opened for them.
    NoSocket,
    /// A client repeated a request that waited for its turn.
    HeldForTooLong,
    /// The limit of connections of a host.
    TooManyConnections,
    /// A client that kept the storage waiting.
    Released,
    /// What requests cost was measured.
    Costs,
}

/// The lines about one peer. Holds an entry for each kind of failure that occurred.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<BTreeMap<Kind, Quiet>>);

#[derive(Debug)]
struct Quiet {
    until: Time,
    suppressed: u64,
}

impl LogLimit {
    /// Whether to write a line about a failure, and the number of failures since the previous line that had none.
    /// `None` if that line is less than a minute old; then the failure is counted.
    pub(crate) fn due(&self, kind: Kind, now: Time) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = kinds.entry(kind).or_insert(Quiet { until: now, suppressed: 0 });
        if now < quiet.until {
            quiet.suppressed += 1;
            return None;
        }
        quiet.until = now + PERIOD;
        Some(std::mem::take(&mut quiet.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_period_for_each_kind() {
        let (limit, start) = (LogLimit::default(), Time::from_millis(5000));
        assert_eq!(limit.due(Kind::Malformed, start), Some(0));
        assert_eq!(limit.due(Kind::TimedOut, start), Some(0), "another kind");
        for second in 0..60 {
            assert_eq!(limit.due(Kind::Malformed, start + Duration::from_secs(second)), None);
        }
        assert_eq!(limit.due(Kind::Malformed, start + PERIOD), Some(60));
        assert_eq!(limit.due(Kind::Malformed, start + PERIOD), None);
        assert_eq!(limit.due(Kind::Malformed, start + 9 * PERIOD), Some(1));
    }
}
