//! Caps over all servers: nodes that hear each other with a delay, and an application whose load moves.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Cap, Depth, OpKind, PolicyKind, RequestId, ServerId, Settings, SlotCostTable, Time,
};
use vpfs_node::coordination::{CoordinationSettings, Members, Message};
use vpfs_node::{Arrival, Node, NodeSettings, PeerSettings, Served};

const APP: AppId = AppId(0);
const RATE: u64 = 100_000_000;
const SIZE: u64 = 1 << 20;
/// Requests that wait or are served at each server with load.
const CONCURRENCY: u32 = 4;
const STEP: Duration = Duration::from_millis(1);

struct Cluster {
    now: Time,
    nodes: Vec<Node>,
    loaded: Vec<bool>,
    /// Requests at each node, and those that are done with the next step.
    waiting: Vec<u32>,
    served: Vec<VecDeque<RequestId>>,
    free: Vec<Vec<RequestId>>,
    /// Servers of different parts do not hear each other.
    parts: Vec<u32>,
    delay_ms: u32,
    random: Random,
    flights: BTreeMap<(Time, u64), (usize, usize, Message)>,
    flown: u64,
    /// Bytes dispatched in each step.
    steps: Vec<u64>,
}

impl Cluster {
    fn new(seed: u64, count: usize, delay_ms: u32) -> Self {
        let members: Members = (0..count).map(id).collect();
        let settings = |_| NodeSettings {
            policy: Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default()),
            metadata_cost: Bytes::kib(8),
            peers: Some(PeerSettings {
                incarnation: 1,
                servers: members.clone(),
                coordination: CoordinationSettings::default(),
            }),
        };
        let cap = Cap::new(RATE, Bytes(1)).unwrap().over_all_servers();
        let nodes = (0..count).map(|me| {
            let mut node = Node::new(Time::ZERO, id(me), &settings(me));
            node.set_app(Time::ZERO, APP, "climate", &AppPolicy { cap: Some(cap), ..AppPolicy::default() });
            node
        });
        Self {
            now: Time::ZERO,
            nodes: nodes.collect(),
            loaded: vec![false; count],
            waiting: vec![0; count],
            served: vec![VecDeque::new(); count],
            free: vec![(0..CONCURRENCY).map(RequestId).collect(); count],
            parts: vec![0; count],
            delay_ms,
            random: Random::new(seed),
            flights: BTreeMap::new(),
            flown: 0,
            steps: Vec::new(),
        }
    }

    fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.now = self.now + STEP;
            self.steps.push(0);
            self.deliver();
            for me in 0..self.nodes.len() {
                self.serve(me);
                if self.nodes[me].poll_timeout().is_some_and(|at| at <= self.now) {
                    self.nodes[me].handle_timeout(self.now);
                }
                self.drain(me);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(flight) = self.flights.first_entry().filter(|flight| flight.key().0 <= self.now) {
            let (from, to, message) = flight.remove();
            if self.parts[from] == self.parts[to] {
                self.nodes[to].handle_message(self.now, id(from), &message).unwrap();
                self.drain(to);
            }
        }
    }

    fn serve(&mut self, me: usize) {
        while let Some(done) = self.served[me].pop_front() {
            let served = Served { bytes: SIZE, ..Served::new(OpKind::Write, self.now, self.now) };
            self.nodes[me].complete(self.now, done, APP, &served);
            self.waiting[me] -= 1;
            self.free[me].push(done);
            self.drain(me);
        }
        while self.loaded[me] && self.waiting[me] < CONCURRENCY {
            let request = self.free[me].pop().unwrap();
            self.nodes[me].enqueue(self.now, request, &Arrival::new(APP, OpKind::Write, SIZE));
            self.waiting[me] += 1;
            self.drain(me);
        }
    }

    fn drain(&mut self, me: usize) {
        self.transmit(me);
        while let Some(dispatch) = self.nodes[me].poll_dispatch(self.now) {
            *self.steps.last_mut().unwrap() += SIZE;
            self.served[me].push_back(dispatch.id);
        }
        self.transmit(me);
        while self.nodes[me].poll_event().is_some() {}
    }

    fn transmit(&mut self, me: usize) {
        while let Some((to, message)) = self.nodes[me].poll_transmit(self.now) {
            let delay = Duration::from_micros(u64::from(self.random.below(self.delay_ms * 1000)));
            self.flown += 1;
            self.flights.insert((self.now + delay, self.flown), (me, to.0 as usize, message));
        }
    }

    /// Load moves: for a while some servers have it, then others; at least one does.
    fn move_about(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        let count = u32::try_from(self.nodes.len()).unwrap();
        while self.now < until {
            let loaded = 1 + self.random.below(count);
            self.loaded.fill(false);
            (0..loaded).for_each(|_| {
                let server = self.random.below(count) as usize;
                self.loaded[server] = true;
            });
            let pause = 50 + self.random.below(1500);
            self.run_for(Duration::from_millis(pause.into()));
        }
    }

    /// The least and the most bytes in any five seconds from `first` on, as a fraction of what the cap allows.
    fn extremes(&self, first: u64) -> (f64, f64) {
        let steps = &self.steps[usize::try_from(first * 1000).unwrap()..];
        let allowed = 5.0 * RATE as f64;
        let windows = || steps.windows(5000).map(|window| window.iter().sum::<u64>() as f64 / allowed);
        (windows().fold(f64::MAX, f64::min), windows().fold(0.0, f64::max))
    }
}

fn id(server: usize) -> ServerId {
    ServerId(u32::try_from(server).unwrap())
}

#[test]
fn moving_load_gets_the_whole_cap_and_no_more() {
    for seed in 1..=5 {
        let mut cluster = Cluster::new(seed, 4, 5);
        cluster.move_about(60);
        let (least, most) = cluster.extremes(5);
        assert!(least > 0.95 && most < 1.05, "seed {seed}: {least} to {most}");
    }
}

#[test]
fn sixteen_servers_keep_a_cap() {
    let mut cluster = Cluster::new(1, 16, 2);
    cluster.move_about(40);
    let (least, most) = cluster.extremes(5);
    assert!(least > 0.95 && most < 1.05, "{least} to {most}");
}

#[test]
fn one_server_alone_gets_all_of_it() {
    let mut cluster = Cluster::new(1, 4, 5);
    cluster.loaded[2] = true;
    cluster.run_for(Duration::from_secs(20));
    let (least, most) = cluster.extremes(5);
    // A step of this test is a tenth of the time between two requests.
    assert!(least > 0.95 && most < 1.02, "{least} to {most}");
}

/// Each part takes what is due to it for its number of servers; until silence is noticed, after three seconds, each
/// takes what the others leave, as far as it knows.
#[test]
fn a_divided_cluster_stays_within_the_cap() {
    let mut cluster = Cluster::new(1, 4, 5);
    cluster.loaded = vec![true, false, true, true];
    cluster.run_for(Duration::from_secs(10));
    cluster.parts = vec![0, 0, 1, 1];
    cluster.run_for(Duration::from_secs(4));
    cluster.run_for(Duration::from_secs(20));
    let (least, most) = cluster.extremes(14);
    assert!(least > 0.9 && most < 1.05, "apart: {least} to {most}");
    cluster.parts.fill(0);
    cluster.run_for(Duration::from_secs(20));
    let (least, most) = cluster.extremes(36);
    // What the other part used is news for both at first.
    assert!(least > 0.85 && most < 1.05, "together: {least} to {most}");
    let (least, most) = cluster.extremes(41);
    assert!(least > 0.95 && most < 1.05, "later: {least} to {most}");
}

/// With more servers than one group has, each gets its even part only.
#[test]
fn a_large_cluster_stays_within_the_cap() {
    let mut cluster = Cluster::new(1, 20, 5);
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(30));
    let (least, most) = cluster.extremes(5);
    assert!(least > 0.9 && most < 1.05, "{least} to {most}");
}
