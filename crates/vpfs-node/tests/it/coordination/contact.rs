//! Which service counts when servers meet: first contact, restarts, silence.

use std::time::Duration;

use vpfs_core::{ServiceClass, Time};
use vpfs_node::coordination::{CoordinationSettings, Coordinator, Event, FlowKey, Message, PeerState};

use super::{Account, FIRST, World, id};

const MIB: i64 = 1 << 20;

fn climate() -> Account {
    (FlowKey::of("climate"), ServiceClass::Data.into())
}

fn world() -> World {
    World::new(1, 2, CoordinationSettings::default())
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn given(world: &World, server: usize) -> i64 {
    world.servers[server].given.get(&climate()).copied().unwrap_or(0)
}

fn total(world: &World, server: usize) -> Option<i64> {
    world.servers[server].coordinator.total_service(climate().0, climate().1)
}

#[test]
fn servers_that_start_together_count_everything() {
    let mut world = world();
    world.report(0, climate(), 10 * MIB);
    world.report(1, climate(), 3 * MIB);
    world.run_for(seconds(1));
    assert_eq!([given(&world, 0), given(&world, 1)], [3 * MIB, 10 * MIB]);
    assert_eq!([total(&world, 0), total(&world, 1)], [Some(13 * MIB); 2]);
}

#[test]
fn a_restarted_server_takes_earlier_service_as_a_baseline() {
    let mut world = world();
    world.report(0, climate(), 1000 * MIB);
    world.run_for(seconds(100));
    world.restart(1);
    world.run_for(seconds(1));
    assert_eq!(given(&world, 1), 0, "a thousand MiB of delay would stop it for its new scheduler");
    assert_eq!(world.servers[1].baseline[&climate()], 1000 * MIB);
    world.report(0, climate(), MIB);
    world.run_for(seconds(1));
    assert_eq!(given(&world, 1), MIB);
    assert_eq!(total(&world, 1), Some(1001 * MIB));
}

#[test]
fn service_after_a_restart_is_added_to_earlier_service() {
    let mut world = world();
    world.report(1, climate(), 5 * MIB);
    world.run_for(seconds(100));
    world.restart(1);
    world.report(1, climate(), 2 * MIB);
    world.run_for(seconds(1));
    assert_eq!(given(&world, 0), 7 * MIB);
    assert!(world.servers[0].events.contains(&Event::PeerRestarted { peer: id(1), incarnation: FIRST + 1 }));
}

/// Symptom: after a partition of 10 s, with load in both halves, an application on all servers got nothing for 18 s on
/// those that it shared with another, which its calls waited for. Cause: what it had got in the other half meanwhile
/// counted when that came back, at once. Proof: a run of four proxies on hosts of their own; now shares come back
/// in 3 s.
#[test]
fn what_is_given_during_a_partition_is_a_baseline_after_it() {
    let mut world = world();
    world.report(0, climate(), MIB);
    world.run_for(seconds(1));
    world.network.groups = vec![0, 1];
    for _ in 0..57 {
        world.report(0, climate(), 10 * MIB);
        world.run_for(seconds(1));
    }
    assert_eq!((given(&world, 1), world.servers[1].coordinator.peer_state(id(0))), (MIB, Some(PeerState::Lost)));
    world.network.groups = vec![0, 0];
    // The other's next keep-alive is enough; the next retry would come later.
    world.run_for(seconds(4));
    assert_eq!((given(&world, 1), world.servers[1].coordinator.peer_state(id(0))), (MIB, Some(PeerState::Live)));
    assert_eq!(world.servers[1].baseline[&climate()], 570 * MIB);
    world.report(0, climate(), 2 * MIB);
    world.run_for(seconds(1));
    assert_eq!((given(&world, 1), total(&world, 1)), (3 * MIB, Some(573 * MIB)));
}

#[test]
fn what_is_given_in_a_silence_too_short_to_be_noticed_counts() {
    let mut world = world();
    world.run_for(seconds(1));
    world.network.groups = vec![0, 1];
    world.report(0, climate(), 10 * MIB);
    world.run_for(Duration::from_millis(1500));
    world.network.groups = vec![0, 0];
    world.run_for(seconds(4));
    assert_eq!(given(&world, 1), 10 * MIB);
    assert!(world.servers[1].baseline.is_empty());
}

/// The first message after a fault may be one that waited for the connection, and come before any timer.
#[test]
fn what_is_given_after_a_message_that_waited_is_a_baseline_too() {
    let mut servers =
        [0, 1].map(|me| Coordinator::new(Time::ZERO, id(me), 1, [id(0), id(1)], CoordinationSettings::default()));
    let mut run = |at, mib, waited: Option<Message>| {
        let now = Time::ZERO + seconds(at);
        servers[0].report(now, climate().0, climate().1, mib * MIB).unwrap();
        servers.iter_mut().for_each(|server| server.handle_timeout(now));
        let mut waiting = waited.or_else(|| Some(servers[0].poll_transmit(now)?.1));
        let first = waiting.clone();
        for (from, to) in [(0, 1), (1, 0)].into_iter().cycle().take(if at == 10 { 0 } else { 8 }) {
            let message = waiting.take().or_else(|| Some(servers[from].poll_transmit(now)?.1));
            message.iter().for_each(|message| servers[to].handle_message(now, id(from), message).unwrap());
        }
        (first, servers[1].poll_service().map(|(.., bytes)| bytes), servers[1].total_service(climate().0, climate().1))
    };
    assert_eq!(run(0, 3, None).1, Some(3 * MIB));
    let (waited, ..) = run(10, 5, None);
    let (_, given, total) = run(20, 7, waited);
    assert_eq!((given, total), (None, Some(15 * MIB)));
    assert_eq!(run(22, 1, None).1, Some(MIB));
}

/// Without keep-alives and changes, only the greeting reveals that a server restarted.
#[test]
fn a_silent_restart_is_noticed() {
    let mut world = World::new(1, 2, CoordinationSettings { keep_alive: None, ..CoordinationSettings::default() });
    world.report(0, climate(), 5 * MIB);
    world.run_for(seconds(100));
    let before = world.messages();
    world.network.loss_percent = 100;
    world.restart(1);
    world.run_for(seconds(1));
    world.network.loss_percent = 0;
    world.run_for(seconds(10));
    world.views_are_equal(&[climate()]).unwrap();
    assert!(world.messages() > before - world.servers[1].coordinator.sent().messages);
}

#[test]
fn a_silent_peer_is_asked_more_and_more_rarely() {
    let mut world = World::new(1, 2, CoordinationSettings { keep_alive: None, ..CoordinationSettings::default() });
    world.run_for(seconds(1));
    world.crash(1);
    let sent = |world: &World| world.servers[0].coordinator.sent().messages;
    let before = sent(&world);
    for _ in 0..1000 {
        world.report(0, climate(), MIB);
        world.run_for(Duration::from_millis(100));
    }
    // Each report is one until the silence is noticed, after three seconds.
    let sent = sent(&world) - before;
    assert!(sent < 100, "{sent} for 1000 reports");
}

#[test]
fn acknowledgements_ride_on_other_messages() {
    let mut world = World::new(1, 2, CoordinationSettings { keep_alive: None, ..CoordinationSettings::default() });
    world.run_for(seconds(1));
    let before = world.messages();
    for _ in 0..100 {
        (0..2).for_each(|server| world.report(server, climate(), MIB));
        world.run_for(Duration::from_millis(50));
    }
    world.run_for(seconds(10));
    let sent = world.messages() - before;
    assert!(sent < 250, "{sent} for 200 reports, each of which is acknowledged");
}

/// A message to the earlier incarnation is in transit when the server restarts; its sender must be older.
#[test]
fn a_peer_that_knew_an_earlier_incarnation_is_older() {
    let mut world = world();
    world.run_for(Duration::from_millis(10));
    world.network.delay_ms_max = 2000;
    world.report(0, climate(), MIB);
    world.network.loss_percent = 100;
    world.restart(1);
    world.run_for(seconds(3));
    assert_eq!((given(&world, 1), world.servers[1].baseline[&climate()]), (0, MIB));
}

/// Symptom: a server whose clock had gone back before its proxy restarted was ignored until the clock had caught up.
/// Cause: its incarnation, the time of the start, was less than the one before.
#[test]
fn a_server_whose_clock_went_back_is_heard_within_seconds() {
    for (cut, keep_alive) in [(0, Some(1)), (60, Some(1)), (0, None)] {
        let (cut, keep_alive) = (seconds(cut), keep_alive.map(seconds));
        let mut world = World::new(1, 3, CoordinationSettings { keep_alive, ..CoordinationSettings::default() });
        world.report(1, climate(), 10 * MIB);
        world.run_for(seconds(10));
        // One of the two that know it does not hear of the restart at first.
        world.cut = (!cut.is_zero()).then_some((0, 1));
        world.restart_after_its_clock_went_back(1);
        world.report(1, climate(), MIB);
        world.run_for(cut);
        world.cut = None;
        world.run_for(seconds(5));
        world.report(1, climate(), 5 * MIB);
        world.run_for(seconds(1));
        // What it gave in the first moment, before the others could tell it, is lost.
        assert_eq!([given(&world, 0), given(&world, 2)], [15 * MIB; 2], "after {cut:?}");
        let outlived = |event: &Event| matches!(event, Event::Outlived { incarnation, .. } if *incarnation > FIRST);
        assert_eq!(world.servers[1].events.iter().filter(|event| outlived(event)).count(), 1);
    }
}
