//! Service by flow over all servers, and where it is known from.

use std::collections::BTreeMap;

use super::own_totals::Account;

/// Where a flow is: at this server, or at a peer of one level of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Here,
    Level(usize),
}

#[derive(Clone, Debug, Default)]
struct Total {
    bytes: i64,
    /// This server's part of it since the flow arrived here, while it is here.
    here: Option<i64>,
    /// How many peers of each level have the flow; levels without any at the end are left out.
    peers: Vec<u32>,
}

/// Sums that are kept as long as this server or a peer has the flow. O(log flows) each.
#[derive(Debug, Default)]
pub(crate) struct ClusterTotals {
    flows: BTreeMap<Account, Total>,
}

impl ClusterTotals {
    /// The flow is at one more place.
    pub(crate) fn hold(&mut self, account: Account, source: Source) {
        let total = self.flows.entry(account).or_default();
        match source {
            Source::Here => total.here = total.here.or(Some(0)),
            Source::Level(level) => {
                if level >= total.peers.len() {
                    total.peers.resize(level + 1, 0);
                }
                total.peers[level] += 1;
            }
        }
    }

    /// Service of a flow that is held.
    pub(crate) fn add(&mut self, account: Account, source: Source, bytes: i64) {
        let Some(total) = self.flows.get_mut(&account) else { return };
        total.bytes = total.bytes.saturating_add(bytes);
        if let (Source::Here, Some(here)) = (source, &mut total.here) {
            *here = here.saturating_add(bytes);
        }
    }

    /// The flow is no longer at a place where it was held.
    pub(crate) fn release(&mut self, account: Account, source: Source) {
        let Some(total) = self.flows.get_mut(&account) else { return };
        match source {
            Source::Here => total.here = None,
            Source::Level(level) => {
                total.peers[level] -= 1;
                while total.peers.last() == Some(&0) {
                    total.peers.pop();
                }
            }
        }
        if total.here.is_none() && total.peers.is_empty() {
            self.flows.remove(&account);
        }
    }

    pub(crate) fn get(&self, account: Account) -> Option<i64> {
        self.flows.get(&account).map(|total| total.bytes)
    }

    /// This server's own part.
    pub(crate) fn here(&self, account: Account) -> Option<i64> {
        self.flows.get(&account)?.here
    }

    /// Whether the flow is anywhere but at peers of `level`, so that they must be told about it.
    pub(crate) fn is_outside(&self, account: Account, level: usize) -> bool {
        self.flows.get(&account).is_some_and(|total| total.is_outside(level))
    }

    /// All flows for which [`ClusterTotals::is_outside`] holds. O(flows · levels).
    pub(crate) fn outside(&self, level: usize) -> impl Iterator<Item = Account> + '_ {
        self.flows.iter().filter(move |(_, total)| total.is_outside(level)).map(|(account, _)| *account)
    }
}

impl Total {
    fn is_outside(&self, level: usize) -> bool {
        self.here.is_some() || self.peers.iter().enumerate().any(|(other, peers)| other != level && *peers > 0)
    }
}
