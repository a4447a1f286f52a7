//! Service elsewhere of applications that share one weight.
//!
//! Each member has an account of its own, as any other flow: it is delayed by what it gets elsewhere itself. But the
//! *group* has one weight, so what its members get elsewhere without being here counts for those that are: otherwise
//! one name for each server would get the whole weight at each of them.
//!
//! - A member that is not present here *lends* what is pending for it to the group, whose present members pay for it
//!   in equal parts. When it comes back, it is charged with what is pending as any flow, and the group gets that back:
//!   what remains with the group is what was absorbed.
//! - Members that have never been here (strangers) have no account; the group pays for all they get.
//! - While no member is present, the group owes it. Then the service by which the group lagged behind virtual time is
//!   deducted, and the first members that come pay the rest.

use alloc::vec::Vec;

use crate::app_policy::GroupId;
use crate::shares::Membership;

/// The accounts of all groups, by number.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Account>);

/// What members get elsewhere without being here, in service of the whole group.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// For which present members pay, since the beginning.
    charged: i128,
    /// For which nobody pays yet.
    owed: i128,
}

impl Groups {
    /// The group's members elsewhere got `service` more (or less) while `present` members were here.
    pub(super) fn add(&mut self, group: GroupId, present: u32, service: i128) {
        let account = self.of(group);
        let side = if present > 0 { &mut account.charged } else { &mut account.owed };
        *side = side.saturating_add(service);
    }

    /// A member that was not present joins; `lent` is what the group was charged for it, of which it keeps what was
    /// `absorbed`. Returns from where on the member pays.
    pub(super) fn join(&mut self, member: Membership, lent: u64, absorbed: u64) -> i128 {
        self.add(member.group, member.present, i128::from(absorbed) - i128::from(lent));
        let account = self.of(member.group);
        let pays_from = account.charged;
        if member.present == 0 {
            let owed = core::mem::take(&mut account.owed);
            // What it lagged is unused share, which makes up for service elsewhere.
            account.charged += (owed - i128::from(member.lag.0)).max(owed.min(0));
        }
        pays_from
    }

    /// What present members have to pay, since the beginning.
    pub(super) fn charged(&self, group: GroupId) -> i128 {
        self.0.get(group.index()).map_or(0, |account| account.charged)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    fn of(&mut self, group: GroupId) -> &mut Account {
        if group.index() >= self.0.len() {
            self.0.resize(group.index() + 1, Account::default());
        }
        &mut self.0[group.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    const GROUP: GroupId = GroupId(0);

    fn member(present: u32, lag: u64) -> Membership {
        Membership { group: GROUP, is_present: false, present, lag: Bytes(lag) }
    }

    #[test]
    fn the_group_keeps_what_was_absorbed() {
        let mut groups = Groups::default();
        groups.add(GROUP, 2, 100);
        assert_eq!(groups.join(member(2, 0), 100, 30), 30, "70 are charged to the member itself");
        assert_eq!(groups.charged(GROUP), 30);
    }

    #[test]
    fn what_nobody_paid_is_paid_by_who_comes_first_less_the_lag() {
        let mut groups = Groups::default();
        groups.add(GROUP, 0, 100);
        assert_eq!(groups.join(member(0, 40), 0, 0), 0);
        assert_eq!(groups.charged(GROUP), 60);
        groups.add(GROUP, 0, 10);
        assert_eq!(groups.join(member(0, 40), 0, 0), 60);
        assert_eq!(groups.charged(GROUP), 60, "a lag is no credit");
        groups.add(GROUP, 0, -10);
        assert_eq!(groups.join(member(0, 40), 0, 0), 60);
        assert_eq!(groups.charged(GROUP), 50, "but what is given back is");
    }
}
