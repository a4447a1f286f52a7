//! A client, a server and a scheduler around a session, all of which act in random order.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::BytesMut;
use vpfs_core::{Bytes, MIN_DATA_COST, Time};
use vpfs_session::orangefs::AddressMap;
use vpfs_session::{Action, Completed, OpId, Outcome, Requester, SessionLimits};
use vpfs_wire::bmi::{Header, Mode};
use vpfs_wire::pvfs2::{IoType, Op, RequestBody};

use super::fuzz::take;
use super::messages::*;
use super::{Wire, messages};

/// What a client does with one tag.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// Bytes requested, bytes in the file.
    Read(usize, usize),
    Write(usize),
    SmallRead(usize, usize),
    SmallWrite(usize),
    /// Entries in the reply.
    List(u64),
    Configure,
    Create,
    RefusedRead(usize),
    RefusedWrite(usize),
    FailedWrite(usize),
    /// A read by another server.
    ServerRead(usize),
    ServerWrite(usize),
}

const THEIRS: &str = "tcp://127.0.0.1:4334";
const OURS: &str = "tcp://proxy.example:3334";

/// The addresses that the scripts use.
pub(crate) fn addresses() -> AddressMap {
    AddressMap::new([(THEIRS.to_owned(), OURS.to_owned())])
}

fn config(address: &str) -> String {
    format!("<Aliases>\n\tAlias s1 {address}\n</Aliases>\n")
}

impl Script {
    fn request(&self, tag: i32) -> Vec<u8> {
        let io = |io_type, len: usize| RequestBody::Io(io(io_type, 0, i64::try_from(len).unwrap()));
        match *self {
            Self::Read(len, _) | Self::RefusedRead(len) => request(tag, io(IoType::Read, len)),
            Self::Write(len) | Self::RefusedWrite(len) | Self::FailedWrite(len) => request(tag, io(IoType::Write, len)),
            Self::ServerRead(len) => server_request(tag, io(IoType::Read, len)),
            Self::ServerWrite(len) => server_request(tag, io(IoType::Write, len)),
            Self::SmallRead(len, _) => small_read(tag, i64::try_from(len).unwrap()),
            Self::SmallWrite(len) => small_write(tag, len),
            Self::List(_) => readdir(tag),
            Self::Configure => getconfig(tag),
            Self::Create => request(tag, create(&[OURS])),
        }
    }

    /// The request as the server must get it.
    fn request_behind(&self, tag: i32) -> Vec<u8> {
        if matches!(self, Self::Create) { request(tag, create(&[THEIRS])) } else { self.request(tag) }
    }

    /// The server's first replies to the request.
    fn first_replies(&self, tag: i32, chunk: usize) -> VecDeque<Vec<u8>> {
        let read = |len, size: usize| -> VecDeque<Vec<u8>> {
            let ack = ack(tag, i64::try_from(size).unwrap());
            std::iter::once(ack).chain(chunks(tag, std::cmp::min(len, size), chunk)).collect()
        };
        let one = |message| VecDeque::from([message]);
        match *self {
            Self::Read(len, size) => read(len, size),
            Self::ServerRead(len) => read(len, len),
            Self::Write(_) | Self::FailedWrite(_) | Self::ServerWrite(_) => one(ack(tag, 0)),
            Self::SmallRead(len, size) => one(small_read_reply(tag, i64::try_from(size).unwrap(), len.min(size))),
            Self::SmallWrite(len) => one(small_write_reply(tag, 9, i64::try_from(len).unwrap())),
            Self::List(entries) => one(readdir_reply(tag, entries)),
            Self::Configure => one(config_reply(tag, &config(THEIRS))),
            Self::Create => one(refusal(tag, Op::Create)),
            Self::RefusedRead(_) | Self::RefusedWrite(_) => one(refusal(tag, Op::Io)),
        }
    }

    /// Bytes that the client sends once it may.
    fn written(&self) -> usize {
        match *self {
            Self::Write(len) | Self::FailedWrite(len) | Self::ServerWrite(len) => len,
            _ => 0,
        }
    }

    fn completion(&self, tag: i32) -> Vec<u8> {
        match *self {
            Self::FailedWrite(_) => refusal(tag, Op::WriteCompletion),
            _ => written(tag, i64::try_from(self.written()).unwrap()),
        }
    }

    /// Data bytes of the whole operation, and its status.
    fn outcome(&self) -> (usize, i32) {
        match *self {
            Self::Read(len, size) | Self::SmallRead(len, size) => (len.min(size), 0),
            Self::Write(len) | Self::SmallWrite(len) | Self::ServerRead(len) | Self::ServerWrite(len) => (len, 0),
            Self::FailedWrite(len) => (len, ENOENT.0),
            Self::RefusedRead(_) | Self::RefusedWrite(_) | Self::Create => (0, ENOENT.0),
            Self::List(_) | Self::Configure => (0, 0),
        }
    }

    fn is_scheduled(&self) -> bool {
        !matches!(self, Self::Configure | Self::ServerRead(_) | Self::ServerWrite(_))
    }

    fn is_charged(&self) -> bool {
        self.is_scheduled() && !matches!(self, Self::List(_) | Self::Create)
    }
}

fn chunks(tag: i32, len: usize, chunk: usize) -> Vec<Vec<u8>> {
    (0..len).step_by(chunk).map(|at| data(tag, chunk.min(len - at))).collect()
}

/// Pseudo-random numbers, equal for equal seeds.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// An input of the session.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Client(Vec<u8>),
    Server(Vec<u8>),
    Dispatch(OpId),
}

/// One end of a connection: the messages that it sends and receives.
#[derive(Default)]
struct Peer {
    /// Messages not sent yet; each list in order, the lists in any order.
    ready: BTreeMap<i32, VecDeque<Vec<u8>>>,
    /// Sent, but not read by the session.
    stream: VecDeque<u8>,
    said: Vec<Vec<u8>>,
    /// Received; the last message may be incomplete.
    partial: Vec<u8>,
    heard: Vec<Vec<u8>>,
}

impl Peer {
    fn say(&mut self, chance: &mut Chance) {
        let tags: Vec<i32> = self.ready.keys().copied().collect();
        let tag = tags[chance.below(tags.len())];
        let messages = self.ready.get_mut(&tag).unwrap();
        let message = messages.pop_front().unwrap();
        if messages.is_empty() {
            self.ready.remove(&tag);
        }
        self.stream.extend(&message);
        self.said.push(message);
    }

    /// Takes bytes off the stream.
    fn send(&mut self, chance: &mut Chance) -> Vec<u8> {
        let most = if chance.below(2) == 0 { 50 } else { World::MOST };
        let count = 1 + chance.below(most.min(self.stream.len()));
        self.stream.drain(..count).collect()
    }

    /// The messages that are complete now.
    fn hear(&mut self, bytes: &[u8]) -> Vec<(i32, Mode, Vec<u8>)> {
        self.partial.extend_from_slice(bytes);
        let mut complete = 0;
        while let Ok(header) = Header::decode(&self.partial[complete..]) {
            let end = complete + Header::LEN + usize::try_from(header.size).unwrap();
            if end > self.partial.len() {
                break;
            }
            complete = end;
        }
        let heard = messages(&self.partial[..complete]);
        self.partial.drain(..complete);
        self.heard.extend(heard.iter().map(|(_, _, message)| message.clone()));
        heard.into_iter().map(|(tag, mode, message)| (i32::try_from(tag.0).unwrap(), mode, message)).collect()
    }
}

/// The tag of a complete message.
fn tag_of(message: &[u8]) -> i32 {
    i32::try_from(Header::decode(message).unwrap().tag.0).unwrap()
}

pub(crate) struct World {
    scripts: Vec<Script>,
    chance: Chance,
    limits: SessionLimits,
    chunk: usize,
    wire: Wire,
    client: Peer,
    server: Peer,
    /// By tag: bytes of a write's data that the server has yet to get.
    missing: BTreeMap<i32, usize>,
    /// By operation: the tag, and what it costs.
    known: BTreeMap<OpId, Bytes>,
    completed: Vec<(Completed, Bytes)>,
    pub(crate) actions: Vec<Action>,
    pub(crate) inputs: Vec<Input>,
}

impl World {
    /// The maximum number of bytes in one input.
    const MOST: usize = 30_000;

    pub(crate) fn new(scripts: Vec<Script>, seed: u64, limits: SessionLimits, chunk: usize) -> Self {
        let mut client = Peer::default();
        for (tag, script) in (1..).zip(&scripts) {
            client.ready.insert(tag, VecDeque::from([script.request(tag)]));
        }
        Self {
            scripts,
            chance: Chance::new(seed),
            limits,
            chunk,
            wire: Wire::of(limits, addresses(), Requester::Server),
            client,
            server: Peer::default(),
            missing: BTreeMap::new(),
            known: BTreeMap::new(),
            completed: Vec::new(),
            actions: Vec::new(),
            inputs: Vec::new(),
        }
    }

    fn script(&self, tag: i32) -> &Script {
        &self.scripts[usize::try_from(tag).unwrap() - 1]
    }

    /// Lets everyone act until no more action is possible.
    pub(crate) fn run(&mut self) {
        while self.step() {
            self.check_bounds();
        }
    }

    /// Takes one of the possible actions at random; `false` if there is none.
    fn step(&mut self) -> bool {
        let held: Vec<OpId> = self.wire.record.held().collect();
        let session = &mut self.wire.session;
        let possible = [
            !self.client.ready.is_empty(),
            !self.client.stream.is_empty() && session.wants_client(),
            !session.to_server().is_empty(),
            !self.server.ready.is_empty(),
            !self.server.stream.is_empty() && session.wants_server(),
            !session.to_client().is_empty(),
            !held.is_empty(),
        ];
        let possible: Vec<usize> = (0..possible.len()).filter(|&at| possible[at]).collect();
        if possible.is_empty() {
            return false;
        }
        match possible[self.chance.below(possible.len())] {
            0 => self.client.say(&mut self.chance),
            1 => {
                let bytes = self.client.send(&mut self.chance);
                let actions = self.wire.client(&bytes);
                self.inputs.push(Input::Client(bytes));
                self.note(actions);
            }
            2 => self.server_hears(),
            3 => self.server.say(&mut self.chance),
            4 => {
                let bytes = self.server.send(&mut self.chance);
                let actions = self.wire.server(&bytes);
                self.inputs.push(Input::Server(bytes));
                self.note(actions);
            }
            5 => self.client_hears(),
            _ => {
                let op = held[self.chance.below(held.len())];
                self.wire.dispatch(op);
                self.inputs.push(Input::Dispatch(op));
            }
        }
        true
    }

    fn note(&mut self, actions: Vec<Action>) {
        for action in &actions {
            match action {
                Action::Enqueue(op, submission) => {
                    self.known.insert(*op, submission.cost);
                }
                Action::CorrectCost(op, cost) => {
                    self.known.insert(*op, *cost);
                }
                Action::Complete(completed) => {
                    let cost = self.known.remove(&completed.op).unwrap_or_default();
                    self.completed.push((*completed, cost));
                }
                Action::SizeLearned { .. } | Action::CorrectObjects(..) => {}
                other => panic!("{other:?}"),
            }
        }
        self.actions.extend(actions);
    }

    fn server_hears(&mut self) {
        let mut bytes = Vec::new();
        take(self.wire.session.to_server(), 1 + self.chance.below(Self::MOST), &mut bytes);
        for (tag, mode, message) in self.server.hear(&bytes) {
            let script = self.script(tag).clone();
            if mode == Mode::Unexpected {
                self.server.ready.insert(tag, script.first_replies(tag, self.chunk));
                self.missing.insert(tag, script.written());
                continue;
            }
            let missing = self.missing.get_mut(&tag).expect("data only after its request");
            *missing -= message.len() - Header::LEN;
            if *missing == 0 {
                self.server.ready.entry(tag).or_default().push_back(script.completion(tag));
            }
        }
    }

    fn client_hears(&mut self) {
        let mut bytes = Vec::new();
        take(self.wire.session.to_client(), 1 + self.chance.below(Self::MOST), &mut bytes);
        for (tag, _, _) in self.client.hear(&bytes) {
            let is_first = self.client.heard.iter().filter(|message| tag_of(message) == tag).count() == 1;
            let written = self.script(tag).written();
            if is_first && written > 0 {
                self.client.ready.insert(tag, chunks(tag, written, self.chunk).into());
            }
        }
    }

    /// The memory of a session does not depend on the amount of data that passes through it.
    fn check_bounds(&mut self) {
        let SessionLimits { ops, outbound_bytes, .. } = self.limits;
        let requests = ops * 500 + Self::MOST;
        assert!(self.wire.session.to_server().len() < outbound_bytes + Self::MOST + requests);
        assert!(self.wire.session.to_client().len() < outbound_bytes + 2 * Self::MOST);
        assert!(self.wire.client_buf.len() < Header::LEN + 16384);
        assert!(self.wire.server_buf.len() < Header::LEN + 16384);
    }

    /// Checks that nothing is lost or mixed up, and that the scheduler was informed of everything.
    pub(crate) fn check_end(&mut self) {
        self.wire.assert_idle();
        assert!(self.wire.drains());
        self.check_streams();
        assert_eq!(self.completed.len(), self.scripts.len());
        let mut expected: Vec<_> = self.scripts.iter().map(expected_end).collect();
        let mut found: Vec<_> = self.completed.iter().map(found_end).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        self.wire.wait(Duration::from_secs(60));
        assert_eq!(self.wire.session.poll_timeout(), None);
    }

    fn check_streams(&self) {
        // To the client: the same messages in the same order, except for the addresses.
        let told = |message: &Vec<u8>| match self.script(tag_of(message)) {
            Script::Configure => config_reply(tag_of(message), &config(OURS)),
            _ => message.clone(),
        };
        assert!(self.client.heard == self.server.said.iter().map(told).collect::<Vec<_>>());
        assert!(self.client.partial.is_empty() && self.server.partial.is_empty());
        // To the server: data in the same order, and nothing of an operation before its request.
        let is_request = |message: &&Vec<u8>| Header::decode(message).unwrap().mode == Mode::Unexpected;
        let data = |messages: &'_ [Vec<u8>]| -> Vec<Vec<u8>> {
            messages.iter().filter(|message| !is_request(message)).cloned().collect()
        };
        assert!(data(&self.server.heard) == data(&self.client.said));
        let mut requests: Vec<_> = self.server.heard.iter().filter(is_request).cloned().collect();
        requests.sort_by_key(|message| tag_of(message));
        let expected = (1..).zip(&self.scripts).map(|(tag, script)| script.request_behind(tag));
        assert!(requests == expected.collect::<Vec<_>>());
    }

    /// What both peers received, for a comparison.
    pub(crate) fn heard(&self) -> (Vec<u8>, Vec<u8>) {
        (self.client.heard.concat(), self.server.heard.concat())
    }
}

/// Whether it was scheduled, the bytes, the status, and the cost at the end.
type End = (bool, u64, i32, Bytes);

fn expected_end(script: &Script) -> End {
    let (moved, status) = script.outcome();
    let cost = if script.is_charged() { Bytes(moved as u64).max(MIN_DATA_COST) } else { Bytes::ZERO };
    (script.is_scheduled(), moved as u64, status, cost)
}

fn found_end((completed, cost): &(Completed, Bytes)) -> End {
    let Outcome::Answered { status } = completed.outcome else { panic!("{completed:?}") };
    (completed.kind.is_some(), completed.moved, status, *cost)
}

/// Gives a new session the same inputs, with each run of bytes split differently by `cut`; returns actions and outputs.
pub(crate) fn replay(
    inputs: &[Input],
    limits: SessionLimits,
    now: Time,
    mut cut: impl FnMut(usize) -> usize,
) -> (Vec<Action>, (Vec<u8>, Vec<u8>)) {
    let mut wire = Wire::of(limits, addresses(), Requester::Server);
    wire.now = now;
    let mut actions = Vec::new();
    for input in inputs {
        let (mut rest, is_client) = match input {
            Input::Client(bytes) => (BytesMut::from(&bytes[..]), true),
            Input::Server(bytes) => (BytesMut::from(&bytes[..]), false),
            Input::Dispatch(op) => {
                wire.dispatch(*op);
                continue;
            }
        };
        while !rest.is_empty() {
            let piece = rest.split_to(cut(rest.len()));
            actions.extend(if is_client { wire.client(&piece) } else { wire.server(&piece) });
        }
    }
    (actions, (wire.take_to_client(), wire.take_to_server()))
}
