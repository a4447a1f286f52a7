//! Timers and bounds of coordination.

use std::time::Duration;

use super::message::Message;

/// Tunables of a [`super::Coordinator`]. Durations below [`CoordinationSettings::TICK`] are raised to it, so that no
/// timer can spin; peers may have different settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinationSettings {
    /// Changes that a peer has not acknowledged within this time are sent again; the time doubles up to eightfold while
    /// the peer is silent.
    pub refresh: Duration,
    /// An acknowledgement waits at most this long for another message to the same peer. Must be below `refresh`.
    pub ack_delay: Duration,
    /// A peer to which nothing was sent for this long gets an empty message. `None`: no such messages, so that a loss
    /// is noticed only when there is something to acknowledge.
    pub keep_alive: Option<Duration>,
    /// A peer is lost if it should have sent a message and did not for this long. Several times `keep_alive`.
    pub lost_after: Duration,
    /// Entries of flows that left are kept this long for late peers.
    pub forget_after: Duration,
    /// The maximum number of entries in one message, from 1 to [`Message::MAX_ENTRIES`]; the default fits one Ethernet
    /// frame.
    pub max_entries: usize,
    /// The maximum number of totals (one for each flow and class) of this server, and of each peer.
    pub max_flows: usize,
    /// No total changes by more than this in one message; a larger step comes from a broken peer, and is not passed on.
    pub max_step_bytes: u64,
}

impl CoordinationSettings {
    /// The shortest time of any timer.
    pub const TICK: Duration = Duration::from_millis(1);

    /// Limits every value to its range.
    pub(crate) fn clamped(self) -> Self {
        Self {
            refresh: self.refresh.max(Self::TICK),
            ack_delay: self.ack_delay.max(Self::TICK),
            keep_alive: self.keep_alive.map(|period| period.max(Self::TICK)),
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
            refresh: Duration::from_secs(1),
            ack_delay: Duration::from_millis(100),
            keep_alive: Some(Duration::from_secs(3)),
            lost_after: Duration::from_secs(10),
            forget_after: Duration::from_secs(60),
            max_entries: 40,
            max_flows: 4096,
            max_step_bytes: 1 << 50,
        }
    }
}
