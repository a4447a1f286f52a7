//! This server's own totals, ordered by their latest changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use vpfs_core::Time;

use super::message::{Counted, FlowKey, FlowTotal, Position};

/// The unit of counting: one thing that is counted of one flow.
pub(crate) type Account = (FlowKey, Counted);

/// This server already has the maximum number of flows, and none of them has left. The new flow's service here is not
/// reported to other servers, so its share holds at each server separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("more than {max_flows} flows; the service of further ones is not reported to other servers")]
pub struct FlowsExceeded {
    /// The maximum number of totals.
    pub max_flows: usize,
}

/// Each change gets the next version, so that the changes after version x are a range. The entry of a flow that left
/// never changes again: a flow that comes back gets another entry, and peers apply the two in order.
#[derive(Debug, Default)]
pub(crate) struct OwnTotals {
    /// By the version of the latest change.
    entries: BTreeMap<u64, FlowTotal>,
    /// The versions of the entries of flows that are present.
    present: BTreeMap<Account, u64>,
    /// When flows left, and the version of that change.
    departures: VecDeque<(Time, u64)>,
    end: Position,
    /// The latest answer of [`OwnTotals::changes`], for its arguments: most peers need the same one.
    told: Option<((u64, usize), Changes)>,
}

/// Changes, and the version up to which they are complete.
type Changes = (Arc<[FlowTotal]>, u64);

impl OwnTotals {
    /// Adds `delta` to a total, which is created if it does not exist. O(log flows).
    pub(crate) fn add(&mut self, account: Account, delta: i64, max_flows: usize) -> Result<(), FlowsExceeded> {
        let mut entry = match self.present.get(&account).and_then(|version| self.entries.remove(version)) {
            Some(entry) => entry,
            None => self.new_entry(account, max_flows)?,
        };
        entry.total = entry.total.saturating_add(delta);
        let version = self.push(entry);
        self.present.insert(account, version);
        Ok(())
    }

    /// The flow left. Returns whether it was present.
    pub(crate) fn close(&mut self, now: Time, account: Account) -> bool {
        let Some(entry) = self.present.remove(&account).and_then(|version| self.entries.remove(&version)) else {
            return false;
        };
        let version = self.push(FlowTotal { left: true, ..entry });
        self.departures.push_back((now, version));
        true
    }

    /// Forgets flows that left at least `after` ago, within the first `acked` versions. O(log flows) each.
    pub(crate) fn forget(&mut self, now: Time, after: Duration, acked: u64) {
        while self.departures.front().is_some_and(|&(at, version)| at + after <= now && version <= acked) {
            self.forget_oldest();
        }
    }

    /// When the first of the departed flows that are still kept left.
    pub(crate) fn oldest_departure(&self) -> Option<Time> {
        self.departures.front().map(|&(at, _)| at)
    }

    /// The changes after `base`, at most `max`, and the version up to which they are complete. O(max + log flows), and
    /// O(1) if asked again.
    pub(crate) fn changes(&mut self, base: u64, max: usize) -> Changes {
        if let Some((_, changes)) = self.told.as_ref().filter(|(of, _)| *of == (base, max)) {
            return changes.clone();
        }
        let mut later = self.entries.range(base + 1..);
        let entries: Arc<[FlowTotal]> = later.by_ref().take(max).map(|(_, entry)| *entry).collect();
        let reached = entries.last().map_or(base, |entry| entry.changed);
        let changes = (entries, if later.next().is_none() { self.end.version } else { reached });
        self.told = Some(((base, max), changes.clone()));
        changes
    }

    /// The version from which a peer that acknowledged `acked` can continue.
    pub(crate) fn resume_from(&self, acked: Position) -> u64 {
        if acked.horizon == self.end.horizon || acked.version >= self.end.horizon { acked.version } else { 0 }
    }

    /// The current position of this server.
    pub(crate) fn end(&self) -> Position {
        self.end
    }

    pub(crate) fn total(&self, account: Account) -> Option<i64> {
        let version = self.present.get(&account)?;
        self.entries.get(version).map(|entry| entry.total)
    }

    fn new_entry(&mut self, (key, counted): Account, max_flows: usize) -> Result<FlowTotal, FlowsExceeded> {
        if self.entries.len() >= max_flows && !self.forget_oldest() {
            return Err(FlowsExceeded { max_flows });
        }
        let born = self.end.version + 1;
        Ok(FlowTotal { key, counted, born, changed: born, total: 0, left: false })
    }

    fn push(&mut self, entry: FlowTotal) -> u64 {
        let changed = self.end.version + 1;
        self.entries.insert(changed, FlowTotal { changed, ..entry });
        self.end.version = changed;
        self.told = None;
        changed
    }

    fn forget_oldest(&mut self) -> bool {
        let Some((_, version)) = self.departures.pop_front() else { return false };
        self.entries.remove(&version);
        self.end.horizon = version;
        self.told = None;
        true
    }
}
