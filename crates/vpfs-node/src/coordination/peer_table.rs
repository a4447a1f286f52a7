//! The peers of one server, found by number, by readiness and by timer without a search for each message.

use vpfs_core::{ServerId, Time};

use super::level::Peer;

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

    /// All of them in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ServerId, &Peer)> {
        self.ids.iter().copied().zip(&self.peers)
    }

    /// A peer that is none yet, without a timer.
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

    /// It is a peer no longer, neither ready nor with a timer.
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

    /// A peer is to be sent a message now.
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

    /// When the first timer is due. O(1).
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
    /// No timer.
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

    /// What ordered sets say of the same peers.
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
                            table.get_mut(id).unwrap().link.set_wake(at);
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
