//! Abnormal endings: timeouts, connections that end, peers that break the protocol.

use std::time::Duration;

use vpfs_core::{Bytes, MIN_DATA_COST, OpKind};
use vpfs_protocol::session::{Action, CloseReason, Completed, OpId, Outcome, SessionLimits, Side};
use vpfs_protocol::wire::bmi::{Header, Mode, Tag};
use vpfs_protocol::wire::pvfs2::Op;

use crate::session::common::messages::*;
use crate::session::common::{Wire, assert_done, assert_same, completed};

const REPLY: Duration = Duration::from_secs(330);
const FLOW: Duration = Duration::from_secs(60);
const STALL: Duration = Duration::from_secs(300);
/// What a server may have read that has not arrived here.
const READ_AHEAD: u64 = 10 << 20;
/// More than the time between two checks.
const LATE: Duration = Duration::from_secs(16);

fn timed_out(actions: &[Action], op: OpId) -> Completed {
    let completed = completed(actions);
    assert_eq!((completed.op, completed.outcome), (op, Outcome::TimedOut));
    completed
}

#[test]
fn missing_reply_frees_the_slots_and_may_arrive_later() {
    let mut wire = Wire::new();
    let op = wire.sent(&readdir(1));
    assert_eq!(wire.wait(REPLY - LATE), []);
    timed_out(&wire.wait(2 * LATE), op);
    // The client has already repeated it, and the first answer may still arrive.
    let again = wire.sent(&readdir(2));
    assert_eq!(wire.server_passes(&readdir_reply(1, 600)), []);
    assert_done(&wire.server_passes(&readdir_reply(2, 600)), again, 0);
    wire.assert_idle();
}

#[test]
fn flow_that_stops_is_charged_what_it_moved_and_what_was_read_ahead() {
    let mut wire = Wire::new();
    let op = wire.sent(&read(1, 1 << 30));
    wire.server(&ack(1, 1 << 30));
    // Slow data is progress.
    for chunk in data(1, 100_000).chunks(10_024) {
        assert_eq!(wire.server(chunk), []);
        assert_eq!(wire.wait(FLOW - LATE), []);
    }
    let actions = wire.wait(2 * LATE);
    assert_eq!(timed_out(&actions, op).moved, 100_000);
    assert_eq!(actions[0], Action::CorrectCost(op, Bytes(100_000 + READ_AHEAD)));
    wire.assert_idle();
    // The rest passes, and belongs to no operation.
    wire.take_to_client();
    assert_eq!(wire.server_passes(&data(1, 262_144)), []);
    wire.assert_idle();
}

#[test]
fn write_whose_data_does_not_come() {
    let mut wire = Wire::new();
    let op = wire.sent(&write(1, 1 << 20));
    wire.server(&ack(1, 0));
    assert_eq!(wire.wait(STALL - LATE), [Action::Release(op)]);
    let actions = wire.wait(2 * LATE);
    assert_eq!(timed_out(&actions, op).moved, 0);
    assert_eq!(actions.len(), 1, "it is charged for what the server was asked for");
    // Late data and the late completion pass.
    wire.take_to_client();
    wire.client_passes(&data(1, 1 << 20));
    assert_eq!(wire.server_passes(&written(1, 1 << 20)), []);
    wire.assert_idle();
}

#[test]
fn flow_timeout_starts_at_the_acknowledgement() {
    let mut wire = Wire::new();
    for (tag, request, patience) in [(1, read(1, 5000), FLOW), (2, write(2, 5000), STALL)] {
        wire.sent(&request);
        assert_eq!(wire.wait(REPLY - LATE), []);
        wire.server(&ack(tag, 5000));
        wire.take_to_client();
        assert!(!wire.wait(patience - LATE).iter().any(|action| matches!(action, Action::Complete(_))));
        assert_eq!(completed(&wire.wait(2 * LATE)).outcome, Outcome::TimedOut);
    }
}

#[test]
fn server_that_stores_slowly_has_the_longer_timeout() {
    let mut wire = Wire::new();
    let op = wire.sent(&write(1, 5000));
    wire.server(&ack(1, 0));
    wire.client(&data(1, 5000));
    assert_eq!(wire.wait(REPLY - LATE), []);
    timed_out(&wire.wait(2 * LATE), op);
    wire.assert_idle();
}

#[test]
fn held_requests_have_no_time_out() {
    let mut wire = Wire::new();
    let (op, _) = wire.held(&readdir(1));
    assert_eq!(wire.wait(SessionLimits::default().max_hold - LATE), []);
    wire.client_passes(&data(9, 100)[..50]);
    wire.dispatch(op);
    let actions = wire.wait(10 * REPLY);
    assert_eq!(actions, [Action::Release(op)], "not sent before the end of the message, for which no slot waits");
    wire.client(&data(9, 100)[50..]);
    // Its time starts when it is sent.
    assert_eq!(wire.wait(REPLY - LATE), []);
    timed_out(&wire.wait(2 * LATE), op);
}

/// Symptom: a session whose operations were all queued woke its driver every 15 s for no reason.
#[test]
fn there_is_a_timer_only_while_something_is_in_progress() {
    let mut wire = Wire::new();
    wire.sent(&readdir(1));
    let (held, _) = wire.held(&readdir(2));
    assert!(wire.session.poll_timeout().is_some());
    wire.server(&readdir_reply(1, 1));
    // At most the time that was already set.
    wire.wait(LATE);
    assert_eq!(wire.session.poll_timeout(), None);
    wire.client(&data(9, 1000));
    assert_eq!(wire.session.poll_timeout(), None);
    wire.dispatch(held);
    assert!(wire.session.poll_timeout().is_some());
}

/// Symptom: a driver that waited for a slow client to receive the last bytes never slept again.
#[test]
fn there_is_no_timer_after_the_end() {
    let mut wire = Wire::new();
    wire.sent(&readdir(1));
    wire.server(&readdir_reply(1, 1));
    wire.server_eof();
    assert!(!wire.session.to_client().is_empty());
    assert_eq!(wire.session.poll_timeout(), None);
}

/// The number of an operation that timed out in the middle of a message is reused; the rest of the message must not
/// count for the new one.
#[test]
fn number_is_used_again_while_the_old_message_passes() {
    let mut wire = Wire::new();
    let old = wire.sent(&read(1, 50_000));
    wire.server(&ack(1, 50_000));
    let late = data(1, 50_000);
    wire.server(&late[..20_000]);
    timed_out(&wire.wait(FLOW + LATE), old);
    let new = wire.sent(&read(2, 50_000));
    assert!(old.index == new.index && old != new, "{old:?} {new:?}");
    wire.take_to_client();
    assert_eq!(wire.server_passes(&late[20_000..]), []);
    wire.server_passes(&ack(2, 50_000));
    assert_done(&wire.server_passes(&data(2, 50_000)), new, 50_000);
    wire.assert_idle();
}

#[test]
fn number_is_used_again_while_old_written_data_passes() {
    let mut wire = Wire::new();
    let old = wire.sent(&write(1, 50_000));
    wire.server(&ack(1, 0));
    let late = data(1, 50_000);
    wire.client(&late[..20_000]);
    timed_out(&wire.wait(FLOW + LATE), old);
    wire.client(&[&late[20_000..], &write(2, 300)].concat());
    let new = wire.record.held().next().unwrap();
    assert!(old.index == new.index && old != new, "{old:?} {new:?}");
    wire.dispatch(new);
    wire.take_to_server();
    wire.server(&ack(2, 0));
    wire.client(&data(2, 300));
    wire.take_to_client();
    assert_done(&wire.server_passes(&written(2, 300)), new, 300);
    wire.assert_idle();
}

#[test]
fn reply_that_stops_in_its_middle() {
    let mut wire = Wire::new();
    let old = wire.sent(&readdir(1));
    let reply = readdir_reply(1, 600);
    wire.server_passes(&reply[..5000]);
    timed_out(&wire.wait(REPLY + LATE), old);
    let new = wire.sent(&readdir(2));
    assert!(old.index == new.index && old != new, "{old:?} {new:?}");
    assert_eq!(wire.server_passes(&reply[5000..]), []);
    wire.server_passes(&readdir_reply(2, 1));
    wire.assert_idle();
}

/// Symptom: eight clients that closed their connections after the acknowledgements of 4 MiB reads left others 2 of 300
/// operations a second, in front of a real server. Cause: the half-close was passed on at once; the server then closes,
/// which frees the slots, but goes on reading what it has begun.
#[test]
fn client_that_half_closes_still_receives_replies() {
    let mut wire = Wire::new();
    let reading = wire.sent(&read(1, 10_000));
    let looking = wire.sent(&readdir(2));
    let (held, _) = wire.held(&readdir(3));
    assert!(!wire.session.server_side_done());
    assert_eq!(wire.client_eof(), [Action::Cancel(held)]);
    assert!(!wire.session.wants_client());
    wire.server_passes(&ack(1, 10_000));
    assert_done(&wire.server_passes(&data(1, 10_000)), reading, 10_000);
    assert!(!wire.session.server_side_done());
    assert_done(&wire.server_passes(&readdir_reply(2, 5)), looking, 0);
    assert!(wire.session.server_side_done());
    assert_eq!(wire.client_eof(), []);
    wire.assert_idle();
    assert_eq!(wire.server_eof(), []);
    assert!(wire.session.is_closed());
}

#[test]
fn server_side_is_half_closed_only_after_everything_is_sent() {
    let mut wire = Wire::new();
    wire.client(&getconfig(1));
    wire.client_eof();
    assert!(!wire.session.server_side_done());
    assert_same(&wire.take_to_server(), &getconfig(1));
    assert!(wire.session.server_side_done());
}

/// OrangeFS servers close when they receive the client's end of file, whatever is in progress.
#[test]
fn server_that_closes_ends_everything() {
    let mut wire = Wire::new();
    let reading = wire.sent(&read(1, 100_000));
    wire.server(&ack(1, 100_000));
    wire.server(&data(1, 30_000));
    let (held, _) = wire.held(&readdir(2));
    let waiting = wire.sent(&readdir(3));
    let unanswered = wire.sent(&write(4, 100_000));
    let (granted, _) = wire.held(&read(5, 100_000));
    wire.client(&data(9, 100)[..50]);
    wire.dispatch(granted);
    let passed = wire.session.to_client().len();
    let actions = wire.server_eof();
    assert_eq!(actions[0], Action::Cancel(held));
    let mut costs = Vec::new();
    let mut ends = Vec::new();
    for action in &actions[1..] {
        match action {
            Action::CorrectCost(op, cost) => costs.push((*op, *cost)),
            Action::Complete(Completed { op, outcome: Outcome::Disconnected, moved, .. }) => ends.push((*op, *moved)),
            other => panic!("{other:?}"),
        }
    }
    // The read may have been done; no data of the write was sent, and nothing of the other read.
    assert_eq!(costs, [(unanswered, MIN_DATA_COST), (granted, MIN_DATA_COST)]);
    assert_eq!(ends, [(reading, 30_000), (waiting, 0), (unanswered, 0), (granted, 0)]);
    assert!(wire.session.is_closed());
    assert_eq!(wire.session.to_client().len(), passed, "bytes in transit to the client are still sent");
    // Further input is ignored.
    assert_eq!(wire.client(&readdir(4)), []);
    assert_eq!(wire.server(&readdir_reply(3, 1)), []);
    assert_eq!(wire.client_eof(), []);
    assert_eq!(wire.server_eof(), []);
    wire.session.end();
    assert_eq!(wire.actions(), []);
}

/// The last action closes, nothing more is sent, and everything is returned to the scheduler: before if the server
/// broke the protocol, at the end if the client did.
#[track_caller]
fn closed(wire: &mut Wire, actions: &[Action]) -> CloseReason {
    let Some(Action::Close(reason)) = actions.last() else { panic!("{actions:?}") };
    if !wire.session.is_closed() {
        assert!(reason.to_string().contains("client"), "{reason}");
        assert!(!wire.session.wants_client() && wire.session.to_client().is_empty());
        assert_eq!(wire.client(&readdir(98)), []);
        wire.session.end();
        wire.actions();
    }
    assert!(wire.session.is_closed());
    assert!(wire.session.to_server().is_empty() && wire.session.to_client().is_empty());
    assert!(!wire.session.wants_client() && !wire.session.wants_server());
    assert!(wire.record.is_empty());
    assert_eq!(wire.client(&readdir(99)), []);
    reason.clone()
}

/// A session with one operation held, one in progress, and bytes in transit in both directions.
fn busy() -> Wire {
    let mut wire = Wire::new();
    wire.held(&readdir(50));
    wire.sent(&readdir(51));
    wire.sent(&write(52, 100_000));
    wire.server(&ack(52, 0));
    wire.client(&data(52, 1000));
    wire
}

/// Why a session is closed by this.
#[track_caller]
fn closes(mut wire: Wire, by: impl FnOnce(&mut Wire) -> Vec<Action>) -> CloseReason {
    let actions = by(&mut wire);
    closed(&mut wire, &actions)
}

#[test]
fn client_that_dies_in_the_middle() {
    let request = read(1, 5);
    let message = data(52, 20_000);
    for partial in [&request[..10], &request[..30], &message[..24], &message[..500], &message[..1]] {
        let reason = closes(busy(), |wire| {
            wire.client(partial);
            wire.client_eof()
        });
        assert_eq!(reason, CloseReason::Truncated(Side::Client));
    }
}

#[test]
fn server_that_dies_in_the_middle() {
    let reply = readdir_reply(51, 600);
    for len in [1, 23, 24, 30, 5000] {
        let reason = closes(busy(), |wire| {
            wire.server(&reply[..len]);
            wire.server_eof()
        });
        assert_eq!(reason, CloseReason::Truncated(Side::Server));
    }
}

fn raw(mode: u32, tag: u64, size: u64) -> Vec<u8> {
    let mut bytes = Header { mode: Mode::Eager, tag: Tag(tag), size }.encode();
    bytes[4..8].copy_from_slice(&mode.to_le_bytes());
    bytes.to_vec()
}

#[test]
fn malformed_headers_close_and_name_the_side() {
    let wrong_magic = b"GET / HTTP/1.1\r\nHost: a".to_vec();
    let bad =
        [wrong_magic, raw(1, 51, 0), raw(3, 51, 0), raw(2, 51, 16_385), raw(4, 51, 16_385), raw(8, 51, (16 << 20) + 1)];
    for bytes in bad {
        for side in [Side::Client, Side::Server] {
            let reason = closes(busy(), |wire| match side {
                Side::Client => wire.client(&bytes),
                Side::Server => wire.server(&bytes),
            });
            assert!(matches!(reason, CloseReason::Malformed { side: named, .. } if named == side), "{reason}");
            assert!(reason.to_string().contains(&side.to_string()), "{reason}");
        }
    }
}

#[test]
fn malformed_requests_close() {
    let torn = |message: &[u8]| frame_request(1, &message[24..message.len() - 9]);
    let mut version = readdir(1);
    version[24] ^= 1;
    version[25] = 0;
    let mut operation = readdir(1);
    operation[32] = 200;
    for bytes in
        [torn(&read(1, 5)), torn(&getattr(1, credential("C:h", 1, &[1]))), torn(&small_write(1, 5)), version, operation]
    {
        let reason = closes(busy(), |wire| wire.client(&bytes));
        assert!(matches!(reason, CloseReason::Malformed { side: Side::Client, .. }), "{reason}");
    }
}

#[test]
fn malformed_replies_close() {
    let mut refusal = refusal(52, Op::WriteCompletion);
    refusal.extend_from_slice(&[0; 8]);
    refusal[16] += 8;
    for bytes in [data(51, 100), refusal] {
        let reason = closes(busy(), |wire| wire.server(&bytes));
        assert!(matches!(reason, CloseReason::Malformed { side: Side::Server, .. }), "{reason}");
    }
}

#[track_caller]
fn violation(wire: Wire, by: impl FnOnce(&mut Wire) -> Vec<Action>) -> (Side, &'static str) {
    match closes(wire, by) {
        CloseReason::Violation { side, what } => (side, what),
        reason => panic!("{reason}"),
    }
}

#[test]
fn tag_in_use_closes() {
    for tag in [50, 51, 52] {
        let by = violation(busy(), |wire| wire.client(&readdir(tag)));
        assert_eq!(by, (Side::Client, "a request with the tag of one in progress"));
    }
}

#[test]
fn request_from_the_server_closes() {
    assert_eq!(violation(busy(), |wire| wire.server(&readdir(60))), (Side::Server, "a request"));
}

#[test]
fn reply_to_a_request_that_was_not_sent_closes() {
    assert_eq!(violation(busy(), |wire| wire.server(&readdir_reply(50, 1))).0, Side::Server);
    // Nor while it is dispatched, but not sent.
    let by = violation(busy(), |wire| {
        wire.client(&data(9, 100)[..50]);
        let held = wire.record.held().next().unwrap();
        wire.dispatch(held);
        wire.server(&readdir_reply(50, 1))
    });
    assert_eq!(by.0, Side::Server);
}

/// Such data overtook its request, although messages of one tag keep their order. No client sends unsolicited data.
#[test]
fn data_in_front_of_its_request_closes() {
    for tag in [50, 53] {
        let by = violation(busy(), |wire| {
            wire.held(&write(53, 1000));
            wire.client(&data(tag, 1000))
        });
        assert_eq!(by, (Side::Client, "data of a request that was not sent"));
    }
}

/// After its request data keeps its place, whether the server asked for it or not.
#[test]
fn data_before_the_acknowledgement_counts() {
    let mut wire = Wire::with_ops(1);
    let op = wire.sent(&write(1, 10_000));
    wire.client_passes(&data(1, 10_000));
    wire.server_passes(&ack(1, 0));
    assert!(!wire.session.wants_client(), "all data is here");
    assert_done(&wire.server_passes(&written(1, 10_000)), op, 10_000);
    wire.assert_idle();
}

#[test]
fn reply_of_another_operation_closes() {
    let mut io = vec![small_read_reply(1, 5, 5), readdir_reply(1, 1)];
    let closes = |request: Vec<u8>, before: Option<Vec<u8>>, replies: &[Vec<u8>]| {
        for reply in replies {
            let by = violation(Wire::new(), |wire| {
                wire.sent(&request);
                before.iter().for_each(|before| assert_eq!(wire.server_passes(before), []));
                wire.server(reply)
            });
            assert_eq!(by, (Side::Server, "a reply of another operation than was asked for"));
        }
    };
    closes(read(1, 5), None, &io);
    closes(write(1, 5), None, &io);
    io.push(ack(1, 5));
    closes(write(1, 5), Some(ack(1, 0)), &io);
    closes(small_read(1, 5), None, &[ack(1, 5), readdir_reply(1, 1), small_write_reply(1, 5, 5)]);
    closes(small_write(1, 5), None, &[ack(1, 5), readdir_reply(1, 1), small_read_reply(1, 5, 5)]);
}

/// Symptom: all of a small read's reply was collected before it passed, whatever its header said: up to 16 MiB.
#[test]
fn small_read_with_a_reply_that_is_not_small_closes() {
    let by = violation(Wire::new(), |wire| {
        wire.sent(&small_read(1, 5));
        wire.server(&small_read_reply(1, 16_344, 16_345)[..24])
    });
    assert_eq!(by, (Side::Server, "a reply to a small read of more than 16 KiB"));
}

#[test]
fn small_read_with_the_longest_reply() {
    let mut wire = Wire::new();
    let op = wire.sent(&small_read(1, 16_344));
    assert_done(&wire.server_passes(&small_read_reply(1, 16_344, 16_344)), op, 16_344);
}

#[test]
fn completed_states_when_the_request_arrived_and_was_dispatched() {
    let mut wire = Wire::new();
    let arrived = wire.now;
    let (op, _) = wire.held(&readdir(1));
    wire.wait(Duration::from_secs(2));
    let dispatched = wire.now;
    wire.send(op);
    wire.wait(Duration::from_secs(3));
    let kind = Some(OpKind::Metadata);
    let outcome = Outcome::Answered { status: 0 };
    let expected = Completed { op, kind, outcome, moved: 0, is_stored: false, arrived, dispatched };
    assert_eq!(wire.server_passes(&readdir_reply(1, 1)).last(), Some(&Action::Complete(expected)));
}

#[track_caller]
fn costs_of(actions: &[Action], ops: &[OpId]) -> Vec<Option<Bytes>> {
    let cost = |op: &OpId| {
        actions.iter().find_map(|action| match action {
            Action::CorrectCost(corrected, cost) if corrected == op => Some(*cost),
            _ => None,
        })
    };
    ops.iter().map(cost).collect()
}

/// Symptom: a client that reset its connection at each acknowledgement of a read was charged nearly nothing, and others
/// got 7 of 367 MB/s. Cause: the charge was what had arrived, while the server had read ahead. However a client does
/// it: it resets, stops in the middle of a message, breaks the protocol, or makes the server close.
#[test]
fn hanging_up_does_not_refund_what_the_server_has_done() {
    let huge = 1 << 30;
    let hang_up: [fn(&mut Wire) -> Vec<Action>; 4] = [
        |wire| {
            wire.session.abandon();
            wire.actions()
        },
        |wire| {
            wire.client(&data(9, 100)[..50]);
            wire.client_eof()
        },
        |wire| wire.client(&raw(3, 51, 0)),
        |wire| [wire.client_eof(), wire.server_eof()].concat(),
    ];
    for hang_up in hang_up {
        let mut wire = Wire::new();
        let short = wire.sent(&read(1, 1 << 20));
        let long = wire.sent(&read(2, huge));
        let writing = wire.sent(&write(3, 1 << 20));
        let asked = wire.sent(&read(4, 1 << 20));
        wire.server(&[ack(1, 1 << 20), ack(2, huge), ack(3, 0), data(2, 1 << 18)].concat());
        wire.client(&data(3, 100_000));
        let mut actions = hang_up(&mut wire);
        wire.session.end();
        actions.extend(wire.actions());
        let expected = [None, Some(Bytes((1 << 18) + READ_AHEAD)), Some(Bytes(100_000)), None];
        assert_eq!(costs_of(&actions, &[short, long, writing, asked]), expected, "what differs from what it asked for");
    }
}

/// Their slots are free when the server has done what it does in any case.
#[test]
fn what_was_sent_goes_on_without_its_client() {
    let mut wire = Wire::new();
    let reading = wire.sent(&read(1, 1 << 20));
    let looking = wire.sent(&readdir(2));
    let stored = wire.sent(&write(3, 1000));
    let unsent = wire.sent(&write(4, 1000));
    wire.server(&[ack(1, 1 << 20), ack(3, 0), ack(4, 0)].concat());
    wire.client(&data(3, 1000));
    let (held, _) = wire.held(&readdir(5));
    let (behind, _) = wire.held(&read(6, 5000));
    wire.client(&data(4, 1000)[..500]);
    wire.dispatch(behind);
    wire.session.abandon();
    let actions = wire.actions();
    assert_eq!(actions[0], Action::Cancel(held));
    assert_eq!(actions[1], Action::CorrectCost(behind, MIN_DATA_COST), "it was not sent");
    assert_eq!(completed(&actions).op, behind);
    wire.session.abandon();
    assert_eq!(wire.actions(), []);
    assert!(!wire.session.wants_client() && wire.session.awaits_server());
    assert_eq!(wire.client(&data(4, 1000)[500..]), [], "its bytes are ignored");
    assert_done(&wire.server(&data(1, 1 << 20)), reading, 1 << 20);
    assert_done(&wire.server(&readdir_reply(2, 600)), looking, 0);
    assert!(wire.session.awaits_server());
    assert_done(&wire.server(&written(3, 1000)), stored, 1000);
    assert!(!wire.session.awaits_server(), "the server waits for data that does not come");
    wire.session.end();
    assert_eq!(completed(&wire.actions()).op, unsent);
}

/// A long read would keep server and slots busy for nobody.
#[test]
fn a_long_read_is_not_awaited_before_its_end() {
    let mut wire = Wire::new();
    let huge = 20 << 20;
    wire.sent(&read(1, huge));
    wire.server(&ack(1, huge));
    wire.client_eof();
    assert!(wire.session.server_side_done());
    wire.session.abandon();
    assert!(!wire.session.awaits_server());
    for _ in 0..10 {
        wire.server(&data(1, 1 << 20));
    }
    assert!(wire.session.awaits_server(), "the rest was read ahead");
}
