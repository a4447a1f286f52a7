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

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::app_policy::{Cap, Minimum};
use crate::member::{ByMember, Member};
use crate::request::{ServiceClass, Target};
use crate::total::{Reach, Scope, TotalKind};
use crate::units::{Bytes, Time};

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

// What an application may use at one server of a rate: a bucket of its own, or a part in one for all servers.

/// What a budget is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Bytes per second.
    rate: u64,
    scope: Scope,
    /// What can be saved up, and whether at each server or at all servers together.
    burst: Bytes,
    burst_scope: Scope,
}

impl Rate {
    pub(crate) fn of_cap(cap: Cap) -> Self {
        Self { rate: cap.bytes_per_second(), scope: cap.scope(), burst: cap.burst(), burst_scope: cap.scope() }
    }

    /// With what comes in a period saved up; `None` if the target is not a total.
    pub(crate) fn of_target(&Target { rate, scope, .. }: &Target, period: Bytes) -> Option<Self> {
        (scope == Scope::Total).then(|| Self { rate: rate.0.max(1), scope, burst: period, burst_scope: scope })
    }

    /// `None` if the minimum is zero.
    pub(crate) fn of_minimum(&Minimum { rate, scope }: &Minimum, burst: Bytes, burst_scope: Scope) -> Option<Self> {
        (rate > Bytes::ZERO).then_some(Self { rate: rate.0, scope, burst, burst_scope })
    }

    /// What a server fills its bucket with.
    fn here(self, reach: Reach, part: Option<u64>) -> Filling {
        let rate = match self.scope {
            Scope::Server => self.rate,
            Scope::Total => part.unwrap_or_else(|| reach.part_of(self.rate)),
        };
        Filling { rate, burst: self.burst_here(reach) }
    }

    /// What it gets in any case, and keeps after a pause if `keeps`.
    fn even_part(self, keeps: bool, reach: Reach) -> Filling {
        let burst = if keeps { self.burst_here(reach) } else { Bytes::ZERO };
        Filling { rate: self.rate / reach.servers(), burst }
    }

    fn burst_here(self, reach: Reach) -> Bytes {
        match self.burst_scope {
            Scope::Server => self.burst,
            Scope::Total => Bytes(self.burst.0 / reach.servers()),
        }
    }
}

/// The bucket of one application.
///
/// With a cap over all servers, every server fills a bucket at the whole rate, and takes from it what it releases
/// itself and what it hears that others released. So who asks gets it, wherever it asks. In any time t all servers
/// together release at most rate · t + burst + what is not known elsewhere yet + one request of each server. Each
/// server reports after a tenth of a second's worth of the rate, divided by the number of servers, so what all together
/// have not reported is 2 % of what the rate allows in 5 s.
///
/// Where news takes too long for that, a server fills its bucket at the part of the rate that it is told to use
/// ([`Budget::set_part`]), and has nothing beside it. Otherwise:
///
/// - A server always gets its even part, rate / servers, however much others say that they use.
/// - While servers cannot be reached, the bucket fills in the proportion of those that can: the parts of a divided
///   cluster together stay within the rate.
/// - What others say leads into debt for at most [`Budget::DEBT_MAX`], so a peer that lies delays nobody for longer.
#[derive(Clone, Debug)]
struct Budget {
    rate: Rate,
    /// Whether the even part, too, can be kept after a pause, up to its part of the burst: where a rate is promised, a
    /// server has at least what a promise of the even part to it alone would give.
    keeps_even: bool,
    bucket: Bucket,
    /// For caps over all servers.
    total: Option<Total>,
}

#[derive(Clone, Debug)]
struct Total {
    reach: Reach,
    /// What this server may use, in bytes per second, whatever others use.
    part: Option<u64>,
    /// This server's even part.
    even: Bucket,
    /// Released here and not reported yet.
    unreported: i64,
}

impl Budget {
    /// Others' use leads into debt for as long as the bucket takes to fill by this, in nanoseconds.
    const DEBT_MAX_NS: u64 = 1_000_000_000;
    /// The same for service that was not asked for.
    const RECEIVED_MAX_NS: u64 = 200_000_000;
    /// Reports of all servers together lag behind by this part of a second's worth of the rate.
    const REPORTS_PER_SECOND: u64 = 10;

    fn full(rate: Rate, keeps_even: bool, reach: Reach, now: Time) -> Self {
        let total = (rate.scope == Scope::Total).then(|| Total {
            reach,
            part: None,
            even: Bucket::full(rate.even_part(keeps_even, reach), now),
            unreported: 0,
        });
        Self { rate, keeps_even, bucket: Bucket::full(rate.here(reach, None), now), total }
    }

    /// Changes rate, burst and scope; tokens are kept, up to the new burst.
    fn set(&mut self, now: Time, rate: Rate, reach: Reach) {
        if rate.scope != self.rate.scope {
            *self = Self::full(rate, self.keeps_even, reach, now);
            return;
        }
        self.rate = rate;
        let part = self.total.as_ref().and_then(|total| total.part);
        self.bucket.set(now, rate.here(reach, part));
        if let Some(total) = &mut self.total {
            total.reach = reach;
            total.even.set(now, rate.even_part(self.keeps_even, reach));
        }
    }

    /// Other servers became reachable, or are so no longer.
    fn set_reach(&mut self, now: Time, reach: Reach) {
        self.set(now, self.rate, reach);
    }

    /// Sets the part of the rate that may be used here; `None`: the whole of it, less what others use. Without effect
    /// on a rate for this server alone.
    fn set_part(&mut self, now: Time, part: Option<u64>) {
        if let Some(total) = &mut self.total {
            total.part = part;
            let reach = total.reach;
            self.set(now, self.rate, reach);
        }
    }

    /// When to ask again; `None` if it may be used now.
    fn due(&mut self, now: Time) -> Option<Time> {
        let due = self.bucket.due(now)?;
        let even = self.shared().filter(|total| total.part.is_none()).map(|total| total.even.due(now));
        even.map_or(Some(due), |even| even.map(|even| even.min(due)))
    }

    /// Takes `cost` in any case.
    fn charge(&mut self, now: Time, cost: Bytes) {
        self.bucket.charge(now, cost);
        if let Some(total) = self.shared() {
            if total.even.due(now).is_none() {
                total.even.charge(now, cost);
            }
            total.unreported = total.unreported.saturating_add_unsigned(cost.0);
        }
    }

    /// Takes `cost`, which somebody got in any case. Getting much for long leads into debt for at most
    /// [`Budget::RECEIVED_MAX_NS`], or as long as `cost` itself takes.
    fn charge_received(&mut self, now: Time, cost: Bytes) {
        let taken = self.bucket.charge_received(now, cost, Self::RECEIVED_MAX_NS);
        if let Some(total) = self.shared() {
            total.even.charge_received(now, cost, Self::RECEIVED_MAX_NS);
            // Others' buckets are charged with what this one is; but parts depend on all that was got.
            let told = if total.part.is_some() { cost } else { taken };
            total.unreported = total.unreported.saturating_add_unsigned(told.0);
        }
    }

    /// While there are other servers.
    fn shared(&mut self) -> Option<&mut Total> {
        self.total.as_mut().filter(|total| total.reach.servers > 1)
    }

    /// What was charged as `charged` costs `real`.
    fn recharge(&mut self, now: Time, charged: Bytes, real: Bytes) {
        self.bucket.recharge(now, charged, real);
        if let Some(total) = &mut self.total {
            let more = i64::try_from(i128::from(real.0) - i128::from(charged.0)).unwrap_or(0);
            total.unreported = total.unreported.saturating_add(more);
        }
    }

    /// Other servers released `bytes`, or took some back.
    fn hear(&mut self, now: Time, bytes: i64) {
        if self.total.as_ref().is_none_or(|total| total.part.is_some()) {
            return;
        }
        let amount = Bytes(bytes.unsigned_abs());
        if bytes < 0 {
            self.bucket.recharge(now, amount, Bytes::ZERO);
        } else {
            self.bucket.charge_up_to(now, amount, Self::DEBT_MAX_NS);
        }
    }

    /// What to report to other servers, once it is enough.
    fn poll_report(&mut self) -> Option<i64> {
        let rate = self.rate.rate;
        let total = self.shared()?;
        let enough = rate / Self::REPORTS_PER_SECOND / total.reach.servers();
        let is_enough = total.unreported != 0 && total.unreported.unsigned_abs() >= enough;
        is_enough.then(|| core::mem::take(&mut total.unreported))
    }
}

/// A byte in tokens: bytes per second are then tokens per nanosecond, and nothing is ever rounded.
const TOKENS_PER_BYTE: i128 = 1_000_000_000;

fn tokens(bytes: Bytes) -> i128 {
    i128::from(bytes.0) * TOKENS_PER_BYTE
}

/// How a bucket fills.
#[derive(Clone, Copy, Debug)]
struct Filling {
    /// Bytes per second; zero counts as one.
    rate: u64,
    /// What it holds.
    burst: Bytes,
}

impl Filling {
    fn burst_tokens(self) -> i128 {
        tokens(self.burst)
    }

    /// Tokens added per nanosecond.
    fn rate_tokens(self) -> i128 {
        self.rate.max(1).into()
    }
}

#[derive(Clone, Debug)]
struct Bucket {
    filling: Filling,
    /// Negative: in debt.
    tokens: i128,
    filled_at: Time,
}

impl Bucket {
    fn full(filling: Filling, now: Time) -> Self {
        Self { filling, tokens: filling.burst_tokens(), filled_at: now }
    }

    /// When it is out of debt; `None` if it is.
    fn due(&mut self, now: Time) -> Option<Time> {
        self.fill(now);
        (self.tokens < 0).then(|| self.out_of_debt())
    }

    /// Takes `cost` in any case, which may lead into debt.
    fn charge(&mut self, now: Time, cost: Bytes) {
        self.fill(now);
        self.tokens -= tokens(cost);
    }

    /// Takes `cost`, but no more than leads into a debt that is paid within `nanos`.
    fn charge_up_to(&mut self, now: Time, cost: Bytes, nanos: u64) {
        self.fill(now);
        let lowest = -self.filling.rate_tokens() * i128::from(nanos);
        self.tokens = (self.tokens - tokens(cost)).max(lowest.min(self.tokens));
    }

    /// Takes `cost`, but no more than leads into the debt of this one cost, or one that is paid within `nanos`. Returns
    /// what it took.
    fn charge_received(&mut self, now: Time, cost: Bytes, nanos: u64) -> Bytes {
        self.fill(now);
        let before = self.tokens;
        let lowest = -(self.filling.rate_tokens() * i128::from(nanos)).max(tokens(cost));
        self.tokens = (before - tokens(cost)).max(lowest.min(before));
        Bytes(u64::try_from((before - self.tokens) / TOKENS_PER_BYTE).unwrap_or(u64::MAX))
    }

    /// What was charged as `charged` costs `real`.
    fn recharge(&mut self, now: Time, charged: Bytes, real: Bytes) {
        self.fill(now);
        self.tokens = (self.tokens + tokens(charged) - tokens(real)).min(self.filling.burst_tokens());
    }

    /// Fills in another way from now on; tokens are kept, up to the new burst.
    fn set(&mut self, now: Time, filling: Filling) {
        self.fill(now);
        self.filling = filling;
        self.tokens = self.tokens.min(filling.burst_tokens());
    }

    fn fill(&mut self, now: Time) {
        let nanos = i128::from(now.as_nanos().saturating_sub(self.filled_at.as_nanos()));
        let filled = self.tokens.saturating_add(nanos.saturating_mul(self.filling.rate_tokens()));
        self.tokens = filled.min(self.filling.burst_tokens());
        self.filled_at = self.filled_at.max(now);
    }

    /// The first nanosecond at which the debt is paid.
    fn out_of_debt(&self) -> Time {
        let nanos = self.tokens.unsigned_abs().div_ceil(self.filling.rate_tokens().unsigned_abs());
        self.filled_at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Reach = Reach { reachable: 4, servers: 4 };

    fn budget() -> Budget {
        let cap = Cap::new(4000, Bytes(1)).unwrap().over_all_servers();
        Budget::full(Rate::of_cap(cap), false, FOUR, Time::ZERO)
    }

    impl Budget {
        fn take(&mut self, now: Time, cost: Bytes) -> Result<(), Time> {
            self.due(now).map_or(Ok(()), Err)?;
            self.charge(now, cost);
            Ok(())
        }
    }

    /// What gets through in a second of requests of `size` whenever they may go.
    fn released(budget: &mut Budget, from: u64, size: u64) -> u64 {
        (from..from + 1000).filter(|ms| budget.take(Time::from_millis(*ms), Bytes(size)).is_ok()).count() as u64 * size
    }

    #[test]
    fn one_server_gets_what_the_others_leave() {
        let mut budget = budget();
        assert!((3900..=4100).contains(&released(&mut budget, 0, 20)));
        (0..20).for_each(|tenth| {
            budget.hear(Time::from_millis(1000 + tenth), 100);
        });
        assert!((1900..=2100).contains(&released(&mut budget, 1000, 20)));
    }

    #[test]
    fn a_peer_that_lies_takes_neither_the_even_part_nor_the_future() {
        let mut budget = budget();
        budget.hear(Time::ZERO, i64::MAX);
        assert!((980..=1020).contains(&released(&mut budget, 0, 20)), "a quarter");
        budget.hear(Time::from_millis(1000), i64::MIN);
        assert!(released(&mut budget, 1000, 20) <= 4100 + 1020, "a refund fills the bucket once at most");
        budget.hear(Time::from_millis(2000), i64::MAX);
        released(&mut budget, 2000, 20);
        let later = released(&mut budget, 3000, 20) + released(&mut budget, 4000, 20);
        assert!(later > 4500, "{later}: the debt is paid after a second or two");
    }

    #[test]
    fn a_part_is_all_that_is_left_and_what_others_use_does_not_count() {
        let mut budget = budget();
        budget.set_part(Time::ZERO, Some(500));
        budget.take(Time::ZERO, Bytes(4000)).unwrap();
        assert_eq!(released(&mut budget, 0, 20), 0, "in debt, whatever the even part is");
        budget.set_part(Time::from_millis(1000), Some(2000));
        budget.hear(Time::from_millis(1000), i64::MAX);
        let next = released(&mut budget, 1000, 20) + released(&mut budget, 2000, 20);
        assert!((480..=520).contains(&next), "{next}: after 3.5 kB of debt");
    }

    #[test]
    fn parts_of_a_divided_cluster_add_up_to_the_rate() {
        let mut budget = budget();
        budget.set_reach(Time::ZERO, Reach { reachable: 1, servers: 4 });
        let alone = released(&mut budget, 0, 20);
        budget.set_reach(Time::from_millis(1000), Reach { reachable: 3, servers: 4 });
        let three = released(&mut budget, 1000, 20);
        assert!((980..=1040).contains(&alone) && (2800..=3060).contains(&three), "{alone} {three}");
    }

    #[test]
    fn reports_are_due_after_a_tenth_of_a_second_of_all_servers() {
        let mut budget = budget();
        budget.take(Time::ZERO, Bytes(99)).unwrap();
        assert_eq!(budget.poll_report(), None);
        budget.recharge(Time::ZERO, Bytes(99), Bytes(140));
        assert_eq!((budget.poll_report(), budget.poll_report()), (Some(140), None));
        budget.recharge(Time::ZERO, Bytes(140), Bytes::ZERO);
        assert_eq!(budget.poll_report(), Some(-140), "cancelled");
    }

    impl Bucket {
        fn take(&mut self, now: Time, cost: Bytes) -> Result<(), Time> {
            if let Some(due) = self.due(now) {
                return Err(due);
            }
            self.charge(now, cost);
            Ok(())
        }
    }

    #[test]
    fn debt_is_paid_to_the_nanosecond() {
        let mut bucket = Bucket::full(Filling { rate: 3, burst: Bytes(2) }, Time::ZERO);
        assert_eq!(bucket.take(Time::ZERO, Bytes(3)), Ok(()));
        let due = Time::from_nanos(333_333_334);
        assert_eq!(bucket.take(Time::ZERO, Bytes(1)), Err(due));
        assert_eq!(bucket.take(Time::from_nanos(333_333_333), Bytes(1)), Err(due));
        assert_eq!(bucket.take(due, Bytes(1)), Ok(()));
    }

    #[test]
    fn filling_in_many_small_steps_loses_nothing() {
        let mut bucket = Bucket::full(Filling { rate: 7, burst: Bytes(0) }, Time::ZERO);
        bucket.take(Time::ZERO, Bytes(7)).unwrap();
        for nanos in (0..1_000_000_000).step_by(999_999) {
            assert_eq!(bucket.take(Time::from_nanos(nanos), Bytes(1)), Err(Time::from_millis(1000)));
        }
        assert_eq!(bucket.take(Time::from_millis(1000), Bytes(1)), Ok(()));
    }

    #[test]
    fn a_pause_gives_the_burst_and_no_more() {
        let mut bucket = Bucket::full(Filling { rate: 1_000_000, burst: Bytes(100) }, Time::ZERO);
        let hour = Time::from_millis(3_600_000);
        bucket.take(hour, Bytes(100)).unwrap();
        bucket.take(hour, Bytes(1)).unwrap();
        assert!(bucket.take(hour, Bytes(1)).is_err());
        bucket.recharge(hour, Bytes(1), Bytes::ZERO);
        assert_eq!(bucket.take(hour, Bytes(1)), Ok(()));
    }
}
