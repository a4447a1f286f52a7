//! Caps: the most that an application gets, even while the storage is idle [vPFS §IV-C3, vPFS+ §V-B].
//!
//! A token bucket for each capped application, in front of any policy. A request is released to the policy when the
//! bucket is not in debt, and then charged in full. So a request larger than the burst passes too, and later ones wait
//! for it. In any time t an application is released at most rate · t + burst + one request.

use alloc::vec::Vec;

use crate::app_policy::Cap;
use crate::heap::{Heap, Item};
use crate::list::{List, Node};
use crate::total::TotalKind;
use crate::totals::{Rate, Totals};
use crate::units::{AppId, Bytes, RequestId, Time};

/// The requests that are held back. O(log n) in the number of applications that are.
#[derive(Debug)]
pub(crate) struct Caps {
    totals: Totals,
    /// By application, as far as they had a cap.
    held: Vec<Held>,
    /// The applications whose requests are held back.
    due: Heap<Due>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Held {
    list: List,
    /// The cost of all of them.
    cost: Bytes,
}

/// When the bucket of an application will be out of debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Time,
    app: AppId,
}

impl Item for Due {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

/// An entry of the table of requests.
pub(crate) trait Cost: Node {
    fn cost(&self) -> Bytes;
}

impl Caps {
    pub(crate) const fn new() -> Self {
        Self { totals: Totals::new(TotalKind::Cap), held: Vec::new(), due: Heap::new(), len: 0 }
    }

    pub(crate) fn totals(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// Whether `app` has a cap.
    pub(crate) fn limit(&self, app: AppId) -> bool {
        self.totals.has(app)
    }

    /// How many requests are held back.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The cost of those of `app`.
    pub(crate) fn cost(&self, app: AppId) -> Bytes {
        self.held.get(app.index()).map_or(Bytes::ZERO, |held| held.cost)
    }

    /// When the next one may be released.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|due| due.at)
    }

    /// Sets or lifts the cap of `app`; then poll.
    pub(crate) fn set(&mut self, now: Time, app: AppId, cap: Option<Cap>) {
        if cap.is_some() && app.index() >= self.held.len() {
            self.held.resize(app.index() + 1, Held { list: List::EMPTY, cost: Bytes::ZERO });
        }
        self.totals.set(now, app, cap.map(Rate::of_cap));
    }

    /// Holds a request of `app`, which has a cap, until it is polled.
    pub(crate) fn hold(&mut self, table: &mut [impl Cost], app: AppId, id: RequestId) {
        let held = &mut self.held[app.index()];
        held.list.push_back(table, id);
        held.cost += table[id.index()].cost();
        self.len += 1;
    }

    /// The next request of `app` that may go now, which is charged. Call until `None`.
    pub(crate) fn poll(&mut self, now: Time, table: &mut [impl Cost], app: AppId) -> Option<RequestId> {
        let Some(id) = self.held.get(app.index()).and_then(|held| held.list.first()) else {
            self.due.remove(app.index());
            return None;
        };
        if let Some(at) = self.totals.due(now, app) {
            self.due.set(Due { at, app });
            return None;
        }
        self.totals.charge(now, app, table[id.index()].cost());
        self.remove(table, app, id);
        Some(id)
    }

    /// An application of which a request may go now.
    pub(crate) fn poll_due(&self, now: Time) -> Option<AppId> {
        self.due.first().filter(|due| due.at <= now).map(|due| due.app)
    }

    /// A request that is held back is held no longer.
    pub(crate) fn remove(&mut self, table: &mut [impl Cost], app: AppId, id: RequestId) {
        let held = &mut self.held[app.index()];
        held.list.remove(table, id);
        held.cost = held.cost.saturating_sub(table[id.index()].cost());
        self.len -= 1;
    }

    /// A request that is held back costs `real` instead of `estimated`.
    pub(crate) fn correct(&mut self, app: AppId, [estimated, real]: [Bytes; 2]) {
        let cost = &mut self.held[app.index()].cost;
        *cost = cost.saturating_sub(estimated) + real;
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> Vec<usize> {
        let own = [self.held.capacity()];
        own.into_iter().chain(self.totals.capacities()).chain(self.due.capacities()).collect()
    }
}
