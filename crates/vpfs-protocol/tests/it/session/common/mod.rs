//! A session with the buffers of its two sockets, driven step by step.

pub(crate) mod messages;

use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::{Pieces, Time};
use vpfs_protocol::session::orangefs::{AddressMap, OrangeFs};
use vpfs_protocol::session::{
    Action, Completed, Interposer, OpId, Outbound, Outcome, Requester, Session, SessionLimits, Submission,
};
use vpfs_protocol::wire::bmi::{Header, Mode, Tag};

use crate::fuzz::{self, DriverRecord};

/// A requester without restrictions.
pub(crate) const CLIENT: Requester = Requester::Client { may_manage: true };

/// A session between two sockets. Every action is checked against the earlier ones.
pub(crate) struct Wire {
    pub(crate) session: Box<dyn Session>,
    pub(crate) now: Time,
    pub(crate) client_buf: BytesMut,
    pub(crate) server_buf: BytesMut,
    pub(crate) record: DriverRecord,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self::with(SessionLimits::default(), AddressMap::default())
    }

    pub(crate) fn with(limits: SessionLimits, addresses: AddressMap) -> Self {
        Self::of(limits, addresses, CLIENT)
    }

    /// The requester is at a server's address.
    pub(crate) fn of_server() -> Self {
        Self::of(SessionLimits::default(), AddressMap::default(), Requester::Server)
    }

    pub(crate) fn of(limits: SessionLimits, addresses: AddressMap, requester: Requester) -> Self {
        Self::over(OrangeFs::new(addresses).session(limits, requester, None))
    }

    pub(crate) fn over(session: Box<dyn Session>) -> Self {
        let now = Time::from_millis(1000);
        Self { session, now, client_buf: BytesMut::new(), server_buf: BytesMut::new(), record: DriverRecord::default() }
    }

    /// Starts draining; returns whether nothing is in progress any more.
    pub(crate) fn drains(&mut self) -> bool {
        self.session.drain();
        self.session.is_idle()
    }

    /// A small session: `ops` operations, the default for everything else.
    pub(crate) fn with_ops(ops: usize) -> Self {
        Self::with(SessionLimits { ops, ..SessionLimits::default() }, AddressMap::default())
    }

    pub(crate) fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.session.poll_action() {
            self.record.on(&action);
            actions.push(action);
        }
        actions
    }

    pub(crate) fn client(&mut self, bytes: &[u8]) -> Vec<Action> {
        self.client_buf.extend_from_slice(bytes);
        self.session.handle_client(self.now, &mut self.client_buf);
        self.actions()
    }

    pub(crate) fn server(&mut self, bytes: &[u8]) -> Vec<Action> {
        self.server_buf.extend_from_slice(bytes);
        self.session.handle_server(self.now, &mut self.server_buf);
        self.actions()
    }

    pub(crate) fn client_eof(&mut self) -> Vec<Action> {
        self.session.handle_client_eof(self.client_buf.len());
        self.actions()
    }

    pub(crate) fn server_eof(&mut self) -> Vec<Action> {
        self.session.handle_server_eof(self.server_buf.len());
        self.actions()
    }

    #[track_caller]
    pub(crate) fn dispatch(&mut self, op: OpId) {
        self.dispatch_in(op, None);
    }

    /// Dispatches an operation, with its data in pieces if there are any.
    #[track_caller]
    pub(crate) fn dispatch_in(&mut self, op: OpId, pieces: Option<Pieces>) {
        self.record.dispatch(op);
        self.session.dispatch(self.now, op, pieces);
        assert_eq!(self.actions(), []);
    }

    /// Dispatches an operation whose request then passes.
    #[track_caller]
    pub(crate) fn send(&mut self, op: OpId) {
        self.dispatch(op);
        self.take_to_server();
    }

    /// The client sent a request that is held.
    #[track_caller]
    pub(crate) fn held(&mut self, message: &[u8]) -> (OpId, Submission) {
        let actions = self.client(message);
        let Some(Action::Enqueue(op, submission)) = actions.last() else { panic!("{actions:?}") };
        (*op, submission.clone())
    }

    /// The client sent a request that was held, and dispatched at once.
    #[track_caller]
    pub(crate) fn sent(&mut self, message: &[u8]) -> OpId {
        let (op, _) = self.held(message);
        self.dispatch(op);
        assert_same(&self.take_to_server(), message);
        op
    }

    pub(crate) fn take_to_server(&mut self) -> Vec<u8> {
        take(self.session.to_server())
    }

    pub(crate) fn take_to_client(&mut self) -> Vec<u8> {
        take(self.session.to_client())
    }

    /// Asserts that these bytes pass at once and unchanged.
    #[track_caller]
    pub(crate) fn client_passes(&mut self, bytes: &[u8]) -> Vec<Action> {
        let actions = self.client(bytes);
        assert_same(&self.take_to_server(), bytes);
        actions
    }

    /// Asserts that these bytes pass at once and unchanged.
    #[track_caller]
    pub(crate) fn server_passes(&mut self, bytes: &[u8]) -> Vec<Action> {
        let actions = self.server(bytes);
        assert_same(&self.take_to_client(), bytes);
        actions
    }

    /// Advances time like a driver, with a call whenever the session asks for one.
    pub(crate) fn wait(&mut self, duration: Duration) -> Vec<Action> {
        let until = self.now + duration;
        let mut actions = Vec::new();
        while let Some(at) = self.session.poll_timeout().filter(|at| *at <= until) {
            assert!(at > self.now, "a timer that is due again at once");
            self.now = at;
            self.session.handle_timeout(at);
            self.session.handle_client(at, &mut self.client_buf);
            actions.extend(self.actions());
        }
        self.now = until;
        actions
    }

    /// Asserts that nothing of any scheduled operation is left, and the session continues.
    #[track_caller]
    pub(crate) fn assert_idle(&self) {
        assert!(self.record.is_empty(), "{:?}", self.record);
        assert!(self.client_buf.is_empty() && self.server_buf.is_empty());
        assert!(!self.session.is_closed());
    }
}

pub(crate) fn take(out: &mut Outbound) -> Vec<u8> {
    let mut taken = Vec::new();
    fuzz::take(out, usize::MAX, &mut Vec::new(), &mut taken);
    taken
}

/// Compares long bytes without printing them.
#[track_caller]
pub(crate) fn assert_same(found: &[u8], expected: &[u8]) {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let (found, expected) = (found.len(), expected.len());
    assert!(same == found && found == expected, "{found} bytes for {expected}, of which the first {same} are equal");
}

/// Splits a stream into messages: tag, mode and all bytes.
pub(crate) fn messages(mut stream: &[u8]) -> Vec<(Tag, Mode, Vec<u8>)> {
    let mut messages = Vec::new();
    while !stream.is_empty() {
        let header = Header::decode(stream).unwrap();
        let (message, rest) = stream.split_at(Header::LEN + usize::try_from(header.size).unwrap());
        messages.push((header.tag, header.mode, message.to_vec()));
        stream = rest;
    }
    messages
}

pub(crate) fn completed(actions: &[Action]) -> Completed {
    let mut completed = actions.iter().filter_map(|action| match action {
        Action::Complete(completed) => Some(*completed),
        _ => None,
    });
    let (first, second) = (completed.next(), completed.next());
    assert!(first.is_some() && second.is_none(), "{actions:?}");
    first.unwrap()
}

/// The operation completed in this batch, successfully and with `moved` data bytes.
pub(crate) fn assert_done(actions: &[Action], op: OpId, moved: u64) {
    let completed = completed(actions);
    let outcome = Outcome::Answered { status: 0 };
    assert_eq!((completed.op, completed.outcome, completed.moved), (op, outcome, moved), "{actions:?}");
}
