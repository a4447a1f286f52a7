//! The connections of one process to all others as a state machine.
//!
//! # The drive contract
//!
//! 1. Give an input: [`Mesh::connected`], [`Mesh::dial_failed`], [`Mesh::closed`], [`Mesh::receive`], [`Mesh::send`] or
//!    [`Mesh::handle_timeout`]; and once after [`Mesh::new`], none.
//! 2. Drain [`Mesh::poll_action`] and [`Mesh::poll_event`] until `None`.
//! 3. For each link of [`Mesh::poll_ready`], or when it has sent what it had, take bytes by [`Mesh::poll_transmit`].
//! 4. Ask [`Mesh::poll_timeout`] when to call `handle_timeout` next, if nothing else happens before.
//!
//! The driver opens and accepts connections, authenticates the process at the other end, and exchanges the first frame,
//! [`crate::frames::Hello`]; only then a connection is a link of the mesh.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use thiserror::Error;
use vpfs_core::hash::stable_hash;
use vpfs_core::{ServerId, Time};

use crate::coordination::Traffic;
use crate::frames::{Frame, Hello, Report, WireError};
use crate::peers::PeerMessage;

/// A connection, numbered by the driver; a number is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// The end that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This process, to reach the proxy of this server.
    Dialed(ServerId),
    /// The process at the other end.
    Accepted,
}

/// The process and its timers.
#[derive(Clone, Debug)]
pub struct MeshSettings {
    /// The cluster's name; processes of others are refused.
    pub cluster: String,
    /// Greater after each start of the process.
    pub incarnation: u64,
    /// The names of all servers of the cluster, by [`ServerId`].
    pub servers: Vec<String>,
    /// Those whose proxies this process runs.
    pub own: Vec<ServerId>,
    /// How often to ask for the other's time; this keeps links alive, too.
    pub ping: Duration,
    /// A link is closed, and an absent peer reported, after silence for this long. Several times `ping`.
    pub lost_after: Duration,
    /// The longest pause between attempts to connect.
    pub redial_max: Duration,
    /// A difference of clocks beyond this is reported.
    pub clock_limit: Duration,
}

/// What the driver must do.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Action {
    /// Connect to the proxy of this server; answer with [`Mesh::connected`] or [`Mesh::dial_failed`].
    Dial(ServerId),
    /// Close this connection at once. No [`Mesh::closed`] is needed.
    Close(LinkId),
    /// Give this message of another server to the node of a server of this process.
    Deliver { from: ServerId, to: ServerId, message: PeerMessage },
    /// Tell all nodes of this process that the cluster's clock is this far ahead of the process's, or behind if
    /// negative, in nanoseconds; 0 until then.
    SetClock { ahead_ns: i64 },
}

/// Something to log. Each is reported when it changes, not while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the comments of the variants explain the fields")]
pub enum Event {
    /// The proxies of these servers can be reached, `again` if their absence had been reported.
    Up { servers: Vec<ServerId>, again: bool },
    /// The proxy of a server has not been there for [`MeshSettings::lost_after`].
    Absent { server: ServerId },
    /// The process that runs the proxies of these servers lacks a server of this one in its configuration, so that they
    /// do not talk to each other.
    Unlisted { servers: Vec<ServerId> },
    /// The clock of these servers' process, which is ahead by `offset`, differs by more than the limit, or does so no
    /// more.
    Clock { servers: Vec<ServerId>, offset: ClockOffset, exceeds: bool },
}

/// Why a process is not accepted, or its link is closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It belongs to another cluster.
    #[error("it belongs to the cluster {0:?}: processes of one cluster need the same peers.cluster")]
    Cluster(String),
    /// It claims a server that the configuration lacks.
    #[error("it serves {0:?}, which this configuration does not have: all processes need the same file")]
    UnknownServer(String),
    /// It claims a server of this process, or is this process.
    #[error("it serves {0:?}, as this process does: does another process serve it, or does an address lead back here?")]
    OwnServer(String),
    /// It is another process than the one that should be there.
    #[error("it does not serve {0:?}: is the address in [peers] right?")]
    WrongServer(String),
    /// A later start of the same process is connected.
    #[error("a newer instance of this process is connected")]
    Earlier,
    /// The other of two connections between the same processes stays.
    #[error("there is another connection to the same process")]
    Duplicate,
    /// A report for or from a server that is not in the first frames.
    #[error("it sent a report about a server that it or this process does not serve")]
    ForeignReport,
    /// A second first frame.
    #[error("it introduced itself twice")]
    SecondHello,
}

impl Refusal {
    /// What to send before the connection is closed: only this process can know that.
    pub fn farewell(&self) -> Option<Frame> {
        matches!(self, Self::UnknownServer(_)).then_some(Frame::Unlisted)
    }
}

/// One other server as its peer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The server.
    pub server: ServerId,
    /// The link to its proxy, if there is one.
    pub link: Option<LinkId>,
    /// How long it has been there, or absent.
    pub since: Duration,
    /// The time since its last report, in this link.
    pub news: Option<Duration>,
    /// Reports to it.
    pub sent: Traffic,
    /// Reports from it.
    pub received: Traffic,
    /// Reports to it that a newer one replaced, or that the full queue dropped.
    pub dropped: u64,
    /// How far its clock is ahead, if known.
    pub offset: Option<ClockOffset>,
}

/// Bytes that are sent at a time: what waits meanwhile can still be replaced by newer reports.
const BATCH: usize = 16 << 10;

#[derive(Debug)]
struct Remote {
    link: Option<LinkId>,
    since: Time,
    is_absence_told: bool,
    /// It was told that the other process lacks a server of this one.
    is_unlisted_told: bool,
    dial: Dial,
    outbox: Outbox,
    received: Traffic,
    news: Option<Time>,
}

/// The links of one process to all others. The drive contract is in [`crate::mesh`].
///
/// Each input costs O(log servers) and what it causes; the answer to a ping, [`Mesh::handle_timeout`] and
/// [`Mesh::poll_timeout`] O(servers).
#[derive(Debug)]
pub struct Mesh {
    settings: MeshSettings,
    hello: Hello,
    first: String,
    ids: BTreeMap<String, ServerId>,
    remotes: BTreeMap<ServerId, Remote>,
    links: BTreeMap<LinkId, Link>,
    ready: BTreeSet<LinkId>,
    clock: ClusterClock,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
}

impl Mesh {
    /// A process that has no links yet.
    ///
    /// # Errors
    /// If the names cannot be told to others: see [`Hello::new`].
    pub fn new(now: Time, settings: MeshSettings) -> Result<Self, WireError> {
        let name = |id: &ServerId| settings.servers[id.index()].clone();
        let own: Vec<String> = settings.own.iter().map(name).collect();
        let hello = Hello::new(settings.cluster.clone(), settings.incarnation, own)?;
        let first = hello.servers().iter().min().expect("a process has servers").clone();
        let ids: BTreeMap<String, ServerId> = settings.servers.iter().cloned().zip((0..).map(ServerId)).collect();
        let others = ids.iter().filter(|(_, id)| !settings.own.contains(id));
        let remote = |name: &String| Remote {
            link: None,
            since: now,
            is_absence_told: false,
            is_unlisted_told: false,
            dial: if first < *name { Dial::start(now) } else { Dial::default() },
            outbox: Outbox::default(),
            received: Traffic::default(),
            news: None,
        };
        let remotes = others.map(|(name, &id)| (id, remote(name))).collect();
        let mut mesh = Self {
            settings,
            hello,
            first,
            ids,
            remotes,
            links: BTreeMap::new(),
            ready: BTreeSet::new(),
            clock: ClusterClock::default(),
            actions: VecDeque::new(),
            events: VecDeque::new(),
        };
        mesh.dial(now);
        Ok(mesh)
    }

    /// The first frame on every connection.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// A connection was opened by `origin`, and the authenticated process at its other end sent `hello`.
    ///
    /// # Errors
    /// If it must be closed; nothing was changed but the time of the next attempt.
    pub fn connected(&mut self, now: Time, id: LinkId, origin: Origin, hello: &Hello) -> Result<(), Refusal> {
        let outcome = self.admit(origin, hello);
        match &outcome {
            Ok((servers, is_preferred)) => {
                self.link(now, id, Link::new(now, servers.clone(), hello.incarnation(), *is_preferred))
            }
            Err(_) => self.retry(now, origin),
        }
        outcome.map(|_| ())
    }

    /// No connection to `server` came about.
    pub fn dial_failed(&mut self, now: Time, server: ServerId) {
        self.retry(now, Origin::Dialed(server));
    }

    /// A link has ended.
    pub fn closed(&mut self, now: Time, id: LinkId) {
        self.unlink(now, id);
    }

    /// A frame arrived.
    ///
    /// # Errors
    /// If no correct peer sends it; the link must be closed, and is none any more.
    pub fn receive(&mut self, now: Time, id: LinkId, frame: Frame) -> Result<(), Refusal> {
        if !matches!(frame, Frame::Hello(_) | Frame::Unlisted) {
            self.accepted(now, id);
        }
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        if link.is_lost(now, self.settings.lost_after) {
            // This process was stopped: the frame is old, and the other end has given up the link or is about to.
            self.unlink(now, id);
            self.actions.push_back(Action::Close(id));
            return Ok(());
        }
        link.heard = now;
        let outcome = match frame {
            Frame::Hello(_) => Err(Refusal::SecondHello),
            Frame::Unlisted => {
                self.unlisted(now, id);
                Ok(())
            }
            Frame::Report(report) => self.deliver(now, id, report),
            Frame::Ping { sent } => {
                link.pong = Some((sent, now));
                self.ready.insert(id);
                Ok(())
            }
            Frame::Pong { sent, received, answered } => {
                link.clock.add(sent, received, answered, now);
                self.judge_clock(id);
                self.find_clock(now);
                Ok(())
            }
        };
        if outcome.is_err() {
            self.unlink(now, id);
        }
        outcome
    }

    /// A message of an own server to another one. While there is no link the latest ones about service wait for it;
    /// what is said about the pace is old by then.
    pub fn send(&mut self, from: ServerId, to: ServerId, message: PeerMessage) {
        let Some(remote) = self.remotes.get_mut(&to) else { return };
        if remote.link.is_none() && matches!(message, PeerMessage::Pace(_)) {
            return;
        }
        remote.outbox.push(from, message);
        self.ready.extend(remote.link);
    }

    /// The time given by [`Mesh::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        let (ping, lost_after) = (self.settings.ping, self.settings.lost_after);
        let lost: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| link.is_lost(now, lost_after)).map(|(id, _)| *id).collect();
        for id in lost {
            self.unlink(now, id);
            self.actions.push_back(Action::Close(id));
        }
        for (id, link) in &mut self.links {
            if link.ping(now, ping) {
                self.ready.insert(*id);
            }
        }
        for (server, remote) in &mut self.remotes {
            if remote.is_absence_due().is_some_and(|since| since + lost_after <= now) {
                remote.is_absence_told = true;
                self.events.push_back(Event::Absent { server: *server });
                if self.first > self.settings.servers[server.index()] {
                    // The other process should have connected. It may be unable to, or not know this one.
                    remote.dial = Dial::start(now);
                }
            }
        }
        self.dial(now);
    }

    /// When to call [`Mesh::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lost_after = self.settings.lost_after;
        let links = self.links.values().map(|link| link.wake(lost_after));
        let absences = self.remotes.values().filter_map(Remote::is_absence_due).map(|since| since + lost_after);
        let dials = self.remotes.values().filter_map(|remote| remote.dial.at);
        links.chain(absences).chain(dials).min()
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next thing to log.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next link that has something to send since it was last asked.
    pub fn poll_ready(&mut self) -> Option<LinkId> {
        self.ready.pop_first()
    }

    /// Appends to `out` what a link has to send now, but not much more than 16 KiB. Nothing is appended if it has
    /// nothing; then the link is ready again when it has.
    pub fn poll_transmit(&mut self, now: Time, id: LinkId, out: &mut Vec<u8>) {
        self.ready.remove(&id);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.take_clock_frames(now).for_each(|frame| frame.encode(out));
        // Reports wait until the other process is known to read them.
        let servers = if link.is_accepted { link.servers.len() } else { 0 };
        let mut empty = 0;
        while empty < servers && out.len() < BATCH {
            let index = link.turn % servers;
            link.turn = index + 1;
            let remote = self.remotes.get_mut(&link.servers[index]).expect("links are to other servers");
            let Some((from, message)) = remote.outbox.pop() else {
                empty += 1;
                continue;
            };
            empty = 0;
            let position = self.settings.own.iter().position(|own| *own == from);
            let (Some(from), Ok(to)) = (position.and_then(|from| u16::try_from(from).ok()), u16::try_from(index))
            else {
                continue;
            };
            count(&mut remote.outbox.sent, &message);
            Frame::Report(Report { from, to, message }).encode(out);
        }
    }

    /// All servers of other processes, by id.
    pub fn status(&self, now: Time) -> impl Iterator<Item = PeerStatus> + '_ {
        self.remotes.iter().map(move |(&server, remote)| PeerStatus {
            server,
            link: remote.link,
            since: now.since(remote.since),
            news: remote.news.map(|at| now.since(at)),
            sent: remote.outbox.sent,
            received: remote.received,
            dropped: remote.outbox.dropped,
            offset: remote.link.and_then(|id| self.links.get(&id)?.clock.best()),
        })
    }

    /// The servers of a process that may be a peer, and whether its connection is the one to keep.
    fn admit(&self, origin: Origin, hello: &Hello) -> Result<(Vec<ServerId>, bool), Refusal> {
        if hello.cluster() != self.settings.cluster {
            return Err(Refusal::Cluster(hello.cluster().to_owned()));
        }
        let known = |name: &String| match self.ids.get(name) {
            None => Err(Refusal::UnknownServer(name.clone())),
            Some(id) if !self.remotes.contains_key(id) => Err(Refusal::OwnServer(name.clone())),
            Some(id) => Ok(*id),
        };
        let servers = hello.servers().iter().map(known).collect::<Result<Vec<_>, _>>()?;
        let is_ours = match origin {
            Origin::Dialed(server) if !servers.contains(&server) => {
                return Err(Refusal::WrongServer(self.settings.servers[server.index()].clone()));
            }
            Origin::Dialed(_) => true,
            Origin::Accepted => false,
        };
        let theirs = hello.servers().iter().min().expect("a process has servers");
        let is_preferred = is_ours == (self.first < *theirs);
        for link in servers.iter().filter_map(|server| self.links.get(&self.remotes[server].link?)) {
            if link.incarnation > hello.incarnation() {
                return Err(Refusal::Earlier);
            }
            if link.incarnation == hello.incarnation() && link.is_preferred && !is_preferred {
                return Err(Refusal::Duplicate);
            }
        }
        Ok((servers, is_preferred))
    }

    fn link(&mut self, now: Time, id: LinkId, link: Link) {
        for server in &link.servers {
            let remote = self.remotes.get_mut(server).expect("admitted");
            if let Some(older) = remote.link.replace(id).filter(|older| *older != id)
                && let Some(replaced) = self.links.remove(&older)
            {
                self.actions.push_back(Action::Close(older));
                // Its other servers wait for a link of their own.
                self.forget(now, older, &replaced);
            }
            let remote = self.remotes.get_mut(server).expect("admitted");
            remote.dial.at = None;
        }
        self.links.insert(id, link);
        self.handle_timeout(now);
        self.ready.insert(id);
    }

    /// The process at the other end sends more than its first frame, so it has accepted this one.
    fn accepted(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_accepted) else { return };
        link.is_accepted = true;
        let mut again = false;
        for server in &link.servers {
            let remote = self.remotes.get_mut(server).expect("links are to other servers");
            (remote.since, remote.is_unlisted_told) = (now, false);
            again |= std::mem::take(&mut remote.is_absence_told);
        }
        self.events.push_back(Event::Up { servers: link.servers.clone(), again });
        self.ready.insert(id);
    }

    fn unlisted(&mut self, now: Time, id: LinkId) {
        let Some(servers) = self.links.get(&id).map(|link| link.servers.clone()) else { return };
        self.unlink(now, id);
        self.actions.push_back(Action::Close(id));
        let mut is_news = false;
        for server in &servers {
            let remote = self.remotes.get_mut(server).expect("links are to other servers");
            is_news |= !std::mem::replace(&mut remote.is_unlisted_told, true);
            remote.is_absence_told = true;
        }
        if is_news {
            self.events.push_back(Event::Unlisted { servers });
        }
    }

    fn unlink(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        self.ready.remove(&id);
        let lasted = now.since(link.since);
        self.forget(now, id, &link);
        for server in &link.servers {
            let name = &self.settings.servers[server.index()];
            let remote = self.remotes.get_mut(server).expect("links are to other servers");
            if remote.link.is_none() && self.first < *name {
                remote.dial.lost(now, lasted, &format!("{} {name}", self.first), self.settings.redial_max);
            }
        }
    }

    fn forget(&mut self, now: Time, id: LinkId, link: &Link) {
        for server in &link.servers {
            let remote = self.remotes.get_mut(server).expect("links are to other servers");
            if remote.link == Some(id) {
                remote.link = None;
                if link.is_accepted {
                    remote.since = now;
                }
                if self.first < self.settings.servers[server.index()] {
                    remote.dial.at = Some(now);
                }
            }
        }
    }

    fn retry(&mut self, now: Time, origin: Origin) {
        let Origin::Dialed(server) = origin else { return };
        let name = format!("{} {}", self.first, self.settings.servers[server.index()]);
        if let Some(remote) = self.remotes.get_mut(&server).filter(|remote| remote.link.is_none()) {
            remote.dial.failed(now, &name, self.settings.redial_max);
        }
    }

    fn dial(&mut self, now: Time) {
        for (server, remote) in &mut self.remotes {
            if remote.dial.at.take_if(|at| *at <= now).is_some() && remote.link.is_none() {
                self.actions.push_back(Action::Dial(*server));
            }
        }
    }

    fn deliver(&mut self, now: Time, id: LinkId, report: Report) -> Result<(), Refusal> {
        let Report { from, to, message } = report;
        let from = self.links.get(&id).and_then(|link| link.servers.get(usize::from(from)).copied());
        let to = self.settings.own.get(usize::from(to)).copied();
        let (Some(from), Some(to)) = (from, to) else { return Err(Refusal::ForeignReport) };
        if let Some(remote) = self.remotes.get_mut(&from) {
            count(&mut remote.received, &message);
            remote.news = Some(now);
        }
        self.actions.push_back(Action::Deliver { from, to, message });
        Ok(())
    }

    fn find_clock(&mut self, now: Time) {
        let others = self.links.values().filter_map(|link| link.clock.best());
        let ahead = self.clock.update(now, others.map(|offset| offset.ahead_ns));
        self.actions.extend(ahead.map(|ahead_ns| Action::SetClock { ahead_ns }));
    }

    fn judge_clock(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(offset) = link.clock.best() else { return };
        let exceeds = offset.exceeds(self.settings.clock_limit);
        if std::mem::replace(&mut link.is_off, exceeds) != exceeds {
            self.events.push_back(Event::Clock { servers: link.servers.clone(), offset, exceeds });
        }
    }
}

impl Remote {
    /// Since when it has been absent, if that has not been told.
    fn is_absence_due(&self) -> Option<Time> {
        (self.link.is_none() && !self.is_absence_told).then_some(self.since)
    }
}

#[derive(Debug)]
struct Link {
    servers: Vec<ServerId>,
    incarnation: u64,
    /// Of two links to one process, the one that the process with the smaller name opened stays.
    is_preferred: bool,
    /// The other process has accepted this one: it sent something else than the first frame.
    is_accepted: bool,
    since: Time,
    heard: Time,
    ping_at: Time,
    /// An answer that waits to be sent: at most one, so that questions cannot make a queue grow.
    pong: Option<(Time, Time)>,
    ping: bool,
    clock: Measurements,
    is_off: bool,
    /// The server whose reports are sent next, so that all get their turn.
    turn: usize,
}

impl Link {
    fn new(now: Time, servers: Vec<ServerId>, incarnation: u64, is_preferred: bool) -> Self {
        Self {
            servers,
            incarnation,
            is_preferred,
            is_accepted: false,
            since: now,
            heard: now,
            ping_at: now,
            pong: None,
            ping: false,
            clock: Measurements::default(),
            is_off: false,
            turn: 0,
        }
    }

    /// When it must be pinged, or was silent for too long.
    fn wake(&self, lost_after: Duration) -> Time {
        self.ping_at.min(self.heard + lost_after)
    }

    fn is_lost(&self, now: Time, lost_after: Duration) -> bool {
        self.heard + lost_after <= now
    }

    fn ping(&mut self, now: Time, period: Duration) -> bool {
        let is_due = self.ping_at <= now;
        if is_due {
            self.ping = true;
            self.ping_at = now + period;
        }
        is_due
    }

    /// The questions and answers that wait, with the time at which they are sent.
    fn take_clock_frames(&mut self, now: Time) -> impl Iterator<Item = Frame> + use<> {
        let pong = self.pong.take().map(|(sent, received)| Frame::Pong { sent, received, answered: now });
        let ping = std::mem::take(&mut self.ping).then_some(Frame::Ping { sent: now });
        pong.into_iter().chain(ping)
    }
}

/// The most bytes of reports that wait for one server.
const BYTES: usize = 128 << 10;

/// A bounded queue: a report makes older ones of the same server unnecessary if it says all that they do; if it is full
/// nevertheless, the oldest is dropped. The coordinator repeats what is lost.
#[derive(Debug, Default)]
struct Outbox {
    reports: VecDeque<(ServerId, PeerMessage)>,
    bytes: usize,
    dropped: u64,
    sent: Traffic,
}

impl Outbox {
    fn push(&mut self, from: ServerId, message: PeerMessage) {
        let before = self.reports.len();
        self.reports.retain(|(sender, older)| *sender != from || !supersedes(&message, older));
        self.dropped += (before - self.reports.len()) as u64;
        self.reports.push_back((from, message));
        self.bytes = self.reports.iter().map(|(_, message)| message.encoded_len()).sum();
        while self.bytes > BYTES && self.reports.len() > 1 {
            self.pop();
            self.dropped += 1;
        }
    }

    fn pop(&mut self) -> Option<(ServerId, PeerMessage)> {
        let (from, message) = self.reports.pop_front()?;
        self.bytes -= message.encoded_len();
        Some((from, message))
    }
}

fn count(traffic: &mut Traffic, message: &PeerMessage) {
    traffic.messages += 1;
    traffic.bytes += message.encoded_len() as u64;
}

/// Whether a receiver of `newer` lacks nothing that is in `older`, which the same server sent earlier.
fn supersedes(newer: &PeerMessage, older: &PeerMessage) -> bool {
    let (PeerMessage::Service(newer), PeerMessage::Service(older)) = (newer, older) else { return false };
    newer.incarnation > older.incarnation
        || (newer.base <= older.base && newer.at.version >= older.at.version)
        || older.base == older.at.version
}

/// A link that lasted this long was a success; after shorter ones, pauses go on growing.
const LASTING: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Dial {
    /// When to try next; `None` while trying or connected, or if the other process connects.
    at: Option<Time>,
    failures: u32,
}

impl Dial {
    fn start(now: Time) -> Self {
        Self { at: Some(now), failures: 0 }
    }

    fn failed(&mut self, now: Time, name: &str, longest: Duration) {
        self.at = Some(now + pause(name, self.failures, longest));
        self.failures = self.failures.saturating_add(1);
    }

    fn lost(&mut self, now: Time, lasted: Duration, name: &str, longest: Duration) {
        if lasted >= LASTING {
            self.failures = 0;
        }
        self.failed(now, name, longest);
    }
}

/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(100);

/// Doubled after each failure up to `longest`, then up to a quarter more or less, so that processes that lost a peer
/// at the same time do not return together. `name` tells them apart.
fn pause(name: &str, failures: u32, longest: Duration) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.min(16)).min(longest);
    let hash = stable_hash(&format!("{failures} {name}"));
    let parts = 75 + u32::try_from(hash % 51).unwrap_or(0);
    doubled / 100 * parts
}

/// The estimate is the best of this many measurements.
const KEPT: usize = 8;

/// A difference between two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset {
    /// How far the other clock is ahead, in nanoseconds; negative if it is behind.
    pub ahead_ns: i64,
    /// The estimate is at most this wrong, if no clock was set meanwhile.
    pub error: Duration,
}

impl ClockOffset {
    /// Whether the clocks differ by more than `limit` even if the estimate is as wrong as it can be.
    fn exceeds(&self, limit: Duration) -> bool {
        Duration::from_nanos(self.ahead_ns.unsigned_abs()).saturating_sub(self.error) > limit
    }
}

#[derive(Debug, Default)]
struct Measurements(VecDeque<ClockOffset>);

impl Measurements {
    /// The answer to a question of `sent` arrived at `now`; the other process received and answered at these times of
    /// its own clock.
    fn add(&mut self, sent: Time, received: Time, answered: Time, now: Time) {
        let [sent, received, answered, now] = [sent, received, answered, now].map(|time| i128::from(time.as_nanos()));
        let under_way = (now - sent) - (answered - received);
        if under_way < 0 || answered < received {
            return;
        }
        let ahead = ((received - sent) + (answered - now)) / 2;
        let (Ok(ahead_ns), Ok(error_ns)) = (i64::try_from(ahead), u64::try_from(under_way / 2 + 1)) else { return };
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(ClockOffset { ahead_ns, error: Duration::from_nanos(error_ns) });
    }

    fn best(&self) -> Option<ClockOffset> {
        self.0.iter().min_by_key(|offset| offset.error).copied()
    }
}

// The clock by which all processes of a cluster go when they need the same time: the median of theirs, which each
// finds from the differences that it has measured. While most clocks are right, so is the median; no process has to be
// there, and one that has lost all others keeps what it was told.

/// A smaller change is not told: it is about as much as the parts of one call reach servers apart.
const LEAST_CHANGE: Duration = Duration::from_millis(1);

/// Changes are told at most this often, because each may move all queued requests, and a process that lies could
/// otherwise cause as many as it sends answers.
const PERIOD: Duration = Duration::from_secs(1);

/// 100 years: no more is ever told, so that nanoseconds since 1970 can be counted whatever the others say.
const MOST_NS: i64 = 100 * 365 * 86_400 * 1_000_000_000;

/// How far the median is ahead of this process's clock, as it was last told.
#[derive(Debug, Default)]
struct ClusterClock {
    told_ns: i64,
    /// Not before then.
    next: Time,
}

impl ClusterClock {
    /// Returns how far the median is ahead, if that must be told. Of an even number of clocks, the one before the
    /// middle counts. O(n log n).
    fn update(&mut self, now: Time, others_ns: impl Iterator<Item = i64>) -> Option<i64> {
        if now < self.next {
            return None;
        }
        let mut all: Vec<i64> = others_ns.chain([0]).collect();
        all.sort_unstable();
        let median = all[(all.len() - 1) / 2].clamp(-MOST_NS, MOST_NS);
        if Duration::from_nanos(median.abs_diff(self.told_ns)) < LEAST_CHANGE {
            return None;
        }
        (self.told_ns, self.next) = (median, now + PERIOD);
        Some(median)
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::ServiceClass;

    use super::*;
    use crate::coordination::{FlowKey, FlowTotal, Message, Position, Standing};

    fn message(base: u64, version: u64, entries: usize) -> PeerMessage {
        let entry = FlowTotal {
            key: FlowKey(1),
            counted: ServiceClass::Data.into(),
            born: 1,
            changed: 1,
            total: 1,
            left: false,
        };
        PeerMessage::Service(Message {
            incarnation: 1,
            age: Duration::ZERO,
            to: None,
            standing: Standing { members: 0, group: ServerId(0), side: ServerId(0), stream: 1, to_stream: 0, live: 1 },
            ack: Position::default(),
            base,
            at: Position { horizon: 0, version },
            more: false,
            entries: vec![entry; entries].into(),
        })
    }

    fn versions(message: &PeerMessage) -> (u64, u64) {
        match message {
            PeerMessage::Service(message) => (message.base, message.at.version),
            PeerMessage::Pace(_) => panic!("no message about the pace was pushed"),
        }
    }

    #[test]
    fn a_report_replaces_those_that_it_repeats() {
        let mut outbox = Outbox::default();
        for (from, base, version) in [(1, 0, 0), (1, 0, 5), (2, 0, 7), (1, 0, 9), (1, 9, 9)] {
            outbox.push(ServerId(from), message(base, version, 0));
        }
        let left: Vec<_> =
            std::iter::from_fn(|| outbox.pop()).map(|(from, message)| (from.0, versions(&message))).collect();
        // An acknowledgement does not replace changes.
        assert_eq!(left, [(2, (0, 7)), (1, (0, 9)), (1, (9, 9))]);
        assert_eq!((outbox.dropped, outbox.bytes), (2, 0));
    }

    #[test]
    fn a_full_queue_drops_the_oldest() {
        let mut outbox = Outbox::default();
        for round in 0..1000 {
            outbox.push(ServerId(1), message(round, round + 1, 100));
            assert!(outbox.bytes <= BYTES);
        }
        let first = outbox.pop().map(|(_, message)| versions(&message).0);
        assert!(first > Some(900) && outbox.dropped > 900, "{first:?}");
    }

    #[test]
    fn pauses_grow_to_the_longest_and_differ() {
        let longest = Duration::from_secs(2);
        let pauses: Vec<Duration> = (0..100).map(|failures| pause("s1", failures, longest)).collect();
        assert!(pauses[0] <= FIRST * 5 / 4 && pauses[0] >= FIRST * 3 / 4);
        assert!(pauses[5..].iter().all(|pause| *pause >= longest * 3 / 4 && *pause <= longest * 5 / 4));
        assert_ne!(pause("s1", 9, longest), pause("s2", 9, longest));
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn the_fastest_answer_counts() {
        let mut measured = Measurements::default();
        assert_eq!(measured.best(), None);
        // The other clock is 500 ms ahead; 1 ms there, 3 ms back, then 40 ms there.
        measured.add(ms(1000), ms(1501), ms(1510), ms(1013));
        measured.add(ms(2000), ms(2540), ms(2540), ms(2041));
        let best = measured.best().unwrap();
        assert!((best.ahead_ns - 499_000_000).abs() < 10 && best.error <= Duration::from_micros(2001), "{best:?}");
        assert!(!best.exceeds(Duration::from_millis(498)) && best.exceeds(Duration::from_millis(490)));
    }

    #[test]
    fn impossible_answers_are_ignored() {
        let mut measured = Measurements::default();
        measured.add(ms(1000), ms(2000), ms(1000), ms(1001));
        measured.add(ms(1000), ms(0), ms(9000), ms(1001));
        measured.add(ms(1000), Time::ZERO, Time::ZERO, ms(900));
        measured.add(ms(0), Time::from_nanos(u64::MAX), Time::from_nanos(u64::MAX), ms(0));
        assert_eq!(measured.best(), None);
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn all_processes_find_the_same_clock() {
        for clocks in [&[5, 5000][..], &[9000, 0, -3], &[1, -700, 12, 40_000], &[7]] {
            let of = |own: usize| {
                let others = clocks.iter().enumerate().filter(|(at, _)| *at != own);
                let others = others.map(|(_, clock)| (clock - clocks[own]) * MS);
                clocks[own] * MS + ClusterClock::default().update(Time::ZERO, others).unwrap_or(0)
            };
            let found: Vec<i64> = (0..clocks.len()).map(of).collect();
            assert!(found.iter().all(|clock| *clock == found[0]), "{clocks:?}: {found:?}");
        }
    }

    #[test]
    fn a_minority_can_say_what_it_wants() {
        for lie in [i64::MIN, -1, 0, i64::MAX] {
            let others = [5 * MS, lie, 9 * MS, lie].into_iter();
            let ahead = ClusterClock::default().update(Time::ZERO, others).unwrap_or(0);
            assert!((0..=9 * MS).contains(&ahead), "{lie}: {ahead}");
        }
    }

    #[test]
    fn small_changes_are_not_told_and_others_once_a_second() {
        let mut clock = ClusterClock::default();
        let mut update = |ms, ns| clock.update(Time::from_millis(ms), [ns; 2].into_iter());
        let small = [(0, MS - 1), (0, MS), (1000, 2 * MS - 1), (2000, 1), (3000, 0)];
        assert_eq!(small.map(|(ms, ns)| update(ms, ns)), [None, Some(MS), None, None, Some(0)]);
        let many = [(4000, i64::MIN), (4001, i64::MAX), (4999, MS), (5000, i64::MAX)];
        assert_eq!(many.map(|(ms, ns)| update(ms, ns)), [Some(-MOST_NS), None, None, Some(MOST_NS)]);
    }
}
