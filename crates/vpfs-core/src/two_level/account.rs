//! The credits of one class at one server [Two-level].
//!
//! A rate promised at each server is replenished at the end of each period, as in the slides. For a rate promised for
//! the sum over all servers that would not do: at the end of a period, every server would let all of it pass before it
//! can hear of the others. So its credits come continuously, and their number is that of a [`Budget`], which others'
//! use is charged to as well.

use core::time::Duration;

use crate::app_policy::Cap;
use crate::cap::Budget;
use crate::request::Target;
use crate::total::{Reach, Scope};
use crate::units::{Bytes, Time};

/// A byte in credits: bytes per second times nanoseconds are then credits, and nothing is ever rounded.
const CREDITS_PER_BYTE: i128 = 1_000_000_000;

fn credits_of(cost: Bytes) -> i128 {
    i128::from(cost.0) * CREDITS_PER_BYTE
}

/// What credits depend on besides their class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    /// P in nanoseconds.
    pub(super) period: u64,
    /// The number of replenishments so far.
    pub(super) replenishment: u64,
    /// The servers that share totals.
    pub(super) reach: Reach,
}

/// When a class without credits has some again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// With this replenishment.
    Replenishment(u64),
    /// At this time.
    At(Time),
}

/// The promise to a class, and its remaining credits.
#[derive(Clone, Debug)]
pub(super) struct Account {
    rate: Bytes,
    scope: Scope,
    credits: Credits,
}

#[derive(Clone, Debug)]
enum Credits {
    Periodic {
        /// Negative: in debt.
        credits: i128,
        /// The latest replenishment that is included.
        replenishment: u64,
    },
    Continuous(Budget),
}

impl Account {
    /// The account of a class with a new target. A first one starts with the credits of one period; a changed one keeps
    /// what is left, up to the new credits of a period, unless they come in another way now.
    pub(super) fn new(now: Time, basis: &Basis, target: &Target, before: Option<Self>) -> Self {
        let Target { rate, scope, .. } = *target;
        let credits = match (promise(rate, scope, basis), before.map(|before| before.credits)) {
            (Some(promise), Some(Credits::Continuous(mut budget))) => {
                budget.set(now, promise, basis.reach);
                Credits::Continuous(budget)
            }
            (Some(promise), _) => Credits::Continuous(Budget::promised(promise, basis.reach, now)),
            (None, Some(Credits::Periodic { credits, replenishment })) => {
                Credits::Periodic { credits: credits.min(quota(rate, basis)), replenishment }
            }
            (None, _) => Credits::Periodic { credits: quota(rate, basis), replenishment: basis.replenishment },
        };
        Self { rate, scope, credits }
    }

    /// The period or the reach changed; debts stay.
    pub(super) fn rebase(self, now: Time, basis: &Basis) -> Self {
        let target = Target { rate: self.rate, scope: self.scope, deadline: Duration::ZERO };
        Self::new(now, basis, &target, Some(self))
    }

    /// When there are credits again; `None` while there are some.
    pub(super) fn due(&mut self, now: Time, basis: &Basis) -> Option<Due> {
        self.update(basis);
        match &mut self.credits {
            Credits::Continuous(budget) => budget.due(now).map(Due::At),
            Credits::Periodic { credits, replenishment } => (*credits <= 0).then(|| {
                let times = credits.unsigned_abs() / quota(self.rate, basis).unsigned_abs() + 1;
                let times = u64::try_from(times).unwrap_or(u64::MAX);
                Due::Replenishment(replenishment.saturating_add(times))
            }),
        }
    }

    /// Takes `cost`, which may lead into debt.
    pub(super) fn charge(&mut self, now: Time, basis: &Basis, cost: Bytes) {
        self.update(basis);
        match &mut self.credits {
            Credits::Continuous(budget) => budget.charge(now, cost),
            Credits::Periodic { credits, .. } => *credits -= credits_of(cost),
        }
    }

    /// What was charged as `charged` costs `real`. Credits never exceed those of a period.
    pub(super) fn recharge(&mut self, now: Time, basis: &Basis, [charged, real]: [Bytes; 2]) {
        self.update(basis);
        match &mut self.credits {
            Credits::Continuous(budget) => budget.recharge(now, charged, real),
            Credits::Periodic { credits, .. } => {
                *credits = (*credits + credits_of(charged) - credits_of(real)).min(quota(self.rate, basis));
            }
        }
    }

    /// Other servers let `bytes` pass within the promise, or took some back.
    pub(super) fn hear(&mut self, now: Time, bytes: i64) {
        if let Credits::Continuous(budget) = &mut self.credits {
            budget.hear(now, bytes);
        }
    }

    /// Sets the part of the promise that may be kept here.
    pub(super) fn set_part(&mut self, now: Time, part: Option<u64>) {
        if let Credits::Continuous(budget) = &mut self.credits {
            budget.set_part(now, part);
        }
    }

    /// What passed here within the promise, once it is enough to tell the others.
    pub(super) fn poll_report(&mut self) -> Option<i64> {
        match &mut self.credits {
            Credits::Continuous(budget) => budget.poll_report(),
            Credits::Periodic { .. } => None,
        }
    }

    /// Adds all replenishments until now.
    pub(super) fn update(&mut self, basis: &Basis) {
        if let Credits::Periodic { credits, replenishment } = &mut self.credits {
            let quota = quota(self.rate, basis);
            let times = i128::from(basis.replenishment - *replenishment);
            *credits = credits.saturating_add(quota.saturating_mul(times)).min(quota);
            *replenishment = basis.replenishment;
        }
    }
}

/// T·P in credits, at least 1.
fn quota(rate: Bytes, basis: &Basis) -> i128 {
    (i128::from(rate.0) * i128::from(basis.period)).max(1)
}

/// A rate that is shared with other servers, and that saves up what comes in a period.
fn promise(rate: Bytes, scope: Scope, basis: &Basis) -> Option<Cap> {
    let saved = u64::try_from(quota(rate, basis) / CREDITS_PER_BYTE).unwrap_or(u64::MAX);
    let shared = scope == Scope::Total && basis.reach.servers > 1;
    shared.then(|| Cap::new(rate.0.max(1), Bytes(saved)))?.map(Cap::over_all_servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 MB/s over four servers, 1.6 MB in each period of 200 ms.
    const TARGET: Target = Target { rate: Bytes(8_000_000), scope: Scope::Total, deadline: Duration::ZERO };
    const FOUR: Reach = Reach { reachable: 4, servers: 4 };
    const SIZE: u64 = 10_000;

    fn basis(reach: Reach) -> Basis {
        Basis { period: 200_000_000, replenishment: 0, reach }
    }

    fn account(reach: Reach) -> Account {
        Account::new(Time::ZERO, &basis(reach), &TARGET, None)
    }

    /// What passes within a second from `from` if requests always wait.
    fn passed(account: &mut Account, reach: Reach, from: u64) -> u64 {
        let ask = |ms: u64| {
            let (now, basis) = (Time::from_millis(ms), basis(reach));
            core::iter::from_fn(|| account.due(now, &basis).is_none().then(|| account.charge(now, &basis, Bytes(SIZE))))
                .count() as u64
        };
        (from..from + 1000).map(ask).sum::<u64>() * SIZE
    }

    #[test]
    fn one_server_has_the_whole_rate_and_keeps_its_part_of_a_period() {
        let mut account = account(FOUR);
        let first = passed(&mut account, FOUR, 0);
        assert!((8_400_000..=8_420_000).contains(&first), "{first}: 8 MB, and a quarter of 1.6 MB");
        let next = passed(&mut account, FOUR, 1000);
        assert!((7_980_000..=8_020_000).contains(&next), "{next}");
        let after_an_hour = passed(&mut account, FOUR, 3_600_000);
        assert!((8_400_000..=8_420_000).contains(&after_an_hour), "{after_an_hour}");
    }

    #[test]
    fn what_others_let_pass_is_theirs_but_never_the_even_part() {
        let mut account = account(FOUR);
        passed(&mut account, FOUR, 0);
        (0..10).for_each(|tenth| account.hear(Time::from_millis(1000 + tenth), 400_000));
        let left = passed(&mut account, FOUR, 1000);
        assert!((3_980_000..=4_420_000).contains(&left), "{left}: half");
        account.hear(Time::from_millis(2000), i64::MAX);
        let even = passed(&mut account, FOUR, 2000);
        assert!((1_980_000..=2_420_000).contains(&even), "{even}: a quarter, whatever others say");
        passed(&mut account, FOUR, 3000);
        let later = passed(&mut account, FOUR, 4000);
        assert!(later > 7_900_000, "{later}: they delay the rest for a second or two");
    }

    #[test]
    fn a_part_of_the_cluster_has_its_part_of_the_rate() {
        let three = Reach { reachable: 3, servers: 4 };
        let mut account = account(FOUR);
        passed(&mut account, FOUR, 0);
        let mut account = account.rebase(Time::from_millis(1000), &basis(three));
        let passed = passed(&mut account, three, 1000);
        assert!((5_980_000..=6_040_000).contains(&passed), "{passed}");
    }

    #[test]
    fn reports_are_due_after_a_tenth_of_a_second_of_all_servers_and_refunds_are_reported() {
        let (mut account, basis) = (account(FOUR), basis(FOUR));
        account.charge(Time::ZERO, &basis, Bytes(199_999));
        assert_eq!(account.poll_report(), None);
        account.charge(Time::ZERO, &basis, Bytes(1));
        assert_eq!((account.poll_report(), account.poll_report()), (Some(200_000), None));
        account.recharge(Time::ZERO, &basis, [Bytes(300_000), Bytes::ZERO]);
        assert_eq!(account.poll_report(), Some(-300_000));
    }

    /// As on one server, where a total is the same as a rate at each.
    #[test]
    fn a_server_alone_gets_the_credits_of_a_period_at_its_end() {
        let (mut account, mut basis) = (account(Reach::ALONE), basis(Reach::ALONE));
        account.charge(Time::ZERO, &basis, Bytes(1_600_000));
        assert_eq!(account.due(Time::from_millis(199), &basis), Some(Due::Replenishment(1)));
        account.hear(Time::from_millis(199), 1_000_000);
        basis.replenishment = 1;
        assert_eq!(account.due(Time::from_millis(200), &basis), None);
        assert_eq!(account.poll_report(), None, "there is nobody to tell");
    }
}
