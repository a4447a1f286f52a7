//! Caps: the most that an application gets, even while the storage is idle [vPFS §IV-C3, vPFS+ §V-B].
//!
//! A token bucket for each capped application, in front of any policy. A request is released to the policy when the
//! bucket is not in debt, and then charged in full. So a request larger than the burst passes too, and later ones wait
//! for it. In any time t an application is released at most rate · t + burst + one request.
//!
//! A capped share has a bucket, too. A request passes if neither its application's bucket nor that of a share above it
//! is in debt, and is charged to all of them. Applications that wait for the same share take turns in the order of
//! start-time fair queueing, by what is due to them among those that wait.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Add;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::heap::{Heap, Item};
use crate::list::{List, Node};
use crate::member::Member;
use crate::shares::Shares;
use crate::total::TotalKind;
use crate::totals::{Rate, Totals};
use crate::units::{AppId, Bytes, RequestId, Time, VirtualTime};

/// The requests that are held back. O(depth · log n) in the number of applications that are.
#[derive(Debug)]
pub(crate) struct Caps {
    totals: Totals,
    /// By application, as far as they had a cap.
    held: Vec<Held>,
    /// The applications, and shares, for which requests are held back.
    due: Heap<Due>,
    len: usize,
    /// In which those are present that wait for shares.
    shares: Shares,
    /// By share, as far as they had a cap.
    gates: Vec<Gate>,
}

#[derive(Clone, Debug)]
struct Held {
    list: List,
    /// The cost of all of them.
    cost: Bytes,
    /// The finish tag of the latest request that passed a gate.
    finish: VirtualTime,
    /// Where it waits in turn, and with which tag.
    gate: Option<(ShareId, VirtualTime)>,
}

/// Applications that wait for the bucket of a share.
#[derive(Clone, Debug, Default)]
struct Gate {
    waiting: BTreeSet<(VirtualTime, AppId)>,
    /// The tag of the latest that passed.
    clock: VirtualTime,
}

/// When a bucket will be out of debt: an application's, or that of a share for the first of those that wait there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Time,
    who: Member,
}

impl Item for Due {
    fn owner(&self) -> usize {
        self.who.owner()
    }
}

/// An entry of the table of requests.
pub(crate) trait Cost: Node {
    fn cost(&self) -> Bytes;
}

impl Caps {
    pub(crate) fn new() -> Self {
        Self {
            totals: Totals::new(TotalKind::Cap),
            held: Vec::new(),
            due: Heap::new(),
            len: 0,
            shares: Shares::new(0),
            gates: Vec::new(),
        }
    }

    pub(crate) fn totals(&mut self) -> &mut Totals {
        &mut self.totals
    }

    /// Whether `app` has a cap, or a share that it is in. O(depth) if any share ever had one, otherwise O(1).
    pub(crate) fn limit(&self, app: AppId) -> bool {
        self.totals.has(app) || !self.gates.is_empty() && self.capped(app).next().is_some()
    }

    /// The shares above `app` that have a cap.
    fn capped(&self, app: AppId) -> impl Iterator<Item = ShareId> {
        let above = self.shares.above(self.shares.share_of(app));
        above.filter(|(_, policy)| policy.cap.is_some()).map(|(share, _)| share)
    }

    /// How many requests are held back.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The cost of those of an application, or of all in a share. O(1) or O(applications).
    pub(crate) fn cost(&self, of: Member) -> Bytes {
        let cost = |app: AppId| self.held.get(app.index()).map_or(Bytes::ZERO, |held| held.cost);
        match of {
            Member::App(app) => cost(app),
            Member::Share(share) => {
                let apps = (0..).map(AppId).zip(&self.held).map(|(app, _)| app);
                apps.filter(|app| self.shares.is_within(*app, share)).map(cost).fold(Bytes::ZERO, Bytes::add)
            }
        }
    }

    /// When the next one may be released.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due.first().map(|due| due.at)
    }

    /// Sets or lifts the cap of `app`, and sets where it stands; then poll.
    pub(crate) fn set(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        // At the top, nobody waits for a share.
        if policy.share.or(self.shares.share_of(app)).is_some() {
            self.shares.set(VirtualTime::ZERO, app, policy);
        }
        self.totals.set(now, app, policy.cap.map(Rate::of_cap));
    }

    /// Sets or lifts the cap of a share; then poll all that are due.
    pub(crate) fn set_share(&mut self, now: Time, share: ShareId, policy: Option<&SharePolicy>) {
        self.shares.set_share(VirtualTime::ZERO, share, policy);
        let cap = policy.and_then(|policy| policy.cap);
        if cap.is_some() && share.index() >= self.gates.len() {
            self.gates.resize(share.index() + 1, Gate::default());
        }
        self.totals.set(now, share, cap.map(Rate::of_cap));
        self.wake(now, share);
    }

    /// Holds a request of `app`, which has a cap or is in a share with one, until it is polled.
    pub(crate) fn hold(&mut self, table: &mut [impl Cost], app: AppId, id: RequestId) {
        if app.index() >= self.held.len() {
            let new = Held { list: List::EMPTY, cost: Bytes::ZERO, finish: VirtualTime::ZERO, gate: None };
            self.held.resize(app.index() + 1, new);
        }
        let held = &mut self.held[app.index()];
        held.list.push_back(table, id);
        held.cost += table[id.index()].cost();
        self.len += 1;
    }

    /// The next request of `app` that may go now, which is charged. Call until `None`.
    pub(crate) fn poll(&mut self, now: Time, table: &mut [impl Cost], app: AppId) -> Option<RequestId> {
        let waited = self.leave_gate(now, app);
        let Some(id) = self.held.get(app.index()).and_then(|held| held.list.first()) else {
            self.due.remove(Member::App(app).owner());
            self.give_way(app);
            return None;
        };
        if let Some(at) = self.totals.due(now, app) {
            self.due.set(Due { at, who: Member::App(app) });
            self.give_way(app);
            return None;
        }
        self.due.remove(Member::App(app).owner());
        let cost = table[id.index()].cost();
        if !self.gates.is_empty() && !self.try_gates(now, app, cost, waited) {
            return None;
        }
        self.totals.charge(now, app, cost);
        self.remove(table, app, id);
        Some(id)
    }

    /// A request of `app`, which has `waited` at a gate with this tag, passes the gates of all shares above it, or
    /// waits at the first that is closed.
    fn try_gates(&mut self, now: Time, app: AppId, cost: Bytes, waited: Option<(ShareId, VirtualTime)>) -> bool {
        let capped: Vec<ShareId> = self.capped(app).collect();
        let finish = self.held[app.index()].finish;
        for share in &capped {
            let gate = &mut self.gates[share.index()];
            let tag = waited.filter(|(at, _)| at == share).map_or(finish.max(gate.clock), |(_, tag)| tag);
            let is_first = gate.waiting.first().is_none_or(|first| (tag, app) < *first);
            if !is_first || self.totals.due(now, *share).is_some() {
                gate.waiting.insert((tag, app));
                self.shares.on_arrival(app, gate.clock);
                self.held[app.index()].gate = Some((*share, tag));
                self.wake(now, *share);
                return false;
            }
            gate.clock = gate.clock.max(tag);
            // All gates have one tree: beside shares whose gates are faster, members that pause count for less.
            self.shares.on_arrival(app, gate.clock);
            self.held[app.index()].finish = tag + self.shares.of(app).time(cost.0.into());
        }
        for share in capped {
            self.totals.charge(now, share, cost);
            self.wake(now, share);
        }
        true
    }

    /// `app` does not wait for a share any more: others divide its part once it has had it.
    fn give_way(&mut self, app: AppId) {
        if let Some(held) = self.held.get(app.index()) {
            self.shares.on_finish(app, self.shares.clock_of(app, held.finish));
        }
    }

    /// What was charged to `app`, and to the shares above it, as `charged` costs `real`; then poll all that are due.
    pub(crate) fn recharge(&mut self, now: Time, app: AppId, [charged, real]: [Bytes; 2]) {
        self.totals.recharge(now, app, [charged, real]);
        if self.gates.is_empty() {
            return;
        }
        for share in self.capped(app).collect::<Vec<_>>() {
            self.totals.recharge(now, share, [charged, real]);
            self.wake(now, share);
        }
    }

    /// Sets when the next of those that wait for `share` may go; then poll all that are due.
    pub(crate) fn wake(&mut self, now: Time, share: ShareId) {
        if self.gates.get(share.index()).is_some_and(|gate| !gate.waiting.is_empty()) {
            let at = self.totals.due(now, share).unwrap_or(now);
            self.due.set(Due { at, who: Member::Share(share) });
        } else {
            self.due.remove(Member::Share(share).owner());
        }
    }

    fn leave_gate(&mut self, now: Time, app: AppId) -> Option<(ShareId, VirtualTime)> {
        let (share, tag) = self.held.get_mut(app.index())?.gate.take()?;
        self.gates[share.index()].waiting.remove(&(tag, app));
        self.wake(now, share);
        Some((share, tag))
    }

    /// An application of which a request may go now.
    pub(crate) fn poll_due(&self, now: Time) -> Option<AppId> {
        match self.due.first().filter(|due| due.at <= now)?.who {
            Member::App(app) => Some(app),
            Member::Share(share) => self.gates[share.index()].waiting.first().map(|(_, app)| *app),
        }
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
}
