//! Measurements of one flow: its use of the storage's time, whether it always has requests pending, and the latency of
//! its requests compared with their best recent latency.

use core::time::Duration;

use super::class::Class;
use crate::units::{Bytes, Time};

/// The classification of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// It asks for less than its share.
    #[default]
    Interactive,
    /// It takes all it can get.
    Bulk,
}

impl Kind {
    pub(super) const LANES: usize = 2;

    /// Its lane in the queue.
    pub(super) const fn lane(self) -> usize {
        self as usize
    }
}

/// The measurements of a flow in the current control window, and the results of earlier ones.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) kind: Kind,
    /// The cost of its queued requests, in bytes.
    pub(super) queued_cost: Bytes,
    /// It is in the list of flows that were active in this window.
    pub(super) active: bool,
    /// Its share of the last window relative to those of the others; see `share_use`.
    pub(super) part: u64,
    /// Device time of requests completed in this window.
    pub(super) used_ns: u64,
    /// Device time of queued and outstanding requests, ...
    pending_ns: u64,
    /// ... its integral over the time of this window, ...
    pending_sum: u128,
    pending_since: Time,
    /// ... its mean over the last window, ...
    pub(super) mean_pending_ns: u64,
    /// ... and over the last windows.
    pub(super) footprint_ns: u64,
    /// ... and over up to [`STEADY_WINDOWS`] of them.
    pub(super) steady_ns: u64,
    windows: u64,
    /// Device time of its usual request.
    pub(super) usual_ns: u64,
    /// The class of its last request for data.
    pub(super) last: Option<Class>,
    /// In the last window it nearly always had requests pending, so it would have taken more.
    pub(super) backlogged: bool,
    window_since: Time,
    /// Requests queued and outstanding.
    pub(super) queued: u32,
    pub(super) outstanding: u32,
    /// Outstanding requests that were dispatched as bulk.
    pub(super) bulk_outstanding: u32,
    /// When it may run alone again to reveal the cost of its requests.
    pub(super) alone_again: Time,
    /// How often it ran alone.
    pub(super) solos: u32,
    /// Time in this window in which requests were queued.
    waiting: Duration,
    waiting_since: Option<Time>,
    /// Consecutive windows in which it met no criterion for bulk.
    pub(super) modest: u32,
    /// It was seen to take more than its share, and has wanted more than it got ever since.
    pub(super) was_greedy: bool,
    arrivals: Arrivals,
    latency: Latency,
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// Since when nothing has been queued or outstanding.
    idle_since: Option<Time>,
    /// The mean idle time before the next request, once it is known.
    idle: Option<Duration>,
    expected_until: Time,
    /// Time in this window in which nothing was pending.
    idle_in_window: Duration,
}

/// How long requests take from enqueue to completion.
#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    samples: u32,
    sum: Duration,
    /// The largest number of outstanding requests; decays.
    processes: u32,
    since: Time,
    /// The promised latency, whether it is a deadline, and the number of samples that exceeded it.
    target: Option<Duration>,
    is_deadline: bool,
    late: u32,
    /// What all but the latest tenth or twentieth of the samples keep.
    kept: Duration,
    /// Bulk requests dispatched since then.
    bulk: u32,
    /// The mean while bulk is dispatched at the floor: the best that is possible beside it.
    best: Option<Duration>,
    reported_at: Option<Time>,
}

/// Windows after which what is usually pending is known to a few percent.
const STEADY_WINDOWS: u64 = 64;
/// From this number on, a flow has many requests pending.
const DEEP: u64 = 8;
/// A flow that is usually idle for longer than this is not waited for, ...
const IDLE_MAX: Duration = Duration::from_millis(250);
/// ... unless this number of usual bulk requests takes longer: a flow that waits for such requests at other servers
/// cannot send requests more often here.
const IDLE_REQUESTS: u32 = 4;

/// The longest idle time for which a flow is waited for, beside bulk requests of `bulk_ns` of device time.
pub(super) fn idle_max(bulk_ns: u64) -> Duration {
    IDLE_MAX.max(Duration::from_nanos(bulk_ns) * IDLE_REQUESTS)
}

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            kind: Kind::Interactive,
            queued_cost: Bytes::ZERO,
            active: false,
            part: 0,
            used_ns: 0,
            pending_ns: 0,
            pending_sum: 0,
            pending_since: Time::ZERO,
            mean_pending_ns: 0,
            footprint_ns: 0,
            steady_ns: 0,
            windows: 0,
            usual_ns: 0,
            last: None,
            backlogged: false,
            window_since: Time::ZERO,
            queued: 0,
            outstanding: 0,
            bulk_outstanding: 0,
            alone_again: Time::ZERO,
            solos: 0,
            waiting: Duration::ZERO,
            waiting_since: None,
            modest: 0,
            was_greedy: false,
            arrivals: Arrivals::default(),
            latency: Latency::default(),
        }
    }

    /// Whether it has never had a request, or has been idle for long, compared with [`idle_max`].
    pub(super) fn was_away(&self, now: Time, idle_max: Duration) -> bool {
        self.usual_ns == 0 || self.arrivals.idle_since.is_some_and(|since| now.since(since) > 2 * idle_max)
    }

    /// Its first requests will be about as large as this; it has not been away.
    pub(super) fn remember(&mut self, usual_ns: u64) {
        self.usual_ns = usual_ns.max(1);
    }

    /// A request is enqueued.
    pub(super) fn on_arrival(&mut self, now: Time, cost_ns: u64) {
        self.change_pending(now, self.pending_ns + cost_ns);
        self.usual_ns = if self.usual_ns == 0 { cost_ns } else { (self.usual_ns * 7 + cost_ns) / 8 };
        self.queued += 1;
        self.waiting_since.get_or_insert(now);
        if let Some(since) = self.arrivals.idle_since.take() {
            let idle = now.since(since);
            self.arrivals.idle_in_window += idle.min(now.since(self.window_since));
            self.arrivals.idle = Some(self.arrivals.idle.map_or(idle, |mean| (mean * 7 + idle) / 8));
        }
    }

    fn change_pending(&mut self, now: Time, pending_ns: u64) {
        self.pending_sum += u128::from(self.pending_ns) * u128::from(now.nanos_since(self.pending_since));
        (self.pending_ns, self.pending_since) = (pending_ns, now);
    }

    /// The cost of a pending request is corrected.
    pub(super) fn on_correction(&mut self, now: Time, from_ns: u64, to_ns: u64) {
        self.change_pending(now, (self.pending_ns + to_ns).saturating_sub(from_ns));
    }

    /// A window of `elapsed` is over: updates the footprint.
    pub(super) fn end_window(&mut self, now: Time, elapsed: Duration) {
        self.change_pending(now, self.pending_ns);
        let mut idle = core::mem::take(&mut self.arrivals.idle_in_window);
        if let Some(since) = self.arrivals.idle_since {
            idle += now.since(since.max(self.window_since));
        }
        self.backlogged = idle * 64 < elapsed;
        self.window_since = now;
        let mean = core::mem::take(&mut self.pending_sum) / elapsed.as_nanos().max(1);
        self.mean_pending_ns = u64::try_from(mean).unwrap_or(u64::MAX / 4);
        self.footprint_ns = (self.footprint_ns + self.mean_pending_ns) / 2;
        self.windows = STEADY_WINDOWS.min(self.windows + 1);
        self.steady_ns = self.steady_ns - self.steady_ns / self.windows + self.mean_pending_ns / self.windows;
    }

    /// Whether it always has many requests pending, so that it does not wait for any single one.
    pub(super) fn is_deep(&self) -> bool {
        self.backlogged && self.footprint_ns >= self.usual_ns.saturating_mul(DEEP)
    }

    /// A request is complete or cancelled.
    pub(super) fn on_over(&mut self, now: Time, cost_ns: u64) {
        self.change_pending(now, self.pending_ns.saturating_sub(cost_ns));
        if self.queued + self.outstanding == 0 {
            self.arrivals.idle_since = Some(now);
        }
    }

    /// A request left the queue: it was dispatched or cancelled.
    pub(super) fn on_dequeued(&mut self, now: Time) {
        self.queued -= 1;
        if self.queued == 0
            && let Some(since) = self.waiting_since.take()
        {
            self.waiting += now.since(since);
        }
    }

    pub(super) fn on_dispatch(&mut self, now: Time) {
        self.on_dequeued(now);
        self.outstanding += 1;
        self.latency.processes = self.latency.processes.max(self.outstanding);
    }

    /// A request is complete; `took` is its latency, if that counts.
    pub(super) fn on_complete(&mut self, took: Option<Duration>, cost_ns: u64) {
        self.used_ns = self.used_ns.saturating_add(cost_ns);
        if let Some(took) = took {
            // A few very long requests, which occur without any bulk as well, must not decide.
            let most = self.latency.best.map_or(Duration::from_secs(10), |best| best * 16);
            self.latency.samples += 1;
            self.latency.sum += took.min(most);
            if let Some(target) = self.latency.target {
                self.latency.note_kept(took, target);
                self.latency.late += u32::from(took > target);
            }
        }
    }

    /// Since when it has had no requests; `None` while it has some.
    pub(super) fn idle_since(&self) -> Option<Time> {
        self.arrivals.idle_since
    }

    /// Four times as long as it usually has no requests before the next one.
    pub(super) fn usual_idle(&self) -> Duration {
        self.arrivals.idle.unwrap_or_default() * 4
    }

    /// It was active: returns until when its next request is expected, or `now` if that is not known or if it is
    /// usually idle for longer than [`idle_max`].
    pub(super) fn expect(&mut self, now: Time, idle_max: Duration) -> Time {
        self.arrivals.expected_until = match self.arrivals.idle {
            Some(idle) if idle <= idle_max => now + (idle * 4).clamp(idle_max, 2 * idle_max),
            _ => now,
        };
        self.arrivals.expected_until
    }

    /// The latest result of [`Meter::expect`].
    pub(super) fn expected_until(&self) -> Time {
        self.arrivals.expected_until
    }

    /// Returns the time in this window in which requests were queued, and starts the next window.
    pub(super) fn take_waiting(&mut self, now: Time) -> Duration {
        let since = self.waiting_since.map_or(Duration::ZERO, |since| now.since(since));
        self.waiting_since = self.waiting_since.map(|_| now);
        core::mem::take(&mut self.waiting) + since
    }

    /// How far the mean latency of its requests exceeds the best, in thousandths of what is tolerable. `None` while too
    /// few requests completed, or too little `bulk` was dispatched, to rule out chance.
    ///
    /// The best is the latency while bulk is dispatched at the floor (`at_floor`), or less than half of that. What is
    /// below the best is noise just as what is above it, and counts: otherwise noise alone would add up to an excess.
    /// An excess is tolerable if it costs a process that waits for each request at most a sixteenth of its speed. Where
    /// the cycle is long because most requests go to other servers, at most two fifths of the best are tolerable.
    /// `tolerance_ppm` reduces this where requests are served one after another: there, others lose whatever bulk gets
    /// beyond its share by weight.
    pub(super) fn excess(&mut self, now: Time, bulk: u32, at_floor: bool, tolerance_ppm: u64) -> Option<i64> {
        let latency = &mut self.latency;
        latency.bulk = latency.bulk.saturating_add(bulk);
        let patient = now.since(latency.since) >= Latency::PATIENCE;
        if latency.samples < Latency::ENOUGH || latency.bulk < Latency::ENOUGH && !patient {
            return None;
        }
        let elapsed = now.since(latency.since);
        let mean = latency.sum / latency.samples;
        let best = latency.best.unwrap_or(mean);
        latency.best = Some(if at_floor || mean * 2 < best { (best + mean) / 2 } else { best });
        let late = latency.against_target();
        // The time that a process takes for one request and until it sends the next one.
        let cycle = elapsed * latency.processes.max(1) / latency.samples;
        let tolerable = (cycle / 16).min((best * 2 / 5).max(cycle / 100));
        let ns = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let tolerable = tolerable.as_nanos() * u128::from(tolerance_ppm) / 1_000_000;
        let tolerable_ns = i64::try_from(tolerable).unwrap_or(i64::MAX).max(ns(Latency::NOISE));
        let excess = (ns(mean) - ns(best)).saturating_mul(1000) / tolerable_ns;
        latency.restart(now);
        latency.processes = self.outstanding.max(latency.processes - latency.processes / 8);
        Some(late.unwrap_or(excess))
    }

    /// Returns the promised latency, and one that is kept, if more than one in ten (one in twenty) of at least eight
    /// requests in this window exceeded it, and this was not reported in the last ten seconds.
    pub(super) fn missed(&mut self, now: Time) -> Option<(Duration, Duration)> {
        let target = self.latency.target?;
        let late =
            self.latency.samples >= Latency::ENOUGH && self.latency.late * self.latency.parts() > self.latency.samples;
        if !late || self.latency.reported_at.is_some_and(|reported_at| now.since(reported_at) < Latency::REPORT_EVERY) {
            return None;
        }
        self.latency.reported_at = Some(now);
        Some((target, self.latency.kept.max(target)))
    }

    /// Sets the promised latency.
    pub(super) fn set_target(&mut self, target: Option<Duration>, is_deadline: bool) {
        (self.latency.target, self.latency.is_deadline) = (target, is_deadline);
    }

    /// The promised latency, if it is a deadline.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.latency.target.filter(|_| self.latency.is_deadline)
    }

    /// Forgets the best latency, because conditions have changed.
    pub(super) fn forget_best(&mut self) {
        self.latency.best = None;
    }

    /// Discards the latency samples, because they cannot be compared with the best latency.
    pub(super) fn restart_latency(&mut self, now: Time) {
        self.latency.restart(now);
    }
}

impl Latency {
    /// Discards the samples, but neither the target nor the best.
    fn restart(&mut self, now: Time) {
        (self.samples, self.sum, self.since, self.bulk) = (0, Duration::ZERO, now, 0);
        self.late = 0;
    }

    /// The excess if a target is set: what part of the samples exceeded the target, in thousandths of half of what may
    /// (one in ten, of a deadline one in twenty).
    fn against_target(&self) -> Option<i64> {
        self.target?;
        Some(i64::from(self.late) * 2000 * i64::from(self.parts()) / i64::from(self.samples.max(1)))
    }

    /// One in this number of samples may exceed the target.
    fn parts(&self) -> u32 {
        if self.is_deadline { 20 } else { 10 }
    }

    /// Moves the quantile towards a sample, by a part of it that is as rare as larger samples are to be.
    fn note_kept(&mut self, took: Duration, target: Duration) {
        let step = self.kept.max(target) / (8 * self.parts());
        self.kept =
            if took > self.kept { self.kept + step * (self.parts() - 1) } else { self.kept.saturating_sub(step) };
    }

    const REPORT_EVERY: Duration = Duration::from_secs(10);
    /// Fewer samples or bulk requests reveal nothing.
    const ENOUGH: u32 = 8;
    /// After this time, any number of bulk requests is enough.
    const PATIENCE: Duration = Duration::from_millis(1500);
    /// Smaller differences are noise.
    const NOISE: Duration = Duration::from_micros(50);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// A request that arrives `at`, is dispatched at once and takes `took`.
    fn serve(meter: &mut Meter, at: Time, took: Duration) {
        meter.on_arrival(at, 1000);
        meter.on_dispatch(at);
        meter.outstanding -= 1;
        meter.on_over(at + took, 1000);
        meter.on_complete(Some(took), 1000);
    }

    /// The excess after twenty requests 10 ms apart, with twenty bulk requests between them.
    fn excess(meter: &mut Meter, begin: u64, took_us: u64, at_floor: bool) -> Option<i64> {
        (0..20).for_each(|n| serve(meter, ms(begin + 10 * n), Duration::from_micros(took_us)));
        meter.excess(ms(begin + 200), 20, at_floor, 1_000_000)
    }

    #[test]
    fn latency_is_compared_with_that_at_the_floor() {
        let mut meter = Meter::new();
        meter.restart_latency(ms(0));
        assert_eq!(excess(&mut meter, 0, 2000, true), Some(0));
        assert_eq!(excess(&mut meter, 200, 2500, false), Some(800), "half a millisecond of a sixteenth of ten");
        assert_eq!(excess(&mut meter, 400, 4000, false), Some(3200));
        assert_eq!(meter.excess(ms(700), 20, false, 1_000_000), None, "nothing was completed");
        assert_eq!(excess(&mut meter, 800, 1000, false), Some(-1250), "noise goes both ways");
    }

    #[test]
    fn a_target_counts_instead() {
        let mut meter = Meter::new();
        meter.set_target(Some(Duration::from_millis(5)), false);
        meter.restart_latency(ms(0));
        assert_eq!(excess(&mut meter, 0, 2000, true), Some(0));
        assert_eq!(excess(&mut meter, 200, 4500, false), Some(0), "however much longer than the best");
        assert_eq!(meter.missed(ms(400)), None);
        (0..20).for_each(|n| serve(&mut meter, ms(400 + 10 * n), Duration::from_millis(6)));
        let (promised, kept) = meter.missed(ms(600)).expect("it is reported");
        assert_eq!(promised, Duration::from_millis(5));
        assert!((5500..6500).contains(&kept.as_micros()), "{kept:?} would be possible");
        assert_eq!(meter.missed(ms(601)), None, "it was reported already");
        assert_eq!(meter.excess(ms(601), 20, false, 1_000_000), Some(20_000), "twenty times half of what may be late");
    }

    #[test]
    fn a_flow_is_expected_back_only_if_it_often_sends_requests() {
        let mut meter = Meter::new();
        serve(&mut meter, ms(0), Duration::from_millis(1));
        assert_eq!(meter.expect(ms(1), IDLE_MAX), ms(1), "nothing is known");
        serve(&mut meter, ms(3), Duration::from_millis(1));
        assert_eq!(meter.expect(ms(4), IDLE_MAX), ms(254));
        let mut rare = Meter::new();
        serve(&mut rare, ms(0), Duration::from_millis(1));
        serve(&mut rare, ms(1000), Duration::from_millis(1));
        assert_eq!(rare.expect(ms(1001), IDLE_MAX), ms(1001));
        assert!(rare.was_away(ms(1600), IDLE_MAX) && !rare.was_away(ms(1400), IDLE_MAX));
    }

    #[test]
    fn a_flow_is_deep_if_it_always_has_many_requests_pending() {
        let mut meter = Meter::new();
        (0..16).for_each(|_| meter.on_arrival(ms(0), 1000));
        (1..=6).for_each(|window| meter.end_window(ms(100 * window), Duration::from_millis(100)));
        assert!(meter.backlogged && meter.is_deep());
        let mut one = Meter::new();
        one.on_arrival(ms(0), 1000);
        (1..=6).for_each(|window| one.end_window(ms(100 * window), Duration::from_millis(100)));
        assert!(one.backlogged && !one.is_deep());
    }
}
