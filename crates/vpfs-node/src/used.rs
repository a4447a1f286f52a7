//! What each application used of the storage's time.
//!
//! Nobody sees in which order storage serves what it has; what is seen is when each request leaves. So the time between
//! two departures is that of the request that leaves at its end, in equal parts with those that it overtakes: they were
//! there before it and still are, so the storage worked for them as well. Where requests are served one after another,
//! none overtakes, and this is exact, whatever each of them takes; where they are served side by side, a long one has
//! its part of the time in which shorter ones come and go. It needs no model of costs. Each moment is used at most
//! once, so what all used is the storage's utilisation.
//!
//! A write that is sent in pieces is in the storage only while one of them is. How long one took is known of its last,
//! when the write leaves; until then, time that no other request used is set aside for it.
//!
//! A look sees what happened since the latest departure divided equally among those that are there, so that
//! storage that hangs is busy. O(log n) for each request where they leave nearly in order.

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::{AppId, Time};

use crate::in_storage::Leaving;

/// The requests in the storage, and what all used until the latest departure or look.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// Those that were sent whole, in the order of their dispatch.
    whole: VecDeque<(Time, AppId)>,
    /// How many are sent in pieces.
    in_pieces: usize,
    latest: Time,
    /// Time before `latest` that nothing but pieces can have used.
    set_aside: Duration,
    by_app: Vec<Duration>,
    all: Duration,
}

impl Used {
    /// The oldest of those that a request overtakes, who divide the time with it. More would only take time.
    const OVERTAKEN: u32 = 16;

    /// A request enters the storage.
    pub(crate) fn on_enter(&mut self, now: Time, app: AppId, in_pieces: bool) {
        if self.whole.is_empty() && self.in_pieces == 0 {
            (self.latest, self.set_aside) = (now, Duration::ZERO);
        }
        match in_pieces {
            true => self.in_pieces += 1,
            false => self.whole.push_back((now, app)),
        }
    }

    /// A request leaves it.
    pub(crate) fn on_leave(&mut self, now: Time, leaving: &Leaving) {
        let Leaving { app, dispatched, pieces, .. } = *leaving;
        let since = std::mem::replace(&mut self.latest, now);
        if pieces > 1 {
            self.in_pieces -= 1;
            self.set_aside += now.since(since);
            let took = leaving.time(now).saturating_mul(pieces).min(self.set_aside);
            self.set_aside -= took;
            return self.add(app, took);
        }
        let from = self.whole.partition_point(|(at, _)| *at < dispatched);
        let found = self.whole.iter().skip(from).position(|(_, other)| *other == app);
        let index = from + found.expect("it is in the storage");
        self.whole.remove(index);
        let overtaken = Self::oldest_of(index);
        let entered = since.max(dispatched);
        self.divide(entered.since(since), overtaken);
        let part = now.since(entered) / (overtaken + 1);
        self.add(app, part);
        self.divide(part * overtaken, overtaken);
    }

    /// Counts what happened until now.
    pub(crate) fn look(&mut self, now: Time) {
        if self.whole.is_empty() && self.in_pieces == 0 {
            return;
        }
        let since = std::mem::replace(&mut self.latest, now);
        self.divide(now.since(since), Self::oldest_of(self.whole.len()));
    }

    /// What an application used.
    pub(crate) fn of(&self, app: AppId) -> Duration {
        self.by_app.get(app.index()).copied().unwrap_or_default()
    }

    /// What all used.
    pub(crate) fn all(&self) -> Duration {
        self.all
    }

    /// What an application used no longer counts as its own.
    pub(crate) fn forget(&mut self, app: AppId) {
        if let Some(used) = self.by_app.get_mut(app.index()) {
            *used = Duration::ZERO;
        }
    }

    fn oldest_of(count: usize) -> u32 {
        u32::try_from(count).map_or(Self::OVERTAKEN, |count| count.min(Self::OVERTAKEN))
    }

    /// Among so many of the oldest.
    fn divide(&mut self, time: Duration, oldest: u32) {
        if oldest == 0 {
            self.set_aside += time;
        }
        for index in 0..oldest as usize {
            self.add(self.whole[index].1, time / oldest);
        }
    }

    fn add(&mut self, app: AppId, time: Duration) {
        if app.index() >= self.by_app.len() {
            self.by_app.resize(app.index() + 1, Duration::ZERO);
        }
        self.by_app[app.index()] += time;
        self.all += time;
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::OpKind;

    use super::*;
    use crate::in_storage::Entered;

    const A: AppId = AppId(0);
    const B: AppId = AppId(1);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn leave(used: &mut Used, now: u64, app: AppId, dispatched: u64) {
        let (dispatched, op) = (at(dispatched), OpKind::Write);
        used.on_leave(
            at(now),
            &Leaving {
                app,
                op,
                dispatched,
                entered: Entered::default(),
                paused: Duration::ZERO,
                pieces: 1,
                served: None,
            },
        );
    }

    fn ms(used: &Used) -> [u128; 3] {
        [used.of(A), used.of(B), used.all()].map(|time| time.as_millis())
    }

    #[test]
    fn where_one_is_served_after_another_each_has_used_what_it_took() {
        let mut used = Used::default();
        used.on_enter(at(0), A, false);
        used.on_enter(at(0), B, false);
        leave(&mut used, 40, A, 0);
        used.on_enter(at(40), A, false);
        leave(&mut used, 50, B, 0);
        assert_eq!(ms(&used), [40, 10, 50], "it waited for 40 of its 50 ms");
        leave(&mut used, 90, A, 40);
        used.on_enter(at(200), B, false);
        leave(&mut used, 210, B, 200);
        assert_eq!(ms(&used), [80, 20, 100], "and while there is nothing, nobody uses it");
    }

    #[test]
    fn what_is_overtaken_was_served_as_well() {
        let mut used = Used::default();
        used.on_enter(at(0), A, false);
        for round in 0..4 {
            used.on_enter(at(10 * round), B, false);
            leave(&mut used, 10 * (round + 1), B, 10 * round);
        }
        leave(&mut used, 40, A, 0);
        assert_eq!(ms(&used), [20, 20, 40]);
        used.on_enter(at(100), A, false);
        used.on_enter(at(130), B, false);
        leave(&mut used, 140, B, 130);
        assert_eq!(ms(&used), [55, 25, 80], "before the other came, it had all");
    }

    /// Bulk is held back by its pieces: four of 5 ms each, at a distance of 20 ms, and others in between.
    #[test]
    fn between_its_pieces_a_write_uses_nothing() {
        let mut used = Used::default();
        used.on_enter(at(0), A, true);
        for round in 0..3 {
            used.on_enter(at(20 * round + 8), B, false);
            leave(&mut used, 20 * round + 10, B, 20 * round + 8);
        }
        let paused = Duration::from_millis(60);
        let write = Leaving {
            app: A,
            op: OpKind::Write,
            dispatched: at(0),
            entered: Entered::default(),
            paused,
            pieces: 4,
            served: None,
        };
        used.on_leave(at(65), &write);
        assert_eq!(ms(&used), [20, 6, 26]);
    }

    #[test]
    fn storage_that_hangs_is_busy() {
        let mut used = Used::default();
        used.on_enter(at(0), A, false);
        used.on_enter(at(0), B, false);
        used.look(at(1000));
        assert_eq!(ms(&used), [500, 500, 1000]);
        leave(&mut used, 1010, A, 0);
        used.look(at(1010));
        assert_eq!(ms(&used), [510, 500, 1010], "what was seen stays");
    }
}
