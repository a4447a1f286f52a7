//! What one scheduler gives of the rates that applications and shares have: caps, targets or minima.
//!
//! A policy keeps the rates of one kind here, and asks here whether one may be used now. If a rate is
//! the total over all servers, the driver of the scheduler passes on what the servers tell each other: what was used
//! here by [`Totals::poll_report`], and what others used by [`Totals::hear`]. Where news takes too long for that, in
//! clusters of several groups, it sets the part of each total that may be used here ([`Totals::set_part`]), from what
//! all servers say that is wanted there ([`Policy::waiting`](crate::Policy::waiting)).
//!
//! The policy takes notice at the next call of [`Scheduler::poll_dispatch`](crate::Scheduler::poll_dispatch), which
//! must follow, as after any input.

mod bucket;
mod budget;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::member::{ByMember, Member};
use crate::request::ServiceClass;
use crate::total::{Reach, TotalKind};
use crate::units::{Bytes, Time};

use budget::Budget;
pub(crate) use budget::Rate;

/// One total at one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TotalId {
    /// Whose.
    pub of: Member,
    /// Which.
    pub kind: TotalKind,
    /// Metadata has totals of its own if it has a queue of its own; otherwise this is [`ServiceClass::Data`], whatever
    /// the requests. A cap limits all requests together.
    pub class: ServiceClass,
}

/// The rates of one kind. All calls are O(1) but [`Totals::set_reach`].
#[derive(Debug)]
pub struct Totals {
    kind: TotalKind,
    reach: Reach,
    budgets: ByMember<Budget>,
    /// Who may have something to report.
    reporting: Vec<Member>,
    /// Whose budget the driver changed since the policy last looked.
    changed: VecDeque<Member>,
}

impl Totals {
    pub(crate) const fn new(kind: TotalKind) -> Self {
        Self { kind, reach: Reach::ALONE, budgets: ByMember::new(), reporting: Vec::new(), changed: VecDeque::new() }
    }

    /// Of which kind they are.
    pub fn kind(&self) -> TotalKind {
        self.kind
    }

    /// Sets how many of the servers that share totals can be reached; [`Reach::ALONE`] until then. O(rates) if that is
    /// a change.
    pub fn set_reach(&mut self, now: Time, reach: Reach) {
        if core::mem::replace(&mut self.reach, reach) == reach {
            return;
        }
        for member in self.budgets.members() {
            self.change(member, |budget| budget.set_reach(now, reach));
        }
    }

    /// Other servers gave `bytes` of the total of a member, or took some back. Ignored if it has none.
    pub fn hear(&mut self, now: Time, of: impl Into<Member>, bytes: i64) {
        self.change(of.into(), |budget| budget.hear(now, bytes));
    }

    /// Sets the part of the total of a member that may be given here, in bytes per second, whatever other servers give;
    /// `None`, as before the first call: the whole of it, less what they give. Ignored if it has no total.
    pub fn set_part(&mut self, now: Time, of: impl Into<Member>, part: Option<u64>) {
        self.change(of.into(), |budget| budget.set_part(now, part));
    }

    /// What was given here of the total of a member since its last report, if it is enough to tell the other servers.
    /// Call until `None`, after every input. O(1) for each member that used something.
    pub fn poll_report(&mut self) -> Option<(Member, i64)> {
        while let Some(member) = self.reporting.pop() {
            if let Some(bytes) = self.budgets.get_mut(member).and_then(Budget::poll_report) {
                return Some((member, bytes));
            }
        }
        None
    }

    /// How many of the servers that share totals can be reached.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// The next member whose budget the driver changed since the last call. Call until `None`.
    pub(crate) fn poll_changed(&mut self) -> Option<Member> {
        self.changed.pop_front()
    }

    /// Sets or lifts the rate of a member. A first one starts with all that it can save up; a changed one keeps what is
    /// left, up to what the new one can save up, unless it is for something else now.
    pub(crate) fn set(&mut self, now: Time, of: impl Into<Member>, rate: Option<Rate>) {
        let (of, reach, keeps_even) = (of.into(), self.reach, self.kind != TotalKind::Cap);
        match (self.budgets.get_mut(of), rate) {
            (Some(budget), Some(rate)) => budget.set(now, rate, reach),
            (_, rate) => _ = self.budgets.set(of, rate.map(|rate| Budget::full(rate, keeps_even, reach, now))),
        }
    }

    /// Whether it has a rate.
    pub(crate) fn has(&self, of: impl Into<Member>) -> bool {
        self.budgets.get(of.into()).is_some()
    }

    /// When to ask again; `None` if a rate may be used now, or there is none.
    pub(crate) fn due(&mut self, now: Time, of: impl Into<Member>) -> Option<Time> {
        self.budgets.get_mut(of.into())?.due(now)
    }

    /// Takes `cost` from a rate, which may lead into debt.
    pub(crate) fn charge(&mut self, now: Time, of: impl Into<Member>, cost: Bytes) {
        self.spend(of.into(), |budget| budget.charge(now, cost));
    }

    /// Takes `cost`, which somebody got in any case, see [`Budget::charge_received`].
    pub(crate) fn charge_received(&mut self, now: Time, of: impl Into<Member>, cost: Bytes) {
        self.spend(of.into(), |budget| budget.charge_received(now, cost));
    }

    /// What was charged as `charged` costs `real`.
    pub(crate) fn recharge(&mut self, now: Time, of: impl Into<Member>, [charged, real]: [Bytes; 2]) {
        self.spend(of.into(), |budget| budget.recharge(now, charged, real));
    }

    fn change(&mut self, member: Member, change: impl FnOnce(&mut Budget)) {
        if let Some(budget) = self.budgets.get_mut(member) {
            change(budget);
            if self.changed.back() != Some(&member) {
                self.changed.push_back(member);
            }
        }
    }

    fn spend(&mut self, member: Member, spend: impl FnOnce(&mut Budget)) {
        if let Some(budget) = self.budgets.get_mut(member) {
            spend(budget);
            if self.reach.servers > 1 && self.reporting.last() != Some(&member) {
                self.reporting.push(member);
            }
        }
    }
}
