//! How the schedulers of different servers report their service to each other [vPFS §III-B].
//!
//! Each server keeps running totals by flow and what is counted of it. A message carries the totals that changed since
//! the version that the peer acknowledged, never differences. So the next message repairs the effects of lost, late,
//! repeated or reordered ones, and after a partition all views converge. The receiver turns totals into differences for
//! its scheduler, which knows nothing about peers.
//!
//! A peer's service counts only if it was given while this server was running and could hear of it: what an older
//! peer gave before it was first heard from, and what any peer gave while it was lost, is a baseline, which is not
//! passed on. So shares are local during a fault, and right after it those of the sum again: nobody has to make up for
//! the time between. A restarted server starts a new incarnation with totals of zero, and the service of the old one
//! stays counted. If its clock went back, so that peers take it for an older one, they tell it which one they know, and
//! it takes a greater one.
//!
//! More servers than [`CoordinationSettings::group_size`] form a tree of groups (`groups`), in which representatives
//! pass on what they hear (`roles`): a message then carries the totals of all servers that its sender stands for, and
//! the number of messages of a server grows with the logarithm of the number of servers.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Memory is bounded by
//! [`CoordinationSettings::max_flows`] for this server and for each peer, traffic by the number of changes: when
//! everything is acknowledged, only keep-alives are sent.
//!
//! # Versions
//!
//! Each change of one of a server's totals takes its next version. A message covers the versions from `base` to `at`,
//! and contains the totals whose latest change is among them. Changes that do not fit into one message wait for its
//! acknowledgement, oldest first, so that the receiver always knows everything up to `at`. Flows that left keep an
//! entry until all live peers know about it, and at least for [`CoordinationSettings::forget_after`]. A peer that was
//! away for longer may know less than the `horizon` of the forgotten changes: it gets all current totals again, and
//! drops flows that are not among them; it then never learns the last service of those flows before they left.
//!
//! # The drive contract
//!
//! 1. Give an input: [`Coordinator::report`], [`Coordinator::flow_arrived`], [`Coordinator::flow_left`],
//!    [`Coordinator::handle_message`], [`Coordinator::handle_timeout`] or [`Coordinator::set_members`], and once after
//!    [`Coordinator::new`], none.
//! 2. Drain [`Coordinator::poll_transmit`], [`Coordinator::poll_service`] and [`Coordinator::poll_event`] until `None`.
//! 3. Ask [`Coordinator::poll_timeout`] when to call `handle_timeout` next, if nothing else happens before.
//!
//! ```
//! use vpfs_node::coordination::*;
//! use vpfs_core::{ServerId, ServiceClass, Time};
//!
//! let servers = [ServerId(0), ServerId(1)];
//! let mut coordinators = servers.map(|me| Coordinator::new(Time::ZERO, me, 1, servers,
//! CoordinationSettings::default())); let climate = FlowKey::of("climate");
//!
//! // Server 0 served 10 MiB; every message is delivered to its peer at once.
//! coordinators[0].report(Time::ZERO, climate, ServiceClass::Data, 10 << 20)?;
//! for now in (0..500).map(Time::from_millis) {
//!     for from in [0, 1] {
//!         coordinators[from].handle_timeout(now);
//!         while let Some((to, message)) = coordinators[from].poll_transmit(now) {
//!             coordinators[to.0 as usize].handle_message(now, servers[from], &message)?;
//!         }
//!     }
//! }
//! assert_eq!(coordinators[1].poll_service(), Some((climate, ServiceClass::Data.into(), 10 << 20)));
//! assert_eq!(coordinators[1].total_service(climate, ServiceClass::Data), Some(10 << 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coordinator;
mod groups;
mod message;
mod peer;
mod totals;

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::{ServerId, Time};

pub use coordinator::Coordinator;
pub use groups::{Groups, Members, Side};
pub use message::{Counted, FlowKey, FlowTotal, Message, MessageError, Position, Standing, Traffic};
pub use peer::PeerState;
pub use totals::FlowsExceeded;

/// Tunables of a [`Coordinator`]. Durations below [`CoordinationSettings::TICK`] are raised to it, so that no
/// timer can spin; peers may have different settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinationSettings {
    /// Changes that a peer has not acknowledged within this time are sent again; the time doubles up to fourfold while
    /// the peer is silent.
    pub refresh: Duration,
    /// An acknowledgement waits at most this long for another message to the same peer. Must be below `refresh`; twice
    /// as long as `keep_alive`, acknowledgements take no messages of their own.
    pub ack_delay: Duration,
    /// What a representative passes on between groups waits this long, so that its messages do not grow with the number
    /// of servers. Twice for each level, it is how late service becomes known in other groups.
    pub pass_on_delay: Duration,
    /// A peer to which nothing was sent for this long gets a message with whatever has not been reported; for twice as
    /// long after a message with changes, since their next ones usually come before that. `None`: no such messages, so
    /// that a loss is noticed only when there is something to acknowledge. Not possible if servers form several groups.
    pub keep_alive: Option<Duration>,
    /// A peer is lost if it should have sent a message and did not for this long. More than twice `keep_alive`.
    pub lost_after: Duration,
    /// Entries of flows that left are kept this long for late peers.
    pub forget_after: Duration,
    /// The maximum number of entries in one message, from 1 to [`Message::MAX_ENTRIES`]; the default fits one Ethernet
    /// frame.
    pub max_entries: usize,
    /// The maximum number of totals (one for each flow and class) of this server, and of each peer.
    pub max_flows: usize,
    /// No server gives more service than this, in bytes (or metadata operations) per second, all its totals together.
    /// A larger step comes from a peer that is broken or lies: it does not count and is not passed on.
    pub max_service_rate: u64,
    /// The largest number of servers that exchange totals directly, each with each; the same at all servers. More
    /// servers form a tree of such groups. Limited to [`Groups::SIZES`].
    pub group_size: usize,
}

impl CoordinationSettings {
    /// The shortest time of any timer.
    pub const TICK: Duration = Duration::from_millis(1);

    const KEEP_ALIVE: Duration = Duration::from_secs(1);

    /// When a peer gets a message in any case, after one with changes or without.
    fn keep_alive_after(self, changes: bool) -> Option<Duration> {
        self.keep_alive.map(|period| if changes { 2 * period } else { period })
    }

    /// Limits every value to its range. With groups of several levels, silence must be noticed.
    fn clamped(self, levels: usize) -> Self {
        let several = levels > 1;
        Self {
            refresh: self.refresh.max(Self::TICK),
            ack_delay: self.ack_delay.max(Self::TICK),
            pass_on_delay: self.pass_on_delay.max(Self::TICK),
            keep_alive: self.keep_alive.or(several.then_some(Self::KEEP_ALIVE)).map(|period| period.max(Self::TICK)),
            lost_after: self.lost_after.max(Self::TICK),
            forget_after: self.forget_after.max(Self::TICK),
            max_entries: self.max_entries.clamp(1, Message::MAX_ENTRIES),
            ..self
        }
    }
}

impl Default for CoordinationSettings {
    fn default() -> Self {
        Self {
            refresh: Duration::from_secs(3),
            ack_delay: 2 * Self::KEEP_ALIVE,
            pass_on_delay: Duration::from_millis(100),
            keep_alive: Some(Self::KEEP_ALIVE),
            lost_after: Duration::from_secs(3),
            forget_after: Duration::from_secs(60),
            max_entries: 40,
            max_flows: 4096,
            // 100 GB/s, each of which may be in four totals: service, cap, target and minimum.
            max_service_rate: 400_000_000_000,
            group_size: 16,
        }
    }
}

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
struct CoordinationEvents {
    events: VecDeque<(Time, Event)>,
    lost: u64,
    lost_at: Time,
}

impl CoordinationEvents {
    const CAPACITY: usize = 1024;

    fn push(&mut self, now: Time, event: Event) {
        if self.events.len() < Self::CAPACITY {
            self.events.push_back((now, event));
        } else {
            self.lost += 1;
            self.lost_at = now;
        }
    }

    fn poll(&mut self) -> Option<(Time, Event)> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        let events = std::mem::take(&mut self.lost);
        (events > 0).then_some((self.lost_at, Event::Lost { events }))
    }
}
