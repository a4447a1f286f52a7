//! The state of all links, and its inputs and outputs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vpfs_core::{ServerId, Time};
use vpfs_node::PeerMessage;
use vpfs_node::coordination::Traffic;

use super::cluster_clock::ClusterClock;
use super::dial::Dial;
use super::link::Link;
use super::outbox::{Outbox, count};
use super::{Action, Event, LinkId, MeshSettings, Origin, PeerStatus, Refusal};
use crate::wire::{Frame, Hello, Report, WireError};

/// Bytes that are sent at a time: what waits meanwhile can still be replaced by newer reports.
const BATCH: usize = 16 << 10;

/// A server whose proxy is in another process.
#[derive(Debug)]
struct Remote {
    link: Option<LinkId>,
    /// Since when it has been there, or absent.
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
    /// The smallest name among the own servers.
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
        link.hear(now);
        let outcome = match frame {
            Frame::Hello(_) => Err(Refusal::SecondHello),
            Frame::Unlisted => {
                self.unlisted(now, id);
                Ok(())
            }
            Frame::Report(report) => self.deliver(now, id, report),
            Frame::Ping { sent } => {
                link.on_ping(now, sent);
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
        let count = if link.is_accepted { link.servers.len() } else { 0 };
        let mut empty = 0;
        while empty < count && out.len() < BATCH {
            let index = link.turn % count;
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
            remote.outbox.count_sent(&message);
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

    /// The process at the other end lacks a server of this one. It is asked again as one that is absent.
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

    /// Servers whose link `id` is gone have none.
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
