//! Service by flow over all servers.

use std::collections::BTreeMap;

use super::own_totals::Account;

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    bytes: i64,
    /// Servers that have the flow.
    holders: u32,
}

/// Sums that are kept as long as any server has the flow. O(log flows) each.
#[derive(Debug, Default)]
pub(crate) struct ClusterTotals {
    flows: BTreeMap<Account, Total>,
}

impl ClusterTotals {
    pub(crate) fn hold(&mut self, account: Account) {
        self.flows.entry(account).or_default().holders += 1;
    }

    pub(crate) fn add(&mut self, account: Account, bytes: i64) {
        if let Some(total) = self.flows.get_mut(&account) {
            total.bytes = total.bytes.saturating_add(bytes);
        }
    }

    pub(crate) fn release(&mut self, account: Account) {
        if let Some(total) = self.flows.get_mut(&account) {
            total.holders -= 1;
            if total.holders == 0 {
                self.flows.remove(&account);
            }
        }
    }

    pub(crate) fn get(&self, account: Account) -> Option<i64> {
        self.flows.get(&account).map(|total| total.bytes)
    }
}
