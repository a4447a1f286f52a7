//! The credits of one class at one server [Two-level].
//!
//! A rate promised at each server is replenished at the end of each period, as in the slides. For a rate promised for
//! the sum over all servers that would not do: at the end of a period, every server would let all of it pass before it
//! can hear of the others. So its credits come continuously, and [`Totals`](crate::Totals) count them, to which others'
//! use is charged as well.

use crate::request::Target;
use crate::totals::{Rate, Totals};
use crate::units::{AppId, Bytes, Time};

/// A byte in credits: bytes per second times nanoseconds are then credits, and nothing is ever rounded.
const CREDITS_PER_BYTE: i128 = 1_000_000_000;

fn credits_of(cost: Bytes) -> i128 {
    i128::from(cost.0) * CREDITS_PER_BYTE
}

/// What the credits of all classes depend on.
#[derive(Debug)]
pub(super) struct Basis {
    /// P in nanoseconds.
    pub(super) period: u64,
    /// The number of replenishments so far.
    pub(super) replenishment: u64,
    /// The credits that come continuously.
    pub(super) totals: Totals,
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
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
    pub(super) fn new(now: Time, basis: &mut Basis, app: AppId, target: &Target, before: Option<Self>) -> Self {
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
    pub(super) fn rebase(self, now: Time, basis: &mut Basis) -> Self {
        Self::new(now, basis, self.app, &self.target.clone(), Some(self))
    }

    /// Other servers said something, or their number changed.
    pub(super) fn on_changed(&mut self, now: Time, basis: &mut Basis) {
        if self.continuous != is_continuous(self.app, basis) {
            // They come in another way.
            if self.continuous {
                basis.totals.set(now, self.app, None);
            }
            *self = Self::new(now, basis, self.app, &self.target.clone(), None);
        }
    }

    /// When there are credits again; `None` while there are some.
    pub(super) fn due(&mut self, now: Time, basis: &mut Basis) -> Option<Due> {
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
    pub(super) fn charge(&mut self, now: Time, basis: &mut Basis, cost: Bytes) {
        if self.continuous {
            return basis.totals.charge(now, self.app, cost);
        }
        self.update(basis);
        self.credits -= credits_of(cost);
    }

    /// What was charged as `charged` costs `real`. Credits never exceed those of a period.
    pub(super) fn recharge(&mut self, now: Time, basis: &mut Basis, [charged, real]: [Bytes; 2]) {
        if self.continuous {
            return basis.totals.recharge(now, self.app, [charged, real]);
        }
        self.update(basis);
        let credits = self.credits + credits_of(charged) - credits_of(real);
        self.credits = credits.min(quota(&self.target, basis));
    }

    /// Adds all replenishments until now.
    pub(super) fn update(&mut self, basis: &Basis) {
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
    use crate::total::{Reach, Scope, TotalKind};

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
