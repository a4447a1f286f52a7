//! One connection to another process.

use vpfs_core::{ServerId, Time};

use super::clock_offset::Measurements;
use crate::wire::Frame;

/// A connection after the first frames.
#[derive(Debug)]
pub(super) struct Link {
    /// The servers of the process, in the order of its first frame.
    pub(super) servers: Vec<ServerId>,
    pub(super) incarnation: u64,
    /// Of two links to one process, the one that the process with the smaller name opened stays.
    pub(super) is_preferred: bool,
    /// The other process has accepted this one: it sent something else than the first frame.
    pub(super) is_accepted: bool,
    pub(super) since: Time,
    heard: Time,
    ping_at: Time,
    /// An answer that waits to be sent: at most one, so that questions cannot make a queue grow.
    pong: Option<(Time, Time)>,
    ping: bool,
    pub(super) clock: Measurements,
    pub(super) is_off: bool,
    /// The server whose reports are sent next, so that all get their turn.
    pub(super) turn: usize,
}

impl Link {
    pub(super) fn new(now: Time, servers: Vec<ServerId>, incarnation: u64, is_preferred: bool) -> Self {
        Self {
            servers,
            incarnation,
            is_preferred,
            is_accepted: false,
            since: now,
            heard: now,
            ping_at: now,
            pong: None,
            ping: false,
            clock: Measurements::default(),
            is_off: false,
            turn: 0,
        }
    }

    pub(super) fn hear(&mut self, now: Time) {
        self.heard = now;
    }

    /// When it must be pinged, or was silent for too long.
    pub(super) fn wake(&self, lost_after: std::time::Duration) -> Time {
        self.ping_at.min(self.heard + lost_after)
    }

    pub(super) fn is_lost(&self, now: Time, lost_after: std::time::Duration) -> bool {
        self.heard + lost_after <= now
    }

    /// Asks for the time if that is due; returns whether it was.
    pub(super) fn ping(&mut self, now: Time, period: std::time::Duration) -> bool {
        let is_due = self.ping_at <= now;
        if is_due {
            self.ping = true;
            self.ping_at = now + period;
        }
        is_due
    }

    pub(super) fn on_ping(&mut self, now: Time, sent: Time) {
        self.pong = Some((sent, now));
    }

    /// The questions and answers that wait, with the time at which they are sent.
    pub(super) fn take_clock_frames(&mut self, now: Time) -> impl Iterator<Item = Frame> + use<> {
        let pong = self.pong.take().map(|(sent, received)| Frame::Pong { sent, received, answered: now });
        let ping = std::mem::take(&mut self.ping).then_some(Frame::Ping { sent: now });
        pong.into_iter().chain(ping)
    }
}
