//! Caps: the most that an application gets, even while the storage is idle [vPFS §IV-C3, vPFS+ §V-B].
//!
//! A token bucket for each capped application, in front of any scheduler. A request is released to that scheduler when
//! the bucket is not in debt, and then charged in full. So a request larger than the burst passes too, and later ones
//! wait for it. In any time t an application is released at most rate · t + burst + one request.
//!
//! A cap can also be the total over all servers (`budget`): then each server reports what it released, by
//! [`Scheduler::poll_total`], and hears of the others, by [`Scheduler::handle_total`].

mod bucket;
mod budget;

use alloc::vec::Vec;

pub(crate) use budget::Budget;

use crate::app_policy::{AppPolicy, Cap, GroupId};
use crate::event::{Event, EventQueue};
use crate::heap::{Heap, Item};
use crate::list::{Links, List, Node};
use crate::request::{Dispatch, OpKind, Request, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::total::{Reach, TotalKind};
use crate::total_id::TotalId;
use crate::units::{AppId, Bytes, RequestId, Time};

/// Holds requests of capped applications back before `S` sees them; requests of other applications pass.
///
/// A capped application's request takes O(log n) in the number of applications that are held back. A held request
/// counts as queued; its [`Event::Enqueued`] follows when `S` gets it. Poll events after every input, as the drive
/// contract requires, to receive them in order.
#[derive(Debug)]
pub struct Capped<S> {
    inner: S,
    /// By id; entries of uncapped applications are unused.
    requests: Vec<CapEntry>,
    /// By application.
    accounts: Vec<Account>,
    reach: Reach,
    /// Applications that may have something to report.
    reporting: Vec<AppId>,
    /// The applications whose requests are held back.
    due: Heap<Due>,
    held: usize,
    events: EventQueue,
}

#[derive(Clone, Debug)]
struct Account {
    bucket: Option<Budget>,
    held: List,
    /// The cost of all that is held.
    held_cost: Bytes,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unused,
    /// Not released yet.
    Held,
    /// Released, and charged to the bucket.
    Charged,
}

#[derive(Clone, Copy, Debug)]
struct CapEntry {
    state: State,
    request: Request,
    arrived: Time,
    links: Links,
}

impl CapEntry {
    const UNUSED: Self = Self {
        state: State::Unused,
        request: Request::new(RequestId(0), AppId(0), OpKind::Metadata, Bytes::ZERO),
        arrived: Time::ZERO,
        links: Links::UNLINKED,
    };
}

impl Node for CapEntry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<S: Scheduler> Capped<S> {
    /// Starts without caps in front of `inner`; keeps at most `event_capacity` of its own events between polls.
    pub fn new(inner: S, event_capacity: usize) -> Self {
        Self {
            inner,
            requests: Vec::new(),
            accounts: Vec::new(),
            reach: Reach::ALONE,
            reporting: Vec::new(),
            due: Heap::new(),
            held: 0,
            events: EventQueue::with_capacity(event_capacity),
        }
    }

    /// The scheduler that receives the released requests.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The scheduler that receives the released requests, to change its settings.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// What was released of an application with a total cap since the last report, if it is enough. O(1) for each
    /// application that released something.
    fn poll_cap(&mut self) -> Option<ServiceReport> {
        while let Some(app) = self.reporting.pop() {
            let bucket = self.accounts.get_mut(app.index()).and_then(|account| account.bucket.as_mut());
            if let Some(bytes) = bucket.and_then(Budget::poll_report) {
                // Whatever its class: a cap limits all requests together.
                return Some(ServiceReport { app, class: ServiceClass::Data, bytes });
            }
        }
        None
    }

    /// `app` used more or less of its cap.
    fn note_use(&mut self, app: AppId) {
        if self.reporting.last() != Some(&app) && self.reach.servers > 1 {
            self.reporting.push(app);
        }
    }

    /// Sets or lifts the cap of `app`.
    ///
    /// A first cap starts with a full bucket; a changed one keeps its tokens, up to the new burst. Lifting a cap
    /// releases all held requests, and takes time proportional to the requests in use.
    fn set_cap(&mut self, now: Time, app: AppId, cap: Option<Cap>) {
        self.grow(app);
        let bucket = &mut self.accounts[app.index()].bucket;
        match (&mut *bucket, cap) {
            (Some(bucket), Some(cap)) => bucket.set(now, cap, self.reach),
            (_, cap) => *bucket = cap.map(|cap| Budget::full(cap, self.reach, now)),
        }
        self.release(now, app);
        if cap.is_none() {
            // Outstanding requests must not be refunded to a bucket that is created later.
            self.requests
                .iter_mut()
                .filter(|entry| entry.request.app == app)
                .for_each(|entry| *entry = CapEntry::UNUSED);
        }
    }

    fn grow(&mut self, app: AppId) {
        if app.index() >= self.accounts.len() {
            self.accounts.resize(app.index() + 1, Account { bucket: None, held: List::EMPTY, held_cost: Bytes::ZERO });
        }
    }

    fn hold(&mut self, arrived: Time, request: &Request) {
        let Request { id, app, .. } = *request;
        if id.index() >= self.requests.len() {
            self.requests.resize(id.index() + 1, CapEntry::UNUSED);
        }
        let entry = &mut self.requests[id.index()];
        assert!(entry.state == State::Unused, "request id {id} is in use");
        *entry = CapEntry { state: State::Held, request: *request, arrived, links: Links::UNLINKED };
        let account = &mut self.accounts[app.index()];
        account.held.push_back(&mut self.requests, id);
        account.held_cost += request.cost;
        self.held += 1;
    }

    /// Releases the requests of `app` that may go now, and notes when the next one may.
    fn release(&mut self, now: Time, app: AppId) {
        while let Some(id) = self.accounts[app.index()].held.first() {
            let account = &mut self.accounts[app.index()];
            let CapEntry { request, arrived, .. } = self.requests[id.index()];
            if let Some(bucket) = &mut account.bucket
                && let Err(at) = bucket.take(now, request.cost)
            {
                self.due.set(Due { at, app });
                return;
            }
            account.held.remove(&mut self.requests, id);
            account.held_cost = account.held_cost - request.cost;
            self.requests[id.index()].state = State::Charged;
            self.held -= 1;
            self.note_use(app);
            self.inner.enqueue_held(now, arrived, &request);
        }
        self.due.remove(app.index());
    }

    /// Releases the requests of all applications that may go now.
    fn release_due(&mut self, now: Time) {
        while let Some(&Due { app, .. }) = self.due.first().filter(|due| due.at <= now) {
            self.release(now, app);
        }
    }

    #[cfg(test)]
    fn capacities(&self) -> Vec<usize> {
        let own = [
            self.requests.capacity(),
            self.accounts.capacity(),
            self.events.kept_capacity(),
            self.reporting.capacity(),
        ];
        own.into_iter().chain(self.due.capacities()).collect()
    }

    fn entry(&self, id: RequestId) -> CapEntry {
        self.requests.get(id.index()).copied().unwrap_or(CapEntry::UNUSED)
    }

    /// A dispatched request ends.
    fn forget(&mut self, id: RequestId) {
        if let Some(entry) = self.requests.get_mut(id.index()) {
            assert!(entry.state != State::Held, "only a dispatched request can be complete");
            *entry = CapEntry::UNUSED;
        }
    }

    /// A charged request of `app` costs `real` instead of `charged`.
    fn recharge(&mut self, now: Time, app: AppId, charged: Bytes, real: Bytes) {
        if let Some(bucket) = &mut self.accounts[app.index()].bucket {
            bucket.recharge(now, charged, real);
            self.note_use(app);
            self.release(now, app);
        }
    }
}

impl<S: Scheduler> Scheduler for Capped<S> {
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { id, app, .. } = *request;
        let capped = self.accounts.get(app.index()).is_some_and(|account| account.bucket.is_some());
        if !capped {
            return self.inner.enqueue_held(now, arrived, request);
        }
        self.hold(arrived, request);
        self.release(now, app);
        if self.entry(id).state == State::Held {
            self.events.push(now, Event::CapHeld { id, app });
        }
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        self.inner.poll_dispatch(now)
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.forget(id);
        self.inner.complete(now, id);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.forget(id);
        self.inner.release(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let CapEntry { state, request: Request { app, cost, .. }, .. } = self.entry(id);
        if state == State::Held {
            let account = &mut self.accounts[app.index()];
            account.held.remove(&mut self.requests, id);
            account.held_cost = account.held_cost - cost;
            self.held -= 1;
            self.events.push(now, Event::Cancelled { id, app, cost });
            if self.queued() == 0 && self.outstanding() == 0 {
                self.events.push(now, Event::Idle);
            }
            self.release(now, app);
        } else {
            self.inner.cancel(now, id);
        }
        if state != State::Unused {
            self.requests[id.index()] = CapEntry::UNUSED;
        }
        if state == State::Charged {
            self.recharge(now, app, cost, Bytes::ZERO);
        }
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let CapEntry { state, request: Request { app, cost: estimated, .. }, .. } = self.entry(id);
        if state != State::Unused {
            self.requests[id.index()].request.correct(real);
        }
        if state == State::Held {
            let held_cost = &mut self.accounts[app.index()].held_cost;
            *held_cost = *held_cost - estimated + real;
            self.events.push(now, Event::CostCorrected { id, app, estimated, real });
        } else {
            self.inner.correct_cost(now, id, real);
        }
        if state == State::Charged {
            self.recharge(now, app, estimated, real);
        }
    }

    /// A cap also applies to requests that are already queued here.
    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        self.inner.set_app(now, app, policy);
        self.set_cap(now, app, policy.cap);
    }

    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        self.inner.handle_peer(now, report);
    }

    fn handle_strangers(&mut self, now: Time, group: GroupId, class: ServiceClass, bytes: i64) {
        self.inner.handle_strangers(now, group, class, bytes);
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.inner.poll_report(now)
    }

    fn report_all(&mut self) {
        self.inner.report_all();
    }

    fn set_reach(&mut self, now: Time, reach: Reach) {
        self.inner.set_reach(now, reach);
        if self.reach == reach {
            return;
        }
        self.reach = reach;
        for app in (0..).map(AppId).take(self.accounts.len()) {
            if let Some(bucket) = &mut self.accounts[app.index()].bucket {
                bucket.set_reach(now, reach);
            }
            self.release(now, app);
        }
    }

    fn handle_total(&mut self, now: Time, kind: TotalKind, report: ServiceReport) {
        if kind != TotalKind::Cap {
            return self.inner.handle_total(now, kind, report);
        }
        let ServiceReport { app, bytes, .. } = report;
        if let Some(bucket) = self.accounts.get_mut(app.index()).and_then(|account| account.bucket.as_mut()) {
            bucket.hear(now, bytes);
            self.release(now, app);
        }
    }

    fn set_part(&mut self, now: Time, total: TotalId, part: Option<u64>) {
        if total.kind != TotalKind::Cap {
            return self.inner.set_part(now, total, part);
        }
        let app = total.app;
        if let Some(bucket) = self.accounts.get_mut(app.index()).and_then(|account| account.bucket.as_mut()) {
            bucket.set_part(now, part);
            self.release(now, app);
        }
    }

    fn waiting(&self, total: TotalId) -> Bytes {
        match total.kind {
            TotalKind::Cap => self.accounts.get(total.app.index()).map_or(Bytes::ZERO, |account| account.held_cost),
            TotalKind::Target | TotalKind::Minimum => self.inner.waiting(total),
        }
    }

    fn poll_total(&mut self, now: Time) -> Option<(TotalKind, ServiceReport)> {
        let cap = self.poll_cap().map(|report| (TotalKind::Cap, report));
        cap.or_else(|| self.inner.poll_total(now))
    }

    fn queued(&self) -> usize {
        self.held + self.inner.queued()
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        // While requests are held back, the inner scheduler is idle but this one is not.
        let premature = |event: &(Time, Event)| event.1 == Event::Idle && self.held > 0;
        let own = self.events.poll();
        own.or_else(|| core::iter::from_fn(|| self.inner.poll_event()).find(|event| !premature(event)))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let own = self.due.first().map(|due| due.at);
        own.into_iter().chain(self.inner.poll_timeout()).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.release_due(now);
        self.inner.handle_timeout(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Sharing, SharingMode};
    use crate::sfq::Sfq;
    use crate::slot_cost::SlotCostTable;
    use crate::testing::Random;
    use crate::units::Depth;

    const FLOWS: u32 = 100;
    const IDS: u32 = 1000;

    /// Requests of all flows, operations and sizes; every third flow is capped.
    struct Run {
        scheduler: Capped<Sfq>,
        random: Random,
        now: Time,
        free: Vec<RequestId>,
        outstanding: Vec<RequestId>,
    }

    impl Run {
        fn new() -> Self {
            let depth = Depth::new(14).unwrap();
            let mut sfq = Sfq::new(depth, SlotCostTable::default(), 64);
            sfq.set_sharing(Sharing { mode: SharingMode::Layout, ..Sharing::default() });
            let mut scheduler = Capped::new(sfq, 64);
            for app in (0..FLOWS).step_by(3) {
                let policy = AppPolicy { cap: Cap::new(1 << 30, Bytes::mib(4)), ..AppPolicy::default() };
                scheduler.set_app(Time::ZERO, AppId(app), &policy);
            }
            let free = (0..IDS).map(RequestId).collect();
            Self { scheduler, random: Random::new(7), now: Time::ZERO, free, outstanding: Vec::new() }
        }

        /// Enqueues a request of `app` if there is an id for it.
        fn enqueue(&mut self, app: AppId, op: OpKind, cost: Bytes) {
            if let Some(id) = self.free.pop() {
                // Some requests reveal their cost elsewhere, the others are counted.
                let elsewhere = (id.0 % 2 == 0).then_some(Bytes(cost.0 * 7));
                self.scheduler.enqueue(self.now, Request { elsewhere, ..Request::new(id, app, op, cost) });
            }
        }

        /// A request arrives or completes; then everything that may go is dispatched.
        fn step(&mut self) {
            self.now = Time::from_nanos(self.now.as_nanos() + 10_000);
            self.scheduler.handle_timeout(self.now);
            if self.random.below(2) == 0 {
                let app = AppId(self.random.below(FLOWS));
                let op = [OpKind::Metadata, OpKind::Read, OpKind::Write][self.random.below(3) as usize];
                let cost = Bytes::kib(1 << self.random.below(12));
                self.enqueue(app, op, cost);
            } else if let Some(id) = self.outstanding.pop() {
                self.scheduler.complete(self.now, id);
                self.free.push(id);
            }
            while self.scheduler.poll_total(self.now).is_some() {}
            while let Some(report) = self.scheduler.poll_report(self.now) {
                // As if the same request had arrived at another server.
                self.scheduler.handle_peer(self.now, report);
            }
            while let Some(dispatch) = self.scheduler.poll_dispatch(self.now) {
                self.outstanding.push(dispatch.id);
            }
            while self.scheduler.poll_event().is_some() {}
        }

        fn capacities(&self) -> (Vec<usize>, Vec<usize>) {
            (self.scheduler.capacities(), self.scheduler.inner().capacities())
        }
    }

    #[test]
    fn no_table_grows_once_all_flows_and_ids_were_in_use() {
        let mut run = Run::new();
        // Every flow has a request of every slot cost at the same time.
        for app in 0..FLOWS {
            for kib in [4, 512, 1024, 2048] {
                run.enqueue(AppId(app), OpKind::Write, Bytes::kib(kib));
            }
        }
        while let Some(id) = run.free.pop() {
            let request = Request::new(id, AppId(0), OpKind::Metadata, Bytes::kib(10));
            run.scheduler.enqueue(run.now, request);
        }
        for _ in 0..50_000 {
            run.step();
        }
        let grown = run.capacities();
        let mut served = 0;
        for _ in 0..200_000 {
            let before = run.free.len();
            run.step();
            served += usize::from(run.free.len() > before);
            assert_eq!(run.capacities(), grown);
        }
        assert!(served > 50_000, "{served}");
    }
}
