//! The low level's feedback: how many requests may be outstanding so that all meet their deadlines [Two-level].
//!
//! Storage with many outstanding requests is fast but slow to answer. So at the end of every window W the outstanding
//! limit Lo is set from what the storage did in it. Each class i gives a bound, and the smallest applies. A class that
//! cannot meet its deadlines whatever the limit is (it is *overloaded*) gives none, so that higher throughput ends the
//! overload.
//!
//! Deviations, beyond those at the functions: requests beyond a class's profile say nothing about its promise, so their
//! times are not counted, and they are not part of Xl, while all requests that wait for credits are part of Xu. R is
//! the 99th percentile: the slides' 95th lets one in twenty be late. And a class is overloaded only while more was
//! promised than is completed.
//!
//! All numbers are integers; limits have 16 fraction bits.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::units::{AppId, Time};

/// A limit or a factor in fixed point, with [`FRACTION_BITS`].
type Fixed = u128;
const FRACTION_BITS: u32 = 16;

/// The smallest e: a class that is late does not get Lo = 0, but much less than it had.
const MARGIN_MIN: Fixed = (1 << FRACTION_BITS) / 64;

/// How a request came to pass to the deadline queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// With credits and within the profile: its deadline is promised.
    Within,
    /// With credits but before its time, so that its deadline is later.
    Early,
    /// With spare capacity, or without a promise.
    Beyond,
}

/// The requests of a class within its profile, in one window.
#[derive(Debug)]
struct Class {
    /// Response times of the storage.
    responses: Times,
    /// Nanoseconds in the deadline queue, and the number of requests.
    waited: u128,
    dispatched: u64,
    /// Its last bound was "no limit".
    overloaded: bool,
}

impl Class {
    /// e = (D − w)/R: by which factor the storage may take longer.
    fn margin(&self, deadline: Duration, response_nanos: u64) -> Fixed {
        let wait = self.waited / u128::from(self.dispatched.max(1));
        let left = deadline.as_nanos().saturating_sub(wait);
        ((left << FRACTION_BITS) / u128::from(response_nanos.max(1))).max(MARGIN_MIN)
    }

    /// The limit that this class allows next; `None` for no limit.
    fn bound(&self, margin: Fixed, window: &Window, limit: u32) -> Option<Fixed> {
        let (low, high) =
            (window.per_completion(window.demand_low, limit), window.per_completion(window.demand, limit));
        let limit = Fixed::from(limit);
        if self.overloaded {
            let by_deadline = margin * window.outstanding_max as Fixed;
            return (window.demand_low < window.completed).then(|| low.max(whole(by_deadline)));
        }
        let by_deadline = margin * limit;
        // Only if more was promised than is completed: Ll assumes that throughput grows with Lo, and is too large where
        // it does not.
        if by_deadline <= low && window.demand_low >= window.completed {
            None
        } else if by_deadline >= high {
            Some(high)
        } else if by_deadline < limit << FRACTION_BITS || window.outstanding_max as Fixed >= limit {
            Some(whole(by_deadline))
        } else {
            Some(limit << FRACTION_BITS)
        }
    }
}

/// What all classes did together in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// C: completions.
    completed: u64,
    /// Nanoseconds in which requests were outstanding.
    busy: u64,
    /// Lmax: the largest number outstanding.
    outstanding_max: usize,
    /// Arrivals at the deadline queue,
    arrived: u64,
    /// and those with a deadline in the same window.
    arrived_due: u64,
    /// Xl: requests that had to complete by the end of the next window if all were served at once.
    demand_low: u64,
    /// Xu: all requests, including those that wait for credits: they would pass if there were capacity to spare.
    demand: u64,
}

impl Window {
    /// X·Lo/C.
    fn per_completion(&self, demand: u64, limit: u32) -> Fixed {
        ((Fixed::from(demand) * Fixed::from(limit)) << FRACTION_BITS) / Fixed::from(self.completed.max(1))
    }
}

/// What remains at the end of a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    pub(super) outstanding: usize,
    /// Those of them that passed with credits.
    pub(super) outstanding_promised: usize,
    /// Waiting at either level,
    pub(super) queued: usize,
    /// and those that passed with credits and have a deadline in the next window.
    pub(super) queued_due: usize,
}

#[derive(Debug)]
pub(super) struct DepthControl {
    /// Lo while no class gives a bound.
    default_limit: u32,
    /// The value of "no limit".
    limit_max: u32,
    limit: u32,
    window: Window,
    /// Since when requests are outstanding, if so; not before the window.
    busy_since: Option<Time>,
    /// When a request was last dispatched or completed.
    active_at: Time,
    /// By application; `None` for those without a deadline.
    classes: Vec<Option<Class>>,
}

impl DepthControl {
    pub(super) fn new(default_limit: u32, limit_max: u32) -> Self {
        let limit_max = limit_max.max(1);
        let limit = default_limit.min(limit_max);
        Self {
            default_limit,
            limit_max,
            limit,
            window: Window::default(),
            busy_since: None,
            active_at: Time::ZERO,
            classes: Vec::new(),
        }
    }

    /// Lo.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Starts from `default_limit` again if it changed; "no limit" becomes `limit_max`.
    pub(super) fn configure(&mut self, default_limit: u32, limit_max: u32) {
        self.limit_max = limit_max.max(1);
        if core::mem::replace(&mut self.default_limit, default_limit) != default_limit {
            self.limit = default_limit;
        }
        self.limit = self.limit.min(self.limit_max);
    }

    /// `app` has a deadline from now on, or none.
    pub(super) fn set_class(&mut self, app: AppId, is_class: bool) {
        if app.index() >= self.classes.len() {
            self.classes.resize_with(app.index() + 1, || None);
        }
        let class = &mut self.classes[app.index()];
        if class.is_some() != is_class {
            let new = || Class { responses: Times::new(), waited: 0, dispatched: 0, overloaded: false };
            *class = is_class.then(new);
        }
    }

    fn class_mut(&mut self, app: AppId) -> Option<&mut Class> {
        self.classes.get_mut(app.index()).and_then(Option::as_mut)
    }

    /// A request entered the deadline queue; `due` if it is within its profile and has a deadline in this window.
    pub(super) fn on_arrival(&mut self, due: bool) {
        self.window.arrived += 1;
        self.window.arrived_due += u64::from(due);
    }

    /// A request left the deadline queue for the storage.
    pub(super) fn on_dispatch(&mut self, app: AppId, passed: Passed, waited: Duration) {
        if let Some(class) = self.class_mut(app).filter(|_| passed == Passed::Within) {
            class.waited += waited.as_nanos();
            class.dispatched += 1;
        }
    }

    pub(super) fn on_complete(&mut self, app: AppId, passed: Passed, response: Duration) {
        self.window.completed += 1;
        if let Some(class) = self.class_mut(app).filter(|_| passed == Passed::Within) {
            class.responses.add(nanos(response));
        }
    }

    /// A request that waits for its client is no longer outstanding. If it was the last one, the storage had nothing to
    /// do since the latest dispatch or completion.
    pub(super) fn on_released(&mut self, outstanding: usize) {
        if outstanding == 0
            && let Some(since) = self.busy_since.take()
        {
            self.window.busy += nanos(self.active_at.since(since));
        }
    }

    /// The number of outstanding requests changed.
    pub(super) fn on_outstanding(&mut self, now: Time, outstanding: usize) {
        self.active_at = now;
        self.window.outstanding_max = self.window.outstanding_max.max(outstanding);
        match self.busy_since {
            None if outstanding > 0 => self.busy_since = Some(now),
            Some(since) if outstanding == 0 => {
                self.window.busy += nanos(now.since(since));
                self.busy_since = None;
            }
            _ => {}
        }
    }

    /// Ends a window: Lo = the smallest bound of all active classes; after a pause it stays. `outstanding` gives the
    /// age of each outstanding request within a profile, for classes of which none completed. O(classes + outstanding).
    pub(super) fn end_window(
        &mut self,
        now: Time,
        backlog: Backlog,
        outstanding: impl Iterator<Item = (AppId, Duration)>,
        deadline: impl Fn(AppId) -> Option<Duration>,
    ) {
        if backlog.outstanding + backlog.queued == 0 && self.window.completed == 0 {
            return;
        }
        self.window.demand_low = (backlog.outstanding_promised + backlog.queued_due) as u64 + self.window.arrived_due;
        self.window.demand = (backlog.outstanding + backlog.queued) as u64 + self.window.arrived;
        self.window.busy += self.busy_since.map_or(0, |since| nanos(now.since(since)));
        self.busy_since = self.busy_since.map(|_| now);
        self.add_ages(outstanding);
        let (mut least, mut shortest): (Option<Fixed>, _) = (None, Duration::MAX);
        for (app, class) in (0..).map(AppId).zip(&mut self.classes) {
            if let Some((class, deadline)) = class.as_mut().zip(deadline(app))
                && let Some(response) = class.responses.percentile_99()
            {
                let bound = class.bound(class.margin(deadline, response), &self.window, self.limit);
                class.overloaded = bound.is_none();
                shortest = shortest.min(deadline);
                let bound = bound.unwrap_or(Fixed::MAX);
                least = Some(least.map_or(bound, |least| least.min(bound)));
            }
        }
        self.limit = match least {
            None => self.default_limit.clamp(1, self.limit_max),
            Some(bound) => ceil(bound).min(self.most(shortest)).max(self.needed()).clamp(1, self.limit_max),
        };
        self.begin_window(backlog.outstanding);
    }

    /// The number of requests that the promised ones need: X·n/C, if C were completed with no more than n outstanding
    /// at once. A quarter is added when they are close to all that is completed, because requests that arrive at a rate
    /// close to capacity wait long. So a bound for one deadline, which the storage may never meet, does not take away
    /// what the other classes need.
    fn needed(&self) -> u32 {
        let Window { demand_low, completed, outstanding_max, .. } = self.window;
        let ample = demand_low + demand_low / 4;
        let demand = if ample < completed { demand_low } else { ample };
        let limit = u32::try_from(outstanding_max).map_or(self.limit, |most| most.min(self.limit));
        ceil(self.window.per_completion(demand, limit))
    }

    /// The value of "no limit" while `deadline` is the shortest one: the number of requests that the storage completes
    /// in half of it. The other half is for the wait in the deadline queue.
    ///
    /// Deviation: the slides use a fixed 100. Requests in the storage are beyond the scheduler's control, so a number
    /// that takes the storage longer than the deadline misses promises whenever there is no limit; any fixed number is
    /// too many for some storage and too few for other. Completions are counted over busy time only, so that a light
    /// load does not make the number small. Two are never too many: while one is served, the next one is ready.
    fn most(&self, deadline: Duration) -> u32 {
        let Window { completed, busy, .. } = self.window;
        if completed == 0 {
            return self.limit.max(1);
        }
        let most = u128::from(completed) * deadline.as_nanos() / (2 * u128::from(busy.max(1)));
        u32::try_from(most).unwrap_or(u32::MAX).max(2)
    }

    /// For a class without completions, the ages of its requests stand for their response times.
    fn add_ages(&mut self, outstanding: impl Iterator<Item = (AppId, Duration)>) {
        let silent: Vec<bool> =
            self.classes.iter().map(|class| class.as_ref().is_some_and(|class| class.responses.is_empty())).collect();
        for (app, age) in outstanding.filter(|(app, _)| silent.get(app.index()).copied().unwrap_or(false)) {
            if let Some(class) = self.class_mut(app) {
                class.responses.add(nanos(age));
            }
        }
    }

    fn begin_window(&mut self, outstanding: usize) {
        self.window = Window { outstanding_max: outstanding, ..Window::default() };
        for class in self.classes.iter_mut().flatten() {
            class.responses.clear();
            (class.waited, class.dispatched) = (0, 0);
        }
    }
}

/// Rounds down to whole requests. Deviation: the slides round up, which with few requests is far too many for a
/// deadline.
const fn whole(bound: Fixed) -> Fixed {
    (bound >> FRACTION_BITS) << FRACTION_BITS
}

/// Rounded up to a number of requests.
fn ceil(bound: Fixed) -> u32 {
    u32::try_from(bound.div_ceil(1 << FRACTION_BITS)).unwrap_or(u32::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

// The 99th percentile of times, in a fixed amount of memory.
//
// A histogram with logarithmic classes (like the crate `hdrhistogram`, which needs `std` and floating point): sixteen
// for each power of two. A result is at most 1/16 (6.25 %) or 256 ns too large, and never too small; times above five
// hours count as five hours.

/// Leading bits of a time, after the first one, that select its class.
const BITS: u32 = 4;
/// Width of the first classes, as a power of two of nanoseconds.
const UNIT: u32 = 8;
const CLASSES: usize = 560;

#[derive(Debug)]
struct Times {
    counts: Box<[u32; CLASSES]>,
    total: u32,
}

impl Times {
    fn new() -> Self {
        Self { counts: Box::new([0; CLASSES]), total: 0 }
    }

    fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn clear(&mut self) {
        if self.total > 0 {
            self.counts.fill(0);
            self.total = 0;
        }
    }

    fn add(&mut self, nanos: u64) {
        let class = class_of(nanos).min(CLASSES - 1);
        self.counts[class] = self.counts[class].saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// The smallest time, rounded up, that 99 of 100 do not exceed; `None` if there are none. O(1).
    fn percentile_99(&self) -> Option<u64> {
        let wanted = (u64::from(self.total) * 99).div_ceil(100);
        let mut below = 0;
        let reached = |&count: &u32| {
            below += u64::from(count);
            below >= wanted
        };
        (self.total > 0).then(|| self.counts.iter().position(reached).map_or(u64::MAX, end_of))
    }
}

/// The class of a time; a class is at most a sixteenth of its times wide.
fn class_of(nanos: u64) -> usize {
    let units = nanos >> UNIT;
    let shift = (u64::BITS - units.leading_zeros()).saturating_sub(BITS + 1);
    ((shift as usize) << BITS) + (units >> shift) as usize
}

/// The last nanosecond of a class.
fn end_of(class: usize) -> u64 {
    let shift = (class >> BITS).saturating_sub(1);
    let units = class - (shift << BITS);
    (((units as u64 + 1) << shift) << UNIT) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    const DEADLINE: Duration = Duration::from_millis(100);
    const CLASS: AppId = AppId(0);

    fn control(classes: u32) -> DepthControl {
        let mut control = DepthControl::new(10, 100);
        (0..classes).for_each(|app| control.set_class(AppId(app), true));
        control
    }

    /// In a window, 100 requests of `app` take `response_ms` each, with at most `outstanding_max` at once.
    fn serve(control: &mut DepthControl, app: AppId, response_ms: u64, outstanding_max: usize) {
        control.on_outstanding(Time::ZERO, outstanding_max);
        for _ in 0..100 {
            control.on_dispatch(app, Passed::Within, Duration::ZERO);
            control.on_complete(app, Passed::Within, Duration::from_millis(response_ms));
        }
    }

    /// Ends it after 200 ms and `arrived` arrivals, `due` of them with deadlines in it, with two outstanding for 200
    /// ms; returns the limit.
    fn end(control: &mut DepthControl, arrived: u32, due: u32) -> u32 {
        (0..arrived).for_each(|arrival| control.on_arrival(arrival < due));
        let ages = [(CLASS, Duration::from_millis(200)); 2];
        let backlog = Backlog { outstanding: 2, outstanding_promised: 2, ..Backlog::default() };
        let now = control.busy_since.unwrap_or_default() + Duration::from_millis(200);
        control.end_window(now, backlog, ages.into_iter(), |_| Some(DEADLINE));
        control.limit()
    }

    #[test]
    fn the_limit_follows_deadlines_demand_and_need() {
        for (what, classes, served, response_ms, arrived, due, limit) in [
            // Xu = 2 + 120, Lu = 122 · 10/100, Lrt = 100/20 · 10.
            ("while deadlines are met it grows to the upper demand", 1, CLASS, 20, 120, 50, 13),
            // Lrt = 100/125 · 10, with 125 ms counted as up to 133 ms; Ll = (2 + 50) · 10/100.
            ("while deadlines are missed it shrinks", 1, CLASS, 125, 100, 50, 7),
            // Lrt = 100/2000 · 10, needed: (2 + 70) · 10/100. A class that the storage can never serve in time does not
            // reduce the throughput that others need.
            ("it is never below the need of promised requests", 1, CLASS, 2000, 100, 70, 8),
            // Class 0 completed nothing; its requests are 200 ms old: Lrt = 100/200 · 10, with 200 ms counted as up to
            // 213 ms.
            ("the least bound counts, and ages stand for missing completions", 2, AppId(1), 20, 100, 0, 4),
        ] {
            let mut control = control(classes);
            serve(&mut control, served, response_ms, 10);
            assert_eq!(end(&mut control, arrived, due), limit, "{what}");
        }
    }

    #[test]
    fn time_in_the_queue_is_not_left_to_the_storage() {
        let mut control = control(1);
        control.on_dispatch(CLASS, Passed::Within, Duration::from_millis(2000));
        serve(&mut control, CLASS, 100, 10);
        // w = 2000 ms / 101, Lrt = (100 − 19.8)/100 · 10.
        assert_eq!(end(&mut control, 100, 50), 7);
    }

    #[test]
    fn in_overload_there_is_no_limit_until_the_storage_keeps_up() {
        let mut control = control(1);
        serve(&mut control, CLASS, 125, 10);
        // Xl = 2 + 100 is more than the 100 that were completed, and Ll = 10.2 exceeds Lrt = 8: as many as complete in
        // 50 ms.
        assert_eq!(end(&mut control, 100, 100), 25);
        serve(&mut control, CLASS, 125, 60);
        // The same again, but more are needed: (2 + 99) · 5/4 · 25/100.
        assert_eq!(end(&mut control, 100, 99), 32);
        serve(&mut control, CLASS, 125, 60);
        // Ll = (2 + 50) · 32/100, Lrt = 100/125 · 60.
        assert_eq!(end(&mut control, 100, 50), 25);
        assert!(!control.classes[0].as_ref().unwrap().overloaded);
    }

    #[test]
    fn an_unreached_limit_stays() {
        // Lrt = 20, Lu = (2 + 298) · 10/100.
        let mut idle = control(1);
        serve(&mut idle, CLASS, 50, 5);
        assert_eq!(end(&mut idle, 298, 0), 10);
        let mut used = control(1);
        serve(&mut used, CLASS, 50, 10);
        assert_eq!(end(&mut used, 298, 0), 19);
    }

    #[test]
    fn requests_beyond_profiles_do_not_count_for_promises() {
        let mut control = control(2);
        serve(&mut control, CLASS, 20, 10);
        for passed in [Passed::Early, Passed::Beyond] {
            control.on_dispatch(AppId(1), passed, Duration::from_secs(1));
            control.on_complete(AppId(1), passed, Duration::from_secs(1));
        }
        assert_eq!(end(&mut control, 120, 50), 12, "122 · 10/102");
    }

    #[test]
    fn without_classes_the_limit_is_the_configured_one() {
        let mut control = control(1);
        serve(&mut control, CLASS, 20, 10);
        assert_eq!(end(&mut control, 120, 50), 13);
        control.set_class(CLASS, false);
        serve(&mut control, CLASS, 20, 10);
        assert_eq!(end(&mut control, 100, 90), 10);
        control.configure(200, 50);
        assert_eq!(control.limit(), 50);
    }

    #[test]
    fn a_class_ends_where_the_next_begins() {
        for class in 0..CLASSES - 1 {
            let end = end_of(class);
            assert_eq!((class_of(end), class_of(end + 1)), (class, class + 1));
        }
        assert!(end_of(CLASSES - 1) > 5 * 3600 * 1_000_000_000);
    }

    #[test]
    fn the_error_is_as_stated() {
        let mut random = Random::new(3);
        for length in [1, 2, 19, 20, 21, 100, 1000] {
            let mut all: Vec<u64> = (0..length).map(|_| random.bits() >> (22 + random.below(40))).collect();
            let mut times = Times::new();
            all.iter().for_each(|&nanos| times.add(nanos));
            all.sort_unstable();
            let exact = all[(all.len() * 99).div_ceil(100) - 1];
            let ours = times.percentile_99().unwrap();
            assert!(exact <= ours && ours <= exact + (exact / 16).max(256), "{exact} {ours}");
            times.clear();
            assert!(times.is_empty() && times.percentile_99().is_none());
        }
    }
}
