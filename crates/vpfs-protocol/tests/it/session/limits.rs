//! Back-pressure, bounds and draining.

use vpfs_protocol::session::orangefs::AddressMap;
use vpfs_protocol::session::{Action, CloseReason, SessionLimits, Side};
use vpfs_protocol::wire::pvfs2::{Dist, IoType, Op};

use crate::session::common::messages::*;
use crate::session::common::{Wire, assert_same};

#[test]
fn a_full_session_does_not_read_its_client() {
    let mut wire = Wire::with_ops(2);
    wire.sent(&readdir(1));
    assert!(wire.session.wants_client());
    let (second, _) = wire.held(&readdir(2));
    assert!(!wire.session.wants_client(), "held and in progress count alike");
    assert!(wire.session.wants_server());
    wire.server(&readdir_reply(1, 1));
    assert!(wire.session.wants_client());
    wire.dispatch(second);
    wire.held(&readdir(3));
    assert!(!wire.session.wants_client());
}

/// Symptom: memory of a connection was bounded by the number of its operations only, from 88 bytes to 16 KiB each.
/// Cause: nothing counted the data inside requests.
#[test]
fn bytes_of_requests_stop_the_client() {
    let limits = SessionLimits { request_bytes: 64 << 10, ..SessionLimits::default() };
    let mut wire = Wire::with(limits, AddressMap::default());
    let request = |tag| small_write(tag, 16_000);
    let mut ops = Vec::new();
    while wire.session.wants_client() {
        let tag = i32::try_from(ops.len()).unwrap() + 1;
        ops.push(wire.held(&request(tag)).0);
    }
    assert_eq!(ops.len(), 4);
    assert!(wire.session.held_requests() >= 4 * request(1).len());
    // What is sent no longer counts, so the client is read again before the server has answered.
    wire.dispatch(ops[0]);
    assert_same(&wire.take_to_server(), &request(1));
    assert!(wire.session.wants_client());
    for (tag, op) in (2..).zip(&ops[1..]) {
        wire.dispatch(*op);
        assert_same(&wire.take_to_server(), &request(tag));
    }
    assert!((1..10_000).contains(&wire.session.held_requests()), "operations in progress take up something, too");
    (1..=4).for_each(|tag| drop(wire.server(&small_write_reply(tag, 16_000, 16_000))));
    assert_eq!(wire.session.held_requests(), 0);
}

/// An access in many strips is kept until its end, and takes up eight times as much as the text that describes it.
#[test]
fn descriptions_of_reads_count() {
    let mut wire = Wire::new();
    let strips: String = (0..700).map(|strip| format!("{}:1;", strip % 2)).collect();
    let mut io = io(IoType::Read, 0, 100);
    (io.dist, io.server_ct) = (Dist::VarStrip { strips: strips.as_str().into() }, 2);
    let request = request(1, io);
    wire.sent(&request);
    assert!(wire.session.held_requests() > 4 * request.len(), "{}", wire.session.held_requests());
    wire.server(&refusal(1, Op::Io));
    assert_eq!(wire.session.held_requests(), 0);
}

/// Only its data frees the slots of a dispatched write, and that follows whatever the client sent before.
#[test]
fn data_of_a_dispatched_write_is_read_in_any_case() {
    let mut wire = Wire::with_ops(2);
    wire.sent(&write(1, 5000));
    wire.held(&readdir(2));
    assert!(!wire.session.wants_client(), "not dispatched yet");
    wire.server(&ack(1, 0));
    assert!(wire.session.wants_client());
    // Requests that precede the data are accepted as well.
    wire.held(&readdir(3));
    assert!(wire.session.wants_client());
    let chunk = data(1, 5000);
    wire.client(&chunk[..100]);
    assert!(wire.session.wants_client());
    wire.client(&chunk[100..]);
    assert!(!wire.session.wants_client(), "all data is here; the server has to store it");
    wire.server(&written(1, 5000));
    assert!(!wire.session.wants_client());
}

/// Symptom: a full session stopped reading in the middle of a message of no operation, for whose end a dispatched
/// request waited with its slots.
#[test]
fn a_message_is_read_to_its_end_in_any_case() {
    let mut wire = Wire::with_ops(2);
    wire.sent(&write(1, 5000));
    let (held, _) = wire.held(&readdir(2));
    wire.server(&ack(1, 0));
    wire.held(&readdir(3));
    let chunk = data(1, 5000);
    wire.client_passes(&chunk[..100]);
    wire.server(&refusal(1, Op::WriteCompletion));
    wire.dispatch(held);
    assert!(wire.session.to_server().is_empty());
    assert!(wire.session.wants_client());
    wire.client(&chunk[100..]);
    assert_same(&wire.take_to_server(), &[&chunk[100..], &readdir(2)].concat());
    assert!(!wire.session.wants_client());
}

#[test]
fn data_of_a_refused_or_failed_write_is_not_awaited() {
    let mut wire = Wire::with_ops(2);
    wire.sent(&write(1, 5000));
    wire.held(&readdir(2));
    wire.held(&readdir(3));
    wire.server(&ack(1, 0));
    assert!(wire.session.wants_client());
    wire.server(&refusal(1, Op::WriteCompletion));
    assert!(!wire.session.wants_client());
}

#[test]
fn bytes_towards_one_side_stop_the_other() {
    let limits = SessionLimits { outbound_bytes: 10_000, ..SessionLimits::default() };
    let mut wire = Wire::with(limits, AddressMap::default());
    wire.client(&data(9, 9_000));
    assert!(wire.session.wants_client());
    wire.client(&data(9, 1_000));
    assert!(!wire.session.wants_client() && wire.session.wants_server());
    wire.session.to_server().advance(100);
    assert!(wire.session.wants_client());

    wire.server(&data(9, 9_000));
    assert!(wire.session.wants_server());
    wire.server(&data(9, 1_000));
    assert!(!wire.session.wants_server());
    wire.take_to_client();
    assert!(wire.session.wants_server());
}

#[test]
fn no_more_than_an_incomplete_message_stays_in_the_buffers() {
    let mut wire = Wire::new();
    let longest = padded_metadata(1, 16384);
    wire.client(&longest[..longest.len() - 1]);
    assert_eq!(wire.client_buf.len(), longest.len() - 1);
    let op = wire.held(&longest[longest.len() - 1..]).0;
    assert!(wire.client_buf.is_empty());
    wire.dispatch(op);
    assert_same(&wire.take_to_server(), &longest);
    // Bulk data does not stay in the buffer at all.
    wire.client_passes(&data(9, 5 << 20)[..1 << 20]);
    assert!(wire.client_buf.is_empty());
    let reply = readdir_reply(1, 600);
    wire.server_passes(&reply[..24 + 48]);
    assert!(wire.server_buf.is_empty());
    wire.server_passes(&reply[24 + 48..]);
}

/// Symptom: a queued request kept all of the socket's read buffer: 256 KiB for a few hundred bytes.
#[test]
fn queued_requests_do_not_keep_the_bytes_that_arrived_with_them() {
    let mut wire = Wire::new();
    let room = 256 << 10;
    wire.client_buf.reserve(room);
    wire.held(&readdir(1));
    wire.held(&request(2, create(&["tcp://somewhere:1"])));
    wire.client_passes(&data(9, 100_000));
    assert!(wire.client_buf.try_reclaim(room), "a part of the buffer is still in use");
}

/// Symptom: a client that sent its requests together was closed although there was no write.
#[test]
fn requests_that_arrive_in_one_read_are_permitted() {
    for ops in [1, 8, 256, 1000] {
        let mut wire = Wire::with_ops(ops);
        let mut requests = Vec::new();
        for tag in 1.. {
            requests.extend_from_slice(&statfs(tag));
            if requests.len() >= 256 << 10 {
                break;
            }
        }
        let count = requests.len() / statfs(1).len();
        for tag in 0..i32::try_from(ops).unwrap() - 1 {
            wire.held(&statfs(100_000 + tag));
        }
        assert!(wire.session.wants_client());
        assert_eq!(wire.client(&requests).len(), count);
        assert!(!wire.session.is_closed() && !wire.session.wants_client());
    }
}

#[test]
fn too_many_requests_while_a_write_waits_for_its_data_close() {
    let mut wire = Wire::with_ops(1000);
    wire.sent(&write(1, 5000));
    wire.server(&ack(1, 0));
    let mut tag = 2;
    let actions = loop {
        assert!(tag < 20_000, "no bound");
        assert!(tag % 100 > 0 || wire.session.wants_client(), "the write still waits");
        let actions = wire.client(&readdir(tag));
        if !matches!(actions[..], [Action::Enqueue(..)]) {
            break actions;
        }
        tag += 1;
    };
    assert!(tag > 1000);
    let Some(Action::Close(reason)) = actions.last() else { panic!("{actions:?}") };
    assert!(matches!(reason, CloseReason::Violation { side: Side::Client, .. }), "{reason}");
    assert!(!wire.session.wants_client());
}

/// Symptom: 14 connections took 836 MiB. Cause: while write data is awaited, the only bound was a number of requests,
/// and 4,352 with data in them are 68 MiB.
#[test]
fn bytes_of_requests_are_bounded_while_a_write_waits_for_its_data() {
    let mut wire = Wire::new();
    wire.sent(&write(1, 5000));
    wire.server(&ack(1, 0));
    let mut most = 0;
    for tag in 2.. {
        assert!(wire.session.wants_client() && wire.session.awaits_rest(Side::Client));
        let actions = wire.client(&small_write(tag, 16_000));
        if !matches!(actions[..], [Action::Enqueue(..)]) {
            let Some(Action::Close(CloseReason::Violation { side: Side::Client, .. })) = actions.last() else {
                panic!("{actions:?}")
            };
            break;
        }
        most = wire.session.held_requests();
    }
    let bound = 2 * SessionLimits::default().request_bytes;
    assert!((bound..bound + (20 << 10)).contains(&most), "{most}");
    wire.session.end();
    wire.actions();
    assert_eq!(wire.session.held_requests(), 0);
    assert!(wire.record.is_empty());
}

/// Symptom: beside a connection of several writers, a drain lasted for all of `limits.drain_timeout`. Cause: while data
/// of one write was awaited, which others may follow on the same connection, their requests were still taken. Proof:
/// what comes while draining is not sent, and nothing more is awaited after the data.
#[test]
fn a_drain_ends_although_requests_keep_coming_between_write_data() {
    let mut wire = Wire::new();
    wire.sent(&write(1, 5000));
    assert!(!wire.drains());
    wire.server_passes(&ack(1, 0));
    assert_eq!(wire.client(&write(2, 5000)), []);
    wire.client_passes(&data(1, 5000));
    assert!(!wire.session.wants_client());
    wire.server(&written(1, 5000));
    wire.take_to_client();
    wire.take_to_server();
    assert!(wire.drains());
}

#[test]
fn drain_waits_for_what_is_in_progress() {
    let mut wire = Wire::new();
    assert!(wire.drains(), "nothing was ever in progress");

    let mut wire = Wire::new();
    wire.sent(&write(1, 5000));
    let (held, _) = wire.held(&readdir(2));
    assert!(!wire.drains());
    assert!(!wire.session.wants_client() && wire.session.wants_server());
    wire.server_passes(&ack(1, 0));
    assert!(wire.session.wants_client(), "the data of a dispatched write is still read");
    let chunk = data(1, 5000);
    wire.client_passes(&chunk[..100]);
    assert!(!wire.drains());
    wire.client_passes(&chunk[100..]);
    assert!(!wire.session.wants_client());
    wire.server(&written(1, 5000));
    assert!(!wire.drains());
    wire.dispatch(held);
    wire.server(&readdir_reply(2, 1));
    assert!(!wire.drains(), "bytes are on their way in both directions");
    wire.take_to_client();
    assert!(!wire.drains());
    wire.take_to_server();
    assert!(wire.drains());
    wire.server(&data(9, 0));
    assert!(!wire.drains());
    wire.take_to_client();
    assert!(wire.drains());
}

#[test]
fn drain_lets_the_message_in_between_end() {
    let mut wire = Wire::new();
    let stray = data(9, 5000);
    wire.client_passes(&stray[..100]);
    assert!(!wire.drains());
    assert!(wire.session.wants_client());
    wire.client_passes(&stray[100..]);
    assert!(wire.drains());
    wire.server_passes(&stray[..100]);
    assert!(!wire.drains());
    wire.server_passes(&stray[100..]);
    assert!(wire.drains());
}

/// Symptom: a read of 256 KiB full of requests with long descriptions kept all other connections of a thread waiting
/// for most of a second. Cause: the session took all requests that had arrived at once. Proof: it leaves most of them,
/// and takes them later, in order.
#[test]
fn requests_that_take_much_computation_are_taken_a_few_at_a_time() {
    const COUNT: i32 = 100;
    let mut wire = Wire::new();
    let all: Vec<u8> = (0..COUNT).flat_map(|tag| request(tag, too_complex(IoType::Read))).collect();
    let mut taken = wire.client(&all).len();
    assert!((1..20).contains(&taken), "{taken} at once");
    while wire.session.is_behind() {
        let more = wire.client(&[]).len();
        assert!((1..20).contains(&more), "{more} at once");
        taken += more;
    }
    assert_eq!(taken, COUNT as usize);
    assert!(wire.client_buf.is_empty());
    // Ordinary requests are taken all at once.
    let all: Vec<u8> = (COUNT..2 * COUNT).flat_map(|tag| read(tag, 1 << 20)).collect();
    assert_eq!(wire.client(&all).len(), COUNT as usize);
    assert!(!wire.session.is_behind());
}
