//! The event queue of a simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vpfs_core::Time;

/// An event at a time; numbers are indices into the world's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// An application starts.
    Start { app: u32 },
    /// A process continues: a barrier opened, or its computation ended.
    Resume { process: u32 },
    /// A request reaches the proxy of a server.
    Arrive { server: u32, part: u32 },
    /// Enough of a write's data has arrived at the server for its device to start.
    Submit { server: u32, part: u32 },
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
    Restart { server: u32, forgets: bool },
    /// A sampling interval ends.
    Sample,
}

/// Events by time; at equal times in order of insertion, so that a run can be repeated.
///
/// A timer's old event is not removed when the timer is reset: its owner remembers what it waits for and ignores
/// others.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    pushed: u64,
}

impl Calendar {
    /// Inserts an event. O(log n), no allocation once the heap has grown.
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        self.heap.push(Reverse((at, self.pushed, event)));
        self.pushed += 1;
    }

    /// The next event with its time.
    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
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
