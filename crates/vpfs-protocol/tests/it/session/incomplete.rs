//! Requests that begin and do not end: the client is disconnected, unless the proxy itself made it wait.

use std::time::Duration;

use crate::session::common;
use vpfs_core::Pieces;
use vpfs_protocol::session::{Action, CloseReason};

use crate::session::common::Wire;
use crate::session::common::messages::*;

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
