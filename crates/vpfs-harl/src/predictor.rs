//! What is asked of a layout, and the predicted times of what several runs ask of a part of a file.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::iter::Sum;
use std::ops::Range;

use crate::cluster::Cluster;
use crate::cost::{Pricing, Round};
use crate::regions::CHUNK;
use crate::search::{Demand, Run, STEP};
use crate::trace::{Op, Request, Trace, mixed};

/// How requests are priced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    /// With the requests that are outstanding at once in the trace. What is found by sums is replayed request by
    /// request, and advised only if that is faster as well, also than equal stripes of any size.
    #[default]
    Concurrent,
    /// Each request alone, as in the paper.
    Paper,
}

impl Model {
    /// The gain in percent below which a layout is not worth a change. Nine predictions of ten for random servers and
    /// workloads are less than a fifth off, half of them less than 3 % (`crates/vpfs-report/tests/it/advice.rs`). The
    /// paper's cost leaves out what most of a gain comes from with many processes, so it shows smaller ones.
    pub fn gain_percent(self) -> u32 {
        match self {
            Self::Concurrent => 10,
            Self::Paper => 5,
        }
    }
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

impl Question {
    /// What is asked if nothing else is said: OrangeFS's stripes now, the paper's step.
    pub fn new(model: Model, budget: u64) -> Self {
        Self {
            model,
            outstanding_milli: None,
            now: 64 << 10,
            step: STEP,
            chunk: CHUNK,
            budget,
            gain_percent: model.gain_percent(),
        }
    }

    /// Too little, or not for certain.
    pub(crate) fn gains_too_little(&self, now: Spread, then: Spread) -> bool {
        then.slowest > now.fastest || then.mean > now.mean.saturating_mul(100) / u128::from(100 + self.gain_percent)
    }
}

/// The runs of a file, the servers that it lies on, and what is asked about its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) runs: &'a [(Trace, u32)],
    pub(crate) question: &'a Question,
}

impl<'a> File<'a> {
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

#[derive(Debug)]
pub(crate) struct Predictor<'a> {
    cluster: &'a Cluster,
    demand: Demand,
    /// Each run with its weight; empty if requests are priced alone.
    replays: Vec<(Replay<'a>, u32)>,
}

impl Predictor<'_> {
    pub(crate) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// The times of replays in picoseconds, or the sum by which stripes are searched if requests are priced alone.
    ///
    /// # Panics
    /// If all stripes are 0.
    pub(crate) fn times(&self, stripes: &[u64]) -> Spread {
        let round = Round::over(self.cluster, stripes).expect("a class is used");
        if self.replays.is_empty() {
            let time = self.demand.time(&mut Pricing::new(self.cluster), &round, u128::MAX);
            return Spread::exactly(time.expect("nothing is above the maximum"));
        }
        self.replays.iter().map(|(replay, weight)| replay.times(&round).times(*weight)).sum()
    }
}

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
        let round = Round::over(self.cluster, stripes);
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

// Requests replayed in virtual time. The sums of `crate::cost` take parts of requests to spread evenly over time;
// here they queue at servers in their order, so that a layout that makes processes meet at one server is seen.

/// Requests that are replayed: enough for a mean, few enough for a trace of many regions.
const REQUESTS: usize = 16_384;
/// Parts of requests that are replayed, which bounds the time with many servers.
const PARTS: usize = 1 << 21;
/// Longer traces are replayed in this many pieces, from all of the run.
const PIECES: usize = 16;
/// Short traces are replayed this often, because what their requests' start-ups happen to be counts most for them.
const TIMES_MAX: usize = 8;
/// Data is passed between link and device in buffers of this size, OrangeFS's flow buffer.
const BUFFER: u64 = 256 << 10;

#[derive(Debug)]
struct Replay<'a> {
    cluster: &'a Cluster,
    requests: Vec<Request>,
    start: u64,
    outstanding: usize,
    /// All requests of the region, of which `requests` are a sample.
    total: usize,
}

/// Predicted times in picoseconds, with start-ups that happen to be these or those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spread {
    fastest: u128,
    pub(crate) mean: u128,
    slowest: u128,
}

impl Spread {
    pub(crate) fn exactly(time: u128) -> Self {
        Self { fastest: time, mean: time, slowest: time }
    }

    pub(crate) fn times(self, factor: u32) -> Self {
        let times = |time: u128| time.saturating_mul(factor.into());
        Self { fastest: times(self.fastest), mean: times(self.mean), slowest: times(self.slowest) }
    }
}

impl Sum for Spread {
    fn sum<I: Iterator<Item = Self>>(spreads: I) -> Self {
        spreads.fold(Self::default(), |sum, next| Self {
            fastest: sum.fastest + next.fastest,
            mean: sum.mean + next.mean,
            slowest: sum.slowest + next.slowest,
        })
    }
}

/// When a server's device and each direction of its link are free, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    device: u128,
    sending: u128,
    receiving: u128,
}

impl<'a> Replay<'a> {
    /// Requests of a region that starts at `start`, of which `outstanding_milli` thousandths are outstanding at once.
    /// O(n log n).
    fn new(cluster: &'a Cluster, own: &[Request], start: u64, outstanding_milli: u64) -> Self {
        let most = (PARTS / cluster.servers() as usize).min(REQUESTS);
        let outstanding = usize::try_from((outstanding_milli + 500) / 1000).unwrap_or(most).clamp(1, most);
        Self { cluster, requests: sampled_in_order(own, &in_order(own), most), start, outstanding, total: own.len() }
    }

    /// The time of all requests, replayed several times if they are few. O(n log n + parts), no more than 2^21 parts.
    fn times(&self, round: &Round) -> Spread {
        let replays = (REQUESTS / self.requests.len().max(1)).clamp(1, TIMES_MAX);
        let times: Vec<u128> = (0..replays as u64).map(|lot| self.time(round, mixed(lot))).collect();
        let [fastest, slowest] = [times.iter().min(), times.iter().max()].map(|time| time.copied().unwrap_or(0));
        Spread { fastest, mean: times.iter().sum::<u128>() / replays as u128, slowest }
    }

    /// As soon as one of those outstanding is done, the next request is made by a process that waits for none; a part
    /// waits for its server's device and link.
    fn time(&self, round: &Round, lot: u64) -> u128 {
        let mut servers = vec![Server::default(); self.cluster.servers() as usize];
        let mut waiting = Waiting::new(&self.requests, self.outstanding);
        let (mut outstanding, mut now) = (BinaryHeap::new(), 0);
        loop {
            while outstanding.len() < self.outstanding
                && let Some(index) = waiting.next()
            {
                let request = &self.requests[index];
                let done = self.done(&mut servers, round, mixed(lot ^ index as u64), request, now);
                outstanding.push(Reverse((done, request.rank)));
            }
            let Some(Reverse((done, rank))) = outstanding.pop() else { break };
            now = done;
            waiting.is_done(rank);
        }
        // What caches have gathered is stored in the end.
        now = servers.iter().map(|server| server.device).fold(now, u128::max);
        now * self.total as u128 / self.requests.len().max(1) as u128
    }

    fn done(&self, servers: &mut [Server], round: &Round, lot: u64, request: &Request, now: u128) -> u128 {
        let mut done = now;
        round.parts(request.offset.saturating_sub(self.start), request.size, |part| {
            let class = &self.cluster.classes()[part.class];
            let access = if request.op == Op::Read { &class.read } else { &class.write };
            let network = u128::from(self.cluster.network(part.bytes));
            let one_buffer = u128::from(self.cluster.network(part.bytes.min(BUFFER)));
            for number in part.servers {
                let startup = access.startup(mixed(lot ^ u64::from(number)));
                let device = u128::from(startup + access.transfer(part.bytes));
                let server = &mut servers[number as usize];
                done = done.max(match request.op {
                    Op::Read => server.read(now, device, network, one_buffer),
                    Op::Write if access.is_gathered() => server.gather(now, device, network),
                    Op::Write => server.write(now, device, network, one_buffer),
                });
            }
        });
        done
    }
}

struct Waiting {
    of_rank: BTreeMap<u32, VecDeque<usize>>,
    /// The first of each process that may make one, for each that it may make.
    ready: BTreeSet<(usize, u32)>,
    free: BTreeMap<u32, usize>,
}

impl Waiting {
    /// All processes have an equal number of requests outstanding, at least one.
    fn new(requests: &[Request], outstanding: usize) -> Self {
        let mut of_rank: BTreeMap<u32, VecDeque<usize>> = BTreeMap::new();
        for (index, request) in requests.iter().enumerate() {
            of_rank.entry(request.rank).or_default().push_back(index);
        }
        let each = outstanding.div_ceil(of_rank.len().max(1));
        let ready = of_rank.iter().filter_map(|(&rank, own)| Some((*own.front()?, rank))).collect();
        let free = of_rank.keys().map(|&rank| (rank, each)).collect();
        Self { of_rank, ready, free }
    }

    fn next(&mut self) -> Option<usize> {
        let (index, rank) = self.ready.pop_first()?;
        let free = self.free.get_mut(&rank)?;
        *free -= 1;
        let own = self.of_rank.get_mut(&rank)?;
        own.pop_front();
        if *free > 0
            && let Some(&next) = own.front()
        {
            self.ready.insert((next, rank));
        }
        Some(index)
    }

    fn is_done(&mut self, rank: u32) {
        let (Some(free), Some(own)) = (self.free.get_mut(&rank), self.of_rank.get(&rank)) else { return };
        *free += 1;
        if let Some(&next) = own.front() {
            self.ready.insert((next, rank));
        }
    }
}

impl Server {
    /// The device reads; the link sends the last buffer after that, and those before meanwhile.
    fn read(&mut self, now: u128, device: u128, network: u128, last: u128) -> u128 {
        self.device = self.device.max(now) + device;
        let earliest = self.device.saturating_sub(network - last).max(now);
        self.sending = self.sending.max(earliest) + network;
        self.sending.max(self.device)
    }

    /// A cache takes what the link receives; the device stores it later.
    fn gather(&mut self, now: u128, device: u128, network: u128) -> u128 {
        let begin = self.receiving.max(now);
        self.receiving = begin + network;
        self.device = self.device.max(begin) + device;
        self.receiving
    }

    /// The device writes as soon as the link has received the first buffer.
    fn write(&mut self, now: u128, device: u128, network: u128, first: u128) -> u128 {
        let begin = self.receiving.max(now);
        self.receiving = begin + network;
        self.device = self.device.max(begin + first) + device;
        self.device.max(self.receiving)
    }
}

/// The places of requests in the order of their times; those at equal times turn by turn from each process.
fn in_order(own: &[Request]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..own.len()).collect();
    places.sort_by_key(|&place| own[place].start);
    let mut next: BTreeMap<u32, u32> = BTreeMap::new();
    let mut turns = vec![0_u32; own.len()];
    for &place in &places {
        let turn = next.entry(own[place].rank).or_default();
        *turn += 1;
        turns[place] = *turn;
    }
    places.sort_by_key(|&place| (own[place].start, turns[place], own[place].rank));
    places
}

/// About `most` of the requests, in pieces that follow each other as they did. What has to be copied is bounded by it.
fn sampled_in_order(own: &[Request], order: &[usize], most: usize) -> Vec<Request> {
    let requests = |places: &[usize]| places.iter().map(|&place| own[place]).collect::<Vec<_>>();
    if own.len() <= most {
        return requests(order);
    }
    let (length, stride) = ((most / PIECES).max(1), own.len() / PIECES);
    order.chunks(stride.max(1)).flat_map(|piece| requests(&piece[..length.min(piece.len())])).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::{Access, ServerClass};

    const MILLISECOND: u128 = 1_000_000_000;

    /// Servers that start up for 1 ms and move a KB in 1 ms, behind links that need 1 ms for 2 KB.
    fn cluster(servers: u32) -> Cluster {
        let access = Access::new(Duration::from_millis(1), Duration::from_millis(1), 1_000_000).unwrap();
        let class = ServerClass { name: "any".into(), servers, read: access, write: access, free: None };
        Cluster::new(vec![class], 2_000_000).unwrap()
    }

    fn time(servers: u32, outstanding: u64, requests: &[Request]) -> u128 {
        let round = Round::new([servers], &[1000]).unwrap();
        Replay::new(&cluster(servers), requests, 0, outstanding * 1000).times(&round).mean
    }

    fn request(op: Op, rank: u32, offset: u64, size: u64) -> Request {
        Request { rank, op, offset, size, start: 0, end: 0 }
    }

    #[test]
    fn one_request_takes_start_up_transfer_and_network_where_that_is_longest() {
        for op in [Op::Read, Op::Write] {
            assert_eq!(time(2, 1, &[request(op, 0, 0, 1000)]) * 2, 5 * MILLISECOND);
            assert_eq!(time(2, 1, &[request(op, 0, 0, 1500)]) * 2, 5 * MILLISECOND);
        }
        assert_eq!(time(1, 1, &[]), 0);
    }

    #[test]
    fn processes_that_meet_at_a_server_wait_for_each_other() {
        let at = |places: [u64; 2]| [0, 1].map(|rank| request(Op::Read, rank, places[rank as usize], 1000));
        assert_eq!(time(2, 2, &at([0, 1000])) * 2, 5 * MILLISECOND);
        assert_eq!(time(2, 2, &at([0, 2000])) * 2, 9 * MILLISECOND);
        assert_eq!(time(2, 1, &at([0, 1000])) * 2, 10 * MILLISECOND);
    }

    /// The device takes no time to speak of, so that the link decides.
    #[test]
    fn reads_and_writes_use_the_two_directions_of_a_link() {
        let access = Access::new(Duration::ZERO, Duration::ZERO, 1_000_000_000).unwrap();
        let class = ServerClass { name: "any".into(), servers: 1, read: access, write: access, free: None };
        let cluster = Cluster::new(vec![class], 1_000_000).unwrap();
        let time = |ops: [Op; 2]| {
            let requests = [0, 1].map(|rank| request(ops[rank as usize], rank, 0, 1000));
            Replay::new(&cluster, &requests, 0, 2000).times(&Round::new([1], &[1000]).unwrap()).mean / MILLISECOND
        };
        assert_eq!([time([Op::Read; 2]), time([Op::Write; 2]), time([Op::Read, Op::Write])], [2, 2, 1]);
    }

    /// Behind a cache a write waits for the link only, but all of them for what the device stores.
    #[test]
    fn gathered_writes_wait_for_the_device_together() {
        let access = Access::new(Duration::ZERO, Duration::from_micros(1), 1_000_000).unwrap();
        let class = ServerClass { name: "cached".into(), servers: 2, read: access, write: access, free: None };
        let cluster = Cluster::new(vec![class], 2_000_000).unwrap();
        let round = Round::new([2], &[1000]).unwrap();
        let time = |places: [u64; 2]| {
            let requests = places.map(|offset| request(Op::Write, 0, offset, 1000));
            Replay::new(&cluster, &requests, 0, 1000).times(&round).mean.div_ceil(MILLISECOND / 10)
        };
        // One after the other over links of half a millisecond, to two devices that need one each, or to one.
        assert_eq!([time([0, 1000]), time([0, 2000])], [16, 21]);
    }

    #[test]
    fn long_traces_are_sampled_over_all_of_the_run() {
        let requests: Vec<Request> = (0..1 << 18).map(|index| request(Op::Read, 0, index * 1000, 1000)).collect();
        let cluster = cluster(1);
        let replay = Replay::new(&cluster, &requests, 0, 1000);
        assert!((REQUESTS..REQUESTS * 11 / 10).contains(&replay.requests.len()));
        assert!(replay.requests.last().unwrap().offset > requests.last().unwrap().offset / 10 * 9);
        let expected = (5 * MILLISECOND / 2) << 18;
        let round = Round::new([1], &[1000]).unwrap();
        let mean = replay.times(&round).mean;
        assert!(mean.abs_diff(expected) * 1000 < expected, "{mean}");
    }

    #[test]
    fn processes_take_turns_if_there_are_no_times() {
        let requests: Vec<Request> =
            [0, 0, 1, 1].iter().zip(0..).map(|(&rank, index)| request(Op::Read, rank, index, 1)).collect();
        let ranks: Vec<u32> = in_order(&requests).iter().map(|&place| requests[place].rank).collect();
        assert_eq!(ranks, [0, 1, 0, 1]);
    }
}
