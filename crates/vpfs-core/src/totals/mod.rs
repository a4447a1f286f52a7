//! What one scheduler gives of the rates that applications have: caps, targets or minima.
//!
//! A policy keeps the rates of one kind here, and asks here whether an application may use its rate now. If a rate is
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

use crate::request::ServiceClass;
use crate::total::{Reach, TotalKind};
use crate::units::{AppId, Bytes, Time};

use budget::Budget;
pub(crate) use budget::Rate;

/// One total at one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TotalId {
    /// Whose.
    pub app: AppId,
    /// Which.
    pub kind: TotalKind,
    /// Metadata has totals of its own if it has a queue of its own; otherwise this is [`ServiceClass::Data`], whatever
    /// the requests. A cap limits all requests together.
    pub class: ServiceClass,
}

/// The rates of one kind, by application. All calls are O(1) but [`Totals::set_reach`].
#[derive(Debug)]
pub struct Totals {
    kind: TotalKind,
    reach: Reach,
    /// By application.
    budgets: Vec<Option<Budget>>,
    /// Applications that may have something to report.
    reporting: Vec<AppId>,
    /// Applications whose budget the driver changed since the policy last looked.
    changed: VecDeque<AppId>,
}

impl Totals {
    pub(crate) const fn new(kind: TotalKind) -> Self {
        Self { kind, reach: Reach::ALONE, budgets: Vec::new(), reporting: Vec::new(), changed: VecDeque::new() }
    }

    /// Of which kind they are.
    pub fn kind(&self) -> TotalKind {
        self.kind
    }

    /// Sets how many of the servers that share totals can be reached; [`Reach::ALONE`] until then. O(applications) if
    /// that is a change.
    pub fn set_reach(&mut self, now: Time, reach: Reach) {
        if core::mem::replace(&mut self.reach, reach) == reach {
            return;
        }
        for (app, budget) in (0..).map(AppId).zip(&mut self.budgets) {
            if let Some(budget) = budget {
                budget.set_reach(now, reach);
                self.changed.push_back(app);
            }
        }
    }

    /// Other servers gave `bytes` of the total of `app`, or took some back. Ignored if it has none.
    pub fn hear(&mut self, now: Time, app: AppId, bytes: i64) {
        self.change(app, |budget| budget.hear(now, bytes));
    }

    /// Sets the part of the total of `app` that may be given here, in bytes per second, whatever other servers give;
    /// `None`, as before the first call: the whole of it, less what they give. Ignored if it has no total.
    pub fn set_part(&mut self, now: Time, app: AppId, part: Option<u64>) {
        self.change(app, |budget| budget.set_part(now, part));
    }

    /// What was given here of the total of an application since its last report, if it is enough to tell the other
    /// servers. Call until `None`, after every input. O(1) for each application that used something.
    pub fn poll_report(&mut self) -> Option<(AppId, i64)> {
        while let Some(app) = self.reporting.pop() {
            if let Some(bytes) = self.budget(app).and_then(Budget::poll_report) {
                return Some((app, bytes));
            }
        }
        None
    }

    /// How many of the servers that share totals can be reached.
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// The next application whose budget the driver changed since the last call. Call until `None`.
    pub(crate) fn poll_changed(&mut self) -> Option<AppId> {
        self.changed.pop_front()
    }

    /// Sets or lifts the rate of `app`. A first one starts with all that it can save up; a changed one keeps what is
    /// left, up to what the new one can save up, unless it is for something else now.
    pub(crate) fn set(&mut self, now: Time, app: AppId, rate: Option<Rate>) {
        if rate.is_some() && app.index() >= self.budgets.len() {
            self.budgets.resize(app.index() + 1, None);
        }
        let (reach, keeps_even) = (self.reach, self.kind != TotalKind::Cap);
        let Some(budget) = self.budgets.get_mut(app.index()) else { return };
        match (&mut *budget, rate) {
            (Some(budget), Some(rate)) => budget.set(now, rate, reach),
            (_, rate) => *budget = rate.map(|rate| Budget::full(rate, keeps_even, reach, now)),
        }
    }

    /// Whether `app` has a rate.
    pub(crate) fn has(&self, app: AppId) -> bool {
        self.budgets.get(app.index()).is_some_and(Option::is_some)
    }

    /// When to ask again; `None` if `app` may use its rate now, or has none.
    pub(crate) fn due(&mut self, now: Time, app: AppId) -> Option<Time> {
        self.budget(app)?.due(now)
    }

    /// Takes `cost` from the rate of `app`, which may lead into debt.
    pub(crate) fn charge(&mut self, now: Time, app: AppId, cost: Bytes) {
        self.spend(app, |budget| budget.charge(now, cost));
    }

    /// Takes `cost`, which `app` got in any case, see [`Budget::charge_received`].
    pub(crate) fn charge_received(&mut self, now: Time, app: AppId, cost: Bytes) {
        self.spend(app, |budget| budget.charge_received(now, cost));
    }

    /// What was charged as `charged` costs `real`.
    pub(crate) fn recharge(&mut self, now: Time, app: AppId, [charged, real]: [Bytes; 2]) {
        self.spend(app, |budget| budget.recharge(now, charged, real));
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> [usize; 3] {
        [self.budgets.capacity(), self.reporting.capacity(), self.changed.capacity()]
    }

    fn budget(&mut self, app: AppId) -> Option<&mut Budget> {
        self.budgets.get_mut(app.index())?.as_mut()
    }

    fn change(&mut self, app: AppId, change: impl FnOnce(&mut Budget)) {
        if let Some(budget) = self.budget(app) {
            change(budget);
            if self.changed.back() != Some(&app) {
                self.changed.push_back(app);
            }
        }
    }

    fn spend(&mut self, app: AppId, spend: impl FnOnce(&mut Budget)) {
        if let Some(budget) = self.budget(app) {
            spend(budget);
            if self.reach.servers > 1 && self.reporting.last() != Some(&app) {
                self.reporting.push(app);
            }
        }
    }
}
