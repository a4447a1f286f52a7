//! One server's part in the coordination of all servers.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use vpfs_core::hash::mix;
use vpfs_core::{ServerId, ServiceClass, Time};

use super::groups::{Groups, Members};
use super::message::{Counted, FlowKey, Message, MessageError, Position, Standing, Traffic};
use super::peer::{Heard, Level, Peer, PeerState, PeerTable, Slot};
use super::totals::{
    Account, Change, ClusterTotals, Fit, FlowsExceeded, Limits, Meaning, Owed, OwnTotals, Source, View,
};
use super::{CoordinationEvents, CoordinationSettings, Event};

/// Reports this server's service to its peers, and the peers' service to the local scheduler [vPFS §III-B].
///
/// The drive contract is in the crate docs. `now` must not go back.
#[derive(Debug)]
pub struct Coordinator {
    me: ServerId,
    incarnation: u64,
    /// Earlier ones since the start, and the peers because of which each was raised.
    raised: BTreeMap<ServerId, u64>,
    started: Time,
    settings: CoordinationSettings,
    groups: Groups,
    /// Level 0, and each further one while this server represents its group of the level below.
    levels: Vec<Level>,
    streams: u32,
    /// With those that are to be sent a message now, and their timers.
    peers: PeerTable,
    former: BTreeMap<ServerId, Heard>,
    /// Servers that take this one for a peer although it is none, with their incarnations.
    replies: BTreeMap<ServerId, u64>,
    /// A live peer of level 0 gets a message because it is time, not because there are changes.
    keeps_alive: bool,
    /// When to look for live representatives again.
    search_at: Option<Time>,
    totals: ClusterTotals,
    /// Service given by peers that the local scheduler has not received yet.
    owed: Owed,
    /// A buffer that is kept between messages.
    changes: Vec<Change>,
    events: CoordinationEvents,
    sent: Traffic,
    received: Traffic,
}

impl Coordinator {
    /// The most servers that are told at once that this one is not their peer; others are told when they ask again.
    const MAX_REPLIES: usize = 256;

    /// A server that knows nothing yet. `incarnation` should be greater after each restart of `me` (the wall clock at
    /// the start will do), and never be used again. All servers must have the same `members` and group size; `me`
    /// becomes a member if it is none.
    pub fn new(
        now: Time,
        me: ServerId,
        incarnation: u64,
        members: impl Into<Members>,
        settings: CoordinationSettings,
    ) -> Self {
        let groups = Groups::new(members.into(), me, settings.group_size);
        let mut coordinator = Self {
            me,
            incarnation,
            raised: BTreeMap::new(),
            started: now,
            settings: settings.clamped(groups.levels()),
            groups,
            levels: Vec::new(),
            streams: 0,
            peers: PeerTable::default(),
            former: BTreeMap::new(),
            replies: BTreeMap::new(),
            keeps_alive: false,
            search_at: None,
            totals: ClusterTotals::default(),
            owed: Owed::default(),
            changes: Vec::new(),
            events: CoordinationEvents::default(),
            sent: Traffic::default(),
            received: Traffic::default(),
        };
        coordinator.enter_level(now);
        coordinator.settle(now);
        coordinator
    }

    /// Servers joined or were removed; the others keep their numbers. In a single group, new peers are greeted and the
    /// others notice nothing; otherwise coordination starts again, and continues among servers with the same list. What
    /// a removed server gave stays counted. O(members).
    pub fn set_members(&mut self, now: Time, members: impl Into<Members>) {
        let groups = Groups::new(members.into(), self.me, self.settings.group_size);
        if groups.members() == self.groups.members() {
            return;
        }
        let was_single = self.groups.levels() == 1;
        self.settings = self.settings.clamped(groups.levels());
        self.groups = groups;
        if was_single && self.groups.levels() == 1 {
            self.renew_slots(now);
        } else {
            self.leave_levels(now, 0);
            self.enter_level(now);
            self.settle(now);
        }
    }

    /// The local scheduler gave the flow `delta` more bytes of service since the last call. The flow need not be
    /// announced. O(log flows), and O(peers) at the next [`Coordinator::poll_transmit`].
    pub fn report(
        &mut self,
        now: Time,
        key: FlowKey,
        counted: impl Into<Counted>,
        delta: i64,
    ) -> Result<(), FlowsExceeded> {
        if delta == 0 {
            return Ok(());
        }
        self.change(now, (key, counted.into()), delta)
    }

    /// A flow arrived at this server; peers are informed before it gets any service [vPFS §III-B2].
    pub fn flow_arrived(&mut self, now: Time, key: FlowKey) -> Result<(), FlowsExceeded> {
        let account = (key, ServiceClass::Data.into());
        match self.totals.here(account) {
            Some(_) => Ok(()),
            None => self.change(now, account, 0),
        }
    }

    /// A flow left this server. If it comes back, its totals start from zero; reported service stays counted.
    pub fn flow_left(&mut self, now: Time, key: FlowKey) {
        for account in Counted::all().map(|counted| (key, counted)) {
            if self.totals.here(account).is_some() {
                self.release(now, account, Source::Here);
            }
        }
        (0..self.levels.len()).for_each(|level| self.forget(now, level));
    }

    /// Whether peers get a message now anyway, so that it should carry all service that the caller has not reported
    /// yet: then the next one is due later. Ask before [`Coordinator::poll_transmit`]. O(1).
    pub fn takes_all_reports(&mut self) -> bool {
        std::mem::take(&mut self.keeps_alive) || self.levels.first().is_some_and(|level| level.changed)
    }

    /// The next message to send, and its receiver. Call until `None`, after every input: one message combines all
    /// changes since the last one. O(entries + peers).
    pub fn poll_transmit(&mut self, now: Time) -> Option<(ServerId, Message)> {
        self.mark_changes(now);
        let (id, message) = match self.replies.pop_first() {
            Some((id, incarnation)) => (id, self.reply(now, id, incarnation)),
            None => {
                let id = self.peers.pop_ready()?;
                (id, self.message_to(now, id)?)
            }
        };
        self.sent.count(&message);
        Some((id, message))
    }

    /// Takes a received message. Its content appears in [`Coordinator::poll_service`] and [`Coordinator::poll_event`].
    /// A message that is late, repeated or out of order is not an error. O(entries · log flows).
    pub fn handle_message(&mut self, now: Time, from: ServerId, message: &Message) -> Result<(), MessageError> {
        self.received.count(message);
        let level = self.check(from, message)?;
        self.outlive(now, from, message.to);
        self.on_claim(now, level, from, &message.standing);
        if message.standing.stream == 0 {
            self.note_list(from, message);
            self.hear(now, from);
        } else if self.peers.contains(from) {
            self.take(now, level, from, message);
        } else {
            self.answer(from, Some(message.incarnation));
        }
        self.settle(now);
        Ok(())
    }

    /// The time given by [`Coordinator::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.peers.due(now) {
            self.on_timer(now, id);
        }
        if self.search_at.is_some_and(|at| at <= now) {
            self.search(now);
        }
        self.settle(now);
        (0..self.levels.len()).for_each(|level| self.forget(now, level));
    }

    /// When to call [`Coordinator::handle_timeout`] next; `None` if only other inputs matter.
    pub fn poll_timeout(&self) -> Option<Time> {
        let forget = self.levels.iter().filter_map(|level| level.forget_at).min();
        let pass_on = self.levels.iter().filter_map(|level| level.pass_on_at).min();
        [self.peers.wake(), forget, pass_on, self.search_at].into_iter().flatten().min()
    }

    /// What peers gave since the last call, for the local scheduler: flow, what is counted, bytes. Call until `None`,
    /// after every input. The amounts of several messages may be combined. O(log flows).
    pub fn poll_service(&mut self) -> Option<(FlowKey, Counted, i64)> {
        self.owed.pop().map(|((key, counted), bytes)| (key, counted, bytes))
    }

    /// The oldest event that has not been polled yet.
    pub fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    /// Bytes of service that a flow got at all servers, as far as this one knows; `None` if no server has the flow.
    /// Service at a server that the flow has left, or that has restarted, counts as long as any server has the flow.
    /// O(log flows).
    pub fn total_service(&self, key: FlowKey, counted: impl Into<Counted>) -> Option<i64> {
        self.totals.get((key, counted.into()))
    }

    /// The service of a flow present at this server, as reported to peers. O(log flows).
    pub fn own_service(&self, key: FlowKey, counted: impl Into<Counted>) -> Option<i64> {
        self.totals.here((key, counted.into()))
    }

    /// The service that `peer` reported for a flow, in its current incarnation and since the members of the group
    /// changed: its own and, if it represents other servers, theirs. O(log flows).
    pub fn peer_service(&self, peer: ServerId, key: FlowKey, counted: impl Into<Counted>) -> Option<i64> {
        self.peers.get(peer)?.view.total((key, counted.into()))
    }

    /// Whether `peer` answers; `None` if it is no peer now.
    pub fn peer_state(&self, peer: ServerId) -> Option<PeerState> {
        self.peers.get(peer).map(|peer| peer.link.state)
    }

    /// The servers with which this one exchanges messages, in order.
    pub fn peers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.peers.iter().map(|(id, _)| id)
    }

    /// Those of its own group that answer; not those of other groups, with which it talks if it represents its own.
    pub(crate) fn group(&self) -> impl Iterator<Item = ServerId> + '_ {
        let here = self.peers.iter().filter(|(_, peer)| peer.level == 0 && peer.link.state == PeerState::Live);
        here.map(|(id, _)| id)
    }

    /// How many servers this one reaches, itself included: peers, and as many as these say that they speak for.
    /// O(peers).
    pub fn reachable(&self) -> usize {
        self.live_without(None).min(self.members())
    }

    /// This server, and those that it reaches on all levels but one. O(peers), but O(1) for the level of a single
    /// group, which is asked for each message.
    fn live_without(&self, level: Option<usize>) -> usize {
        if self.groups.levels() == 1 && level == Some(0) {
            return 1;
        }
        let others = self
            .peers
            .iter()
            .filter(|(id, peer)| peer.link.state == PeerState::Live && Some(peer.level) != level && self.agrees(*id));
        others.fold(1, |sum: usize, (_, peer)| sum.saturating_add(peer.speaks_for()))
    }

    /// How long news takes from any server to any other, without the time of messages. Zero within one group, where
    /// everybody tells everybody.
    pub fn news_delay(&self) -> Duration {
        let hops = 2 * (self.groups.levels() - 1);
        self.settings.pass_on_delay * u32::try_from(hops).unwrap_or(u32::MAX)
    }

    /// The number of all members, this server included.
    pub fn members(&self) -> usize {
        self.groups.members().len()
    }

    /// Messages sent so far, and their size.
    pub fn sent(&self) -> Traffic {
        self.sent
    }

    /// Messages received so far, and their size.
    pub fn received(&self) -> Traffic {
        self.received
    }

    /// Whether totals may be exchanged with a peer: both see the same groups.
    fn agrees(&self, id: ServerId) -> bool {
        let Some(peer) = self.peers.get(id) else { return false };
        if self.groups.levels() == 1 {
            // Nothing is passed on in a single group, so a new peer gets the totals with the greeting.
            return peer.standing.is_none_or(|standing| standing.members == 0);
        }
        let is_top = peer.level + 1 == self.groups.levels();
        peer.standing.is_some_and(|standing| {
            standing.side == id
                && standing.members == self.groups.hash()
                && (is_top || standing.group == self.levels[peer.level].representative)
        })
    }

    /// Tells a server that takes this one for a peer that it is none. One that never said anything need not know.
    fn answer(&mut self, id: ServerId, incarnation: Option<u64>) {
        if let Some(incarnation) = incarnation.filter(|_| self.replies.len() < Self::MAX_REPLIES) {
            self.replies.insert(id, incarnation);
        }
    }

    /// A flow is at one more place: peers of all other levels must know it.
    fn hold(&mut self, now: Time, account: Account, source: Source) {
        self.totals.hold(account, source);
        self.pass_on(now, account, source, 0);
    }

    /// A flow is no longer at a place; levels whose peers alone have it still do not hear of it any more.
    fn release(&mut self, now: Time, account: Account, source: Source) {
        self.totals.release(account, source);
        let at = now + self.settings.pass_on_delay;
        for (number, level) in self.levels.iter_mut().enumerate() {
            if !self.totals.is_outside(account, number) && level.totals.close(now, account) {
                match source {
                    Source::Here if number == 0 => level.changed = true,
                    _ => level.change_later(at),
                }
            }
        }
    }

    /// Adds service to what the groups of all levels are told but that where it was heard.
    fn pass_on(&mut self, now: Time, account: Account, source: Source, bytes: i64) {
        let at = now + self.settings.pass_on_delay;
        let others = self.levels.iter_mut().enumerate().filter(|(number, _)| source != Source::Level(*number));
        for (_, level) in others {
            let is_new = level.totals.total(account).is_none();
            if bytes == 0 && !is_new {
                continue;
            }
            match level.totals.add(account, bytes, self.settings.max_flows) {
                Ok(()) => level.change_later(at),
                Err(_) => self.events.push(now, Event::FlowNotPassedOn { key: account.0, counted: account.1 }),
            }
        }
    }

    fn change(&mut self, now: Time, account: Account, delta: i64) -> Result<(), FlowsExceeded> {
        let mut levels = self.levels.iter_mut();
        if let Some(level) = levels.next() {
            level.totals.add(account, delta, self.settings.max_flows)?;
            level.changed = true;
        }
        for level in levels {
            if level.totals.add(account, delta, self.settings.max_flows).is_ok() {
                level.change_later(now + self.settings.pass_on_delay);
            }
        }
        self.totals.hold(account, Source::Here);
        self.totals.add(account, Source::Here, delta);
        Ok(())
    }

    fn mark_changes(&mut self, now: Time) {
        for number in 0..self.levels.len() {
            if !self.levels[number].take_changed(now) {
                continue;
            }
            let ids = self.levels[number].slots.iter().map(|slot| slot.candidate);
            for id in ids.filter(|id| self.agrees(*id)).collect::<Vec<_>>() {
                if let Some(peer) = self.peers.get_mut(id).filter(|peer| peer.link.sends_changes_at_once()) {
                    peer.link.owes_changes = true;
                    self.peers.set_ready(id);
                }
            }
        }
    }

    fn message_to(&mut self, now: Time, id: ServerId) -> Option<Message> {
        let agrees = self.agrees(id);
        let live = self.live_without(Some(self.peers.get(id)?.level));
        let live = u32::try_from(live.min(self.members())).unwrap_or(u32::MAX);
        let peer = self.peers.get_mut(id)?;
        let level = &mut self.levels[peer.level];
        let base = level.totals.resume_from(peer.link.acked);
        // Changes already in transit are not repeated just to send an acknowledgement.
        let most = if agrees && peer.link.owes_changes { self.settings.max_entries } else { 0 };
        let (entries, reached) = level.totals.changes(base, most);
        let end = level.totals.end();
        let to_stream = peer.stream.map_or(0, |(_, stream)| stream);
        let message = Message {
            incarnation: self.incarnation,
            age: now.since(level.started),
            to: peer.incarnation(),
            standing: Standing {
                members: self.groups.hash(),
                group: level.representative,
                side: self.me,
                stream: level.stream,
                to_stream,
                live,
            },
            ack: peer.view.at(),
            base,
            at: Position { horizon: end.horizon, version: reached },
            more: reached < end.version,
            entries,
        };
        // A peer that never sent a message may know everything from an earlier incarnation: it must learn of this
        // restart.
        let must_answer = (agrees && base < end.version) || peer.stream.is_none();
        peer.link.on_sent(now, &message, must_answer, &self.settings);
        self.peers.set_timer(id);
        Some(message)
    }

    fn reply(&self, now: Time, to: ServerId, incarnation: u64) -> Message {
        let level = self.groups.level_with(to).unwrap_or(0);
        let side = self.head(level);
        Message {
            incarnation: self.incarnation,
            age: now.since(self.started),
            to: Some(incarnation),
            standing: Standing { members: self.groups.hash(), group: side, side, stream: 0, to_stream: 0, live: 0 },
            ack: Position::default(),
            base: 0,
            at: Position::default(),
            more: false,
            entries: [].into(),
        }
    }

    fn take(&mut self, now: Time, level: usize, from: ServerId, message: &Message) {
        let Some(peer) = self.peers.get(from) else { return };
        let standing = message.standing;
        if peer.stream > Some((message.incarnation, standing.stream)) {
            if peer.incarnation() > Some(message.incarnation) {
                // The message is late, or its sender's clock went back: then it learns so that it needs a greater one.
                self.peers.set_ready(from);
            }
            return;
        }
        self.meet(now, level, from, message);
        let agrees = self.agrees(from);
        let is_known_to_it = self.is_known(level, message);
        let max_service_rate = self.max_service_rate();
        let Some(peer) = self.peers.get_mut(from) else { return };
        peer.allowance.open(now);
        let mut limits =
            Limits { max_flows: self.settings.max_flows, allowance: &mut peer.allowance, rate: max_service_rate };
        let fit = if agrees { peer.view.apply(message, &mut limits, &mut self.changes) } else { Fit::Known };
        let must_answer = fit == Fit::Gap || (message.more && message.is_data()) || !is_known_to_it;
        if !must_answer && message.is_data() && agrees {
            peer.link.owe_ack(now, &self.settings);
        }
        let is_news = is_known_to_it && peer.link.on_acked(now, message.ack, &self.settings);
        if must_answer {
            self.peers.set_ready(from);
        }
        self.hear(now, from);
        if is_news {
            self.forget(now, level);
        }
        let mut changes = std::mem::take(&mut self.changes);
        changes.drain(..).for_each(|change| self.on_change(now, level, from, change));
        self.changes = changes;
    }

    /// A server that only answers, because it has another list now, is in none of this one's groups any more.
    fn note_list(&mut self, from: ServerId, message: &Message) {
        let has_other_list = message.standing.members != self.groups.hash();
        if let Some(peer) = self.peers.get_mut(from).filter(|peer| peer.incarnation() <= Some(message.incarnation))
            && has_other_list
        {
            peer.standing = Some(message.standing);
        }
    }

    /// A peer knows a later incarnation of this server and ignores this one: the clock went back before the restart.
    /// Takes a greater one, once for each peer, since one that lies could prevent all exchange otherwise.
    fn outlive(&mut self, now: Time, peer: ServerId, known: Option<u64>) {
        // How much greater depends on this start, so that no two starts ever take the same one.
        let more = 1 + (mix(self.incarnation) >> 32);
        let Some(greater) = known.filter(|known| *known > self.incarnation).and_then(|known| known.checked_add(more))
        else {
            return;
        };
        if let Entry::Vacant(raised) = self.raised.entry(peer) {
            raised.insert(std::mem::replace(&mut self.incarnation, greater));
            self.events.push(now, Event::Outlived { peer, incarnation: greater });
            (0..self.levels.len()).for_each(|level| self.start_again(now, level));
        }
    }

    /// The most that a peer reports in a second. A representative passes on what all others gave.
    fn max_service_rate(&self) -> u64 {
        let servers = if self.groups.levels() == 1 { 1 } else { self.members() as u64 };
        self.settings.max_service_rate.saturating_mul(servers)
    }

    /// Whether a message refers to the current totals of `level`.
    fn is_known(&self, level: usize, message: &Message) -> bool {
        let stream = self.levels.get(level).map(|level| level.stream);
        message.to == Some(self.incarnation) && stream == Some(message.standing.to_stream)
    }

    /// Refuses an invalid message before any of it is used. Returns the level on which its sender is.
    fn check(&self, from: ServerId, message: &Message) -> Result<usize, MessageError> {
        let level = self.groups.level_with(from).ok_or(MessageError::UnknownPeer(from.0))?;
        message.check()?;
        if self.is_known(level, message) {
            let own = self.levels[level].totals.end();
            if message.ack.version > own.version || message.ack.horizon > own.horizon {
                return Err(MessageError::AckAhead { version: message.ack.version, own: own.version });
            }
        }
        Ok(level)
    }

    /// Starts over with a peer whose totals start from zero. If they are older than the acquaintance, the service in
    /// them is the baseline, as is what a lost peer gave until it came back.
    fn meet(&mut self, now: Time, level: usize, from: ServerId, message: &Message) {
        let is_known = self.is_known(level, message);
        let Some(peer) = self.peers.get_mut(from) else { return };
        let stream = (message.incarnation, message.standing.stream);
        if peer.stream >= Some(stream) {
            if peer.was_cut_off(message, &self.settings) {
                peer.view.begin_baseline();
            }
            let is_newest = peer.note_standing(message);
            if is_newest && is_known && peer.link.acked > message.ack {
                // It was no peer for a while and has forgotten these totals.
                peer.link.restart();
            }
            return;
        }
        let is_ours = |to: u64| to == self.incarnation || self.raised.values().any(|before| *before == to);
        let knew_an_earlier_one = message.to.is_some_and(|to| !is_ours(to));
        let is_older = message.age > now.since(peer.since) || knew_an_earlier_one;
        let heard = self.former.get(&from).filter(|heard| heard.stream == stream).map(|heard| heard.version);
        let before = std::mem::replace(&mut peer.view, View::new(heard.or(is_older.then_some(0))));
        peer.link.restart();
        (peer.standing, peer.age) = (Some(message.standing), message.age);
        let incarnation = message.incarnation;
        if peer.stream.replace(stream).is_some_and(|(before, _)| before < incarnation) {
            self.events.push(now, Event::PeerRestarted { peer: from, incarnation });
        }
        let source = Source::Level(peer.level);
        before.accounts().for_each(|account| self.release(now, account, source));
    }

    /// A peer sent a message: it gets the changes that it lacks, unless they are already in transit.
    fn hear(&mut self, now: Time, from: ServerId) {
        let agrees = self.agrees(from);
        let Some(peer) = self.peers.get_mut(from) else { return };
        let totals = &self.levels[peer.level].totals;
        let resume_from = totals.resume_from(peer.link.acked);
        let lacks = agrees && resume_from < totals.end().version;
        if peer.link.state != PeerState::Live {
            self.events.push(now, Event::PeerSeen { peer: from });
        }
        peer.link.on_heard(now, lacks, &self.settings);
        if !lacks {
            peer.link.on_complete();
        } else if peer.link.answers_at_once(resume_from) {
            peer.link.owes_changes = true;
            self.peers.set_ready(from);
        }
        self.peers.set_timer(from);
    }

    fn on_timer(&mut self, now: Time, id: ServerId) {
        let Some(peer) = self.peers.get_mut(id) else { return };
        let (must_send, is_lost) = peer.link.on_timeout(now);
        if must_send {
            self.keeps_alive |= peer.level == 0 && peer.link.state == PeerState::Live;
            self.peers.set_ready(id);
        }
        self.peers.set_timer(id);
        if is_lost {
            self.events.push(now, Event::PeerLost { peer: id });
            self.on_lost(now, id);
        }
    }

    fn on_change(&mut self, now: Time, level: usize, peer: ServerId, change: Change) {
        let source = Source::Level(level);
        let event = match change {
            Change::Arrived((key, counted)) => {
                self.hold(now, (key, counted), source);
                Event::FlowAnnounced { peer, key, counted }
            }
            Change::Left((key, counted)) => {
                self.release(now, (key, counted), source);
                Event::FlowLeft { peer, key, counted }
            }
            Change::Refused((key, counted)) => Event::FlowRefused { peer, key, counted },
            Change::Moved((key, counted), bytes, meaning) => {
                self.totals.add((key, counted), source, bytes);
                match meaning {
                    Meaning::Service => {
                        self.pass_on(now, (key, counted), source, bytes);
                        return self.owed.add((key, counted), bytes);
                    }
                    Meaning::Baseline => Event::Baseline { peer, key, counted, bytes },
                    Meaning::Implausible => Event::StepRefused { peer, key, counted, bytes },
                }
            }
        };
        self.events.push(now, event);
    }

    /// Forgets flows that left long ago, once all live peers of the level know that they did.
    fn forget(&mut self, now: Time, number: usize) {
        let after = self.settings.forget_after;
        let level = &self.levels[number];
        if level.totals.oldest_departure().is_some_and(|left| left + after <= now) {
            let exchange = level.slots.iter().map(|slot| slot.candidate).filter(|id| self.agrees(*id));
            let live = exchange.filter_map(|id| self.peers.get(id)).filter(|peer| peer.link.state == PeerState::Live);
            let acked = live.map(|peer| level.totals.resume_from(peer.link.acked)).min().unwrap_or(u64::MAX);
            self.levels[number].totals.forget(now, after, acked);
        }
        let level = &mut self.levels[number];
        // Departures that are old enough but still kept wait for an acknowledgement or for the loss of a peer, not for
        // time.
        level.forget_at = level.totals.oldest_departure().map(|left| left + after).filter(|at| *at > now);
    }
}

// Which levels a server is in, and who its peers are there.
//
// Every server finds by itself who is alive: a peer that is silent for too long is lost. There is no election and no
// agreement. Two servers exchange totals only while they see the same representative of their group, and each takes
// the other for the representative of its side. Then no amount is counted twice:
//
// - A server starts its totals for a group again from zero whenever it sees another representative of that group, or
//   another server stands for one of the sides. So all of one stream of totals concerns the same servers.
// - In a group, an amount is sent by its source to all others directly, and nobody repeats it there.
// - Only the representative that both see passes an amount on to the next level, and only the server that stands for
//   a side passes it on to that side. Amounts sent under one representative are never used under another.

impl Coordinator {
    /// The server that represents this one's side on `level`, as far as this server knows.
    fn head(&self, level: usize) -> ServerId {
        let below = self.levels.iter().take(level).map(|level| level.representative);
        below.into_iter().find(|representative| *representative != self.me).unwrap_or(self.me)
    }

    /// Brings roles up to date after any input. O(peers); nothing to do in a single group.
    fn settle(&mut self, now: Time) {
        if self.groups.levels() == 1 {
            self.search_at = None;
            return;
        }
        let mut number = 0;
        loop {
            let is_top = number + 1 == self.groups.levels();
            let representative = self.representative(now, number);
            let before = std::mem::replace(&mut self.levels[number].representative, representative);
            if before != representative && !is_top {
                self.start_again(now, number);
            }
            number += 1;
            if is_top {
                break;
            }
            if representative != self.me {
                self.leave_levels(now, number);
                break;
            }
            if self.levels.len() == number {
                self.enter_level(now);
            }
        }
        (1..self.levels.len()).for_each(|number| self.note_served(now, number));
        self.search_at = self.next_search(now);
    }

    /// Another server may represent a side than this one thought: `from` claims to, or names the one that does.
    fn on_claim(&mut self, now: Time, number: usize, from: ServerId, standing: &Standing) {
        let Some(level) = self.levels.get(number).filter(|_| number > 0) else { return };
        let Some(place) = level.slots.iter().position(|slot| self.groups.is_in(from, &slot.side)) else { return };
        let Slot { side, candidate, .. } = &level.slots[place];
        let (named, candidate) = (standing.side, *candidate);
        if standing.members != self.groups.hash() || named == candidate || !self.groups.is_in(named, side) {
            return;
        }
        let is_there = self.is_member(candidate);
        let is_better = if named == from { !is_there || from < candidate } else { from == candidate };
        if is_better {
            self.replace(now, number, place, named);
        }
    }

    /// A peer is silent: the next server of its side may have taken its place.
    fn on_lost(&mut self, now: Time, id: ServerId) {
        let Some(number) = self.peers.get(id).map(|peer| peer.level) else { return };
        if let Some(place) = self.levels[number].slots.iter().position(|slot| slot.candidate == id) {
            self.try_next(now, number, place);
        }
    }

    fn search(&mut self, now: Time) {
        for (number, place) in self.unanswered(now) {
            self.try_next(now, number, place);
        }
    }

    fn enter_level(&mut self, now: Time) {
        let number = self.levels.len();
        self.levels.push(Level {
            totals: OwnTotals::default(),
            stream: 0,
            started: now,
            changed: false,
            pass_on_at: None,
            representative: self.me,
            presumes_until: now + self.settings.lost_after,
            slots: Vec::new(),
            forget_at: None,
        });
        self.renew_slots(now);
        self.levels[number].representative = self.representative(now, number);
        self.start_again(now, number);
    }

    /// This server is in none of the levels from `first` on any more; their peers are told at once who is.
    fn leave_levels(&mut self, now: Time, first: usize) {
        while self.levels.len() > first {
            let slots = self.levels.pop().map(|level| level.slots).unwrap_or_default();
            for slot in slots {
                let incarnation = self.peers.get(slot.candidate).and_then(Peer::incarnation);
                self.remove(now, slot.candidate);
                self.answer(slot.candidate, incarnation);
            }
        }
    }

    fn renew_slots(&mut self, now: Time) {
        let number = self.levels.len() - 1;
        let before: Vec<ServerId> = self.levels[number].slots.drain(..).map(|slot| slot.candidate).collect();
        let slot = |side| Slot { candidate: self.groups.first(&side), side, since: now, served: None };
        let slots: Vec<Slot> = self.groups.sides(number).map(slot).collect();
        let after: Vec<ServerId> = slots.iter().map(|slot| slot.candidate).collect();
        self.levels[number].slots = slots;
        before.iter().filter(|id| !after.contains(id)).for_each(|id| self.remove(now, *id));
        after.iter().filter(|id| !before.contains(id)).for_each(|id| self.add(now, number, *id));
    }

    fn representative(&self, now: Time, number: usize) -> ServerId {
        let level = &self.levels[number];
        let is_presumed = |slot: &Slot| {
            let is_unknown = self.peers.get(slot.candidate).is_some_and(|peer| peer.link.state == PeerState::Unknown);
            is_unknown && now < level.presumes_until && slot.candidate == self.groups.first(&slot.side)
        };
        let live = level.slots.iter().filter(|slot| self.is_member(slot.candidate) || is_presumed(slot));
        live.map(|slot| slot.candidate).min().map_or(self.me, |first| first.min(self.me))
    }

    fn is_member(&self, id: ServerId) -> bool {
        self.peers.get(id).is_some_and(|peer| peer.is_member(id, self.groups.hash()))
    }

    /// The totals of a level start from zero: what peers have not heard yet is lost, but nothing is heard twice.
    fn start_again(&mut self, now: Time, number: usize) {
        self.streams += 1;
        let level = &mut self.levels[number];
        (level.totals, level.stream, level.started) = (OwnTotals::default(), self.streams, now);
        (level.forget_at, level.changed) = (None, true);
        for account in self.totals.outside(number) {
            // No more flows are known than fit.
            let _ = level.totals.add(account, 0, usize::MAX);
        }
        for slot in &mut level.slots {
            slot.served = None;
            if let Some(peer) = self.peers.get_mut(slot.candidate) {
                peer.link.restart();
                peer.link.owes_changes = true;
                self.peers.set_ready(slot.candidate);
            }
        }
    }

    /// Starts a level's totals again before a second server of one side could hear them.
    fn note_served(&mut self, now: Time, number: usize) {
        let served = |slot: &Slot| slot.served.filter(|served| *served != slot.candidate);
        if self.levels[number].slots.iter().any(|slot| served(slot).is_some() && self.agrees(slot.candidate)) {
            self.start_again(now, number);
        }
        for place in 0..self.levels[number].slots.len() {
            let candidate = self.levels[number].slots[place].candidate;
            if self.agrees(candidate) {
                self.levels[number].slots[place].served = Some(candidate);
            }
        }
    }

    fn next_search(&self, now: Time) -> Option<Time> {
        let presumed = self.levels.iter().map(|level| level.presumes_until).filter(|until| *until > now).min();
        let asked = self.searching().map(|(number, place)| self.levels[number].slots[place].since).min();
        presumed.into_iter().chain(asked.map(|since| since + self.patience())).min()
    }

    /// Levels and slots whose candidate is not known to be alive, or has another list, but another server might be
    /// there.
    fn searching(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let slots =
            self.levels.iter().enumerate().skip(1).flat_map(|(number, level)| {
                level.slots.iter().enumerate().map(move |(place, slot)| (number, place, slot))
            });
        let searching = slots.filter(|(_, _, slot)| {
            let is_there = self.peers.get(slot.candidate).is_some_and(|peer| peer.is_there(self.groups.hash()));
            !is_there && self.groups.next(&slot.side, slot.candidate) != slot.candidate
        });
        searching.map(|(number, place, _)| (number, place))
    }

    fn unanswered(&self, now: Time) -> Vec<(usize, usize)> {
        let is_due =
            |(number, place): &(usize, usize)| self.levels[*number].slots[*place].since + self.patience() <= now;
        self.searching().filter(is_due).collect()
    }

    /// How long a candidate may take to answer the first message.
    fn patience(&self) -> std::time::Duration {
        self.settings.keep_alive.unwrap_or(self.settings.refresh)
    }

    fn try_next(&mut self, now: Time, number: usize, place: usize) {
        let slot = &self.levels[number].slots[place];
        let next = self.groups.next(&slot.side, slot.candidate);
        if next != slot.candidate {
            self.replace(now, number, place, next);
        }
    }

    fn replace(&mut self, now: Time, number: usize, place: usize, candidate: ServerId) {
        let slot = &mut self.levels[number].slots[place];
        let before = std::mem::replace(&mut slot.candidate, candidate);
        slot.since = now;
        self.remove(now, before);
        self.add(now, number, candidate);
    }

    fn add(&mut self, now: Time, level: usize, id: ServerId) {
        self.peers.insert(id, Peer::new(now, level));
        self.peers.set_ready(id);
    }

    fn remove(&mut self, now: Time, id: ServerId) {
        let Some(peer) = self.peers.remove(id) else { return };
        self.remember(now, id, &peer);
        peer.view.accounts().for_each(|account| self.release(now, account, Source::Level(peer.level)));
    }

    /// Notes what a former peer's late messages would repeat, for as long as flows that left are kept for late peers.
    fn remember(&mut self, now: Time, id: ServerId, peer: &Peer) {
        let kept = self.settings.forget_after;
        self.former.retain(|_, heard| heard.at + kept > now);
        if let Some(stream) = peer.stream {
            let before = self.former.get(&id).filter(|heard| heard.stream == stream).map_or(0, |heard| heard.version);
            let version = peer.view.at().version.max(before);
            self.former.insert(id, Heard { stream, version, at: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_representative_belongs_to_no_other_group() {
        let servers = [0, 1, 2, 3].map(ServerId);
        let settings = CoordinationSettings { group_size: 2, ..CoordinationSettings::default() };
        let mut all = servers.map(|me| Coordinator::new(Time::ZERO, me, 1, servers, settings));
        for now in (0..5000).map(Time::from_millis) {
            for from in servers {
                all[from.index()].handle_timeout(now);
                while let Some((to, message)) = all[from.index()].poll_transmit(now) {
                    all[to.index()].handle_message(now, from, &message).unwrap();
                }
            }
        }
        let [zero, one, two, three] = all.each_ref().map(|of| of.group().collect::<Vec<_>>());
        assert_eq!([zero, one, two, three].concat(), [1, 0, 3, 2].map(ServerId));
        assert!(all[2].peers().any(|peer| peer == ServerId(0)), "it speaks for the second group");
    }
}
