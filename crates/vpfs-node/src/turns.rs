//! Whose turn it was, at any moment of the recent past.

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::{AppId, Time};

/// The latest turns; memory is bounded by [`Turns::KEPT`].
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Since when; `None` while nothing is in the storage.
    turns: VecDeque<(Time, Option<AppId>)>,
    moments: u32,
}

impl Turns {
    /// A longer wait counts as if it had begun with the first of so many turns.
    const KEPT: usize = 1024;
    /// Multiples of the golden ratio, modulo 1, are spread evenly, however many there are.
    const GOLDEN: u32 = 0x9E37_79B9;

    /// A turn began at `since`, which is no earlier than the one before. O(1).
    pub(crate) fn note(&mut self, since: Time, app: Option<AppId>) {
        if self.turns.back().is_some_and(|(_, before)| *before == app) {
            return;
        }
        if self.turns.len() == Self::KEPT {
            self.turns.pop_front();
        }
        self.turns.push_back((since, app));
    }

    /// The latest applications that had a turn, at most `most`, the last one first.
    pub(crate) fn latest(&self, most: usize) -> impl Iterator<Item = AppId> {
        self.turns.iter().rev().take(most).filter_map(|(_, app)| *app)
    }

    /// Whose turn it was at some moment from `since` to `now`; moments are spread evenly over all calls, so that sums
    /// of many are right. O(log [`Turns::KEPT`]).
    pub(crate) fn at(&mut self, since: Time, now: Time) -> Option<AppId> {
        self.moments = self.moments.wrapping_add(Self::GOLDEN);
        let passed = (u128::from(now.nanos_since(since)) * u128::from(self.moments)) >> u32::BITS;
        let at = since + Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX));
        let later = self.turns.partition_point(|(from, _)| *from <= at);
        self.turns.get(later.saturating_sub(1))?.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A turn of 9 ms of one application follows each of 1 ms of another.
    #[test]
    fn waiting_time_is_divided_as_turns_were() {
        let (mut turns, mut behind) = (Turns::default(), [0_u32; 2]);
        for round in 0..1000 {
            let start = Time::from_millis(10 * round);
            turns.note(start, Some(AppId(0)));
            turns.note(start + 9 * MS, Some(AppId(1)));
            if round >= 7 {
                let waited = turns.at(Time::from_millis(10 * round - 60), start + 10 * MS);
                behind[waited.expect("the storage is busy").index()] += 1;
            }
        }
        assert!((890..=905).contains(&behind[0]), "{behind:?}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut turns = Turns::default();
        (0..5000).for_each(|turn| turns.note(Time::from_millis(turn), Some(AppId(u32::try_from(turn).unwrap_or(0)))));
        assert_eq!(turns.turns.len(), Turns::KEPT);
    }
}
