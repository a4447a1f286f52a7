//! Service elsewhere of applications in shares.
//!
//! Each member has an account of its own, as any other flow: it is delayed by what it gets elsewhere itself. But a
//! *share* has one weight, so what its members get elsewhere without being here counts for those that are: otherwise
//! one name for each server would get the whole weight at each of them.
//!
//! - A member that is not present here *lends* what is pending for it to its share, for which present members pay, each
//!   its part by weight. When it comes back, it is charged with what is pending as any flow, and the share gets that
//!   back: what remains with the share is what was absorbed.
//! - Members that have never been here (strangers) have no account; their share pays for all they get.
//! - While nothing in a share is present, the share *owes* it, and lends it to the next one in the same way, as its
//!   member. When something comes, the service by which the share lagged behind virtual time is deducted, and the first
//!   that come pay the rest.

use alloc::vec::Vec;

use crate::app_policy::ShareId;
use crate::shares::Shares;
use crate::units::VirtualTime;

/// The accounts of all shares, by number.
#[derive(Debug, Default)]
pub(super) struct Lent(Vec<Account>);

/// What members get elsewhere without being here, in service of the whole share.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// For which present members pay, since the beginning.
    charged: i128,
    /// For which nobody in it pays yet.
    owed: i128,
    /// Of what present members of the share that it is in pay for, as much as it has paid.
    paid: i128,
}

/// The part of `charges` for this weight among these, rounded towards zero.
pub(super) fn part_by_weight(charges: i128, weight: u64, weights: u64) -> i128 {
    charges.saturating_mul(weight.into()) / i128::from(weights)
}

impl Lent {
    /// Members of `share` got `service` more (or less) elsewhere without being here. O(depth).
    pub(super) fn add(&mut self, shares: &Shares, share: ShareId, service: i128) {
        let mut at = Some(share);
        while let Some(share) = at {
            let account = self.of(share);
            if shares.is_share_present(share) {
                account.charged = account.charged.saturating_add(service);
                return;
            }
            account.owed = account.owed.saturating_add(service);
            at = shares.policy_of(share).parent;
        }
    }

    /// A member of `share` that was not present joins; `lent` is what the share was charged for it, of which it keeps
    /// what was `absorbed`. Returns from where on the member pays. O(depth²), once each time that something comes.
    pub(super) fn join(
        &mut self,
        (shares, now): (&Shares, VirtualTime),
        share: ShareId,
        [lent, absorbed]: [i128; 2],
    ) -> i128 {
        self.add(shares, share, absorbed - lent);
        let pays_from = self.charged(shares, share);
        if shares.is_share_present(share) {
            return pays_from;
        }
        let owed = core::mem::take(&mut self.of(share).owed);
        // What it lagged is unused share, which makes up for service elsewhere.
        let charged = (owed - i128::from(shares.lag_of(share, now).0)).max(owed.min(0));
        if let Some(next) = shares.policy_of(share).parent {
            self.of(share).paid = self.join((shares, now), next, [owed, owed - charged]);
        }
        self.of(share).charged += charged;
        pays_from
    }

    /// What present members of `share` have to pay, since the beginning. A share that is present first takes over its
    /// part of what is to be paid in the next one. O(depth).
    pub(super) fn charged(&mut self, shares: &Shares, share: ShareId) -> i128 {
        let policy = shares.policy_of(share);
        if let Some(next) = policy.parent.filter(|_| shares.is_share_present(share)) {
            let charged = self.charged(shares, next);
            let (weight, weights) = (u64::from(policy.weight.get()), shares.weights_in(next));
            let account = self.of(share);
            let part = part_by_weight(charged - account.paid, weight, weights);
            account.paid += part_by_weight(part, weights, weight);
            account.charged += part;
        }
        self.of(share).charged
    }

    fn of(&mut self, share: ShareId) -> &mut Account {
        if share.index() >= self.0.len() {
            self.0.resize(share.index() + 1, Account::default());
        }
        &mut self.0[share.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app_policy::{AppPolicy, SharePolicy};
    use crate::units::{AppId, Bytes, Weight};

    const SHARE: ShareId = ShareId(0);
    /// In it.
    const INNER: ShareId = ShareId(1);

    fn at(bytes: u64) -> VirtualTime {
        VirtualTime::of(Bytes(bytes), Weight::ONE)
    }

    /// Applications 0 and 1 in SHARE, 2 and 3 in INNER; virtual time is `now`.
    fn shares(present: &[u32], now: u64) -> Shares {
        let mut shares = Shares::new(0);
        shares.set_share(at(0), INNER, Some(&SharePolicy { parent: Some(SHARE), ..SharePolicy::default() }));
        for app in 0..4 {
            let share = Some(if app < 2 { SHARE } else { INNER });
            shares.set(at(0), AppId(app), &AppPolicy { share, ..AppPolicy::default() });
        }
        present.iter().for_each(|app| _ = shares.on_arrival(AppId(*app), at(now)));
        shares
    }

    #[test]
    fn the_share_keeps_what_was_absorbed() {
        let (mut lent, shares) = (Lent::default(), shares(&[0], 0));
        lent.add(&shares, SHARE, 100);
        assert_eq!(lent.join((&shares, at(0)), SHARE, [100, 30]), 30, "70 are charged to the member itself");
        assert_eq!(lent.charged(&shares, SHARE), 30);
    }

    #[test]
    fn what_nobody_paid_is_paid_by_who_comes_first_less_the_lag() {
        let (mut lent, shares) = (Lent::default(), shares(&[], 0));
        let mut come = |owed| {
            lent.add(&shares, SHARE, owed);
            let pays_from = lent.join((&shares, at(40)), SHARE, [0, 0]);
            (pays_from, lent.charged(&shares, SHARE))
        };
        assert_eq!(come(100), (0, 60));
        assert_eq!(come(10), (60, 60), "a lag is no credit");
        assert_eq!(come(-10), (60, 50), "but what is given back is");
    }

    #[test]
    fn what_is_lent_in_a_share_that_is_not_here_is_paid_in_the_next_one_and_given_back() {
        let (mut lent, absent) = (Lent::default(), shares(&[0], 0));
        lent.add(&absent, INNER, 100);
        assert_eq!(lent.charged(&absent, SHARE), 100, "application 0 pays all");
        assert_eq!(lent.join((&absent, at(0)), INNER, [0, 0]), 0);
        assert_eq!(lent.charged(&absent, SHARE), 0, "INNER pays itself, since it does not lag");
        let both = shares(&[0, 2], 0);
        assert_eq!(lent.charged(&both, INNER), 100);
        lent.add(&both, SHARE, 50);
        assert_eq!(lent.charged(&both, INNER), 125, "and a half of what application 1 gets");
    }
}
