//! The daemon's clock: the only place where the core's [`Time`] is derived from the machine's clocks.

use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use tokio::time::{Sleep, sleep_until};
use vpfs_core::Time;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A smaller difference is not a step, but the time between the readings of two clocks.
const LEAST_STEP: Duration = Duration::from_millis(1);

/// A step is compensated by changing the rate of time by one part in this: fast enough, and no measurement is off by
/// more.
const SLEW_DIVISOR: u32 = 20;

/// Nanoseconds since 1970, monotonic and without jumps.
///
/// The wall clock is read at the start, so that windows of time start at about the same moment on all servers; from
/// then on tokio's clock is used, so that tests can pause it. When the wall clock is set later (by NTP, by hand, after
/// the machine slept), time passes a twentieth faster or slower until both agree again, which takes 20 seconds for each
/// second. So no window of time is skipped or repeated, and the windows of servers that follow the same time converge
/// again.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    started: tokio::time::Instant,
    begun: Course,
    /// Set when the wall clock is set for the first time. Until then, usually for ever, reading takes no lock.
    stepped: Arc<OnceLock<RwLock<Course>>>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self::starting_at(since_1970())
    }

    pub(crate) fn starting_at(since_1970: Duration) -> Self {
        let begun = Course::starting_at(since_1970);
        Self { started: tokio::time::Instant::now(), begun, stepped: Arc::default() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.course().at(self.started.elapsed())
    }

    pub(crate) fn started(&self) -> Time {
        Time::ZERO + self.begun.at(Duration::ZERO)
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// When the clock will reach `time`, unless the wall clock is set before then.
    pub(crate) fn instant(&self, time: Time) -> tokio::time::Instant {
        self.started + self.course().reaches(time.since(Time::ZERO))
    }

    pub(crate) async fn follow_wall(self) {
        let wall = Wall::start();
        let mut followed_ns = 0;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let step_ns = wall.stepped_ns().map_or(0, |all| all - followed_ns);
            if size(step_ns) >= LEAST_STEP {
                let direction = if step_ns < 0 { "back" } else { "forward" };
                tracing::warn!(direction, by = ?size(step_ns), "the wall clock was set, time follows gradually");
                self.step(step_ns);
                followed_ns += step_ns;
            }
        }
    }

    /// The wall clock was set forward, or back if `step_ns` is negative.
    fn step(&self, step_ns: i64) {
        let stepped = self.stepped.get_or_init(|| RwLock::new(self.begun));
        let mut course = stepped.write().unwrap_or_else(PoisonError::into_inner);
        *course = course.stepped(self.started.elapsed(), step_ns);
    }

    fn course(&self) -> Course {
        match self.stepped.get() {
            None => self.begun,
            Some(course) => *course.read().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Course {
    since: Duration,
    /// The time at that moment, since 1970.
    time: Duration,
    /// By how much the wall clock was ahead at that moment; negative if behind.
    gap_ns: i64,
}

impl Course {
    fn starting_at(time: Duration) -> Self {
        Self { since: Duration::ZERO, time, gap_ns: 0 }
    }

    /// The time since 1970 when tokio's clock has reached `elapsed`.
    fn at(&self, elapsed: Duration) -> Duration {
        let time = self.time + elapsed.saturating_sub(self.since);
        if self.gap_ns == 0 {
            return time;
        }
        let made_up = self.made_up(elapsed);
        if self.gap_ns < 0 { time - made_up } else { time + made_up }
    }

    fn made_up(&self, elapsed: Duration) -> Duration {
        (elapsed.saturating_sub(self.since) / SLEW_DIVISOR).min(size(self.gap_ns))
    }

    /// The value of tokio's clock at `time`, or just after.
    fn reaches(&self, time: Duration) -> Duration {
        let (wanted, gap) = (time.saturating_sub(self.time), size(self.gap_ns));
        if gap.is_zero() {
            return self.since + wanted;
        }
        let rate = if self.gap_ns < 0 { SLEW_DIVISOR - 1 } else { SLEW_DIVISOR + 1 };
        let round_up = Duration::from_nanos(u64::from(rate) - 1);
        let slewing = (wanted * SLEW_DIVISOR + round_up) / rate;
        let passes = if slewing / SLEW_DIVISOR <= gap {
            slewing
        } else if self.gap_ns < 0 {
            wanted + gap
        } else {
            wanted - gap
        };
        self.since + passes
    }

    fn stepped(&self, elapsed: Duration, step_ns: i64) -> Self {
        let made_up = i64::try_from(self.made_up(elapsed).as_nanos()).unwrap_or(i64::MAX);
        let left_ns = self.gap_ns - made_up * self.gap_ns.signum();
        Self { since: elapsed, time: self.at(elapsed), gap_ns: left_ns.saturating_add(step_ns) }
    }
}

fn size(ns: i64) -> Duration {
    Duration::from_nanos(ns.unsigned_abs())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Measures how far the wall clock was set since a moment. Both clocks of the machine tick at the same rate, even while
/// NTP adjusts it.
struct Wall {
    started: Instant,
    since_1970: Duration,
}

impl Wall {
    fn start() -> Self {
        Self { started: Instant::now(), since_1970: since_1970() }
    }

    /// `None` if the clocks could not be read at the same moment.
    fn stepped_ns(&self) -> Option<i64> {
        let before = self.started.elapsed();
        let wall = since_1970();
        let after = self.started.elapsed();
        let stepped = wall.as_nanos().cast_signed() - (self.since_1970 + before).as_nanos().cast_signed();
        (after - before < LEAST_STEP / 2).then(|| i64::try_from(stepped).ok()).flatten()
    }
}

/// A timer for a deadline that changes with each input, usually to a later one. It then stays as it is until it is due:
/// a new timer for each wait takes the lock of all timers, and the thread that waits for sockets may have to be woken.
#[derive(Default)]
pub(crate) struct Alarm(Option<(Time, Pin<Box<Sleep>>)>);

impl Alarm {
    /// Waits until `deadline`; for ever if there is none. Cancel safe.
    pub(crate) async fn at(&mut self, clock: &Clock, deadline: Option<Time>) {
        let Some(deadline) = deadline else {
            self.0 = None;
            return std::future::pending().await;
        };
        let start = || (deadline, Box::pin(sleep_until(clock.instant(deadline))));
        let (due, sleep) = self.0.get_or_insert_with(start);
        if deadline < *due {
            *due = deadline;
            sleep.as_mut().reset(clock.instant(deadline));
        }
        loop {
            sleep.as_mut().await;
            if clock.now() >= deadline {
                return;
            }
            *due = deadline;
            sleep.as_mut().reset(clock.instant(deadline));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(250);

    /// Symptom: after NTP has set the clock of one server, windows of this server and others differ for ever. Cause:
    /// the wall clock was read only once. Proof: time agrees with the wall clock again, and until then no window is
    /// skipped, repeated, or off in length by more than a twentieth.
    #[tokio::test(start_paused = true)]
    async fn a_step_of_the_wall_clock_is_followed_without_a_jump() {
        for (seconds, forward) in [(1, true), (1, false), (7, true), (7, false)] {
            let clock = Clock::start();
            let begin = clock.now();
            let step_ns: i64 = seconds * 1_000_000_000;
            clock.step(if forward { step_ns } else { -step_ns });
            let mut before = clock.now();
            for _ in 0..2000 {
                tokio::time::advance(Duration::from_millis(100)).await;
                let now = clock.now();
                let passed = now.since(before);
                assert!((Duration::from_millis(95)..=Duration::from_millis(105)).contains(&passed), "{passed:?}");
                assert!(window(now) - window(before) <= 1, "no window is skipped");
                before = now;
            }
            let step = size(step_ns);
            let wall = Duration::from_secs(200);
            assert_eq!(before.since(begin), if forward { wall + step } else { wall - step });
        }
    }

    fn window(time: Time) -> u128 {
        time.since(Time::ZERO).as_nanos() / WINDOW.as_nanos()
    }

    #[tokio::test(start_paused = true)]
    async fn steps_add_up_while_they_are_compensated() {
        let clock = Clock::start();
        let begin = clock.now();
        clock.step(2_000_000_000);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(clock.now().since(begin), Duration::from_secs(21));
        clock.step(-1_500_000_000);
        assert_eq!(clock.now().since(begin), Duration::from_secs(21), "a step does not move the current time");
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(clock.now().since(begin), Duration::from_millis(120_500));
    }

    /// Timers neither spin nor fire late: at the computed moment the time has come, and two nanoseconds earlier it has
    /// not.
    #[test]
    fn a_timer_is_due_at_the_computed_moment_and_not_before() {
        let start = Duration::from_secs(1_700_000_000);
        for gap_ns in [0, 1, 999, 3_000_000, -1, -999, -3_000_000] {
            let course = Course::starting_at(start).stepped(Duration::from_secs(5), gap_ns);
            for ahead in (0..200).chain([19_999, 20_979, 59_999_999, 60_000_001, 63_000_000, 1 << 40]) {
                let time = course.time + Duration::from_nanos(ahead);
                let elapsed = course.reaches(time);
                assert!(course.at(elapsed) >= time, "{gap_ns} {ahead}");
                let before = elapsed.saturating_sub(Duration::from_nanos(2));
                assert!(ahead == 0 || course.at(before) < time, "{gap_ns} {ahead}");
            }
        }
    }

    /// As if the wall clock had been set by a minute; nothing sets it during the test.
    #[test]
    fn a_step_is_detected() {
        let minute = Duration::from_secs(60);
        let mut wall = Wall::start();
        let step = |wall: &Wall| {
            std::iter::from_fn(|| Some(wall.stepped_ns())).flatten().next().expect("the iterator is infinite")
        };
        assert!(size(step(&wall)) < LEAST_STEP);
        wall.since_1970 -= minute;
        assert!(size(step(&wall) - 60_000_000_000) < LEAST_STEP);
        wall.since_1970 += minute * 2;
        assert!(size(step(&wall) + 60_000_000_000) < LEAST_STEP);
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// When the alarm for `deadline` rings, if others were set before it and given up.
    async fn rings_at(before: &[u32], deadline: u32) -> u64 {
        let (mut alarm, clock) = (Alarm::default(), Clock::start());
        let start = clock.now();
        for &other in before {
            tokio::select! {
                biased;
                () = alarm.at(&clock, Some(start + other * SECOND)) => {}
                () = std::future::ready(()) => {}
            }
        }
        alarm.at(&clock, Some(start + deadline * SECOND)).await;
        clock.uptime().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_latest_deadline() {
        for before in [&[][..], &[5], &[1], &[1, 9], &[9, 1, 2]] {
            assert_eq!(rings_at(before, 5).await, 5, "{before:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_used_again_and_not_without_a_deadline() {
        let (mut alarm, clock) = (Alarm::default(), Clock::start());
        let start = clock.now();
        for seconds in [1, 2, 7] {
            alarm.at(&clock, Some(start + seconds * SECOND)).await;
            assert_eq!(clock.uptime().as_secs(), u64::from(seconds));
        }
        tokio::select! {
            () = alarm.at(&clock, None) => panic!("no deadline"),
            () = tokio::time::sleep(10 * SECOND) => {}
        }
        assert!(alarm.0.is_none(), "an idle connection has no timer");
    }
}
