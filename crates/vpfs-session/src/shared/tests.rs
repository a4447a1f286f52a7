//! The shared half in front of a protocol that is as different from OrangeFS as it can be: every request names its user
//! and carries its data, and one reply answers it.

use bytes::Bytes;
use vpfs_core::{Objects, OpKind};

use super::*;
use crate::{Session, Submission};

const LONGEST: usize = HEAD + u8::MAX as usize;
/// Of both sides: tag, user or status, and the bytes that follow.
const HEAD: usize = 3;
/// The tag of a request that must not overtake data of its user, or be overtaken.
const BARRIER: u8 = 255;

#[derive(Debug)]
struct Tagged;

impl Protocol for Tagged {
    type Tag = u8;
    type Detail = ();

    const LONGEST_REQUEST: usize = LONGEST;
    const READ_AHEAD: u64 = 0;
    const IS_REPEATED: bool = true;

    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(&[tag, uid, len]) = buf.first_chunk() else { return Ok(false) };
        if buf.len() < HEAD + usize::from(len) {
            return Ok(false);
        }
        let message = Bytes::copy_from_slice(&buf.split_to(HEAD + usize::from(len)));
        let class = Class::Scheduled(Submission {
            kind: OpKind::Write,
            cost: data_cost(len.into()),
            objects: Objects::ONE,
            position: None,
            elsewhere: None,
            piece: None,
            user: Some(Arc::new(User { uid: uid.into(), ..User::default() })),
        });
        let order = Some(Order { line: uid.into(), is_data: tag != BARRIER });
        let carried = len.into();
        core.arrive(
            now,
            Arriving {
                tag,
                message,
                unread: 0,
                class,
                detail: (),
                detail_bytes: 0,
                carried,
                expected: 0,
                order,
                numbered: None,
            },
        );
        Ok(true)
    }

    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(&[tag, status, len]) = buf.first_chunk() else { return Ok(false) };
        let op = core.find(tag).ok_or(violation(Side::Server, "a reply to nobody"))?;
        core.progressed(now, op);
        core.pass_server(buf, [HEAD, len.into()], Meaning::Last { op, status: status.into() });
        Ok(true)
    }

    fn content(request: &[u8]) -> &[u8] {
        &request[1..]
    }

    fn stated_user(&mut self) -> Option<Arc<User>> {
        None
    }
}

fn session() -> ProtocolSession<Tagged> {
    ProtocolSession::new(SessionLimits::default(), Requester::Client { may_manage: false }, Tagged)
}

/// A request of this user, with data.
fn request(tag: u8, uid: u8, len: u8) -> Vec<u8> {
    [vec![tag, uid, len], vec![tag; len.into()]].concat()
}

fn take(out: &mut Outbound) -> Vec<u8> {
    let mut slices = [std::io::IoSlice::new(&[]); 512];
    let filled = out.slices(&mut slices);
    let bytes = slices[..filled].iter().flat_map(|slice| slice.to_vec()).collect();
    out.advance(out.len());
    bytes
}

impl ProtocolSession<Tagged> {
    /// Passes these bytes of the client, and returns what is enqueued for whom.
    fn enqueued(&mut self, bytes: &[u8]) -> Vec<(OpId, u32)> {
        let mut buf = BytesMut::from(bytes);
        self.handle_client(Time::ZERO, &mut buf);
        assert!(buf.is_empty());
        let actions = std::iter::from_fn(|| self.poll_action());
        let enqueued = actions.map(|action| match action {
            Action::Enqueue(op, Submission { user: Some(user), .. }) => (op, user.uid),
            action => panic!("{action:?}"),
        });
        enqueued.collect()
    }

    /// Passes these bytes of the server, and returns the operations that end.
    fn ended(&mut self, bytes: &[u8]) -> Vec<(OpId, u64)> {
        self.handle_server(Time::ZERO, &mut BytesMut::from(bytes));
        let actions = std::iter::from_fn(|| self.poll_action());
        let ended = actions.filter_map(|action| match action {
            Action::Complete(completed) => Some((completed.op, completed.moved)),
            _ => None,
        });
        ended.collect()
    }
}

#[test]
fn users_of_one_connection_are_served_in_any_order_and_answered_in_any_order() {
    let mut session = session();
    let requests = [request(1, 10, 40), request(2, 20, 50), request(3, 10, 60)];
    let [(a, 10), (b, 20), (c, 10)] = session.enqueued(&requests.concat())[..] else { panic!("each names its user") };
    for op in [b, c, a] {
        session.dispatch(Time::ZERO, op, None);
    }
    assert_eq!(take(session.to_server()), [&requests[1][..], &requests[2], &requests[0]].concat());
    assert_eq!(session.held_requests(), 3 * OP_BYTES, "their data is no longer here");
    let replies = [[3, 0, 0], [1, 0, 0], [2, 0, 0]].concat();
    assert_eq!(session.ended(&replies), [(c, 60), (a, 40), (b, 50)]);
    assert_eq!(take(session.to_client()), replies);
    assert!(session.is_idle());
}

/// Symptom: a connection that once had many operations in progress kept their tables. Cause: these were freed only
/// beyond the limit of operations.
#[test]
fn a_session_without_operations_keeps_no_large_table() {
    let mut session = session();
    let requests: Vec<u8> = (0..200).flat_map(|tag| request(tag, 1, 0)).collect();
    let enqueued = session.enqueued(&requests);
    assert_eq!(enqueued.len(), 200);
    enqueued.into_iter().for_each(|(op, _)| session.dispatch(Time::ZERO, op, None));
    let replies: Vec<u8> = (0..200).flat_map(|tag| [tag, 0, 0]).collect();
    assert_eq!(session.ended(&replies).len(), 200);
    let Core { table, actions, dispatched, .. } = &session.core;
    let capacities = [table.capacity(), actions.capacity(), dispatched.capacity()];
    assert!(capacities.iter().all(|capacity| *capacity <= table::KEPT_OPS), "{capacities:?}");
}

/// Symptom: equal inputs gave operations different numbers. Cause: the capacity of a hash table, by which the tables
/// were freed, depends on where its keys are once some were removed.
#[test]
fn when_tables_are_freed_does_not_depend_on_hashes() {
    let numbers = |room: usize| {
        let mut session = session();
        session.core.table.reserve_tags(room);
        let mut begin_and_end = |count: u8| {
            let enqueued = session.enqueued(&(0..count).flat_map(|tag| request(tag, 1, 0)).collect::<Vec<u8>>());
            enqueued.iter().for_each(|(op, _)| session.dispatch(Time::ZERO, *op, None));
            let replies: Vec<u8> = (0..count).flat_map(|tag| [tag, 0, 0]).collect();
            assert_eq!(session.ended(&replies).len(), count.into());
            enqueued
        };
        [begin_and_end(12), begin_and_end(1)]
    };
    assert_eq!(numbers(0), numbers(100));
}

#[test]
fn what_must_not_overtake_data_is_unknown_to_the_scheduler_until_the_data_was_sent() {
    let mut session = session();
    let data = [request(1, 10, 4), request(2, 10, 4)].concat();
    let [(first, _), (second, _)] = session.enqueued(&data)[..] else { panic!("data has no order") };
    let [(other, 20)] = session.enqueued(&request(3, 20, 4))[..] else { panic!("nor has that of others") };
    assert_eq!(session.enqueued(&[request(BARRIER, 10, 0), request(4, 10, 4)].concat()), []);
    let mut dispatched = |op| {
        session.dispatch(Time::ZERO, op, None);
        session.enqueued(&[])
    };
    assert_eq!([dispatched(second), dispatched(other)], [[], []]);
    let [(barrier, 10)] = dispatched(first)[..] else { panic!("the barrier is next") };
    let [(last, 10)] = dispatched(barrier)[..] else { panic!("then what came after it") };
    assert_eq!(dispatched(last), []);
    let sent = [request(2, 10, 4), request(3, 20, 4), request(1, 10, 4), request(BARRIER, 10, 0), request(4, 10, 4)];
    assert_eq!(take(session.to_server()), sent.concat());
    assert_eq!(session.ended(&[[BARRIER, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [4, 0, 0]].concat()).len(), 5);
    take(session.to_client());
    assert!(session.is_idle());
}

#[test]
fn only_what_the_scheduler_knows_is_cancelled_there() {
    let mut session = session();
    let requests = [request(1, 10, 4), request(BARRIER, 10, 0), request(2, 10, 4)];
    let [(first, 10)] = session.enqueued(&requests.concat())[..] else { panic!("the others wait") };
    session.handle_client_eof(0);
    let actions: Vec<_> = std::iter::from_fn(|| session.poll_action()).collect();
    assert_eq!(actions, [Action::Cancel(first)]);
    assert!(session.is_idle());
}

#[test]
fn another_session_gets_the_requests_that_wait_too() {
    let mut session = session();
    let requests = [request(1, 10, 4), request(BARRIER, 10, 0), request(2, 10, 4)].concat();
    session.enqueued(&requests);
    let suspended = session.suspend(Time::ZERO).expect("nothing was sent");
    assert_eq!(suspended.requests, requests);
}
