//! Random faults, then quiet: in the end all servers agree, and nothing was counted twice.
//!
//! `VPFS_SEED=n` runs seed n alone; each test prints the seeds it runs before it runs them.

use std::time::Duration;

use vpfs_core::ServiceClass;
use vpfs_core::testing::Random;
use vpfs_node::coordination::{CoordinationSettings, Event, FlowKey, Message};

use super::{Account, Server, World};

/// After the last fault everything is known everywhere, and acknowledged, within this time: the longest back-off (12
/// s), a late message (2 s), a round trip for each message full of changes, and an acknowledgement (2 s).
const CONVERGES_WITHIN: Duration = Duration::from_secs(17);

#[derive(Clone, Copy, PartialEq)]
enum Faults {
    /// Network faults only: nothing may be lost.
    Network,
    /// Servers restart as well, and flows that left are forgotten soon.
    All,
}

fn seeds() -> Vec<u64> {
    match std::env::var("VPFS_SEED") {
        Ok(seed) => vec![seed.parse().expect("VPFS_SEED is a number")],
        Err(_) => (1..=30).collect(),
    }
}

fn accounts() -> Vec<Account> {
    let keys = (0..12).map(|app| FlowKey::of(&format!("app{app}")));
    keys.flat_map(|key| [(key, ServiceClass::Data.into()), (key, ServiceClass::Metadata.into())]).collect()
}

fn settings(seed: u64, faults: Faults) -> CoordinationSettings {
    let mut random = Random::new(seed ^ 0x5e77);
    CoordinationSettings {
        max_entries: [1, 3, 40][random.below(3) as usize],
        keep_alive: [None, Some(Duration::from_secs(3))][random.below(2) as usize],
        forget_after: Duration::from_secs(if faults == Faults::All { 2 } else { 100_000 }),
        ..CoordinationSettings::default()
    }
}

fn run(seed: u64, faults: Faults) -> World {
    println!("seed {seed} (VPFS_SEED={seed} runs it alone)");
    let servers = 2 + Random::new(seed ^ 0xc0).below(5) as usize;
    let mut world = World::new(seed, servers, settings(seed, faults));
    for _ in 0..400 {
        step(&mut world, faults);
    }
    world
}

fn step(world: &mut World, faults: Faults) {
    let server = world.random.below(u32::try_from(world.servers.len()).unwrap()) as usize;
    let account = accounts()[world.random.below(24) as usize];
    match world.random.below(100) {
        0..4 => world.network.groups[server] ^= 1,
        4..6 => world.network.groups.fill(0),
        6..9 => {
            world.network.loss_percent = [0, 10, 50, 90][world.random.below(4) as usize];
            world.network.repeat_percent = [0, 30][world.random.below(2) as usize];
            world.network.delay_ms_max = [1, 100, 2000][world.random.below(3) as usize];
        }
        9..11 if faults == Faults::All && world.servers[server].up => world.crash(server),
        9..13 if !world.servers[server].up => world.restart(server),
        13..15 => world.run_for(Duration::from_secs(15)),
        _ if !world.servers[server].up => {}
        15..22 => {
            world.servers[server].coordinator.flow_left(world.now, account.0);
            world.drain(server);
        }
        22..25 => {
            world.servers[server].coordinator.flow_arrived(world.now, account.0).unwrap();
            world.drain(server);
        }
        _ => {
            let refund = if faults == Faults::Network { 1 << 19 } else { 0 };
            let delta = i64::from(world.random.below(10 << 20)) - refund;
            world.report(server, account, delta);
        }
    }
    let pause = world.random.below(400);
    world.run_for(Duration::from_millis(u64::from(pause)));
}

/// What it knows of others' service, whether its scheduler does or not.
fn known(server: &Server, account: Account) -> i64 {
    [&server.given, &server.baseline].into_iter().filter_map(|sums| sums.get(&account)).sum()
}

fn calm(world: &mut World) {
    world.network.groups.fill(0);
    (world.network.loss_percent, world.network.repeat_percent, world.network.delay_ms_max) = (0, 0, 1);
    world.restart_all();
    world.run_for(CONVERGES_WITHIN);
}

fn of_others(world: &World, me: usize) -> impl Iterator<Item = &Server> + Clone {
    world.servers.iter().enumerate().filter(move |(other, _)| *other != me).map(|(_, other)| other)
}

fn each_account(world: &World) -> impl Iterator<Item = (usize, Account)> {
    (0..world.servers.len()).flat_map(|me| accounts().into_iter().map(move |account| (me, account)))
}

#[test]
fn faults_of_the_network_lose_and_repeat_nothing() {
    for seed in seeds() {
        let mut world = run(seed, Faults::Network);
        calm(&mut world);
        world.views_are_equal(&accounts()).unwrap();
        for (me, account) in each_account(&world) {
            let reported: i64 = of_others(&world, me).filter_map(|other| other.reported.get(&account)).sum();
            assert_eq!(known(&world.servers[me], account), reported, "server {me}, {account:?}");
        }
        let counts_all = settings(seed, Faults::Network).keep_alive.is_none();
        let is_empty = world.servers.iter().all(|server| server.baseline.is_empty());
        assert!(!counts_all || is_empty, "all started together, and no silence is noticed");
    }
}

/// Service that a server reported to nobody before it crashed is lost, as is service that is forgotten while a peer is
/// lost; everything else counts once. Then nothing is left to say.
#[test]
fn restarts_never_repeat_service() {
    for seed in seeds() {
        let mut world = run(seed, Faults::All);
        calm(&mut world);
        world.views_are_equal(&accounts()).unwrap();
        for (me, account) in each_account(&world) {
            let others = of_others(&world, me);
            let own = |other: &Server| other.coordinator.own_service(account.0, account.1);
            let present: i64 = others.clone().filter_map(own).sum();
            let ever = |other: &Server| {
                [&other.reported, &other.reported_before].into_iter().filter_map(|sums| sums.get(&account)).sum::<i64>()
            };
            let ever: i64 = others.map(ever).sum();
            let known = known(&world.servers[me], account);
            assert!((present..=ever).contains(&known), "server {me}, {account:?}: {present} <= {known} <= {ever}");
        }
        assert_only_keep_alives(&mut world, settings(seed, Faults::All).keep_alive.is_some());
    }
}

/// For five minutes no message has entries, and without keep-alives there is none.
fn assert_only_keep_alives(world: &mut World, has_keep_alives: bool) {
    let sent = |world: &World| world.servers.iter().map(|server| server.coordinator.sent()).collect::<Vec<_>>();
    let before = sent(world);
    world.run_for(Duration::from_secs(300));
    for (before, after) in before.into_iter().zip(sent(world)) {
        let messages = after.messages - before.messages;
        assert!(has_keep_alives || messages == 0, "{messages} messages");
        assert_eq!(after.bytes - before.bytes, messages * Message::HEADER_LEN as u64, "without entries");
    }
}

#[test]
fn a_seed_determines_everything() {
    for seed in seeds().into_iter().take(5) {
        assert_eq!(run(seed, Faults::All).digest(), run(seed, Faults::All).digest());
    }
}

/// The tests above would prove nothing if these faults did not occur in them.
#[test]
fn the_faults_happen() {
    let worlds: Vec<World> = (1..=30).map(|seed| run(seed, Faults::All)).collect();
    let happened = |what: fn(&Event) -> bool| {
        worlds.iter().flat_map(|world| &world.servers).flat_map(|server| &server.events).any(what)
    };
    assert!(happened(|event| matches!(event, Event::PeerLost { .. })));
    assert!(happened(|event| matches!(event, Event::PeerRestarted { .. })));
    assert!(happened(|event| matches!(event, Event::Baseline { .. })));
    assert!(happened(|event| matches!(event, Event::FlowLeft { .. })));
    assert!(!happened(|event| matches!(event, Event::StepRefused { .. } | Event::FlowRefused { .. })));
}
