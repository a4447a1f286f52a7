//! Finds the stripes of a region [HARL §III-E, Algorithm 2].

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use crate::cluster::Cluster;
use crate::cost::{Group, Pricing, Round};
use crate::trace::{Request, mixed};

/// The paper's step between stripes.
pub const STEP: u64 = 4096;
/// Prices to compute for all files together: about two seconds.
pub const BUDGET: u64 = 20_000_000;

/// The most combinations of stripes that are compared one by one, whatever the budget. Their list takes 16 bytes each,
/// so a search needs 16 MiB at most besides its requests; without this, it grew with the size of requests.
const COMBINATIONS_MAX: u64 = 1 << 20;

/// Stripes for a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The stripe of each class; 0 for a class that is not used.
    pub stripes: Vec<u64>,
    /// The predicted time in picoseconds.
    pub time: u128,
}

impl Choice {
    /// Less time is better, and for equal times the larger stripe of the last class, then of the one before. With
    /// aligned requests {4K, 20K}, {8K, 40K} and so on cost the same: larger stripes are fewer fragments, and are what
    /// the paper reports.
    pub fn is_better_than(&self, other: &Self) -> bool {
        self.order(other).is_lt()
    }

    fn order(&self, other: &Self) -> Ordering {
        self.time.cmp(&other.time).then_with(|| other.stripes.iter().rev().cmp(self.stripes.iter().rev()))
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The best stripes.
    pub best: Choice,
    /// Whether all stripes of the grid were compared, with all requests.
    pub is_exact: bool,
    /// If the cluster limits space: for less space on a class that has a limit, what takes least time; `best` first,
    /// then by time.
    pub alternatives: Vec<Choice>,
    /// The times of the other stripes that were given, in their order, without those that are all 0.
    pub others: Vec<Choice>,
}

/// The stripes that are tried for each class, as multiples of `step`: up to the mean size of a request, as in the
/// paper, and at least up to 16 steps, so that shares of up to 1 to 16 can be expressed for small requests too.
pub fn grid(mean_size: u64, step: u64) -> std::ops::RangeInclusive<u64> {
    0..=mean_size.div_ceil(step).max(16)
}

/// The best stripes on the grid, or one of `others` (each with a stripe for each class) if that is better. `None` if
/// there are no requests.
///
/// [HARL §III-E, Algorithm 2] with any number of classes, every combination of stripes (the paper's second stripe is
/// always the larger), and [`Choice::is_better_than`] for equal times. Requests are priced as groups that are equal
/// modulo a round, so the result is that of the plain search as long as stripes times groups are at most `budget`, and
/// combinations of stripes at most a million. With more, a coarse grid is refined on a sample, and the best few are
/// priced with all requests: about `budget` prices of 0.1 µs each.
///
/// # Panics
/// If `step` is 0.
pub fn search(cluster: &Cluster, demand: &Demand, step: u64, budget: u64, others: &[Vec<u64>]) -> Option<Found> {
    if demand.groups() == 0 {
        return None;
    }
    let mut pricer = Pricer::new(cluster);
    let found = exhaustive(&mut pricer, demand, step, budget);
    let is_exact = found.is_some();
    let found = found.unwrap_or_else(|| refine(&mut pricer, demand, step, budget));
    let others: Vec<Choice> = others.iter().filter_map(|stripes| pricer.choice(demand, stripes)).collect();
    let alternatives = frontier(cluster, found.into_iter().chain(others.iter().cloned()).collect());
    let best = alternatives.first()?.clone();
    Some(Found { best, is_exact, alternatives, others })
}

struct Pricer<'a> {
    cluster: &'a Cluster,
    pricing: Pricing<'a>,
    wants_all: bool,
}

impl<'a> Pricer<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let wants_all = cluster.classes().iter().any(|class| class.free.is_some());
        Self { cluster, pricing: Pricing::new(cluster), wants_all }
    }

    fn choice(&mut self, demand: &Demand, stripes: &[u64]) -> Option<Choice> {
        self.rival(demand, stripes, None)
    }

    /// The choice, unless it can be left out because it is worse than the best so far.
    fn rival(&mut self, demand: &Demand, stripes: &[u64], best: Option<&Choice>) -> Option<Choice> {
        let round = Round::over(self.cluster, stripes)?;
        let most = best.filter(|_| !self.wants_all).map_or(u128::MAX, |best| best.time);
        let time = demand.time(&mut self.pricing, &round, most)?;
        Some(Choice { stripes: stripes.to_vec(), time })
    }
}

/// The best of the whole grid, or all of it that may be wanted if space is limited; `None` if that would take more than
/// `budget` prices, or too much memory.
fn exhaustive(pricer: &mut Pricer<'_>, demand: &Demand, step: u64, budget: u64) -> Option<Vec<Choice>> {
    let grid = Grid { values: grid(demand.mean_size(), step).end() + 1, step, classes: pricer.cluster.classes().len() };
    let combinations = grid.combinations(budget)?;
    let round = |number| Some((Round::over(pricer.cluster, &grid.stripes(number))?.size(), number));
    let mut by_round: Vec<(u64, u64)> = (0..combinations).filter_map(round).collect();
    by_round.sort_unstable();
    // Folding a group takes about a tenth of the time of pricing one.
    let fold = demand.groups() as u64 / 10;
    let price =
        |list: &[(u64, u64)]| fold.saturating_add(demand.groups_modulo(list[0].0).saturating_mul(list.len() as u64));
    let equal_rounds = |one: &(u64, u64), other: &(u64, u64)| one.0 == other.0;
    if by_round.chunk_by(equal_rounds).map(price).fold(0, u64::saturating_add) > budget {
        return None;
    }
    let mut kept = Kept::new(pricer);
    for list in by_round.chunk_by(equal_rounds) {
        let folded = demand.folded(list[0].0);
        for (_, number) in list {
            let rival = pricer.rival(&folded, &grid.stripes(*number), kept.best.as_ref());
            kept.add(pricer.cluster, rival);
        }
    }
    Some(kept.into_choices())
}

struct Grid {
    /// Stripes of each class: multiples of `step` from 0.
    values: u64,
    step: u64,
    classes: usize,
}

impl Grid {
    /// Their number, unless there are more than can be compared one by one.
    fn combinations(&self, budget: u64) -> Option<u64> {
        let number = self.values.checked_pow(u32::try_from(self.classes).ok()?);
        number.filter(|number| *number <= budget.min(COMBINATIONS_MAX))
    }

    fn stripes(&self, mut number: u64) -> Vec<u64> {
        let mut stripes = vec![0; self.classes];
        for stripe in stripes.iter_mut().rev() {
            (*stripe, number) = (number % self.values * self.step, number / self.values);
        }
        stripes
    }
}

struct Kept {
    best: Option<Choice>,
    all: Option<Vec<Choice>>,
    /// The number of others from which those that cannot be wanted are dropped.
    full: usize,
}

impl Kept {
    /// Others that are kept before the first of them are dropped.
    const FULL: usize = 4096;

    fn new(pricer: &Pricer<'_>) -> Self {
        Self { best: None, all: pricer.wants_all.then(Vec::new), full: Self::FULL }
    }

    fn add(&mut self, cluster: &Cluster, choice: Option<Choice>) {
        let Some(choice) = choice else { return };
        if let Some(all) = &mut self.all {
            all.push(choice.clone());
            if all.len() >= self.full {
                *all = frontier(cluster, std::mem::take(all));
                self.full = 2 * all.len() + Self::FULL;
            }
        }
        if self.best.as_ref().is_none_or(|best| choice.is_better_than(best)) {
            self.best = Some(choice);
        }
    }

    fn into_choices(self) -> Vec<Choice> {
        self.all.unwrap_or_else(|| self.best.into_iter().collect())
    }
}

fn combinations_of(lists: &[Vec<u64>]) -> Vec<Vec<u64>> {
    lists.iter().fold(vec![Vec::new()], |combinations, list| {
        let extend = |combination: &Vec<u64>| {
            let combination = combination.clone();
            list.iter().map(move |value| combination.iter().chain([value]).copied().collect())
        };
        combinations.iter().flat_map(extend).collect()
    })
}

/// The best choice and, if space is limited, those that need less space on a limited class than all better ones.
fn frontier(cluster: &Cluster, mut choices: Vec<Choice>) -> Vec<Choice> {
    choices.sort_by(Choice::order);
    choices.dedup();
    let mut least = vec![u64::MAX; cluster.classes().len()];
    let mut is_first = true;
    choices.retain(|choice| {
        let shares = shares(cluster, &choice.stripes);
        let limited = cluster.classes().iter().map(|class| class.free.is_some());
        let mut keep = std::mem::take(&mut is_first);
        for ((least, share), limited) in least.iter_mut().zip(shares).zip(limited) {
            keep |= limited && share < *least;
            *least = share.min(*least);
        }
        keep
    });
    choices
}

/// The part of a round that each server of a class holds, in parts of 2^32.
fn shares(cluster: &Cluster, stripes: &[u64]) -> Vec<u64> {
    let servers = cluster.classes().iter().map(|class| u128::from(class.servers));
    let round: u128 = servers.zip(stripes).map(|(servers, &stripe)| servers * u128::from(stripe)).sum();
    let share = |&stripe: &u64| u64::try_from((u128::from(stripe) << 32) / round.max(1)).unwrap_or(u64::MAX);
    stripes.iter().map(share).collect()
}

// The search for regions with too many groups of requests, or too many stripes, to compare all.

/// Requests of each run in the sample, unless that would take more than the budget.
const SAMPLE: RangeInclusive<u64> = 32..=256;
const TRIED: u64 = 1000;
/// Choices whose neighbours are tried in each round of refinement.
const BEAM: usize = 8;
/// The most choices that are priced with all requests.
const FINALISTS: u64 = 256;

/// The best choice that a coarse grid and its refinement find on a sample, priced with all requests; with limited
/// space, also others.
fn refine(pricer: &mut Pricer<'_>, demand: &Demand, step: u64, budget: u64) -> Vec<Choice> {
    let sample = demand.sample((budget / TRIED).clamp(*SAMPLE.start(), *SAMPLE.end()));
    let mut tried = on_sample(pricer, &sample, step, *grid(demand.mean_size(), step).end());
    let groups = demand.groups() as u64;
    let finalists = usize::try_from((budget / groups.max(1)).clamp(2, FINALISTS)).unwrap_or(2);
    let mut chosen = frontier(pricer.cluster, tried.clone());
    chosen.truncate(finalists.div_ceil(2));
    tried.sort_by(Choice::order);
    let others: Vec<Choice> = tried.into_iter().filter(|choice| !chosen.contains(choice)).collect();
    chosen.extend(others.into_iter().take(finalists - chosen.len()));
    let mut kept = Kept::new(pricer);
    for Choice { stripes, .. } in chosen {
        let rival = pricer.rival(demand, &stripes, kept.best.as_ref());
        kept.add(pricer.cluster, rival);
    }
    kept.into_choices()
}

/// All choices tried: a coarse grid up to `most` steps, then the neighbours of the best at half the distance, and so
/// on.
fn on_sample(pricer: &mut Pricer<'_>, sample: &Demand, step: u64, most: u64) -> Vec<Choice> {
    let classes = pricer.cluster.classes().len();
    let coarse = [64, 16, 8, 5][classes - 1];
    let mut distance = most.div_ceil(coarse).next_power_of_two();
    let steps: Vec<u64> = (0..=most.div_ceil(distance)).map(|value| (value * distance).min(most)).collect();
    let mut seen = BTreeSet::new();
    let mut tried = Vec::new();
    let mut try_all = |tried: &mut Vec<Choice>, combinations: Vec<Vec<u64>>| {
        for combination in combinations {
            let stripes: Vec<u64> = combination.iter().map(|value| value * step).collect();
            if seen.insert(combination) {
                tried.extend(pricer.choice(sample, &stripes));
            }
        }
    };
    try_all(&mut tried, combinations_of(&vec![steps; classes]));
    while distance > 1 {
        distance /= 2;
        tried.sort_by(Choice::order);
        let centres: Vec<Vec<u64>> = tried.iter().take(BEAM).map(|choice| choice.stripes.clone()).collect();
        for centre in centres {
            let near = |&stripe: &u64| {
                let value = stripe / step;
                vec![value.saturating_sub(distance), value, (value + distance).min(most)]
            };
            try_all(&mut tried, combinations_of(&centre.iter().map(near).collect::<Vec<_>>()));
        }
    }
    tried
}

/// The most choices that are priced with all requests, if not all can be.
const FINALISTS_OF_LIST: usize = 16;

/// The best of `list` and, if the cluster limits space, those that need less space on a limited class, best first; as
/// [`Found::alternatives`]. Each of the list has a stripe for each class, not all 0.
///
/// If that would take more than `budget` prices, a sample of the requests selects those that are priced with all.
/// Empty only if the list or the demand is.
pub fn compare(cluster: &Cluster, demand: &Demand, list: &[Vec<u64>], budget: u64) -> Vec<Choice> {
    if demand.groups() == 0 {
        return Vec::new();
    }
    let mut pricer = Pricer::new(cluster);
    let sample = demand.sample((budget / (list.len() as u64).max(1)).max(1));
    let mut choices: Vec<Choice> = list.iter().filter_map(|stripes| pricer.choice(&sample, stripes)).collect();
    if sample.requests() < demand.requests() {
        let mut chosen = frontier(cluster, choices.clone());
        chosen.truncate(FINALISTS_OF_LIST);
        choices.sort_by(Choice::order);
        choices.truncate(FINALISTS_OF_LIST);
        choices.extend(chosen);
        choices = choices.iter().filter_map(|choice| pricer.choice(demand, &choice.stripes)).collect();
    }
    frontier(cluster, choices)
}

// What the runs of an application ask of one region.

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

    fn groups_modulo(&self, round: u64) -> u64 {
        let kinds = self.runs.iter().flat_map(|run| &run.kinds);
        kinds.map(|kind| (kind.groups.len() as u64).min(kind.modulo(round).1)).sum()
    }

    fn folded(&self, round: u64) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 requests of 16 MiB took 1.3 GiB: all combinations of their stripes were listed before it was clear that they
    /// are too many to compare.
    #[test]
    fn what_is_listed_does_not_grow_with_the_size_of_requests() {
        for classes in 1..=Cluster::CLASSES_MAX {
            for bits in 0..37 {
                let grid = Grid { values: grid(1 << bits, STEP).end() + 1, step: STEP, classes };
                let listed = grid.combinations(u64::MAX);
                assert!(listed.is_none_or(|number| number <= COMBINATIONS_MAX), "{classes} classes, 2^{bits} bytes");
                assert_eq!(
                    listed.is_some(),
                    u128::from(grid.values).pow(u32::try_from(classes).unwrap()) <= u128::from(COMBINATIONS_MAX)
                );
            }
        }
    }

    #[test]
    fn combinations_have_numbers() {
        let grid = Grid { values: 3, step: 10, classes: 2 };
        let all: Vec<Vec<u64>> = (0..grid.combinations(9).unwrap()).map(|number| grid.stripes(number)).collect();
        assert_eq!(all[..4], [[0, 0], [0, 10], [0, 20], [10, 0]]);
        assert_eq!((all.len(), grid.combinations(8)), (9, None));
    }

    /// With limited space, other choices than the best are kept, too: not those that can never be wanted.
    #[test]
    fn choices_that_cannot_be_wanted_are_dropped() {
        let mut classes = crate::cost::tests::paper(1, 1).classes().to_vec();
        classes[1].free = Some(1 << 30);
        let cluster = Cluster::new(classes, 1_000_000_000).unwrap();
        let mut kept = Kept::new(&Pricer::new(&cluster));
        for number in 0..100_000_u64 {
            let stripes = vec![4096 * (1 + number % 300), 4096 * (1 + number % 299)];
            kept.add(&cluster, Some(Choice { stripes, time: u128::from(number * 7919 % 100_003) }));
            assert!(kept.all.as_ref().unwrap().len() <= 3 * Kept::FULL);
        }
        assert!(kept.into_choices().len() <= 3 * Kept::FULL);
    }
}
