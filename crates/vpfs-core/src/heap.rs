//! A four-ary heap with an index by owner, so that any item can be replaced or removed.
//!
//! Four children share two cache lines and halve the depth of a binary heap; that depth dominates the cost of a
//! dispatch.

use alloc::vec::Vec;

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// An item of a heap. Items are ordered; a heap holds at most one for each owner (an application or a request).
pub(crate) trait Item: Copy + Ord {
    /// The dense number of the owner, below 2³² − 1.
    fn owner(&self) -> usize;
}

/// A heap with the smallest item first. O(log n) changes, no allocation once it has grown to the owners in use.
#[derive(Debug)]
pub(crate) struct Heap<T> {
    items: Vec<T>,
    /// By owner: the index of its item, or [`ABSENT`].
    positions: Vec<u32>,
}

impl<T: Item> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self { items: Vec::new(), positions: Vec::new() }
    }

    /// The smallest item.
    pub(crate) fn first(&self) -> Option<&T> {
        self.items.first()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The item of `owner`.
    pub(crate) fn get(&self, owner: usize) -> Option<&T> {
        let position = *self.positions.get(owner)?;
        self.items.get(position as usize)
    }

    /// Inserts `item`, replacing its owner's previous one.
    pub(crate) fn set(&mut self, item: T) {
        self.indexed().set(item);
    }

    /// Removes the item of `owner`, if there is one.
    pub(crate) fn remove(&mut self, owner: usize) {
        self.indexed().remove(owner);
    }

    fn indexed(&mut self) -> Indexed<'_, T> {
        Indexed { items: &mut self.items, positions: &mut self.positions }
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> [usize; 2] {
        [self.items.capacity(), self.positions.capacity()]
    }
}

/// A heap and its index; several heaps may have one index, if each owner is in one of them at most.
pub(crate) struct Indexed<'a, T> {
    pub(crate) items: &'a mut Vec<T>,
    pub(crate) positions: &'a mut Vec<u32>,
}

impl<T: Item> Indexed<'_, T> {
    /// Inserts `item`, replacing its owner's previous one; returns whether the first item has changed.
    pub(crate) fn set(&mut self, item: T) -> bool {
        let index = item.owner();
        if index >= self.positions.len() {
            self.positions.resize(index + 1, ABSENT);
        }
        let position = self.positions[index];
        if position == ABSENT {
            self.items.push(item);
            self.sift_up(self.items.len() - 1, item) == 0
        } else {
            self.replace(position as usize, item)
        }
    }

    /// Removes the item of `owner`, which is in no other heap; returns whether the first item has changed.
    pub(crate) fn remove(&mut self, owner: usize) -> bool {
        let Some(position) = self.positions.get_mut(owner) else { return false };
        let position = core::mem::replace(position, ABSENT) as usize;
        if position >= self.items.len() {
            return false;
        }
        if let Some(last) = self.items.pop()
            && position < self.items.len()
        {
            return self.replace(position, last);
        }
        position == 0
    }

    /// Puts `item` at index `at`, where that of its owner is, or moves it up or down from there to where it belongs;
    /// returns whether the first item has changed.
    pub(crate) fn replace(&mut self, at: usize, item: T) -> bool {
        if at > 0 && item < self.items[(at - 1) / ARITY] {
            self.sift_up(at, item) == 0
        } else {
            self.sift_down(at, item);
            at == 0
        }
    }

    /// Returns where it is then.
    fn sift_up(&mut self, mut at: usize, item: T) -> usize {
        while at > 0 && item < self.items[(at - 1) / ARITY] {
            let parent = (at - 1) / ARITY;
            self.place(at, self.items[parent]);
            at = parent;
        }
        self.place(at, item);
        at
    }

    fn sift_down(&mut self, mut at: usize, item: T) {
        while let Some(child) = self.least_child(at).filter(|child| self.items[*child] < item) {
            self.place(at, self.items[child]);
            at = child;
        }
        self.place(at, item);
    }

    fn least_child(&self, at: usize) -> Option<usize> {
        let first = at * ARITY + 1;
        let children = self.items.get(first..)?;
        if let Some([a, b, c, d]) = children.first_chunk::<ARITY>() {
            let (left, right) = (usize::from(b < a), 2 + usize::from(d < c));
            return Some(first + if children[right] < children[left] { right } else { left });
        }
        let mut least = 0;
        for child in 1..children.len() {
            if children[child] < children[least] {
                least = child;
            }
        }
        (!children.is_empty()).then_some(first + least)
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are at most as many items as 32-bit ids")]
    fn place(&mut self, at: usize, item: T) {
        self.items[at] = item;
        self.positions[item.owner()] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::AppId;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Pair(u64, AppId);

    impl Item for Pair {
        fn owner(&self) -> usize {
            self.1.index()
        }
    }

    #[test]
    fn agrees_with_a_sorted_list() {
        let mut heap = Heap::new();
        let mut list: Vec<Pair> = Vec::new();
        let mut random = 42_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pair = Pair(random >> 48, AppId((random >> 40 & 0x3f) as u32));
            list.retain(|kept| kept.1 != pair.1);
            if random >> 33 & 3 == 0 {
                heap.remove(pair.1.index());
            } else {
                heap.set(pair);
                list.push(pair);
            }
            assert_eq!(heap.first(), list.iter().min());
            assert_eq!(heap.get(pair.1.index()), list.iter().find(|kept| kept.1 == pair.1));
        }
    }
}
