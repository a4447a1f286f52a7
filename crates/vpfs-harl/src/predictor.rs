//! Predicted times of what several runs ask of a part of a file.

use std::borrow::Cow;
use std::ops::Range;

use crate::cluster::Cluster;
use crate::cost::Pricing;
use crate::mix::mixed;
use crate::question::{Model, Question};
use crate::replay::{Replay, Spread};
use crate::round::Round;
use crate::search::{Demand, Run};
use crate::trace::{Request, Trace};

/// Predicts the time with any stripes.
#[derive(Debug)]
pub(crate) struct Predictor<'a> {
    cluster: &'a Cluster,
    demand: Demand,
    /// Each run with its weight; empty if requests are priced alone.
    replays: Vec<(Replay<'a>, u32)>,
}

impl<'a> Predictor<'a> {
    /// For the requests to `bytes`, with offsets from `base`.
    pub(crate) fn new(
        cluster: &'a Cluster,
        runs: &[(Trace, u32)],
        bytes: &Range<u64>,
        base: u64,
        question: &Question,
    ) -> Self {
        let replayed = if question.model == Model::Paper { &[] } else { runs };
        let replay = |(trace, weight): &(Trace, u32)| {
            (Replay::new(cluster, requests_in(trace, bytes), base, outstanding_milli(trace, question)), *weight)
        };
        let replays = replayed.iter().map(replay).collect();
        Self { cluster, demand: Demand::new(demand(runs, bytes, base, question)), replays }
    }

    /// What the runs ask.
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The sum by which stripes are searched, in picoseconds.
    ///
    /// # Panics
    /// If all stripes are 0.
    pub(crate) fn sum(&self, stripes: &[u64]) -> u128 {
        let time = self.demand.time(&mut Pricing::new(self.cluster), &self.round(stripes), u128::MAX);
        time.expect("nothing is above the maximum")
    }

    /// The times of replays, or the sum if requests are priced alone.
    ///
    /// # Panics
    /// If all stripes are 0.
    pub(crate) fn times(&self, stripes: &[u64]) -> Spread {
        if self.replays.is_empty() {
            return Spread::exactly(self.sum(stripes));
        }
        let round = self.round(stripes);
        self.replays.iter().map(|(replay, weight)| replay.times(&round).times(*weight)).sum()
    }

    fn round(&self, stripes: &[u64]) -> Round {
        Round::new(self.cluster.classes().iter().map(|class| class.servers), stripes).expect("a class is used")
    }
}

/// Predicts the time of a part of the file from some of its requests.
#[derive(Debug)]
pub(crate) struct Sampled<'a> {
    cluster: &'a Cluster,
    demand: Demand,
    /// All requests for those that are priced.
    scale: (u128, u128),
}

impl<'a> Sampled<'a> {
    /// For at most about `most` of the requests to `bytes` of each run, with offsets from `base`.
    pub(crate) fn new(
        cluster: &'a Cluster,
        runs: &[(Trace, u32)],
        bytes: &Range<u64>,
        base: u64,
        question: &Question,
        most: usize,
    ) -> Self {
        let (mut all, mut priced) = (0, 0);
        let run = |(trace, weight): &(Trace, u32)| {
            let own = requests_in(trace, bytes);
            let sample = sample(own, most);
            (all, priced) = (all + own.len() as u128, priced + sample.len() as u128);
            Run::new(&sample, base, *weight, outstanding_milli(trace, question))
        };
        let demand = Demand::new(runs.iter().map(run).collect());
        Self { cluster, demand, scale: (all, priced.max(1)) }
    }

    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The sum of [`Predictor::sum`], roughly.
    pub(crate) fn time(&self, stripes: &[u64]) -> u128 {
        let round = Round::new(self.cluster.classes().iter().map(|class| class.servers), stripes);
        let time = round.and_then(|round| self.demand.time(&mut Pricing::new(self.cluster), &round, u128::MAX));
        time.unwrap_or(0).saturating_mul(self.scale.0) / self.scale.1
    }
}

/// One request from each of as many equal parts, by a fixed rule that no regular pattern is in step with.
fn sample(requests: &[Request], most: usize) -> Cow<'_, [Request]> {
    if requests.len() <= most {
        return Cow::Borrowed(requests);
    }
    let place = |part: usize| {
        let (start, end) = (part * requests.len() / most, (part + 1) * requests.len() / most);
        let lot = usize::try_from(mixed(part as u64) >> 32).unwrap_or(0);
        requests[start + lot % (end - start)]
    };
    Cow::Owned((0..most).map(place).collect())
}

/// What the runs ask of a part of the file, with offsets from `base`.
pub(crate) fn demand(runs: &[(Trace, u32)], bytes: &Range<u64>, base: u64, question: &Question) -> Vec<Run> {
    let run = |(trace, weight): &(Trace, u32)| {
        Run::new(requests_in(trace, bytes), base, *weight, outstanding_milli(trace, question))
    };
    runs.iter().map(run).collect()
}

fn requests_in<'a>(trace: &'a Trace, bytes: &Range<u64>) -> &'a [Request] {
    let requests = trace.requests();
    let place = |offset| requests.partition_point(|request| request.offset < offset);
    // A request at the end of the file may lie beyond the last region only if it is empty, and those are left out.
    &requests[place(bytes.start)..place(bytes.end)]
}

fn outstanding_milli(trace: &Trace, question: &Question) -> u64 {
    match question.model {
        Model::Paper => 1000,
        Model::Concurrent => question.outstanding_milli.unwrap_or(trace.outstanding_milli()),
    }
}
