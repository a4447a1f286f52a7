//! The event queue of a simulation.

use std::collections::VecDeque;

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
    Restart { server: u32, forgets: bool },
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
/// taken, and of that digit's value. When the nearest bucket is due, its events move to nearer ones, in their order.
/// Each moves at most once for each digit of its delay, to memory that is written in sequence, while a binary heap of
/// the same size looks at places far apart for each event.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The time of the last event taken.
    now: u64,
    /// Events at that time.
    due: VecDeque<Event>,
    /// The nearest first: by digit, the lowest first, and then by its value.
    buckets: [Vec<(u64, Event)>; 4 * u64::BITS as usize],
    /// A bit for each bucket that is not empty.
    occupied: [u64; 4],
}

impl Default for Calendar {
    fn default() -> Self {
        Self { now: 0, due: VecDeque::new(), buckets: [const { Vec::new() }; _], occupied: [0; 4] }
    }
}

impl Calendar {
    const DIGIT_BITS: u32 = 4;

    /// Inserts an event. O(1), no allocation once the buckets have grown.
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        debug_assert!(at.as_nanos() >= self.now, "time does not go back");
        self.put(at.as_nanos(), event);
    }

    fn put(&mut self, at: u64, event: Event) {
        match (at ^ self.now).checked_ilog2() {
            None => self.due.push_back(event),
            Some(bit) => {
                let digit = bit / Self::DIGIT_BITS;
                let value = at >> (digit * Self::DIGIT_BITS) & ((1 << Self::DIGIT_BITS) - 1);
                let bucket = (digit << Self::DIGIT_BITS) as usize + value as usize;
                self.buckets[bucket].push((at, event));
                self.occupied[bucket / 64] |= 1 << (bucket % 64);
            }
        }
    }

    /// The next event with its time. O(digits of a delay) for each event, over all calls.
    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        if self.due.is_empty() {
            let (word, bits) = self.occupied.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
            let nearest = word * 64 + bits.trailing_zeros() as usize;
            *bits &= *bits - 1;
            let bucket = &mut self.buckets[nearest];
            if bucket.len() == 1 {
                let (at, event) = bucket.pop()?;
                self.now = at;
                return Some((Time::from_nanos(at), event));
            }
            let mut events = std::mem::take(bucket);
            self.now = events.iter().map(|(at, _)| *at).min()?;
            events.drain(..).for_each(|(at, event)| self.put(at, event));
            self.buckets[nearest] = events;
        }
        let event = self.due.pop_front()?;
        Some((Time::from_nanos(self.now), event))
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
