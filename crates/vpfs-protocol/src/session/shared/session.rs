//! A session of any protocol.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::{Pieces, Time};

use super::inbound::Inbound;
use super::op::KEPT_OPS;
use super::{Core, Protocol};
use crate::session::{Action, CloseReason, Next, OpId, Outbound, Requester, Session, SessionLimits, Side, Suspended};

/// One client connection and its server connection, whose bytes mean what `P` says.
#[derive(Debug)]
pub(crate) struct ProtocolSession<P: Protocol> {
    pub(super) core: Core<P>,
    protocol: P,
}

impl<P: Protocol> ProtocolSession<P> {
    pub(crate) fn new(limits: SessionLimits, requester: Requester, protocol: P) -> Self {
        Self { core: Core::new(limits, requester), protocol }
    }
}

impl<P: Protocol> Session for ProtocolSession<P> {
    fn handle_client(&mut self, now: Time, buf: &mut BytesMut) {
        let Self { core, protocol } = self;
        core.excuse_client(now);
        core.steps = 0;
        core.arriving = 0;
        while core.takes_client() && core.steps < Core::<P>::STEPS_AT_ONCE {
            let step = match core.from_client {
                Inbound::Header => protocol.client_message(core, now, buf),
                Inbound::Body { .. } => Ok(core.client_body(now, buf)),
                Inbound::Rest { .. } => Ok(core.client_rest(buf)),
            };
            match step {
                Ok(true) => core.incomplete_since = None,
                Ok(false) => break,
                Err(reason) => core.refuse_client(reason),
            }
        }
        core.client_is_behind = core.steps >= Core::<P>::STEPS_AT_ONCE && !buf.is_empty();
        if core.client_is_behind {
            // The request in the buffer may be complete.
            return;
        }
        core.note_incomplete(now, buf.len());
        debug_assert!(
            !core.takes_client() || buf.len() < P::LONGEST_REQUEST,
            "no more than the start of a request stays in the buffer"
        );
    }

    fn handle_server(&mut self, now: Time, buf: &mut BytesMut) {
        let Self { core, protocol } = self;
        core.steps = 0;
        while !core.closed && core.steps < Core::<P>::STEPS_AT_ONCE {
            let step = match core.from_server {
                Inbound::Header => protocol.server_message(core, now, buf),
                Inbound::Body { .. } | Inbound::Rest { .. } => Ok(core.server_body(now, buf)),
            };
            match step {
                Ok(true) => {}
                Ok(false) => break,
                Err(reason) => core.refuse_server(reason),
            }
        }
        core.server_is_behind = core.steps >= Core::<P>::STEPS_AT_ONCE && !buf.is_empty();
    }

    fn next(&self, side: Side) -> Next {
        self.core.next(side)
    }

    fn arrived(&mut self, now: Time, buf: &mut BytesMut) {
        let Self { core, protocol } = self;
        core.is_there = core.arriving > 0 && core.leaves_unread();
        if core.is_there
            && let Err(reason) = protocol.client_message(core, now, buf)
        {
            core.refuse_client(reason);
        }
        (core.arriving, core.is_there) = (0, false);
        core.note_incomplete(now, buf.len());
    }

    fn passed(&mut self, now: Time, side: Side, bytes: usize) {
        let is_passing = matches!(self.core.next(side), Next::Passing(most) if bytes <= most);
        assert!(is_passing, "more than the rest of a message does not pass unseen");
        match side {
            Side::Client => {
                self.core.excuse_client(now);
                self.core.to_server.pipe(bytes);
                self.core.client_passed(now, bytes);
            }
            Side::Server => {
                self.core.to_client.pipe(bytes);
                self.core.server_passed(now, bytes);
            }
        }
    }

    fn is_behind(&self) -> bool {
        let core = &self.core;
        !core.closed && (core.server_is_behind || core.client_is_behind && !core.abandoned)
    }

    fn client_waited(&mut self, now: Time) {
        self.core.incomplete_since = self.core.incomplete_since.map(|_| now);
    }

    fn dispatch(&mut self, now: Time, op: OpId, pieces: Option<Pieces>) {
        self.core.dispatch(now, op, pieces);
    }

    fn ask_to_store(&mut self, op: OpId) {
        self.core.ask_to_store(op);
    }

    fn handle_client_eof(&mut self, unread: usize) {
        let core = &mut self.core;
        if core.closed || core.client_done {
            return;
        }
        if unread > 0 || core.from_client.is_within_message() {
            return core.refuse_client(CloseReason::Truncated(Side::Client));
        }
        core.client_done = true;
        core.cancel_queued();
    }

    fn handle_server_eof(&mut self, unread: usize) {
        let core = &mut self.core;
        if core.closed {
            return;
        }
        if unread > 0 || core.from_server.is_passing() {
            return core.refuse_server(CloseReason::Truncated(Side::Server));
        }
        core.end();
    }

    fn abandon(&mut self) {
        self.core.abandon();
    }

    fn awaits_server(&self) -> bool {
        self.core.table.iter().any(|op| op.is_charged() && op.ends_without_client())
    }

    fn end(&mut self) {
        self.core.end();
    }

    fn set_patience(&mut self, patience: Duration) {
        self.core.stall.patience = patience;
    }

    fn set_requester(&mut self, requester: Requester) {
        self.core.requester = requester;
    }

    fn handle_timeout(&mut self, now: Time) {
        let core = &mut self.core;
        if core.paused_until.is_some_and(|until| until <= now) {
            core.paused_until = None;
            core.client_may_send(now);
        }
        if core.request_deadline().is_some_and(|at| at <= now) {
            core.refuse_client(CloseReason::Incomplete);
        }
        core.forget_overdue(now);
        core.watch(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let core = &self.core;
        let deadlines = [core.next_watch, core.paused_until, core.request_deadline(), core.overdue_deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn poll_action(&mut self) -> Option<Action> {
        let actions = &mut self.core.actions;
        let action = actions.pop_front();
        if action.is_none() && actions.capacity() > KEPT_OPS {
            *actions = VecDeque::new();
        }
        action
    }

    fn to_server(&mut self) -> &mut Outbound {
        &mut self.core.to_server
    }

    fn to_client(&mut self) -> &mut Outbound {
        &mut self.core.to_client
    }

    fn wants_client(&self) -> bool {
        self.core.wants_client()
    }

    fn awaits_rest(&self, side: Side) -> bool {
        self.core.awaits_rest(side)
    }

    fn held_requests(&self) -> usize {
        self.core.table.held + self.core.answers.len() + self.core.unsent_bytes()
    }

    fn wants_server(&self) -> bool {
        self.core.wants_server()
    }

    fn server_side_done(&self) -> bool {
        let core = &self.core;
        core.client_done && core.to_server.is_empty() && core.dispatched.is_empty() && !self.awaits_server()
    }

    fn drain(&mut self) {
        self.core.drain();
    }

    fn is_idle(&self) -> bool {
        self.core.is_idle()
    }

    fn suspend(&mut self, now: Time) -> Option<Suspended> {
        let Self { core, protocol } = self;
        core.suspending = true;
        // The rest of a request is behind its start.
        if core.unsent.is_none() && !core.from_client.is_rest() {
            core.take_back_requests(now);
        }
        let is_done = core.unsent.is_some() && core.is_idle() && !core.closed && !core.client_done;
        is_done.then(|| Suspended { requests: core.suspended(), user: protocol.stated_user() })
    }

    fn is_closed(&self) -> bool {
        self.core.closed
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::{Objects, OpKind};

    use crate::session::shared::*;
    use crate::session::{Session, Submission};

    const HEAD: usize = 3;

    /// A protocol in which three bytes are a message: tag, zero or a status, and zero.
    #[derive(Debug)]
    struct Tagged;

    impl Protocol for Tagged {
        type Tag = u8;
        type Detail = ();

        const LONGEST_REQUEST: usize = HEAD;
        const READ_AHEAD: u64 = 0;
        const IS_REPEATED: bool = true;

        fn client_message(
            &mut self,
            core: &mut Core<Self>,
            now: Time,
            buf: &mut BytesMut,
        ) -> Result<bool, CloseReason> {
            let Some(&[tag, _, _]) = buf.first_chunk() else { return Ok(false) };
            let class = Class::Scheduled(Submission::new(OpKind::Metadata, data_cost(0), Objects::ONE));
            let message = buf.split_to(HEAD).freeze();
            let (detail, unread, detail_bytes, carried, expected) = ((), 0, 0, 0, 0);
            let (order, numbered) = (None, None);
            core.arrive(
                now,
                Arriving { tag, message, unread, class, detail, detail_bytes, carried, expected, order, numbered },
            );
            Ok(true)
        }

        fn server_message(
            &mut self,
            core: &mut Core<Self>,
            now: Time,
            buf: &mut BytesMut,
        ) -> Result<bool, CloseReason> {
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
        assert!(capacities.iter().all(|capacity| *capacity <= op::KEPT_OPS), "{capacities:?}");
    }

    /// Symptom: equal inputs gave operations different numbers. Cause: the capacity of a hash table, by which the
    /// tables were freed, depends on where its keys are once some were removed.
    #[test]
    fn when_tables_are_freed_does_not_depend_on_hashes() {
        let numbers = |room: usize| {
            let mut session = session();
            session.core.table.reserve_tags(room);
            [12, 1].map(|count| begin_and_end(&mut session, count))
        };
        assert_eq!(numbers(0), numbers(100));
    }
}
