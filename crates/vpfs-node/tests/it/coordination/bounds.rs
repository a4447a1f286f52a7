//! How many flows are kept, and for how long.

use std::time::Duration;

use vpfs_core::{ServiceClass, Time};
use vpfs_node::coordination::{CoordinationSettings, Counted, Event, FlowKey, FlowsExceeded, Message};

use super::{World, id};

const DATA: Counted = Counted::Service(ServiceClass::Data);

fn small() -> CoordinationSettings {
    CoordinationSettings {
        max_flows: 4,
        max_entries: 2,
        forget_after: Duration::from_secs(5),
        ..CoordinationSettings::default()
    }
}

fn leave(world: &mut World, server: usize, key: u64) {
    world.servers[server].coordinator.flow_left(world.now, FlowKey(key));
    world.drain(server);
}

#[test]
fn a_thousand_flows_come_and_go_in_little_memory() {
    let mut world = World::new(1, 3, small());
    for key in 0..1000 {
        world.report(0, (FlowKey(key), DATA), 7);
        world.run_for(Duration::from_secs(2));
        leave(&mut world, 0, key);
    }
    world.run_for(Duration::from_secs(2));
    for server in &world.servers[1..] {
        assert_eq!(server.given.values().sum::<i64>(), 7000);
        let left = server.events.iter().filter(|event| matches!(event, Event::FlowLeft { .. }));
        assert_eq!(left.count(), 1000);
        assert_eq!(server.coordinator.total_service(FlowKey(999), DATA), None, "nobody has it any more");
    }
}

#[test]
fn one_flow_too_many_is_refused_until_another_leaves() {
    let mut world = World::new(1, 2, small());
    for key in 0..4 {
        world.report(0, (FlowKey(key), DATA), 1);
    }
    let refused = world.servers[0].coordinator.report(world.now, FlowKey(4), DATA, 1);
    assert_eq!(refused, Err(FlowsExceeded { max_flows: 4 }));
    assert_eq!(world.servers[0].coordinator.total_service(FlowKey(4), DATA), None);
    leave(&mut world, 0, 2);
    world.report(0, (FlowKey(4), DATA), 1);
    world.run_for(Duration::from_secs(5));
    let seen = |key| world.servers[1].coordinator.peer_service(id(0), FlowKey(key), DATA);
    assert_eq!([0, 1, 2, 3, 4].map(seen), [Some(1), Some(1), None, Some(1), Some(1)]);
}

#[test]
fn a_peer_with_more_flows_than_are_kept_is_known_in_part() {
    let mut world = World::new(1, 1, small());
    let entries = (1..=6).map(|key| vpfs_node::coordination::FlowTotal {
        key: FlowKey(key),
        counted: DATA,
        born: key,
        changed: key,
        total: 1,
        left: false,
    });
    let coordinator = &mut world.servers[0].coordinator;
    coordinator.set_members(Time::ZERO, [id(0), id(1)]);
    let (_, greeting) = coordinator.poll_transmit(Time::ZERO).unwrap();
    let at = vpfs_node::coordination::Position { horizon: 0, version: 6 };
    let message = Message { at, entries: entries.collect(), ..greeting };
    coordinator.handle_message(Time::ZERO, id(1), &message).unwrap();
    let refused =
        std::iter::from_fn(|| coordinator.poll_event()).filter(|(_, e)| matches!(e, Event::FlowRefused { .. }));
    assert_eq!(refused.count(), 2);
}

/// A flow that left and came back while a peer was away has been forgotten and is a new one.
#[test]
fn a_peer_that_was_away_does_not_mistake_a_stay_for_another() {
    let mut world = World::new(1, 2, small());
    world.report(0, (FlowKey(1), DATA), 100);
    world.report(0, (FlowKey(2), DATA), 100);
    world.run_for(Duration::from_secs(1));
    world.network.groups = vec![0, 1];
    leave(&mut world, 0, 1);
    leave(&mut world, 0, 2);
    world.run_for(Duration::from_secs(30));
    world.report(0, (FlowKey(1), DATA), 30);
    world.network.groups = vec![0, 0];
    world.run_for(Duration::from_secs(15));
    world.views_are_equal(&[(FlowKey(1), DATA), (FlowKey(2), DATA)]).unwrap();
    assert_eq!(world.servers[1].given, [((FlowKey(1), DATA), 100), ((FlowKey(2), DATA), 100)].into());
    assert_eq!(world.servers[1].baseline, [((FlowKey(1), DATA), 30)].into());
}

#[test]
fn messages_have_the_stated_size() {
    let mut world = World::new(1, 2, CoordinationSettings { max_entries: 40, ..CoordinationSettings::default() });
    world.run_for(Duration::from_secs(1));
    for key in 0..100 {
        world.servers[0].coordinator.report(world.now, FlowKey(key), DATA, 1).unwrap();
    }
    let (_, message) = world.servers[0].coordinator.poll_transmit(world.now).unwrap();
    assert_eq!((message.entries.len(), message.more, message.encoded_len()), (40, true, 95 + 40 * 33));
    assert!(message.encoded_len() <= 1448, "an Ethernet frame without the headers of IP and TCP");
}

#[test]
fn old_departures_are_forgotten() {
    let mut world = World::new(1, 2, CoordinationSettings { max_flows: 4096, ..small() });
    world.report(0, (FlowKey(1), DATA), 100);
    leave(&mut world, 0, 1);
    let mut greeting = |wait, stranger| {
        world.run_for(Duration::from_secs(wait));
        let coordinator = &mut world.servers[0].coordinator;
        coordinator.set_members(world.now, [id(0), id(1), id(stranger)]);
        coordinator.poll_transmit(world.now).unwrap().1
    };
    assert_eq!(greeting(4, 5).entries.len(), 1, "kept for five seconds");
    assert_eq!(greeting(2, 6).entries.len(), 0, "the stranger that never answered is not waited for");
}

#[test]
fn changes_that_a_live_peer_lacks_are_kept_for_it() {
    let mut world = World::new(1, 2, CoordinationSettings { lost_after: Duration::from_secs(10), ..small() });
    world.report(0, (FlowKey(1), DATA), 100);
    world.run_for(Duration::from_secs(1));
    world.network.groups = vec![0, 1];
    world.report(0, (FlowKey(1), DATA), 30);
    leave(&mut world, 0, 1);
    world.run_for(Duration::from_secs(8));
    world.network.groups = vec![0, 0];
    world.run_for(Duration::from_secs(9));
    assert_eq!(world.servers[1].given, [((FlowKey(1), DATA), 130)].into());
}

/// Symptom: after one lost message a peer learned nothing more, as long as applications came and went. Cause: each
/// acknowledgement that some flow may be forgotten put off the repetition of what was lost. Proof: what was in the lost
/// message, and what did not fit into it, is known in time.
#[test]
fn a_lost_message_is_repeated_while_flows_are_forgotten() {
    let keep = Duration::from_secs(10);
    let settings = CoordinationSettings { max_entries: 3, forget_after: keep, ..CoordinationSettings::default() };
    let mut world = World::new(1, 2, settings);
    for key in 100..120 {
        world.report(0, (FlowKey(key), DATA), 1);
        leave(&mut world, 0, key);
        world.run_for(keep / 20);
    }
    world.network.loss_percent = 100;
    let now = world.now;
    (0..10).for_each(|key| world.servers[0].coordinator.report(now, FlowKey(key), DATA, 5).unwrap());
    world.drain(0);
    world.network.loss_percent = 0;
    // Those that left are forgotten one after the other.
    world.run_for(Duration::from_secs(5));
    assert!((0..10).all(|key| world.servers[1].given.get(&(FlowKey(key), DATA)) == Some(&5)));
}
