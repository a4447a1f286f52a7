//! From the traces of a file to its layout.

use std::ops::Range;

use crate::cluster::Cluster;
use crate::cost::Pricing;
use crate::regions::{Region, divide};
use crate::replay::{Replay, Spread};
use crate::round::Round;
use crate::search::{Choice, Demand, Found, Run, search};
use crate::space::{Candidates, NoSpace, fit};
use crate::table::{RegionStripeTable, Row};
use crate::trace::{Request, Trace, TraceError};

/// The gain in percent below which a layout is not worth a change: nine predictions of ten for random servers and
/// workloads are less than a fifth off, half of them less than 3 % (`crates/vpfs-figures/tests/advice`).
pub const GAIN_PERCENT: u32 = 10;

/// How requests are priced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// With the requests that are outstanding at once in the trace. What is found by sums is replayed request by
    /// request, and advised only if that is faster as well.
    #[default]
    Concurrent,
    /// Each request alone, as in the paper.
    Paper,
}

/// What to optimise, and how long to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// How requests are priced.
    pub model: Model,
    /// The number of requests outstanding at once, in thousandths, instead of that of the traces.
    pub outstanding_milli: Option<u64>,
    /// The stripe of every server now, in bytes, not zero.
    pub now: u64,
    /// Distance of the stripes tried, in bytes, not zero; all stripes are multiples of it.
    pub step: u64,
    /// The chunk of the fixed-size division, in bytes.
    pub chunk: u64,
    /// Prices to compute for all regions together, of 0.1 µs each.
    pub budget: u64,
    /// The gain over the layout now, in percent, below which a region keeps it, and the whole file as well.
    pub gain_percent: u32,
}

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
    let mut asked: Vec<Asked<'_>> =
        regions.iter().map(|region| Asked::new(cluster, runs, region, total, question)).collect();
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

impl Question {
    /// Too little, or not for certain.
    fn gains_too_little(&self, now: Spread, then: Spread) -> bool {
        then.slowest > now.fastest || then.mean > now.mean.saturating_mul(100) / u128::from(100 + self.gain_percent)
    }
}

/// The requests of all runs: regions are the same for all.
fn all_of(runs: &[(Trace, u32)]) -> Result<Trace, TraceError> {
    match runs {
        [(only, _)] => Ok(only.clone()),
        _ => Trace::new(runs.iter().flat_map(|(trace, _)| trace.requests()).copied().collect()),
    }
}

/// A region with what was found for it.
struct Asked<'a> {
    region: Region,
    demand: Demand,
    /// Each run with its weight; empty if requests are priced alone.
    replays: Vec<(Replay<'a>, u32)>,
    servers: Vec<u32>,
    now: Choice,
    found: Found,
    /// Predicted times with the layout now and with the best one.
    time_now: Spread,
    time_best: Spread,
    is_kept: bool,
}

impl<'a> Asked<'a> {
    fn new(cluster: &'a Cluster, runs: &[(Trace, u32)], region: &Region, total: u64, question: &Question) -> Self {
        let demand = demand(runs, region, question);
        let budget = u128::from(question.budget) * u128::from(demand.requests()) / u128::from(total);
        let stripes = vec![question.now; cluster.classes().len()];
        let others = std::slice::from_ref(&stripes);
        let budget = u64::try_from(budget).unwrap_or(u64::MAX);
        let found = search(cluster, &demand, question.step, budget, others).expect("a region has requests");
        let servers: Vec<u32> = cluster.classes().iter().map(|class| class.servers).collect();
        let round = Round::new(servers.iter().copied(), &stripes).expect("not all zero");
        let time = demand.time(&mut Pricing::new(cluster), &round, u128::MAX).expect("nothing is above the maximum");
        let now = Choice { stripes, time };
        let mut asked = Self {
            region: region.clone(),
            demand,
            replays: replays(cluster, runs, region, question),
            servers,
            now,
            found,
            time_now: Spread::default(),
            time_best: Spread::default(),
            is_kept: false,
        };
        asked.time_now = asked.predicted(&asked.now);
        asked.time_best = asked.predicted(&asked.found.best);
        asked.is_kept = question
            .gains_too_little(Spread::exactly(asked.now.time), Spread::exactly(asked.found.best.time))
            || question.gains_too_little(asked.time_now, asked.time_best);
        asked
    }

    /// The predicted time with what is best for the region.
    fn time_then(&self) -> Spread {
        if self.is_kept { self.time_now } else { self.time_best }
    }

    /// The time of a choice, in picoseconds: that of the replay, or the sum of requests priced alone.
    fn predicted(&self, choice: &Choice) -> Spread {
        if self.replays.is_empty() {
            return Spread::exactly(choice.time);
        }
        let round = Round::new(self.servers.iter().copied(), &choice.stripes).expect("a choice uses a class");
        self.replays.iter().map(|(replay, weight)| replay.times(&round).times(*weight)).sum()
    }

    /// The choices, with the layout now instead of the best if that gains too little.
    fn candidates(&self) -> Candidates {
        let mut choices = self.found.alternatives.clone();
        if self.is_kept {
            choices.insert(0, self.now.clone());
        }
        Candidates { length: self.region.bytes.end - self.region.bytes.start, choices }
    }

    fn advice(self, index: usize) -> RegionAdvice {
        let mut advised = self.candidates().choices.swap_remove(index);
        let predicted = if advised.stripes == self.now.stripes {
            self.time_now
        } else if advised.stripes == self.found.best.stripes {
            self.time_best
        } else {
            self.predicted(&advised)
        };
        advised.time = predicted.mean;
        RegionAdvice {
            bytes: self.region.bytes,
            requests: self.demand.requests(),
            mean_size: self.demand.mean_size(),
            moved: self.demand.bytes(),
            time_now: self.time_now.mean,
            is_kept: advised.stripes == self.now.stripes,
            advised,
            is_exact: self.found.is_exact,
            is_limited: index > 0,
        }
    }
}

fn demand(runs: &[(Trace, u32)], region: &Region, question: &Question) -> Demand {
    let run = |(trace, weight): &(Trace, u32)| {
        Run::new(requests_in(trace, region), region.bytes.start, *weight, outstanding_milli(trace, question))
    };
    Demand::new(runs.iter().map(run).collect())
}

/// One of each run, unless each request is priced alone.
fn replays<'a>(
    cluster: &'a Cluster,
    runs: &[(Trace, u32)],
    region: &Region,
    question: &Question,
) -> Vec<(Replay<'a>, u32)> {
    let runs = if question.model == Model::Paper { &[] } else { runs };
    let replay = |(trace, weight): &(Trace, u32)| {
        let own = requests_in(trace, region);
        (Replay::new(cluster, own, region.bytes.start, outstanding_milli(trace, question)), *weight)
    };
    runs.iter().map(replay).collect()
}

fn requests_in<'a>(trace: &'a Trace, region: &Region) -> &'a [Request] {
    let requests = trace.requests();
    let place = |offset| requests.partition_point(|request| request.offset < offset);
    // A request at the end of the file may lie beyond the last region only if it is empty, and those are left out.
    &requests[place(region.bytes.start)..place(region.bytes.end)]
}

fn outstanding_milli(trace: &Trace, question: &Question) -> u64 {
    match question.model {
        Model::Paper => 1000,
        Model::Concurrent => question.outstanding_milli.unwrap_or(trace.outstanding_milli()),
    }
}
