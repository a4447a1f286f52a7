//! Doubly linked FIFO lists threaded through tables that are indexed by [`RequestId`]: O(1), no allocation.

use crate::units::RequestId;

/// The end of a list.
const NONE: RequestId = RequestId(u32::MAX);

/// The neighbours of a request in the one list it is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    previous: RequestId,
    next: RequestId,
}

impl Links {
    /// In no list.
    pub(crate) const UNLINKED: Self = Self { previous: NONE, next: NONE };
}

/// An entry of a request table that can be in a list.
pub(crate) trait Node {
    fn links(&mut self) -> &mut Links;
}

/// A FIFO list of requests; each call takes the table that contains the links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: RequestId,
    last: RequestId,
}

impl List {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    /// The request that was added first.
    pub(crate) fn first(&self) -> Option<RequestId> {
        (self.first != NONE).then_some(self.first)
    }

    /// All its requests, in order. O(n).
    pub(crate) fn ids<N: Node>(&self, table: &mut [N]) -> impl Iterator<Item = RequestId> {
        core::iter::successors(self.first(), |id| {
            let next = table[id.index()].links().next;
            (next != NONE).then_some(next)
        })
    }

    /// Adds `id`, which must be in no list, at the end.
    pub(crate) fn push_back<N: Node>(&mut self, table: &mut [N], id: RequestId) {
        *table[id.index()].links() = Links { previous: self.last, next: NONE };
        if self.last == NONE {
            self.first = id;
        } else {
            table[self.last.index()].links().next = id;
        }
        self.last = id;
    }

    /// Takes `id`, which must be in this list, out of it.
    pub(crate) fn remove<N: Node>(&mut self, table: &mut [N], id: RequestId) {
        let Links { previous, next } = core::mem::replace(table[id.index()].links(), Links::UNLINKED);
        if previous == NONE {
            self.first = next;
        } else {
            table[previous.index()].links().next = next;
        }
        if next == NONE {
            self.last = previous;
        } else {
            table[next.index()].links().previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Node for Links {
        fn links(&mut self) -> &mut Links {
            self
        }
    }

    #[test]
    fn removes_anywhere_and_keeps_order() {
        let mut table = [Links::UNLINKED; 4];
        let mut list = List::EMPTY;
        for id in [2, 0, 3, 1] {
            list.push_back(&mut table, RequestId(id));
        }
        list.remove(&mut table, RequestId(0));
        list.remove(&mut table, RequestId(1));
        list.push_back(&mut table, RequestId(0));
        assert!(list.ids(&mut table).eq([2, 3, 0].map(RequestId)));
        for id in [2, 3, 0] {
            assert_eq!(list.first(), Some(RequestId(id)));
            list.remove(&mut table, RequestId(id));
        }
        assert_eq!(list.first(), None);
    }
}
