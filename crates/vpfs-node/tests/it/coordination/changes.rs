//! The list of servers changes, on one host after the other: servers that agree share, and nothing counts twice.
//!
//! `VPFS_SEED=n` runs seed n alone; each test prints the seeds it runs before it runs them.

use std::time::Duration;

use vpfs_core::ServiceClass;
use vpfs_core::testing::Random;
use vpfs_node::coordination::{CoordinationSettings, Event, FlowKey};

use super::{Account, World, members};

/// After the last host has the newer list, shares hold over all servers within this time.
const HEALS_WITHIN: Duration = Duration::from_secs(5);
/// After each host, shares hold over the servers with the same list within this time: those who look for one of them in
/// another group ask a server a second, here of at most sixteen.
const PARTS_HEAL_WITHIN: Duration = Duration::from_secs(22);
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// How a host gets the newer list.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Its proxy starts again.
    Restart,
    /// The coordinator is told. Only if no server changes its position.
    Tell,
}

/// A change of the list, and how it is done.
struct Change {
    before: usize,
    after: Vec<usize>,
    group_size: usize,
    way: Way,
    /// Proxies of servers that are removed go on for ever.
    removed_ones_run: bool,
    /// Between two hosts.
    pause: Duration,
}

fn seeds() -> Vec<u64> {
    match std::env::var("VPFS_SEED") {
        Ok(seed) => vec![seed.parse().expect("VPFS_SEED is a number")],
        Err(_) => vec![1, 2],
    }
}

/// A flow that only one server serves, once.
fn flow(server: usize, number: usize) -> Account {
    (FlowKey::of(&format!("{server} {number}")), ServiceClass::Data.into())
}

struct Roll {
    world: World,
    group_size: usize,
    /// Flows of each server so far.
    flows: usize,
}

impl Roll {
    /// Every running server serves a flow of its own.
    fn serve(&mut self) {
        for server in (0..self.world.servers.len()).filter(|server| self.world.servers[*server].up).collect::<Vec<_>>()
        {
            self.world.report(server, flow(server, self.flows), 1 << 20);
        }
        self.flows += 1;
    }

    /// Whether two running servers tell each other what they give.
    fn share(&self, one: usize, other: usize) -> bool {
        let [one_list, other_list] = [one, other].map(|server| &self.world.servers[server].list);
        if [one_list, other_list].iter().all(|list| list.len() <= self.group_size) {
            one_list.contains(&other) && other_list.contains(&one)
        } else {
            one_list == other_list
        }
    }

    /// Servers with the same list, and all within one group, hear of each other, and no others do.
    fn assert_parts_share(&mut self, when: &str) {
        let number = self.flows;
        self.serve();
        self.world.run_for(TOLD_WITHIN);
        let servers = &self.world.servers;
        let running: Vec<usize> = (0..servers.len()).filter(|server| servers[*server].up).collect();
        for &me in &running {
            let heard = |other: &usize| servers[me].given.contains_key(&flow(*other, number));
            let others = || running.iter().copied().filter(|other| *other != me);
            let heard: Vec<usize> = others().filter(heard).collect();
            let due: Vec<usize> = others().filter(|other| self.share(me, *other)).collect();
            assert_eq!(heard, due, "{when}: server {me} with {:?}", servers[me].list);
            let reachable = servers[me].coordinator.reachable();
            assert_eq!(reachable, 1 + due.len(), "{when}: server {me} with {:?}", servers[me].list);
        }
    }

    fn assert_nothing_is_heard_twice(&self) {
        for (me, server) in self.world.servers.iter().enumerate() {
            for other in (0..self.world.servers.len()).filter(|other| *other != me) {
                for number in 0..self.flows {
                    let given = server.given.get(&flow(other, number)).copied().unwrap_or(0);
                    assert!(given <= 1 << 20, "server {me} heard {given} of {other}");
                }
            }
        }
    }
}

fn roll(seed: u64, change: &Change) {
    let Change { before, after, group_size, way, removed_ones_run, pause } = change;
    let mut random = Random::new(seed);
    let settings = CoordinationSettings { group_size: *group_size, ..CoordinationSettings::default() };
    let world = World::new(seed, *before, settings);
    let mut roll = Roll { world, group_size: *group_size, flows: 0 };
    let count = 1 + after.iter().copied().max().unwrap_or(0).max(before - 1);
    (*before..count).for_each(|_| roll.world.add_server());
    roll.world.run_for(HEALS_WITHIN);
    let mut waiting: Vec<usize> = (0..count).collect();
    while !waiting.is_empty() {
        let server = waiting.swap_remove(random.below(u32::try_from(waiting.len()).unwrap()) as usize);
        match way {
            _ if !after.contains(&server) => roll.world.servers[server].up &= removed_ones_run,
            Way::Tell if roll.world.servers[server].up => roll.world.tell(server, after.clone()),
            _ => roll.world.restart_with(server, after.clone()),
        }
        roll.serve();
        roll.world.run_for(*pause);
        if *pause >= PARTS_HEAL_WITHIN {
            roll.assert_parts_share(&format!("{} hosts before the end", waiting.len()));
        }
    }
    roll.world.run_for(HEALS_WITHIN.saturating_sub(*pause));
    roll.assert_parts_share("at the end");
    let as_due = |server: &usize| members(&roll.world.servers[*server].list) == members(after);
    assert!(after.iter().all(as_due), "all have the newer list");
    roll.assert_nothing_is_heard_twice();
}

/// Every change at all speeds.
fn roll_all(seed: u64, before: usize, after: &[usize], group_size: usize) {
    let moves = after.iter().enumerate().any(|(position, server)| *server < before && *server != position);
    let ways: &[Way] = if moves { &[Way::Restart] } else { &[Way::Restart, Way::Tell] };
    for (&way, removed_ones_run) in ways.iter().flat_map(|way| [(way, true), (way, false)]) {
        for pause in [50, 900, 7_000, 22_000].map(Duration::from_millis) {
            let change = Change { before, after: after.to_vec(), group_size, way, removed_ones_run, pause };
            println!(
                "seed {seed} (VPFS_SEED={seed} runs it alone): {before} servers become {after:?}, {way:?}, {pause:?}"
            );
            roll(seed, &change);
        }
    }
}

fn first(count: usize) -> Vec<usize> {
    (0..count).collect()
}

#[test]
fn servers_are_added() {
    for (seed, [before, after]) in seeds().into_iter().flat_map(|seed| {
        // Within one group; a second group, a third one, a third level.
        [[3, 4], [4, 5], [8, 9], [16, 17]].map(|change| (seed, change))
    }) {
        roll_all(seed, before, &first(after), 4);
    }
}

#[test]
fn servers_are_removed() {
    for (seed, [before, after]) in
        seeds().into_iter().flat_map(|seed| [[4, 3], [5, 4], [9, 8], [17, 16]].map(|change| (seed, change)))
    {
        roll_all(seed, before, &first(after), 4);
    }
}

/// The first server represents its group on all levels. All others change their position.
#[test]
fn the_first_server_is_removed() {
    for (seed, before) in seeds().into_iter().flat_map(|seed| [4, 5, 9, 17].map(|before| (seed, before))) {
        roll_all(seed, before, &first(before)[1..], 4);
    }
}

/// Both lists have the same number of servers, so that positions mean others.
#[test]
fn a_server_is_replaced() {
    for (seed, before) in seeds().into_iter().flat_map(|seed| [4, 9, 17].map(|before| (seed, before))) {
        let at_its_place: Vec<usize> = (0..before).map(|server| if server == 1 { before } else { server }).collect();
        let at_the_end: Vec<usize> = (0..=before).filter(|server| *server != 1).collect();
        roll_all(seed, before, &at_its_place, 4);
        roll_all(seed, before, &at_the_end, 4);
    }
}

/// Flows that left are kept until live peers know that they did; but a peer with another list never will.
#[test]
fn flows_that_left_are_forgotten_while_lists_differ() {
    let forget_after = Duration::from_secs(10);
    let settings = CoordinationSettings { group_size: 4, forget_after, ..CoordinationSettings::default() };
    let mut world = World::new(1, 5, settings);
    world.run_for(HEALS_WITHIN);
    world.restart_with(1, vec![0, 1, 2, 3]);
    for number in 0..100 {
        world.report(0, flow(0, number), 1);
        world.servers[0].coordinator.flow_left(world.now, flow(0, number).0);
        world.drain(0);
        world.run_for(forget_after / 5);
    }
    world.restart(2);
    world.run_for(TOLD_WITHIN);
    let told = world.servers[2].events.iter().filter(|event| matches!(event, Event::FlowAnnounced { .. }));
    let told = told.count();
    assert!((1..15).contains(&told), "server 0 still has {told} flows");
}
