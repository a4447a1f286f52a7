//! Requests that are held for longer than their clients wait: never done twice, and never out of their place.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::session::common;
use proptest::prelude::*;
use vpfs_core::Time;
use vpfs_protocol::session::{Action, OpId, SessionLimits};

use crate::session::common::messages::*;
use crate::session::common::{Wire, assert_done, assert_same};

const HOLD: Duration = Duration::from_secs(270);
const LATE: Duration = Duration::from_millis(1);

impl Wire {
    /// The turn of an operation comes.
    fn turn(&mut self, op: OpId) -> Vec<Action> {
        self.record.dispatch(op);
        self.session.dispatch(self.now, op, None);
        self.actions()
    }
}

#[test]
fn a_request_whose_turn_comes_too_late_has_no_slots_and_goes_when_it_is_repeated() {
    let mut wire = Wire::new();
    let (op, _) = wire.held(&write(1, 5000));
    wire.wait(HOLD);
    assert_eq!(wire.turn(op), [Action::Overdue(op)]);
    assert_same(&wire.take_to_server(), &[]);
    wire.wait(HOLD / 9);
    assert_eq!(wire.client_passes(&write(2, 5000)), [Action::Repeated]);
    wire.server_passes(&ack(2, 0));
    wire.client_passes(&data(2, 5000));
    assert_done(&wire.server_passes(&written(2, 5000)), op, 5000);
    wire.assert_idle();
}

/// Otherwise it would release another request before its turn.
#[test]
fn a_dispatch_that_crosses_a_cancellation_is_ignored() {
    let mut wire = Wire::new();
    let (gone, _) = wire.held(&read(1, 1000));
    wire.wait(HOLD);
    assert_eq!(wire.turn(gone), [Action::Overdue(gone)]);
    assert_eq!(wire.wait(HOLD), [Action::Cancel(gone)]);
    let (op, _) = wire.held(&read(2, 2000));
    assert!(op.index == gone.index && op != gone, "{op:?} has the place of {gone:?}");
    wire.session.dispatch(wire.now, gone, None);
    assert_eq!(wire.actions(), []);
    assert!(wire.session.to_server().is_empty());
    wire.dispatch(op);
    assert_same(&wire.take_to_server(), &read(2, 2000));
}

#[test]
fn equal_requests_are_different_ones_as_long_as_their_client_waits() {
    let mut wire = Wire::new();
    let (first, _) = wire.held(&readdir(1));
    wire.wait(HOLD - LATE);
    let (second, _) = wire.held(&readdir(2));
    assert_ne!(first, second);
    wire.dispatch(first);
    assert_same(&wire.take_to_server(), &readdir(1));
    // The other one has all of its time, whatever the first had.
    wire.wait(HOLD - LATE);
    wire.dispatch(second);
    assert_same(&wire.take_to_server(), &readdir(2));
}

#[test]
fn another_request_is_no_repetition() {
    let mut wire = Wire::new();
    let (first, _) = wire.held(&write(1, 5000));
    wire.wait(HOLD);
    let (other, _) = wire.held(&write(2, 5001));
    assert_ne!(first, other);
    assert_eq!(wire.turn(other), []);
    assert_same(&wire.take_to_server(), &write(2, 5001));
}

/// A client that was interrupted repeats nothing.
#[test]
fn what_is_not_repeated_is_forgotten() {
    let mut wire = Wire::new();
    let (op, _) = wire.held(&readdir(1));
    wire.wait(HOLD);
    wire.turn(op);
    assert_eq!(wire.wait(HOLD - LATE), []);
    assert_eq!(wire.wait(LATE), [Action::Cancel(op)]);
    assert_eq!(wire.session.poll_timeout(), None);
    wire.assert_idle();
}

#[test]
fn whoever_drains_or_hangs_up_does_not_wait_for_repetitions() {
    let ends: [fn(&mut Wire) -> Vec<Action>; 3] = [
        |wire| {
            assert!(wire.drains());
            wire.actions()
        },
        Wire::client_eof,
        Wire::server_eof,
    ];
    for end in ends {
        let mut wire = Wire::new();
        let (op, _) = wire.held(&readdir(1));
        wire.wait(HOLD);
        wire.turn(op);
        assert_eq!(end(&mut wire), [Action::Cancel(op)]);
    }
    let mut wire = Wire::new();
    let (op, _) = wire.held(&readdir(1));
    wire.wait(HOLD);
    wire.session.drain();
    assert_eq!(wire.turn(op), [Action::Overdue(op), Action::Cancel(op)]);
}

/// Otherwise the repetitions that they wait for would not be read.
#[test]
fn overdue_requests_leave_room_for_others() {
    let mut wire = Wire::with_ops(2);
    let ops = [1, 2].map(|tag| wire.held(&write(tag, i64::from(tag))).0);
    assert!(!wire.session.wants_client());
    wire.wait(HOLD);
    wire.turn(ops[1]);
    assert!(wire.session.wants_client());
    assert_eq!(wire.client_passes(&write(3, 2)), [Action::Repeated]);
    assert!(!wire.session.wants_client());
}

/// A client that repeats what is not answered in time, behind a proxy that lets each request wait for some time.
struct Impatient {
    wire: Wire,
    tag: i32,
    /// Requests without an answer, by length: the current tag, and when it is repeated.
    asked: BTreeMap<i64, (i32, Time)>,
    queue: Vec<(Time, OpId)>,
    /// The requests that the server got, by length.
    sent: BTreeMap<i64, usize>,
}

impl Impatient {
    fn ask(&mut self, len: i64, patience: Duration) -> Option<OpId> {
        self.tag += 1;
        self.asked.insert(len, (self.tag, self.wire.now + patience));
        let actions = self.wire.client(&small_read(self.tag, len));
        self.serve();
        actions.into_iter().find_map(|action| match action {
            Action::Enqueue(op, _) => Some(op),
            _ => None,
        })
    }

    /// The server answers at once what it gets.
    fn serve(&mut self) {
        let bytes = self.wire.take_to_server();
        for (tag, _, message) in common::messages(&bytes) {
            let answered = |(_, (asked, _)): &(&i64, &(i32, Time))| vpfs_protocol::wire::bmi::Tag::from(*asked) == tag;
            let (len, asked) =
                self.asked.iter().find(answered).map(|(len, (asked, _))| (*len, *asked)).expect("asked for");
            assert_same(&message, &small_read(asked, len));
            *self.sent.entry(len).or_default() += 1;
            self.wire.server(&small_read_reply(asked, 9000, usize::try_from(len).expect("small")));
            self.asked.remove(&len);
        }
    }
}

proptest! {
    /// The server gets each request exactly once, and only while its client waits for the answer, however long requests
    /// are held.
    ///
    /// Symptom: while a cap held requests for longer than the 300 s that clients wait, each one ran twice, the first
    /// for nobody. Cause: the repeated request was another one in the queue, and the first was sent when its turn came.
    #[test]
    fn each_request_is_done_once_while_its_client_waits(
        waits in prop::collection::vec(0..2000_u64, 1..40),
        patience in 271..540_u64,
    ) {
        let patience = Duration::from_secs(patience);
        let wire = Wire::with(SessionLimits::default(), vpfs_protocol::session::orangefs::AddressMap::default());
        let (asked, queue, sent) = Default::default();
        let mut client = Impatient { wire, tag: 0, asked, queue, sent };
        for (len, wait) in (1..).zip(&waits) {
            let op = client.ask(len, patience).unwrap();
            client.queue.push((client.wire.now + Duration::from_secs(*wait), op));
            client.wire.wait(Duration::from_secs(1));
        }
        client.queue.sort_unstable();
        client.queue.reverse();
        while !client.asked.is_empty() {
            let turn = client.queue.last().map(|(at, _)| *at);
            let repeated = client.asked.iter().map(|(len, (_, at))| (*at, *len)).min();
            let next = turn.into_iter().chain(repeated.map(|(at, _)| at)).min().unwrap().max(client.wire.now);
            let actions = client.wire.wait(next.since(client.wire.now));
            prop_assert_eq!(actions, []);
            if turn == Some(next) || turn.is_some_and(|at| at < next) {
                let (_, op) = client.queue.pop().unwrap();
                client.wire.turn(op);
                client.serve();
            } else if let Some((_, len)) = repeated {
                prop_assert_eq!(client.ask(len, patience), None);
            }
        }
        prop_assert!(client.sent.values().all(|count| *count == 1));
        prop_assert_eq!(client.sent.len(), waits.len());
        client.wire.assert_idle();
    }
}
