//! Clients that hang: what waits for them gives its slots back, in every state, and continues when they do.

use std::time::Duration;

use vpfs_core::{OpKind, Pieces};
use vpfs_protocol::session::orangefs::AddressMap;
use vpfs_protocol::session::{Action, CloseReason, OpId, SessionLimits};

use super::common;
use crate::session::common::messages::*;
use crate::session::common::{Wire, assert_done};

/// Slots are given back after one second, which is checked twice a second.
const STALL: Duration = Duration::from_millis(1600);
const SHORT: Duration = Duration::from_millis(900);

fn assert_released(wire: &mut Wire, ops: &[OpId]) {
    assert_eq!(wire.wait(SHORT), [], "a pause is no stall");
    let expected: Vec<_> = ops.iter().copied().map(Action::Release).collect();
    assert_eq!(wire.wait(STALL - SHORT), expected);
    assert_eq!(wire.wait(Duration::from_secs(60)), [], "once, and it is not over");
}

#[test]
fn a_write_whose_data_stops_and_the_requests_behind_it() {
    let mut wire = Wire::new();
    let op = wire.sent(&write(1, 100_000));
    // Until the server has acknowledged it, the client has nothing to send.
    wire.wait(Duration::from_secs(20));
    wire.server_passes(&ack(1, 0));
    let (behind, _) = wire.held(&readdir(2));
    let all = data(1, 100_000);
    wire.client_passes(&all[..40_000]);
    wire.dispatch(behind);
    assert_released(&mut wire, &[op, behind]);
    wire.client(&all[40_000..]);
    assert_done(&wire.server_passes(&written(1, 100_000)), op, 100_000);
    assert_done(&wire.server_passes(&readdir_reply(2, 3)), behind, 0);
    wire.take_to_server();
    wire.assert_idle();
}

#[test]
fn replies_that_are_not_taken() {
    let limits = SessionLimits { outbound_bytes: 100_000, ..SessionLimits::default() };
    let mut wire = Wire::with(limits, AddressMap::default());
    let reading = wire.sent(&read(1, 300_000));
    let looking = wire.sent(&readdir(2));
    wire.server(&ack(1, 300_000));
    let all = data(1, 300_000);
    wire.server(&all[..150_000]);
    assert!(!wire.session.wants_server());
    assert_released(&mut wire, &[reading, looking]);
    wire.take_to_client();
    assert_done(&wire.server_passes(&all[150_000..]), reading, 300_000);
    assert_done(&wire.server_passes(&readdir_reply(2, 3)), looking, 0);
    wire.assert_idle();
}

/// Otherwise each of many queued operations of such a client would have a slot for a second.
#[test]
fn what_is_dispatched_while_the_client_hangs_takes_no_slot() {
    let mut wire = Wire::new();
    let first = wire.sent(&write(1, 100_000));
    let second = wire.sent(&write(2, 100_000));
    wire.server_passes(&ack(1, 0));
    assert_released(&mut wire, &[first]);
    assert_eq!(wire.server_passes(&ack(2, 0)), [Action::Release(second)]);
    let (third, _) = wire.held(&readdir(3));
    wire.send(third);
    assert_eq!(wire.wait(STALL), [], "only the server can end it, and the client was there just now");
    assert_done(&wire.server_passes(&readdir_reply(3, 1)), third, 0);
}

/// Bytes that a client must move in a second for each operation that waits for it.
const LEAST: usize = 64 << 10;

#[test]
fn a_slow_client_keeps_its_slots() {
    let mut wire = Wire::new();
    let writes = [1, 2].map(|tag| wire.sent(&write(tag, 1_000_000)));
    _ = [1, 2].map(|tag| wire.server_passes(&ack(tag, 0)));
    for (tag, op) in [1, 2].into_iter().zip(writes) {
        for chunk in data(tag, 1_000_000).chunks(4 * LEAST) {
            assert_eq!(wire.client_passes(chunk), []);
            assert_eq!(wire.wait(SHORT / 2), []);
        }
        assert_done(&wire.server_passes(&written(tag, 1_000_000)), op, 1_000_000);
    }
}

/// However small they are: one that ends is progress.
#[test]
fn a_client_that_completes_small_writes_keeps_its_slots() {
    let mut wire = Wire::new();
    for tag in 1..20 {
        wire.sent(&write(tag, 100));
        wire.server_passes(&ack(tag, 0));
    }
    for tag in 1..20 {
        assert_eq!(wire.client_passes(&data(tag, 100)), []);
        assert_eq!(wire.wait(Duration::from_millis(40)), []);
    }
}

/// Sends `bytes` in parts of `count`, one in half a second, until something is released.
fn trickle(wire: &mut Wire, bytes: &[u8], count: usize) -> (Duration, Vec<Action>) {
    let begin = wire.now;
    for part in bytes.chunks(count) {
        let mut actions = wire.client_passes(part);
        actions.extend(wire.wait(Duration::from_millis(500)));
        if !actions.is_empty() {
            return (wire.now.since(begin), actions);
        }
    }
    panic!("it keeps its slots as long as it likes");
}

/// Requests between its bytes are no progress either, whether they are passed on at once or wait.
#[test]
fn a_write_whose_data_trickles_between_requests() {
    let mut wire = Wire::new();
    let op = wire.sent(&write(1, 1_000_000));
    wire.server_passes(&ack(1, 0));
    for half_second in 0..4 {
        let tags = 2 + 20 * half_second..22 + 20 * half_second;
        let bytes: Vec<u8> = tags.flat_map(|tag| [data(1, 1), getconfig(tag)].concat()).collect();
        let mut actions = wire.client(&bytes);
        wire.take_to_server();
        actions.extend(wire.wait(Duration::from_millis(500)));
        if actions.contains(&Action::Release(op)) {
            return;
        }
    }
    panic!("it keeps its slots for two seconds");
}

/// One that sends the data of one write as slowly as for one keeps no slots for the others.
#[test]
fn a_client_that_is_slow_for_all_its_writes() {
    let mut wire = Wire::new();
    let writes = [1, 2, 3, 4].map(|tag| wire.sent(&write(tag, 10_000_000)));
    _ = [1, 2, 3, 4].map(|tag| wire.server_passes(&ack(tag, 0)));
    let (_, actions) = trickle(&mut wire, &data(1, 10_000_000), LEAST);
    assert_eq!(actions, writes.map(Action::Release));
}

/// Requests that are dispatched wait for the end of the message that the client is sending.
///
/// Symptom: a client that sent one byte a second kept its slots. Cause: every byte was progress.
#[test]
fn a_write_whose_data_trickles_and_the_requests_behind_it() {
    for unsolicited in [false, true] {
        let mut wire = Wire::new();
        let writing = wire.sent(&write(1, 100_000));
        wire.server_passes(&ack(1, 0));
        let (behind, _) = wire.held(&readdir(2));
        let bytes = data(if unsolicited { 9 } else { 1 }, 100_000);
        wire.client_passes(&bytes[..1000]);
        wire.dispatch(behind);
        let (after, actions) = trickle(&mut wire, &bytes[1000..], 1);
        assert_eq!(actions, [writing, behind].map(Action::Release));
        assert!(after <= Duration::from_secs(2), "{after:?}");
    }
}

/// A client that takes a byte of its replies now and then.
#[test]
fn replies_that_are_taken_in_trickles() {
    let limits = SessionLimits { outbound_bytes: 100_000, ..SessionLimits::default() };
    let mut wire = Wire::with(limits, AddressMap::default());
    let reading = wire.sent(&read(1, 1_000_000));
    wire.server(&ack(1, 1_000_000));
    let all = data(1, 1_000_000);
    wire.server(&all[..400_000]);
    let mut released = Vec::new();
    for _ in 0..4 {
        wire.session.to_client().advance(1);
        released.extend(wire.wait(Duration::from_millis(500)));
    }
    assert_eq!(released, [Action::Release(reading)]);
    // One that takes enough keeps its slots.
    let mut wire = Wire::with(limits, AddressMap::default());
    wire.sent(&read(1, 1_000_000));
    wire.server(&ack(1, 1_000_000));
    wire.server(&all[..900_000]);
    for _ in 0..10 {
        wire.session.to_client().advance(LEAST);
        assert_eq!(wire.wait(SHORT), []);
    }
}

#[test]
fn a_client_that_must_wait_is_not_blamed() {
    let mut wire = Wire::new();
    // The server does not take the data.
    wire.sent(&write(1, 100_000));
    wire.server_passes(&ack(1, 0));
    wire.client(&data(1, 50_000));
    assert_eq!(wire.wait(Duration::from_secs(20)), []);
    // The next piece is not due.
    let mut wire = Wire::new();
    let (op, submission) = wire.held(&write(1, 100_000));
    assert_eq!(submission.kind, OpKind::Write);
    wire.dispatch_in(op, Some(Pieces { count: 2, every: Duration::from_secs(20) }));
    wire.take_to_server();
    wire.server_passes(&ack(1, 0));
    wire.client_passes(&data(1, 60_000));
    wire.client(&data(1, 40_000));
    assert_eq!(wire.wait(Duration::from_secs(19)), []);
    // A server that stores slowly.
    let mut wire = Wire::new();
    wire.sent(&write(1, 1000));
    wire.server_passes(&ack(1, 0));
    wire.client_passes(&data(1, 1000));
    assert_eq!(wire.wait(Duration::from_secs(300)), []);
}

#[test]
fn a_driver_may_have_less_patience() {
    let mut wire = Wire::new();
    let op = wire.sent(&write(1, 100_000));
    wire.server_passes(&ack(1, 0));
    wire.session.set_patience(Duration::from_millis(100));
    assert_eq!(wire.wait(Duration::from_millis(520)), [Action::Release(op)], "at the check that was due");
    let op = wire.sent(&read(2, 100_000));
    wire.client_passes(&data(1, 100_000));
    wire.server_passes(&written(1, 100_000));
    wire.server_passes(&ack(2, 100_000));
    assert_eq!(wire.wait(SHORT), [], "the server is slow");
    assert_done(&wire.server_passes(&data(2, 100_000)), op, 100_000);
    let op = wire.sent(&write(3, 100_000));
    wire.server_passes(&ack(3, 0));
    assert_eq!(wire.wait(Duration::from_millis(90)), []);
    assert_eq!(wire.wait(Duration::from_millis(70)), [Action::Release(op)]);
}

// Requests that begin and do not end: the client is disconnected, unless the proxy itself made it wait.

const SECOND: Duration = Duration::from_secs(1);
const INCOMPLETE: Action = Action::Close(CloseReason::Incomplete);

#[test]
fn a_part_of_a_header_or_request_is_not_kept_for_ever() {
    let request = readdir(1);
    for part in [1, 23, 24, 25, request.len() - 1] {
        let mut wire = Wire::new();
        assert_eq!(wire.client(&request[..part]), []);
        assert_eq!(wire.wait(9 * SECOND), [], "{part} bytes");
        assert_eq!(wire.wait(SECOND), [INCOMPLETE], "{part} bytes");
        assert!(!wire.session.wants_client() && wire.session.poll_timeout().is_none());
    }
}

#[test]
fn a_part_of_a_data_header_is_one_as_well() {
    let mut wire = Wire::new();
    wire.sent(&write(1, 1000));
    wire.server_passes(&ack(1, 0));
    wire.client(&data(1, 1000)[..20]);
    assert_eq!(wire.wait(10 * SECOND).last(), Some(&INCOMPLETE));
}

/// Bytes that trickle in must not extend the time limit.
#[test]
fn one_byte_each_second_is_too_slow() {
    let (mut wire, request, mut sent) = (Wire::new(), readdir(1), 0);
    while wire.session.wants_client() {
        wire.client(&request[sent..=sent]);
        sent += 1;
        wire.wait(SECOND);
    }
    assert_eq!(sent, 10);
}

#[test]
fn each_request_has_its_own_time_limit() {
    let mut wire = Wire::new();
    let mut stream = Vec::new();
    (1..=20).for_each(|tag| stream.extend(readdir(tag)));
    let half = readdir(1).len() / 2;
    let (mut from, mut to) = (0, half);
    while from < stream.len() {
        assert_eq!(wire.client(&stream[from..to]).into_iter().find(|action| *action == INCOMPLETE), None);
        wire.wait(9 * SECOND);
        (from, to) = (to, stream.len().min(to + 2 * half));
    }
    assert!(!wire.session.is_closed());
}

#[test]
fn a_client_between_messages_may_be_idle_for_ever() {
    let mut wire = Wire::new();
    wire.wait(100_000 * SECOND);
    let op = wire.sent(&readdir(1));
    common::assert_done(&wire.server_passes(&readdir_reply(1, 1)), op, 0);
    assert_eq!(wire.wait(100_000 * SECOND), []);
    wire.assert_idle();
}

#[test]
fn the_data_of_writes_is_not_covered() {
    let mut wire = Wire::new();
    wire.sent(&write(1, 100_000));
    wire.server_passes(&ack(1, 0));
    let all = data(1, 100_000);
    wire.client_passes(&all[..30_000]);
    assert!(!wire.wait(60 * SECOND).contains(&INCOMPLETE));
    // Nor is data that must wait for its turn.
    let mut wire = Wire::new();
    let (op, _) = wire.held(&write(1, 100_000));
    wire.dispatch_in(op, Some(Pieces { count: 2, every: 20 * SECOND }));
    wire.take_to_server();
    wire.server_passes(&ack(1, 0));
    wire.client_passes(&data(1, 60_000));
    wire.client(&data(1, 40_000));
    assert!(!wire.wait(60 * SECOND).contains(&INCOMPLETE));
}

/// The rest may have been in the socket all the time.
#[test]
fn a_client_that_was_not_read_is_not_blamed() {
    let mut wire = Wire::new();
    let request = readdir(1);
    wire.client(&request[..30]);
    for _ in 0..20 {
        assert_eq!(wire.wait(9 * SECOND), []);
        wire.session.client_waited(wire.now);
    }
    assert_eq!(wire.wait(9 * SECOND), []);
    assert!(matches!(wire.client(&request[30..])[..], [Action::Enqueue(..)]));
}
