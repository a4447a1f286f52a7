//! Pages of a cache that are not on the device yet.

use std::collections::BTreeMap;

use vpfs_core::Time;

use super::outstanding::Outstanding;
use super::{Io, IoId};

/// The unit in which a cache tracks dirty data: a write of one byte makes a whole page dirty.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Dirty bytes of one object, whole pages, that became dirty together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) object: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// When the first of its bytes became dirty.
    pub(crate) since: Time,
}

/// Runs that do not overlap, indexed by position and by age. All operations are O(log n) for each run that they touch;
/// there is at most one run for each dirty page.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// By object and first byte: the run's end and its number.
    by_place: BTreeMap<(u64, u64), (u64, IoId)>,
    /// By number, which grows with time.
    by_age: Outstanding<Run>,
    added: u64,
}

impl Pages {
    /// Marks the pages of `io` dirty; returns the bytes of those that were clean. The others keep their age.
    pub(crate) fn add(&mut self, now: Time, io: &Io) -> u64 {
        let (mut at, end) = pages(io);
        let mut new = 0;
        while at < end {
            let until = if self.end_of_last(io.object, end - 1).is_none_or(|dirty_until| dirty_until <= at) {
                end // Nothing of it is dirty, as is most often the case.
            } else if let Some(dirty_until) = self.dirty_until(io.object, at) {
                at = dirty_until;
                continue;
            } else {
                self.next_run(io.object, at).map_or(end, |(next, _)| next.min(end))
            };
            self.insert(Run { object: io.object, begin: at, end: until, since: now });
            new += until - at;
            at = until;
        }
        new
    }

    /// Whether all pages of `io` are dirty and therefore in memory.
    pub(crate) fn covers(&self, io: &Io) -> bool {
        let (mut at, end) = pages(io);
        while at < end {
            let Some(dirty_until) = self.dirty_until(io.object, at) else { return false };
            at = dirty_until;
        }
        io.len > 0
    }

    /// The run that has been dirty for the longest time.
    pub(crate) fn oldest(&self) -> Option<&Run> {
        self.by_age.oldest()
    }

    /// Removes the first run of an object that starts at byte `at` or after it.
    pub(crate) fn pop_from(&mut self, object: u64, at: u64) -> Option<Run> {
        let (begin, number) = self.next_run(object, at)?;
        self.by_place.remove(&(object, begin));
        self.by_age.remove(number)
    }

    fn insert(&mut self, run: Run) {
        let number = IoId(self.added);
        self.by_place.insert((run.object, run.begin), (run.end, number));
        self.by_age.insert(number, run);
        self.added += 1;
    }

    /// The end of the run that contains byte `at`; `None` if that byte is clean.
    fn dirty_until(&self, object: u64, at: u64) -> Option<u64> {
        self.end_of_last(object, at).filter(|end| *end > at)
    }

    /// The end of the last run that starts at byte `at` or before it. All objects before are in the range, which costs
    /// less than to look for the first run of this one.
    fn end_of_last(&self, object: u64, at: u64) -> Option<u64> {
        let (&(of, _), &(end, _)) = self.by_place.range(..=(object, at)).next_back()?;
        (of == object).then_some(end)
    }

    /// The start of the first run at byte `at` or after it.
    fn next_run(&self, object: u64, at: u64) -> Option<(u64, IoId)> {
        let (&(of, begin), &(_, number)) = self.by_place.range((object, at)..).next()?;
        (of == object).then_some((begin, number))
    }
}

/// First byte and end of the range of pages that an access touches.
fn pages(io: &Io) -> (u64, u64) {
    let end = io.offset.saturating_add(io.len);
    (io.offset / PAGE_BYTES * PAGE_BYTES, end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::device::IoKind;

    /// Compares runs with an oracle that tracks pages one by one.
    #[test]
    fn agrees_with_a_set_of_pages() {
        let (mut runs, mut set, mut random) = (Pages::default(), BTreeSet::new(), 1_u64);
        for step in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [object, offset, len] = [random >> 63, (random >> 32) % 200_000, (random >> 50) % 30_000];
            let io = Io { kind: IoKind::Write, object, offset, len };
            let (begin, end) = pages(&io);
            let touched =
                || (if len == 0 { 0..0 } else { begin / PAGE_BYTES..end / PAGE_BYTES }).map(|page| (object, page));
            assert_eq!(runs.covers(&io), len > 0 && touched().all(|page| set.contains(&page)));
            if random >> 40 & 3 == 0 {
                let run = runs.oldest().copied();
                run.iter().for_each(|run| assert_eq!(runs.pop_from(run.object, run.begin).as_ref(), Some(run)));
                for page in run.iter().flat_map(|run| run.begin / PAGE_BYTES..run.end / PAGE_BYTES) {
                    assert!(set.remove(&(run.expect("it has pages").object, page)));
                }
            } else if len > 0 {
                let before = set.len();
                set.extend(touched());
                assert_eq!(runs.add(Time::from_millis(step), &io), (set.len() - before) as u64 * PAGE_BYTES);
            }
        }
    }

    #[test]
    fn dirty_pages_keep_their_age() {
        let mut runs = Pages::default();
        let write = |offset, len| Io { kind: IoKind::Write, object: 1, offset, len };
        assert_eq!(runs.add(Time::from_millis(1), &write(10, 1)), PAGE_BYTES);
        assert_eq!(runs.add(Time::from_millis(2), &write(0, 2 * PAGE_BYTES)), PAGE_BYTES);
        let run = |begin, end, millis| Run { object: 1, begin, end, since: Time::from_millis(millis) };
        assert_eq!(runs.pop_from(1, 1), Some(run(PAGE_BYTES, 2 * PAGE_BYTES, 2)));
        assert_eq!((runs.pop_from(2, 0), runs.pop_from(1, 1)), (None, None));
        assert_eq!(runs.pop_from(1, 0), Some(run(0, PAGE_BYTES, 1)));
    }
}
