//! When there is something to learn of costs: windows in which the storage is saturated, and longer ones of any load.

use core::time::Duration;

use super::device_time::{Completed, DeviceTimes, Done, Lesson};
use crate::units::Time;

/// The windows that are open.
#[derive(Debug)]
pub(super) struct Learning {
    saturated: Option<Window>,
    /// The storage is saturated, but no bulk request has been complete since. A window that began now would count the
    /// first one whole though it was served before, too.
    begins: bool,
    any: Window,
    guesses: Window,
    /// What was in the storage when `any` began may be complete in it without having been served in it.
    carried_ns: u64,
}

#[derive(Debug)]
struct Window {
    since: Time,
    completed: Completed,
    /// All bulk in the storage was of one flow.
    pure: bool,
    /// Time without any bulk in the storage: who sends one request after the other leaves it for a moment.
    idle: Duration,
    idle_since: Option<Time>,
}

impl Window {
    fn new(since: Time) -> Self {
        Self { since, completed: Completed::default(), pure: true, idle: Duration::ZERO, idle_since: None }
    }

    /// It begins only now; nothing was added to it.
    fn begin_later(&mut self, now: Time) {
        (self.since, self.idle) = (now, Duration::ZERO);
        self.idle_since = self.idle_since.map(|_| now);
    }

    /// Time in which nobody had the storage. Where it serves one request after the other that is lost; elsewhere it may
    /// save up what it is allowed to do, and is quicker afterwards.
    fn wasted(&self, serial: bool) -> Duration {
        if serial { self.idle.saturating_sub(self.completed.others_served()) } else { Duration::ZERO }
    }

    fn set_idle(&mut self, now: Time, idle: bool) {
        match (self.idle_since, idle) {
            (None, true) => self.idle_since = Some(now),
            (Some(since), false) => {
                self.idle += now.since(since);
                self.idle_since = None;
            }
            _ => {}
        }
    }
}

/// What there is in the storage after everything that may go has gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Bulk gets all it can.
    pub(super) unlimited: bool,
    /// How many flows the bulk in it belongs to.
    pub(super) bulk_flows: usize,
}

/// A volume may have saved up what it is allowed to do in so long, and then is quicker at first than it can be.
pub(super) const SAVED_UP: Duration = Duration::from_millis(100);

impl Learning {
    /// A window of saturation lasts at least so long, and ends with a completion.
    const SATURATED_MIN: Duration = Duration::from_millis(10);
    /// Costs that are seen to be too high without saturation are looked at over so long, ...
    const ANY_MIN: Duration = Duration::from_secs(1);
    /// ... and over so many times what was in the storage at the beginning.
    const CARRIED: u64 = 4;
    /// Guesses that are too high by far show sooner.
    const GUESS_MIN: Duration = Duration::from_millis(20);

    pub(super) fn new() -> Self {
        Self {
            saturated: None,
            begins: false,
            any: Window::new(Time::ZERO),
            guesses: Window::new(Time::ZERO),
            carried_ns: 0,
        }
    }

    /// Everything that may go has gone.
    pub(super) fn on_drained(&mut self, now: Time, load: Load) {
        if !load.unlimited {
            self.saturated = None;
            return;
        }
        let begins = &mut self.begins;
        let window = self.saturated.get_or_insert_with(|| {
            *begins = true;
            Window::new(now)
        });
        window.pure &= load.bulk_flows < 2;
        window.set_idle(now, load.bulk_flows == 0);
    }

    /// A request is complete, and `in_flight_ns` are still in the storage: improves `times` if a window is over. What
    /// it told, if that was one of saturation.
    pub(super) fn on_complete(
        &mut self,
        now: Time,
        done: Done,
        in_flight_ns: u64,
        times: &mut DeviceTimes,
    ) -> Option<Lesson> {
        let mut lesson = None;
        if self.begins {
            self.begins = !done.bulk;
            if let Some(window) = &mut self.saturated {
                window.begin_later(now);
            }
        } else if let Some(window) = &mut self.saturated {
            window.completed.add(done);
            let elapsed = now.since(window.since);
            // What was let in before the window began must not make up most of what was completed in it. Of several
            // flows one may have a request in the storage for so long that others seem to take its time.
            let carried_ns = if window.pure { in_flight_ns / 2 } else { in_flight_ns.saturating_mul(Self::CARRIED) };
            // And it ends as it began, with a bulk request.
            if done.bulk && elapsed >= Self::SATURATED_MIN.max(Duration::from_nanos(carried_ns)) {
                window.set_idle(now, false);
                if window.idle < elapsed / 4 {
                    lesson = times.learn(&window.completed, elapsed - window.wasted(done.serial), window.pure);
                }
                *window = Window::new(now);
            }
        }
        self.check_guesses(now, done, times);
        self.any.completed.add(done);
        if lesson.is_some() {
            self.begin_any(now, in_flight_ns);
        }
        let elapsed = now.since(self.any.since);
        let possible = elapsed + Duration::from_nanos(self.carried_ns) + SAVED_UP;
        if elapsed >= Self::ANY_MIN.max(Duration::from_nanos(self.carried_ns.saturating_mul(Self::CARRIED))) {
            times.limit(&self.any.completed, possible);
            self.begin_any(now, in_flight_ns);
        }
        lesson
    }

    /// Costs may be others now, and those added up before would be compared with them.
    fn begin_any(&mut self, now: Time, in_flight_ns: u64) {
        self.any = Window::new(now);
        self.carried_ns = in_flight_ns;
    }

    /// Many small requests whose cost was only guessed may look like more than the storage can do.
    fn check_guesses(&mut self, now: Time, done: Done, times: &mut DeviceTimes) {
        if done.bulk {
            return;
        }
        self.guesses.completed.add(done);
        let elapsed = now.since(self.guesses.since);
        if elapsed >= Self::GUESS_MIN {
            times.limit_guesses(&self.guesses.completed, elapsed);
            self.guesses = Window::new(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::OpKind;
    use crate::units::Bytes;

    const LARGE: Bytes = Bytes::mib(4);
    const SMALL: Bytes = Bytes::kib(8);

    /// The storage serves two large writes at a time, one every 280 ms, and a small one every 100 ms.
    #[test]
    fn what_is_complete_between_large_requests_does_not_make_them_cheap() {
        let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
        let now = Time::from_millis;
        let mut complete = |at: Time, size, bulk| {
            let done = times.done(OpKind::Write, size, bulk, false);
            let in_flight_ns = times.cost_ns(OpKind::Write, LARGE);
            learning.on_complete(at, done, in_flight_ns, &mut times);
            learning.on_drained(at, Load { unlimited: true, bulk_flows: 1 });
        };
        for ms in 1..6000 {
            if ms % 100 == 50 {
                complete(now(ms), SMALL, false);
            }
            if ms % 280 == 0 {
                complete(now(ms), LARGE, true);
            }
        }
        let found_ms = times.cost_ns(OpKind::Write, LARGE) / 1_000_000;
        assert!((240..=290).contains(&found_ms), "{found_ms} ms");
    }

    /// Both of two flows take half of the storage's time: a large write 150 ms, thirty small ones 5 ms each.
    #[test]
    fn what_is_in_the_storage_for_long_does_not_make_others_dear() {
        let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
        let ratio =
            |times: &DeviceTimes| times.cost_ns(OpKind::Write, LARGE) * 100 / times.cost_ns(OpKind::Write, SMALL);
        let before = ratio(&times);
        let mut now = Time::ZERO;
        let sizes = (0..30).flat_map(|_| [(LARGE, 150)].into_iter().chain([(SMALL, 5); 30]));
        for (size, ms) in sizes {
            now = now + Duration::from_millis(ms);
            let done = times.done(OpKind::Write, size, true, false);
            let in_flight_ns = times.cost_ns(OpKind::Write, if size == LARGE { SMALL } else { LARGE });
            learning.on_complete(now, done, in_flight_ns, &mut times);
            learning.on_drained(now, Load { unlimited: true, bulk_flows: 2 });
        }
        let after = ratio(&times);
        assert!(after * 10 >= before * 9 && after * 9 <= before * 10, "{before} before, {after} after");
    }

    /// An application that waits for other servers leaves this one idle for 60 of 340 ms.
    #[test]
    fn time_in_which_nobody_had_the_storage_is_not_paid_for_where_it_serves_one_after_the_other() {
        for (serial, expected_ms) in [(true, 275..=285), (false, 335..=345)] {
            let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
            let now = Time::from_millis;
            for begin in (0..100).map(|n| n * 340) {
                learning.on_drained(now(begin), Load { unlimited: true, bulk_flows: 1 });
                let done = times.done(OpKind::Write, LARGE, true, serial);
                learning.on_complete(now(begin + 280), done, 0, &mut times);
                learning.on_drained(now(begin + 280), Load { unlimited: true, bulk_flows: 0 });
            }
            let found_ms = times.cost_ns(OpKind::Write, LARGE) / 1_000_000;
            assert!(expected_ms.contains(&found_ms), "serial: {serial}, {found_ms} ms");
        }
    }

    #[test]
    fn the_request_that_was_there_before_begins_the_first_window() {
        let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
        let now = Time::from_millis;
        learning.on_drained(now(0), Load { unlimited: true, bulk_flows: 1 });
        let before_ns = times.cost_ns(OpKind::Write, LARGE);
        for (ms, teaches) in [(20, false), (300, true), (580, true)] {
            let done = times.done(OpKind::Write, LARGE, true, false);
            let lesson = learning.on_complete(now(ms), done, 0, &mut times);
            assert_eq!(lesson.is_some(), teaches, "at {ms} ms");
            learning.on_drained(now(ms), Load { unlimited: true, bulk_flows: 1 });
        }
        assert!(times.cost_ns(OpKind::Write, LARGE) > before_ns * 3, "280 ms, and not 20");
    }
}
