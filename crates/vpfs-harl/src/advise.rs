//! From the traces of a file to its layout.

use std::borrow::Cow;
use std::ops::Range;

use crate::borders::{Group, groups};
use crate::cluster::Cluster;
use crate::predictor::{File, Predictor};
use crate::question::Question;
use crate::regions::divide;
use crate::replay::Spread;
use crate::search::{Choice, Found, search};
use crate::space::{Candidates, NoSpace, fit};
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

/// The requests of all runs: regions are the same for all.
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

/// A region with what was found for it.
struct Asked<'a> {
    bytes: Range<u64>,
    predictor: Predictor<'a>,
    now: Choice,
    found: Found,
    /// Predicted times with the layout now and with the best one.
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

    /// The predicted time with what is best for the region.
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
