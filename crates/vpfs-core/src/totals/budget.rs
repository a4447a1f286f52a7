//! What an application may use at one server of a rate: a bucket of its own, or a part in one for all servers.

use super::bucket::{Bucket, Filling};
use crate::app_policy::{Cap, Minimum};
use crate::request::Target;
use crate::total::{Reach, Scope};
use crate::units::{Bytes, Time};

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
pub(super) struct Budget {
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

    pub(super) fn full(rate: Rate, keeps_even: bool, reach: Reach, now: Time) -> Self {
        let total = (rate.scope == Scope::Total).then(|| Total {
            reach,
            part: None,
            even: Bucket::full(rate.even_part(keeps_even, reach), now),
            unreported: 0,
        });
        Self { rate, keeps_even, bucket: Bucket::full(rate.here(reach, None), now), total }
    }

    /// Changes rate, burst and scope; tokens are kept, up to the new burst.
    pub(super) fn set(&mut self, now: Time, rate: Rate, reach: Reach) {
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
    pub(super) fn set_reach(&mut self, now: Time, reach: Reach) {
        self.set(now, self.rate, reach);
    }

    /// Sets the part of the rate that may be used here; `None`: the whole of it, less what others use. Without effect
    /// on a rate for this server alone.
    pub(super) fn set_part(&mut self, now: Time, part: Option<u64>) {
        if let Some(total) = &mut self.total {
            total.part = part;
            let reach = total.reach;
            self.set(now, self.rate, reach);
        }
    }

    /// When to ask again; `None` if it may be used now.
    pub(super) fn due(&mut self, now: Time) -> Option<Time> {
        let due = self.bucket.due(now)?;
        let even = self.shared().filter(|total| total.part.is_none()).map(|total| total.even.due(now));
        even.map_or(Some(due), |even| even.map(|even| even.min(due)))
    }

    /// Takes `cost` in any case.
    pub(super) fn charge(&mut self, now: Time, cost: Bytes) {
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
    pub(super) fn charge_received(&mut self, now: Time, cost: Bytes) {
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
    pub(super) fn recharge(&mut self, now: Time, charged: Bytes, real: Bytes) {
        self.bucket.recharge(now, charged, real);
        if let Some(total) = &mut self.total {
            let more = i64::try_from(i128::from(real.0) - i128::from(charged.0)).unwrap_or(0);
            total.unreported = total.unreported.saturating_add(more);
        }
    }

    /// Other servers released `bytes`, or took some back.
    pub(super) fn hear(&mut self, now: Time, bytes: i64) {
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
    pub(super) fn poll_report(&mut self) -> Option<i64> {
        let rate = self.rate.rate;
        let total = self.shared()?;
        let enough = rate / Self::REPORTS_PER_SECOND / total.reach.servers();
        let is_enough = total.unreported != 0 && total.unreported.unsigned_abs() >= enough;
        is_enough.then(|| core::mem::take(&mut total.unreported))
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
}
