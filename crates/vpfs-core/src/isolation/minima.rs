//! Minimum rates: an application that has requests waiting and got less than its minimum comes first.
//!
//! A [`Budget`] fills at the minimum and is charged with all service, whatever it was given for, so an application
//! gets the greater of its minimum and its share. While its budget is not in debt, its next request goes before all
//! others. Among applications with a minimum, start-time fair queueing with their minima as weights decides, so minima
//! that cannot all be kept are kept in proportion.

use alloc::vec::Vec;

use crate::app_policy::Minimum;
use crate::cap::Budget;
use crate::heap::{Heap, Item};
use crate::request::{ServiceClass, ServiceReport};
use crate::total::{Reach, Scope};
use crate::units::{AppId, Bytes, Time};

/// The minima of all applications at one server. O(log n) in the applications with a minimum and requests queued;
/// nothing for others.
#[derive(Debug)]
pub(super) struct Minima {
    /// By application.
    accounts: Vec<Option<Account>>,
    /// The applications that have requests queued and are not due yet.
    waiting: Heap<Waiting>,
    /// Those that are due.
    due: Heap<Due>,
    /// The tag of the latest request that was preferred.
    clock: u64,
    reach: Reach,
    /// Applications that may have something to report.
    reporting: Vec<AppId>,
    /// Device time that the others may have next.
    owed_ns: u64,
}

#[derive(Clone, Debug)]
struct Account {
    minimum: Minimum,
    budget: Budget,
    /// The finish tag of its latest request that was preferred, in nanoseconds of service at its minimum.
    finish: u64,
}

/// From when on an application is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: Time,
    app: AppId,
}

impl Item for Waiting {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

/// The start tag of an application's next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    tag: u64,
    app: AppId,
}

impl Item for Due {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

impl Minima {
    /// Of the device time that minima take from others, this part goes to the others after all: minima that exceed
    /// what the storage can give slow others down, but never stop them.
    const OTHERS: u64 = 20;
    /// The others have no claim for longer ago.
    const OWED_MAX_NS: u64 = 1_000_000_000;

    pub(super) const fn new() -> Self {
        Self {
            accounts: Vec::new(),
            waiting: Heap::new(),
            due: Heap::new(),
            clock: 0,
            reach: Reach::ALONE,
            reporting: Vec::new(),
            owed_ns: 0,
        }
    }

    /// Sets or lifts the minimum of `app`.
    pub(super) fn set(&mut self, now: Time, app: AppId, minimum: Option<Minimum>, has_queue: bool) {
        if minimum.is_none() && self.accounts.len() <= app.index() {
            return;
        }
        if app.index() >= self.accounts.len() {
            self.accounts.resize(app.index() + 1, None);
        }
        let before = self.accounts[app.index()].take();
        let reach = self.reach;
        self.accounts[app.index()] = minimum.and_then(|minimum| Account::new(now, minimum, has_queue, reach, before));
        self.place(now, app, has_queue);
    }

    /// Sets for how many of the servers that share totals this one speaks. O(applications).
    pub(super) fn set_reach(&mut self, now: Time, reach: Reach) {
        self.reach = reach;
        for app in (0..).map(AppId).take(self.accounts.len()) {
            let has_queue = self.has_queue(app);
            self.change(now, app, |account| account.adjust(now, has_queue, reach));
        }
    }

    /// The application that comes first for the sake of its minimum.
    pub(super) fn first(&mut self, now: Time) -> Option<AppId> {
        while let Some(&Waiting { app, .. }) = self.waiting.first().filter(|waiting| waiting.at <= now) {
            self.place(now, app, true);
        }
        self.due.first().map(|due| due.app)
    }

    /// When the next application that has requests queued is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.waiting.first().map(|waiting| waiting.at)
    }

    /// Whether it is the turn of the others now, whose next request takes `ns` of device time.
    pub(super) fn owes(&self, ns: u64) -> bool {
        self.owed_ns >= ns.clamp(1, Self::OWED_MAX_NS)
    }

    /// A request of `app` with `bytes` is preferred, and takes `ns` of device time from the others.
    pub(super) fn on_preferred(&mut self, app: AppId, bytes: Bytes, ns: u64) {
        self.owed_ns = self.owed_ns.saturating_add(ns / Self::OTHERS).min(Self::OWED_MAX_NS);
        if let Some(account) = self.account(app) {
            let start = account.finish;
            let took = u128::from(bytes.0) * 1_000_000_000 / u128::from(account.minimum.rate.0.max(1));
            account.finish = start.saturating_add(u64::try_from(took).unwrap_or(u64::MAX));
            self.clock = self.clock.max(start);
        }
    }

    /// A request that takes `ns` goes by shares.
    pub(super) fn on_shared(&mut self, ns: u64) {
        self.owed_ns = self.owed_ns.saturating_sub(ns);
    }

    /// The queue of `app` is no longer empty, or is empty now.
    pub(super) fn on_queue(&mut self, now: Time, app: AppId, has_queue: bool) {
        if self.account(app).is_some() && has_queue != self.has_queue(app) {
            self.place(now, app, has_queue);
        }
    }

    /// `app` gets `bytes` of service.
    pub(super) fn charge(&mut self, now: Time, app: AppId, bytes: Bytes, has_queue: bool) {
        if let Some(account) = self.account(app) {
            account.budget.charge_received(now, bytes);
            self.note_use(app);
            self.place(now, app, has_queue);
        }
    }

    /// Service of `app` that was charged as `charged` is `real`.
    pub(super) fn recharge(&mut self, now: Time, app: AppId, charged: Bytes, real: Bytes) {
        self.change(now, app, |account| account.budget.recharge(now, charged, real));
        self.note_use(app);
    }

    /// Other servers gave `app` this much service.
    pub(super) fn hear(&mut self, now: Time, app: AppId, bytes: i64) {
        self.change(now, app, |account| account.budget.hear(now, bytes));
    }

    /// Sets the part of the minimum of `app` that is kept here.
    pub(super) fn set_part(&mut self, now: Time, app: AppId, part: Option<u64>) {
        self.change(now, app, |account| account.budget.set_part(now, part));
    }

    /// Whether `app` has requests queued although it has had its minimum.
    pub(super) fn is_waiting(&self, app: AppId) -> bool {
        self.waiting.get(app.index()).is_some()
    }

    /// The next amount to tell the other servers.
    pub(super) fn poll_report(&mut self) -> Option<ServiceReport> {
        while let Some(app) = self.reporting.pop() {
            if let Some(bytes) = self.account(app).and_then(|account| account.budget.poll_report()) {
                return Some(ServiceReport { app, class: ServiceClass::Data, bytes });
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> impl Iterator<Item = usize> {
        let heaps = self.waiting.capacities().into_iter().chain(self.due.capacities());
        heaps.chain([self.accounts.capacity(), self.reporting.capacity()])
    }

    fn account(&mut self, app: AppId) -> Option<&mut Account> {
        self.accounts.get_mut(app.index())?.as_mut()
    }

    fn change(&mut self, now: Time, app: AppId, change: impl FnOnce(&mut Account)) {
        if let Some(account) = self.account(app) {
            change(account);
            self.place(now, app, self.has_queue(app));
        }
    }

    fn has_queue(&self, app: AppId) -> bool {
        self.waiting.get(app.index()).is_some() || self.due.get(app.index()).is_some()
    }

    fn note_use(&mut self, app: AppId) {
        if self.reach.servers > 1 && self.reporting.last() != Some(&app) {
            self.reporting.push(app);
        }
    }

    /// Puts an application into the heap where it belongs.
    fn place(&mut self, now: Time, app: AppId, has_queue: bool) {
        let (clock, reach, had_queue) = (self.clock, self.reach, self.has_queue(app));
        if has_queue != had_queue
            && let Some(account) = self.account(app)
        {
            account.adjust(now, has_queue, reach);
        }
        let Some(account) = self.account(app).filter(|_| has_queue) else {
            self.waiting.remove(app.index());
            return self.due.remove(app.index());
        };
        if let Some(at) = account.budget.due(now) {
            self.due.remove(app.index());
            self.waiting.set(Waiting { at, app });
        } else {
            account.finish = account.finish.max(clock);
            let tag = account.finish;
            self.waiting.remove(app.index());
            self.due.set(Due { tag, app });
        }
    }
}

impl Account {
    /// After a pause, an application has its minimum of this time at once, over all servers,
    const BURST_PER_SECOND: u64 = 10;
    /// and while it waits, that of a second at each server: it is not its fault that a large request of somebody else
    /// is in the storage just then.
    const WAITING_SECONDS: u64 = 1;

    /// With the tokens of the account `before`, if there was one. `None` if the minimum is zero.
    fn new(now: Time, minimum: Minimum, has_queue: bool, reach: Reach, before: Option<Self>) -> Option<Self> {
        let rate = minimum.as_cap(Self::burst(minimum, has_queue, reach))?;
        let Some(before) = before else {
            return Some(Self { minimum, budget: Budget::promised(rate, reach, now), finish: 0 });
        };
        let mut account = Self { minimum, ..before };
        account.adjust(now, has_queue, reach);
        Some(account)
    }

    /// Its queue, its minimum or the reach changed.
    fn adjust(&mut self, now: Time, has_queue: bool, reach: Reach) {
        if let Some(rate) = self.minimum.as_cap(Self::burst(self.minimum, has_queue, reach)) {
            self.budget.set(now, rate, reach);
        }
    }

    /// What can be saved up at all servers together.
    fn burst(minimum: Minimum, has_queue: bool, reach: Reach) -> Bytes {
        let servers = if minimum.scope == Scope::Total { reach.servers() } else { 1 };
        let rate = minimum.rate.0;
        Bytes(if has_queue {
            rate.saturating_mul(Self::WAITING_SECONDS * servers)
        } else {
            rate / Self::BURST_PER_SECOND
        })
    }
}
