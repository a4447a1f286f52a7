//! This server's part in its group of one level.

use vpfs_core::{ServerId, Time};

use super::groups::Side;
use super::link::{Link, PeerState};
use super::message::{Message, Standing};
use super::own_totals::OwnTotals;
use super::plausible::Allowance;
use super::settings::CoordinationSettings;
use super::view::View;

/// What this server tells its group, and with whom it talks there.
#[derive(Debug)]
pub(crate) struct Level {
    /// Service given here or heard on other levels, since `started`.
    pub(crate) totals: OwnTotals,
    /// The number of these totals; greater after each start from zero.
    pub(crate) stream: u32,
    pub(crate) started: Time,
    /// There are changes for which peers have not been marked ready yet.
    pub(crate) changed: bool,
    /// When changes that can wait are sent.
    pub(crate) pass_on_at: Option<Time>,
    /// The first live server of the group, as far as this server knows.
    pub(crate) representative: ServerId,
    /// Until then, the first member of each side counts as alive although it was never heard: servers that start
    /// together do not all represent their groups at first.
    pub(crate) presumes_until: Time,
    /// The other sides of the group.
    pub(crate) slots: Vec<Slot>,
    /// When the oldest departure may be forgotten.
    pub(crate) forget_at: Option<Time>,
}

/// A side of the group and the server that is taken for its representative.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) side: Side,
    pub(crate) candidate: ServerId,
    /// Since when it is the candidate.
    pub(crate) since: Time,
    /// To whom the current totals were sent. No other server of this side may get them: it would pass on what this one
    /// has passed on already.
    pub(crate) served: Option<ServerId>,
}

/// The state kept for a peer, which is the candidate of a slot.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) level: usize,
    /// Since when it is a peer. What it gave before is its baseline.
    pub(crate) since: Time,
    /// Its incarnation, and the number of the totals that it sends.
    pub(crate) stream: Option<(u64, u32)>,
    /// What it said last about the groups, and the age of its totals then.
    pub(crate) standing: Option<Standing>,
    pub(crate) age: std::time::Duration,
    pub(crate) view: View,
    /// What it can have given.
    pub(crate) allowance: Allowance,
    pub(crate) link: Link,
}

/// How far the totals of a former peer were heard. If it comes back, late messages may repeat them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) stream: (u64, u32),
    pub(crate) version: u64,
    /// When it was removed.
    pub(crate) at: Time,
}

impl Level {
    /// There is a change that waits for others, so that traffic does not grow with the number of servers.
    pub(crate) fn change_later(&mut self, at: Time) {
        self.pass_on_at = self.pass_on_at.or(Some(at));
    }

    /// Takes whether changes are to be sent now.
    pub(crate) fn take_changed(&mut self, now: Time) -> bool {
        let is_due = self.pass_on_at.is_some_and(|at| at <= now);
        let changed = std::mem::take(&mut self.changed) || is_due;
        if changed {
            self.pass_on_at = None;
        }
        changed
    }
}

impl Peer {
    pub(crate) fn new(now: Time, level: usize) -> Self {
        Self {
            level,
            since: now,
            stream: None,
            standing: None,
            age: std::time::Duration::ZERO,
            view: View::default(),
            allowance: Allowance::new(now),
            link: Link::new(),
        }
    }

    pub(crate) fn incarnation(&self) -> Option<u64> {
        self.stream.map(|(incarnation, _)| incarnation)
    }

    /// As many servers as it says; one until it does.
    pub(crate) fn speaks_for(&self) -> usize {
        self.standing.map_or(1, |standing| standing.live.max(1) as usize)
    }

    /// Whether it answers, and does not have another list of members.
    pub(crate) fn is_there(&self, members: u64) -> bool {
        self.link.state == PeerState::Live && self.standing.is_none_or(|standing| standing.members == members)
    }

    /// Whether it is there and in the group. One that only answers, but was never met, is not.
    pub(crate) fn is_member(&self, id: ServerId, members: u64) -> bool {
        let is_in_group = |standing: Standing| standing.side == id && standing.members == members;
        self.link.state == PeerState::Live && self.standing.is_some_and(is_in_group)
    }

    /// Whether nothing that the peer sent for so long before this message has arrived that it was lost. That is told by
    /// the peer's clock: the first message after a fault may be one that waited, and the timer of this server late.
    pub(crate) fn was_cut_off(&self, message: &Message, settings: &CoordinationSettings) -> bool {
        settings.keep_alive.is_some() && message.age.saturating_sub(self.age) > settings.lost_after
    }

    /// Notes what a message of the current totals says about the groups, unless a later one overtook it. Returns
    /// whether it was certainly sent after all others.
    pub(crate) fn note_standing(&mut self, message: &Message) -> bool {
        let is_newest = message.age > self.age;
        if message.age >= self.age {
            (self.standing, self.age) = (Some(message.standing), message.age);
        }
        is_newest
    }
}
