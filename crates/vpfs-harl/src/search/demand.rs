//! What the runs of an application ask of one region.

use std::ops::Range;

use crate::cost::{Group, Pricing};
use crate::mix::mixed;
use crate::round::Round;
use crate::trace::Request;

/// The requests of one run to a region, equal ones counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// By operation, size and offset.
    groups: Vec<Group>,
    kinds: Vec<Kind>,
    weight: u64,
    outstanding_milli: u64,
}

impl Run {
    /// Requests of a region that starts at `start` in the file, of a run that occurs `weight` times (at most a million)
    /// and has `outstanding_milli` thousandths of requests outstanding (1000 for the paper's cost). O(n log n).
    pub fn new(requests: &[Request], start: u64, weight: u32, outstanding_milli: u64) -> Self {
        let group = |request: &Request| Group {
            op: request.op,
            size: request.size,
            offset: request.offset.saturating_sub(start),
            count: 1,
        };
        let mut groups: Vec<Group> = requests.iter().map(group).collect();
        groups.sort_unstable();
        groups.dedup_by(|next, kept| {
            let equal = is_same_kind(next, kept) && next.offset == kept.offset;
            kept.count += if equal { next.count } else { 0 };
            equal
        });
        groups.shrink_to_fit();
        Self::of_groups(groups, u64::from(weight), outstanding_milli.max(1000))
    }

    fn of_groups(groups: Vec<Group>, weight: u64, outstanding_milli: u64) -> Self {
        let mut at = 0;
        let kinds = groups.chunk_by(is_same_kind).map(|list| {
            at += list.len();
            Kind::new(at - list.len()..at, list)
        });
        Self { kinds: kinds.collect(), groups, weight, outstanding_milli }
    }

    /// The same demand modulo a round.
    fn folded(&self, round: u64) -> Self {
        let mut groups = Vec::new();
        for kind in &self.kinds {
            let list = &self.groups[kind.groups.clone()];
            let (unit, slots) = kind.modulo(round);
            // Fewer slots than groups fit memory.
            let Some(slots) = usize::try_from(slots).ok().filter(|slots| *slots < list.len()) else {
                groups.extend_from_slice(list);
                continue;
            };
            let mut counts = vec![0_u64; slots];
            for group in list {
                let slot = usize::try_from(group.offset % round / unit).unwrap_or(usize::MAX);
                counts[slot] += group.count;
            }
            let used = (0..).zip(counts).filter(|(_, count)| *count > 0);
            let base = kind.base % unit;
            groups.extend(used.map(|(slot, count)| Group { offset: slot * unit + base, count, ..list[0] }));
        }
        Self::of_groups(groups, self.weight, self.outstanding_milli)
    }

    /// About `most` requests: one drawn from each of as many equal parts of all, by a fixed rule that no regular
    /// pattern of offsets is in step with.
    fn sample(&self, most: u64) -> Self {
        let total: u64 = self.groups.iter().map(|group| group.count).sum();
        if total <= most {
            return self.clone();
        }
        let mut groups = self.groups.iter();
        let (mut sampled, mut passed) = (Vec::new(), 0);
        let mut current = groups.next();
        for part in 0..most {
            let place = u128::from(part) * u128::from(total) + u128::from(mixed(part) % total);
            let place = u64::try_from(place / u128::from(most)).unwrap_or(u64::MAX);
            while let Some(group) = current.filter(|group| passed + group.count <= place) {
                passed += group.count;
                current = groups.next();
            }
            sampled.extend(current.map(|group| Group { count: 1, ..*group }));
        }
        Self::of_groups(sampled, self.weight, self.outstanding_milli)
    }

    /// The predicted time, or `None` if it is above `most`.
    fn time(&self, pricing: &mut Pricing<'_>, round: &Round, most: u128) -> Option<u128> {
        let outstanding = u128::from(self.outstanding_milli);
        let alone_max = most.saturating_add(1).saturating_mul(outstanding) / 1000;
        let time = pricing.time(round, &self.groups, alone_max)?.with(self.outstanding_milli);
        (time <= most).then_some(time)
    }
}

/// Groups of one operation and size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    /// Their places in the list.
    groups: Range<usize>,
    /// One of their offsets, and the largest number that divides the distances of all others from it: 0 for one offset.
    base: u64,
    unit: u64,
}

impl Kind {
    fn new(groups: Range<usize>, list: &[Group]) -> Self {
        let base = list[0].offset;
        let unit = list.iter().fold(0, |unit, group| gcd(unit, group.offset.abs_diff(base)));
        Self { groups, base, unit }
    }

    /// The distance between possible offsets modulo a round, and their number.
    fn modulo(&self, round: u64) -> (u64, u64) {
        let unit = gcd(round, self.unit);
        (unit, round / unit)
    }
}

fn is_same_kind(one: &Group, other: &Group) -> bool {
    one.op == other.op && one.size == other.size
}

/// The requests of all runs to a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    runs: Vec<Run>,
}

impl Demand {
    /// The demand of some runs.
    pub fn new(runs: Vec<Run>) -> Self {
        Self { runs }
    }

    /// Bytes that all runs move, each as often as its weight.
    pub fn bytes(&self) -> u128 {
        let of_run = |run: &Run| run.groups.iter().map(|g| u128::from(g.size) * u128::from(g.count)).sum::<u128>();
        self.runs.iter().map(|run| of_run(run) * u128::from(run.weight)).sum()
    }

    /// Requests of all runs.
    pub fn requests(&self) -> u64 {
        self.runs.iter().flat_map(|run| &run.groups).map(|group| group.count).sum()
    }

    /// The mean size of a request, at least 1.
    pub fn mean_size(&self) -> u64 {
        let groups = || self.runs.iter().flat_map(|run| run.groups.iter().map(|group| (group, u128::from(run.weight))));
        let bytes: u128 =
            groups().map(|(group, weight)| u128::from(group.size) * u128::from(group.count) * weight).sum();
        let count: u128 = groups().map(|(group, weight)| u128::from(group.count) * weight).sum();
        u64::try_from(bytes / count.max(1)).unwrap_or(u64::MAX).max(1)
    }

    /// The predicted time of all runs in picoseconds, each as often as its weight; `None` if it is above `most`.
    /// O(groups · classes + servers).
    ///
    /// # Panics
    /// If the round has other classes than the cluster.
    pub fn time(&self, pricing: &mut Pricing<'_>, round: &Round, most: u128) -> Option<u128> {
        let mut total = 0_u128;
        for run in self.runs.iter().filter(|run| run.weight > 0) {
            let weight = u128::from(run.weight);
            total += run.time(pricing, round, (most - total) / weight)? * weight;
        }
        Some(total)
    }

    pub(super) fn groups(&self) -> usize {
        self.runs.iter().map(|run| run.groups.len()).sum()
    }

    /// An upper bound of the groups modulo a round.
    pub(super) fn groups_modulo(&self, round: u64) -> u64 {
        let kinds = self.runs.iter().flat_map(|run| &run.kinds);
        kinds.map(|kind| (kind.groups.len() as u64).min(kind.modulo(round).1)).sum()
    }

    /// The same demand modulo a round of `round` bytes.
    pub(super) fn folded(&self, round: u64) -> Self {
        Self { runs: self.runs.iter().map(|run| run.folded(round)).collect() }
    }

    pub(super) fn sample(&self, most: u64) -> Self {
        Self { runs: self.runs.iter().map(|run| run.sample(most)).collect() }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
