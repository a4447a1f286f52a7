//! Pages that a cache keeps in memory, until others need their place.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::Io;
use super::neighbours::PlaceHasher;
use super::pages::PAGE_BYTES;

/// Pages in the order in which they came. Which pages are there is a bit for each, in words that are found by their
/// place: a sorted tree would be searched for each access, and nobody asks for the next page.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    words: HashMap<Word, u64, BuildHasherDefault<PlaceHasher>>,
    /// Pages of one object that came together, oldest first.
    runs: VecDeque<Run>,
    bytes: u64,
}

/// An object, and the number of a word of its pages.
type Word = (u64, u64);

/// Pages from the first to before the last.
#[derive(Clone, Copy, Debug)]
struct Run {
    object: u64,
    begin: u64,
    end: u64,
}

impl Kept {
    /// Takes the pages of `io`; those that are there already keep their age. O(pages / 64 + runs).
    pub(crate) fn add(&mut self, io: &Io) {
        let runs = self.runs.len();
        for (word, mask) in words(&Run::of(io)) {
            let kept = self.words.entry(word).or_default();
            let mut new = mask & !*kept;
            *kept |= mask;
            self.bytes += u64::from(new.count_ones()) * PAGE_BYTES;
            while new != 0 {
                let first = new.trailing_zeros();
                let pages = (new >> first).trailing_ones();
                new &= !bits(first, first + pages);
                let begin = word.1 * 64 + u64::from(first);
                let end = begin + u64::from(pages);
                let goes_on = self.runs.len() > runs;
                match self.runs.back_mut().filter(|last| goes_on && last.end == begin) {
                    Some(last) => last.end = end,
                    None => self.runs.push_back(Run { object: io.object, begin, end }),
                }
            }
        }
    }

    /// Whether all pages of `io` are there. O(pages / 64).
    pub(crate) fn covers(&self, io: &Io) -> bool {
        let has = |(word, mask)| self.words.get(&word).is_some_and(|kept| kept & mask == mask);
        io.len > 0 && words(&Run::of(io)).all(has)
    }

    /// Drops the oldest pages until no more than `most` bytes are left, or the last of them is dropped.
    pub(crate) fn shrink_to(&mut self, most: u64) {
        while self.bytes > most
            && let Some(run) = self.runs.pop_front()
        {
            self.bytes -= (run.end - run.begin) * PAGE_BYTES;
            for (word, mask) in words(&run) {
                if let Some(kept) = self.words.get_mut(&word) {
                    *kept &= !mask;
                    if *kept == 0 {
                        self.words.remove(&word);
                    }
                }
            }
        }
    }
}

impl Run {
    /// The pages that an access touches.
    fn of(io: &Io) -> Self {
        let end = io.offset.saturating_add(io.len).div_ceil(PAGE_BYTES);
        Self { object: io.object, begin: io.offset / PAGE_BYTES, end }
    }
}

/// The words of some pages, with their bits.
fn words(run: &Run) -> impl Iterator<Item = (Word, u64)> + use<> {
    let Run { object, begin, end } = *run;
    let bit = |page: u64| u32::try_from(page.min(64)).unwrap_or(64);
    (begin / 64..end.div_ceil(64)).map(move |word| {
        let before = word * 64;
        ((object, word), bits(bit(begin.saturating_sub(before)), bit(end - before)))
    })
}

/// Bits from `first` to before `end`, up to 64 of them.
fn bits(first: u32, end: u32) -> u64 {
    let below = |bit: u32| 1_u64.checked_shl(bit).map_or(u64::MAX, |bit| bit - 1);
    below(end) & !below(first)
}

#[cfg(test)]
mod tests {
    use super::super::IoKind;
    use super::super::pages::Pages;
    use super::*;
    use vpfs_core::Time;

    /// What is dirty is kept in another way; for what both have, they agree, and so on what is dropped.
    #[test]
    fn agrees_with_sorted_runs() {
        let (mut kept, mut sorted, mut random) = (Kept::default(), Pages::default(), 1_u64);
        let mut bytes = 0;
        for _ in 0..30_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [object, offset, len] = [random >> 63, (random >> 32) % 5_000_000, (random >> 50) % 900_000];
            let io =
                Io { kind: IoKind::Read, object, offset, len: if random >> 45 & 7 > 0 { len % 20_000 } else { len } };
            assert_eq!(kept.covers(&io), sorted.covers(&io));
            if io.len > 0 && random >> 40 & 1 == 0 {
                kept.add(&io);
                bytes += sorted.add(Time::ZERO, &io);
                kept.shrink_to(4_000_000);
                while bytes > 4_000_000 {
                    let run = *sorted.oldest().unwrap();
                    sorted.pop_from(run.object, run.begin);
                    bytes -= run.end - run.begin;
                }
            }
            assert_eq!((kept.bytes, kept.words.values().all(|word| *word != 0)), (bytes, true));
        }
    }
}
