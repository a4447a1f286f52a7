//! This server's part in its group of one level, and its peers there: when to send to each (retries, acknowledgements,
//! keep-alives, detection of silence), and how they are found by number, by readiness and by timer without a search for
//! each message.

use std::time::Duration;

use vpfs_core::{ServerId, Time};

use super::CoordinationSettings;
use super::groups::Side;
use super::message::{Message, Position, Standing};
use super::totals::{Allowance, OwnTotals, View};

/// What this server tells its group, and with whom it talks there.
#[derive(Debug)]
pub(crate) struct Level {
    /// Service given here or heard on other levels, since `started`.
    pub(crate) totals: OwnTotals,
    /// The number of these totals; greater after each start from zero.
    pub(crate) stream: u32,
    pub(crate) started: Time,
    /// There are changes for which peers have not been marked ready yet.
    pub(crate) changed: bool,
    /// When changes that can wait are sent.
    pub(crate) pass_on_at: Option<Time>,
    /// The first live server of the group, as far as this server knows.
    pub(crate) representative: ServerId,
    /// Until then, the first member of each side counts as alive although it was never heard: servers that start
    /// together do not all represent their groups at first.
    pub(crate) presumes_until: Time,
    /// The other sides of the group.
    pub(crate) slots: Vec<Slot>,
    /// When the oldest departure may be forgotten.
    pub(crate) forget_at: Option<Time>,
}

/// A side of the group and the server that is taken for its representative.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) side: Side,
    pub(crate) candidate: ServerId,
    /// Since when it is the candidate.
    pub(crate) since: Time,
    /// To whom the current totals were sent. No other server of this side may get them: it would pass on what this one
    /// has passed on already.
    pub(crate) served: Option<ServerId>,
}

/// The state kept for a peer, which is the candidate of a slot.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) level: usize,
    /// Since when it is a peer. What it gave before is its baseline.
    pub(crate) since: Time,
    /// Its incarnation, and the number of the totals that it sends.
    pub(crate) stream: Option<(u64, u32)>,
    /// What it said last about the groups, and the age of its totals then.
    pub(crate) standing: Option<Standing>,
    pub(crate) age: Duration,
    pub(crate) view: View,
    /// What it can have given.
    pub(crate) allowance: Allowance,
    pub(crate) link: Link,
}

/// How far the totals of a former peer were heard. If it comes back, late messages may repeat them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) stream: (u64, u32),
    pub(crate) version: u64,
    pub(crate) at: Time,
}

impl Level {
    /// There is a change that waits for others, so that traffic does not grow with the number of servers.
    pub(crate) fn change_later(&mut self, at: Time) {
        self.pass_on_at = self.pass_on_at.or(Some(at));
    }

    pub(crate) fn take_changed(&mut self, now: Time) -> bool {
        let is_due = self.pass_on_at.is_some_and(|at| at <= now);
        let changed = std::mem::take(&mut self.changed) || is_due;
        if changed {
            self.pass_on_at = None;
        }
        changed
    }
}

impl Peer {
    pub(crate) fn new(now: Time, level: usize) -> Self {
        Self {
            level,
            since: now,
            stream: None,
            standing: None,
            age: Duration::ZERO,
            view: View::default(),
            allowance: Allowance::new(now),
            link: Link::new(),
        }
    }

    pub(crate) fn incarnation(&self) -> Option<u64> {
        self.stream.map(|(incarnation, _)| incarnation)
    }

    pub(crate) fn speaks_for(&self) -> usize {
        self.standing.map_or(1, |standing| standing.live.max(1) as usize)
    }

    /// Whether it answers, and does not have another list of members.
    pub(crate) fn is_there(&self, members: u64) -> bool {
        self.link.state == PeerState::Live && self.standing.is_none_or(|standing| standing.members == members)
    }

    /// Whether it is there and in the group. One that only answers, but was never met, is not.
    pub(crate) fn is_member(&self, id: ServerId, members: u64) -> bool {
        let is_in_group = |standing: Standing| standing.side == id && standing.members == members;
        self.link.state == PeerState::Live && self.standing.is_some_and(is_in_group)
    }

    /// Whether nothing that the peer sent for so long before this message has arrived that it was lost. That is told by
    /// the peer's clock: the first message after a fault may be one that waited, and the timer of this server late.
    pub(crate) fn was_cut_off(&self, message: &Message, settings: &CoordinationSettings) -> bool {
        settings.keep_alive.is_some() && message.age.saturating_sub(self.age) > settings.lost_after
    }

    /// Notes what a message of the current totals says about the groups, unless a later one overtook it. Returns
    /// whether it was certainly sent after all others.
    pub(crate) fn note_standing(&mut self, message: &Message) -> bool {
        let is_newest = message.age > self.age;
        if message.age >= self.age {
            (self.standing, self.age) = (Some(message.standing), message.age);
        }
        is_newest
    }
}

/// Whether a peer is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// It never sent a message.
    #[default]
    Unknown,
    /// It sent a message recently.
    Live,
    /// It has been silent for too long.
    Lost,
}

/// The state of sending to one peer.
///
/// While the peer lacks changes or never sent a message, it is either ready in the table of peers, or `retry_at` is
/// set.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) state: PeerState,
    pub(crate) acked: Position,
    /// The next message carries changes, not only an acknowledgement.
    pub(crate) owes_changes: bool,
    /// The version at which the last message with changes ended.
    sent: u64,
    /// That message left out changes; send them after its acknowledgement.
    partial: bool,
    retries: u32,
    retry_at: Option<Time>,
    ack_at: Option<Time>,
    keep_alive_at: Option<Time>,
    lost_at: Option<Time>,
}

impl Link {
    /// Retries back off by at most this power of two.
    const MAX_BACK_OFF: u32 = 2;

    fn new() -> Self {
        Self { owes_changes: true, ..Self::default() }
    }

    fn wake(&self) -> Option<Time> {
        [self.retry_at, self.ack_at, self.keep_alive_at, self.lost_at].into_iter().flatten().min()
    }

    /// Whether a change is sent at once: not while the peer is silent, and not before earlier changes that it lacks.
    pub(crate) fn sends_changes_at_once(&self) -> bool {
        self.retries == 0 && !self.partial
    }

    pub(crate) fn on_sent(&mut self, now: Time, message: &Message, must_answer: bool, settings: &CoordinationSettings) {
        self.ack_at = None;
        self.keep_alive_at = settings.keep_alive_after(message.is_data()).map(|period| now + period);
        if std::mem::take(&mut self.owes_changes) {
            self.sent = message.at.version;
            self.partial = message.more;
        }
        if must_answer {
            self.retry_at = self.retry_at.or(Some(now + self.back_off(settings)));
            self.expect_answer(now, settings);
        }
    }

    pub(crate) fn on_heard(&mut self, now: Time, lacks: bool, settings: &CoordinationSettings) {
        self.state = PeerState::Live;
        self.lost_at = None;
        if lacks || settings.keep_alive.is_some() {
            self.expect_answer(now, settings);
        }
    }

    /// The peer knows this server's totals up to `acked`. Returns whether that is new.
    pub(crate) fn on_acked(&mut self, now: Time, acked: Position, settings: &CoordinationSettings) -> bool {
        if acked <= self.acked {
            return false;
        }
        let is_progress = acked.version != self.acked.version;
        self.acked = acked;
        // That flows were forgotten is no answer to what was sent: it must not put off the next attempt.
        if is_progress {
            self.retries = 0;
            self.retry_at = Some(now + self.back_off(settings));
        }
        true
    }

    pub(crate) fn on_complete(&mut self) {
        self.retries = 0;
        self.retry_at = None;
        self.partial = false;
    }

    /// Whether to send what the peer lacks right after hearing from it: it was silent before, or it has the whole of
    /// the last message.
    pub(crate) fn answers_at_once(&mut self, resume_from: u64) -> bool {
        if std::mem::take(&mut self.retries) > 0 {
            self.retry_at = None;
            return true;
        }
        resume_from >= self.sent
    }

    /// The peer must get an acknowledgement, in a message of its own if necessary.
    pub(crate) fn owe_ack(&mut self, now: Time, settings: &CoordinationSettings) {
        self.ack_at = self.ack_at.or(Some(now + settings.ack_delay));
    }

    /// The peer knows nothing of this server's totals: one of the two started again.
    pub(crate) fn restart(&mut self) {
        let Self { state, keep_alive_at, lost_at, .. } = *self;
        *self = Self { state, keep_alive_at, lost_at, ..Self::default() };
    }

    /// Handles timers that are due. Returns whether something must be sent, and whether the peer is lost.
    pub(crate) fn on_timeout(&mut self, now: Time) -> (bool, bool) {
        let retry = take_due(&mut self.retry_at, now);
        if retry {
            self.owes_changes = true;
            self.retries = (self.retries + 1).min(Self::MAX_BACK_OFF);
        }
        let ack = take_due(&mut self.ack_at, now);
        let keep_alive = take_due(&mut self.keep_alive_at, now);
        let lost = take_due(&mut self.lost_at, now);
        if lost {
            self.state = PeerState::Lost;
        }
        (retry || ack || keep_alive, lost)
    }

    fn back_off(&self, settings: &CoordinationSettings) -> Duration {
        settings.refresh.saturating_mul(1 << self.retries)
    }

    fn expect_answer(&mut self, now: Time, settings: &CoordinationSettings) {
        if self.state == PeerState::Live {
            self.lost_at = self.lost_at.or(Some(now + settings.lost_after));
        }
    }
}

fn take_due(timer: &mut Option<Time>, now: Time) -> bool {
    timer.take_if(|at| *at <= now).is_some()
}

/// Peers in the order of their numbers. What each message asks for is O(1) while numbers follow each other, and O(log
/// peers) otherwise; that a peer comes or goes is O(peers).
#[derive(Debug, Default)]
pub(crate) struct PeerTable {
    ids: Vec<ServerId>,
    peers: Vec<Peer>,
    /// A bit for each peer that is to be sent a message now.
    ready: Vec<u64>,
    timers: Timers,
}

impl PeerTable {
    fn place(&self, id: ServerId) -> Option<usize> {
        let guess = id.0.checked_sub(self.ids.first()?.0)? as usize;
        // One number is missing: that of this server.
        let near = [guess, guess.saturating_sub(1)].into_iter().find(|place| self.ids.get(*place) == Some(&id));
        near.or_else(|| self.ids.binary_search(&id).ok())
    }

    pub(crate) fn contains(&self, id: ServerId) -> bool {
        self.place(id).is_some()
    }

    pub(crate) fn get(&self, id: ServerId) -> Option<&Peer> {
        self.place(id).map(|place| &self.peers[place])
    }

    pub(crate) fn get_mut(&mut self, id: ServerId) -> Option<&mut Peer> {
        self.place(id).map(|place| &mut self.peers[place])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ServerId, &Peer)> {
        self.ids.iter().copied().zip(&self.peers)
    }

    pub(crate) fn insert(&mut self, id: ServerId, peer: Peer) {
        let Err(place) = self.ids.binary_search(&id) else {
            debug_assert!(false, "a server has one place among the groups");
            return;
        };
        self.rearrange(|table| {
            table.ids.insert(place, id);
            table.peers.insert(place, peer);
            table.timers.insert(place);
        });
    }

    pub(crate) fn remove(&mut self, id: ServerId) -> Option<Peer> {
        let place = self.place(id)?;
        self.rearrange(|table| {
            table.ids.remove(place);
            table.timers.remove(place);
            Some(table.peers.remove(place))
        })
    }

    /// Changes places; those that are ready stay so.
    fn rearrange<R>(&mut self, change: impl FnOnce(&mut Self) -> R) -> R {
        let ready: Vec<ServerId> = std::iter::from_fn(|| self.pop_ready()).collect();
        let changed = change(self);
        self.ready.resize(self.ids.len().div_ceil(64), 0);
        ready.into_iter().for_each(|id| self.set_ready(id));
        changed
    }

    pub(crate) fn set_ready(&mut self, id: ServerId) {
        if let Some(place) = self.place(id) {
            self.ready[place / 64] |= 1 << (place % 64);
        }
    }

    /// The first peer that is ready, which is so no longer. O(peers / 64).
    pub(crate) fn pop_ready(&mut self) -> Option<ServerId> {
        let (number, word) = self.ready.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let place = number * 64 + word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(self.ids[place])
    }

    /// Enters the time at which a peer's link wants to be woken, if it has changed. O(log peers), mostly O(1).
    pub(crate) fn set_timer(&mut self, id: ServerId) {
        if let Some(place) = self.place(id) {
            self.timers.set(place, self.peers[place].link.wake());
        }
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.timers.first()
    }

    /// The first peer, in order of time and number, whose timer is due. O(log peers).
    pub(crate) fn due(&self, now: Time) -> Option<ServerId> {
        self.wake().filter(|at| *at <= now).map(|_| self.ids[self.timers.first_place()])
    }
}

/// A time for each place, and the earliest of all: a tree in which each node is the earlier of its two children.
#[derive(Debug, Default)]
struct Timers {
    /// The root is at 1, the children of `n` at `2 n` and `2 n + 1`, the places in the second half.
    tree: Vec<Time>,
    places: usize,
}

impl Timers {
    const NEVER: Time = Time::from_nanos(u64::MAX);

    fn insert(&mut self, place: usize) {
        let mut times = self.times().to_vec();
        times.insert(place, Self::NEVER);
        self.build(&times);
    }

    fn remove(&mut self, place: usize) {
        let mut times = self.times().to_vec();
        times.remove(place);
        self.build(&times);
    }

    fn times(&self) -> &[Time] {
        &self.tree[self.tree.len() / 2..][..self.places]
    }

    fn build(&mut self, times: &[Time]) {
        let width = times.len().next_power_of_two();
        self.places = times.len();
        self.tree = [&vec![Self::NEVER; width], times, &vec![Self::NEVER; width - times.len()]].concat();
        (1..width).rev().for_each(|node| self.tree[node] = self.earlier_child(node));
    }

    fn earlier_child(&self, node: usize) -> Time {
        self.tree[2 * node].min(self.tree[2 * node + 1])
    }

    fn set(&mut self, place: usize, at: Option<Time>) {
        let mut node = self.tree.len() / 2 + place;
        let mut earliest = at.unwrap_or(Self::NEVER);
        while self.tree[node] != earliest {
            self.tree[node] = earliest;
            node /= 2;
            if node == 0 {
                return;
            }
            earliest = self.earlier_child(node);
        }
    }

    fn first(&self) -> Option<Time> {
        self.tree.get(1).copied().filter(|at| *at != Self::NEVER)
    }

    /// The place of the earliest time, the first of several.
    fn first_place(&self) -> usize {
        let width = self.tree.len() / 2;
        let mut node = 1;
        while node < width {
            node = 2 * node + usize::from(self.tree[2 * node] != self.tree[node]);
        }
        node - width
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use vpfs_core::testing::Random;

    use super::*;

    #[derive(Default)]
    struct Oracle {
        timers: BTreeMap<ServerId, Option<Time>>,
        ready: BTreeSet<ServerId>,
    }

    impl Oracle {
        fn due(&self, now: Time) -> Option<ServerId> {
            let timers = self.timers.iter().filter_map(|(id, at)| at.map(|at| (at, *id)));
            timers.min().filter(|(at, _)| *at <= now).map(|(_, id)| id)
        }
    }

    #[test]
    fn peers_are_found_as_in_ordered_sets() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let spread = [1, 1, 7][random.below(3) as usize];
            let (mut table, mut oracle) = (PeerTable::default(), Oracle::default());
            for _ in 0..300 {
                let id = ServerId(random.below(150) * spread + 5);
                match random.below(5) {
                    0 | 1 if !oracle.timers.contains_key(&id) => {
                        table.insert(id, Peer::new(Time::ZERO, 0));
                        oracle.timers.insert(id, None);
                    }
                    2 => {
                        assert_eq!(table.remove(id).is_some(), oracle.timers.remove(&id).is_some());
                        oracle.ready.remove(&id);
                    }
                    3 if table.contains(id) => {
                        table.set_ready(id);
                        oracle.ready.insert(id);
                    }
                    4 => assert_eq!(table.pop_ready(), oracle.ready.pop_first()),
                    _ => {
                        let at = (random.below(4) > 0).then(|| Time::from_nanos(random.below(20).into()));
                        if let Some(timer) = oracle.timers.get_mut(&id) {
                            table.get_mut(id).unwrap().link.retry_at = at;
                            table.set_timer(id);
                            *timer = at;
                        }
                    }
                }
                let now = Time::from_nanos(random.below(25).into());
                assert_eq!(table.due(now), oracle.due(now), "seed {seed}");
                assert_eq!(table.wake(), oracle.timers.values().flatten().min().copied());
                assert!(table.iter().map(|(id, _)| id).eq(oracle.timers.keys().copied()));
            }
        }
    }
}
