//! Servers in groups of several levels: everything reaches everybody once, while servers come and go.
//!
//! `VPFS_SEED=n` runs seed n alone; each test prints the seeds it runs before it runs them.

use std::time::Duration;

use vpfs_core::ServiceClass;
use vpfs_core::testing::Random;
use vpfs_node::coordination::{CoordinationSettings, FlowKey};

use super::{Account, World, id};

/// After a server is killed or a partition ends, shares hold over all servers again within this time.
const HEALS_WITHIN: Duration = Duration::from_secs(5);
/// A report reaches all servers within this time.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

fn groups_of(size: usize) -> CoordinationSettings {
    CoordinationSettings { group_size: size, ..CoordinationSettings::default() }
}

fn account(name: &str) -> Account {
    (FlowKey::of(name), ServiceClass::Data.into())
}

fn seeds() -> Vec<u64> {
    match std::env::var("VPFS_SEED") {
        Ok(seed) => vec![seed.parse().expect("VPFS_SEED is a number")],
        Err(_) => (1..=12).collect(),
    }
}

/// Every live server reports a different amount of a new flow; each must hear the sum of all others in its part.
#[track_caller]
fn assert_all_hear_all(world: &mut World, name: &str) {
    let account = account(name);
    let live: Vec<usize> = (0..world.servers.len()).filter(|server| world.servers[*server].up).collect();
    let amount = |server: usize| i64::try_from(server).unwrap() * 1000 + 1;
    live.iter().for_each(|server| world.report(*server, account, amount(*server)));
    world.run_for(TOLD_WITHIN);
    for &me in &live {
        let part = |server: &&usize| world.network.groups[**server] == world.network.groups[me];
        let others: i64 = live.iter().filter(part).filter(|other| **other != me).map(|other| amount(*other)).sum();
        let given = world.servers[me].given.get(&account).copied().unwrap_or(0);
        assert_eq!(given, others, "server {me} of {} at {:?}", world.servers.len(), world.now);
    }
}

/// No server has heard more of any flow than the others ever reported. Each flow gets service a few times only, so
/// that what is lost does not hide what is repeated.
#[track_caller]
fn assert_nothing_is_heard_twice(world: &World) {
    (0..FLOWS).for_each(|flow| assert_not_heard_twice(world, flow_at(flow)));
}

const FLOWS: u32 = 300;

fn flow_at(flow: u32) -> Account {
    account(&format!("flow{flow}"))
}

#[track_caller]
fn assert_not_heard_twice(world: &World, account: Account) {
    let ever = |server: usize| -> i64 {
        let server = &world.servers[server];
        [&server.reported, &server.reported_before].into_iter().filter_map(|sums| sums.get(&account)).sum()
    };
    let all: i64 = (0..world.servers.len()).map(ever).sum();
    for (me, server) in world.servers.iter().enumerate() {
        let given = server.given.get(&account).copied().unwrap_or(0);
        assert!(given <= all - ever(me), "server {me} heard {given} of {} at {:?}", all - ever(me), world.now);
    }
}

#[test]
fn all_hear_all_on_one_to_four_levels() {
    for count in [1, 4, 5, 16, 17, 64, 70] {
        let mut world = World::new(1, count, groups_of(4));
        world.run_for(HEALS_WITHIN);
        assert_all_hear_all(&mut world, "climate");
        let peers = world.servers.iter().map(|server| server.coordinator.peers().count());
        assert!(peers.max() <= Some(3 * 4), "four levels at most");
    }
}

#[test]
fn sixteen_servers_are_peers_of_each_other() {
    let mut world = World::new(1, 16, CoordinationSettings::default());
    world.report(3, account("climate"), 1 << 20);
    world.run_for(TOLD_WITHIN);
    assert!(world.servers.iter().all(|server| server.coordinator.peers().count() == 15));
    assert_eq!(world.servers.iter().filter(|server| server.given.len() == 1).count(), 15);
}

#[test]
fn shares_come_back_after_any_servers_are_killed() {
    for seed in seeds() {
        println!("seed {seed} (VPFS_SEED={seed} runs it alone)");
        let mut random = Random::new(seed);
        let mut world = World::new(seed, 20 + random.below(60) as usize, groups_of(4));
        world.run_for(HEALS_WITHIN);
        let count = world.servers.len();
        // The first server represents its group on every level.
        let killed = [0, random.below(u32::try_from(count).unwrap()) as usize, count - 1];
        let killed = &killed[..1 + random.below(3) as usize];
        killed.iter().for_each(|server| world.crash(*server));
        world.run_for(HEALS_WITHIN);
        assert_all_hear_all(&mut world, "without them");
        world.restart_all();
        world.run_for(HEALS_WITHIN);
        assert_all_hear_all(&mut world, "with them again");
    }
}

#[test]
fn parts_share_among_themselves_and_come_together_again() {
    for seed in seeds() {
        println!("seed {seed} (VPFS_SEED={seed} runs it alone)");
        let mut random = Random::new(seed);
        let count = 20 + random.below(60) as usize;
        let mut world = World::new(seed, count, groups_of(4));
        world.run_for(HEALS_WITHIN);
        // Halves by order, as racks have it, or servers at random.
        let middle = count / 2;
        let by_order = random.below(2) == 0;
        world.network.groups =
            (0..count).map(|me| u32::from(if by_order { me < middle } else { random.below(2) == 0 })).collect();
        world.run_for(Duration::from_secs(40));
        if by_order {
            assert_all_hear_all(&mut world, "apart");
        }
        world.network.groups.fill(0);
        world.run_for(HEALS_WITHIN);
        assert_all_hear_all(&mut world, "together");
    }
}

fn faults(world: &mut World) {
    let count = u32::try_from(world.servers.len()).unwrap();
    let server = world.random.below(count) as usize;
    match world.random.below(40) {
        0 => world.network.groups[server] ^= 1,
        1 => world.network.groups.fill(0),
        2 => (0..server).for_each(|server| world.network.groups[server] ^= 1),
        3 => {
            world.network.loss_percent = [0, 10, 50][world.random.below(3) as usize];
            world.network.repeat_percent = [0, 30][world.random.below(2) as usize];
            world.network.delay_ms_max = [1, 100, 2000][world.random.below(3) as usize];
        }
        4 if world.servers[server].up => world.crash(server),
        4..7 if !world.servers[server].up => world.restart(server),
        7 if !world.servers[server].up => world.restart_after_its_clock_went_back(server),
        8 => world.run_for(Duration::from_secs(10)),
        _ if !world.servers[server].up => {}
        9..11 => {
            let flow = flow_at(world.random.below(FLOWS));
            world.servers[server].coordinator.flow_left(world.now, flow.0);
            world.drain(server);
        }
        _ => {
            let bytes = i64::from(world.random.below(1 << 20));
            let flow = world.random.below(FLOWS);
            world.report(server, flow_at(flow), bytes);
        }
    }
    let pause = world.random.below(200);
    world.run_for(Duration::from_millis(u64::from(pause)));
}

fn run(seed: u64) -> World {
    println!("seed {seed} (VPFS_SEED={seed} runs it alone)");
    let mut random = Random::new(seed ^ 0x7ee);
    let mut world = World::new(seed, 6 + random.below(40) as usize, groups_of(4));
    for _ in 0..400 {
        faults(&mut world);
    }
    assert_nothing_is_heard_twice(&world);
    world
}

#[test]
fn nothing_is_heard_twice_whatever_happens() {
    for seed in seeds() {
        let mut world = run(seed);
        world.network.groups.fill(0);
        (world.network.loss_percent, world.network.repeat_percent, world.network.delay_ms_max) = (0, 0, 1);
        world.restart_all();
        // Messages may be two seconds late, lost ones are repeated after three to twelve, and the totals of all flows
        // take several, one after the other.
        world.run_for(Duration::from_secs(50));
        assert_all_hear_all(&mut world, "calm");
        assert_nothing_is_heard_twice(&world);
    }
}

#[test]
fn a_cut_between_two_members_leaves_the_others_alone() {
    let mut world = World::new(1, 40, groups_of(4));
    world.run_for(HEALS_WITHIN);
    world.cut = Some((5, 6));
    world.run_for(Duration::from_secs(20));
    let climate = account("climate");
    world.report(30, climate, 1 << 20);
    world.run_for(TOLD_WITHIN);
    let heard = world.servers.iter().filter(|server| server.given.contains_key(&climate)).count();
    assert_eq!(heard, 39, "neither of the two represents the others");
}

#[test]
fn servers_with_different_lists_exchange_nothing_until_they_agree() {
    let mut world = World::new(1, 10, groups_of(4));
    world.run_for(HEALS_WITHIN);
    let nine = || (0..9).map(id).collect::<vpfs_node::coordination::Members>();
    (0..4).for_each(|server| {
        let now = world.now;
        world.servers[server].coordinator.set_members(now, nine());
        world.drain(server);
    });
    world.report(0, account("early"), 5);
    world.run_for(HEALS_WITHIN);
    let heard = |world: &World, name| {
        let heard = |server: &&crate::coordination::Server| server.given.contains_key(&account(name));
        world.servers.iter().filter(heard).count()
    };
    assert_eq!(heard(&world, "early"), 3, "those with the same list");
    (4..9).for_each(|server| {
        let now = world.now;
        world.servers[server].coordinator.set_members(now, nine());
        world.drain(server);
    });
    world.crash(9);
    world.run_for(HEALS_WITHIN);
    assert_all_hear_all(&mut world, "late");
}
