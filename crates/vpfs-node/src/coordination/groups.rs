//! How servers are divided into groups that form a tree (docs/decisions/0008-peers.md).
//!
//! On level 0, the servers are divided by their order into groups of `size`. The representative of each group is in a
//! group of the next level, which therefore covers `size` times as many servers, and so on up to one group that covers
//! all. A *side* of a group is what one member stands for: itself on level 0, a group of the level below otherwise.
//!
//! The division never changes while the list of members is the same. Only the representatives depend on who is alive:
//! the first live server of each group.

use std::ops::Range;
use std::sync::Arc;

use vpfs_core::ServerId;
use vpfs_core::hash::{mix, stable_hash};

/// The servers that coordinate, in the order of their numbers; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    servers: Arc<[ServerId]>,
    /// Tells lists apart.
    hash: u64,
}

impl Members {
    /// Servers 0, 1, ... of a file that gives them these names. Files with other names, or another order, give the same
    /// numbers to other servers. O(length).
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let hashes: Vec<u64> = names.into_iter().map(stable_hash).collect();
        let servers = (0..).map(ServerId).take(hashes.len()).collect();
        Self { servers, hash: hashes.into_iter().fold(0, |hash, name| mix(hash ^ name)) }
    }

    /// The members in order. O(1).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ServerId> + '_ {
        self.servers.iter().copied()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Whether `server` is one of them. O(log members), O(1) for members of a file.
    pub fn contains(&self, server: ServerId) -> bool {
        self.index(server).is_some()
    }

    fn index(&self, server: ServerId) -> Option<usize> {
        // Members of a file are numbered from zero.
        let number = server.0 as usize;
        let is_named = self.servers.get(number) == Some(&server);
        if is_named { Some(number) } else { self.servers.binary_search(&server).ok() }
    }
}

impl FromIterator<ServerId> for Members {
    /// Servers that have the same numbers everywhere, in any order; repeated ones count once.
    fn from_iter<I: IntoIterator<Item = ServerId>>(servers: I) -> Self {
        let mut servers: Vec<ServerId> = servers.into_iter().collect();
        servers.sort_unstable();
        servers.dedup();
        let hash = servers.iter().fold(0, |hash, server| mix(hash ^ u64::from(server.0)));
        Self { servers: servers.into(), hash }
    }
}

impl<const N: usize> From<[ServerId; N]> for Members {
    fn from(servers: [ServerId; N]) -> Self {
        servers.into_iter().collect()
    }
}

/// The groups as one server sees them. All calls are O(levels) or less, except [`Groups::new`].
#[derive(Clone, Debug)]
pub struct Groups {
    members: Members,
    me: usize,
    size: usize,
    levels: usize,
    hash: u64,
}

impl Groups {
    /// The smallest and largest size of a group.
    pub const SIZES: std::ops::RangeInclusive<usize> = 2..=256;

    /// The groups of `me`, which becomes a member if it is none, in groups of `size`, limited to [`Groups::SIZES`].
    /// O(members).
    pub fn new(members: Members, me: ServerId, size: usize) -> Self {
        let members = if members.contains(me) { members } else { members.iter().chain([me]).collect() };
        let size = size.clamp(*Self::SIZES.start(), *Self::SIZES.end());
        let mut levels = 1;
        let mut covered = size;
        while covered < members.len() {
            covered = covered.saturating_mul(size);
            levels += 1;
        }
        let me = members.index(me).expect("it was added");
        let hash = mix(mix(size as u64) ^ members.hash);
        Self { members, me, size, levels, hash }
    }

    /// The members, this server included.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The number of levels, at least one; O(log members).
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// A number for the division; servers with the same one divide alike. Zero for a single group: in it, servers need
    /// not agree about the members.
    pub fn hash(&self) -> u64 {
        if self.levels == 1 { 0 } else { self.hash }
    }

    /// The only level on which this server and `other` can be in the same group; `None` if `other` is no other member.
    pub fn level_with(&self, other: ServerId) -> Option<usize> {
        let index = self.members.index(other).filter(|index| *index != self.me)?;
        if self.levels == 1 {
            return Some(0);
        }
        (0..self.levels).find(|level| self.group_of(*level, index) == self.group_of(*level, self.me))
    }

    /// The sides of this server's group of `level` but its own: the first member and all members of each, never empty.
    pub fn sides(&self, level: usize) -> impl Iterator<Item = Side> + '_ {
        let width = self.width(level);
        let group = self.group_of(level, self.me) * width * self.size;
        let starts = (0..self.size).map(move |side| group + side * width);
        let others = starts.filter(move |start| *start < self.members.len() && self.me / width != start / width);
        others.map(move |start| Side(start..(start + width).min(self.members.len())))
    }

    /// Whether `server` belongs to `side`.
    pub fn is_in(&self, server: ServerId, side: &Side) -> bool {
        self.members.index(server).is_some_and(|index| side.0.contains(&index))
    }

    /// The first member of a side.
    pub fn first(&self, side: &Side) -> ServerId {
        self.members.servers[side.0.start]
    }

    /// The member of `side` after `server`, or the first one again.
    pub fn next(&self, side: &Side, server: ServerId) -> ServerId {
        let next = self.members.index(server).map_or(side.0.start, |index| index + 1);
        self.members.servers[if side.0.contains(&next) { next } else { side.0.start }]
    }

    fn width(&self, level: usize) -> usize {
        (0..level).fold(1, |width: usize, _| width.saturating_mul(self.size))
    }

    fn group_of(&self, level: usize, index: usize) -> usize {
        index / self.width(level + 1)
    }
}

/// Some members next to each other in the order, which one of them represents. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side(Range<usize>);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vpfs_core::testing::Random;

    use super::*;

    fn id(server: usize) -> ServerId {
        ServerId(u32::try_from(server).unwrap())
    }

    /// The tree when everybody knows who is alive: the neighbours of each live server, by level.
    fn neighbours(live: &[bool], me: usize, size: usize) -> Vec<Vec<usize>> {
        let groups = Groups::new((0..live.len()).map(id).collect(), id(me), size);
        let mut levels = Vec::new();
        for level in 0..groups.levels() {
            let heads = groups.sides(level).filter_map(|side| side.0.clone().find(|server| live[*server]));
            levels.push(heads.collect());
            let width = groups.width(level + 1);
            let start = me / width * width;
            if (start..me).any(|server| live[server]) {
                break;
            }
        }
        levels
    }

    /// How often what `source` gave reaches each server: everyone passes it on to the groups in which it was not heard.
    fn reached(tree: &[Vec<Vec<usize>>], source: usize) -> Vec<u32> {
        let mut times = vec![0; tree.len()];
        let mut underway = vec![(source, None)];
        while let Some((server, heard)) = underway.pop() {
            times[server] += 1;
            assert!(times[server] < 10, "it travels in a circle");
            let others = tree[server].iter().enumerate().filter(|(level, _)| Some(*level) != heard);
            underway.extend(others.flat_map(|(level, others)| others.iter().map(move |other| (*other, Some(level)))));
        }
        times
    }

    #[test]
    fn every_amount_reaches_every_live_server_once() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let (count, size) = (1 + random.below(200) as usize, 2 + random.below(16) as usize);
            let dead_percent = [0, 10, 60][random.below(3) as usize];
            let live: Vec<bool> = (0..count).map(|_| random.below(100) >= dead_percent).collect();
            let tree: Vec<_> =
                (0..count).map(|me| if live[me] { neighbours(&live, me, size) } else { Vec::new() }).collect();
            assert!(tree.iter().flatten().all(|level| level.len() < size), "seed {seed}");
            for source in (0..count).filter(|server| live[*server]) {
                let expected: Vec<u32> = live.iter().map(|live| u32::from(*live)).collect();
                assert_eq!(reached(&tree, source), expected, "seed {seed}, {count} servers in groups of {size}");
            }
        }
    }

    #[test]
    fn neighbours_know_each_other_on_one_level() {
        let live = vec![true; 300];
        for me in 0..300 {
            let groups = Groups::new((0..300).map(id).collect(), id(me), 16);
            for (level, others) in neighbours(&live, me, 16).iter().enumerate() {
                for &other in others {
                    assert_eq!(groups.level_with(id(other)), Some(level));
                    assert!(neighbours(&live, other, 16)[level].contains(&me));
                }
            }
        }
    }

    #[test]
    fn ten_thousand_servers_have_four_levels() {
        let levels = |count: usize| Groups::new((0..count).map(id).collect(), id(0), 16).levels();
        assert_eq!([1, 16, 17, 256, 257, 4096, 10_000].map(levels), [1, 1, 2, 2, 3, 3, 4]);
        let groups = Groups::new((0..10_000).map(id).collect(), id(0), 16);
        let peers: BTreeSet<_> = (0..4).flat_map(|level| groups.sides(level).map(|side| groups.first(&side))).collect();
        assert_eq!(peers.len(), 15 + 15 + 15 + 2);
    }

    #[test]
    fn sides_are_asked_in_turn() {
        let groups = Groups::new((0..40).map(id).collect(), id(0), 16);
        let sides: Vec<Side> = groups.sides(1).collect();
        assert_eq!(sides, [Side(16..32), Side(32..40)]);
        assert_eq!([32, 38, 39].map(|server| groups.next(&sides[1], id(server))), [id(33), id(39), id(32)]);
        assert!(
            groups.is_in(id(39), &sides[1]) && !groups.is_in(id(31), &sides[1]) && !groups.is_in(id(40), &sides[1])
        );
    }

    #[test]
    fn a_server_is_a_member_in_any_case() {
        let groups = Groups::new(Members::from([id(3), id(1), id(3)]), id(2), 16);
        assert_eq!(groups.members(), &Members::from([id(1), id(2), id(3)]));
        assert_eq!([0, 1, 2, 3].map(|server| groups.level_with(id(server))), [None, Some(0), None, Some(0)]);
    }
}
