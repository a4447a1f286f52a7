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
use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::heap::{Heap, Item};
use crate::list::List;
use crate::member::Member;
use crate::request::{Request, Target};
use crate::shares::Shares;
use crate::table::Table;
use crate::total::TotalKind;
use crate::totals::{Rate, Totals};
use crate::units::{AppId, Bytes, RequestId, Time, VirtualTime};

/// Classes with credits that have something queued, classes without, and flows that are not a class.
const CREDITED: usize = 0;
const WAITING: usize = 1;
const BEST_EFFORT: usize = 2;

/// A flow that waits for credits, by the replenishment or the time that gives it some again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Indebted<T> {
    due: T,
    app: AppId,
}

impl<T: Copy + Ord> Item for Indebted<T> {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

#[derive(Clone, Debug)]
struct Flow {
    /// The start tag of the head, by the clock of its share; while nothing is queued, the finish tag of the latest
    /// request.
    start: VirtualTime,
    queue: List,
    /// The cost of all that is queued.
    queued_cost: Bytes,
    /// `None`: best effort.
    account: Option<Account>,
}

/// The queues of all flows and their credits.
#[derive(Debug)]
pub(super) struct Credits {
    basis: Basis,
    /// By application.
    flows: Vec<Flow>,
    /// Flows with something queued in the order in which it is their turn,
    shares: Shares,
    /// and classes without credits by the replenishment, or the time, that gives them some again.
    indebted: Heap<Indebted<u64>>,
    indebted_until: Heap<Indebted<Time>>,
    virtual_time: VirtualTime,
    latest_finish: VirtualTime,
    queued: usize,
}

impl Credits {
    pub(super) fn new(period: u64) -> Self {
        Self {
            basis: Basis { period, replenishment: 0, totals: Totals::new(TotalKind::Target) },
            flows: Vec::new(),
            shares: Shares::new(3),
            indebted: Heap::new(),
            indebted_until: Heap::new(),
            virtual_time: VirtualTime::ZERO,
            latest_finish: VirtualTime::ZERO,
            queued: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queued
    }

    /// Adds a request to its flow: S = max(v, F of the one before).
    pub(super) fn push(&mut self, now: Time, requests: &mut Table<TwoLevelEntry>, id: RequestId) {
        let TwoLevelEntry { request: Request { app, cost, .. }, arrival, .. } = *requests.get(id);
        self.shares.admit(app, self.virtual_time, arrival, cost);
        let clock = self.shares.clock_of(app, self.virtual_time);
        let flow = self.flow_mut(app);
        if flow.queue.first().is_none() {
            flow.start = flow.start.max(clock);
        }
        flow.queue.push_back(requests.nodes(), id);
        flow.queued_cost += cost;
        self.queued += 1;
        self.refresh(now, requests, app);
    }

    /// Removes a waiting request. It has cost nothing yet.
    pub(super) fn remove(&mut self, now: Time, requests: &mut Table<TwoLevelEntry>, id: RequestId) {
        let Request { app, cost, .. } = requests.get(id).request;
        let flow = self.flow_mut(app);
        flow.queue.remove(requests.nodes(), id);
        flow.queued_cost = flow.queued_cost.saturating_sub(cost);
        self.queued -= 1;
        self.note_finish(app);
        self.refresh(now, requests, app);
    }

    /// The class with credits whose turn it is.
    pub(super) fn first_credited(&mut self) -> Option<AppId> {
        self.virtual_time = self.shares.pass_departures(self.virtual_time);
        self.shares.first(CREDITED).map(|next| next.app)
    }

    /// The flow without a target whose turn it is.
    pub(super) fn first_best_effort(&mut self) -> Option<AppId> {
        self.virtual_time = self.shares.pass_departures(self.virtual_time);
        self.shares.first(BEST_EFFORT).map(|next| next.app)
    }

    /// The flow that gets spare capacity while no class has credits: the first of all in SFQ order.
    pub(super) fn first_spare(&mut self) -> Option<AppId> {
        self.virtual_time = self.shares.pass_departures(self.virtual_time);
        let first = [WAITING, BEST_EFFORT].into_iter().filter_map(|lane| self.shares.first(lane)).min();
        first.map(|next| next.app)
    }

    /// Takes the oldest request of `app`, which must have one, and charges it. It costs credits too unless it uses
    /// `spare` capacity.
    pub(super) fn pop(&mut self, now: Time, requests: &mut Table<TwoLevelEntry>, app: AppId, spare: bool) -> RequestId {
        let flow = &mut self.flows[app.index()];
        let Some(id) = flow.queue.first() else { unreachable!("only flows with requests have a turn") };
        flow.queue.remove(requests.nodes(), id);
        let cost = requests.get(id).request.cost;
        flow.queued_cost = flow.queued_cost.saturating_sub(cost);
        self.queued -= 1;
        let start = flow.start;
        self.virtual_time = self.virtual_time.max(self.shares.virtual_time(app, start));
        self.charge(now, app, cost, spare);
        self.refresh(now, requests, app);
        id
    }

    /// Charges a request to its flow: F = S + c/φ.
    pub(super) fn charge(&mut self, now: Time, app: AppId, cost: Bytes, spare: bool) {
        self.shares.expire(self.virtual_time);
        let weight = self.shares.weight(app);
        self.grow(app);
        let flow = &mut self.flows[app.index()];
        flow.start = flow.start + VirtualTime::of(cost, weight);
        if let Some(account) = flow.account.as_mut().filter(|_| !spare) {
            account.charge(now, &mut self.basis, cost);
        }
        self.note_finish(app);
    }

    /// A queued request costs `real` instead of `estimated`.
    pub(super) fn correct_queued(&mut self, app: AppId, [estimated, real]: [Bytes; 2]) {
        let cost = &mut self.flow_mut(app).queued_cost;
        *cost = cost.saturating_sub(estimated) + real;
    }

    /// A request costs `real` instead of `charged`; for the start of others in its share.
    pub(super) fn correct_entry(&mut self, app: AppId, arrival: u64, [charged, real]: [Bytes; 2]) {
        self.shares.correct(app, arrival, i128::from(real.0) - i128::from(charged.0));
    }

    /// A charged request of `app`, possibly one that used `spare` capacity, costs `real` instead of `charged`. A start
    /// tag does not fall below virtual time.
    pub(super) fn recharge(
        &mut self,
        now: Time,
        requests: &Table<TwoLevelEntry>,
        app: AppId,
        [charged, real]: [Bytes; 2],
        spare: bool,
    ) {
        let (weight, clock) = (self.shares.weight(app), self.shares.clock_of(app, self.virtual_time));
        self.grow(app);
        let flow = &mut self.flows[app.index()];
        flow.start = if real >= charged {
            flow.start + VirtualTime::of(real.saturating_sub(charged), weight)
        } else {
            let refunded = flow.start.saturating_sub(VirtualTime::of(charged.saturating_sub(real), weight));
            refunded.max(clock.min(flow.start))
        };
        if let Some(account) = flow.account.as_mut().filter(|_| !spare) {
            account.recharge(now, &mut self.basis, [charged, real]);
        }
        self.note_finish(app);
        self.refresh(now, requests, app);
    }

    /// `times` replenish periods have ended. O(log n) for each class that has credits again.
    pub(super) fn replenish(&mut self, now: Time, requests: &Table<TwoLevelEntry>, times: u64) {
        self.basis.replenishment = self.basis.replenishment.saturating_add(times);
        let replenishment = self.basis.replenishment;
        while let Some(&Indebted { app, .. }) = self.indebted.first().filter(|first| first.due <= replenishment) {
            self.refresh(now, requests, app);
        }
    }

    /// Notices which classes with a total have credits again. O(log n) for each of them.
    pub(super) fn handle_timeout(&mut self, now: Time, requests: &Table<TwoLevelEntry>) {
        while let Some(&Indebted { app, .. }) = self.indebted_until.first().filter(|first| first.due <= now) {
            self.refresh(now, requests, app);
        }
    }

    /// When to call [`Credits::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.indebted_until.first().map(|first| first.due)
    }

    /// What other servers are told, and say, about promises for the sum over all.
    pub(super) fn totals(&mut self) -> &mut Totals {
        &mut self.basis.totals
    }

    /// Takes notice of what they said. O(log n) for each class of which they said something.
    pub(super) fn hear(&mut self, now: Time, requests: &Table<TwoLevelEntry>) {
        while let Some(member) = self.basis.totals.poll_changed() {
            let Member::App(app) = member else { continue };
            if let Some(account) = self.flows.get_mut(app.index()).and_then(|flow| flow.account.as_mut()) {
                account.on_changed(now, &mut self.basis);
                self.refresh(now, requests, app);
            }
        }
    }

    /// What a flow has queued.
    pub(super) fn waiting(&self, app: AppId) -> Bytes {
        self.flows.get(app.index()).map_or(Bytes::ZERO, |flow| flow.queued_cost)
    }

    /// Sets the weight of a share, and where it stands.
    pub(super) fn set_share(&mut self, share: ShareId, policy: Option<&SharePolicy>) {
        self.shares.set_share(self.virtual_time, share, policy);
    }

    /// Sets the weight of a flow, and where it stands.
    pub(super) fn set_app(&mut self, now: Time, requests: &Table<TwoLevelEntry>, app: AppId, policy: &AppPolicy) {
        let place = |shares: &Shares| (shares.share_of(app), shares.weight(app));
        let (before, start) = (place(&self.shares), self.flow_mut(app).start);
        let due = self.shares.virtual_time(app, start);
        self.shares.set(self.virtual_time, app, policy);
        if self.flow_mut(app).queue.first().is_some() {
            self.shares.on_arrival(app, self.virtual_time);
        }
        if before != place(&self.shares) {
            self.flow_mut(app).start = self.shares.clock_of(app, due);
            self.note_finish(app);
            self.refresh(now, requests, app);
        }
    }

    /// The tag of `app` changed, or it may have nothing queued any more.
    fn note_finish(&mut self, app: AppId) {
        let Flow { start, queue, .. } = &self.flows[app.index()];
        self.latest_finish = self.latest_finish.max(self.shares.virtual_time(app, *start));
        if queue.first().is_none() {
            self.shares.on_finish(app, *start);
        }
    }

    /// Sets the target of `app`, `None` for best effort. A new class starts with the credits of one period.
    pub(super) fn set_target(
        &mut self,
        now: Time,
        requests: &Table<TwoLevelEntry>,
        app: AppId,
        target: Option<&Target>,
    ) {
        let before = self.flow_mut(app).account.take();
        self.flows[app.index()].account = match target {
            Some(target) => Some(Account::new(now, &mut self.basis, app, target, before)),
            None => {
                self.basis.totals.set(now, app, None);
                None
            }
        };
        self.refresh(now, requests, app);
    }

    /// Changes P; debts stay. O(n log n) in flows.
    pub(super) fn set_period(&mut self, now: Time, requests: &Table<TwoLevelEntry>, period: u64) {
        for flow in &mut self.flows {
            flow.account.iter_mut().for_each(|account| account.update(&self.basis));
        }
        self.basis.period = period;
        for app in (0..).map(AppId).take(self.flows.len()) {
            let account = &mut self.flows[app.index()].account;
            *account = account.map(|account| account.rebase(now, &mut self.basis));
            self.refresh(now, requests, app);
        }
    }

    /// Nothing is queued or outstanding: v = the largest finish tag, as in SFQ.
    pub(super) fn end_busy_period(&mut self) {
        self.virtual_time = self.virtual_time.max(self.latest_finish);
    }

    fn flow_mut(&mut self, app: AppId) -> &mut Flow {
        self.grow(app);
        &mut self.flows[app.index()]
    }

    fn grow(&mut self, app: AppId) {
        if app.index() >= self.flows.len() {
            let new = Flow { start: VirtualTime::ZERO, queue: List::EMPTY, queued_cost: Bytes::ZERO, account: None };
            self.flows.resize(app.index() + 1, new);
        }
    }

    /// Puts a flow into the heap where it belongs now.
    fn refresh(&mut self, now: Time, requests: &Table<TwoLevelEntry>, app: AppId) {
        self.grow(app);
        let Flow { start, queue, account, .. } = &mut self.flows[app.index()];
        let due = account.as_mut().map(|account| account.due(now, &mut self.basis));
        let arrival = queue.first().map(|id| requests.get(id).arrival);
        let lane = match due {
            Some(None) => CREDITED,
            Some(Some(_)) => WAITING,
            None => BEST_EFFORT,
        };
        for other in [CREDITED, WAITING, BEST_EFFORT] {
            match arrival.filter(|_| other == lane) {
                Some(arrival) => self.shares.set_next(lane, app, *start, arrival),
                None => self.shares.remove_next(other, app),
            }
        }
        match due.flatten().filter(|_| arrival.is_some()) {
            Some(Due::Replenishment(due)) => self.indebted.set(Indebted { due, app }),
            _ => self.indebted.remove(app.index()),
        }
        match due.flatten().filter(|_| arrival.is_some()) {
            Some(Due::At(due)) => self.indebted_until.set(Indebted { due, app }),
            _ => self.indebted_until.remove(app.index()),
        }
    }
}

// The credits of one class at one server [Two-level].
//
// A rate promised at each server is replenished at the end of each period, as in the slides. For a rate promised for
// the sum over all servers that would not do: at the end of a period, every server would let all of it pass before it
// can hear of the others. So its credits come continuously, and `Totals` count them, to which others'
// use is charged as well.

/// A byte in credits: bytes per second times nanoseconds are then credits, and nothing is ever rounded.
const CREDITS_PER_BYTE: i128 = 1_000_000_000;

fn credits_of(cost: Bytes) -> i128 {
    i128::from(cost.0) * CREDITS_PER_BYTE
}

/// What the credits of all classes depend on.
#[derive(Debug)]
struct Basis {
    /// P in nanoseconds.
    period: u64,
    /// The number of replenishments so far.
    replenishment: u64,
    /// The credits that come continuously.
    totals: Totals,
}

/// When a class without credits has some again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// With this replenishment.
    Replenishment(u64),
    /// At this time.
    At(Time),
}

/// The promise to a class, and its remaining credits.
#[derive(Clone, Copy, Debug)]
struct Account {
    app: AppId,
    target: Target,
    /// They come continuously.
    continuous: bool,
    /// The others; negative: in debt.
    credits: i128,
    /// The latest replenishment that is included.
    replenishment: u64,
}

impl Account {
    /// The account of a class with a new target. A first one starts with the credits of one period; a changed one keeps
    /// what is left, up to the new credits of a period, unless they come in another way now.
    fn new(now: Time, basis: &mut Basis, app: AppId, target: &Target, before: Option<Self>) -> Self {
        let quota = quota(target, basis);
        let periodic = before.filter(|before| !before.continuous);
        let (credits, replenishment) =
            periodic.map_or((quota, basis.replenishment), |before| (before.credits.min(quota), before.replenishment));
        if periodic.is_some() {
            basis.totals.set(now, app, None);
        }
        basis.totals.set(now, app, rate(target, basis));
        Self { app, target: *target, continuous: is_continuous(app, basis), credits, replenishment }
    }

    /// The period changed; debts stay.
    fn rebase(self, now: Time, basis: &mut Basis) -> Self {
        Self::new(now, basis, self.app, &self.target.clone(), Some(self))
    }

    /// Other servers said something, or their number changed.
    fn on_changed(&mut self, now: Time, basis: &mut Basis) {
        if self.continuous != is_continuous(self.app, basis) {
            // They come in another way.
            if self.continuous {
                basis.totals.set(now, self.app, None);
            }
            *self = Self::new(now, basis, self.app, &self.target.clone(), None);
        }
    }

    /// When there are credits again; `None` while there are some.
    fn due(&mut self, now: Time, basis: &mut Basis) -> Option<Due> {
        if self.continuous {
            return basis.totals.due(now, self.app).map(Due::At);
        }
        self.update(basis);
        (self.credits <= 0).then(|| {
            let times = self.credits.unsigned_abs() / quota(&self.target, basis).unsigned_abs() + 1;
            Due::Replenishment(self.replenishment.saturating_add(u64::try_from(times).unwrap_or(u64::MAX)))
        })
    }

    /// Takes `cost`, which may lead into debt.
    fn charge(&mut self, now: Time, basis: &mut Basis, cost: Bytes) {
        if self.continuous {
            return basis.totals.charge(now, self.app, cost);
        }
        self.update(basis);
        self.credits -= credits_of(cost);
    }

    /// What was charged as `charged` costs `real`. Credits never exceed those of a period.
    fn recharge(&mut self, now: Time, basis: &mut Basis, [charged, real]: [Bytes; 2]) {
        if self.continuous {
            return basis.totals.recharge(now, self.app, [charged, real]);
        }
        self.update(basis);
        let credits = self.credits + credits_of(charged) - credits_of(real);
        self.credits = credits.min(quota(&self.target, basis));
    }

    /// Adds all replenishments until now.
    fn update(&mut self, basis: &Basis) {
        let quota = quota(&self.target, basis);
        let times = i128::from(basis.replenishment - self.replenishment);
        self.credits = self.credits.saturating_add(quota.saturating_mul(times)).min(quota);
        self.replenishment = basis.replenishment;
    }
}

fn is_continuous(app: AppId, basis: &Basis) -> bool {
    basis.totals.reach().servers > 1 && basis.totals.has(app)
}

/// T·P in credits, at least 1.
fn quota(target: &Target, basis: &Basis) -> i128 {
    (i128::from(target.rate.0) * i128::from(basis.period)).max(1)
}

/// A rate that is shared with other servers, and that saves up what comes in a period.
fn rate(target: &Target, basis: &Basis) -> Option<Rate> {
    let saved = u64::try_from(quota(target, basis) / CREDITS_PER_BYTE).unwrap_or(u64::MAX);
    Rate::of_target(target, Bytes(saved))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::total::{Reach, Scope};

    const APP: AppId = AppId(0);

    /// 8 MB/s over four servers, 1.6 MB in each period of 200 ms.
    const TARGET: Target = Target { rate: Bytes(8_000_000), scope: Scope::Total, deadline: core::time::Duration::ZERO };
    const FOUR: Reach = Reach { reachable: 4, servers: 4 };
    const SIZE: u64 = 10_000;

    fn account(reach: Reach) -> (Account, Basis) {
        let mut totals = Totals::new(TotalKind::Target);
        totals.set_reach(Time::ZERO, reach);
        let mut basis = Basis { period: 200_000_000, replenishment: 0, totals };
        (Account::new(Time::ZERO, &mut basis, APP, &TARGET, None), basis)
    }

    /// What passes within a second from `from` if requests always wait.
    fn passed((account, basis): &mut (Account, Basis), from: u64) -> u64 {
        let ask = |ms: u64| {
            let now = Time::from_millis(ms);
            core::iter::from_fn(|| account.due(now, basis).is_none().then(|| account.charge(now, basis, Bytes(SIZE))))
                .count() as u64
        };
        (from..from + 1000).map(ask).sum::<u64>() * SIZE
    }

    #[test]
    fn one_server_has_the_whole_rate_and_keeps_its_part_of_a_period() {
        let mut account = account(FOUR);
        let first = passed(&mut account, 0);
        assert!((8_400_000..=8_420_000).contains(&first), "{first}: 8 MB, and a quarter of 1.6 MB");
        let next = passed(&mut account, 1000);
        assert!((7_980_000..=8_020_000).contains(&next), "{next}");
        let after_an_hour = passed(&mut account, 3_600_000);
        assert!((8_400_000..=8_420_000).contains(&after_an_hour), "{after_an_hour}");
    }

    /// As on one server, where a total is the same as a rate at each.
    #[test]
    fn a_server_alone_gets_the_credits_of_a_period_at_its_end() {
        let (mut account, mut basis) = account(Reach::ALONE);
        account.charge(Time::ZERO, &mut basis, Bytes(1_600_000));
        assert_eq!(account.due(Time::from_millis(199), &mut basis), Some(Due::Replenishment(1)));
        basis.replenishment = 1;
        assert_eq!(account.due(Time::from_millis(200), &mut basis), None);
        assert_eq!(basis.totals.poll_report(), None, "there is nobody to tell");
    }

    /// What is heard in the same moment counts.
    #[test]
    fn a_server_that_finds_others_shares_the_rate_and_one_that_loses_them_starts_again() {
        let (mut account, mut basis) = account(Reach::ALONE);
        account.charge(Time::ZERO, &mut basis, Bytes(1_600_000));
        basis.totals.set_reach(Time::ZERO, FOUR);
        basis.totals.hear(Time::ZERO, APP, 2_400_000);
        assert_eq!(basis.totals.poll_changed(), Some(APP.into()));
        account.on_changed(Time::ZERO, &mut basis);
        account.charge(Time::ZERO, &mut basis, Bytes(400_001));
        let due = account.due(Time::ZERO, &mut basis);
        assert!(matches!(due, Some(Due::At(at)) if at > Time::ZERO), "{due:?}");
        basis.totals.set_reach(Time::ZERO, Reach::ALONE);
        account.on_changed(Time::ZERO, &mut basis);
        assert_eq!(account.due(Time::ZERO, &mut basis), None);
        account.charge(Time::ZERO, &mut basis, Bytes(1_600_000));
        assert_eq!(account.due(Time::ZERO, &mut basis), Some(Due::Replenishment(1)));
    }
}
