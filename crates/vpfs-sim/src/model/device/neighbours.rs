//! Where pending accesses begin and end, to find those that continue each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use vpfs_core::hash::mix;

use super::outstanding::Outstanding;
use super::{Io, IoId};

/// A byte of an object.
type Place = (u64, u64);

type ByPlace<T> = HashMap<Place, T, BuildHasherDefault<PlaceHasher>>;

/// Pending accesses by the places where they begin and end. O(1) for each, but to remove an access with which many
/// others begin.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// Those that begin at a place, in order of submission.
    begins: ByPlace<Alike>,
    /// How many end at a place.
    ends: ByPlace<u32>,
}

/// Accesses that begin at one place: the first and the last of a list.
#[derive(Clone, Copy, Debug)]
struct Alike {
    first: IoId,
    last: IoId,
}

/// An access that knows the next one that begins where it does.
pub(super) trait Linked {
    fn next(&self) -> Option<IoId>;
    fn set_next(&mut self, next: Option<IoId>);
}

impl Neighbours {
    /// Adds an access, which is in `accesses`.
    pub(super) fn insert<T: Linked>(&mut self, id: IoId, io: &Io, accesses: &mut Outstanding<T>) {
        match self.begins.entry((io.object, io.offset)) {
            Entry::Vacant(place) => _ = place.insert(Alike { first: id, last: id }),
            Entry::Occupied(mut place) => {
                let last = std::mem::replace(&mut place.get_mut().last, id);
                accesses.get_mut(last).expect("it is pending").set_next(Some(id));
            }
        }
        *self.ends.entry((io.object, end_of(io))).or_default() += 1;
    }

    /// Removes an access, which is still in `accesses`.
    pub(super) fn remove<T: Linked>(&mut self, id: IoId, io: &Io, accesses: &mut Outstanding<T>) {
        let next = accesses.get(id).expect("it is pending").next();
        let Entry::Occupied(mut place) = self.begins.entry((io.object, io.offset)) else { panic!("it was inserted") };
        let before = chain(place.get().first, accesses).take_while(|other| *other != id).last();
        match (before, next) {
            (None, None) => _ = place.remove(),
            (None, Some(next)) => place.get_mut().first = next,
            (Some(before), next) => {
                accesses.get_mut(before).expect("it is pending").set_next(next);
                if next.is_none() {
                    place.get_mut().last = before;
                }
            }
        }
        let Entry::Occupied(mut end) = self.ends.entry((io.object, end_of(io))) else { panic!("it was inserted") };
        *end.get_mut() -= 1;
        if *end.get() == 0 {
            end.remove();
        }
    }

    /// The oldest access that begins at a place.
    pub(super) fn first_at(&self, place: Place) -> Option<IoId> {
        self.begins.get(&place).map(|alike| alike.first)
    }

    /// Whether an access ends at a place.
    pub(super) fn is_end(&self, place: Place) -> bool {
        self.ends.contains_key(&place)
    }
}

/// An access and all after it that begin at the same place.
pub(super) fn chain<T: Linked>(first: IoId, accesses: &Outstanding<T>) -> impl Iterator<Item = IoId> {
    std::iter::successors(Some(first), |id| accesses.get(*id)?.next())
}

pub(super) fn end_of(io: &Io) -> u64 {
    io.offset.saturating_add(io.len)
}

/// Fast, and no protection from those who choose places that collide: models serve simulations and tests.
#[derive(Debug, Default)]
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::IoKind;
    use super::*;

    struct Access(Option<IoId>);

    impl Linked for Access {
        fn next(&self) -> Option<IoId> {
            self.0
        }

        fn set_next(&mut self, next: Option<IoId>) {
            self.0 = next;
        }
    }

    /// Of accesses that begin at one place, any may be the next to go.
    #[test]
    fn those_that_begin_together_are_found_in_order() {
        let io = Io { kind: IoKind::Read, object: 1, offset: 8, len: 4 };
        let (begin, end) = ((1, 8), (1, 12));
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (mut accesses, mut neighbours) = (Outstanding::default(), Neighbours::default());
            let mut left = vec![0, 1, 2];
            for id in left.iter().copied().map(IoId) {
                accesses.insert(id, Access(None));
                neighbours.insert(id, &io, &mut accesses);
            }
            for id in order {
                let found = neighbours.first_at(begin).into_iter().flat_map(|first| chain(first, &accesses));
                assert_eq!(found.map(|id| id.0).collect::<Vec<_>>(), left, "{order:?}");
                assert!(neighbours.is_end(end) && !neighbours.is_end(begin));
                neighbours.remove(IoId(id), &io, &mut accesses);
                accesses.remove(IoId(id));
                left.retain(|other| *other != id);
            }
            assert!(neighbours.first_at(begin).is_none() && !neighbours.is_end(end));
        }
    }
}
