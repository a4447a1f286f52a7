//! Which host names are looked up, and when: a state machine without I/O (docs/decisions/0009-operation.md).
//!
//! Drain [`Table::poll_lookup`], [`Table::take_changed`] and [`Table::take_settled`] after each input and at
//! [`Table::poll_timeout`]. Each name is looked up once at a time. Its last addresses stay until it has others: a name
//! server that fails takes nothing away.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use vpfs_core::Time;

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

const REPORT: Duration = Duration::from_secs(10);

const ADDRESSES_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<String, Entry>,
    fresh: BTreeSet<String>,
    /// The others, by the time when they are due.
    later: BTreeSet<(Time, String)>,
    asked: BTreeSet<(Time, String)>,
    /// What an earlier process knew about names that nobody has wanted yet.
    remembered: BTreeMap<String, Vec<IpAddr>>,
    /// Since when addresses differ from those that were taken last.
    changed: Option<Time>,
    unanswered: usize,
    /// When a report is due; until all names have an answer, that is when waiting for them ends.
    report: Option<Time>,
    reported: Option<Time>,
    hurried: Option<Time>,
}

#[derive(Debug)]
struct Entry {
    addresses: Vec<IpAddr>,
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

    pub(crate) fn known(&self) -> impl Iterator<Item = (&str, &[IpAddr])> {
        let known = self.entries.iter().filter(|(_, entry)| entry.is_wanted && !entry.addresses.is_empty());
        known.map(|(name, entry)| (name.as_str(), &entry.addresses[..]))
    }
}

impl Entry {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the name server says about a name that is asked at this time, and how long it takes.
    type Server<'a> = &'a dyn Fn(&str, Duration) -> (Duration, Result<Vec<IpAddr>, String>);

    struct World<'a> {
        table: Table,
        now: Time,
        server: Server<'a>,
        coming: BTreeMap<(Time, String), Result<Vec<IpAddr>, String>>,
        asked: Vec<(Duration, String)>,
        most_at_once: usize,
        changes: Vec<Duration>,
        reports: Vec<Duration>,
    }

    impl<'a> World<'a> {
        fn new(names: usize, server: Server<'a>) -> Self {
            let table = Table::new(BTreeMap::new());
            let (coming, asked) = (BTreeMap::new(), Vec::new());
            let (changes, reports) = (Vec::new(), Vec::new());
            let mut world = Self { table, now: Time::ZERO, server, coming, asked, most_at_once: 0, changes, reports };
            world.table.want(world.now, (0..names).map(name).collect());
            world
        }

        fn elapsed(&self) -> Duration {
            self.now.since(Time::ZERO)
        }

        fn run_until(&mut self, end: Duration) {
            let end = Time::ZERO + end;
            loop {
                self.poll();
                let answer = self.coming.first_key_value().map(|((at, _), _)| *at);
                let next = [answer, self.table.poll_timeout()].into_iter().flatten().min();
                let Some(next) = next.filter(|next| *next <= end) else { break };
                assert!(next > self.now || answer == Some(next), "nothing is left to do now");
                self.now = next.max(self.now);
                while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= self.now) {
                    let ((_, name), answer) = entry.remove_entry();
                    self.table.answered(self.now, &name, answer);
                }
            }
            self.now = end;
        }

        fn poll(&mut self) {
            while let Some(name) = self.table.poll_lookup(self.now) {
                let (takes, answer) = (self.server)(&name, self.elapsed());
                assert!(!self.coming.keys().any(|(_, other)| *other == name), "{name} is asked twice at once");
                self.asked.push((self.elapsed(), name.clone()));
                self.coming.insert((self.now + takes, name), answer);
                self.most_at_once = self.most_at_once.max(self.coming.len());
            }
            if self.table.take_changed(self.now) {
                self.changes.push(self.elapsed());
            }
            if self.table.take_settled(self.now) {
                self.reports.push(self.elapsed());
            }
        }

        fn resolved(&self) -> usize {
            self.table.known().count()
        }

        fn asked_about(&self, name: &str) -> Vec<u64> {
            self.asked.iter().filter(|(_, asked)| asked == name).map(|(at, _)| at.as_secs()).collect()
        }
    }

    fn name(number: usize) -> String {
        format!("c{number:05}")
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    const MS: Duration = Duration::from_millis(1);

    const SECOND: Duration = Duration::from_secs(1);

    /// As long as the C library waits for a dead name server by default.
    const DEAD: Duration = Duration::from_secs(10);

    fn dead() -> (Duration, Result<Vec<IpAddr>, String>) {
        (DEAD, Err("no answer".to_owned()))
    }

    #[test]
    fn a_thousand_slow_names_take_seconds_and_few_changes() {
        let mut world = World::new(1000, &|_, _| (100 * MS, Ok(vec![ip(1)])));
        world.run_until(4 * SECOND);
        assert_eq!((world.resolved(), world.asked.len(), world.most_at_once), (1000, 1000, PROMPT_MAX));
        assert_eq!(world.reports, [3200 * MS], "when the last one is known");
        assert!(world.changes.len() <= 33, "{:?}", world.changes);
    }

    #[test]
    fn names_that_hang_do_not_delay_others() {
        let mut world = World::new(200, &|name, _| if name < "c00064" { dead() } else { (MS, Ok(vec![ip(1)])) });
        world.run_until(5 * SECOND);
        assert_eq!(world.resolved(), 136);
        world.run_until(11 * SECOND);
        assert_eq!(world.reports, [PATIENCE], "waiting for an answer has an end");
        assert!(world.table.answer("c00000").is_some_and(|answer| answer == Err("no answer")));
    }

    #[test]
    fn look_ups_that_hang_are_bounded() {
        let mut world = World::new(5000, &|_, _| (1000 * SECOND, Err("no answer".to_owned())));
        world.run_until(500 * SECOND);
        assert_eq!((world.asked.len(), world.most_at_once), (ASKED_MAX, ASKED_MAX));
    }

    #[test]
    fn failures_are_repeated_after_growing_pauses() {
        let mut world = World::new(1, &|_, _| (Duration::ZERO, Err("no such host".to_owned())));
        world.run_until(300 * SECOND);
        assert_eq!(world.asked_about("c00000"), [0, 5, 15, 35, 75, 135, 195, 255]);
        assert_eq!(world.reports, [Duration::ZERO], "nothing has changed since");
    }

    /// Symptom of the former design: a name server that failed stopped everything. Now what was known stays, and the
    /// first answer lets all others be asked.
    #[test]
    fn addresses_stay_while_the_name_server_fails_and_all_are_found_when_it_is_back() {
        let server = |name: &str, at: Duration| match at.as_secs() {
            0..100 if name < "c00050" => (MS, Ok(vec![ip(1)])),
            0..1000 => (MS, Err("no answer".to_owned())),
            _ => (MS, Ok(vec![ip(2)])),
        };
        let mut world = World::new(64, &server);
        world.run_until(999 * SECOND);
        assert_eq!((world.resolved(), world.table.stale().count()), (50, 50));
        assert_eq!(world.table.addresses("c00000"), [ip(1)]);
        world.run_until(1061 * SECOND);
        assert_eq!((world.resolved(), world.table.stale().count()), (64, 0));
        assert_eq!(world.table.addresses("c00000"), [ip(2)]);
        assert!(world.changes.len() <= 4, "{:?}", world.changes);
    }

    #[test]
    fn an_address_that_changes_is_noticed_and_its_order_does_not_matter() {
        let server = |_: &str, at: Duration| match at.as_secs() {
            0..200 => (MS, Ok(vec![ip(1), ip(2)])),
            200..500 => (MS, Ok(vec![ip(2), ip(1)])),
            _ => (MS, Ok(vec![ip(3)])),
        };
        let mut world = World::new(1, &server);
        world.run_until(500 * SECOND);
        assert_eq!(world.changes.len(), 1);
        world.run_until(601 * SECOND);
        assert_eq!((world.changes.len(), world.table.addresses("c00000")), (2, &[ip(3)][..]));
    }

    #[test]
    fn a_name_in_use_is_looked_up_again_but_not_more_often_than_asked() {
        let mut world = World::new(1, &|_, _| (MS, Ok(vec![ip(1)])));
        for tenth in 1..=100 {
            world.run_until(tenth * 100 * MS);
            world.table.hurry(world.now, "c00000", 2 * SECOND);
        }
        assert_eq!(world.asked_about("c00000"), [0, 2, 4, 6, 8]);
    }

    #[test]
    fn a_reload_asks_again_and_forgets_what_is_not_wanted() {
        let mut world = World::new(3, &|_, _| (MS, Ok(vec![ip(1)])));
        world.run_until(SECOND);
        world.table.want(world.now, [name(1), name(7)].into());
        assert_eq!((world.table.answer("c00000"), world.table.answer("c00001")), (None, Some(Ok(&[ip(1)][..]))));
        assert!(!world.table.is_current("c00001"), "known, but looked up again");
        world.run_until(2 * SECOND);
        assert_eq!(world.asked.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>()[3..], ["c00001", "c00007"]);
        assert_eq!(world.reports.len(), 2);
        world.table.want(world.now, BTreeSet::new());
        world.run_until(3 * SECOND);
        assert_eq!((world.resolved(), world.reports.len(), world.table.poll_timeout()), (0, 3, None));
    }

    #[test]
    fn remembered_addresses_count_at_once() {
        let remembered = BTreeMap::from([(name(0), vec![ip(9)]), (name(1), vec![ip(9)])]);
        let mut world = World::new(0, &|name, _| if name == "c00000" { dead() } else { (MS, Ok(vec![ip(1)])) });
        world.table = Table::new(remembered);
        world.table.want(Time::ZERO, [name(0), name(1)].into());
        assert_eq!(world.resolved(), 2);
        world.run_until(60 * SECOND);
        assert_eq!([0, 1].map(|number| world.table.addresses(&name(number)).to_vec()), [[ip(9)], [ip(1)]]);
    }

    proptest! {
        /// Whatever the name server does, every name that it answers in the end is found, within its bounds.
        #[test]
        fn every_name_is_found_in_the_end(
            names in 1..300_usize,
            faults in prop::collection::vec((0..300_usize, 0..15_000_u64, any::<bool>()), 0..40),
            wanted in prop::collection::vec((0..100_000_u64, 1..300_usize), 0..3),
        ) {
            let server = |asked: &str, at: Duration| {
                let fault = faults.iter().find(|(number, _, _)| name(*number) == asked);
                match fault {
                    Some(&(_, takes, fails)) if at < 150 * SECOND => {
                        let answer = if fails { Err("fails".to_owned()) } else { Ok(vec![ip(1)]) };
                        (Duration::from_millis(takes), answer)
                    }
                    _ => (MS, Ok(vec![ip(2)])),
                }
            };
            let mut world = World::new(names, &server);
            let mut last = names;
            let mut wanted = wanted;
            wanted.sort_unstable();
            for (at, count) in wanted {
                world.run_until(Duration::from_millis(at));
                world.table.want(world.now, (0..count).map(name).collect());
                last = count;
            }
            world.run_until(600 * SECOND);
            prop_assert_eq!(world.resolved(), last);
            prop_assert_eq!(world.table.stale().count(), 0);
            prop_assert!(world.most_at_once <= ASKED_MAX);
            prop_assert!((0..last).all(|number| world.table.addresses(&name(number)) == [ip(2)]));
        }
    }
}
