//! Timers and bounds of coordination.

use std::time::Duration;

use super::message::Message;

/// Tunables of a [`super::Coordinator`]. Durations below [`CoordinationSettings::TICK`] are raised to it, so that no
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
    /// servers form a tree of such groups. Limited to [`super::Groups::SIZES`].
    pub group_size: usize,
}

impl CoordinationSettings {
    /// The shortest time of any timer.
    pub const TICK: Duration = Duration::from_millis(1);

    const KEEP_ALIVE: Duration = Duration::from_secs(1);

    /// When a peer gets a message in any case, after one with changes or without.
    pub(crate) fn keep_alive_after(self, changes: bool) -> Option<Duration> {
        self.keep_alive.map(|period| if changes { 2 * period } else { period })
    }

    /// Limits every value to its range. With groups of several levels, silence must be noticed.
    pub(crate) fn clamped(self, levels: usize) -> Self {
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
