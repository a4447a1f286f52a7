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

/// The runs of a file, the servers that it lies on, and what is asked about its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) runs: &'a [(Trace, u32)],
    pub(crate) question: &'a Question,
}

impl<'a> File<'a> {
    /// Predicts times of the requests to `bytes`, with offsets from `base`.
    pub(crate) fn predictor(&self, bytes: &Range<u64>, base: u64) -> Predictor<'a> {
        let Self { cluster, runs, question } = *self;
        let replayed = if question.model == Model::Paper { &[] } else { runs };
        let replay = |(trace, weight): &(Trace, u32)| {
            (Replay::new(cluster, requests_in(trace, bytes), base, self.outstanding_milli(trace)), *weight)
        };
        let replays = replayed.iter().map(replay).collect();
        Predictor { cluster, demand: Demand::new(self.demand(bytes, base)), replays }
    }

    /// Predicts times from at most about `most` of the requests to `bytes` of each run, with offsets from `base`.
    pub(crate) fn sampled(&self, bytes: &Range<u64>, base: u64, most: usize) -> Sampled<'a> {
        let (mut all, mut priced) = (0, 0);
        let run = |(trace, weight): &(Trace, u32)| {
            let own = requests_in(trace, bytes);
            let sample = sample(own, most);
            (all, priced) = (all + own.len() as u128, priced + sample.len() as u128);
            Run::new(&sample, base, *weight, self.outstanding_milli(trace))
        };
        let demand = Demand::new(self.runs.iter().map(run).collect());
        Sampled { cluster: self.cluster, demand, scale: (all, priced.max(1)) }
    }

    /// What the runs ask of a part of the file, with offsets from `base`.
    pub(crate) fn demand(&self, bytes: &Range<u64>, base: u64) -> Vec<Run> {
        let run = |(trace, weight): &(Trace, u32)| {
            Run::new(requests_in(trace, bytes), base, *weight, self.outstanding_milli(trace))
        };
        self.runs.iter().map(run).collect()
    }

    fn outstanding_milli(&self, trace: &Trace) -> u64 {
        match self.question.model {
            Model::Paper => 1000,
            Model::Concurrent => self.question.outstanding_milli.unwrap_or(trace.outstanding_milli()),
        }
    }
}

/// Predicts the time with any stripes.
#[derive(Debug)]
pub(crate) struct Predictor<'a> {
    cluster: &'a Cluster,
    demand: Demand,
    /// Each run with its weight; empty if requests are priced alone.
    replays: Vec<(Replay<'a>, u32)>,
}

impl Predictor<'_> {
    /// What the runs ask.
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The times of replays in picoseconds, or the sum by which stripes are searched if requests are priced alone.
    ///
    /// # Panics
    /// If all stripes are 0.
    pub(crate) fn times(&self, stripes: &[u64]) -> Spread {
        let round = round(self.cluster, stripes).expect("a class is used");
        if self.replays.is_empty() {
            let time = self.demand.time(&mut Pricing::new(self.cluster), &round, u128::MAX);
            return Spread::exactly(time.expect("nothing is above the maximum"));
        }
        self.replays.iter().map(|(replay, weight)| replay.times(&round).times(*weight)).sum()
    }
}

fn round(cluster: &Cluster, stripes: &[u64]) -> Option<Round> {
    Round::new(cluster.classes().iter().map(|class| class.servers), stripes)
}

/// Predicts the time of a part of the file from some of its requests.
#[derive(Debug)]
pub(crate) struct Sampled<'a> {
    cluster: &'a Cluster,
    demand: Demand,
    /// All requests for those that are priced.
    scale: (u128, u128),
}

impl Sampled<'_> {
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The sum by which stripes are searched, roughly; in picoseconds.
    pub(crate) fn time(&self, stripes: &[u64]) -> u128 {
        let round = round(self.cluster, stripes);
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

fn requests_in<'a>(trace: &'a Trace, bytes: &Range<u64>) -> &'a [Request] {
    let requests = trace.requests();
    let place = |offset| requests.partition_point(|request| request.offset < offset);
    // A request at the end of the file may lie beyond the last region only if it is empty, and those are left out.
    &requests[place(bytes.start)..place(bytes.end)]
}
