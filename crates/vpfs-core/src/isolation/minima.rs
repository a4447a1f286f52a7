//! Minimum rates: an application that has requests waiting and got less than its minimum comes first.
//!
//! Its budget fills at the minimum and is charged with all service, whatever it was given for, so an application
//! gets the greater of its minimum and its share. While its budget is not in debt, its next request goes before all
//! others. Among applications with a minimum, start-time fair queueing with their minima as weights decides, so minima
//! that cannot all be kept are kept in proportion.

use alloc::vec::Vec;

use crate::app_policy::Minimum;
use crate::heap::{Heap, Item};
use crate::total::{Scope, TotalKind};
use crate::totals::{Rate, Totals};
use crate::units::{AppId, Bytes, Time};

/// The minima of all applications at one server. O(log n) in the applications with a minimum and requests queued;
/// nothing for others.
#[derive(Debug)]
pub(super) struct Minima {
    /// By application.
    accounts: Vec<Option<Account>>,
    totals: Totals,
    /// The applications that have requests queued and are not due yet.
    waiting: Heap<Waiting>,
    /// Those that are due.
    due: Heap<Due>,
    /// The tag of the latest request that was preferred.
    clock: u64,
    /// Device time that the others may have next.
    owed_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    minimum: Minimum,
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
    pub(super) const OTHERS: u64 = 20;
    /// The others have no claim for longer ago.
    const OWED_MAX_NS: u64 = 1_000_000_000;

    /// Minima of this kind.
    pub(super) const fn new(kind: TotalKind) -> Self {
        Self {
            accounts: Vec::new(),
            totals: Totals::new(kind),
            waiting: Heap::new(),
            due: Heap::new(),
            clock: 0,
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
        let minimum = minimum.filter(|minimum| minimum.rate > Bytes::ZERO);
        let finish = self.accounts[app.index()].map_or(0, |account| account.finish);
        self.accounts[app.index()] = minimum.map(|minimum| Account { minimum, finish });
        self.adjust(now, app, has_queue);
        self.place(now, app, has_queue);
    }

    /// Which of an application's rates they are.
    pub(super) fn kind(&self) -> TotalKind {
        self.totals.kind()
    }

    /// What the minima are kept by.
    pub(super) fn totals(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// The application that comes first for the sake of its minimum.
    pub(super) fn first(&mut self, now: Time) -> Option<AppId> {
        while let Some(app) = self.totals.poll_changed() {
            self.place(now, app, self.has_queue(app));
        }
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
        if self.totals.has(app) {
            self.totals.charge_received(now, app, bytes);
            self.place(now, app, has_queue);
        }
    }

    /// Service of `app` that was charged as `charged` is `real`.
    pub(super) fn recharge(&mut self, now: Time, app: AppId, charged: Bytes, real: Bytes) {
        if self.totals.has(app) {
            self.totals.recharge(now, app, [charged, real]);
            self.place(now, app, self.has_queue(app));
        }
    }

    /// Whether `app` has requests queued although it has had its minimum.
    pub(super) fn is_waiting(&self, app: AppId) -> bool {
        self.waiting.get(app.index()).is_some()
    }

    /// Whether `app` has a minimum.
    pub(super) fn has(&self, app: AppId) -> bool {
        self.accounts.get(app.index()).is_some_and(Option::is_some)
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> impl Iterator<Item = usize> {
        let heaps = self.waiting.capacities().into_iter().chain(self.due.capacities());
        heaps.chain(self.totals.capacities()).chain([self.accounts.capacity()])
    }

    fn account(&mut self, app: AppId) -> Option<&mut Account> {
        self.accounts.get_mut(app.index())?.as_mut()
    }

    fn has_queue(&self, app: AppId) -> bool {
        self.waiting.get(app.index()).is_some() || self.due.get(app.index()).is_some()
    }

    /// The queue or the minimum of `app` changed.
    fn adjust(&mut self, now: Time, app: AppId, has_queue: bool) {
        let rate = self.account(app).and_then(|account| account.rate(has_queue));
        self.totals.set(now, app, rate);
    }

    /// Puts an application into the heap where it belongs.
    fn place(&mut self, now: Time, app: AppId, has_queue: bool) {
        let clock = self.clock;
        if has_queue != self.has_queue(app) {
            self.adjust(now, app, has_queue);
        }
        if !has_queue || !self.totals.has(app) {
            self.waiting.remove(app.index());
            self.due.remove(app.index());
        } else if let Some(at) = self.totals.due(now, app) {
            self.due.remove(app.index());
            self.waiting.set(Waiting { at, app });
        } else if let Some(account) = self.account(app) {
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

    fn rate(&self, has_queue: bool) -> Option<Rate> {
        let Minimum { rate: Bytes(rate), scope } = self.minimum;
        let (burst, of) = match has_queue {
            true => (rate.saturating_mul(Self::WAITING_SECONDS), Scope::Server),
            false => (rate / Self::BURST_PER_SECOND, scope),
        };
        Rate::of_minimum(&self.minimum, Bytes(burst), of)
    }
}
