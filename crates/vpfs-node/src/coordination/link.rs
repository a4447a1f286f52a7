//! Decides when to send to one peer: retries, acknowledgements, keep-alives, detection of silence.

use std::time::Duration;

use vpfs_core::Time;

use super::message::{Message, Position};
use super::settings::CoordinationSettings;

/// Whether a peer is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// It never sent a message.
    #[default]
    Unknown,
    /// It sent a message recently.
    Live,
    /// It has been silent for too long.
    Lost,
}

/// The state of sending to one peer.
///
/// While the peer lacks changes or never sent a message, it is either ready in the table of peers, or `retry_at` is
/// set.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) state: PeerState,
    /// How far the peer knows this server's totals.
    pub(crate) acked: Position,
    /// The next message carries changes, not only an acknowledgement.
    pub(crate) owes_changes: bool,
    /// The version at which the last message with changes ended.
    sent: u64,
    /// That message left out changes; send them after its acknowledgement.
    partial: bool,
    retries: u32,
    retry_at: Option<Time>,
    ack_at: Option<Time>,
    keep_alive_at: Option<Time>,
    lost_at: Option<Time>,
}

impl Link {
    /// Retries back off by at most this power of two.
    const MAX_BACK_OFF: u32 = 2;

    /// The link to a new peer, which is greeted with all totals.
    pub(crate) fn new() -> Self {
        Self { owes_changes: true, ..Self::default() }
    }

    /// The earliest of all timers.
    pub(crate) fn wake(&self) -> Option<Time> {
        [self.retry_at, self.ack_at, self.keep_alive_at, self.lost_at].into_iter().flatten().min()
    }

    /// Whether a change is sent at once: not while the peer is silent, and not before earlier changes that it lacks.
    pub(crate) fn sends_changes_at_once(&self) -> bool {
        self.retries == 0 && !self.partial
    }

    pub(crate) fn on_sent(&mut self, now: Time, message: &Message, must_answer: bool, settings: &CoordinationSettings) {
        self.ack_at = None;
        self.keep_alive_at = settings.keep_alive_after(message.is_data()).map(|period| now + period);
        if std::mem::take(&mut self.owes_changes) {
            self.sent = message.at.version;
            self.partial = message.more;
        }
        if must_answer {
            self.retry_at = self.retry_at.or(Some(now + self.back_off(settings)));
            self.expect_answer(now, settings);
        }
    }

    /// The peer sent a message.
    pub(crate) fn on_heard(&mut self, now: Time, lacks: bool, settings: &CoordinationSettings) {
        self.state = PeerState::Live;
        self.lost_at = None;
        if lacks || settings.keep_alive.is_some() {
            self.expect_answer(now, settings);
        }
    }

    /// The peer knows this server's totals up to `acked`. Returns whether that is new.
    pub(crate) fn on_acked(&mut self, now: Time, acked: Position, settings: &CoordinationSettings) -> bool {
        if acked <= self.acked {
            return false;
        }
        let is_progress = acked.version != self.acked.version;
        self.acked = acked;
        // That flows were forgotten is no answer to what was sent: it must not put off the next attempt.
        if is_progress {
            self.retries = 0;
            self.retry_at = Some(now + self.back_off(settings));
        }
        true
    }

    /// The peer has acknowledged everything.
    pub(crate) fn on_complete(&mut self) {
        self.retries = 0;
        self.retry_at = None;
        self.partial = false;
    }

    /// Whether to send what the peer lacks right after hearing from it: it was silent before, or it has the whole of
    /// the last message.
    pub(crate) fn answers_at_once(&mut self, resume_from: u64) -> bool {
        if std::mem::take(&mut self.retries) > 0 {
            self.retry_at = None;
            return true;
        }
        resume_from >= self.sent
    }

    /// The peer must get an acknowledgement, in a message of its own if necessary.
    pub(crate) fn owe_ack(&mut self, now: Time, settings: &CoordinationSettings) {
        self.ack_at = self.ack_at.or(Some(now + settings.ack_delay));
    }

    /// The peer knows nothing of this server's totals: one of the two started again.
    pub(crate) fn restart(&mut self) {
        let Self { state, keep_alive_at, lost_at, .. } = *self;
        *self = Self { state, keep_alive_at, lost_at, ..Self::default() };
    }

    /// Handles timers that are due. Returns whether something must be sent, and whether the peer is lost.
    pub(crate) fn on_timeout(&mut self, now: Time) -> (bool, bool) {
        let retry = take_due(&mut self.retry_at, now);
        if retry {
            self.owes_changes = true;
            self.retries = (self.retries + 1).min(Self::MAX_BACK_OFF);
        }
        let ack = take_due(&mut self.ack_at, now);
        let keep_alive = take_due(&mut self.keep_alive_at, now);
        let lost = take_due(&mut self.lost_at, now);
        if lost {
            self.state = PeerState::Lost;
        }
        (retry || ack || keep_alive, lost)
    }

    #[cfg(test)]
    pub(crate) fn set_wake(&mut self, at: Option<Time>) {
        self.retry_at = at;
    }

    fn back_off(&self, settings: &CoordinationSettings) -> Duration {
        settings.refresh.saturating_mul(1 << self.retries)
    }

    fn expect_answer(&mut self, now: Time, settings: &CoordinationSettings) {
        if self.state == PeerState::Live {
            self.lost_at = self.lost_at.or(Some(now + settings.lost_after));
        }
    }
}

fn take_due(timer: &mut Option<Time>, now: Time) -> bool {
    timer.take_if(|at| *at <= now).is_some()
}
