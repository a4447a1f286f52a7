//! Nodes that hear each other with a delay, and an application whose load moves.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{AppId, AppPolicy, Bytes, Dispatch, OpKind, ServerId, Settings, SharePolicy, Time};
use vpfs_node::coordination::{CoordinationSettings, Counted, Message};
use vpfs_node::{
    AppName, Arrival, Event, NamedShare, Node, NodeSettings, Outputs, PeerMessage, PeerSettings, RequestKey, Served,
};

/// The application with a total of [`RATE`].
const APP: AppId = AppId(0);
/// Its competitor, which always has requests at each server, if it is there.
const OTHER: AppId = AppId(1);
pub(crate) const RATE: u64 = 100_000_000;
pub(crate) const SIZE: u64 = 1 << 20;
/// Requests of [`APP`] that wait or are served at each server with load,
const CONCURRENCY: u32 = 4;
/// and of [`OTHER`].
const OTHERS: u32 = 64;
const STEP: Duration = Duration::from_millis(1);

pub(crate) struct Cluster {
    now: Time,
    nodes: Vec<Node<AppId>>,
    pub(crate) loaded: Vec<bool>,
    /// Instead, as many calls as this at a time, each of which has a request at each server with load, and ends with
    /// the last of them.
    pub(crate) striped: u32,
    /// The requests of calls under way at each server, oldest first, and how many each call still waits for.
    of_calls: Vec<VecDeque<u64>>,
    calls: BTreeMap<u64, usize>,
    called: u64,
    /// Beside that, requests of [`APP`] arrive at random servers: so many in a thousand steps.
    pub(crate) arrivals: u32,
    /// How long all requests of [`APP`] waited together, in steps.
    waits: u64,
    with_other: bool,
    /// Requests at each node by application, and those that are done with the next step.
    waiting: Vec<[u32; 2]>,
    served: Vec<VecDeque<(RequestKey, AppId)>>,
    /// Servers of different parts do not hear each other.
    pub(crate) parts: Vec<u32>,
    /// Changes what a server sends.
    pub(crate) lie: fn(usize, &mut Message),
    delay_ms: u32,
    random: Random,
    flights: BTreeMap<(Time, u64), (usize, usize, PeerMessage)>,
    flown: u64,
    /// A server completes a request only in each step whose number is a multiple of this one.
    pub(crate) slowness: usize,
    /// The total of [`APP`], in bytes per second.
    rate: u64,
    /// Bytes of [`APP`] dispatched in each step by each server.
    steps: Vec<Vec<u64>>,
}

impl Cluster {
    /// `count` nodes with this policy, and the application; with `other`, a competitor that is never out of requests.
    pub(crate) fn new(seed: u64, count: usize, delay_ms: u32, policy: &Settings, app: &AppPolicy) -> Self {
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
    pub(crate) fn beside(mut self, other: &AppPolicy) -> Self {
        for node in &mut self.nodes {
            node.set_app(Time::ZERO, OTHER, "other", other);
        }
        self.with_other = true;
        self
    }

    /// The application is another one at each server, and what counts is the share that all of them are in.
    pub(crate) fn in_share(mut self, policy: &SharePolicy) -> Self {
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
    pub(crate) fn keep(&mut self, count: usize) {
        let settings = settings(self.nodes[0].settings(), count);
        self.nodes.truncate(count);
        self.flights.retain(|_, (from, to, _)| *from < count && *to < count);
        for node in &mut self.nodes {
            node.reconfigure(self.now, &settings);
        }
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
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
        for (done, app) in self.served[me].drain(..done).collect::<Vec<_>>() {
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
        let mut drained = Drained::default();
        self.nodes[me].drain(self.now, &mut drained);
        let of_app = drained.dispatched.iter().filter(|(_, app)| *app == APP).count() as u64;
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
    pub(crate) fn move_about(&mut self, seconds: u64) {
        self.move_about_every(seconds, [50, 1550]);
    }

    /// The same, within so many milliseconds.
    pub(crate) fn move_about_every(&mut self, seconds: u64, [least, most]: [u32; 2]) {
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
    pub(crate) fn extremes(&self, first: u64) -> (f64, f64) {
        self.extremes_within([first, u64::MAX / 1000])
    }

    /// The same until `end`.
    pub(crate) fn extremes_within(&self, [first, end]: [u64; 2]) -> (f64, f64) {
        let end = self.steps.len().min(usize::try_from(end * 1000).unwrap());
        let steps = &self.totals(0)[usize::try_from(first * 1000).unwrap()..end];
        let allowed = 5.0 * self.rate as f64;
        let windows = || steps.windows(5000).map(|window| window.iter().sum::<u64>() as f64 / allowed);
        (windows().fold(f64::MAX, f64::min), windows().fold(0.0, f64::max))
    }

    /// Asserts that [`Cluster::extremes`] are within `range`.
    #[track_caller]
    pub(crate) fn assert_gets(&self, first: u64, range: Range<f64>, what: &str) {
        let (least, most) = self.extremes(first);
        assert!(least > range.start && most < range.end, "{what}: {least} to {most}");
    }

    /// The most by which the bytes of any time from `first` on exceed what the rate allows in it.
    pub(crate) fn most_beyond(&self, first: u64) -> u64 {
        let in_step = self.rate as i64 / 1000;
        // The largest sum of a part of the list.
        let beyond = self.totals(first).into_iter().scan(0, |sum, bytes| {
            *sum = (*sum + bytes as i64 - in_step).max(0);
            Some(*sum)
        });
        beyond.max().unwrap_or(0).unsigned_abs()
    }

    /// What a server dispatched from second `first` on, as a fraction of what the rate allows.
    pub(crate) fn part_of(&self, server: usize, first: u64) -> f64 {
        let steps = &self.steps[usize::try_from(first * 1000).unwrap()..];
        let allowed = steps.len() as f64 / 1000.0 * self.rate as f64;
        steps.iter().map(|step| step[server]).sum::<u64>() as f64 / allowed
    }

    /// How long a request of [`APP`] waited and was served, in the mean.
    pub(crate) fn mean_wait(&self) -> Duration {
        let dispatched = self.totals(0).iter().sum::<u64>() / SIZE;
        STEP * u32::try_from(self.waits / dispatched.max(1)).unwrap()
    }

    fn totals(&self, first: u64) -> Vec<u64> {
        self.steps[usize::try_from(first * 1000).unwrap()..].iter().map(|step| step.iter().sum()).collect()
    }
}

/// In what it sends, a liar says a thousand times as much of what is `counted`.
pub(crate) fn exaggerate(is_liar: bool, message: &mut Message, counted: Counted) {
    let totals = Arc::make_mut(&mut message.entries).iter_mut().filter(|entry| is_liar && entry.counted == counted);
    totals.for_each(|entry| entry.total *= 1000);
}

#[derive(Default)]
struct Drained {
    messages: Vec<(ServerId, PeerMessage)>,
    dispatched: Vec<(RequestKey, AppId)>,
}

impl Outputs<AppId> for Drained {
    fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>) {
        self.messages.extend(messages);
    }

    fn dispatch(&mut self, &app: &AppId, request: RequestKey, _: &Dispatch) {
        self.dispatched.push((request, app));
    }

    fn event(&mut self, _: Time, _: Event) {}
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
