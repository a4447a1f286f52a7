//! What holds for the sum over all servers: nodes that hear each other with a delay, and an application whose load
//! moves.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Cap, Deadlines, Depth, Minimum, OpKind, PolicyKind, Scope, ServerId, ServiceClass,
    Settings, SharePolicy, SlotCostTable, Target, Time, TotalKind, TwoLevelSettings, Weight,
};
use vpfs_node::coordination::{CoordinationSettings, Counted, Message};
use vpfs_node::{AppName, Arrival, NamedShare, Node, NodeSettings, PeerMessage, PeerSettings, RequestKey, Served};

use crate::drain;

/// The application with a total of [`RATE`].
const APP: AppId = AppId(0);
/// Its competitor, which always has requests at each server, if it is there.
const OTHER: AppId = AppId(1);
const RATE: u64 = 100_000_000;
const SIZE: u64 = 1 << 20;
/// Requests of [`APP`] that wait or are served at each server with load,
const CONCURRENCY: u32 = 4;
/// and of [`OTHER`].
const OTHERS: u32 = 64;
const STEP: Duration = Duration::from_millis(1);

struct Cluster {
    now: Time,
    nodes: Vec<Node<AppId>>,
    loaded: Vec<bool>,
    /// Instead, as many calls as this at a time, each of which has a request at each server with load, and ends with
    /// the last of them.
    striped: u32,
    /// The requests of calls under way at each server, oldest first, and how many each call still waits for.
    of_calls: Vec<VecDeque<u64>>,
    calls: BTreeMap<u64, usize>,
    called: u64,
    /// Beside that, requests of [`APP`] arrive at random servers: so many in a thousand steps.
    arrivals: u32,
    /// How long all requests of [`APP`] waited together, in steps.
    waits: u64,
    with_other: bool,
    /// Requests at each node by application, and those that are done with the next step.
    waiting: Vec<[u32; 2]>,
    served: Vec<VecDeque<(AppId, RequestKey)>>,
    /// Servers of different parts do not hear each other.
    parts: Vec<u32>,
    /// Changes what a server sends.
    lie: fn(usize, &mut Message),
    delay_ms: u32,
    random: Random,
    flights: BTreeMap<(Time, u64), (usize, usize, PeerMessage)>,
    flown: u64,
    /// A server completes a request only in each step whose number is a multiple of this one.
    slowness: usize,
    /// The total of [`APP`], in bytes per second.
    rate: u64,
    /// Bytes of [`APP`] dispatched in each step by each server.
    steps: Vec<Vec<u64>>,
}

impl Cluster {
    /// `count` nodes with this policy, and the application; with `other`, a competitor that is never out of requests.
    fn new(seed: u64, count: usize, delay_ms: u32, policy: &Settings, app: &AppPolicy) -> Self {
        let settings = settings(policy, count);
        let nodes = (0..count).map(|me| {
            let mut node = Node::new(Time::ZERO, id(me), &settings);
            node.set_app(Time::ZERO, APP, "climate", app);
            node
        });
        Self {
            now: Time::ZERO,
            nodes: nodes.collect(),
            loaded: vec![false; count],
            striped: 0,
            of_calls: vec![VecDeque::new(); count],
            calls: BTreeMap::new(),
            called: 0,
            arrivals: 0,
            waits: 0,
            with_other: false,
            waiting: vec![[0; 2]; count],
            served: vec![VecDeque::new(); count],
            parts: vec![0; count],
            lie: |_, _| (),
            delay_ms,
            random: Random::new(seed),
            flights: BTreeMap::new(),
            flown: 0,
            slowness: 0,
            rate: app.totals().next().map_or(RATE, |(_, rate)| rate),
            steps: Vec::new(),
        }
    }

    /// With a competitor that is never out of requests, at any server.
    fn beside(mut self, other: &AppPolicy) -> Self {
        for node in &mut self.nodes {
            node.set_app(Time::ZERO, OTHER, "other", other);
        }
        self.with_other = true;
        self
    }

    /// The application is another one at each server, and what counts is the share that all of them are in.
    fn in_share(mut self, policy: &SharePolicy) -> Self {
        let share = NamedShare { path: "physics/alice", policy: *policy };
        for (me, node) in self.nodes.iter_mut().enumerate() {
            node.set_shares(Time::ZERO, [share]);
            let name = AppName { name: &format!("job-{me}"), share: Some(share) };
            node.set_app(Time::ZERO, APP, name, &AppPolicy::default());
        }
        self.rate = policy.totals().next().map_or(RATE, |(_, rate)| rate);
        self
    }

    /// From now on, the first `count` are all servers.
    fn keep(&mut self, count: usize) {
        let settings = settings(self.nodes[0].settings(), count);
        self.nodes.truncate(count);
        self.flights.retain(|_, (from, to, _)| *from < count && *to < count);
        for node in &mut self.nodes {
            node.reconfigure(self.now, &settings);
        }
    }

    fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.now = self.now + STEP;
            self.steps.push(vec![0; self.nodes.len()]);
            self.deliver();
            self.arrive();
            self.call();
            for me in 0..self.nodes.len() {
                self.serve(me);
                if self.nodes[me].poll_timeout().is_some_and(|at| at <= self.now) {
                    self.nodes[me].handle_timeout(self.now);
                }
                self.drain(me);
            }
        }
    }

    fn arrive(&mut self) {
        let server = self.random.below(u32::try_from(self.nodes.len()).unwrap()) as usize;
        if self.random.below(1000) < self.arrivals {
            self.refill(server, APP, self.waiting[server][APP.index()] + 1);
        }
        self.waits += self.waiting.iter().map(|waiting| u64::from(waiting[APP.index()])).sum::<u64>();
    }

    /// Starts calls for those that have ended.
    fn call(&mut self) {
        while self.calls.len() < self.striped as usize {
            let servers: Vec<usize> = (0..self.nodes.len()).filter(|server| self.loaded[*server]).collect();
            self.called += 1;
            self.calls.insert(self.called, servers.len());
            for me in servers {
                self.of_calls[me].push_back(self.called);
                self.refill(me, APP, self.waiting[me][APP.index()] + 1);
            }
        }
    }

    /// A request of a server is done; those of one application are served in their order.
    fn end_request(&mut self, me: usize) {
        let Some(call) = self.of_calls[me].pop_front() else { return };
        let left = self.calls.get_mut(&call).unwrap();
        *left -= 1;
        if *left == 0 {
            self.calls.remove(&call);
        }
    }

    fn deliver(&mut self) {
        while let Some(flight) = self.flights.first_entry().filter(|flight| flight.key().0 <= self.now) {
            let (from, to, message) = flight.remove();
            // Some are for servers that are no longer there.
            if to < self.nodes.len() && self.parts[from] == self.parts[to] {
                self.nodes[to].handle_message(self.now, id(from), &message).unwrap();
                self.drain(to);
            }
        }
    }

    fn serve(&mut self, me: usize) {
        let done = match self.slowness {
            0 => self.served[me].len(),
            slowness => usize::from(self.steps.len().is_multiple_of(slowness)).min(self.served[me].len()),
        };
        for (app, done) in self.served[me].drain(..done).collect::<Vec<_>>() {
            let served = Served { bytes: SIZE, ..Served::new(OpKind::Write, self.now, self.now) };
            self.nodes[me].complete(self.now, done, &served);
            self.waiting[me][app.index()] -= 1;
            if app == APP {
                self.end_request(me);
            }
            self.drain(me);
        }
        self.refill(me, OTHER, if self.with_other { OTHERS } else { 0 });
        self.refill(me, APP, if self.loaded[me] && self.striped == 0 { CONCURRENCY } else { 0 });
    }

    fn refill(&mut self, me: usize, app: AppId, requests: u32) {
        while self.waiting[me][app.index()] < requests {
            self.nodes[me].enqueue(self.now, app, &Arrival::new(app, OpKind::Write, SIZE));
            self.waiting[me][app.index()] += 1;
            self.drain(me);
        }
    }

    fn drain(&mut self, me: usize) {
        let drained = drain(&mut self.nodes[me], self.now);
        let of_app = drained.dispatched.iter().filter(|(app, _)| *app == APP).count() as u64;
        self.steps.last_mut().unwrap()[me] += of_app * SIZE;
        self.served[me].extend(drained.dispatched);
        for (to, mut message) in drained.messages {
            if let PeerMessage::Service(message) = &mut message {
                (self.lie)(me, message);
            }
            let delay = Duration::from_micros(u64::from(self.random.below(self.delay_ms * 1000)));
            self.flown += 1;
            self.flights.insert((self.now + delay, self.flown), (me, to.0 as usize, message));
        }
    }

    /// Load moves: for a while some servers have it, then others; at least one does.
    fn move_about(&mut self, seconds: u64) {
        self.move_about_every(seconds, [50, 1550]);
    }

    /// The same, within so many milliseconds.
    fn move_about_every(&mut self, seconds: u64, [least, most]: [u32; 2]) {
        let until = self.now + Duration::from_secs(seconds);
        let count = u32::try_from(self.nodes.len()).unwrap();
        while self.now < until {
            let loaded = 1 + self.random.below(count);
            self.loaded.fill(false);
            (0..loaded).for_each(|_| {
                let server = self.random.below(count) as usize;
                self.loaded[server] = true;
            });
            let pause = least + self.random.below(most - least);
            self.run_for(Duration::from_millis(pause.into()));
        }
    }

    /// The least and the most bytes in any five seconds from `first` on, as a fraction of what the rate allows.
    fn extremes(&self, first: u64) -> (f64, f64) {
        self.extremes_within([first, u64::MAX / 1000])
    }

    /// The same until `end`.
    fn extremes_within(&self, [first, end]: [u64; 2]) -> (f64, f64) {
        let end = self.steps.len().min(usize::try_from(end * 1000).unwrap());
        let steps = &self.totals(0)[usize::try_from(first * 1000).unwrap()..end];
        let allowed = 5.0 * self.rate as f64;
        let windows = || steps.windows(5000).map(|window| window.iter().sum::<u64>() as f64 / allowed);
        (windows().fold(f64::MAX, f64::min), windows().fold(0.0, f64::max))
    }

    /// Asserts that [`Cluster::extremes`] are within `range`.
    #[track_caller]
    fn assert_gets(&self, first: u64, range: Range<f64>, what: &str) {
        let (least, most) = self.extremes(first);
        assert!(least > range.start && most < range.end, "{what}: {least} to {most}");
    }

    /// The most by which the bytes of any time from `first` on exceed what the rate allows in it.
    fn most_beyond(&self, first: u64) -> u64 {
        let in_step = self.rate as i64 / 1000;
        // The largest sum of a part of the list.
        let beyond = self.totals(first).into_iter().scan(0, |sum, bytes| {
            *sum = (*sum + bytes as i64 - in_step).max(0);
            Some(*sum)
        });
        beyond.max().unwrap_or(0).unsigned_abs()
    }

    /// What a server dispatched from second `first` on, as a fraction of what the rate allows.
    fn part_of(&self, server: usize, first: u64) -> f64 {
        let steps = &self.steps[usize::try_from(first * 1000).unwrap()..];
        let allowed = steps.len() as f64 / 1000.0 * self.rate as f64;
        steps.iter().map(|step| step[server]).sum::<u64>() as f64 / allowed
    }

    /// How long a request of [`APP`] waited and was served, in the mean.
    fn mean_wait(&self) -> Duration {
        let dispatched = self.totals(0).iter().sum::<u64>() / SIZE;
        STEP * u32::try_from(self.waits / dispatched.max(1)).unwrap()
    }

    fn totals(&self, first: u64) -> Vec<u64> {
        self.steps[usize::try_from(first * 1000).unwrap()..].iter().map(|step| step.iter().sum()).collect()
    }
}

/// In what it sends, a liar says a thousand times as much of what is `counted`.
fn exaggerate(is_liar: bool, message: &mut Message, counted: Counted) {
    let totals = Arc::make_mut(&mut message.entries).iter_mut().filter(|entry| is_liar && entry.counted == counted);
    totals.for_each(|entry| entry.total *= 1000);
}

fn settings(policy: &Settings, servers: usize) -> NodeSettings {
    NodeSettings {
        policy: policy.clone(),
        metadata_cost: Bytes::kib(8),
        peers: Some(PeerSettings {
            incarnation: 1,
            servers: (0..servers).map(id).collect(),
            coordination: CoordinationSettings::default(),
        }),
    }
}

fn id(server: usize) -> ServerId {
    ServerId(u32::try_from(server).unwrap())
}

/// A share of which each server has another member.
fn capped_share(seed: u64, count: usize) -> Cluster {
    let cap = Cap::new(RATE, Bytes(1)).map(Cap::over_all_servers);
    let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
    let cluster = Cluster::new(seed, count, 5, &policy, &AppPolicy::default());
    cluster.in_share(&SharePolicy { cap, ..SharePolicy::NEW })
}

#[test]
fn moving_load_gets_the_whole_cap_and_no_more() {
    let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
    let cap = Cap::new(RATE, Bytes(1)).map(Cap::over_all_servers);
    for seed in 1..=2 {
        let mut cluster = Cluster::new(seed, 4, 5, &policy, &AppPolicy { cap, ..AppPolicy::default() });
        cluster.move_about(60);
        cluster.assert_gets(5, 0.95..1.05, &format!("seed {seed}"));
    }
}

#[test]
fn a_share_gets_its_cap_wherever_its_members_ask() {
    let mut cluster = capped_share(1, 4);
    cluster.move_about(60);
    cluster.assert_gets(5, 0.95..1.05, "four servers");
    // Over several groups, servers take parts of it.
    let mut cluster = capped_share(1, 40);
    cluster.loaded[3] = true;
    cluster.run_for(Duration::from_secs(15));
    cluster.assert_gets(3, 0.9..1.1, "one server of 40");
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(15));
    cluster.assert_gets(18, 0.9..1.1, "all of 40");
}

// Minima, beside a competitor of twenty times the weight, on servers of 210 MB/s each: the application's share is
// 10 MB/s at each server on which it has load.

const MINIMUM: Option<Minimum> = Some(Minimum { rate: Bytes(RATE), scope: Scope::Total });

/// Before, the servers learn what requests cost, and how many the storage needs at once. Only servers with both
/// applications do.
const LEARNT: u64 = 20;

fn with_minimum(seed: u64, count: usize) -> Cluster {
    let policy = Settings::new(PolicyKind::Isolation, Depth::new(8).unwrap(), SlotCostTable::default());
    let app = AppPolicy { minimum: MINIMUM, ..AppPolicy::default() };
    let other = AppPolicy::weighted(Weight::new(20).unwrap());
    let mut cluster = Cluster::new(seed, count, 5, &policy, &app).beside(&other);
    cluster.slowness = 5;
    cluster
}

#[test]
fn moving_load_gets_the_whole_minimum() {
    for seed in 1..=2 {
        let mut cluster = with_minimum(seed, 4);
        cluster.loaded.fill(true);
        cluster.run_for(Duration::from_secs(LEARNT));
        cluster.move_about(60);
        cluster.assert_gets(LEARNT, 0.95..2.0, &format!("seed {seed}"));
    }
}

/// Each server has another member of a share with a minimum.
#[test]
fn a_share_gets_its_minimum_wherever_its_members_ask() {
    let mut cluster = with_minimum(1, 4).in_share(&SharePolicy { minimum: MINIMUM, ..SharePolicy::NEW });
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(LEARNT));
    cluster.move_about(60);
    // A member that is new at a server waits there for what others have in the storage, for a second.
    cluster.assert_gets(LEARNT, 0.2..1.5, "");
}

// Targets, beside a competitor whose promised requests leave no spare capacity: what the application gets is then what
// passes with credits.

const PERIOD_MS: u64 = 200;
const DELAY_MS: u32 = 5;

fn promised(rate: u64, scope: Scope, deadline: Duration) -> AppPolicy {
    let target = Target { rate: Bytes(rate), scope, deadline };
    AppPolicy { target: Some(target), ..AppPolicy::default() }
}

fn with_target(seed: u64, count: usize) -> Cluster {
    let mut policy = Settings::new(PolicyKind::TwoLevel, Depth::new(8).unwrap(), SlotCostTable::default());
    let replenish_period = Duration::from_millis(PERIOD_MS);
    policy.two_level =
        TwoLevelSettings { deadlines: Deadlines::Paper, outstanding_max: 8, replenish_period, ..policy.two_level };
    let other = promised(1 << 40, Scope::Server, Duration::from_secs(3600));
    let app = promised(RATE, Scope::Total, Duration::from_millis(100));
    let mut cluster = Cluster::new(seed, count, DELAY_MS, &policy, &app).beside(&other);
    cluster.slowness = 1;
    cluster
}

/// The bound of docs/decisions/0008-peers.md, without T · t.
fn target_bound(servers: u64) -> u64 {
    let kept = RATE * PERIOD_MS / 1000 * (servers + 1) / servers;
    let unknown = RATE / 10 + servers * RATE * u64::from(DELAY_MS) / 1000;
    kept + unknown + servers * SIZE
}

#[test]
fn moving_load_gets_the_whole_promise_and_no_more() {
    for seed in 1..=2 {
        let mut cluster = with_target(seed, 4);
        cluster.move_about(30);
        let ((least, most), beyond) = (cluster.extremes(5), cluster.most_beyond(0));
        assert!(least > 0.95 && most < 1.05, "seed {seed}: {least} to {most}");
        assert!(beyond < target_bound(4), "seed {seed}: {beyond} bytes");
    }
}

// Totals over several groups of servers, where each takes a part by demand.

const SERVERS: usize = 40;
/// Until news of any server is with all others: a tick, two representatives that pass it on after 0.1 s each, and
/// another tick.
const NEWS_MS: u64 = 400;
/// What one request of each server is of five seconds' worth of the rate.
const LUMPS: f64 = (SERVERS as u64 * SIZE) as f64 / (5 * RATE) as f64;

/// 2.5 MB/s for each server: a request of every server takes 0.42 s.
fn capped(seed: u64, servers: usize) -> Cluster {
    with_cap(seed, servers, RATE, Bytes(1))
}

fn with_cap(seed: u64, servers: usize, rate: u64, burst: Bytes) -> Cluster {
    let policy = Settings::new(PolicyKind::Fifo, Depth::new(8).unwrap(), SlotCostTable::default());
    let cap = Cap::new(rate, burst).unwrap().over_all_servers();
    Cluster::new(seed, servers, 5, &policy, &AppPolicy { cap: Some(cap), ..AppPolicy::default() })
}

/// As much load as this: on all servers, on one, on another one, on half of them, on all again.
const PHASES: [fn(usize) -> bool; 5] =
    [|_| true, |server| server == 3, |server| server == 39, |server| server % 2 == 0, |_| true];
const PHASE_SECONDS: u64 = 10;

/// The bound of docs/decisions/0008-peers.md for caps, without R · t.
const fn cap_bound() -> u64 {
    let settling = 3 * RATE * NEWS_MS / 1000 / 7;
    settling + RATE * NEWS_MS / 1000 * 3 / 8 + SERVERS as u64 * SIZE
}

#[test]
fn a_cap_goes_to_where_the_requests_are() {
    let mut cluster = capped(1, SERVERS);
    for (phase, is_loaded) in (0..).zip(PHASES) {
        (0..SERVERS).for_each(|server| cluster.loaded[server] = is_loaded(server));
        cluster.run_for(Duration::from_secs(PHASE_SECONDS));
        let (least, most) = cluster.extremes_within([phase * PHASE_SECONDS + 3, (phase + 1) * PHASE_SECONDS]);
        assert!(least > 0.9 && most < 1.0 + LUMPS, "phase {phase}: {least} to {most}");
    }
    let beyond = cluster.most_beyond(0);
    assert!(beyond < cap_bound(), "{beyond} bytes");
}

#[test]
fn a_target_goes_to_where_the_requests_are() {
    let mut cluster = with_target(1, SERVERS);
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(4));
    cluster.loaded.fill(false);
    cluster.loaded[3] = true;
    cluster.run_for(Duration::from_secs(10));
    cluster.assert_gets(7, 0.9..1.0 + LUMPS, "one of all servers");
}

/// Its share is a tenth of the minimum at each server: on one it needs all of the minimum, on all it has more.
#[test]
fn a_minimum_goes_to_where_the_requests_are() {
    let mut cluster = with_minimum(1, SERVERS);
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(LEARNT));
    cluster.loaded.fill(false);
    cluster.loaded[3] = true;
    cluster.run_for(Duration::from_secs(10));
    cluster.assert_gets(LEARNT + 3, 0.95..1.05, "one of all servers");
}

/// It gets less than all while others do not know yet that load has gone.
#[test]
fn moving_load_stays_within_the_cap() {
    let mut cluster = capped(1, SERVERS);
    cluster.move_about_every(60, [500, 4000]);
    let ((least, most), beyond) = (cluster.extremes(5), cluster.most_beyond(0));
    assert!(least > 0.6 && most < 1.0 + LUMPS, "{least} to {most}");
    assert!(beyond < cap_bound(), "{beyond} bytes");
}

/// An application that uses half of its cap in requests here and there has to wait for the cap at a server for less
/// time than that server's even part takes for one of them, and for a fifth of it if it uses a tenth.
#[test]
fn requests_now_and_then_hardly_wait() {
    let even = Duration::from_nanos(SIZE * SERVERS as u64 * 1_000_000_000 / RATE);
    for (percent, most) in [(10, even / 5), (50, even)] {
        let mut cluster = capped(1, SERVERS);
        // Of a hundred requests in a second.
        cluster.arrivals = percent * 95 / 100;
        cluster.run_for(Duration::from_secs(30));
        assert!(cluster.mean_wait() < most, "{percent} %: {:?}", cluster.mean_wait());
    }
}

/// Symptom: a file over ten of twenty servers got 0.72 of a cap, live. Cause: a call waits for its slowest part, so
/// queues at servers vary, and each server took the least that it had wanted lately as its part of the most that others
/// want. Proof: 0.69 for the file over four servers with that.
#[test]
fn calls_over_many_servers_get_all_of_a_cap() {
    const FAST: u64 = 10 * RATE;
    for (servers, calls) in [(4, 16), (10, 4), (SERVERS, 16)] {
        let mut cluster = with_cap(1, SERVERS, FAST, Bytes::mib(16));
        cluster.loaded[..servers].fill(true);
        cluster.striped = calls;
        cluster.run_for(Duration::from_secs(15));
        cluster.assert_gets(3, 0.95..1.05, &format!("{servers} servers"));
    }
}

/// The first group and the others do not hear of each other for a while.
#[test]
fn parts_of_a_divided_cluster_stay_within_the_cap() {
    let mut cluster = capped(1, SERVERS);
    cluster.loaded.fill(true);
    cluster.run_for(Duration::from_secs(5));
    (16..SERVERS).for_each(|server| cluster.parts[server] = 1);
    cluster.loaded.fill(false);
    (15..=16).for_each(|server| cluster.loaded[server] = true);
    cluster.run_for(Duration::from_secs(20));
    for (server, due) in [(15, 0.4), (16, 0.6)] {
        let part = cluster.part_of(server, 11);
        assert!(part > 0.94 * due && part < 1.02 * due, "server {server} got {part} instead of {due}");
    }
    cluster.parts.fill(0);
    cluster.loaded[16] = false;
    cluster.run_for(Duration::from_secs(20));
    let part = cluster.part_of(15, 31);
    assert!(part > 0.93, "together again: {part}");
}

/// Parts are for several groups only: a server that has one returns it.
#[test]
fn a_cluster_that_shrinks_to_one_group_needs_no_parts() {
    let mut cluster = capped(1, 17);
    cluster.loaded[..16].fill(true);
    cluster.run_for(Duration::from_secs(5));
    cluster.keep(16);
    cluster.loaded.fill(false);
    cluster.loaded[15] = true;
    cluster.run_for(Duration::from_secs(10));
    let part = cluster.part_of(15, 8);
    assert!(part > 0.93, "{part}");
}

/// The last server says that a thousand times as much is used there, or wanted.
#[test]
fn a_peer_that_lies_leaves_the_least_part_while_it_does() {
    let lies: [fn(usize, &mut Message); 2] = [
        |server, message| {
            exaggerate(server == SERVERS - 1, message, Counted::Given(TotalKind::Cap, ServiceClass::Data))
        },
        |server, message| {
            exaggerate(server == SERVERS - 1, message, Counted::Wanted(TotalKind::Cap, ServiceClass::Data))
        },
    ];
    for lie in lies {
        let mut cluster = capped(1, SERVERS);
        cluster.loaded.fill(true);
        cluster.lie = lie;
        cluster.run_for(Duration::from_secs(20));
        for server in [0, 20, 38] {
            let part = cluster.part_of(server, 5) * SERVERS as f64;
            assert!((0.12..0.3).contains(&part), "server {server}: {part} of its even part");
        }
        cluster.lie = |_, _| ();
        cluster.run_for(Duration::from_secs(10));
        cluster.assert_gets(23, 0.9..1.0 + LUMPS, "three seconds later");
    }
}
