//! The daemon's own connections and gates between model clients and servers, in one thread, in virtual time, with
//! everything random from a seed (docs/decisions/0002-policies-and-simulation.md).
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a panic is the report; sizes are small")]

mod nfs;
mod operation;
mod peers;
mod process;
#[path = "../../tests/it/common/raw.rs"]
#[allow(dead_code, reason = "made for the tests of the whole daemon")]
mod raw;
mod record;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use vpfs_config::{Config, Protocol};

use crate::clock::Clock;
use crate::stream::simulated::{Randomness, pair};
use peers::{Fate, Peer, Points, client, server};
use process::{PROXY, Process, SERVER};
use record::Trace;

/// Where nothing stalls, a client that is not done after this time has been forgotten.
const BOUND: Duration = Duration::from_secs(60);
/// A connection that is neither served nor closed after this time hangs: longer than all limits together.
const FOREVER: Duration = Duration::from_secs(3600);

/// What is drawn for one run.
struct Schedule {
    random: Randomness,
    protocol: Protocol,
    settings: String,
    /// Of the client and the server of each connection.
    fates: Vec<[Fate; 2]>,
    /// When each client connects.
    starts: Vec<Duration>,
    /// When the process hands over to another one.
    hand_over: Option<Duration>,
}

impl Schedule {
    fn of(seed: u64, protocol: Protocol) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let settings = settings(&mut random, protocol);
        let (connections, faults) = (random.random_range(1..=5), random.random_ratio(3, 4));
        let fates: Vec<_> = (0..connections).map(|_| [(); 2].map(|()| fate(&mut random, faults))).collect();
        // From a source of its own, so that a seed means the same connections with and without it.
        let mut other = SmallRng::seed_from_u64(!seed);
        let hand_over = other.random_ratio(1, 2).then(|| Duration::from_micros(1 << other.random_range(0..17)));
        let start = |_| hand_over.map_or(Duration::ZERO, |at| at * other.random_range(0..150) / 100);
        let starts = fates.iter().map(start).collect();
        Self { random: Arc::new(Mutex::new(random)), protocol, settings, fates, starts, hand_over }
    }

    /// Whether a hand-over may have to wait too long for a connection: one that stalls, or one whose operations wait
    /// for the slots of that.
    fn may_cut_off(&self) -> bool {
        self.hand_over.is_some() && self.fates.iter().flatten().any(|fate| matches!(fate, Fate::Stalls { .. }))
    }

    fn draw(&self, most: u64) -> u64 {
        self.random.lock().unwrap().random_range(0..=most)
    }

    /// Whether this connection has no reason to take long: neither its client stalls nor any server, which would
    /// occupy slots.
    fn is_swift(&self, number: usize) -> bool {
        let stalls = |fate: &Fate| matches!(fate, Fate::Stalls { .. });
        !self.fates[number].iter().any(stalls) && !self.fates.iter().any(|[_, server]| stalls(server))
    }
}

fn fate(random: &mut SmallRng, faults: bool) -> Fate {
    let after = (1 << random.random_range(0..20)) + random.random_range(0..1000);
    match random.random_range(0..6) {
        0 | 1 if faults => Fate::Ends { after, with_reset: random.random_ratio(1, 2) },
        2 if faults => Fate::Stalls { after, pause: Duration::from_millis(1 << random.random_range(0..18)) },
        _ => Fate::Good,
    }
}

/// A configuration; only the scheduler and limits differ.
fn settings(random: &mut SmallRng, protocol: Protocol) -> String {
    let policy = ["isolation", "fifo", "sfq-d", "sfq-d-plus", "two-level", "ioco"][random.random_range(0..6)];
    let depth =
        if policy.starts_with("sfq") { format!("depth = {}\n", random.random_range(1..10)) } else { String::new() };
    let metadata = if policy == "sfq-d-plus" && random.random_ratio(1, 2) { "metadata_depth = 2\n" } else { "" };
    let operations = [2, 8, 256][random.random_range(0..3)];
    let scheme = protocol.scheme();
    let apps = if protocol == Protocol::Nfs { "[apps]\nauto = \"uid\"\n" } else { "" };
    format!(
        "[[server]]\nname = \"s\"\naddress = \"{scheme}127.0.0.1:3334\"\n{apps}[[listener]]\nport = 5334\n\
         [[app]]\nname = \"a\"\nclients = \"10.0.0.1\"\nweight = 4\ntarget_rate = \"40MB/s\"\ndeadline = \"100ms\"\n\
         [scheduler]\npolicy = \"{policy}\"\n{depth}{metadata}[limits]\noperations = {operations}\n"
    )
}

struct World {
    schedule: Schedule,
    /// The second one takes over from the first.
    processes: [Process; 2],
    /// The one that accepts clients.
    current: AtomicUsize,
    trace: Trace,
}

impl World {
    fn new(seed: u64, protocol: Protocol) -> Self {
        let schedule = Schedule::of(seed, protocol);
        let config = Config::parse("simulation", &schedule.settings).unwrap();
        let clock = Clock::starting_at(Duration::from_secs(1_700_000_000));
        let processes = [(); 2].map(|()| Process::new(&clock, &config));
        Self { schedule, processes, current: AtomicUsize::new(0), trace: Trace::default() }
    }

    /// One client, its server, and the proxy's connection between them.
    async fn connection(self: Arc<Self>, number: usize) {
        let schedule = &self.schedule;
        tokio::time::sleep(schedule.starts[number]).await;
        let capacity = 1 << (10 + schedule.draw(8));
        let address = ([10, 0, 0, 1 + (number % 2) as u8], 40_000).into();
        let [client_end, proxy_client] = pair(&schedule.random, capacity, [address, PROXY.into()]);
        let [proxy_server, server_end] = pair(&schedule.random, capacity, [PROXY.into(), SERVER.into()]);
        let fates = schedule.fates[number];
        let points = Points::default();
        let peer = |socket, fate, name| Peer::new(schedule.protocol, socket, fate, &schedule.random, &self.trace, name);
        let (ours, theirs) = (peer(client_end, fates[0], (number, 0)), peer(server_end, fates[1], (number, 1)));
        self.processes[self.current.load(Relaxed)].admit(proxy_client, proxy_server, address);
        let serving = tokio::spawn(server(theirs, points.clone()));
        let (ops, at_once) = (1 + schedule.draw(30), 1 + schedule.draw(15) as usize);
        let calls = client(ours, points.clone(), ops, at_once);
        let patience = if schedule.is_swift(number) { BOUND } else { FOREVER };
        let answered = tokio::time::timeout(patience, calls).await;
        let answered = answered.expect("every operation is answered or its connection closed");
        tokio::time::timeout(FOREVER, serving).await.expect("the server's connection ends").unwrap();
        let is_good = fates == [Fate::Good; 2] && !schedule.may_cut_off();
        if is_good {
            assert_eq!(answered, ops, "nothing failed, so everything is answered");
        }
        points.server_got.assert_came_from(&points.client_sent, is_good, "towards the server");
        points.client_got.assert_came_from(&points.server_sent, is_good, "towards the client");
    }

    /// Changes the configuration from time to time.
    async fn reloads(self: Arc<Self>) {
        for _ in 0..self.schedule.draw(3) {
            tokio::time::sleep(Duration::from_millis(self.schedule.draw(100))).await;
            let settings = settings(&mut self.schedule.random.lock().unwrap(), self.schedule.protocol);
            let config = Config::parse("simulation", &settings).unwrap();
            self.processes[self.current.load(Relaxed)].reload(&config);
        }
    }

    /// Hands everything over to the second process.
    async fn hand_over(self: Arc<Self>, at: Duration) {
        tokio::time::sleep(at).await;
        self.current.store(1, Relaxed);
        let [old, new] = &self.processes;
        let cut_off = old.hand_over(new, &self.schedule.random).await;
        self.trace.add(("cut off", cut_off));
        assert!(cut_off == 0 || self.schedule.may_cut_off(), "{cut_off} connections were not handed over");
    }

    async fn run(self) -> (u64, u64) {
        let world = Arc::new(self);
        let mut timers = JoinSet::new();
        for process in &world.processes {
            let gate = Arc::clone(process.gate());
            timers.spawn(async move { gate.run_timer().await });
        }
        let mut tasks = JoinSet::new();
        for number in 0..world.schedule.fates.len() {
            tasks.spawn(Arc::clone(&world).connection(number));
        }
        tasks.spawn(Arc::clone(&world).reloads());
        if let Some(at) = world.schedule.hand_over {
            tasks.spawn(Arc::clone(&world).hand_over(at));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        for process in &world.processes {
            tokio::time::timeout(FOREVER, process.end()).await.expect("every connection ends");
        }
        world.trace.digest()
    }
}

/// Runs one schedule; the same seed gives the same digest.
fn simulate(seed: u64, protocol: Protocol) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { World::new(seed, protocol).run().await })
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// `SCHEDULES` of them from `SEED` on; a failure names its seed. `cargo xtask simulate` runs more than the default.
fn schedules(protocol: Protocol, default: u64) {
    let first = number("SEED", 1);
    for seed in first..first + number("SCHEDULES", default) {
        let outcome = std::panic::catch_unwind(|| simulate(seed, protocol));
        assert!(outcome.is_ok(), "replay with SEED={seed} SCHEDULES=1; {}", Schedule::of(seed, protocol).settings);
    }
}

#[test]
fn schedules_with_faults() {
    schedules(Protocol::OrangeFs, 1_000);
}

#[test]
fn schedules_with_faults_of_nfs() {
    schedules(Protocol::Nfs, 300);
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..20 {
        let protocol = if seed % 2 == 0 { Protocol::Nfs } else { Protocol::OrangeFs };
        assert_eq!(simulate(seed, protocol), simulate(seed, protocol), "seed {seed}");
    }
}
