//! How often peers hear of each other, and how much is kept.

use std::time::Duration;

use super::message::Message;

/// Tunables of a [`super::Coordinator`]. Durations below [`CoordinationSettings::TICK`] are taken as that, so that no
/// timer can spin; every peer may have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinationSettings {
    /// What a peer has not acknowledged for so long is sent again; doubled up to eight times as long while it is
    /// silent.
    pub refresh: Duration,
    /// An acknowledgement waits so long for a message that goes to the same peer anyway. Must be below `refresh`.
    pub ack_delay: Duration,
    /// A peer that was sent nothing for so long gets an empty message. `None`: none is sent, so that a loss is noticed
    /// only when there is something to acknowledge.
    pub keep_alive: Option<Duration>,
    /// A peer that should have spoken and did not for so long is lost. Several times `keep_alive`.
    pub lost_after: Duration,
    /// What is known of a flow that left is kept so long for peers that are late.
    pub forget_after: Duration,
    /// Most entries in one message, from 1 to [`Message::MAX_ENTRIES`]; the default fits one Ethernet frame.
    pub max_entries: usize,
    /// Most totals (one for each flow and class) of this server, and most of each peer.
    pub max_flows: usize,
    /// No total grows or shrinks by more in one message; a larger step is a broken peer's, and is not passed on.
    pub max_step_bytes: u64,
}

impl CoordinationSettings {
    /// The shortest time of any timer.
    pub const TICK: Duration = Duration::from_millis(1);

    /// With every value in its range.
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
