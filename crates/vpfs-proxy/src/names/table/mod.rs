//! Which host names are looked up, and when: a state machine without I/O (docs/decisions/0009-operation.md).
//!
//! Drain [`Table::poll_lookup`], [`Table::take_changed`] and [`Table::take_settled`] after each input and at
//! [`Table::poll_timeout`]. Each name is looked up once at a time. Its last addresses stay until it has others: a name
//! server that fails takes nothing away.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use vpfs_core::Time;

/// Look-ups at a time.
const PROMPT_MAX: usize = 32;
/// A look-up that takes longer is most likely one that will not be answered; others start beside it.
const SLOW: Duration = Duration::from_secs(2);
/// All look-ups at a time, the slow ones included: the number of threads that may hang.
const ASKED_MAX: usize = 128;
/// The pause after the first failure; it doubles with each one.
const RETRY: Duration = Duration::from_secs(5);
/// The longest pause after a failure, so that everything is found a minute after a name server is back.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// After this time an address may have changed.
const REFRESH: Duration = Duration::from_secs(300);
/// Both pauses are at least as long as this times the number of names: at most 50 look-ups a second on average.
const PACE: Duration = Duration::from_millis(20);
/// Changes are applied together, so that many names that are found one after the other do not mean as many changes.
const SETTLE: Duration = Duration::from_millis(100);
/// All names should have been answered by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two reports.
const REPORT: Duration = Duration::from_secs(10);
/// Addresses of one name.
const ADDRESSES_MAX: usize = 64;

/// All names that are wanted, with what is known about each.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<String, Entry>,
    /// The names that are due first.
    fresh: BTreeSet<String>,
    /// The others, by the time when they are due.
    later: BTreeSet<(Time, String)>,
    /// Look-ups in progress, by their start.
    asked: BTreeSet<(Time, String)>,
    /// What an earlier process knew about names that nobody has wanted yet.
    remembered: BTreeMap<String, Vec<IpAddr>>,
    /// Since when addresses differ from those that were taken last.
    changed: Option<Time>,
    /// Names without an answer since all of them became due.
    unanswered: usize,
    /// When a report is due; until all names have an answer, that is when waiting for them ends.
    report: Option<Time>,
    reported: Option<Time>,
    hurried: Option<Time>,
}

#[derive(Debug)]
struct Entry {
    addresses: Vec<IpAddr>,
    /// Why the last look-up found nothing.
    failure: Option<String>,
    failures: u32,
    stage: Stage,
    /// When it was answered last, by an address or a failure.
    answered: Option<Time>,
    /// Whether it has been answered since it became due with all others.
    is_pending: bool,
    is_wanted: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Fresh,
    Later(Time),
    Asked(Time),
}

impl Table {
    /// Knows what an earlier process knew, and wants nothing yet.
    pub(crate) fn new(remembered: BTreeMap<String, Vec<IpAddr>>) -> Self {
        Self { remembered, ..Self::default() }
    }

    /// These names are wanted from now on, and no others. All of them are looked up again.
    pub(crate) fn want(&mut self, now: Time, names: BTreeSet<String>) {
        for entry in self.entries.values_mut() {
            entry.is_wanted = false;
        }
        for name in names {
            let remembered = &mut self.remembered;
            let entry = self.entries.entry(name).or_insert_with_key(|name| Entry {
                addresses: remembered.remove(name).unwrap_or_default(),
                failure: None,
                failures: 0,
                stage: Stage::Fresh,
                answered: None,
                is_pending: true,
                is_wanted: true,
            });
            (entry.is_wanted, entry.is_pending) = (true, true);
            if let Stage::Later(_) = entry.stage {
                entry.stage = Stage::Fresh;
            }
        }
        self.entries.retain(|_, entry| entry.is_wanted || matches!(entry.stage, Stage::Asked(_)));
        let fresh = self.entries.iter().filter(|(_, entry)| matches!(entry.stage, Stage::Fresh));
        self.fresh = fresh.map(|(name, _)| name.clone()).collect();
        self.later.clear();
        self.unanswered = self.entries.values().filter(|entry| entry.is_wanted).count();
        self.report = Some(if self.unanswered > 0 { now + PATIENCE } else { now });
    }

    /// The next name to look up now; call until `None`. Its answer goes to [`Self::answered`].
    pub(crate) fn poll_lookup(&mut self, now: Time) -> Option<String> {
        if self.slot_at()? > now {
            return None;
        }
        let name = match self.fresh.pop_first() {
            Some(name) => name,
            None if self.later.first()?.0 <= now => self.later.pop_first()?.1,
            None => return None,
        };
        self.entries.get_mut(&name).expect("a name that is due is known").stage = Stage::Asked(now);
        self.asked.insert((now, name.clone()));
        Some(name)
    }

    /// When a look-up may start; `None`: only after another one has ended.
    fn slot_at(&self) -> Option<Time> {
        if self.asked.len() >= ASKED_MAX {
            return None;
        }
        Some(self.asked.iter().rev().nth(PROMPT_MAX - 1).map_or(Time::ZERO, |(since, _)| *since + SLOW))
    }

    /// A look-up has ended, with addresses or with the reason why there are none.
    pub(crate) fn answered(&mut self, now: Time, name: &str, answer: Result<Vec<IpAddr>, String>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let Stage::Asked(since) = entry.stage else { return };
        self.asked.remove(&(since, name.to_owned()));
        if !entry.is_wanted {
            self.entries.remove(name);
            return;
        }
        entry.answered = Some(now);
        let was_failing = entry.failure.is_some();
        let has_changed = entry.take(answer);
        let (is_failing, was_pending) = (entry.failure.is_some(), std::mem::take(&mut entry.is_pending));
        let failures = entry.failures;
        self.put_off(name, now + self.pause(failures));
        if has_changed {
            self.changed.get_or_insert(now);
        }
        if was_failing && !is_failing {
            self.hurry_failing(now);
        }
        self.settle(now, was_pending, has_changed || was_failing != is_failing);
    }

    fn pause(&self, failures: u32) -> Duration {
        let pace = PACE * u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        match failures.checked_sub(1) {
            None => REFRESH.max(pace),
            Some(doublings) => RETRY.saturating_mul(1 << doublings.min(10)).min(RETRY_MAX.max(pace)),
        }
    }

    fn put_off(&mut self, name: &str, due: Time) {
        let entry = self.entries.get_mut(name).expect("known to the caller");
        if let Stage::Later(before) = std::mem::replace(&mut entry.stage, Stage::Later(due)) {
            self.later.remove(&(before, name.to_owned()));
        }
        self.later.insert((due, name.to_owned()));
    }

    /// A name server is back: the other names that failed are looked up soon.
    fn hurry_failing(&mut self, now: Time) {
        if self.hurried.is_some_and(|last| now < last + RETRY) {
            return;
        }
        self.hurried = Some(now);
        let is_later = |entry: &Entry| matches!(entry.stage, Stage::Later(due) if due > now);
        let failing = self.entries.iter().filter(|(_, entry)| entry.failure.is_some() && is_later(entry));
        for name in failing.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.put_off(&name, now);
        }
    }

    /// The report is due at once when all have answered, and some time after the last one if there is news.
    fn settle(&mut self, now: Time, was_pending: bool, is_news: bool) {
        if was_pending {
            self.unanswered -= 1;
            if self.unanswered == 0 {
                self.report = Some(now);
            }
        }
        if is_news && self.report.is_none() {
            self.report = Some(self.reported.map_or(now, |last| last + REPORT).max(now + SETTLE));
        }
    }

    /// Somebody uses this name: it is looked up again soon, unless its last answer is younger than `age`.
    pub(crate) fn hurry(&mut self, now: Time, name: &str, age: Duration) {
        let Some(entry) = self.entries.get(name) else { return };
        if matches!(entry.stage, Stage::Later(due) if due > now) && entry.answered.is_none_or(|at| at + age <= now) {
            self.put_off(name, now);
        }
    }

    /// Whether addresses have changed, once for changes that are close together.
    pub(crate) fn take_changed(&mut self, now: Time) -> bool {
        let is_due = self.changed.is_some_and(|since| since + SETTLE <= now);
        if is_due {
            self.changed = None;
        }
        is_due
    }

    /// Whether it is time to report, and to keep what is known: all names were looked up, or waiting for them has
    /// taken [`PATIENCE`], or there is news.
    pub(crate) fn take_settled(&mut self, now: Time) -> bool {
        let is_due = self.report.is_some_and(|due| due <= now);
        if is_due {
            (self.report, self.reported) = (None, Some(now));
        }
        is_due
    }

    /// When to poll again.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let next = if self.fresh.is_empty() { self.later.first().map(|(due, _)| *due) } else { Some(Time::ZERO) };
        let lookup = self.slot_at().and_then(|slot| next.map(|due| due.max(slot)));
        let changed = self.changed.map(|since| since + SETTLE);
        [lookup, changed, self.report].into_iter().flatten().min()
    }

    /// What is known about a name: the addresses that it had last, or why it has none; `None`: not yet looked up.
    pub(crate) fn answer(&self, name: &str) -> Option<Result<&[IpAddr], &str>> {
        let entry = self.entries.get(name)?;
        match &entry.failure {
            _ if !entry.addresses.is_empty() => Some(Ok(&entry.addresses)),
            Some(reason) => Some(Err(reason)),
            None => None,
        }
    }

    /// The addresses that a name had last.
    pub(crate) fn addresses(&self, name: &str) -> &[IpAddr] {
        self.entries.get(name).map_or(&[], |entry| &entry.addresses)
    }

    /// Whether a name has been answered since all of them became due.
    pub(crate) fn is_current(&self, name: &str) -> bool {
        self.entries.get(name).is_none_or(|entry| !entry.is_pending)
    }

    /// Names whose last look-up found nothing, but that have addresses, with the reason.
    pub(crate) fn stale(&self) -> impl Iterator<Item = (&str, &str)> {
        let stale = self.entries.iter().filter(|(_, entry)| entry.is_wanted && !entry.addresses.is_empty());
        stale.filter_map(|(name, entry)| Some((name.as_str(), entry.failure.as_deref()?)))
    }

    /// All names that have addresses.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&str, &[IpAddr])> {
        let known = self.entries.iter().filter(|(_, entry)| entry.is_wanted && !entry.addresses.is_empty());
        known.map(|(name, entry)| (name.as_str(), &entry.addresses[..]))
    }
}

impl Entry {
    /// Whether the addresses are others than before.
    fn take(&mut self, answer: Result<Vec<IpAddr>, String>) -> bool {
        let found = answer.map(|mut found| {
            found.truncate(ADDRESSES_MAX);
            found
        });
        match found {
            Ok(found) if !found.is_empty() => {
                (self.failure, self.failures) = (None, 0);
                // Name servers give them in any order.
                let has_changed = sorted(&found) != sorted(&self.addresses);
                self.addresses = found;
                has_changed
            }
            Ok(_) => self.fail("it has no address".to_owned()),
            Err(reason) => self.fail(reason),
        }
    }

    fn fail(&mut self, reason: String) -> bool {
        self.failure = Some(reason);
        self.failures = self.failures.saturating_add(1);
        false
    }
}

fn sorted(addresses: &[IpAddr]) -> BTreeSet<IpAddr> {
    addresses.iter().map(IpAddr::to_canonical).collect()
}

#[cfg(test)]
mod tests;
