//! Totals of service by flow: this server's own, ordered by their latest changes, its view of each peer's, and the sums
//! over all servers.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use vpfs_core::Time;

use super::message::{Counted, FlowKey, FlowTotal, Message, Position};

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

/// A change that a message made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The flow is at the peer.
    Arrived(Account),
    /// The peer's total changed.
    Moved(Account, i64, Meaning),
    /// The flow is no longer at the peer.
    Left(Account),
    /// There is no room for another flow of this peer.
    Refused(Account),
}

/// What a changed total means for the local scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Service that others got elsewhere.
    Service,
    /// Service given before the peer was known, or while it was lost.
    Baseline,
    /// More than any server can give.
    Implausible,
}

/// How a message fits the current view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Everything in it is known now.
    Known,
    /// Earlier changes are missing, so none of it was used.
    Gap,
}

#[derive(Debug)]
pub(crate) struct Limits<'a> {
    /// Totals of one peer.
    pub(crate) max_flows: usize,
    /// Service that it can have given, at `rate`.
    pub(crate) allowance: &'a mut Allowance,
    pub(crate) rate: u64,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    born: u64,
    total: i64,
    /// Mentioned since the peer started over.
    confirmed: bool,
    /// Mentioned since the baseline began, so that further steps are news.
    is_news: bool,
}

/// ClusterTotals of one incarnation of one peer.
///
/// Messages are applied only without gaps, so everything up to one version is known, and earlier changes are ignored.
#[derive(Debug, Default)]
pub(crate) struct View {
    records: BTreeMap<Account, Record>,
    at: Position,
    /// The age of the peer's totals in the latest message used.
    latest: Duration,
    /// The first step of each flow is a baseline until everything that the peer has is known, up to this version at
    /// least. Until then, all that moves may have been heard before.
    baseline_to: Option<u64>,
    /// The peer started over; flows that it does not mention have left.
    starting_over: bool,
}

impl View {
    /// Nothing known yet. With a baseline, it is complete when everything is known, up to this version at least.
    pub(crate) fn new(baseline_to: Option<u64>) -> Self {
        Self { baseline_to, ..Self::default() }
    }

    /// The peer was lost and is back: what it gave meanwhile is a baseline.
    pub(crate) fn begin_baseline(&mut self) {
        self.baseline_to.get_or_insert(0);
        self.records.values_mut().for_each(|record| record.is_news = false);
    }

    pub(crate) fn at(&self) -> Position {
        self.at
    }

    pub(crate) fn total(&self, account: Account) -> Option<i64> {
        self.records.get(&account).map(|record| record.total)
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = Account> + '_ {
        self.records.keys().copied()
    }

    /// Applies the new content of `message` and appends the changes that it made. O(entries · log flows).
    pub(crate) fn apply(&mut self, message: &Message, limits: &mut Limits<'_>, changes: &mut Vec<Change>) -> Fit {
        if message.at.horizon < self.at.horizon {
            return Fit::Known;
        }
        self.move_horizon(message.at.horizon);
        if message.base > self.at.version {
            return Fit::Gap;
        }
        if message.at.version > self.at.version {
            let known = std::mem::replace(&mut self.at.version, message.at.version);
            let news = message.entries.iter().filter(|entry| entry.changed > known);
            news.for_each(|entry| self.apply_entry(known, entry, limits, changes));
        }
        // An earlier message that arrives late does not know what a later one left out: flows that moved since.
        let is_latest = message.age >= self.latest;
        self.latest = self.latest.max(message.age);
        if message.at.version == self.at.version && !message.more && is_latest {
            limits.allowance.close();
            self.on_caught_up(changes);
        }
        Fit::Known
    }

    fn move_horizon(&mut self, horizon: u64) {
        if horizon > self.at.horizon && self.at.version < horizon {
            self.at.version = 0;
            self.starting_over = true;
            self.records.values_mut().for_each(|record| record.confirmed = false);
        }
        self.at.horizon = horizon;
    }

    /// Takes an entry of a message; before it, everything up to version `at` was known.
    fn apply_entry(&mut self, at: u64, entry: &FlowTotal, limits: &mut Limits<'_>, changes: &mut Vec<Change>) {
        let account = (entry.key, entry.counted);
        let has_room = self.records.len() < limits.max_flows;
        let record = match self.records.entry(account) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) if has_room => {
                changes.push(Change::Arrived(account));
                place.insert(Record { born: entry.born, total: 0, confirmed: true, is_news: false })
            }
            Entry::Vacant(_) => return changes.push(Change::Refused(account)),
        };
        let before = if record.born == entry.born { record.total } else { 0 };
        let is_first = !record.is_news;
        *record = Record { born: entry.born, total: entry.total, confirmed: true, is_news: true };
        let step = entry.total.saturating_sub(before);
        if step != 0 {
            let is_baseline = self.baseline_to.is_some_and(|to| is_first || at < to);
            changes.push(Change::Moved(account, step, Self::meaning(is_baseline, step, limits)));
        }
        if entry.left {
            self.remove(account, changes);
        }
    }

    fn meaning(is_baseline: bool, step: i64, limits: &mut Limits<'_>) -> Meaning {
        if is_baseline {
            Meaning::Baseline
        } else if limits.allowance.take(step.unsigned_abs(), limits.rate) {
            Meaning::Service
        } else {
            Meaning::Implausible
        }
    }

    fn on_caught_up(&mut self, changes: &mut Vec<Change>) {
        self.baseline_to = self.baseline_to.filter(|to| self.at.version < *to);
        if std::mem::take(&mut self.starting_over) {
            let gone: Vec<Account> =
                self.records.iter().filter(|(_, record)| !record.confirmed).map(|(account, _)| *account).collect();
            gone.into_iter().for_each(|account| self.remove(account, changes));
        }
    }

    fn remove(&mut self, account: Account, changes: &mut Vec<Change>) {
        self.records.remove(&account);
        changes.push(Change::Left(account));
    }
}

/// What a peer may report: what a server can give at most, for the time since its last message. So one that had nothing
/// to say for an hour may report an hour's service at once, but one that sends messages all the time may at no time
/// report more than [`Allowance::SLACK`] gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// In nanoseconds of service at the highest rate.
    nanos: u128,
    filled_at: Time,
}

impl Allowance {
    /// Messages are late, and tell of service that was given before they were sent.
    const SLACK: Duration = Duration::from_secs(10);

    pub(crate) fn new(now: Time) -> Self {
        Self { nanos: Self::SLACK.as_nanos(), filled_at: now }
    }

    /// A message arrived, which may tell of all the time since the last one.
    pub(crate) fn open(&mut self, now: Time) {
        self.nanos += u128::from(now.as_nanos().saturating_sub(self.filled_at.as_nanos()));
        self.filled_at = self.filled_at.max(now);
    }

    /// Whether the peer can have given `bytes`, at `rate` bytes per second. If not, they do not count.
    pub(crate) fn take(&mut self, bytes: u64, rate: u64) -> bool {
        let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
        let left = self.nanos.checked_sub(nanos);
        self.nanos = left.unwrap_or(self.nanos);
        left.is_some()
    }

    pub(crate) fn close(&mut self) {
        self.nanos = self.nanos.min(Self::SLACK.as_nanos());
    }
}

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

    pub(crate) fn add(&mut self, account: Account, source: Source, bytes: i64) {
        let Some(total) = self.flows.get_mut(&account) else { return };
        total.bytes = total.bytes.saturating_add(bytes);
        if let (Source::Here, Some(here)) = (source, &mut total.here) {
            *here = here.saturating_add(bytes);
        }
    }

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
