//! One server's part in the coordination of all servers.

use std::collections::{BTreeMap, BTreeSet};

use vpfs_core::{ServerId, ServiceClass, Time};

use super::cluster_totals::ClusterTotals;
use super::event::{CoordinationEvents, Event};
use super::link::{Link, PeerState};
use super::message::{FlowKey, Message, MessageError, Position, Standing};
use super::own_totals::{Account, FlowsExceeded, OwnTotals};
use super::settings::CoordinationSettings;
use super::traffic::Traffic;
use super::view::{Change, Fit, Meaning, View};

/// The state kept for another server.
#[derive(Debug, Default)]
struct Peer {
    incarnation: Option<u64>,
    view: View,
    link: Link,
    /// When its next timer is due, as entered in the coordinator's set of timers.
    wake: Option<Time>,
}

/// Reports this server's service to its peers, and the peers' service to the local scheduler [vPFS §III-B].
///
/// The drive contract is in the crate docs. `now` must not go back.
#[derive(Debug)]
pub struct Coordinator {
    me: ServerId,
    incarnation: u64,
    started: Time,
    settings: CoordinationSettings,
    own_totals: OwnTotals,
    /// There are changes for which peers have not been marked ready yet.
    changed: bool,
    peers: BTreeMap<ServerId, Peer>,
    /// Peers that are to be sent a message now.
    ready: BTreeSet<ServerId>,
    timers: BTreeSet<(Time, ServerId)>,
    /// When the oldest departure may be forgotten.
    forget_at: Option<Time>,
    totals: ClusterTotals,
    /// Service given by peers that the local scheduler has not received yet.
    owed: BTreeMap<Account, i64>,
    events: CoordinationEvents,
    sent: Traffic,
    received: Traffic,
}

impl Coordinator {
    /// A server that knows nothing yet. `incarnation` must be greater after each restart of `me` (the wall clock at the
    /// start will do). `peers` may include `me`, which is ignored.
    pub fn new(
        now: Time,
        me: ServerId,
        incarnation: u64,
        peers: impl IntoIterator<Item = ServerId>,
        settings: CoordinationSettings,
    ) -> Self {
        let mut coordinator = Self {
            me,
            incarnation,
            started: now,
            settings: settings.clamped(),
            own_totals: OwnTotals::default(),
            changed: false,
            peers: BTreeMap::new(),
            ready: BTreeSet::new(),
            timers: BTreeSet::new(),
            forget_at: None,
            totals: ClusterTotals::default(),
            owed: BTreeMap::new(),
            events: CoordinationEvents::default(),
            sent: Traffic::default(),
            received: Traffic::default(),
        };
        peers.into_iter().filter(|peer| *peer != me).for_each(|peer| coordinator.add_peer(peer));
        coordinator
    }

    /// From now on all changes are sent to `peer` as well, starting with a greeting. Does nothing if it is already a
    /// peer. O(log peers).
    pub fn add_peer(&mut self, peer: ServerId) {
        if self.peers.contains_key(&peer) {
            return;
        }
        self.peers.insert(peer, Peer { link: Link::new(), ..Peer::default() });
        self.ready.insert(peer);
    }

    /// The local scheduler gave the flow `delta` more bytes of service since the last call. The flow need not be
    /// announced. O(log flows), and O(peers) at the next [`Coordinator::poll_transmit`].
    pub fn report(&mut self, key: FlowKey, class: ServiceClass, delta: i64) -> Result<(), FlowsExceeded> {
        if delta == 0 {
            return Ok(());
        }
        self.change((key, class), delta)
    }

    /// A flow arrived at this server; peers are informed before it gets any service [vPFS §III-B2].
    pub fn flow_arrived(&mut self, key: FlowKey) -> Result<(), FlowsExceeded> {
        match self.own_totals.total((key, ServiceClass::Data)) {
            Some(_) => Ok(()),
            None => self.change((key, ServiceClass::Data), 0),
        }
    }

    /// A flow left this server. If it comes back, its totals start from zero; reported service stays counted.
    pub fn flow_left(&mut self, now: Time, key: FlowKey) {
        for class in [ServiceClass::Data, ServiceClass::Metadata] {
            if self.own_totals.close(now, (key, class)) {
                self.totals.release((key, class));
                self.changed = true;
            }
        }
        self.forget(now);
    }

    /// The next message to send, and its receiver. Call until `None`, after every input: one message combines all
    /// changes since the last one. O(entries + log peers).
    pub fn poll_transmit(&mut self, now: Time) -> Option<(ServerId, Message)> {
        if std::mem::take(&mut self.changed) {
            for (id, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.link.sends_changes_at_once()) {
                peer.link.owes_changes = true;
                self.ready.insert(*id);
            }
        }
        let id = self.ready.pop_first()?;
        let peer = self.peers.get_mut(&id)?;
        let base = self.own_totals.resume_from(peer.link.acked);
        // Changes already in transit are not repeated just to send an acknowledgement.
        let most = if peer.link.owes_changes { self.settings.max_entries } else { 0 };
        let (entries, reached) = self.own_totals.changes(base, most);
        let end = self.own_totals.end();
        let message = Message {
            incarnation: self.incarnation,
            age: now.since(self.started),
            to: peer.incarnation,
            standing: Standing { members: 0, group: self.me, side: self.me, stream: 1, to_stream: 1 },
            ack: peer.view.at(),
            base,
            at: Position { horizon: end.horizon, version: reached },
            more: reached < end.version,
            entries,
        };
        // A peer that never sent a message may know everything from an earlier incarnation: it must learn of this
        // restart.
        let must_answer = base < end.version || peer.incarnation.is_none();
        peer.link.on_sent(now, &message, must_answer, &self.settings);
        self.sent.count(&message);
        self.set_timer(id);
        Some((id, message))
    }

    /// Takes a received message. Its content appears in [`Coordinator::poll_service`] and [`Coordinator::poll_event`].
    /// A message that is late, repeated or out of order is not an error. O(entries · log flows).
    pub fn handle_message(&mut self, now: Time, from: ServerId, message: &Message) -> Result<(), MessageError> {
        self.received.count(message);
        self.check(from, message)?;
        self.meet(now, from, message);
        let mut changes = Vec::new();
        let Some(peer) = self.peers.get_mut(&from) else { return Ok(()) };
        if peer.incarnation > Some(message.incarnation) {
            return Ok(());
        }
        let fit = peer.view.apply(message, &self.settings, &mut changes);
        let is_known_to_it = message.to == Some(self.incarnation);
        if fit == Fit::Gap || (message.more && message.is_data()) || !is_known_to_it {
            self.ready.insert(from);
        } else if message.is_data() {
            peer.link.owe_ack(now, &self.settings);
        }
        let is_news = is_known_to_it && peer.link.on_acked(now, message.ack, &self.settings);
        self.hear(now, from);
        if is_news {
            self.forget(now);
        }
        changes.into_iter().for_each(|change| self.on_change(now, from, change));
        Ok(())
    }

    /// The time given by [`Coordinator::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, id)) = self.timers.first().copied()
            && at <= now
        {
            self.on_timer(now, id);
        }
        self.forget(now);
    }

    /// When to call [`Coordinator::handle_timeout`] next; `None` if only other inputs matter.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timers.first().map(|&(at, _)| at).into_iter().chain(self.forget_at).min()
    }

    /// Service that peers gave since the last call, for the local scheduler's `handle_peer`: flow, class, bytes. Call
    /// until `None`, after every input. The amounts of several messages may be combined. O(log flows).
    pub fn poll_service(&mut self) -> Option<(FlowKey, ServiceClass, i64)> {
        self.owed.pop_first().map(|((key, class), bytes)| (key, class, bytes))
    }

    /// The oldest event that has not been polled yet.
    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    /// Bytes of service that a flow got at all servers, as far as this one knows; `None` if no server has the flow.
    /// Service at a server that the flow has left, or that has restarted, counts as long as any server has the flow.
    /// O(log flows).
    pub fn total_service(&self, key: FlowKey, class: ServiceClass) -> Option<i64> {
        self.totals.get((key, class))
    }

    /// The service of a flow present at this server, as reported to peers. O(log flows).
    pub fn own_service(&self, key: FlowKey, class: ServiceClass) -> Option<i64> {
        self.own_totals.total((key, class))
    }

    /// The service that `peer` reported for a flow present there, in its current incarnation. O(log flows).
    pub fn peer_service(&self, peer: ServerId, key: FlowKey, class: ServiceClass) -> Option<i64> {
        self.peers.get(&peer)?.view.total((key, class))
    }

    /// Whether `peer` answers; `None` if it is no peer.
    pub fn peer_state(&self, peer: ServerId) -> Option<PeerState> {
        self.peers.get(&peer).map(|peer| peer.link.state)
    }

    /// Messages sent so far, and their size.
    pub fn sent(&self) -> Traffic {
        self.sent
    }

    /// Messages received so far, and their size.
    pub fn received(&self) -> Traffic {
        self.received
    }

    fn change(&mut self, account: Account, delta: i64) -> Result<(), FlowsExceeded> {
        let is_new = self.own_totals.total(account).is_none();
        self.own_totals.add(account, delta, self.settings.max_flows)?;
        if is_new {
            self.totals.hold(account);
        }
        self.totals.add(account, delta);
        self.changed = true;
        Ok(())
    }

    /// Refuses an invalid message before any of it is used.
    fn check(&self, from: ServerId, message: &Message) -> Result<(), MessageError> {
        if !self.peers.contains_key(&from) {
            return Err(MessageError::UnknownPeer(from.0));
        }
        message.check()?;
        let own = self.own_totals.end();
        let acks = message.to == Some(self.incarnation);
        if acks && (message.ack.version > own.version || message.ack.horizon > own.horizon) {
            return Err(MessageError::AckAhead { version: message.ack.version, own: own.version });
        }
        Ok(())
    }

    /// Starts over with a peer that has a new incarnation. If that peer is older than this server, its service so far
    /// is the baseline: it was given before this server could have heard of it.
    fn meet(&mut self, now: Time, from: ServerId, message: &Message) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        if peer.incarnation >= Some(message.incarnation) {
            return;
        }
        let knew_an_earlier_one = message.to.is_some_and(|incarnation| incarnation != self.incarnation);
        let is_older = message.age > now.since(self.started) || knew_an_earlier_one;
        let before = std::mem::replace(&mut peer.view, View::new(is_older));
        peer.link.restart();
        if peer.incarnation.replace(message.incarnation).is_some() {
            self.events.push(now, Event::PeerRestarted { peer: from, incarnation: message.incarnation });
        }
        before.accounts().for_each(|account| self.totals.release(account));
    }

    /// A peer sent a message: it gets the changes that it lacks, unless they are already in transit.
    fn hear(&mut self, now: Time, from: ServerId) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let resume_from = self.own_totals.resume_from(peer.link.acked);
        let lacks = resume_from < self.own_totals.end().version;
        if peer.link.state != PeerState::Live {
            self.events.push(now, Event::PeerSeen { peer: from });
        }
        peer.link.on_heard(now, lacks, &self.settings);
        if !lacks {
            peer.link.on_complete();
        } else if peer.link.answers_at_once(resume_from) {
            peer.link.owes_changes = true;
            self.ready.insert(from);
        }
        self.set_timer(from);
    }

    fn on_timer(&mut self, now: Time, id: ServerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let (must_send, is_lost) = peer.link.on_timeout(now);
        if must_send {
            self.ready.insert(id);
        }
        if is_lost {
            self.events.push(now, Event::PeerLost { peer: id });
        }
        self.set_timer(id);
    }

    fn on_change(&mut self, now: Time, peer: ServerId, change: Change) {
        let event = match change {
            Change::Arrived((key, class)) => {
                self.totals.hold((key, class));
                Event::FlowAnnounced { peer, key, class }
            }
            Change::Left((key, class)) => {
                self.totals.release((key, class));
                Event::FlowLeft { peer, key, class }
            }
            Change::Refused((key, class)) => Event::FlowRefused { peer, key, class },
            Change::Moved((key, class), bytes, meaning) => {
                self.totals.add((key, class), bytes);
                match meaning {
                    Meaning::Service => return self.owe((key, class), bytes),
                    Meaning::Baseline => Event::Baseline { peer, key, class, bytes },
                    Meaning::Implausible => Event::StepRefused { peer, key, class, bytes },
                }
            }
        };
        self.events.push(now, event);
    }

    fn owe(&mut self, account: Account, bytes: i64) {
        let owed = self.owed.entry(account).or_default();
        *owed = owed.saturating_add(bytes);
        if *owed == 0 {
            self.owed.remove(&account);
        }
    }

    /// Forgets flows that left long ago, once all live peers know that they did.
    fn forget(&mut self, now: Time) {
        let after = self.settings.forget_after;
        if self.own_totals.oldest_departure().is_some_and(|left| left + after <= now) {
            let live = self.peers.values().filter(|peer| peer.link.state == PeerState::Live);
            let acked = live.map(|peer| self.own_totals.resume_from(peer.link.acked)).min().unwrap_or(u64::MAX);
            self.own_totals.forget(now, after, acked);
        }
        // Departures that are old enough but still kept wait for an acknowledgement or for the loss of a peer, not for
        // time.
        self.forget_at = self.own_totals.oldest_departure().map(|left| left + after).filter(|at| *at > now);
    }

    fn set_timer(&mut self, id: ServerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let wake = peer.link.wake();
        if wake == peer.wake {
            return;
        }
        if let Some(before) = std::mem::replace(&mut peer.wake, wake) {
            self.timers.remove(&(before, id));
        }
        self.timers.extend(wake.map(|at| (at, id)));
    }
}
