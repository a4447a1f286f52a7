//! How long requests are in the storage, what of that is their own, and whom they wait for there.
//!
//! Where the storage has a queue of its own, and always under `fifo`, requests wait inside it, where nobody sees their
//! order. What is seen is when each one leaves. So:
//!
//! - The storage *works for* the request that leaves it next. Of the time of a request in the storage, the part after
//!   the latest departure of another one is its *own*; before that it waited for those that left, of all.
//!   This is exact where requests are served one after another. Where they are served in parallel, the own part is
//!   the time between departures.
//! - Requests of an application are *alike* if they do the same, their sizes are between the same powers of two, and
//!   their [`Situation`] is the same. Their *quiet baseline* is the window of at least 32 requests and one second with
//!   the least mean time since the node started; that of the requests that were alone is the application's own.
//! - The storage has become *slower* for requests that are alike while both the whole time and the own part are beyond
//!   two and a half times those of their baseline: others in front of them change the first alone, more parallel work
//!   the second. As their situation is the same, company does not look like slow storage.
//!
//! Time beyond an application's own baseline is *excess*. What of it is because the storage is slower is the storage's;
//! the rest of requests that had company is that of the others, in proportion to the time for which these were waited
//! for.
//!
//! Requests that failed, or whose clients kept the storage waiting, say nothing about it.

use std::time::Duration;

use vpfs_core::{AppId, Bytes, OpKind, Time};

use crate::turns::Turns;

/// Who else is in the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Nobody but the same application, all the time.
    Alone,
    /// Others, for some time.
    Beside,
    /// The request is sent in pieces; the time between them does not count.
    InPieces,
}

/// The time of requests that are alike, in the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageTimes {
    /// What they do.
    pub op: OpKind,
    /// Their least size, a power of two; zero for metadata.
    pub size: Bytes,
    /// Who was there.
    pub situation: Situation,
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
    /// Whether the storage is slower, where these are the means now: two and a half times both. Beside other requests
    /// on real disks, which were as fast as ever, 1.8 times was seen.
    fn is_exceeded_by(&self, now: Self) -> bool {
        let exceeds = |now: Duration, quiet: Duration| 2 * now > 5 * quiet;
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
    fn new((op, size, situation): Kind, now: Time) -> Self {
        let (time, own) = (Duration::ZERO, Duration::ZERO);
        let times = StorageTimes { op, size, situation, requests: 0, time, own, quiet: None, slower_since: None };
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

/// What requests that are alike have in common.
type Kind = (OpKind, Bytes, Situation);

/// Those of one application, at most twelve; a new kind takes the place of the one that was seen longest ago.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike(Vec<Tracked>);

impl Alike {
    const MAX: usize = 12;

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
        self.of((op, size, stay.situation), now).add(now, stay);
    }

    fn of(&mut self, kind: Kind, now: Time) -> &mut Tracked {
        let found = self.iter().position(|times| (times.op, times.size, times.situation) == kind);
        let index = found.unwrap_or_else(|| {
            if self.0.len() == Self::MAX {
                let oldest = (0..Self::MAX).min_by_key(|index| self.0[*index].latest).expect("they are full");
                self.0.swap_remove(oldest);
            }
            self.0.push(Tracked::new(kind, now));
            self.0.len() - 1
        });
        &mut self.0[index]
    }
}

/// As if they had just been seen, for those who show them.
impl FromIterator<StorageTimes> for Alike {
    fn from_iter<T: IntoIterator<Item = StorageTimes>>(all: T) -> Self {
        let tracked = |times: StorageTimes| Tracked {
            times,
            ..Tracked::new((times.op, times.size, times.situation), Time::ZERO)
        };
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
    pub(crate) situation: Situation,
}

/// For which application the storage worked, and which are there.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    turns: Turns,
    /// When the latest one was, or when the storage was no longer idle.
    latest: Time,
    /// How many applications are in the storage now, ...
    apps: u32,
    /// ... and until when there were several at last.
    mixed_until: Time,
}

impl Departures {
    /// A request enters the storage; `is_first` of its application.
    pub(crate) fn on_enter(&mut self, now: Time, is_first: bool) {
        if self.apps == 0 {
            self.latest = now;
        }
        self.apps += u32::from(is_first);
    }

    /// A request leaves; `is_last` of its application. O(log [`Turns`]).
    pub(crate) fn on_leave(&mut self, now: Time, leaving: &Leaving, is_last: bool) -> Stay {
        let Leaving { app, dispatched, paused, .. } = *leaving;
        let is_mixed = self.apps > 1;
        if is_mixed {
            self.mixed_until = now;
        }
        self.apps -= u32::from(is_last);
        let situation = match is_mixed || self.mixed_until > dispatched {
            _ if !paused.is_zero() => Situation::InPieces,
            true => Situation::Beside,
            false => Situation::Alone,
        };
        let began = self.latest.max(dispatched);
        let behind = if began == dispatched { None } else { self.turns.at(dispatched, began) };
        self.turns.note(self.latest, Some(app));
        self.latest = now;
        let time = now.since(dispatched).saturating_sub(paused);
        Stay { time, own: now.since(began).min(time), behind, situation }
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

    fn leaving(app: AppId, dispatched: u64) -> Leaving {
        Leaving { app, op: OpKind::Read, dispatched: ms(dispatched), paused: Duration::ZERO, served: None }
    }

    #[test]
    fn a_request_waits_for_those_that_leave_before_it() {
        let mut departures = Departures::default();
        departures.on_enter(ms(10), true);
        let first = departures.on_leave(ms(19), &leaving(A, 10), true);
        assert_eq!(first, Stay { time: 9 * MS, own: 9 * MS, behind: None, situation: Situation::Alone });
        departures.on_enter(ms(19), true);
        departures.on_enter(ms(20), true);
        let second = departures.on_leave(ms(28), &leaving(A, 19), true);
        let last = departures.on_leave(ms(29), &leaving(B, 20), true);
        assert_eq!(second, Stay { situation: Situation::Beside, ..first });
        assert_eq!(last, Stay { own: MS, behind: Some(A), ..second });
        departures.on_enter(ms(29), true);
        let stay = departures.on_leave(ms(30), &leaving(B, 29), true);
        assert_eq!(stay.situation, Situation::Alone, "the other has left just before");
        departures.on_enter(ms(1000), true);
        assert_eq!(departures.on_leave(ms(1003), &leaving(B, 1000), true).own, 3 * MS, "the time before is nobody's");
    }

    #[test]
    fn the_time_between_pieces_does_not_count() {
        let mut departures = Departures::default();
        departures.on_enter(ms(0), true);
        let stay = departures.on_leave(ms(30), &Leaving { paused: 20 * MS, ..leaving(A, 0) }, true);
        assert_eq!(stay, Stay { time: 10 * MS, own: 10 * MS, behind: None, situation: Situation::InPieces });
    }

    /// Fifty requests of 4 KiB in one second, of which each takes `time`.
    fn second(alike: &mut Alike, second: u64, time: Duration, own: Duration) -> StorageTimes {
        for request in 0..50 {
            let stay = Stay { time, own, behind: None, situation: Situation::Alone };
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
        let stay = Stay { time: MS, own: MS, behind: None, situation: Situation::Beside };
        (0..40).for_each(|power| alike.add(ms(power), (OpKind::Write, 1 << power), &stay));
        assert_eq!(alike.0.len(), Alike::MAX);
        assert!(alike.iter().all(|times| times.size >= Bytes(1 << 28)), "the latest stay");
        alike.add(ms(40), (OpKind::Metadata, 0), &stay);
        assert!(alike.iter().any(|times| times.op == OpKind::Metadata && times.size == Bytes::ZERO));
    }
}
