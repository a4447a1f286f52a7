//! Checks of the wire codecs and of a session, on arbitrary bytes. Each panics if an invariant is violated, never
//! because of malformed bytes.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::{Bytes, FilePosition, MIN_DATA_COST, Objects, OpKind, Pieces, Time};
use vpfs_protocol::session::nfs::Nfs;
use vpfs_protocol::session::orangefs::{AddressMap, OrangeFs};
use vpfs_protocol::session::{
    Action, Completed, Interposer, Next, OpId, Outbound, Requester, Session, SessionLimits, Side, Submission,
};
use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::bmi::{Header, MAX_UNEXPECTED, Mode, Tag};
use vpfs_protocol::wire::nfs::{
    Access, Compound, Credential, MAX_RECORD, Message, Record, compound_listed, compound_moved, listed, moved, status,
};
use vpfs_protocol::wire::pvfs2::reply::GetConfig;
use vpfs_protocol::wire::pvfs2::rewrite::{self, ClientTimeouts, RewriteError};
use vpfs_protocol::wire::pvfs2::{Reply, ReplyBody, ReplyHead, Request, RequestView, Text, Transfer};

/// A header that decodes is encoded to the same bytes; otherwise the error names a reason. Only short input is
/// incomplete.
pub fn bmi_header(data: &[u8]) {
    match Header::decode(data) {
        Ok(header) => assert_eq!(header.encode()[..], data[..Header::LEN]),
        Err(DecodeError::Incomplete { needed }) => assert_eq!(data.len() + needed, Header::LEN),
        Err(DecodeError::Malformed { offset, .. }) => assert!(offset < Header::LEN),
        Err(error) => panic!("{error}"),
    }
}

/// Full decoding and borrowed views agree, and encoding keeps every field.
pub fn request(data: &[u8]) {
    let view = RequestView::parse(data);
    match Request::decode(data) {
        Ok(request) => {
            assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(&request));
            let view = view.expect("a request that decodes can be viewed");
            let ids = view.credential_ids().expect("its credential was decoded");
            assert_eq!(ids.map(|ids| ids.uid), request.body.credential().map(|credential| credential.uid));
            assert_eq!(view.hints().count(), request.hints.len());
            view.is_from_server().expect("nothing is left undecoded");
            view.objects().expect("its body was decoded");
            view.io().expect("its body was decoded");
            view.small_io().expect("its body was decoded");
        }
        Err(error) => {
            check_payload_error(data, error);
            if let Ok(view) = view {
                let _ = (view.credential_ids(), view.io(), view.small_io(), view.is_from_server());
                let _ = view.objects();
                assert!(view.body_at <= data.len());
            }
        }
    }
}

/// Full decoding and the borrowed head agree, and encoding keeps every field.
pub fn reply(data: &[u8]) {
    let head = ReplyHead::parse(data);
    match Reply::decode(data) {
        Ok(reply) => {
            assert_eq!(Reply::decode(&reply.encode()).as_ref(), Ok(&reply));
            if let Ok(head) = head {
                assert_eq!((head.op, head.status), (reply.op, reply.status));
            }
        }
        Err(error) => check_payload_error(data, error),
    }
}

/// A payload is complete when it is decoded, so no error is *incomplete*; a malformed field lies within the payload.
fn check_payload_error(data: &[u8], error: DecodeError) {
    match error {
        DecodeError::Malformed { offset, .. } => assert!(offset <= data.len()),
        DecodeError::UnknownBody(_) => {}
        DecodeError::Incomplete { .. } => panic!("a payload is complete"),
    }
}

/// `data` is the body of an IO, then eight bytes for the size of the datafile: the sums in closed form equal those
/// over the pieces.
pub fn transfer(data: &[u8]) {
    let Some((body, size)) = data.split_last_chunk::<8>() else { return };
    let mut payload = IO_HEAD.to_vec();
    payload.extend_from_slice(body);
    let view = RequestView::parse(&payload).expect("the head is a constant");
    if let Ok(Some(io)) = view.io()
        && let Ok(transfer) = io.transfer()
    {
        check_transfer(&transfer, u64::from_le_bytes(*size));
    }
}

/// A request for an IO with the null capability and no hints.
const IO_HEAD: [u8; 60] = {
    let mut head = [0; 60];
    [head[0], head[1], head[4], head[8]] = [0x58, 0x1b, 2, 3];
    head
};

fn check_transfer(transfer: &Transfer, size: u64) {
    const MOST: usize = 5000;
    let pieces: Vec<_> = transfer.pieces().take(MOST).collect();
    let Ok(pieces) = pieces.into_iter().collect::<Result<Vec<_>, _>>() else { return };
    let mut wire_offset = 0;
    let mut below = 0;
    let mut is_below = true;
    for piece in &pieces {
        assert!(piece.len > 0);
        assert_eq!(piece.wire_offset, wire_offset);
        wire_offset += piece.len;
        if is_below {
            below += piece.len.min(size.saturating_sub(piece.physical));
            is_below = piece.physical + piece.len <= size;
        }
    }
    let first = transfer.first_physical_offset();
    assert_eq!(first, Ok(pieces.first().map(|piece| piece.physical)));
    let (write, read) = (transfer.write_bytes(), transfer.read_bytes(size));
    if let (Ok(write), Ok(read)) = (write, read) {
        assert!(read <= write);
        if pieces.len() < MOST {
            assert_eq!((write, read), (wire_offset, below));
        } else {
            assert!(write >= wire_offset && (is_below || read == below));
        }
    }
}

/// As a request: an explicit layout changes only in its addresses. As a configuration text: the result decodes,
/// nothing changes without a map, and rewriting twice is rewriting once.
pub fn rewrite(data: &[u8]) {
    const TARGET: &str = "tcp://proxy:3334";
    if let Ok(Some(rewritten)) = rewrite::layout(data, |_| Some(TARGET.to_owned())) {
        assert!(rewritten.len() <= 16384);
        assert_eq!(Request::decode(&rewritten).is_ok(), Request::decode(data).is_ok());
        assert_eq!(rewrite::layout(&rewritten, |_| Some(TARGET.to_owned())), Ok(None));
    }
    let keep = ClientTimeouts::default();
    let payload = Reply::from(GetConfig { text: Text(data.to_vec()) }).encode();
    match rewrite::config_text(&payload, keep, |_| None) {
        Ok(same) => assert_eq!(same, payload),
        Err(error) => assert!(matches!(error, RewriteError::TooLong(_))),
    }
    let timeouts = ClientTimeouts { bmi_secs: Some(900), flow_secs: Some(7) };
    let map = |address: &str| address.contains(':').then(|| TARGET.to_owned());
    if let Ok(once) = rewrite::config_text(&payload, timeouts, map) {
        assert!(matches!(Reply::decode(&once).map(|reply| reply.body), Ok(ReplyBody::GetConfig(_))));
        assert_eq!(rewrite::config_text(&once, timeouts, map).as_ref(), Ok(&once));
    }
    let _ = rewrite::config_text(data, timeouts, map);
}

/// The views of RPC and NFS: a record is found in bytes that begin with it, and nothing in its message makes a view
/// panic.
pub fn rpc(data: &[u8]) {
    let record = match Record::parse(data) {
        Ok(record) => record,
        Err(DecodeError::Incomplete { needed }) => return assert!(needed > 0 && needed <= MAX_RECORD),
        Err(_) => return,
    };
    assert!(record.len <= MAX_RECORD && record.message_len() < record.len);
    assert_eq!(Record::parse(&data[..data.len().min(record.len)]), Ok(record), "what follows does not matter");
    let message = record.message(data);
    assert!(message.len() <= record.message_len());
    match Message::parse(&message) {
        Ok(Message::Call(call)) => {
            if let Credential::Sys(user) = &call.credential {
                assert!((1..=17).contains(&user.gids().count()));
            }
            let Some(arguments) = call.arguments else { return };
            let _ = Access::parse(call.procedure, arguments);
            if let Ok(compound) = Compound::parse(arguments) {
                assert!(compound.reads as usize <= arguments.len() / 32);
                // Only the last WRITE may state more than there is.
                assert!(compound.is_cut || compound.written <= arguments.len() as u64 + u64::from(u32::MAX));
            }
        }
        Ok(Message::Reply(reply)) => {
            let Some(results) = reply.results else { return };
            let _ = (status(results), moved(false, results), moved(true, results), compound_moved(results));
            assert!(compound_listed(results) as usize <= results.len() / 24);
            for is_plus in [false, true] {
                assert!(listed(is_plus, results) as usize <= results.len() / 24);
            }
        }
        Err(_) => {}
    }
}

/// Checks of a session that a script drives: the driver records every action and checks it against the earlier ones.
/// Panics if an invariant is violated, never because of malformed bytes.
///
/// What a driver knows of a session's scheduled operations. Each is enqueued, then either cancelled while it is queued
/// or dispatched and completed, exactly once; in between it is released at most once.
#[derive(Debug, Default)]
pub struct DriverRecord {
    ops: BTreeMap<OpId, Known>,
    is_closed: bool,
}

#[derive(Debug)]
struct Known {
    kind: OpKind,
    cost: Bytes,
    is_dispatched: bool,
    is_released: bool,
    is_overdue: bool,
}

impl DriverRecord {
    /// Records an action and checks it.
    pub fn on(&mut self, action: &Action) {
        let begins = matches!(action, Action::Enqueue(..) | Action::Cancel(_) | Action::Close(_));
        assert!(!self.is_closed || !begins, "{action:?} after the end");
        match action {
            Action::Enqueue(op, submission) => self.submit(*op, submission),
            Action::CorrectCost(op, real) => {
                let known = self.ops.get_mut(op).expect("a correction of a scheduled operation");
                assert!(known.is_dispatched && known.kind != OpKind::Metadata && *real >= MIN_DATA_COST);
                assert!(!known.is_released, "the charge of {op:?} stays");
                known.cost = *real;
            }
            Action::CorrectObjects(op, _) => {
                let known = self.ops.get(op).expect("a correction of a scheduled operation");
                assert!(known.is_dispatched && known.kind == OpKind::Metadata);
                assert!(!known.is_released, "the charge of {op:?} stays");
            }
            Action::Complete(finished) => self.complete(finished),
            Action::Cancel(op) => {
                let known = self.ops.remove(op).expect("a cancellation of a scheduled operation");
                assert!(!known.is_dispatched || known.is_overdue, "{op:?} was dispatched");
            }
            Action::Release(op) => {
                let known = self.ops.get_mut(op).expect("a release of a scheduled operation");
                assert!(known.is_dispatched && !known.is_released, "{op:?} has no slots");
                known.is_released = true;
            }
            Action::Overdue(op) => {
                let known = self.ops.get_mut(op).expect("a scheduled operation");
                assert!(known.is_dispatched && !known.is_released, "{op:?} has no slots");
                (known.is_released, known.is_overdue) = (true, true);
            }
            Action::Close(_) => {
                self.is_closed = true;
                assert!(self.ops.values().all(|known| known.is_dispatched), "{self:?}");
            }
            Action::Repeated | Action::SizeLearned { .. } | Action::UnmappedServer(_) | Action::ClaimsServer => {}
        }
    }

    fn submit(&mut self, op: OpId, submission: &Submission) {
        let Submission { kind, cost, objects, position, elsewhere, .. } = *submission;
        match kind {
            OpKind::Metadata => assert_eq!((cost, position, elsewhere), (Bytes::ZERO, None, None)),
            OpKind::Read | OpKind::Write => assert!(cost >= MIN_DATA_COST && objects == Objects::ONE),
        }
        if let Some(FilePosition { start, .. }) = position {
            assert!(i64::try_from(start).is_ok());
        }
        let before =
            self.ops.insert(op, Known { kind, cost, is_dispatched: false, is_released: false, is_overdue: false });
        assert!(before.is_none(), "{op:?} is in use");
    }

    fn complete(&mut self, finished: &Completed) {
        let known = self.ops.remove(&finished.op);
        assert_eq!(known.as_ref().map(|known| known.kind), finished.kind);
        assert!(finished.arrived <= finished.dispatched);
        if let Some(known) = known {
            assert!(known.is_dispatched, "{finished:?} was not dispatched");
        }
    }

    /// The driver dispatches an operation.
    pub fn dispatch(&mut self, op: OpId) {
        let known = self.ops.get_mut(&op).expect("a scheduled operation");
        assert!(!known.is_dispatched);
        known.is_dispatched = true;
    }

    /// The queued operations, in order of their numbers.
    pub fn held(&self) -> impl Iterator<Item = OpId> {
        self.ops.iter().filter(|(_, known)| !known.is_dispatched).map(|(op, _)| *op)
    }

    /// Whether no operation is queued or in progress.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
}

/// Checks that a script has the same effect whether bytes arrive at once or in pieces, or pass through pipes as far as
/// they may, and that every action is valid.
///
/// The first byte of `data` selects the limits, the second the size of pieces. The rest is steps, see `Steps`.
pub fn session(data: &[u8]) {
    check_splits(data, Framing::Bmi);
}

/// The same for a session of NFS.
pub fn nfs_session(data: &[u8]) {
    check_splits(data, Framing::Rpc);
}

fn check_splits(data: &[u8], framing: Framing) {
    let Some((&[limits, piece], script)) = data.split_first_chunk() else { return };
    let at_once = Run::of(script, framing, limits, (usize::MAX, false));
    let piece = 1 + usize::from(piece);
    for other in [(piece, false), (piece, true), (usize::MAX, true)] {
        let other = Run::of(script, framing, limits, other);
        assert_eq!(at_once.actions, other.actions);
        assert!(at_once.to_client == other.to_client && at_once.to_server == other.to_server);
    }
}

/// How messages are framed, and by which protocol they are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Bmi,
    Rpc,
}

/// One step of a script.
enum Step {
    FromClient(Vec<u8>),
    FromServer(Vec<u8>),
    Dispatch(usize),
    Wait(Duration),
    ClientTakes(usize),
    ServerTakes(usize),
    ClientEof,
    ServerEof,
    Drain,
}

/// Reads steps from a script: a number, then little-endian arguments. Missing bytes are zero.
struct Steps<'a>(&'a [u8], Framing);

impl Steps<'_> {
    fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn u16(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.u8(), self.u8()]))
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    /// A header that fits the payload behind it. With a mode it is a request.
    fn message(&mut self, mode: Option<Mode>) -> Vec<u8> {
        if self.1 == Framing::Rpc {
            return if mode == Some(Mode::Unexpected) { self.call() } else { self.reply() };
        }
        let tag = Tag(u64::from(self.u8()));
        let len = self.u16();
        let payload = self.bytes(len);
        let size = payload.len() as u64;
        let header = Header { mode: mode.unwrap_or(Mode::for_reply(size)), tag, size };
        [&header.encode()[..], &payload[..]].concat()
    }

    /// A call of one of a few users, for one of a few files, with one of a few transaction numbers.
    fn call(&mut self) -> Vec<u8> {
        let [xid, uid, procedure, file] = [self.u8() % 8, self.u8() % 4, self.u8(), self.u8() % 4].map(u32::from);
        let version = if procedure < 32 { 3 } else { 4 };
        let user = match uid {
            // A security context, in which calls have numbers.
            3 => vec![6, 24, 1, 0, self.u8().into(), 1, 4, 7, 0, 0],
            uid => vec![1, 20, 0, 0, uid, 0, 0, 0, 0],
        };
        let arguments = match procedure {
            // A COMPOUND with a WRITE, of whose data and what follows it the script has the bytes.
            224.. => [&[0, 1, 2 + file, 22, 4, file, 38][..], &[0; 7], &[u32::from(self.u8()) * 8]].concat(),
            _ => vec![4, file],
        };
        let head = [&[xid, 0, 2, 100_003, version, procedure % 32][..], &user, &arguments].concat();
        self.record(&head)
    }

    /// A successful reply to such a call.
    fn reply(&mut self) -> Vec<u8> {
        let xid = u32::from(self.u8() % 8);
        self.record(&[xid, 1, 0, 0, 0, 0])
    }

    /// A record of these words and as many bytes of the script as it says.
    fn record(&mut self, head: &[u32]) -> Vec<u8> {
        let len = self.u16();
        let head: Vec<u8> = head.iter().flat_map(|word| word.to_be_bytes()).collect();
        let message = [head, self.bytes(len)].concat();
        let mark = u32::try_from(message.len()).expect("a short message") | 1 << 31;
        [&mark.to_be_bytes()[..], &message].concat()
    }

    /// A long message from a short script.
    fn zeros(&mut self) -> Vec<u8> {
        let tag = Tag(u64::from(self.u8()));
        let len = self.u16();
        if self.1 == Framing::Rpc {
            let mark = u32::try_from(len).expect("16 bits") | 1 << 31;
            return [&mark.to_be_bytes()[..], &vec![0; len]].concat();
        }
        let mut message = Header { mode: Mode::for_reply(len as u64), tag, size: len as u64 }.encode().to_vec();
        message.resize(Header::LEN + len, 0);
        message
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.u8() % 13 {
            0 => Step::FromClient(self.message(Some(Mode::Unexpected))),
            1 => Step::FromServer(self.message(None)),
            2 => Step::FromClient(self.message(None)),
            3 => Step::FromClient(self.zeros()),
            4 => Step::FromServer(self.zeros()),
            5 => Step::Dispatch(usize::from(self.u8())),
            6 => Step::Wait(Duration::from_secs(u64::from(self.u8()) * 4)),
            7 => Step::ClientTakes(self.u16()),
            8 => Step::ServerTakes(self.u16()),
            9 => {
                let len = usize::from(self.u8());
                Step::FromClient(self.bytes(len))
            }
            10 => {
                let len = usize::from(self.u8());
                Step::FromServer(self.bytes(len))
            }
            11 if self.u8().is_multiple_of(2) => Step::ClientEof,
            11 => Step::ServerEof,
            _ => Step::Drain,
        })
    }
}

/// A driver without sockets.
struct Run {
    session: Box<dyn Session>,
    framing: Framing,
    now: Time,
    /// Bytes that arrive at once.
    piece: usize,
    /// Whether the rests of messages pass through the pipes, and those of requests stay in the sockets.
    is_piped: bool,
    /// What was not read, from the client and from the server.
    sockets: [BytesMut; 2],
    client_buf: BytesMut,
    server_buf: BytesMut,
    /// From the client and from the server.
    pipes: [Vec<u8>; 2],
    record: DriverRecord,
    actions: Vec<Action>,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl Run {
    fn of(script: &[u8], framing: Framing, limits: u8, (piece, is_piped): (usize, bool)) -> Self {
        let ops = 1 + usize::from(limits % 16);
        let requester = match ops % 3 {
            0 => Requester::Server,
            rest => Requester::Client { may_manage: rest == 1 },
        };
        let outbound_bytes = 1024 << (limits / 16);
        let addresses = [("tcp://127.0.0.1:4334", "tcp://proxy-1:3334"), ("tcp://127.0.0.1:4335", "tcp://p2:1")];
        let addresses = AddressMap::new(addresses.map(|(server, proxy)| (server.to_owned(), proxy.to_owned())));
        let interposer: &dyn Interposer = match framing {
            Framing::Bmi => &OrangeFs::new(addresses),
            Framing::Rpc => &Nfs,
        };
        let limits = SessionLimits { ops, outbound_bytes, ..SessionLimits::default() };
        let mut run = Self {
            session: interposer.session(limits, requester, None),
            framing,
            now: Time::ZERO,
            piece,
            is_piped,
            sockets: Default::default(),
            client_buf: BytesMut::new(),
            server_buf: BytesMut::new(),
            pipes: Default::default(),
            record: DriverRecord::default(),
            actions: Vec::new(),
            to_client: Vec::new(),
            to_server: Vec::new(),
        };
        for step in Steps(script, framing) {
            run.step(step);
            run.check();
        }
        run.end();
        run
    }

    fn step(&mut self, step: Step) {
        // A request that has arrived may be dispatched before the rest of it is read.
        if !matches!(step, Step::Dispatch(_)) {
            self.receive(Side::Client);
        }
        let session = &mut self.session;
        match step {
            Step::FromClient(bytes) if session.wants_client() => self.arrive(Side::Client, &bytes),
            Step::FromServer(bytes) if session.wants_server() => self.arrive(Side::Server, &bytes),
            // Back-pressure: such bytes stay with the peer.
            Step::FromClient(_) | Step::FromServer(_) => {}
            Step::Dispatch(at) => {
                let held: Vec<_> = self.record.held().collect();
                if let Some(&op) = held.get(at % held.len().max(1)) {
                    self.record.dispatch(op);
                    let every = Duration::from_millis(1);
                    let pieces = (at % 2 == 1).then_some(Pieces { count: 3, every });
                    if op.serial.is_multiple_of(2) {
                        session.ask_to_store(op);
                    }
                    session.dispatch(self.now, op, pieces);
                }
                self.receive(Side::Client);
            }
            Step::Wait(duration) => {
                self.now = self.now + duration;
                session.handle_timeout(self.now);
                session.handle_client(self.now, &mut self.client_buf);
            }
            Step::ClientTakes(count) => take(session.to_client(), count, &mut self.pipes[1], &mut self.to_client),
            Step::ServerTakes(count) => take(session.to_server(), count, &mut self.pipes[0], &mut self.to_server),
            Step::ClientEof => {
                self.read(Side::Client);
                self.session.handle_client_eof(self.client_buf.len());
            }
            Step::ServerEof => session.handle_server_eof(self.server_buf.len()),
            Step::Drain => {
                session.drain();
            }
        }
    }

    fn arrive(&mut self, side: Side, bytes: &[u8]) {
        for piece in bytes.chunks(self.piece) {
            self.sockets[side as usize].extend_from_slice(piece);
            self.receive(side);
        }
    }

    /// Takes what is in a socket, as far as it need not stay there.
    fn receive(&mut self, side: Side) {
        while !self.sockets[side as usize].is_empty() {
            let (socket, pipe) = (&mut self.sockets[side as usize], &mut self.pipes[side as usize]);
            match self.session.next(side) {
                Next::Arriving(rest) if self.is_piped && socket.len() < rest => return,
                Next::Arriving(_) if self.is_piped => {
                    self.session.arrived(self.now, &mut self.client_buf);
                    if let Next::Waiting(_) = self.session.next(side) {
                        return;
                    }
                    self.read(side);
                }
                Next::Passing(most)
                    if self.is_piped && [&self.client_buf, &self.server_buf][side as usize].is_empty() =>
                {
                    let passing = socket.split_to(most.min(socket.len()));
                    pipe.extend_from_slice(&passing);
                    self.session.passed(self.now, side, passing.len());
                }
                _ => self.read(side),
            }
        }
    }

    fn read(&mut self, side: Side) {
        let bytes = self.sockets[side as usize].split();
        match side {
            Side::Client => {
                self.client_buf.extend_from_slice(&bytes);
                self.session.handle_client(self.now, &mut self.client_buf);
            }
            Side::Server => {
                self.server_buf.extend_from_slice(&bytes);
                self.session.handle_server(self.now, &mut self.server_buf);
            }
        }
    }

    /// Records the actions of the step.
    fn check(&mut self) {
        while let Some(action) = self.session.poll_action() {
            self.record.on(&action);
            self.actions.push(action);
        }
        if self.session.is_closed() {
            assert!(self.record.is_empty(), "{:?}", self.record);
            assert!(!self.session.wants_client() && !self.session.wants_server());
            assert!(self.session.to_server().is_empty());
            assert_eq!(self.session.poll_timeout(), None);
        } else {
            let [request, reply] = match self.framing {
                // The longest reply that is held is a configuration.
                Framing::Bmi => [MAX_UNEXPECTED, 128 << 10].map(|payload| Header::LEN as u64 + payload),
                Framing::Rpc => [MAX_RECORD as u64 + 4; 2],
            };
            // Data of a write in pieces waits for its turn, and nothing is read meanwhile.
            assert!((self.client_buf.len() as u64) < request || !self.session.wants_client());
            assert!((self.server_buf.len() as u64) < reply);
        }
    }

    fn end(&mut self) {
        self.session.end();
        self.check();
        assert!(self.session.is_closed());
        take(self.session.to_client(), usize::MAX, &mut self.pipes[1], &mut self.to_client);
        // Further input is ignored.
        let mut late = BytesMut::from(&[0; 64][..]);
        self.session.handle_client(self.now, &mut late);
        self.session.handle_server(self.now, &mut late);
        self.session.handle_client_eof(0);
        self.session.handle_server_eof(0);
        self.session.handle_timeout(self.now);
        assert_eq!(self.session.poll_action(), None);
    }
}

/// Moves at most `count` bytes, those in `pipe` first, as a socket would.
pub fn take(out: &mut Outbound, count: usize, pipe: &mut Vec<u8>, into: &mut Vec<u8>) {
    let mut left = count.min(out.len());
    while left > 0 {
        let before = into.len();
        into.extend(pipe.drain(..left.min(out.piped())));
        let mut slices = [IoSlice::new(&[]); 4];
        let filled = out.slices(&mut slices);
        for slice in &slices[..filled] {
            let len = slice.len().min(left - (into.len() - before));
            into.extend_from_slice(&slice[..len]);
        }
        let taken = into.len() - before;
        left -= taken;
        out.advance(taken);
    }
}
