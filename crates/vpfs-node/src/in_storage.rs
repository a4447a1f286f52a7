//! How long requests are in the storage, what of that is their own, and whom they wait for there.
//!
//! Where the storage has a queue of its own, and always under `fifo`, requests wait inside it, where nobody sees their
//! order. What is seen is when each one leaves. So:
//!
//! - The storage *works for* the request that leaves it next. Of the time of a request in the storage, the part after
//!   the latest departure of another one is its *own*; before that it waited for those that left, whoever sent them.
//!   This is exact where requests are served one after another. Where they are served in parallel, the own part is the
//!   time for each departure.
//! - Requests of an application are *alike* if they do the same and their sizes are between the same powers of two.
//!   Its *quiet baseline* for these is the window of at least 32 requests and one second with the least mean time since
//!   the node started. Time beyond is *excess*: it counts for those whom the requests waited for, up to the time for
//!   which they waited beyond what is usual in the baseline; the rest counts for the storage itself.
//! - It has become *slower* for these requests while both the whole time and the own part are beyond one and a half
//!   times those of the baseline: others in front of them change the first alone, others beside them the second.
//!
//! Requests that are sent in pieces, that failed, or whose clients kept the storage waiting say nothing about it.

use std::time::Duration;

use vpfs_core::{AppId, Bytes, OpKind, Time};

use crate::turns::Turns;

/// The time of requests that are alike, in the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageTimes {
    /// What they do.
    pub op: OpKind,
    /// Their least size, a power of two; zero for metadata.
    pub size: Bytes,
    /// Those that were served.
    pub requests: u64,
    /// The sum of their times in the storage,
    pub time: Duration,
    /// and of what of it was their own.
    pub own: Duration,
    /// The quiet baseline; `None` until there is a window.
    pub quiet: Option<Quiet>,
    /// The beginning of the first window since which the storage is slower than in the baseline; `None` while it is
    /// not.
    pub slower_since: Option<Time>,
}

/// Means for a request in the quietest window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Its time in the storage,
    pub time: Duration,
    /// and what of it was its own.
    pub own: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    began: Time,
    requests: u32,
    time: Duration,
    own: Duration,
}

impl Window {
    /// Fewer requests have a mean by chance, ...
    const REQUESTS: u32 = 32;
    /// ... and shorter times only what was in some cache.
    const LEAST: Duration = Duration::from_secs(1);

    fn means(&self) -> Quiet {
        Quiet { time: self.time / self.requests, own: self.own / self.requests }
    }
}

impl Quiet {
    /// Whether the storage is slower, where these are the means now: by more than half, of both.
    fn is_exceeded_by(&self, now: Self) -> bool {
        let exceeds = |now: Duration, quiet: Duration| 2 * now > 3 * quiet;
        exceeds(now.time, self.time) && exceeds(now.own, self.own)
    }
}

/// With what is needed to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tracked {
    times: StorageTimes,
    window: Window,
    latest: Time,
}

impl Tracked {
    fn new(op: OpKind, size: Bytes, now: Time) -> Self {
        let (time, own) = (Duration::ZERO, Duration::ZERO);
        let times = StorageTimes { op, size, requests: 0, time, own, quiet: None, slower_since: None };
        Self { times, window: Window { began: now, ..Window::default() }, latest: now }
    }

    fn add(&mut self, now: Time, stay: &Stay) {
        let Self { times, window, latest } = self;
        *latest = now;
        times.requests += 1;
        times.time += stay.time;
        times.own += stay.own;
        window.requests += 1;
        window.time += stay.time;
        window.own += stay.own;
        if window.requests >= Window::REQUESTS && now.since(window.began) >= Window::LEAST {
            self.close(now);
        }
    }

    fn close(&mut self, now: Time) {
        let Window { began, .. } = self.window;
        let means = self.window.means();
        self.window = Window { began: now, ..Window::default() };
        let times = &mut self.times;
        let is_slower = times.quiet.is_some_and(|quiet| quiet.is_exceeded_by(means));
        times.slower_since = is_slower.then(|| times.slower_since.unwrap_or(began));
        if times.quiet.is_none_or(|quiet| means.time < quiet.time) {
            times.quiet = Some(means);
        }
    }
}

/// Those of one application, at most [`Alike::MAX`]; a new kind takes the place of the one that was seen longest ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike(Vec<Tracked>);

impl Alike {
    const MAX: usize = 8;

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &StorageTimes> {
        self.0.iter().map(|tracked| &tracked.times)
    }

    /// A request that moved `bytes` was served.
    pub(crate) fn add(&mut self, now: Time, (op, bytes): (OpKind, u64), stay: &Stay) {
        let size = match op {
            OpKind::Metadata => Bytes::ZERO,
            OpKind::Read | OpKind::Write => Bytes(1 << bytes.max(1).ilog2()),
        };
        self.of(op, size, now).add(now, stay);
    }

    fn of(&mut self, op: OpKind, size: Bytes, now: Time) -> &mut Tracked {
        let found = self.iter().position(|times| (times.op, times.size) == (op, size));
        let index = found.unwrap_or_else(|| {
            if self.0.len() == Self::MAX {
                let oldest = (0..Self::MAX).min_by_key(|index| self.0[*index].latest).expect("eight");
                self.0.swap_remove(oldest);
            }
            self.0.push(Tracked::new(op, size, now));
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// As if they had just been seen, for those who show them.
impl FromIterator<StorageTimes> for Alike {
    fn from_iter<T: IntoIterator<Item = StorageTimes>>(all: T) -> Self {
        let tracked = |times: StorageTimes| Tracked { times, ..Tracked::new(times.op, times.size, Time::ZERO) };
        Self(all.into_iter().take(Self::MAX).map(tracked).collect())
    }
}

/// A request that leaves the storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving {
    pub(crate) app: AppId,
    pub(crate) op: OpKind,
    pub(crate) dispatched: Time,
    /// Between its pieces.
    pub(crate) paused: Duration,
    /// Data bytes that it moved, if it was served as a whole.
    pub(crate) served: Option<u64>,
}

/// A request's time in the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stay {
    pub(crate) time: Duration,
    /// What of it was its own.
    pub(crate) own: Duration,
    /// Whom it waited for at one moment of the rest.
    pub(crate) behind: Option<AppId>,
}

/// For which application the storage worked.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    turns: Turns,
    /// When the latest one was, or when the storage was no longer idle.
    latest: Time,
}

impl Departures {
    /// A request enters the storage, where nothing else is.
    pub(crate) fn on_first(&mut self, now: Time) {
        self.latest = now;
    }

    /// A request of `app` leaves, which entered at `since`. O(log [`Turns`]).
    pub(crate) fn on_leave(&mut self, now: Time, app: AppId, since: Time) -> Stay {
        let began = self.latest.max(since);
        let waited = began.since(since);
        let behind = if waited.is_zero() { None } else { self.turns.at(since, began) };
        self.turns.note(self.latest, Some(app));
        self.latest = now;
        Stay { time: now.since(since), own: now.since(began), behind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_request_waits_for_those_that_leave_before_it() {
        let mut departures = Departures::default();
        departures.on_first(ms(10));
        let first = departures.on_leave(ms(19), A, ms(10));
        assert_eq!(first, Stay { time: 9 * MS, own: 9 * MS, behind: None });
        // It entered while the first one was served, and another one of A left between.
        departures.on_leave(ms(28), A, ms(11));
        let last = departures.on_leave(ms(29), B, ms(12));
        assert_eq!(last, Stay { time: 17 * MS, own: MS, behind: Some(A) });
        departures.on_first(ms(1000));
        assert_eq!(departures.on_leave(ms(1003), B, ms(1000)).own, 3 * MS, "the time before is nobody's");
    }

    /// `requests` of 4 KiB in one second, of which each takes `time`.
    fn second(alike: &mut Alike, second: u64, time: Duration, own: Duration) -> StorageTimes {
        for request in 0..50 {
            let stay = Stay { time, own, behind: None };
            alike.add(ms(1000 * second + 20 * request + 20), (OpKind::Read, 4096), &stay);
        }
        alike.0[0].times
    }

    #[test]
    fn the_storage_is_slower_if_the_whole_time_and_the_own_part_are() {
        let mut alike = Alike::default();
        assert_eq!(second(&mut alike, 0, 5 * MS, 5 * MS).quiet, None, "it is not over");
        let quiet = Some(Quiet { time: 5 * MS, own: 5 * MS });
        assert_eq!(second(&mut alike, 1, 5 * MS, 5 * MS).quiet, quiet);
        let crowded = second(&mut alike, 2, 50 * MS, 5 * MS);
        assert_eq!((crowded.quiet, crowded.slower_since), (quiet, None), "others are in front of them");
        assert_eq!(second(&mut alike, 3, 5 * MS, 5 * MS).slower_since, None);
        second(&mut alike, 4, 15 * MS, 15 * MS);
        let slower = second(&mut alike, 5, 15 * MS, 15 * MS);
        let since = slower.slower_since.unwrap();
        assert!(since >= ms(3000) && since <= ms(5000), "{since:?}");
        second(&mut alike, 6, 5 * MS, 5 * MS);
        assert_eq!(second(&mut alike, 7, 5 * MS, 5 * MS).slower_since, None, "it has recovered");
    }

    #[test]
    fn memory_is_bounded() {
        let mut alike = Alike::default();
        let stay = Stay { time: MS, own: MS, behind: None };
        (0..40).for_each(|power| alike.add(ms(power), (OpKind::Write, 1 << power), &stay));
        assert_eq!(alike.0.len(), Alike::MAX);
        assert!(alike.iter().all(|times| times.size >= Bytes(1 << 32)), "the latest stay");
        alike.add(ms(40), (OpKind::Metadata, 0), &stay);
        assert!(alike.iter().any(|times| times.op == OpKind::Metadata && times.size == Bytes::ZERO));
    }
}
