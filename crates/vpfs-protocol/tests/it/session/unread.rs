//! Writes of NFS whose data has arrived and was not read.

use vpfs_core::Bytes;
use vpfs_protocol::session::nfs::Nfs;
use vpfs_protocol::session::{Action, CloseReason, Interposer, Next, OpId, SessionLimits, Side};

use crate::fuzz;
use crate::session::common::{CLIENT, Wire, assert_same};

/// Bytes of a call that the driver has read.
const START: usize = 2000;

fn wire() -> Wire {
    Wire::over(Nfs.session(SessionLimits::default(), CLIENT, None))
}

fn record(words: &[u32], data: &[u8]) -> Vec<u8> {
    let mark = (words.len() * 4 + data.len()) as u32 | 1 << 31;
    let words = std::iter::once(&mark).chain(words).flat_map(|word| word.to_be_bytes());
    words.chain(data.iter().copied()).collect()
}

/// A WRITE of version 3 or, with the same words, something else of another one.
fn write_of(version: u32, xid: u32, data: &[u8]) -> Vec<u8> {
    let count = data.len() as u32;
    record(&[xid, 0, 2, 100_003, version, 7, 1, 20, 0, 0, 5, 0, 0, 0, 0, 4, 9, 0, 0, count, 2, count], data)
}

fn write(xid: u32) -> Vec<u8> {
    write_of(3, xid, &[xid as u8; 100_000])
}

fn getattr(xid: u32, uid: u32) -> Vec<u8> {
    record(&[xid, 0, 2, 100_003, 3, 1, 1, 20, 0, 0, uid, 0, 0, 0, 0, 4, 9], &[])
}

/// The start of this call was read, and the rest is there.
fn arrived(wire: &mut Wire, call: &[u8]) -> OpId {
    assert_eq!(wire.client(&call[..START]), []);
    assert_eq!(wire.session.next(Side::Client), Next::Arriving(call.len() - START));
    wire.session.arrived(wire.now, &mut wire.client_buf);
    let actions = wire.actions();
    let [Action::Enqueue(op, submission)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(submission.cost, Bytes(100_000));
    assert_eq!(wire.session.next(Side::Client), Next::Waiting(call.len() - START));
    *op
}

/// So many bytes passed from the client to the server in a pipe.
fn pass(wire: &mut Wire, bytes: &[u8]) -> Vec<u8> {
    assert_eq!(wire.session.next(Side::Client), Next::Passing(bytes.len()));
    wire.session.passed(wire.now, Side::Client, bytes.len());
    let mut sent = Vec::new();
    fuzz::take(wire.session.to_server(), usize::MAX, &mut bytes.to_vec(), &mut sent);
    sent
}

#[test]
fn data_passes_unread_if_its_turn_comes_at_once() {
    let (mut wire, call) = (wire(), write(1));
    let op = arrived(&mut wire, &call);
    wire.dispatch(op);
    assert_same(&pass(&mut wire, &call[START..]), &call);
    // What is behind it is the start of a message again.
    wire.sent(&getattr(2, 6));
    assert!(wire.client_buf.is_empty());
}

#[test]
fn data_that_waits_is_read_so_that_others_do_not_wait_for_it() {
    let (mut wire, call) = (wire(), write(1));
    let op = arrived(&mut wire, &call);
    let (first, second) = call[START..].split_at(70_000);
    assert_eq!(wire.client(first), []);
    assert_eq!(wire.session.next(Side::Client), Next::Waiting(second.len()));
    wire.client(second);
    assert!(wire.session.held_requests() > call.len());
    wire.sent(&getattr(2, 6));
    wire.dispatch(op);
    assert_same(&wire.take_to_server(), &call);
}

#[test]
fn what_is_not_read_when_its_turn_comes_passes() {
    let (mut wire, call) = (wire(), write(1));
    let op = arrived(&mut wire, &call);
    wire.client(&call[START..50_000]);
    wire.dispatch(op);
    assert_same(&pass(&mut wire, &call[50_000..]), &call);
}

#[test]
fn nothing_is_sent_into_the_middle_of_it() {
    let (mut wire, call, other) = (wire(), write(1), getattr(2, 6));
    let (held, _) = wire.held(&other);
    let op = arrived(&mut wire, &call);
    wire.dispatch(op);
    wire.dispatch(held);
    assert_same(&pass(&mut wire, &call[START..]), &[call, other].concat());
}

#[test]
fn a_write_that_is_sent_again_is_read_and_forgotten() {
    let (mut wire, call) = (wire(), write(1));
    wire.sent(&call);
    wire.client(&call[..START]);
    wire.session.arrived(wire.now, &mut wire.client_buf);
    assert_eq!((wire.actions(), wire.session.next(Side::Client)), (vec![], Next::Unknown));
    assert_eq!(wire.client(&call[START..]), []);
    assert!(wire.client_buf.is_empty() && wire.take_to_server().is_empty());
}

/// A COMPOUND with a WRITE, and so many operations in `behind`.
fn compound(xid: u32, count: u32, behind: &[u32]) -> Vec<u8> {
    let call = [xid, 0, 2, 100_003, 4, 1, 1, 20, 0, 0, 5, 0, 0, 0, 0, 0, 1, 2 + count];
    let write = [22, 4, 9, 38, 0, 0, 0, 0, 0, 0, 0, 100_000];
    let behind: Vec<u8> = behind.iter().flat_map(|word| word.to_be_bytes()).collect();
    record(&[call.as_slice(), &write].concat(), &[vec![1; 100_000], behind].concat())
}

#[test]
fn data_of_a_compound_stays_unread_with_the_attributes_that_are_asked_for() {
    for call in [compound(1, 0, &[]), compound(1, 1, &[9, 2, 7, 7])] {
        let mut wire = wire();
        let op = arrived(&mut wire, &call);
        wire.dispatch(op);
        assert_same(&pass(&mut wire, &call[START..]), &call);
        wire.sent(&getattr(2, 6));
        assert!(wire.client_buf.is_empty());
    }
}

#[test]
fn data_stays_unread_also_if_the_server_is_asked_to_store_it() {
    let (mut wire, call) = (wire(), compound(1, 0, &[]));
    let op = arrived(&mut wire, &call);
    wire.session.ask_to_store(op);
    wire.dispatch(op);
    let at = call.len() - 100_000 - 5;
    let changed = [&call[..at], &[1], &call[at + 1..]].concat();
    assert_same(&pass(&mut wire, &call[START..]), &changed);
}

#[test]
fn what_is_not_just_data_is_read() {
    let close = [4, 1, 9, 9, 9, 9];
    for call in [
        compound(1, 1, &close),
        write_of(4, 1, &[0; 100_000]),
        record(&[1, 0, 2, 100_003, 3, 2], &[0; 100_000]),
        record(&[1, 0, 2, 100_004, 4, 1], &[0; 100_000]),
    ] {
        let mut wire = wire();
        wire.client(&call[..START]);
        assert_eq!(wire.session.next(Side::Client), Next::Unknown);
    }
}

#[test]
fn a_session_that_drains_reads_it() {
    let (mut wire, call) = (wire(), write(1));
    wire.client(&call[..START]);
    wire.session.drain();
    wire.session.arrived(wire.now, &mut wire.client_buf);
    assert_eq!((wire.actions(), wire.session.next(Side::Client)), (vec![], Next::Unknown));
    assert_eq!(wire.client(&call[START..]), []);
    assert!(wire.client_buf.is_empty() && wire.session.is_idle());
}

#[test]
fn another_process_gets_the_whole_of_it() {
    let (mut wire, call) = (wire(), write(1));
    arrived(&mut wire, &call);
    wire.client(&call[START..50_000]);
    assert_eq!(wire.session.suspend(wire.now), None, "the rest is behind the start");
    wire.client(&[&call[50_000..], &write(2)[..START]].concat());
    assert_eq!(wire.session.next(Side::Client), Next::Unknown, "no other one delays it");
    let suspended = wire.session.suspend(wire.now).unwrap();
    assert!(matches!(wire.actions()[..], [Action::Cancel(_)]));
    assert_same(&suspended.requests, &call);
}

/// Symptom: the connection of a client whose requests all wait could not be handed over until one of them was sent.
#[test]
fn a_session_without_room_that_ends_reads_the_rest_of_what_has_arrived() {
    let limits = SessionLimits { ops: 1, ..SessionLimits::default() };
    let (mut wire, call) = (Wire::over(Nfs.session(limits, CLIENT, None)), write(1));
    arrived(&mut wire, &call);
    assert!(!wire.session.wants_client());
    assert_eq!(wire.session.suspend(wire.now), None);
    assert!(wire.session.wants_client());
    wire.client(&call[START..]);
    assert_same(&wire.session.suspend(wire.now).unwrap().requests, &call);
}

#[test]
fn a_client_that_ends_in_the_middle_of_it_is_refused() {
    let mut wire = wire();
    arrived(&mut wire, &write(1));
    let actions = wire.client_eof();
    assert!(
        matches!(actions[..], [Action::Cancel(_), Action::Close(CloseReason::Truncated(Side::Client))]),
        "{actions:?}"
    );
}
