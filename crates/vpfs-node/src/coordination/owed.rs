//! Service of which the local scheduler has not heard yet.

use super::own_totals::Account;

/// Amounts as they came, which are put in the order of their accounts when the first one is taken: mostly there is one.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// The last one is the next to be taken, if they are in order.
    amounts: Vec<(Account, i64)>,
    is_in_order: bool,
}

impl Owed {
    /// More of an account. O(1), no allocation once it has grown.
    pub(crate) fn add(&mut self, account: Account, bytes: i64) {
        self.is_in_order = self.amounts.is_empty();
        self.amounts.push((account, bytes));
    }

    /// The first account for which something is owed, with all of it. O(log amounts) for each amount that was added.
    pub(crate) fn pop(&mut self) -> Option<(Account, i64)> {
        if !std::mem::replace(&mut self.is_in_order, true) {
            // Stable, so that a sum that reaches the limit of its type is always the same.
            self.amounts.sort_by(|(one, _), (other, _)| other.cmp(one));
            self.amounts.dedup_by(|(account, bytes), (before, sum)| {
                let is_same = account == before;
                *sum = if is_same { sum.saturating_add(*bytes) } else { *sum };
                is_same
            });
            self.amounts.retain(|(_, bytes)| *bytes != 0);
        }
        self.amounts.pop()
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::ServiceClass;

    use super::*;
    use crate::coordination::FlowKey;

    #[test]
    fn amounts_of_an_account_are_taken_together_and_in_order() {
        let account = |key| (FlowKey(key), ServiceClass::Data.into());
        let mut owed = Owed::default();
        for (key, bytes) in [(3, 10), (1, 5), (3, -4), (2, 7), (2, -7)] {
            owed.add(account(key), bytes);
        }
        assert_eq!(owed.pop(), Some((account(1), 5)));
        owed.add(account(1), 2);
        owed.add(account(3), 1);
        assert_eq!([owed.pop(), owed.pop(), owed.pop()], [Some((account(1), 2)), Some((account(3), 7)), None]);
    }
}
