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
        set(&mut self.items, &mut self.positions, &item);
    }

    /// Removes the item of `owner`, if there is one.
    pub(crate) fn remove(&mut self, owner: usize) {
        remove(&mut self.items, &mut self.positions, owner);
    }
}

/// Inserts `item` into a heap, replacing its owner's previous one; returns whether the first item has changed. Several
/// heaps may have one index `positions`, if each owner is in one of them at most.
#[inline]
pub(crate) fn set<T: Item>(items: &mut Vec<T>, positions: &mut Vec<u32>, item: &T) -> bool {
    let index = item.owner();
    if index >= positions.len() {
        positions.resize(index + 1, ABSENT);
    }
    let position = positions[index];
    if position == ABSENT {
        items.push(*item);
        let last = items.len() - 1;
        sift_up(items, positions, last, item) == 0
    } else {
        settle(items, positions, position as usize, item)
    }
}

/// Removes the item of `owner`, which is in no other heap; returns whether the first item has changed.
#[inline]
pub(crate) fn remove<T: Item>(items: &mut Vec<T>, positions: &mut [u32], owner: usize) -> bool {
    let Some(position) = positions.get_mut(owner) else { return false };
    let position = core::mem::replace(position, ABSENT) as usize;
    if position >= items.len() {
        return false;
    }
    if let Some(last) = items.pop()
        && position < items.len()
    {
        return settle(items, positions, position, &last);
    }
    position == 0
}

/// Puts `item` in place of that at index `at`, or above or below, where it belongs; returns whether the first item may
/// have changed.
// Each dispatch does this once for each level of shares: a call costs as much as a level of a heap.
#[inline(always)]
pub(crate) fn settle<T: Item>(items: &mut [T], positions: &mut [u32], at: usize, item: &T) -> bool {
    if at > 0 && *item < items[(at - 1) / ARITY] {
        sift_up(items, positions, at, item) == 0
    } else {
        sift_down(items, positions, at, item);
        at == 0
    }
}

/// Returns where it is then.
fn sift_up<T: Item>(items: &mut [T], positions: &mut [u32], mut at: usize, item: &T) -> usize {
    while at > 0 && *item < items[(at - 1) / ARITY] {
        let parent = (at - 1) / ARITY;
        place(items, positions, at, items[parent]);
        at = parent;
    }
    place(items, positions, at, *item);
    at
}

#[inline(always)]
fn sift_down<T: Item>(items: &mut [T], positions: &mut [u32], mut at: usize, item: &T) {
    while let Some(child) = least_child(items, at).filter(|child| items[*child] < *item) {
        place(items, positions, at, items[child]);
        at = child;
    }
    place(items, positions, at, *item);
}

fn least_child<T: Item>(items: &[T], at: usize) -> Option<usize> {
    let first = at * ARITY + 1;
    let children = items.get(first..)?;
    let Some([a, b, c, d]) = children.first_chunk::<ARITY>() else {
        return least_of_few(children).map(|at| first + at);
    };
    let (left, right) = (usize::from(b < a), 2 + usize::from(d < c));
    Some(first + if children[right] < children[left] { right } else { left })
}

/// Seldom, so that it takes no registers of the rest.
#[inline(never)]
fn least_of_few<T: Item>(children: &[T]) -> Option<usize> {
    (0..children.len()).min_by_key(|at| children[*at])
}

#[expect(clippy::cast_possible_truncation, reason = "there are at most as many items as 32-bit ids")]
fn place<T: Item>(items: &mut [T], positions: &mut [u32], at: usize, item: T) {
    items[at] = item;
    positions[item.owner()] = at as u32;
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
