//! The daemon's own connections and gates between model clients and servers, in one thread, in virtual time, with
//! everything random from a seed (docs/decisions/0012-deterministic-simulation.md).
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a panic is the report; sizes are small")]

mod peers;
#[path = "../../tests/daemon/common/raw.rs"]
#[allow(dead_code, reason = "made for the tests of the whole daemon")]
mod raw;
mod record;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use vpfs_config::{AppTable, Config};
use vpfs_core::ServerId;
use vpfs_session::orangefs::{AddressMap, OrangeFs};

use crate::accept::Acceptor;
use crate::clock::Clock;
use crate::connection::Newcomer;
use crate::connection_permits::ConnectionPermits;
use crate::gate::Gate;
use crate::listener::Listener;
use crate::log_limit::LogLimit;
use crate::post::Post;
use crate::shared::{Rules, Shared, Stage};
use crate::stream::simulated::{Randomness, pair};
use peers::{Fate, Peer, Points, client, server};
use record::Trace;

/// Where nothing stalls, whoever is not done after this time has been forgotten.
const BOUND: Duration = Duration::from_secs(60);
/// A connection that is neither served nor closed after this time hangs: longer than all limits together.
const FOREVER: Duration = Duration::from_secs(3600);

/// What is drawn for one run.
struct Schedule {
    random: Randomness,
    settings: String,
    /// Of the client and the server of each connection.
    fates: Vec<[Fate; 2]>,
}

impl Schedule {
    fn of(seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let settings = settings(&mut random);
        let (connections, faults) = (random.random_range(1..=5), random.random_ratio(3, 4));
        let fates = (0..connections).map(|_| [(); 2].map(|()| fate(&mut random, faults))).collect();
        Self { random: Arc::new(Mutex::new(random)), settings, fates }
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
fn settings(random: &mut SmallRng) -> String {
    let policy = ["isolation", "fifo", "sfq-d", "sfq-d-plus", "two-level", "ioco"][random.random_range(0..6)];
    let depth =
        if policy.starts_with("sfq") { format!("depth = {}\n", random.random_range(1..10)) } else { String::new() };
    let metadata = if policy == "sfq-d-plus" && random.random_ratio(1, 2) { "metadata_depth = 2\n" } else { "" };
    let operations = [2, 8, 256][random.random_range(0..3)];
    format!(
        "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
         [[app]]\nname = \"a\"\nclients = \"10.0.0.1\"\nweight = 4\ntarget_rate = \"40MB/s\"\ndeadline = \"100ms\"\n\
         [scheduler]\npolicy = \"{policy}\"\n{depth}{metadata}[limits]\noperations = {operations}\n"
    )
}

struct World {
    schedule: Schedule,
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    permits: Arc<ConnectionPermits>,
    trace: Trace,
}

impl World {
    fn new(seed: u64) -> Self {
        let schedule = Schedule::of(seed);
        let config = Config::parse("simulation", &schedule.settings).unwrap();
        let clock = Clock::starting_at(Duration::from_secs(1_700_000_000));
        let apps = AppTable::new(&config);
        let gate = Arc::new(Gate::new(clock.clone(), ServerId(0), Post::default(), &config, &apps));
        let listener = Listener {
            server: "s".to_owned(),
            address: ([127, 0, 0, 1], 5334).into(),
            upstream: ("127.0.0.1".to_owned(), 3334),
            index: 0,
            interposer: Arc::new(OrangeFs::new(AddressMap::default())),
            gate: Arc::clone(&gate),
            down: false.into(),
            log: LogLimit::default(),
        };
        let shared = Arc::new(Shared::new(clock, vec![gate], Rules::resolved(&config), apps));
        let permits = Arc::new(ConnectionPermits::new(config.limits.connections));
        let acceptor =
            Acceptor { listener: Arc::new(listener), shared: Arc::clone(&shared), permits: Arc::clone(&permits) };
        Self { schedule, shared, acceptor: Arc::new(acceptor), permits, trace: Trace::default() }
    }

    /// One client, its server, and the proxy's connection between them.
    async fn connection(self: Arc<Self>, number: usize) {
        let schedule = &self.schedule;
        let capacity = 1 << (10 + schedule.draw(8));
        let [client_end, proxy_client] = pair(&schedule.random, capacity);
        let [proxy_server, server_end] = pair(&schedule.random, capacity);
        let fates = schedule.fates[number];
        let points = Points::default();
        let peer = |socket, fate, name| Peer::new(socket, fate, &schedule.random, &self.trace, name);
        let (ours, theirs) = (peer(client_end, fates[0], (number, 0)), peer(server_end, fates[1], (number, 1)));
        let address = ([10, 0, 0, 1 + (number % 2) as u8], 40_000).into();
        let permit = self.permits.try_take().unwrap();
        self.acceptor.admit(Newcomer::Simulated(proxy_client, proxy_server), address, permit);
        let serving = tokio::spawn(server(theirs, points.clone()));
        let (ops, at_once) = (1 + schedule.draw(30), 1 + schedule.draw(15) as usize);
        let calls = client(ours, points.clone(), ops, at_once);
        let patience = if schedule.is_swift(number) { BOUND } else { FOREVER };
        let answered = tokio::time::timeout(patience, calls).await;
        let answered = answered.expect("every operation is answered or its connection closed");
        tokio::time::timeout(FOREVER, serving).await.expect("the server's connection ends").unwrap();
        let is_good = fates == [Fate::Good; 2];
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
            let settings = settings(&mut self.schedule.random.lock().unwrap());
            let config = Config::parse("simulation", &settings).unwrap();
            self.shared.replace(Rules::resolved(&config), |apps, gates| {
                apps.reload(&config);
                gates.iter().for_each(|gate| gate.reconfigure(&config));
            });
        }
    }

    async fn run(self) -> (u64, u64) {
        let world = Arc::new(self);
        let mut timers = JoinSet::new();
        let gate = Arc::clone(&world.shared.gates[0]);
        timers.spawn(async move { gate.run_timer().await });
        let mut tasks = JoinSet::new();
        for number in 0..world.schedule.fates.len() {
            tasks.spawn(Arc::clone(&world).connection(number));
        }
        tasks.spawn(Arc::clone(&world).reloads());
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let freed = tokio::time::timeout(FOREVER, world.permits.all_free()).await;
        freed.expect("every connection ends");
        assert!(world.shared.gates[0].is_idle(), "slots are left");
        assert_eq!(world.shared.memory.held(), 0, "memory is left");
        world.shared.enter(Stage::Stopped);
        world.trace.digest()
    }
}

/// Runs one schedule; the same seed gives the same digest.
fn simulate(seed: u64) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { World::new(seed).run().await })
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// `SCHEDULES` of them from `SEED` on; a failure names its seed.
#[test]
fn schedules_with_faults() {
    let first = number("SEED", 1);
    for seed in first..first + number("SCHEDULES", 10_000) {
        let outcome = std::panic::catch_unwind(|| simulate(seed));
        assert!(outcome.is_ok(), "replay with SEED={seed} SCHEDULES=1; {}", Schedule::of(seed).settings);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..50 {
        assert_eq!(simulate(seed), simulate(seed), "seed {seed}");
    }
}
