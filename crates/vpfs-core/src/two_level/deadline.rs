//! The low level's queue: earliest deadline first [Two-level].

use crate::heap::{Heap, Item};
use crate::units::{RequestId, Time};

/// A request by its deadline; equal ones in the order in which they entered the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    deadline: Time,
    arrival: u64,
    id: RequestId,
}

impl Item for Due {
    fn owner(&self) -> usize {
        self.id.index()
    }
}

/// O(log n) each.
#[derive(Debug)]
pub(super) struct DeadlineQueue {
    heap: Heap<Due>,
    arrivals: u64,
}

impl DeadlineQueue {
    pub(super) const fn new() -> Self {
        Self { heap: Heap::new(), arrivals: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn push(&mut self, id: RequestId, deadline: Time) {
        self.heap.set(Due { deadline, arrival: self.arrivals, id });
        self.arrivals += 1;
    }

    pub(super) fn remove(&mut self, id: RequestId) {
        self.heap.remove(id.index());
    }

    /// When the next request becomes overdue.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.heap.first().map(|due| due.deadline)
    }

    /// Takes the request with the earliest deadline: the overdue ones at once, others only if there is `room`.
    pub(super) fn pop(&mut self, now: Time, room: bool) -> Option<RequestId> {
        let &Due { deadline, id, .. } = self.heap.first()?;
        if !room && deadline > now {
            return None;
        }
        self.heap.remove(id.index());
        Some(id)
    }
}
