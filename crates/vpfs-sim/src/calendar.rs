//! The event queue of a simulation.

use slab::Slab;
use vpfs_core::Time;

/// An event at a time; numbers are indices into the world's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An application starts.
    Start { app: u32 },
    /// A process continues: a barrier opened, or its computation ended.
    Resume { process: u32 },
    /// A request reaches the proxy of a server.
    Arrive { server: u32, part: u32 },
    /// Enough of a write's data has arrived at the server for its device to start.
    Submit { server: u32, service: u32 },
    /// The device of a server has completed something.
    DeviceWake { server: u32 },
    /// The metadata service of a server has completed something.
    MetadataWake { server: u32 },
    /// The timeout of a server's node.
    NodeWake { server: u32 },
    /// An operation is complete on the wire of a server.
    Complete { server: u32, part: u32 },
    /// The last byte of a request's reply has arrived at the client.
    Reply { call: u32 },
    /// A coordination message arrives.
    Deliver { message: u32 },
    /// A server's node may have a message to send.
    Nudge { server: u32 },
    /// The proxy of a server restarts.
    Restart { server: u32 },
    /// A sampling interval ends.
    Sample,
}

/// Events by time; at equal times in order of insertion, so that a run can be repeated. No event may be earlier than
/// the last one that was taken.
///
/// A timer's old event is not removed when the timer is reset: its owner remembers what it waits for and ignores
/// others.
///
/// A radix heap: an event lies in the bucket of the highest digit in which its time differs from that of the last event
/// taken, and of that digit's value. When the nearest bucket is due, its events move to nearer ones, in their order,
/// each at most once for each digit of its delay. Buckets are lists in one table, which is as large as the most events
/// that there were: place and time of an event are still in the processor's cache when it moves, and a bucket that was
/// full once keeps no memory.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The time of the last event taken.
    now: u64,
    nodes: Slab<Node>,
    due: List,
    /// The nearest first: by digit, the lowest first, and then by its value.
    buckets: [List; 4 * u64::BITS as usize],
    /// A bit for each bucket that is not empty.
    occupied: [u64; 4],
}

#[derive(Clone, Copy, Debug)]
struct Node {
    at: u64,
    event: Event,
    next: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE };

    fn push(&mut self, nodes: &mut Slab<Node>, node: u32) {
        nodes[node as usize].next = NONE;
        match nodes.get_mut(self.last as usize) {
            Some(last) => last.next = node,
            None => self.first = node,
        }
        self.last = node;
    }

    fn pop(&mut self, nodes: &Slab<Node>) -> Option<u32> {
        let first = self.first;
        self.first = nodes.get(first as usize)?.next;
        if self.first == NONE {
            self.last = NONE;
        }
        Some(first)
    }
}

impl Default for Calendar {
    fn default() -> Self {
        Self { now: 0, nodes: Slab::new(), due: List::EMPTY, buckets: [List::EMPTY; _], occupied: [0; 4] }
    }
}

impl Calendar {
    const DIGIT_BITS: u32 = 4;

    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let at = at.as_nanos();
        debug_assert!(at >= self.now, "time does not go back");
        let node = self.nodes.insert(Node { at, event, next: NONE });
        self.put(u32::try_from(node).expect("events are bounded by the calls"));
    }

    fn put(&mut self, node: u32) {
        let at = self.nodes[node as usize].at;
        let list = match (at ^ self.now).checked_ilog2() {
            None => &mut self.due,
            Some(bit) => {
                let digit = bit / Self::DIGIT_BITS;
                let value = at >> (digit * Self::DIGIT_BITS) & ((1 << Self::DIGIT_BITS) - 1);
                let bucket = (digit << Self::DIGIT_BITS) as usize + value as usize;
                self.occupied[bucket / 64] |= 1 << (bucket % 64);
                &mut self.buckets[bucket]
            }
        };
        list.push(&mut self.nodes, node);
    }

    /// The next event with its time. O(digits of a delay) for each event, over all calls.
    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        if self.due.first == NONE {
            self.turn()?;
        }
        let node = self.due.pop(&self.nodes)?;
        Some((Time::from_nanos(self.now), self.nodes.remove(node as usize).event))
    }

    fn turn(&mut self) -> Option<()> {
        let (word, bits) = self.occupied.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let nearest = word * 64 + bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        let mut events = std::mem::replace(&mut self.buckets[nearest], List::EMPTY);
        let nodes =
            std::iter::successors(self.nodes.get(events.first as usize), |node| self.nodes.get(node.next as usize));
        self.now = nodes.map(|node| node.at).min()?;
        while let Some(node) = events.pop(&self.nodes) {
            self.put(node);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_the_order_of_insertion() {
        let mut calendar = Calendar::default();
        let later = Time::from_millis(2);
        calendar.push(later, Event::Resume { process: 9 });
        calendar.push(Time::ZERO, Event::Resume { process: 7 });
        calendar.push(later, Event::Resume { process: 1 });
        calendar.push(later, Event::Sample);
        let order: Vec<Event> = std::iter::from_fn(|| calendar.pop()).map(|(_, event)| event).collect();
        let resume = |process| Event::Resume { process };
        assert_eq!(order, [resume(7), resume(9), resume(1), Event::Sample]);
    }
}
