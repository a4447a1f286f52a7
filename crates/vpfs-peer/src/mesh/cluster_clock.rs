//! The clock by which all processes of a cluster go when they need the same time: the median of theirs.
//!
//! Every process finds it by itself, from its own clock and the differences that it has measured, so that all find the
//! same one, as exactly as differences were measured and as far as all have links to all. While most clocks are right,
//! so is the median, whatever the others say. No process has to be there, and nobody is asked who is right. A process
//! that has lost all others keeps what it was told: they still serve the same clients.

use std::time::Duration;

use vpfs_core::Time;

/// A smaller change is not told: it is about as much as the parts of one call reach servers apart.
const LEAST_CHANGE: Duration = Duration::from_millis(1);
/// Changes are told at most this often, because each may move all queued requests, and a process that lies could
/// otherwise cause as many as it sends answers. As often as each of the others is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// 100 years: no more is ever told, so that nanoseconds since 1970 can be counted whatever the others say.
const MOST_NS: i64 = 100 * 365 * 86_400 * 1_000_000_000;

/// How far the median is ahead of this process's clock, as it was last told.
#[derive(Debug, Default)]
pub(super) struct ClusterClock {
    told_ns: i64,
    /// Not before then.
    next: Time,
}

impl ClusterClock {
    /// The clocks of the others are this far ahead; returns how far the median is, if that must be told. Of an even
    /// number of clocks, the one before the middle counts. O(n log n).
    pub(super) fn update(&mut self, now: Time, others_ns: impl Iterator<Item = i64>) -> Option<i64> {
        if now < self.next {
            return None;
        }
        let mut all: Vec<i64> = others_ns.chain([0]).collect();
        all.sort_unstable();
        let median = all[(all.len() - 1) / 2].clamp(-MOST_NS, MOST_NS);
        if Duration::from_nanos(median.abs_diff(self.told_ns)) < LEAST_CHANGE {
            return None;
        }
        (self.told_ns, self.next) = (median, now + PERIOD);
        Some(median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn all_processes_find_the_same_clock() {
        for clocks in [&[5, 5000][..], &[9000, 0, -3], &[1, -700, 12, 40_000], &[7]] {
            let of = |own: usize| {
                let others = clocks.iter().enumerate().filter(|(at, _)| *at != own);
                let others = others.map(|(_, clock)| (clock - clocks[own]) * MS);
                clocks[own] * MS + ClusterClock::default().update(Time::ZERO, others).unwrap_or(0)
            };
            let found: Vec<i64> = (0..clocks.len()).map(of).collect();
            assert!(found.iter().all(|clock| *clock == found[0]), "{clocks:?}: {found:?}");
        }
    }

    #[test]
    fn a_minority_can_say_what_it_wants() {
        for lie in [i64::MIN, -1, 0, i64::MAX] {
            let others = [5 * MS, lie, 9 * MS, lie].into_iter();
            let ahead = ClusterClock::default().update(Time::ZERO, others).unwrap_or(0);
            assert!((0..=9 * MS).contains(&ahead), "{lie}: {ahead}");
        }
    }

    #[test]
    fn small_changes_are_not_told_and_others_once_a_second() {
        let mut clock = ClusterClock::default();
        let mut update = |ms, ns| clock.update(Time::from_millis(ms), [ns; 2].into_iter());
        let small = [(0, MS - 1), (0, MS), (1000, 2 * MS - 1), (2000, 1), (3000, 0)];
        assert_eq!(small.map(|(ms, ns)| update(ms, ns)), [None, Some(MS), None, None, Some(0)]);
        let many = [(4000, i64::MIN), (4001, i64::MAX), (4999, MS), (5000, i64::MAX)];
        assert_eq!(many.map(|(ms, ns)| update(ms, ns)), [Some(-MOST_NS), None, None, Some(MOST_NS)]);
    }
}
