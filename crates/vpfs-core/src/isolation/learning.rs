//! Windows from which costs are learned: those in which the storage is saturated, and longer ones under any load.

use core::time::Duration;

use super::device_time::{Completed, DeviceTimes, Done, Lesson};
use crate::units::Time;

/// The windows that are open.
#[derive(Debug)]
pub(super) struct Learning {
    saturated: Option<Window>,
    /// The storage is saturated, but no bulk request has completed since. A window that started now would count the
    /// whole cost of the first one, which was partly served before.
    begins: bool,
    any: Window,
    guesses: Window,
    /// The outstanding device time when `any` started: it may complete in that window although it was served before.
    carried_ns: u64,
}

#[derive(Debug)]
struct Window {
    since: Time,
    completed: Completed,
    /// All bulk in the storage was of one flow.
    pure: bool,
    /// Time without outstanding bulk: a flow that waits for each of its requests leaves short gaps.
    idle: Duration,
    idle_since: Option<Time>,
}

impl Window {
    fn new(since: Time) -> Self {
        Self { since, completed: Completed::default(), pure: true, idle: Duration::ZERO, idle_since: None }
    }

    /// Moves the start of the window to `now`; no request was added to it yet.
    fn begin_later(&mut self, now: Time) {
        (self.since, self.idle) = (now, Duration::ZERO);
        self.idle_since = self.idle_since.map(|_| now);
    }

    /// Time in which the storage was unused. Where requests are served one after another, that time is lost. Other
    /// storage may save up tokens meanwhile and be faster afterwards, so there it does not count.
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

/// The load on the storage when nothing more may be dispatched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The storage is saturated, and bulk is not restricted.
    pub(super) unlimited: bool,
    /// The number of flows with outstanding bulk requests.
    pub(super) bulk_flows: usize,
    /// Other bulk flows wait, so no flow has as much in the storage as it would have alone.
    pub(super) contended: bool,
}

/// A volume may have saved up tokens for this time, and is then faster at first than its sustained speed.
pub(super) const SAVED_UP: Duration = Duration::from_millis(100);

impl Learning {
    /// The minimum length of a window of saturation, which ends with a completion.
    const SATURATED_MIN: Duration = Duration::from_millis(10);
    /// Without saturation, costs are checked for being too high over windows of at least this length, ...
    const ANY_MIN: Duration = Duration::from_secs(1);
    /// ... and of at least this multiple of the device time outstanding at the start.
    const CARRIED: u64 = 4;
    /// Guesses that are much too high show sooner.
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

    /// Nothing more may be dispatched.
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
        window.pure &= load.bulk_flows < 2 && !load.contended;
        window.set_idle(now, load.bulk_flows == 0);
    }

    /// A request is complete, and `in_flight_ns` of device time are still outstanding. Corrects `times` if a window is
    /// over; returns the result of a window of saturation.
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
            // Requests dispatched before the window must not make up most of its completions. With several flows, a
            // request of one flow may be outstanding for so long that its time would be attributed to the others.
            let carried_ns = if window.pure { in_flight_ns / 2 } else { in_flight_ns.saturating_mul(Self::CARRIED) };
            // It ends as it started, with the completion of a bulk request.
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

    /// Something other than the storage held requests up: what was seen so far says nothing about costs.
    pub(super) fn restart(&mut self) {
        self.saturated = None;
    }

    /// Starts the window of any load again: costs may have changed, and the sum so far was computed with the old ones.
    fn begin_any(&mut self, now: Time, in_flight_ns: u64) {
        self.any = Window::new(now);
        self.carried_ns = in_flight_ns;
    }

    /// Many small requests whose cost is only guessed may seem to be more than the storage can do.
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
    fn small_requests_completed_between_large_ones_do_not_lower_their_cost() {
        let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
        let now = Time::from_millis;
        let mut complete = |at: Time, size, bulk| {
            let done = times.done(OpKind::Write, size, bulk, false);
            let in_flight_ns = times.cost_ns(OpKind::Write, LARGE);
            learning.on_complete(at, done, in_flight_ns, &mut times);
            learning.on_drained(at, Load { unlimited: true, bulk_flows: 1, contended: false });
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

    /// Each of two flows takes half of the storage's time: a large write 150 ms, thirty small ones 5 ms each.
    #[test]
    fn a_long_request_does_not_raise_the_cost_of_others() {
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
            learning.on_drained(now, Load { unlimited: true, bulk_flows: 2, contended: false });
        }
        let after = ratio(&times);
        assert!(after * 10 >= before * 9 && after * 9 <= before * 10, "{before} before, {after} after");
    }

    /// An application that waits for other servers leaves this one idle for 60 of 340 ms.
    #[test]
    fn idle_time_is_not_charged_on_serial_storage() {
        for (serial, expected_ms) in [(true, 275..=285), (false, 335..=345)] {
            let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
            let now = Time::from_millis;
            for begin in (0..100).map(|n| n * 340) {
                learning.on_drained(now(begin), Load { unlimited: true, bulk_flows: 1, contended: false });
                let done = times.done(OpKind::Write, LARGE, true, serial);
                learning.on_complete(now(begin + 280), done, 0, &mut times);
                learning.on_drained(now(begin + 280), Load { unlimited: true, bulk_flows: 0, contended: false });
            }
            let found_ms = times.cost_ns(OpKind::Write, LARGE) / 1_000_000;
            assert!(expected_ms.contains(&found_ms), "serial: {serial}, {found_ms} ms");
        }
    }

    #[test]
    fn the_first_window_starts_when_an_earlier_request_completes() {
        let (mut learning, mut times) = (Learning::new(), DeviceTimes::new());
        let now = Time::from_millis;
        learning.on_drained(now(0), Load { unlimited: true, bulk_flows: 1, contended: false });
        let before_ns = times.cost_ns(OpKind::Write, LARGE);
        for (ms, teaches) in [(20, false), (300, true), (580, true)] {
            let done = times.done(OpKind::Write, LARGE, true, false);
            let lesson = learning.on_complete(now(ms), done, 0, &mut times);
            assert_eq!(lesson.is_some(), teaches, "at {ms} ms");
            learning.on_drained(now(ms), Load { unlimited: true, bulk_flows: 1, contended: false });
        }
        assert!(times.cost_ns(OpKind::Write, LARGE) > before_ns * 3, "280 ms, and not 20");
    }
}
