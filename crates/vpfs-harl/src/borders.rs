//! Which borders of regions are worth having.
//!
//! Algorithm 1 divides wherever sizes of requests change, also between the 40 bytes of a header and what follows. But a
//! region costs a file of its own, or a component, so a border stays only if
//!
//! - each side is longer than its largest stripe: a region that one stripe holds lies on one server, whatever its
//!   stripes are; and
//! - the requests of both sides take less time with stripes of their own than with those of one side for both, by the
//!   gain below which any other change is not worth it either ([`gain_percent`]).
//!
//! What is decided here, from sums over some requests, are proposals: a group of regions becomes one if that holds with
//! replays of the requests, too.
//!
//! [`gain_percent`]: crate::question::Question::gain_percent

use std::ops::Range;

use crate::predictor::{File, Sampled};
use crate::regions::Region;
use crate::search::search;

/// Requests that are priced to decide about all borders of a file, and about one of them.
const REQUESTS: usize = 1 << 15;
const REQUESTS_OF_ONE: std::ops::RangeInclusive<usize> = 64..=4096;
/// The part of the prices that goes into stripes for this decision; those that are advised are searched afterwards.
const SHARE: u64 = 8;

/// Regions that are to become one.
pub(crate) struct Group {
    /// All their bytes.
    pub(crate) bytes: Range<u64>,
    /// Stripes that would do for all of them.
    pub(crate) stripes: Vec<u64>,
    /// The bytes of each that can be a region.
    pub(crate) pieces: Vec<Range<u64>>,
}

/// Groups of regions whose borders are not worth having. O(n) and a search for each region, of an eighth of the budget
/// together.
pub(crate) fn groups(file: File<'_>, regions: &[Region]) -> Vec<Group> {
    let number = regions.len().max(1);
    let most = (REQUESTS / number).clamp(*REQUESTS_OF_ONE.start(), *REQUESTS_OF_ONE.end());
    let deciding = Deciding { file, most, budget: file.question.budget / SHARE / number as u64 };
    let mut groups: Vec<Group> = Vec::new();
    for region in regions {
        let mut next = deciding.group(region);
        while let Some(joined) = groups.last().and_then(|last| deciding.joined(last, &next)) {
            groups.pop();
            next = joined;
        }
        groups.push(next);
    }
    groups
}

impl Group {
    /// One stripe holds it.
    fn cannot_be_striped(&self) -> bool {
        self.stripes.iter().max().is_some_and(|largest| self.bytes.end - self.bytes.start <= *largest)
    }

    /// Nothing is to be divided: stripes are equal, or one side has no use for its own.
    fn is_one_with(&self, next: &Self) -> bool {
        self.stripes == next.stripes || self.cannot_be_striped() || next.cannot_be_striped()
    }

    fn pieces_with(&self, next: &Self) -> Vec<Range<u64>> {
        let mut pieces = self.pieces.clone();
        let is_one = self.is_one_with(next);
        match (pieces.last_mut().filter(|_| is_one), next.pieces.split_first()) {
            (Some(last), Some((first, others))) => {
                last.end = first.end;
                pieces.extend_from_slice(others);
            }
            _ => pieces.extend_from_slice(&next.pieces),
        }
        pieces
    }
}

struct Deciding<'a> {
    file: File<'a>,
    /// Requests of a region that are priced.
    most: usize,
    budget: u64,
}

impl Deciding<'_> {
    fn group(&self, region: &Region) -> Group {
        let File { cluster, question, .. } = self.file;
        let sampled = self.sampled(&region.bytes, region.bytes.start);
        let now = vec![question.now; cluster.classes().len()];
        let others = std::slice::from_ref(&now);
        let found = search(cluster, sampled.demand(), question.step, self.budget, others);
        let stripes = found.map_or(now, |found| found.best.stripes);
        Group { bytes: region.bytes.clone(), stripes, pieces: vec![region.bytes.clone()] }
    }

    /// Both as one, unless the border between them is worth having.
    fn joined(&self, left: &Group, right: &Group) -> Option<Group> {
        let own = self.sampled(&left.bytes, left.bytes.start);
        // Stripes of one region count from its start.
        let moved = self.sampled(&right.bytes, left.bytes.start);
        let with = |group: &Group| own.time(&group.stripes).saturating_add(moved.time(&group.stripes));
        let (with_left, with_right) = (with(left), with(right));
        if !left.is_one_with(right) {
            let apart = self.sampled(&right.bytes, right.bytes.start).time(&right.stripes);
            let apart = own.time(&left.stripes).saturating_add(apart);
            let gain = u128::from(self.file.question.gain_percent);
            if with_left.min(with_right).saturating_mul(100) > apart.saturating_mul(100 + gain) {
                return None;
            }
        }
        let stripes = if with_left <= with_right { &left.stripes } else { &right.stripes };
        let bytes = left.bytes.start..right.bytes.end;
        Some(Group { bytes, stripes: stripes.clone(), pieces: left.pieces_with(right) })
    }

    fn sampled(&self, bytes: &Range<u64>, base: u64) -> Sampled<'_> {
        self.file.sampled(bytes, base, self.most)
    }
}
