//! From the traces of a file to its layout.

use std::borrow::Cow;
use std::ops::Range;

use crate::cluster::Cluster;
use crate::cost::Round;
use crate::predictor::{File, Predictor, Question, Sampled, Spread};
use crate::regions::{Region, divide};
use crate::search::{Choice, Found, search};
use crate::table::{RegionStripeTable, Row};
use crate::trace::{Trace, TraceError};

/// A region with its stripes and predicted times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionAdvice {
    /// Its bytes in the file.
    pub bytes: Range<u64>,
    /// Its requests in all runs.
    pub requests: u64,
    /// Their mean size in bytes.
    pub mean_size: u64,
    /// Bytes that all runs move, each as often as its weight.
    pub moved: u128,
    /// Predicted time with the layout now, in picoseconds, for all runs as often as their weights.
    pub time_now: u128,
    /// The stripes advised and the time with them; those of now if nothing is gained.
    pub advised: Choice,
    /// Whether the region keeps its present stripes because little would be gained.
    pub is_kept: bool,
    /// Whether all stripes were compared, with all requests.
    pub is_exact: bool,
    /// Whether space on a class forbids what would take least time.
    pub is_limited: bool,
}

/// Advice for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Its regions, in order.
    pub regions: Vec<RegionAdvice>,
    /// The same as a table, neighbours with equal stripes as one.
    pub table: RegionStripeTable,
}

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdviceError {
    /// The traces cannot be used together.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file does not fit on the servers.
    #[error(transparent)]
    NoSpace(#[from] NoSpace),
    /// No trace has a request to the file.
    #[error("no trace has a request that moves bytes of this file")]
    NoRequests,
    /// No class is small enough for the file system.
    #[error("this file system puts a file on at most {0} servers, and each class has more; name fewer servers")]
    TooManyServers(u32),
}

impl Advice {
    /// Predicted time of the layout now and of the advised one, in picoseconds.
    pub fn times(&self) -> (u128, u128) {
        let sum = |time: fn(&RegionAdvice) -> u128| self.regions.iter().map(time).sum();
        (sum(|region| region.time_now), sum(|region| region.advised.time))
    }

    /// Whether any region is better off with other stripes.
    pub fn is_worth_it(&self) -> bool {
        self.regions.iter().any(|region| !region.is_kept)
    }
}

/// The layout that minimises the predicted time of all runs to a file, each counted as often as its weight. A million
/// requests take about a second with a budget of some millions.
///
/// # Errors
/// If there are no requests, too many, or too little space.
///
/// # Panics
/// If `step` or `now` of the question is 0.
pub fn advise(cluster: &Cluster, runs: &[(Trace, u32)], question: &Question) -> Result<Advice, AdviceError> {
    let all = all_of(runs)?;
    let regions = divide(&all, question.chunk);
    if regions.is_empty() {
        return Err(AdviceError::NoRequests);
    }
    let total = all.requests().len() as u64;
    let file = File { cluster, runs, question };
    let groups = groups(file, &regions);
    let mut asked: Vec<Asked<'_>> = groups.iter().flat_map(|group| regions_of(file, group, total)).collect();
    let now = asked.iter().map(|region| region.time_now).sum();
    let then = asked.iter().map(Asked::time_then).sum();
    if question.gains_too_little(now, then) {
        asked.iter_mut().for_each(|region| region.is_kept = true);
    }
    let candidates: Vec<Candidates> = asked.iter().map(Asked::candidates).collect();
    let chosen = fit(cluster, &candidates)?;
    let regions: Vec<RegionAdvice> = asked.into_iter().zip(chosen).map(|(asked, index)| asked.advice(index)).collect();
    let row = |region: &RegionAdvice| Row { bytes: region.bytes.clone(), stripes: region.advised.stripes.clone() };
    let table = RegionStripeTable::new(regions.iter().map(row));
    Ok(Advice { regions, table })
}

fn all_of(runs: &[(Trace, u32)]) -> Result<Cow<'_, Trace>, TraceError> {
    match runs {
        [(only, _)] => Ok(Cow::Borrowed(only)),
        _ => Trace::new(runs.iter().flat_map(|(trace, _)| trace.requests()).copied().collect()).map(Cow::Owned),
    }
}

/// A group as one region, unless its pieces gain enough by stripes of their own: both share the prices of the group.
fn regions_of<'a>(file: File<'a>, group: &Group, total: u64) -> Vec<Asked<'a>> {
    let budget = file.question.budget / if group.pieces.len() == 1 { 1 } else { 2 };
    let whole = Asked::new(file, &group.bytes, std::slice::from_ref(&group.stripes), total, budget);
    if group.pieces.len() == 1 {
        return vec![whole];
    }
    let pieces: Vec<Asked<'a>> = group.pieces.iter().map(|piece| Asked::new(file, piece, &[], total, budget)).collect();
    let apart: u128 = pieces.iter().map(|piece| piece.time_then().mean).sum();
    let gain = u128::from(file.question.gain_percent);
    let is_enough = apart.saturating_mul(100 + gain) < whole.time_then().mean.saturating_mul(100);
    if is_enough { pieces } else { vec![whole] }
}

/// Equal stripes on all servers that are always compared: from one step to 1024 of them, 4 KiB to 4 MiB by default.
const EQUAL: std::ops::RangeInclusive<u32> = 0..=10;

struct Asked<'a> {
    bytes: Range<u64>,
    predictor: Predictor<'a>,
    now: Choice,
    found: Found,
    time_now: Spread,
    time_best: Spread,
    is_kept: bool,
}

impl<'a> Asked<'a> {
    /// Searches stripes for a part of the file, with its requests' part of a budget for `total`; `others` are compared
    /// in any case.
    fn new(file: File<'a>, bytes: &Range<u64>, others: &[Vec<u64>], total: u64, budget: u64) -> Self {
        let File { cluster, question, .. } = file;
        let predictor = file.predictor(bytes, bytes.start);
        let demand = predictor.demand();
        let budget = u128::from(budget) * u128::from(demand.requests()) / u128::from(total);
        let budget = u64::try_from(budget).unwrap_or(u64::MAX);
        let equal = |stripe| vec![stripe; cluster.classes().len()];
        let simple: Vec<_> = EQUAL.map(|steps| equal(question.step << steps)).collect();
        let others = [&[equal(question.now)], others, &simple].concat();
        let mut found = search(cluster, demand, question.step, budget, &others).expect("a region has requests");
        let now = found.others[0].clone();
        let [time_now, mut time_best] = [&now, &found.best].map(|choice| predictor.times(&choice.stripes));
        let mut is_kept = question.gains_too_little(Spread::exactly(now.time), Spread::exactly(found.best.time));
        // A replay sees what sums do not: so no simple choice that takes less time in it may be passed over.
        for rival in found.others.iter().filter(|rival| rival.time / 2 <= found.alternatives[0].time) {
            let time = predictor.times(&rival.stripes);
            if time.mean < time_best.mean {
                (found.best, time_best, is_kept) = (rival.clone(), time, false);
            }
        }
        found.alternatives.retain(|choice| choice.stripes != found.best.stripes);
        found.alternatives.insert(0, found.best.clone());
        is_kept |= question.gains_too_little(time_now, time_best);
        Self { bytes: bytes.clone(), predictor, now, found, time_now, time_best, is_kept }
    }

    fn time_then(&self) -> Spread {
        if self.is_kept { self.time_now } else { self.time_best }
    }

    /// The choices, with the layout now instead of the best if that gains too little.
    fn candidates(&self) -> Candidates {
        let mut choices = self.found.alternatives.clone();
        if self.is_kept {
            choices.insert(0, self.now.clone());
        }
        Candidates { length: self.bytes.end - self.bytes.start, choices }
    }

    fn advice(self, index: usize) -> RegionAdvice {
        let mut advised = self.candidates().choices.swap_remove(index);
        let predicted = if advised.stripes == self.now.stripes {
            self.time_now
        } else if advised.stripes == self.found.best.stripes {
            self.time_best
        } else {
            self.predictor.times(&advised.stripes)
        };
        advised.time = predicted.mean;
        RegionAdvice {
            bytes: self.bytes,
            requests: self.predictor.demand().requests(),
            mean_size: self.predictor.demand().mean_size(),
            moved: self.predictor.demand().bytes(),
            time_now: self.time_now.mean,
            is_kept: advised.stripes == self.now.stripes,
            advised,
            is_exact: self.found.is_exact,
            is_limited: index > 0,
        }
    }
}

// Which borders of regions are worth having.
//
// Algorithm 1 divides wherever sizes of requests change, also between the 40 bytes of a header and what follows. But a
// region costs a file of its own, or a component, so a border stays only if
//
// - each side is longer than its largest stripe: a region that one stripe holds lies on one server, whatever its
//   stripes are; and
// - the requests of both sides take less time with stripes of their own than with those of one side for both, by the
//   gain below which any other change is not worth it either (`Question::gain_percent`).
//
// What is decided here, from sums over some requests, are proposals: a group of regions becomes one if that holds with
// replays of the requests, too.

/// Requests that are priced to decide about all borders of a file, and about one of them.
const REQUESTS: usize = 1 << 15;
const REQUESTS_OF_ONE: std::ops::RangeInclusive<usize> = 64..=4096;
/// The part of the prices that goes into stripes for this decision; those that are advised are searched afterwards.
const SHARE: u64 = 8;

/// Regions that are to become one.
struct Group {
    bytes: Range<u64>,
    /// Stripes that would do for all of them.
    stripes: Vec<u64>,
    /// The bytes of each that can be a region.
    pieces: Vec<Range<u64>>,
}

/// Groups of regions whose borders are not worth having. O(n) and a search for each region, of an eighth of the budget
/// together.
fn groups(file: File<'_>, regions: &[Region]) -> Vec<Group> {
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

/// A region whose stripes are to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// Bytes of the region.
    pub length: u64,
    /// Its choices, best first: [`Found::alternatives`](crate::Found::alternatives).
    pub choices: Vec<Choice>,
}

/// A class on which the regions do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no layout fits the space of class {class:?}: each of its servers would hold {needed} bytes, but {free} are free; \
     free some space, or add servers"
)]
pub struct NoSpace {
    /// Name of the class.
    pub class: String,
    /// Bytes needed on its fullest server.
    pub needed: u64,
    /// Bytes free on each of its servers.
    pub free: u64,
}

/// The index of a choice for each region, such that the bytes of each server fit the free space of its class. Starts
/// from the best choices; while a class is too full, the region that loses least time for each byte that leaves the
/// class takes another choice. Then regions take back better ones that fit what room that left. Not always the least
/// total time, which is a knapsack problem; it is when nothing has to move. O(moves · regions · choices).
///
/// Beyond the paper, whose discussion [HARL §IV-D] only mentions that flash may run full.
///
/// # Errors
/// If a class stays too full.
///
/// # Panics
/// If a choice has other classes than the cluster, or uses none.
pub fn fit(cluster: &Cluster, regions: &[Candidates]) -> Result<Vec<usize>, NoSpace> {
    let held: Vec<Vec<Vec<u64>>> = regions.iter().map(|region| held(cluster, region)).collect();
    let mut chosen = vec![0; regions.len()];
    while let Some(overfull) = overfull(cluster, &held, &chosen) {
        let Some((region, choice)) = cheapest_move(regions, &held, &chosen, overfull.class) else {
            let class = &cluster.classes()[overfull.class];
            let free = class.free.unwrap_or(u64::MAX);
            return Err(NoSpace { class: class.name.clone(), needed: overfull.needed, free });
        };
        chosen[region] = choice;
    }
    while let Some((region, choice)) = best_return(cluster, regions, &held, &chosen) {
        chosen[region] = choice;
    }
    Ok(chosen)
}

/// Bytes on the fullest server of each class, for each choice of a region.
fn held(cluster: &Cluster, region: &Candidates) -> Vec<Vec<u64>> {
    let of_choice = |choice: &Choice| {
        Round::over(cluster, &choice.stripes).expect("a choice uses at least one class").held(region.length)
    };
    region.choices.iter().map(of_choice).collect()
}

struct Overfull {
    class: usize,
    needed: u64,
}

/// The first class without space for what is chosen.
fn overfull(cluster: &Cluster, held: &[Vec<Vec<u64>>], chosen: &[usize]) -> Option<Overfull> {
    let needed =
        |class: usize| held.iter().zip(chosen).map(|(held, &choice)| held[choice][class]).fold(0, u64::saturating_add);
    let classes = cluster.classes().iter().enumerate();
    let mut full = classes.filter_map(|(class, limits)| {
        let needed = needed(class);
        limits.free.filter(|free| needed > *free).map(|_| Overfull { class, needed })
    });
    full.next()
}

/// The region and choice with the least loss of time for each byte that leaves `class`. A move is only to a choice that
/// is further down the list of its region, so moves come to an end.
fn cheapest_move(
    regions: &[Candidates],
    held: &[Vec<Vec<u64>>],
    chosen: &[usize],
    class: usize,
) -> Option<(usize, usize)> {
    let mut cheapest: Option<(u128, u128, (usize, usize))> = None;
    for (index, region) in regions.iter().enumerate() {
        let now = chosen[index];
        for next in now + 1..region.choices.len() {
            let freed = u128::from(held[index][now][class].saturating_sub(held[index][next][class]));
            let loss = region.choices[next].time.saturating_sub(region.choices[now].time);
            let is_cheaper =
                |&(least, bytes, _): &(u128, u128, _)| loss.saturating_mul(bytes) < least.saturating_mul(freed);
            if freed > 0 && cheapest.as_ref().is_none_or(is_cheaper) {
                cheapest = Some((loss, freed, (index, next)));
            }
        }
    }
    cheapest.map(|(_, _, place)| place)
}

/// The region and choice with the most time to gain among those that still fit.
fn best_return(
    cluster: &Cluster,
    regions: &[Candidates],
    held: &[Vec<Vec<u64>>],
    chosen: &[usize],
) -> Option<(usize, usize)> {
    let used = |class: usize| -> u64 { held.iter().zip(chosen).map(|(held, &choice)| held[choice][class]).sum() };
    let used: Vec<u64> = (0..cluster.classes().len()).map(used).collect();
    let fits = |region: usize, choice: usize| {
        let parts = held[region][chosen[region]].iter().zip(&held[region][choice]).zip(&used);
        parts
            .zip(cluster.classes())
            .all(|(((now, then), used), class)| class.free.is_none_or(|free| used - now + then <= free))
    };
    let gain = |&(region, choice): &(usize, usize)| {
        let choices: &[Choice] = &regions[region].choices;
        choices[chosen[region]].time.saturating_sub(choices[choice].time)
    };
    let earlier = (0..regions.len()).flat_map(|region| (0..chosen[region]).map(move |choice| (region, choice)));
    let returns = earlier.filter(|place| gain(place) > 0 && fits(place.0, place.1));
    returns.max_by_key(|place| (gain(place), std::cmp::Reverse(*place)))
}
