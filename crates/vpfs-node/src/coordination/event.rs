//! Typed events: what the coordinator noticed about peers. Logs and metrics read them.

use std::collections::VecDeque;

use vpfs_core::{ServerId, Time};

use super::message::{Counted, FlowKey};

/// One thing that a coordinator noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after the types and terms documented elsewhere")]
pub enum Event {
    /// A peer sent a message, for the first time or after it was lost.
    PeerSeen { peer: ServerId },
    /// A peer has been silent for too long; its service so far stays counted.
    PeerLost { peer: ServerId },
    /// A peer has a new incarnation; its totals start from zero, and the service of the old one stays counted.
    PeerRestarted { peer: ServerId, incarnation: u64 },
    /// A peer knows a later incarnation of this server than its own one: this server's clock went back. It has taken
    /// this one, and its totals start from zero.
    Outlived { peer: ServerId, incarnation: u64 },
    /// A flow is at a peer.
    FlowAnnounced { peer: ServerId, key: FlowKey, counted: Counted },
    /// This server represents others and already passes on as many flows as it may; the service of this one is not
    /// passed on.
    FlowNotPassedOn { key: FlowKey, counted: Counted },
    /// A flow is no longer at a peer.
    FlowLeft { peer: ServerId, key: FlowKey, counted: Counted },
    /// A peer gave this service before it was known, or while it was lost; it was not passed on.
    Baseline { peer: ServerId, key: FlowKey, counted: Counted, bytes: i64 },
    /// A peer's total moved by more than any server can give; the step was not passed on.
    StepRefused { peer: ServerId, key: FlowKey, counted: Counted, bytes: i64 },
    /// A peer has more flows than can be kept; the service of this one there is not known.
    FlowRefused { peer: ServerId, key: FlowKey, counted: Counted },
    /// This many events were dropped because they were not polled in time.
    Lost { events: u64 },
}

/// A bounded queue of events: if it is full, a new event is counted but not kept.
#[derive(Debug, Default)]
pub(crate) struct CoordinationEvents {
    events: VecDeque<(Time, Event)>,
    lost: u64,
    lost_at: Time,
}

impl CoordinationEvents {
    const CAPACITY: usize = 1024;

    pub(crate) fn push(&mut self, now: Time, event: Event) {
        if self.events.len() < Self::CAPACITY {
            self.events.push_back((now, event));
        } else {
            self.lost += 1;
            self.lost_at = now;
        }
    }

    pub(crate) fn poll(&mut self) -> Option<(Time, Event)> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let events = std::mem::take(&mut self.lost);
        (events > 0).then_some((self.lost_at, Event::Lost { events }))
    }
}
