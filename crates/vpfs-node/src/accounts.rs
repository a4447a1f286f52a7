//! What each application has here, what it got, and for whom it waited.
//!
//! A waiting request waits behind the application whose request was dispatched last, as long as anything is in the
//! storage: the scheduler preferred it, and where requests are served one after another, it is the one that is served.
//! While nothing is in the storage, a request waits for a rule alone: a cap, or the pace of its kind. So waiting time
//! is divided among applications, and nothing of it is lost. To note all turns of a wait would take time for each of
//! them; so each wait counts as a whole for the application at one moment of it, and the moments are spread evenly:
//! over many requests, sums are right. O(log [`Turns::KEPT`]) for each dispatch that had to wait.

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, OpKind, Time};

use crate::arrival::Served;
use crate::parts_of_time::PartsOfTime;
use crate::requests::Entry;

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
    /// The application behind which it was at one moment of it; `None` if nothing was in the storage then.
    pub behind: Option<AppId>,
    /// It was held because its application was above its cap.
    pub capped: bool,
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
    /// How long its requests waited behind each application, itself among them; at most eight, in no order.
    pub behind: Vec<(AppId, Duration)>,
    /// The same behind applications that are not in this list.
    pub behind_others: Duration,
    /// How long they waited while nothing was in the storage.
    pub held: Duration,
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
        self.waited.add_all(&other.waited);
        self.served.add_all(&other.served);
    }
}

impl AppAccount {
    const BEHIND_MAX: usize = 8;

    /// Adds what another application did and got, for a sum of several; whom it waited for is left out.
    pub(crate) fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.metadata.add(&other.metadata);
        self.held += other.held;
        self.released += other.released;
    }

    /// Its reads, writes and metadata requests.
    pub fn activities(&self) -> [&Activity; 3] {
        [&self.read, &self.write, &self.metadata]
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
        let Some(app) = wait.behind else { return self.held += wait.time };
        if let Some((_, sum)) = self.behind.iter_mut().find(|(known, _)| *known == app) {
            return *sum += wait.time;
        }
        if self.behind.len() == Self::BEHIND_MAX {
            let least = (0..Self::BEHIND_MAX).min_by_key(|index| self.behind[*index].1).expect("eight");
            self.behind_others += self.behind.swap_remove(least).1;
        }
        self.behind.push((app, wait.time));
    }
}

/// The accounts of all applications.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    by_app: Vec<Option<Box<AppAccount>>>,
    turns: Turns,
    parts: PartsOfTime,
}

impl Accounts {
    pub(crate) fn set_policy(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        self.parts.set_policy(now, app, policy);
        self.account(app).policy = *policy;
    }

    pub(crate) fn on_enqueue(&mut self, now: Time, app: AppId, op: OpKind) {
        self.parts.on_enqueue(now, app);
        self.account(app).of(op).queued += 1;
    }

    pub(crate) fn on_dispatch<W>(&mut self, now: Time, request: &Entry<W>) {
        let Entry { app, op, arrived, capped, .. } = *request;
        let behind = self.turns.at(arrived, now);
        self.turns.note(now, Some(app));
        self.parts.on_dispatch(now, app);
        let account = self.account(app);
        let activity = account.of(op);
        (activity.queued, activity.outstanding) = (activity.queued - 1, activity.outstanding + 1);
        if arrived < now {
            account.note(Wait { time: now.since(arrived), behind, capped });
        }
    }

    /// A request is no longer queued, or no longer in the storage; `idle`: nothing is.
    pub(crate) fn on_gone(&mut self, now: Time, (app, op): (AppId, OpKind), was_queued: bool, idle: bool) {
        self.parts.on_gone(now, app, was_queued);
        let activity = self.account(app).of(op);
        let count = if was_queued { &mut activity.queued } else { &mut activity.outstanding };
        *count = count.checked_sub(1).expect("a request is over only once");
        if idle {
            self.turns.note(now, None);
        }
    }

    /// A request in the storage waits for its client.
    pub(crate) fn on_release(&mut self, app: AppId) {
        self.account(app).released += 1;
    }

    /// What was due to an application, and what it got, until now.
    pub(crate) fn parts_of(&self, now: Time, app: AppId) -> (Duration, Duration) {
        self.parts.of(now, app)
    }

    /// How long anything was in the storage, until now.
    pub(crate) fn busy(&self, now: Time) -> Duration {
        self.parts.busy(now)
    }

    /// A dispatched request ended.
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

    /// Those of applications that are known. O(1) for each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AppId, &AppAccount)> {
        (0..).map(AppId).zip(&self.by_app).filter_map(|(app, account)| Some((app, account.as_deref()?)))
    }

    fn account(&mut self, app: AppId) -> &mut AppAccount {
        if app.index() >= self.by_app.len() {
            self.by_app.resize_with(app.index() + 1, || None);
        }
        self.by_app[app.index()].get_or_insert_default()
    }
}

/// Whose request was dispatched last, at any moment of the recent past.
#[derive(Debug, Default)]
struct Turns {
    /// Since when; `None` while nothing is in the storage.
    turns: VecDeque<(Time, Option<AppId>)>,
    moments: u32,
}

impl Turns {
    /// A longer wait counts as if it had begun with the first of so many dispatches.
    const KEPT: usize = 1024;
    /// Multiples of the golden ratio, modulo 1, are spread evenly, however many there are.
    const GOLDEN: u32 = 0x9E37_79B9;

    fn note(&mut self, now: Time, app: Option<AppId>) {
        if self.turns.back().is_some_and(|(_, before)| *before == app) {
            return;
        }
        if self.turns.len() == Self::KEPT {
            self.turns.pop_front();
        }
        self.turns.push_back((now, app));
    }

    /// Whose turn it was at some moment from `since` to `now`.
    fn at(&mut self, since: Time, now: Time) -> Option<AppId> {
        self.moments = self.moments.wrapping_add(Self::GOLDEN);
        let passed = (u128::from(now.nanos_since(since)) * u128::from(self.moments)) >> u32::BITS;
        let at = since + Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX));
        let later = self.turns.partition_point(|(from, _)| *from <= at);
        self.turns.get(later.saturating_sub(1))?.1
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

    /// A turn of 9 ms of one application follows each of 1 ms of another.
    #[test]
    fn waiting_time_is_divided_as_turns_were() {
        let (mut turns, mut behind) = (Turns::default(), [0_u32; 2]);
        for round in 0..1000 {
            let start = Time::from_millis(10 * round);
            turns.note(start, Some(AppId(0)));
            turns.note(start + 9 * MS, Some(AppId(1)));
            if round >= 7 {
                let waited = turns.at(Time::from_millis(10 * round - 60), start + 10 * MS);
                behind[waited.expect("the storage is busy").index()] += 1;
            }
        }
        assert!((890..=905).contains(&behind[0]), "{behind:?}");
    }

    #[test]
    fn memory_is_bounded_and_no_time_is_lost() {
        let mut account = AppAccount::default();
        (0..1000).for_each(|app| account.note(Wait { time: MS, behind: Some(AppId(app % 20)), capped: false }));
        account.note(Wait { time: 5 * MS, behind: None, capped: true });
        let named: Duration = account.behind.iter().map(|(_, time)| *time).sum();
        assert_eq!((account.behind.len(), named + account.behind_others, account.held), (8, 1000 * MS, 5 * MS));
        let mut turns = Turns::default();
        (0..5000).for_each(|turn| turns.note(Time::from_millis(turn), Some(AppId(u32::try_from(turn).unwrap_or(0)))));
        assert_eq!(turns.turns.len(), Turns::KEPT);
    }
}
