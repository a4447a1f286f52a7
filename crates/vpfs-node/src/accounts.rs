//! A request held for its application's cap waits for nobody. Otherwise it waits behind the application whose request
//! was dispatched last of those in the storage; while nothing is there, for a rule alone. To note all turns of a wait
//! would take time for each of them, so each wait counts as a whole for one application at one moment of it, and for
//! the rule that held the request last. The moments are spread evenly: over many requests, sums are right. O(log
//! [`Turns`]) for each dispatch that had to wait.
//!
//! Whom requests wait for inside the storage: see [`crate::in_storage`].

use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, OpKind, Rule, ShareId, SharePolicy, Time};

use crate::arrival::Served;
use crate::in_storage::{Alike, Departures, Leaving, Turns};
use crate::requests::Entry;
use crate::used::{Entitlements, Used};

/// How often something took how long: by powers of two of microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The first counts times below 2 µs, each other one those from `2^i` µs to twice that, the last also all beyond,
    /// which is more than half an hour.
    pub counts: [u64; 32],
    /// The sum of all times.
    pub sum: Duration,
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts[micros.max(1).ilog2().min(31) as usize] += 1;
        self.sum += time;
    }

    fn add_all(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum += other.sum;
    }
}

/// The requests of an application of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Those that wait now.
    pub queued: u32,
    /// Those in the storage now, without those that wait for their clients.
    pub outstanding: u32,
    /// Those that ended.
    pub requests: u64,
    /// Data bytes that they moved.
    pub bytes: u64,
    /// Those that ended in time-out or disconnection.
    pub failed: u64,
    /// Those that took longer than the application is promised.
    pub late: u64,
    /// From arrival to dispatch, of those that ended.
    pub waited: Histogram,
    /// From dispatch to the end.
    pub served: Histogram,
}

/// One request's wait for its dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long it was.
    pub time: Duration,
    /// The application behind which it was at one moment of it; `None` if it was behind none.
    pub behind: Option<AppId>,
    /// The rule that held it last.
    pub rule: Rule,
}

/// How long requests waited for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitedFor {
    /// Applications, their own among them; at most eight, in no order.
    pub apps: Vec<(AppId, Duration)>,
    /// All others.
    pub others: Duration,
}

impl WaitedFor {
    const MAX: usize = 8;

    fn forget(&mut self, app: AppId) {
        if let Some(index) = self.apps.iter().position(|(known, _)| *known == app) {
            self.others += self.apps.swap_remove(index).1;
        }
    }

    fn add(&mut self, app: AppId, time: Duration) {
        if let Some((_, sum)) = self.apps.iter_mut().find(|(known, _)| *known == app) {
            return *sum += time;
        }
        if self.apps.len() == Self::MAX {
            let least = (0..Self::MAX).min_by_key(|index| self.apps[*index].1).expect("eight");
            self.others += self.apps.swap_remove(least).1;
        }
        self.apps.push((app, time));
    }
}

/// What is known about an application at one server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppAccount {
    /// Its share, its cap and what it is promised.
    pub policy: AppPolicy,
    /// What it reads,
    pub read: Activity,
    /// writes,
    pub write: Activity,
    /// and does with metadata.
    pub metadata: Activity,
    /// Its latest request that had to wait.
    pub last_wait: Option<Wait>,
    /// How long its requests waited in vpfs, by the number of the rule in [`Rule::ALL`]; with the pauses between the
    /// pieces of writes, which are for the pace.
    pub waits: [Duration; Rule::ALL.len()],
    /// Whom they waited for in vpfs.
    pub behind: WaitedFor,
    /// How long they waited in vpfs behind nobody: for a cap, or while nothing was in the storage.
    pub held: Duration,
    /// How those that are alike fared in the storage.
    pub in_storage: Alike,
    /// For whom the storage worked while they were there.
    pub behind_in_storage: WaitedFor,
    /// Its requests that were released: they waited for their clients.
    pub released: u64,
}

impl Activity {
    fn add(&mut self, other: &Self) {
        self.queued += other.queued;
        self.outstanding += other.outstanding;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.late += other.late;
        self.waited.add_all(&other.waited);
        self.served.add_all(&other.served);
    }
}

impl AppAccount {
    /// Adds another's, for a sum of several; whom it waited for is left out.
    pub(crate) fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.metadata.add(&other.metadata);
        self.waits.iter_mut().zip(other.waits).for_each(|(waits, more)| *waits += more);
        self.held += other.held;
        self.released += other.released;
    }

    /// Its reads, writes and metadata requests.
    pub fn activities(&self) -> [&Activity; 3] {
        [&self.read, &self.write, &self.metadata]
    }

    /// Its requests in the storage.
    fn inside(&self) -> u32 {
        self.activities().into_iter().map(|activity| activity.outstanding).sum()
    }

    fn of(&mut self, op: OpKind) -> &mut Activity {
        match op {
            OpKind::Read => &mut self.read,
            OpKind::Write => &mut self.write,
            OpKind::Metadata => &mut self.metadata,
        }
    }

    fn note(&mut self, wait: Wait) {
        self.last_wait = Some(wait);
        self.waits[wait.rule as usize] += wait.time;
        match wait.behind {
            Some(app) => self.behind.add(app, wait.time),
            None => self.held += wait.time,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Accounts {
    by_app: Vec<Option<Box<AppAccount>>>,
    turns: Turns,
    departures: Departures,
    entitled: Entitlements,
    used: Used,
}

impl Accounts {
    const LOOK_BACK: usize = 8;

    pub(crate) fn set_policy(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        self.entitled.set_policy(now, app, policy);
        self.account(app).policy = *policy;
    }

    pub(crate) fn set_share(&mut self, now: Time, share: ShareId, policy: SharePolicy) {
        self.entitled.set_share(now, share, policy);
    }

    /// An application without requests is gone for good: its number may become another one's. O(applications).
    pub(crate) fn forget(&mut self, app: AppId) {
        self.entitled.forget(app);
        self.used.forget(app);
        if let Some(account) = self.by_app.get_mut(app.index()) {
            *account = None;
        }
        for account in self.by_app.iter_mut().flatten() {
            account.behind.forget(app);
            account.behind_in_storage.forget(app);
            account.last_wait = account.last_wait.filter(|wait| wait.behind != Some(app));
        }
    }

    pub(crate) fn on_enqueue(&mut self, now: Time, app: AppId, op: OpKind) {
        self.entitled.on_enqueue(now, app);
        self.account(app).of(op).queued += 1;
    }

    /// A request goes to the storage, which `rule` held last.
    pub(crate) fn on_dispatch<W>(&mut self, now: Time, request: &mut Entry<W>, rule: Rule) {
        let Entry { app, op, arrived, .. } = *request;
        let admitted = request.admitted.min(now);
        let behind = if admitted < now { self.turns.at(admitted, now) } else { None };
        self.turns.note(now, Some(app));
        self.used.on_enter(now, app, request.pieces.is_some());
        let inside = self.account(app).inside();
        request.entered = self.departures.on_enter(now, app, inside == 0);
        let account = self.account(app);
        let activity = account.of(op);
        (activity.queued, activity.outstanding) = (activity.queued - 1, activity.outstanding + 1);
        let capped = Wait { time: admitted.since(arrived), behind: None, rule: Rule::Cap };
        let wait = Wait { time: now.since(admitted), behind, rule };
        [capped, wait].into_iter().filter(|wait| !wait.time.is_zero()).for_each(|wait| account.note(wait));
    }

    /// A request leaves the storage; then call [`Accounts::on_gone`].
    pub(crate) fn on_leave(&mut self, now: Time, leaving: &Leaving) {
        let Leaving { app, op, dispatched, paused, served, .. } = *leaving;
        let account = self.account(app);
        let is_last = account.inside() == 1;
        let quiet = served.and_then(|bytes| account.in_storage.quiet((op, bytes)));
        let stay = self.departures.on_leave(now, leaving, quiet.map(|quiet| quiet.own), is_last);
        self.used.on_leave(now, leaving);
        let account = self.account(app);
        account.waits[Rule::Pace as usize] += paused.min(now.since(dispatched));
        if let Some(behind) = stay.behind {
            account.behind_in_storage.add(behind, stay.ahead);
        }
        if let Some(bytes) = served {
            account.in_storage.add(now, (op, bytes), &stay, quiet);
        }
    }

    /// A request is no longer queued, or no longer in the storage; `idle`: nothing is.
    pub(crate) fn on_gone(&mut self, now: Time, (app, op): (AppId, OpKind), was_queued: bool, idle: bool) {
        self.entitled.on_gone(now, app);
        let activity = self.account(app).of(op);
        let count = if was_queued { &mut activity.queued } else { &mut activity.outstanding };
        *count = count.checked_sub(1).expect("a request is over only once");
        if idle {
            self.turns.note(now, None);
        } else if !was_queued && self.account(app).inside() == 0 && self.turns.latest(1).eq([app]) {
            // It is the turn of the one before, as far as that is still there.
            let mut before = self.turns.latest(Self::LOOK_BACK);
            let turn = before.find(|app| self.by_app[app.index()].as_ref().is_some_and(|found| found.inside() > 0));
            drop(before);
            self.turns.note(now, turn.or(Some(app)));
        }
    }

    pub(crate) fn on_release(&mut self, app: AppId) {
        self.account(app).released += 1;
    }

    pub(crate) fn entitled(&self, now: Time, app: AppId) -> Duration {
        self.entitled.of(now, app)
    }

    /// What it used, and what all did, until the latest [`Accounts::look`] or departure.
    pub(crate) fn used(&self) -> &Used {
        &self.used
    }

    pub(crate) fn set_processor_wait(&mut self, wait: Duration) {
        self.departures.processor_wait = wait;
    }

    pub(crate) fn look(&mut self, now: Time) {
        self.used.look(now);
    }

    pub(crate) fn on_end(&mut self, app: AppId, now: Time, served: &Served) {
        debug_assert!(
            served.arrived <= served.dispatched && served.dispatched <= now,
            "a request's times are in order"
        );
        let account = self.account(app);
        let is_late = account.policy.promised_time().is_some_and(|promised| now.since(served.arrived) > promised);
        let activity = account.of(served.op);
        activity.requests += 1;
        activity.late += u64::from(is_late);
        activity.bytes += served.bytes;
        activity.failed += u64::from(!served.answered);
        activity.waited.add(served.dispatched.since(served.arrived));
        activity.served.add(now.since(served.dispatched));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (AppId, &AppAccount)> {
        (0..).map(AppId).zip(&self.by_app).filter_map(|(app, account)| Some((app, account.as_deref()?)))
    }

    pub(crate) fn get(&self, app: AppId) -> Option<&AppAccount> {
        self.by_app.get(app.index())?.as_deref()
    }

    fn account(&mut self, app: AppId) -> &mut AppAccount {
        if app.index() >= self.by_app.len() {
            self.by_app.resize_with(app.index() + 1, || None);
        }
        self.by_app[app.index()].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn times_are_counted_by_powers_of_two() {
        let mut histogram = Histogram::default();
        for micros in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            histogram.add(Duration::from_micros(micros));
        }
        let filled: Vec<_> = histogram.counts.iter().enumerate().filter(|(_, count)| **count > 0).collect();
        assert_eq!(filled, [(0, &2), (1, &2), (2, &1), (9, &1), (10, &1), (31, &1)]);
    }

    #[test]
    fn memory_is_bounded_and_no_time_is_lost() {
        let mut account = AppAccount::default();
        let wait = Wait { time: MS, behind: None, rule: Rule::Share };
        (0..1000).for_each(|app| account.note(Wait { behind: Some(AppId(app % 20)), ..wait }));
        account.note(Wait { time: 5 * MS, rule: Rule::Cap, ..wait });
        let WaitedFor { apps, others } = &account.behind;
        let named: Duration = apps.iter().map(|(_, time)| *time).sum();
        assert_eq!((apps.len(), named + *others, account.held), (8, 1000 * MS, 5 * MS));
        assert_eq!(account.waits, [1000, 5, 0, 0].map(|waits| waits * MS));
    }
}
