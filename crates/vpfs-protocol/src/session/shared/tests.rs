//! The tables of the shared half, with a protocol in which three bytes are a message: tag, zero or a status,
//! and zero.

use vpfs_core::{Objects, OpKind};

use super::*;
use crate::session::{Session, Submission};

const HEAD: usize = 3;

#[derive(Debug)]
struct Tagged;

impl Protocol for Tagged {
    type Tag = u8;
    type Detail = ();

    const LONGEST_REQUEST: usize = HEAD;
    const READ_AHEAD: u64 = 0;
    const IS_REPEATED: bool = true;

    fn client_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(&[tag, _, _]) = buf.first_chunk() else { return Ok(false) };
        let class = Class::Scheduled(Submission {
            kind: OpKind::Metadata,
            cost: data_cost(0),
            objects: Objects::ONE,
            position: None,
            elsewhere: None,
            piece: None,
            may_be_left: false,
            user: None,
        });
        let message = buf.split_to(HEAD).freeze();
        core.arrive(
            now,
            Arriving {
                tag,
                message,
                unread: 0,
                class,
                detail: (),
                detail_bytes: 0,
                carried: 0,
                expected: 0,
                order: None,
                numbered: None,
            },
        );
        Ok(true)
    }

    fn server_message(&mut self, core: &mut Core<Self>, now: Time, buf: &mut BytesMut) -> Result<bool, CloseReason> {
        let Some(&[tag, status, _]) = buf.first_chunk() else { return Ok(false) };
        let op = core.find(tag).ok_or(violation(Side::Server, "a reply to nobody"))?;
        core.progressed(now, op);
        core.pass_server(buf, [HEAD, 0], Meaning::Last { op, status: status.into() });
        Ok(true)
    }

    fn content(request: &[u8]) -> &[u8] {
        &request[1..]
    }

    fn stated_user(&mut self) -> Option<Arc<User>> {
        None
    }
}

/// So many operations begin and end in a session, which dispatches them at once.
fn begin_and_end(session: &mut ProtocolSession<Tagged>, count: u8) -> Vec<OpId> {
    let messages = || BytesMut::from(&(0..count).flat_map(|tag| [tag, 0, 0]).collect::<Vec<u8>>()[..]);
    session.handle_client(Time::ZERO, &mut messages());
    let mut ops = Vec::new();
    while let Some(Action::Enqueue(op, _)) = session.poll_action() {
        session.dispatch(Time::ZERO, op, None);
        ops.push(op);
    }
    session.handle_server(Time::ZERO, &mut messages());
    let ended = std::iter::from_fn(|| session.poll_action()).filter(|action| matches!(action, Action::Complete(_)));
    assert_eq!((ops.len(), ended.count()), (count.into(), count.into()));
    ops
}

fn session() -> ProtocolSession<Tagged> {
    ProtocolSession::new(SessionLimits::default(), Requester::Client { may_manage: false }, Tagged)
}

/// Symptom: a connection that once had many operations in progress kept their tables. Cause: these were freed only
/// beyond the limit of operations.
#[test]
fn a_session_without_operations_keeps_no_large_table() {
    let mut session = session();
    begin_and_end(&mut session, 200);
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
        [12, 1].map(|count| begin_and_end(&mut session, count))
    };
    assert_eq!(numbers(0), numbers(100));
}
