//! The daemon's own connections and gates between model clients and servers, in one thread, in virtual time, with
//! everything random from a seed (docs/decisions/0002-policies-and-simulation.md).
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a panic is the report; sizes are small")]

#[path = "../tests/it/common/raw.rs"]
#[allow(dead_code, reason = "made for the tests of the whole daemon")]
mod raw;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::io::Interest;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use vpfs_config::{AppTable, Config, Protocol};
use vpfs_protocol::session::nfs::Nfs;
use vpfs_protocol::session::orangefs::{AddressMap, OrangeFs};
use vpfs_protocol::wire::bmi::{Header, Tag};

use crate::accept::Acceptor;
use crate::clock::Clock;
use crate::connection::Newcomer;
use crate::event_log::LogLimit;
use crate::gate::Gate;
use crate::hosts::ConnectionPermits;
use crate::names::Names;
use crate::shared::{Rules, Shared, Stage};
use crate::sockets::Listener;
use crate::stream::simulated::{Randomness, Socket, pair};

/// Where nothing stalls, a client that is not done after this time has been forgotten.
const BOUND: Duration = Duration::from_secs(60);

/// A connection that is neither served nor closed after this time hangs: longer than all limits together.
const FOREVER: Duration = Duration::from_secs(3600);

struct Schedule {
    random: Randomness,
    protocol: Protocol,
    settings: String,
    /// Of the client and the server of each connection.
    fates: Vec<[Fate; 2]>,
    starts: Vec<Duration>,
    hand_over: Option<Duration>,
}

impl Schedule {
    fn of(seed: u64, protocol: Protocol) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let settings = settings(&mut random, protocol);
        let (connections, faults) = (random.random_range(1..=5), random.random_ratio(3, 4));
        let fates: Vec<_> = (0..connections).map(|_| [(); 2].map(|()| fate(&mut random, faults))).collect();
        // From a source of its own, so that a seed means the same connections with and without it.
        let mut other = SmallRng::seed_from_u64(!seed);
        let hand_over = other.random_ratio(1, 2).then(|| Duration::from_micros(1 << other.random_range(0..17)));
        let start = |_| hand_over.map_or(Duration::ZERO, |at| at * other.random_range(0..150) / 100);
        let starts = fates.iter().map(start).collect();
        Self { random: Arc::new(Mutex::new(random)), protocol, settings, fates, starts, hand_over }
    }

    /// Whether a hand-over may have to wait too long for a connection: one that stalls, or one whose operations wait
    /// for the slots of that.
    fn may_cut_off(&self) -> bool {
        self.hand_over.is_some() && self.fates.iter().flatten().any(|fate| matches!(fate, Fate::Stalls { .. }))
    }

    fn draw(&self, most: u64) -> u64 {
        self.random.lock().unwrap().random_range(0..=most)
    }

    /// Whether this connection has no reason to take long: neither its client stalls nor any server, which would
    /// occupy slots.
    fn is_swift(&self, number: usize) -> bool {
        let stalls = |fate: &Fate| matches!(fate, Fate::Stalls { .. });
        !self.fates[number].iter().any(stalls) && !self.fates.iter().any(|[_, server]| stalls(server))
    }
}

fn fate(random: &mut SmallRng, faults: bool) -> Fate {
    let after = (1 << random.random_range(0..20)) + random.random_range(0..1000);
    match random.random_range(0..6) {
        0 | 1 if faults => Fate::Ends { after, with_reset: random.random_ratio(1, 2) },
        2 if faults => Fate::Stalls { after, pause: Duration::from_millis(1 << random.random_range(0..18)) },
        _ => Fate::Good,
    }
}

fn settings(random: &mut SmallRng, protocol: Protocol) -> String {
    let policy = ["isolation", "fifo", "sfq-d", "sfq-d-plus", "two-level", "ioco"][random.random_range(0..6)];
    let depth =
        if policy.starts_with("sfq") { format!("depth = {}\n", random.random_range(1..10)) } else { String::new() };
    let metadata = if policy == "sfq-d-plus" && random.random_ratio(1, 2) { "metadata_depth = 2\n" } else { "" };
    let operations = [2, 8, 256][random.random_range(0..3)];
    let scheme = protocol.scheme();
    let apps = if protocol == Protocol::Nfs { "[apps]\nauto = \"uid\"\n" } else { "" };
    format!(
        "[[server]]\nname = \"s\"\naddress = \"{scheme}127.0.0.1:3334\"\n{apps}[[listener]]\nport = 5334\n\
         [[app]]\nname = \"a\"\nclients = \"10.0.0.1\"\nweight = 4\ntarget_rate = \"40MB/s\"\ndeadline = \"100ms\"\n\
         [scheduler]\npolicy = \"{policy}\"\n{depth}{metadata}[limits]\noperations = {operations}\n"
    )
}

struct World {
    schedule: Schedule,
    processes: [Process; 2],
    current: AtomicUsize,
    trace: Trace,
}

impl World {
    fn new(seed: u64, protocol: Protocol) -> Self {
        let schedule = Schedule::of(seed, protocol);
        let config = Config::parse("simulation", &schedule.settings).unwrap();
        let clock = Clock::starting_at(Duration::from_secs(1_700_000_000));
        let processes = [(); 2].map(|()| Process::new(&clock, &config));
        Self { schedule, processes, current: AtomicUsize::new(0), trace: Trace::default() }
    }

    async fn connection(self: Arc<Self>, number: usize) {
        let schedule = &self.schedule;
        tokio::time::sleep(schedule.starts[number]).await;
        let capacity = 1 << (10 + schedule.draw(8));
        let address = ([10, 0, 0, 1 + (number % 2) as u8], 40_000).into();
        let [client_end, proxy_client] = pair(&schedule.random, capacity, [address, PROXY.into()]);
        let [proxy_server, server_end] = pair(&schedule.random, capacity, [PROXY.into(), SERVER.into()]);
        let fates = schedule.fates[number];
        let points = Points::default();
        let peer = |socket, fate, name| Peer::new(schedule.protocol, socket, fate, &schedule.random, &self.trace, name);
        let (ours, theirs) = (peer(client_end, fates[0], (number, 0)), peer(server_end, fates[1], (number, 1)));
        self.processes[self.current.load(Relaxed)].admit(proxy_client, proxy_server, address);
        let serving = tokio::spawn(server(theirs, points.clone()));
        let (ops, at_once) = (1 + schedule.draw(30), 1 + schedule.draw(15) as usize);
        let calls = client(ours, points.clone(), ops, at_once);
        let patience = if schedule.is_swift(number) { BOUND } else { FOREVER };
        let answered = tokio::time::timeout(patience, calls).await;
        let answered = answered.expect("every operation is answered or its connection closed");
        tokio::time::timeout(FOREVER, serving).await.expect("the server's connection ends").unwrap();
        let is_good = fates == [Fate::Good; 2] && !schedule.may_cut_off();
        if is_good {
            assert_eq!(answered, ops, "nothing failed, so everything is answered");
        }
        points.server_got.assert_came_from(&points.client_sent, is_good, "towards the server");
        points.client_got.assert_came_from(&points.server_sent, is_good, "towards the client");
    }

    async fn reloads(self: Arc<Self>) {
        for _ in 0..self.schedule.draw(3) {
            tokio::time::sleep(Duration::from_millis(self.schedule.draw(100))).await;
            let settings = settings(&mut self.schedule.random.lock().unwrap(), self.schedule.protocol);
            let config = Config::parse("simulation", &settings).unwrap();
            self.processes[self.current.load(Relaxed)].reload(&config);
        }
    }

    async fn hand_over(self: Arc<Self>, at: Duration) {
        tokio::time::sleep(at).await;
        self.current.store(1, Relaxed);
        let [old, new] = &self.processes;
        let cut_off = old.hand_over(new, &self.schedule.random).await;
        self.trace.add(("cut off", cut_off));
        assert!(cut_off == 0 || self.schedule.may_cut_off(), "{cut_off} connections were not handed over");
    }

    async fn run(self) -> (u64, u64) {
        let world = Arc::new(self);
        let mut timers = JoinSet::new();
        for process in &world.processes {
            let gate = Arc::clone(process.gate());
            timers.spawn(async move { gate.run_timer().await });
        }
        let mut tasks = JoinSet::new();
        for number in 0..world.schedule.fates.len() {
            tasks.spawn(Arc::clone(&world).connection(number));
        }
        tasks.spawn(Arc::clone(&world).reloads());
        if let Some(at) = world.schedule.hand_over {
            tasks.spawn(Arc::clone(&world).hand_over(at));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        for process in &world.processes {
            tokio::time::timeout(FOREVER, process.end()).await.expect("every connection ends");
        }
        world.trace.digest()
    }
}

fn simulate(seed: u64, protocol: Protocol) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { World::new(seed, protocol).run().await })
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}

/// `SCHEDULES` of them from `SEED` on; a failure names its seed. `cargo xtask simulate` runs more than the default.
fn schedules(protocol: Protocol, default: u64) {
    let first = number("SEED", 1);
    for seed in first..first + number("SCHEDULES", default) {
        let outcome = std::panic::catch_unwind(|| simulate(seed, protocol));
        assert!(outcome.is_ok(), "replay with SEED={seed} SCHEDULES=1; {}", Schedule::of(seed, protocol).settings);
    }
}

#[test]
fn schedules_with_faults() {
    schedules(Protocol::OrangeFs, 1_000);
}

#[test]
fn schedules_with_faults_of_nfs() {
    schedules(Protocol::Nfs, 300);
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 1..20 {
        let protocol = if seed % 2 == 0 { Protocol::Nfs } else { Protocol::OrangeFs };
        assert_eq!(simulate(seed, protocol), simulate(seed, protocol), "seed {seed}");
    }
}

/// Kinds of operations, stated in their tags, so that servers need not decode requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Metadata,
    Write,
    Read,
    SmallWrite,
}

const KINDS: [Kind; 4] = [Kind::Metadata, Kind::Write, Kind::Read, Kind::SmallWrite];

pub(crate) fn tag(number: u64, kind: usize, kib: u64) -> Tag {
    Tag(number << 16 | (kind as u64) << 14 | kib)
}

pub(crate) fn meaning(tag: Tag) -> (Kind, usize) {
    (KINDS[usize::try_from(tag.0 >> 14 & 3).unwrap()], usize::try_from(tag.0 & 0x3fff).unwrap() << 10)
}

/// The bytes of each operation at one point in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passed(Arc<Mutex<HashMap<Tag, Vec<u8>>>>);

impl Passed {
    pub(crate) fn add(&self, tag: Tag, bytes: &[u8]) {
        self.0.lock().unwrap().entry(tag).or_default().extend_from_slice(bytes);
    }

    /// Asserts that `tag` arrived here after those that were sent there before it and must stay before it.
    pub(crate) fn assert_in_order(&self, tag: Tag, sent: &Self, is_ordered: impl Fn(Tag, Tag) -> bool) {
        let (arrived, sent) = (self.0.lock().unwrap(), sent.0.lock().unwrap());
        let overtaken = sent.keys().find(|&&other| is_ordered(other, tag) && !arrived.contains_key(&other));
        assert_eq!(overtaken, None, "{tag:?} has overtaken it");
    }

    /// Asserts that everything that arrived here was sent there, in this order; `all`: and nothing is missing.
    pub(crate) fn assert_came_from(&self, sent: &Self, all: bool, what: &str) {
        let (arrived, sent) = (self.0.lock().unwrap(), sent.0.lock().unwrap());
        for (tag, bytes) in arrived.iter() {
            let known = sent.get(tag).unwrap_or_else(|| panic!("{what}: {tag:?} was never sent"));
            assert!(known.starts_with(bytes), "{what}: bytes of {tag:?} were changed, lost or reordered");
        }
        if all {
            let count = |map: &HashMap<Tag, Vec<u8>>| map.values().map(Vec::len).sum::<usize>();
            assert_eq!((arrived.len(), count(&arrived)), (sent.len(), count(&sent)), "{what}: some is missing");
        }
    }
}

/// Everything that happened, condensed, so that two runs can be compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<(DefaultHasher, u64)>>);

impl Trace {
    pub(crate) fn add(&self, event: impl Hash) {
        let mut trace = self.0.lock().unwrap();
        event.hash(&mut trace.0);
        trace.1 += 1;
    }

    pub(crate) fn digest(&self) -> (u64, u64) {
        let trace = self.0.lock().unwrap();
        (trace.1, trace.0.finish())
    }
}

const PROXY: ([u8; 4], u16) = ([127, 0, 0, 1], 5334);

const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 3334);

struct Process {
    shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    permits: Arc<ConnectionPermits>,
}

impl Process {
    fn new(clock: &Clock, config: &Config) -> Self {
        let apps = AppTable::new(config);
        let gate = Arc::new(Gate::alone(clock.clone(), config, &apps));
        let listener = Listener {
            server: "s".to_owned(),
            address: PROXY.into(),
            upstream: ("127.0.0.1".to_owned(), SERVER.1),
            names: Names::unknown(clock),
            index: 0,
            interposer: match config.servers[0].address.protocol().expect("simulated servers have one") {
                Protocol::OrangeFs => Arc::new(OrangeFs::new(AddressMap::default())),
                Protocol::Nfs => Arc::new(Nfs),
            },
            gate: Arc::clone(&gate),
            down: false.into(),
            log: LogLimit::default(),
        };
        let shared = Arc::new(Shared::new(clock.clone(), vec![gate], Rules::resolved(config), apps));
        let permits = Arc::new(ConnectionPermits::new(config.limits.connections));
        let acceptor =
            Acceptor { listener: Arc::new(listener), shared: Arc::clone(&shared), permits: Arc::clone(&permits) };
        Self { shared, acceptor: Arc::new(acceptor), permits }
    }

    fn gate(&self) -> &Arc<Gate> {
        &self.shared.gates[0]
    }

    fn admit(&self, client: Socket, server: Socket, address: SocketAddr) {
        let permit = self.permits.try_take().unwrap();
        if let Some((newcomer, counted)) = self.acceptor.count(Newcomer::Simulated(client, server), address) {
            self.acceptor.admit(newcomer, address, counted, permit);
        }
    }

    fn reload(&self, config: &Config) {
        self.shared.replace(Rules::resolved(config), |apps, gates| {
            apps.reload(config);
            gates.iter().for_each(|gate| gate.reconfigure(config));
        });
    }

    /// Gives every connection to `successor`, each after a random time on its way. Returns how many were cut off.
    async fn hand_over(&self, successor: &Self, random: &Randomness) -> usize {
        let (sender, mut given) = mpsc::unbounded_channel();
        self.shared.set_successor(Some(sender));
        self.shared.enter(Stage::HandingOver);
        let giving = async {
            let cut_off = self.shared.end_connections(&self.permits).await;
            self.shared.set_successor(None);
            cut_off
        };
        let taking = async {
            while let Some(handed) = given.recv().await {
                let us = random.lock().unwrap().random_range(0..2_000);
                tokio::time::sleep(Duration::from_micros(us)).await;
                assert!(successor.acceptor.take_over(handed), "there is room");
            }
        };
        tokio::join!(giving, taking).0
    }

    async fn end(&self) {
        self.permits.all_free().await;
        assert!(self.gate().is_idle(), "slots are left");
        assert_eq!(self.shared.memory.held(), 0, "memory is left");
        self.shared.enter(Stage::Stopped);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    /// After so many bytes read or written it ends, with a reset or orderly.
    Ends {
        after: usize,
        with_reset: bool,
    },
    /// After so many bytes it does nothing for a while.
    Stalls {
        after: usize,
        pause: Duration,
    },
}

const CHUNK: usize = 64 << 10;

fn request(tag: Tag) -> Vec<u8> {
    let handle = 7 + (tag.0 >> 16) % 3;
    match meaning(tag) {
        (Kind::Metadata, _) => raw::metadata(tag.0),
        (Kind::Write, len) => raw::write(tag.0, handle, len),
        (Kind::Read, len) => raw::read(tag.0, handle, len),
        (Kind::SmallWrite, len) => raw::small_write(tag.0, handle, vec![7; len.min(6 << 10)]),
    }
}

fn data(tag: Tag, len: usize) -> impl Iterator<Item = Vec<u8>> {
    let chunks = (0..len).step_by(CHUNK).map(move |at| (at, CHUNK.min(len - at)));
    chunks.map(move |(at, len)| raw::data(tag, &vec![(tag.0 >> 16) as u8 ^ (at >> 16) as u8; len]))
}

pub(crate) struct Peer {
    protocol: Protocol,
    socket: Socket,
    fate: Fate,
    moved: std::sync::Mutex<usize>,
    random: Randomness,
    trace: Trace,
    name: (usize, u8),
    begun: Instant,
}

impl Peer {
    pub(crate) fn new(
        protocol: Protocol,
        socket: Socket,
        fate: Fate,
        random: &Randomness,
        trace: &Trace,
        name: (usize, u8),
    ) -> Arc<Self> {
        let (random, trace) = (Arc::clone(random), trace.clone());
        Arc::new(Self { protocol, socket, fate, moved: 0.into(), random, trace, name, begun: Instant::now() })
    }

    fn draw(&self, most: u64) -> u64 {
        self.random.lock().unwrap().random_range(0..=most)
    }

    async fn account(&self, count: usize) -> io::Result<()> {
        let (before, after) = {
            let mut moved = self.moved.lock().unwrap();
            *moved += count;
            (*moved - count, *moved)
        };
        let is_due = |at: usize| before < at && after >= at;
        match self.fate {
            Fate::Ends { after: at, with_reset } if after >= at => {
                if with_reset {
                    self.socket.reset_on_close();
                }
                self.socket.close();
                Err(io::ErrorKind::Interrupted.into())
            }
            Fate::Stalls { after: at, pause } if is_due(at) => {
                sleep(pause).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn read(&self, buf: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            self.socket.ready(Interest::READABLE).await;
            match self.socket.try_read_buf(&mut &mut buf[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    filled += count;
                    self.account(count).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket.ready(Interest::WRITABLE).await;
            match self.socket.try_write_vectored(&[io::IoSlice::new(bytes)]) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    self.account(count).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::task::yield_now().await,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn message(&self) -> io::Result<(Tag, Vec<u8>)> {
        let (tag, bytes) = match self.protocol {
            Protocol::OrangeFs => self.bmi_message().await?,
            Protocol::Nfs => self.rpc_message().await?,
        };
        self.trace.add((self.name, tag.0, bytes.len(), self.begun.elapsed()));
        Ok((tag, bytes))
    }

    async fn bmi_message(&self) -> io::Result<(Tag, Vec<u8>)> {
        let mut bytes = vec![0; Header::LEN];
        self.read(&mut bytes).await?;
        let header = Header::decode(&bytes).expect("a proxy passes on whole headers");
        bytes.resize(Header::LEN + usize::try_from(header.size).unwrap(), 0);
        self.read(&mut bytes[Header::LEN..]).await?;
        Ok((header.tag, bytes))
    }

    /// A record of RPC, and the transaction number in its first fragment.
    async fn rpc_message(&self) -> io::Result<(Tag, Vec<u8>)> {
        let mut bytes = Vec::new();
        loop {
            let start = bytes.len() + 4;
            bytes.resize(start, 0);
            self.read(&mut bytes[start - 4..]).await?;
            let mark = u32::from_be_bytes(*bytes.last_chunk().unwrap());
            bytes.resize(start + (mark & !IS_LAST) as usize, 0);
            self.read(&mut bytes[start..]).await?;
            if mark & IS_LAST != 0 {
                let xid = u32::from_be_bytes(*bytes[4..].first_chunk().unwrap());
                return Ok((Tag(xid.into()), bytes));
            }
        }
    }

    async fn pause(&self, most_us: u64) {
        let us = self.draw(most_us);
        if us > 0 {
            sleep(Duration::from_micros(us)).await;
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) client_sent: Passed,
    pub(crate) server_got: Passed,
    pub(crate) server_sent: Passed,
    pub(crate) client_got: Passed,
}

fn writer(peer: Arc<Peer>, sent: Passed) -> mpsc::UnboundedSender<(Tag, Vec<u8>)> {
    let (sender, mut messages) = mpsc::unbounded_channel::<(Tag, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((tag, bytes)) = messages.recv().await {
            // What was queued may arrive in part.
            sent.add(tag, &bytes);
            if peer.write(&bytes).await.is_err() {
                return;
            }
        }
    });
    sender
}

pub(crate) async fn client(peer: Arc<Peer>, points: Points, ops: u64, at_once: usize) -> u64 {
    let sender = writer(Arc::clone(&peer), points.client_sent.clone());
    let permits = Arc::new(Semaphore::new(at_once));
    let starting = {
        let (peer, permits, sender) = (Arc::clone(&peer), Arc::clone(&permits), sender.clone());
        tokio::spawn(async move {
            for number in 1..=ops {
                permits.acquire().await.expect("open").forget();
                // Clients of NFS send several calls at once.
                if peer.protocol == Protocol::OrangeFs || number % 4 == 1 {
                    peer.pause(2_000).await;
                }
                let tag = tag(
                    number,
                    usize::try_from(peer.draw(3)).unwrap(),
                    1 + peer.draw(if number % 8 == 0 { 150 } else { 8 }),
                );
                let request = if peer.protocol == Protocol::Nfs { call(tag) } else { request(tag) };
                if sender.send((tag, request)).is_err() {
                    return;
                }
            }
        })
    };
    let mut answered = 0;
    let mut left = HashMap::<Tag, usize>::new();
    while answered < ops {
        let Ok((tag, bytes)) = peer.message().await else { break };
        points.client_got.add(tag, &bytes);
        let (kind, len) = meaning(tag);
        let is_last = match (kind, left.get_mut(&tag)) {
            _ if peer.protocol == Protocol::Nfs => true,
            (Kind::Metadata | Kind::SmallWrite, _) => true,
            // The acknowledgement.
            (Kind::Write, None) => {
                left.insert(tag, 0);
                for message in data(tag, len) {
                    let _ = sender.send((tag, message));
                }
                false
            }
            (Kind::Write, Some(_)) => true,
            (Kind::Read, None) => left.insert(tag, len).is_some(),
            (Kind::Read, Some(left)) => {
                *left -= bytes.len() - Header::LEN;
                *left == 0
            }
        };
        if is_last {
            answered += 1;
            permits.add_permits(1);
        }
    }
    starting.abort();
    answered
}

pub(crate) async fn server(peer: Arc<Peer>, points: Points) {
    let sender = writer(Arc::clone(&peer), points.server_sent.clone());
    let mut awaited = HashMap::<Tag, usize>::new();
    let nfs = Arc::new(std::sync::Mutex::new(Server::default()));
    while let Ok((tag, bytes)) = peer.message().await {
        points.server_got.add(tag, &bytes);
        if peer.protocol == Protocol::Nfs {
            points.server_got.assert_in_order(tag, &points.client_sent, is_ordered);
        }
        let answers = match peer.protocol {
            Protocol::OrangeFs => answers(tag, &bytes, &mut awaited),
            Protocol::Nfs => Vec::new(),
        };
        let (peer, sender, nfs) = (Arc::clone(&peer), sender.clone(), Arc::clone(&nfs));
        tokio::spawn(async move {
            peer.pause(3_000).await;
            let from_nfs = (peer.protocol == Protocol::Nfs).then(|| nfs.lock().unwrap().answer(tag)).flatten();
            for answer in answers.into_iter().chain(from_nfs) {
                let _ = sender.send((tag, answer));
            }
        });
    }
}

/// What an OrangeFS server sends for this message; `awaited` has the data that is still to come for writes.
fn answers(tag: Tag, bytes: &[u8], awaited: &mut HashMap<Tag, usize>) -> Vec<Vec<u8>> {
    let (kind, len) = meaning(tag);
    if let Some(left) = awaited.get_mut(&tag) {
        *left -= bytes.len() - Header::LEN;
        if *left > 0 {
            return Vec::new();
        }
        awaited.remove(&tag);
        return vec![raw::completion(tag, len)];
    }
    match kind {
        Kind::Metadata => vec![raw::done(tag)],
        Kind::SmallWrite => vec![raw::small_written(tag, len.min(6 << 10))],
        Kind::Write => {
            awaited.insert(tag, len);
            vec![raw::ack(tag, 0)]
        }
        Kind::Read => std::iter::once(raw::ack(tag, len)).chain(data(tag, len)).collect(),
    }
}

/// The window of a security context, as Ganesha has it.
const WINDOW: u32 = 32;

const IS_LAST: u32 = 1 << 31;

fn call_number(tag: Tag) -> u32 {
    (tag.0 >> 16) as u32
}

/// A file for some operations in a row, then another one.
fn file(tag: Tag) -> u32 {
    call_number(tag) / 8 % 2
}

/// The call's number in its security context, which every third has. A client with several connections leaves gaps.
fn context_number(tag: Tag) -> Option<u32> {
    call_number(tag).is_multiple_of(3).then(|| 4 * call_number(tag))
}

fn call(tag: Tag) -> Vec<u8> {
    let user = call_number(tag) % 3;
    let credential = match context_number(tag) {
        Some(call_number) => vec![6, 24, 1, 0, call_number, 1, 4, 9],
        None => vec![1, 20, 0, 0, user, 0, 0],
    };
    let (kind, len) = meaning(tag);
    let count = len as u32;
    let (procedure, arguments) = match kind {
        Kind::Metadata => (1, vec![]),
        Kind::Read => (6, vec![0, 0, count]),
        Kind::Write => (7, vec![0, 0, count, 0, count]),
        // A COMMIT.
        Kind::SmallWrite => (21, vec![0, 0, 0]),
    };
    let head = [tag.0 as u32, 0, 2, 100_003, 3, procedure];
    let file = [0, 0, 4, file(tag)];
    record(tag, &[&head[..], &credential, &file, &arguments].concat(), if kind == Kind::Write { len } else { 0 })
}

fn reply(tag: Tag) -> Vec<u8> {
    let (kind, len) = meaning(tag);
    let count = len as u32;
    let results = match kind {
        Kind::Metadata => vec![0; 22],
        Kind::Read => vec![0, 0, count, 1, count],
        Kind::Write => vec![0, 0, 0, count, 0, 0, 0],
        Kind::SmallWrite => vec![0; 5],
    };
    let head = [tag.0 as u32, 1, 0, 0, 0, 0];
    record(tag, &[&head[..], &results].concat(), if kind == Kind::Read { len } else { 0 })
}

/// A record of these words and so many bytes of data, of two fragments now and then.
fn record(tag: Tag, words: &[u32], data: usize) -> Vec<u8> {
    let mut message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    message.extend((0..data).map(|at| (at >> 8) as u8 ^ call_number(tag) as u8));
    let first = if call_number(tag).is_multiple_of(5) { 30 } else { 0 };
    let (first, last) = message.split_at(first);
    let mark = |fragment: &[u8], last: u32| (fragment.len() as u32 | last).to_be_bytes();
    let start = if first.is_empty() { Vec::new() } else { [&mark(first, 0), first].concat() };
    [&start, &mark(last, IS_LAST)[..], last].concat()
}

/// Whether `first` must stay before `second`, which its client sent later: one of them is a COMMIT of the same user and
/// file.
fn is_ordered(first: Tag, second: Tag) -> bool {
    let [(one, _), (other, _)] = [first, second].map(meaning);
    call_number(first) < call_number(second)
        && call_number(first) % 3 == call_number(second) % 3
        && file(first) == file(second)
        && one != Kind::Metadata
        && other != Kind::Metadata
        && (one == Kind::SmallWrite || other == Kind::SmallWrite)
}

/// A server, which answers every call but those whose turn comes too late in their security context (RFC 2203).
#[derive(Default)]
struct Server {
    newest: u32,
}

impl Server {
    fn answer(&mut self, tag: Tag) -> Option<Vec<u8>> {
        let number = context_number(tag).unwrap_or(self.newest);
        self.newest = self.newest.max(number);
        (number + WINDOW > self.newest).then(|| reply(tag))
    }
}
