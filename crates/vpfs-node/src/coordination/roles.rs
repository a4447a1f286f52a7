//! Which levels a server is in, and who its peers are there.
//!
//! Every server finds by itself who is alive: a peer that is silent for too long is lost. There is no election and no
//! agreement. Two servers exchange totals only while they see the same representative of their group, and each takes
//! the other for the representative of its side. Then no amount is counted twice:
//!
//! - A server starts its totals for a group again from zero whenever it sees another representative of that group, or
//!   another server stands for one of the sides. So all of one stream of totals concerns the same servers.
//! - In a group, an amount is sent by its source to all others directly, and nobody repeats it there.
//! - Only the representative that both see passes an amount on to the next level, and only the server that stands for
//!   a side passes it on to that side. Amounts sent under one representative are never used under another.

use vpfs_core::{ServerId, Time};

use super::cluster_totals::Source;
use super::coordinator::Coordinator;
use super::level::{Heard, Level, Peer, Slot};
use super::link::PeerState;
use super::message::Standing;
use super::own_totals::OwnTotals;

impl Coordinator {
    /// The server that represents this one's side on `level`, as far as this server knows.
    pub(super) fn head(&self, level: usize) -> ServerId {
        let below = self.levels.iter().take(level).map(|level| level.representative);
        below.into_iter().find(|representative| *representative != self.me).unwrap_or(self.me)
    }

    /// Brings roles up to date after any input. O(peers); nothing to do in a single group.
    pub(super) fn settle(&mut self, now: Time) {
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
    pub(super) fn on_claim(&mut self, now: Time, number: usize, from: ServerId, standing: &Standing) {
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
    pub(super) fn on_lost(&mut self, now: Time, id: ServerId) {
        let Some(number) = self.peers.get(id).map(|peer| peer.level) else { return };
        if let Some(place) = self.levels[number].slots.iter().position(|slot| slot.candidate == id) {
            self.try_next(now, number, place);
        }
    }

    /// Asks another server of each side whose candidate does not answer.
    pub(super) fn search(&mut self, now: Time) {
        for (number, place) in self.unanswered(now) {
            self.try_next(now, number, place);
        }
    }

    /// This server is in the next level now.
    pub(super) fn enter_level(&mut self, now: Time) {
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
    pub(super) fn leave_levels(&mut self, now: Time, first: usize) {
        while self.levels.len() > first {
            let slots = self.levels.pop().map(|level| level.slots).unwrap_or_default();
            for slot in slots {
                let incarnation = self.peers.get(slot.candidate).and_then(Peer::incarnation);
                self.remove(now, slot.candidate);
                self.answer(slot.candidate, incarnation);
            }
        }
    }

    /// The slots of the last level, after it was entered or members changed.
    pub(super) fn renew_slots(&mut self, now: Time) {
        let number = self.levels.len() - 1;
        let before: Vec<ServerId> = self.levels[number].slots.drain(..).map(|slot| slot.candidate).collect();
        let slot = |side| Slot { candidate: self.groups.first(&side), side, since: now, served: None };
        let slots: Vec<Slot> = self.groups.sides(number).map(slot).collect();
        let after: Vec<ServerId> = slots.iter().map(|slot| slot.candidate).collect();
        self.levels[number].slots = slots;
        before.iter().filter(|id| !after.contains(id)).for_each(|id| self.remove(now, *id));
        after.iter().filter(|id| !before.contains(id)).for_each(|id| self.add(now, number, *id));
    }

    /// The first live server of the group.
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
    pub(super) fn start_again(&mut self, now: Time, number: usize) {
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

    /// When to call [`Coordinator::search`], or to presume no longer.
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
