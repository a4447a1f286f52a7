//! A session that continues in another one: what is left to whom, and nothing twice or not at all.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::Pieces;
use vpfs_protocol::session::orangefs::{AddressMap, OrangeFs};
use vpfs_protocol::session::{Action, Interposer, SessionLimits, Suspended};
use vpfs_protocol::wire::pvfs2::Op;

use crate::session::common::messages::*;
use crate::session::common::{CLIENT, Wire, assert_done, assert_same};

impl Wire {
    /// As a driver does it: the bytes that were waiting are processed after every attempt.
    fn suspend(&mut self) -> Option<Suspended> {
        let suspended = self.session.suspend(self.now);
        self.session.handle_client(self.now, &mut self.client_buf);
        suspended
    }
}

/// All requests of a session that continues after `suspended`, in order, and their users.
fn resumed(suspended: &Suspended, rest: &[u8]) -> Vec<Option<u32>> {
    let user = suspended.user.clone();
    let mut session = OrangeFs::new(AddressMap::default()).session(SessionLimits::default(), CLIENT, user);
    let mut bytes = BytesMut::from(&suspended.requests[..]);
    bytes.extend_from_slice(rest);
    session.handle_client(vpfs_core::Time::ZERO, &mut bytes);
    let actions = std::iter::from_fn(|| session.poll_action());
    actions
        .map(|action| match action {
            Action::Enqueue(_, submission) => submission.user.as_ref().map(|user| user.uid),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn an_idle_session_is_suspended_at_once() {
    let mut wire = Wire::new();
    assert_eq!(wire.suspend(), Some(Suspended { requests: bytes::Bytes::new(), user: None }));
    assert!(!wire.session.wants_client() && !wire.session.wants_server(), "the rest belongs to the next session");
}

#[test]
fn what_was_sent_is_completed_and_the_rest_is_left_to_the_next_session() {
    let mut wire = Wire::new();
    let sent = wire.sent(&read(1, 4096 * 4));
    let queued = [read(2, 1 << 20), write(3, 1 << 20)];
    for request in &queued {
        wire.held(request);
    }
    let start = read(4, 4096);
    assert_eq!(wire.client(&start[..30]), []);

    assert_eq!(wire.suspend(), None, "a reply is still to come");
    assert_eq!(wire.actions().len(), 2, "both are cancelled");
    assert!(!wire.session.wants_client());
    wire.server_passes(&ack(1, 0));
    assert_eq!(wire.client_buf[..], start[..30]);
    let suspended = wire.suspend().unwrap();
    assert_same(&suspended.requests, &queued.concat());
    assert_eq!(wire.take_to_server(), [0; 0]);
    assert_eq!(resumed(&suspended, &start).len(), 3);
    assert!(wire.record.is_empty(), "operation {sent:?} ended");
}

#[test]
fn requests_between_the_data_of_a_write_are_left_too() {
    let mut wire = Wire::new();
    let op = wire.sent(&write(1, 10_000));
    wire.server_passes(&ack(1, 0));
    assert_eq!(wire.suspend(), None);
    let (later, data) = (read(2, 4096), data(1, 10_000));
    assert!(wire.session.wants_client(), "the write needs its data");
    assert_eq!(wire.client(&[&later[..], &data[..]].concat()), []);
    assert_same(&wire.take_to_server(), &data);
    assert_eq!(wire.suspend(), None, "the server has not stored it yet");
    assert_done(&wire.server_passes(&written(1, 10_000)), op, 10_000);
    assert_same(&wire.suspend().unwrap().requests, &later);
}

#[test]
fn data_in_pieces_no_longer_waits() {
    let mut wire = Wire::new();
    let (op, _) = wire.held(&write(1, 30_000));
    wire.dispatch_in(op, Some(Pieces { count: 3, every: Duration::from_secs(4) }));
    wire.take_to_server();
    wire.server_passes(&ack(1, 0));
    let pieces = [data(1, 10_000), data(1, 10_000), data(1, 10_000)];
    wire.client(&pieces.concat());
    assert_same(&wire.take_to_server(), &pieces[0]);
    assert_eq!(wire.suspend(), None);
    assert_same(&wire.take_to_server(), &pieces[1..].concat());
    assert_done(&wire.server_passes(&written(1, 30_000)), op, 30_000);
    assert!(wire.suspend().is_some());
}

/// Data requests state no user, so the next session could not know it.
#[test]
fn the_user_is_left_to_the_next_session() {
    let mut wire = Wire::new();
    let (op, submission) = wire.held(&getattr(1, credential("C:host", 1000, &[100])));
    let user = submission.user.unwrap();
    wire.send(op);
    wire.server(&refusal(1, Op::GetAttr));
    wire.take_to_client();
    let suspended = wire.suspend().unwrap();
    assert_eq!(suspended.user, Some(Arc::clone(&user)));
    assert_eq!(resumed(&suspended, &read(2, 4096)), [Some(user.uid)]);
}
