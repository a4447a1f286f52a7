//! One server's view of a peer's totals.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use super::message::{FlowTotal, Message, Position};
use super::own_totals::Account;
use super::plausible::Allowance;

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

/// What is believed of a peer.
#[derive(Debug)]
pub(crate) struct Limits<'a> {
    /// Totals of one peer.
    pub(crate) max_flows: usize,
    /// Service that it can have given.
    pub(crate) allowance: &'a mut Allowance,
    /// At this rate.
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
