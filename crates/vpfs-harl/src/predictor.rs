//! Predicted times of what several runs ask of a part of a file.

use std::ops::Range;

use crate::cluster::Cluster;
use crate::cost::Pricing;
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
