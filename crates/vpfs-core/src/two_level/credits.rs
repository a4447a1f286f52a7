//! The high level: how much of each class passes to the deadline queue [Two-level].
//!
//! A class may send as much as its credits allow: T·P bytes in each replenish period P. Classes with credits take turns
//! in SFQ order; a class without credits waits for the next replenishment.
//!
//! Deviation: the slides replenish all credits at once when the storage has capacity to spare. That lets a class that
//! asks for more than its rate delay the others by a whole period's worth. Here spare capacity goes to one request at a
//! time, in SFQ order over all flows, so that weights count. It costs no credits: using capacity that no other class
//! wanted is not held against a class.
//!
//! Deviation: a class may overdraw its credits by one request, so that requests larger than T·P pass too. A
//! replenishment pays debts instead of simply setting credits to T·P; otherwise such requests would raise the rate
//! above T.
//!
//! Only the head of each flow has a start tag. Later requests get theirs when they become head, S = F of the previous
//! one. So nothing that happens to a request that still waits here moves a tag.

use alloc::vec::Vec;

use super::TwoLevelEntry;
use crate::app_policy::AppPolicy;
use crate::heap::{Heap, Item};
use crate::list::List;
use crate::request::Request;
use crate::shares::Shares;
use crate::table::Table;
use crate::units::{AppId, Bytes, RequestId, VirtualTime};

/// The head of a flow. Ordered by start tag, then by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head {
    start: VirtualTime,
    arrival: u64,
    pub(super) app: AppId,
}

impl Item for Head {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

/// A flow that waits for credits, by the replenishment that gives it some again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    replenishment: u64,
    app: AppId,
}

impl Item for Due {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

/// A byte in credits: bytes per second times nanoseconds are then credits, and nothing is ever rounded.
const CREDITS_PER_BYTE: i128 = 1_000_000_000;

fn credits_of(cost: Bytes) -> i128 {
    i128::from(cost.0) * CREDITS_PER_BYTE
}

/// The promise to a class, and its remaining credits.
#[derive(Clone, Copy, Debug)]
struct Account {
    rate: Bytes,
    /// Negative: in debt.
    credits: i128,
    /// The latest replenishment that is included.
    replenishment: u64,
}

impl Account {
    /// T·P, at least 1.
    fn quota(&self, period: u64) -> i128 {
        (i128::from(self.rate.0) * i128::from(period)).max(1)
    }

    /// Adds all replenishments until now.
    fn update(&mut self, replenishment: u64, period: u64) {
        let quota = self.quota(period);
        let times = i128::from(replenishment - self.replenishment);
        self.credits = self.credits.saturating_add(quota.saturating_mul(times)).min(quota);
        self.replenishment = replenishment;
    }

    /// The replenishment that gives credits again; call while there are none.
    fn due(&self, period: u64) -> u64 {
        let times = self.credits.unsigned_abs() / self.quota(period).unsigned_abs() + 1;
        self.replenishment.saturating_add(u64::try_from(times).unwrap_or(u64::MAX))
    }
}

#[derive(Clone, Debug)]
struct Flow {
    /// The start tag of the head; while nothing is queued, the finish tag of the latest request.
    start: VirtualTime,
    queue: List,
    /// `None`: best effort.
    account: Option<Account>,
}

/// The queues of all flows and their credits.
#[derive(Debug)]
pub(super) struct Credits {
    /// P in nanoseconds.
    period: u64,
    /// The number of replenishments so far.
    replenishment: u64,
    /// By application.
    flows: Vec<Flow>,
    shares: Shares,
    /// Flows with something queued: classes with credits,
    credited: Heap<Head>,
    /// classes without, by the replenishment that gives them some again
    indebted: Heap<Due>,
    /// and by whose turn it is,
    waiting: Heap<Head>,
    /// and flows that are not a class.
    best_effort: Heap<Head>,
    virtual_time: VirtualTime,
    latest_finish: VirtualTime,
    queued: usize,
}

impl Credits {
    pub(super) const fn new(period: u64) -> Self {
        Self {
            period,
            replenishment: 0,
            flows: Vec::new(),
            shares: Shares::new(),
            credited: Heap::new(),
            indebted: Heap::new(),
            waiting: Heap::new(),
            best_effort: Heap::new(),
            virtual_time: VirtualTime::ZERO,
            latest_finish: VirtualTime::ZERO,
            queued: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queued
    }

    /// Adds a request to its flow: S = max(v, F of the one before).
    pub(super) fn push(&mut self, requests: &mut Table<TwoLevelEntry>, id: RequestId) {
        let TwoLevelEntry { request: Request { app, cost, .. }, arrival, .. } = *requests.get(id);
        let earliest = self.shares.admit(app, self.virtual_time, arrival, cost);
        let flow = self.flow_mut(app);
        if flow.queue.first().is_none() {
            flow.start = flow.start.max(earliest);
        }
        flow.queue.push_back(requests.nodes(), id);
        self.queued += 1;
        self.refresh(requests, app);
    }

    /// Removes a waiting request. It has cost nothing yet.
    pub(super) fn remove(&mut self, requests: &mut Table<TwoLevelEntry>, id: RequestId) {
        let app = requests.get(id).request.app;
        self.flow_mut(app).queue.remove(requests.nodes(), id);
        self.queued -= 1;
        self.note_finish(app);
        self.refresh(requests, app);
    }

    /// The class with credits whose turn it is.
    pub(super) fn first_credited(&self) -> Option<AppId> {
        self.credited.first().map(|head| head.app)
    }

    /// The flow without a target whose turn it is.
    pub(super) fn first_best_effort(&self) -> Option<AppId> {
        self.best_effort.first().map(|head| head.app)
    }

    /// The flow that gets spare capacity while no class has credits: the first of all in SFQ order.
    pub(super) fn first_spare(&self) -> Option<AppId> {
        let heads = [self.waiting.first(), self.best_effort.first()];
        heads.into_iter().flatten().min().map(|head| head.app)
    }

    /// Takes the oldest request of `app`, which must have one, and charges it. It costs credits too unless it uses
    /// `spare` capacity.
    pub(super) fn pop(&mut self, requests: &mut Table<TwoLevelEntry>, app: AppId, spare: bool) -> RequestId {
        let flow = &mut self.flows[app.index()];
        let Some(id) = flow.queue.first() else { unreachable!("only flows with requests have a turn") };
        flow.queue.remove(requests.nodes(), id);
        self.queued -= 1;
        self.virtual_time = self.virtual_time.max(flow.start);
        self.charge(app, requests.get(id).request.cost, spare);
        self.refresh(requests, app);
        id
    }

    /// Charges a request to its flow: F = S + c/φ.
    pub(super) fn charge(&mut self, app: AppId, cost: Bytes, spare: bool) {
        self.shares.expire(self.virtual_time);
        let share = self.shares.of(app);
        let (replenishment, period) = (self.replenishment, self.period);
        let flow = self.flow_mut(app);
        flow.start = flow.start + share.time(cost.0.into());
        if let Some(account) = flow.account.as_mut().filter(|_| !spare) {
            account.update(replenishment, period);
            account.credits -= credits_of(cost);
        }
        self.note_finish(app);
    }

    /// A request costs `real` instead of `charged`; for the start of other members of its group.
    pub(super) fn correct_entry(&mut self, app: AppId, arrival: u64, [charged, real]: [Bytes; 2]) {
        self.shares.correct(app, arrival, i128::from(real.0) - i128::from(charged.0));
    }

    /// A charged request of `app`, possibly one that used `spare` capacity, costs `real` instead of `charged`. Credits
    /// never exceed those of a period, and a start tag does not fall below virtual time.
    pub(super) fn recharge(
        &mut self,
        requests: &Table<TwoLevelEntry>,
        app: AppId,
        [charged, real]: [Bytes; 2],
        spare: bool,
    ) {
        let share = self.shares.of(app);
        let (replenishment, period, virtual_time) = (self.replenishment, self.period, self.virtual_time);
        let flow = self.flow_mut(app);
        flow.start = if real >= charged {
            flow.start + share.time((real - charged).0.into())
        } else {
            let refunded = flow.start.saturating_sub(share.time((charged - real).0.into()));
            refunded.max(virtual_time.min(flow.start))
        };
        if let Some(account) = flow.account.as_mut().filter(|_| !spare) {
            account.update(replenishment, period);
            let credits = account.credits + credits_of(charged) - credits_of(real);
            account.credits = credits.min(account.quota(period));
        }
        self.note_finish(app);
        self.refresh(requests, app);
    }

    /// `times` replenish periods have ended. O(log n) for each class that has credits again.
    pub(super) fn replenish(&mut self, requests: &Table<TwoLevelEntry>, times: u64) {
        self.replenishment = self.replenishment.saturating_add(times);
        while let Some(&Due { app, .. }) = self.indebted.first().filter(|due| due.replenishment <= self.replenishment) {
            self.refresh(requests, app);
        }
    }

    /// Sets the weight and the group of a flow.
    pub(super) fn set_app(&mut self, app: AppId, policy: &AppPolicy) {
        self.shares.set(app, policy);
        if self.flow_mut(app).queue.first().is_some() {
            self.shares.on_arrival(app, self.virtual_time);
        }
    }

    /// The tag of `app` changed, or it may have nothing queued any more.
    fn note_finish(&mut self, app: AppId) {
        let Flow { start, queue, .. } = &self.flows[app.index()];
        self.latest_finish = self.latest_finish.max(*start);
        if queue.first().is_none() {
            self.shares.on_finish(app, *start);
        }
    }

    /// Sets T of `app`, `None` for best effort. A new class starts with the credits of one period.
    pub(super) fn set_rate(&mut self, requests: &Table<TwoLevelEntry>, app: AppId, rate: Option<Bytes>) {
        let (replenishment, period) = (self.replenishment, self.period);
        let account = &mut self.flow_mut(app).account;
        *account = rate.map(|rate| {
            let left = account.map_or(i128::MAX, |account| account.credits);
            let mut account = Account { rate, credits: left, replenishment };
            account.credits = left.min(account.quota(period));
            account
        });
        self.refresh(requests, app);
    }

    /// Changes P; debts stay. O(n log n) in flows.
    pub(super) fn set_period(&mut self, requests: &Table<TwoLevelEntry>, period: u64) {
        for app in 0..self.flows.len() {
            if let Some(account) = &mut self.flows[app].account {
                account.update(self.replenishment, self.period);
            }
        }
        self.period = period;
        let apps = u32::try_from(self.flows.len()).unwrap_or(u32::MAX);
        (0..apps).for_each(|app| self.refresh(requests, AppId(app)));
    }

    /// Nothing is queued or outstanding: v = the largest finish tag, as in SFQ.
    pub(super) fn end_busy_period(&mut self) {
        self.virtual_time = self.virtual_time.max(self.latest_finish);
    }

    fn flow_mut(&mut self, app: AppId) -> &mut Flow {
        if app.index() >= self.flows.len() {
            let new = Flow { start: VirtualTime::ZERO, queue: List::EMPTY, account: None };
            self.flows.resize(app.index() + 1, new);
        }
        &mut self.flows[app.index()]
    }

    /// Puts a flow into the heap where it belongs now.
    fn refresh(&mut self, requests: &Table<TwoLevelEntry>, app: AppId) {
        let (replenishment, period) = (self.replenishment, self.period);
        let Flow { start, queue, account, .. } = self.flow_mut(app);
        let head = queue.first().map(|id| Head { start: *start, arrival: requests.get(id).arrival, app });
        let due = account.as_mut().map(|account| {
            account.update(replenishment, period);
            (account.credits <= 0).then(|| account.due(period))
        });
        match (head, due) {
            (Some(head), Some(None)) => self.credited.set(head),
            _ => self.credited.remove(app.index()),
        }
        match (head, due) {
            (Some(head), Some(Some(replenishment))) => {
                self.indebted.set(Due { replenishment, app });
                self.waiting.set(head);
            }
            _ => {
                self.indebted.remove(app.index());
                self.waiting.remove(app.index());
            }
        }
        match (head, due) {
            (Some(head), None) => self.best_effort.set(head),
            _ => self.best_effort.remove(app.index()),
        }
    }
}
