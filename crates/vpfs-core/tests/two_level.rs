//! The guarantees of rates and deadlines, on storage of about 50 MB/s [Two-level].

mod common;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use common::depth;
use vpfs_core::testing::Random;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Deadlines, Depth, Dispatch, Event, Fifo, OpKind, Policy, PolicyKind, Request, RequestId,
    Scheduler, Scope, Settings, SlotCostTable, Target, Time, TwoLevel, TwoLevelSettings,
};

const SIZE: Bytes = Bytes::kib(32);
const TIGHT: AppId = AppId(0);
const LOOSE: AppId = AppId(1);
const DEADLINES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(300)];

/// The nanoseconds that `bytes` take at `per_second`.
fn nanos(bytes: Bytes, per_second: u64) -> u64 {
    bytes.0 * 1_000_000_000 / per_second
}

/// Four channels, each of 12.5 MB/s give or take a fifth, that take requests in order of dispatch.
struct Disk {
    waiting: VecDeque<RequestId>,
    busy: BTreeSet<(Time, RequestId)>,
    random: Random,
}

impl Disk {
    fn new() -> Self {
        Self { waiting: VecDeque::new(), busy: BTreeSet::new(), random: Random::new(9) }
    }

    fn start(&mut self, now: Time, dispatch: &Dispatch) {
        self.waiting.push_back(dispatch.id);
        self.go_on(now);
    }

    fn go_on(&mut self, now: Time) {
        while self.busy.len() < 4
            && let Some(id) = self.waiting.pop_front()
        {
            let takes = nanos(SIZE, 12_500_000) * u64::from(80 + self.random.below(41)) / 100;
            self.busy.insert((now + Duration::from_nanos(takes), id));
        }
    }

    fn next(&self) -> Option<Time> {
        self.busy.first().map(|&(at, _)| at)
    }

    /// The request that is complete at `now`.
    fn complete(&mut self, now: Time) -> Option<RequestId> {
        self.next().filter(|&at| at <= now)?;
        let (_, id) = self.busy.pop_first()?;
        self.go_on(now);
        Some(id)
    }
}

/// Bytes per second that an application issues at a given time.
type Load = fn(Time) -> u64;

/// An application that issues at a given rate, with a limited number of requests in progress: after it had to wait, it
/// continues at its rate and does not catch up.
struct Source {
    load: Load,
    next_issue: Time,
    under_way: u32,
}

impl Source {
    const REQUESTS: u32 = 256;

    fn new(load: Load) -> Self {
        Self { load, next_issue: Time::ZERO, under_way: 0 }
    }

    fn next(&self) -> Option<Time> {
        (self.under_way < Self::REQUESTS).then_some(self.next_issue)
    }

    /// Whether a request is issued now.
    fn issue(&mut self, now: Time) -> bool {
        if self.next().is_none_or(|at| at > now) {
            return false;
        }
        let rate = (self.load)(now);
        if rate == 0 {
            self.next_issue = now + Duration::from_millis(10);
            return false;
        }
        let gap = Duration::from_nanos(nanos(SIZE, rate));
        self.next_issue = if now.since(self.next_issue) > gap { now } else { self.next_issue } + gap;
        self.under_way += 1;
        true
    }
}

/// The result of a run.
#[derive(Default)]
struct Outcome {
    /// By application: completed requests, and those that took longer from issue to completion than the deadline.
    completed: [u32; 2],
    late: [u32; 2],
    /// The outstanding limit, where it changed.
    limits: Vec<(Time, u32)>,
    missed: [u32; 2],
}

impl Outcome {
    /// Late requests by application, in parts of a million.
    fn late_ppm(&self) -> [u64; 2] {
        [0, 1].map(|app| u64::from(self.late[app]) * 1_000_000 / u64::from(self.completed[app].max(1)))
    }
}

struct Run<S> {
    scheduler: S,
    disk: Disk,
    sources: [Source; 2],
    /// By request: its application, and when it was issued.
    issued: Vec<(usize, Time)>,
    free: Vec<RequestId>,
    outcome: Outcome,
}

impl<S: Scheduler> Run<S> {
    fn new(scheduler: S, loads: [Load; 2]) -> Self {
        let ids = 2 * Source::REQUESTS;
        Self {
            scheduler,
            disk: Disk::new(),
            sources: loads.map(Source::new),
            issued: vec![(0, Time::ZERO); ids as usize],
            free: (0..ids).rev().map(RequestId).collect(),
            outcome: Outcome::default(),
        }
    }

    fn until(mut self, end: Time) -> Outcome {
        self.run_until(end);
        self.outcome
    }

    fn run_until(&mut self, end: Time) {
        let mut now = Time::ZERO;
        while now < end {
            let sources = self.sources.iter().filter_map(Source::next);
            let next = sources.chain(self.disk.next()).chain(self.scheduler.poll_timeout()).min();
            now = now.max(next.expect("sources never end"));
            self.step(now);
        }
    }

    fn step(&mut self, now: Time) {
        if self.scheduler.poll_timeout().is_some_and(|at| at <= now) {
            self.scheduler.handle_timeout(now);
        }
        if let Some(id) = self.disk.complete(now) {
            self.complete(now, id);
        }
        for app in [TIGHT, LOOSE] {
            if self.sources[app.index()].issue(now) {
                let id = self.free.pop().expect("there is one for each request under way");
                self.issued[id.index()] = (app.index(), now);
                self.scheduler.enqueue(now, Request::new(id, app, OpKind::Write, SIZE));
            }
        }
        while let Some(dispatch) = self.scheduler.poll_dispatch(now) {
            self.disk.start(now, &dispatch);
        }
        while let Some((at, event)) = self.scheduler.poll_event() {
            match event {
                Event::DepthChanged { depth } => self.outcome.limits.push((at, depth.get())),
                Event::DeadlineMissed { app, .. } => self.outcome.missed[app.index()] += 1,
                _ => {}
            }
        }
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.scheduler.complete(now, id);
        let (app, since) = self.issued[id.index()];
        self.free.push(id);
        self.sources[app].under_way -= 1;
        self.outcome.completed[app] += 1;
        self.outcome.late[app] += u32::from(now.since(since) > DEADLINES[app]);
    }
}

fn seconds(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

/// 30 MB/s for ten seconds, then nothing for ten.
fn on_off(now: Time) -> u64 {
    if (now.as_nanos() / seconds(10).as_nanos()).is_multiple_of(2) { 30_000_000 } else { 0 }
}

/// From 5 to 30 MB/s within a minute.
fn ramp(now: Time) -> u64 {
    5_000_000 + 25_000_000 * now.as_nanos() / seconds(60).as_nanos()
}

fn promised(megabytes: u64, deadline: Duration) -> AppPolicy {
    let target = Target { rate: Bytes(megabytes * 1_000_000), scope: Scope::Server, deadline };
    AppPolicy { target: Some(target), ..AppPolicy::default() }
}

/// (40 MB/s, 100 ms) and (20 MB/s, 300 ms), the classes of the slides.
fn two_level() -> TwoLevel {
    let mut scheduler = TwoLevel::new(TwoLevelSettings::default(), depth(8), common::EVENTS);
    for (app, megabytes) in [(TIGHT, 40), (LOOSE, 20)] {
        scheduler.set_app(Time::ZERO, app, &promised(megabytes, DEADLINES[app.index()]));
    }
    scheduler
}

/// One class goes on and off within its rate. The other one asks for more and more, in the end for more than its rate,
/// and both together for more than the storage has.
#[test]
fn the_class_that_keeps_its_rate_keeps_its_deadline() {
    let ours = Run::new(two_level(), [on_off, ramp]).until(seconds(60));
    let [tight, loose] = ours.late_ppm();
    assert!(loose >= 100_000, "the loose class is late in the end: {loose} of a million");
    assert!(tight * 10 <= loose, "{tight} and {loose} of a million are late");
    // Late requests are those that waited for credits; requests that passed keep their deadlines.
    assert!(ours.missed.iter().sum::<u32>() * 1000 < ours.completed.iter().sum());
    let fifo = Run::new(Fifo::new(common::EVENTS), [on_off, ramp]).until(seconds(60));
    let [without, _] = fifo.late_ppm();
    assert!(without >= 200_000 && tight * 10 <= without, "{without} of a million are late without control");
    let throughput = ours.completed.iter().sum::<u32>();
    assert!(throughput * 100 >= fifo.completed.iter().sum::<u32>() * 97, "throughput stays: {throughput}");
}

#[test]
fn the_outstanding_limit_follows_the_load_up_and_down() {
    let limits = Run::new(two_level(), [on_off, ramp]).until(seconds(60)).limits;
    let within = |from, to| limits.iter().filter(move |(at, _)| (seconds(from)..seconds(to)).contains(at)).map(|x| x.1);
    assert!(within(0, 10).is_sorted() && within(0, 10).count() > 5, "utilisation is raised step by step: {limits:?}");
    // While both are on and ask for all there is, throughput has priority; when one stops, latency does again. The
    // limit is then no more than the storage completes in half of the shorter deadline, except for what promised
    // requests need.
    assert!((70..=100).contains(&within(40, 50).max().unwrap()), "{limits:?}");
    let least = within(50, 55).min().expect("the limit changes when one class goes");
    assert!(least < 80, "{limits:?}");
}

/// What metrics say of the limit is what holds.
#[test]
fn the_limit_is_told() {
    let mut settings = Settings::new(PolicyKind::TwoLevel, depth(8), SlotCostTable::uniform());
    settings.two_level.deadlines = Deadlines::Paper;
    let mut policy = Policy::new(&settings, common::EVENTS);
    assert_eq!(policy.limits().depth, Some(depth(8)));
    for (app, megabytes) in [(TIGHT, 40), (LOOSE, 20)] {
        policy.set_app(Time::ZERO, app, &promised(megabytes, DEADLINES[app.index()]));
    }
    let mut run = Run::new(policy, [on_off, ramp]);
    run.run_until(seconds(15));
    let told = run.scheduler.limits().depth.map(Depth::get);
    let last = run.outcome.limits.last().expect("it changes").1;
    assert_eq!(told, Some(last));
    assert_ne!(last, 8);
}

/// Both ask for their full rates, a fifth more than the storage has: not all deadlines can be kept then, and the
/// storage must not be left idle.
#[test]
fn promises_that_exceed_the_storage_cost_no_throughput() {
    let loads: [Load; 2] = [|_| 40_000_000, |_| 20_000_000];
    let completed = |outcome: Outcome| outcome.completed.iter().sum::<u32>();
    let ours = completed(Run::new(two_level(), loads).until(seconds(20)));
    let fifo = completed(Run::new(Fifo::new(common::EVENTS), loads).until(seconds(20)));
    assert!(ours * 100 >= fifo * 99, "{ours} {fifo}");
}

/// An application without a target gets the spare capacity, and a little even if there is none.
#[test]
fn best_effort_gets_the_rest_and_never_starves() {
    let served = |tight: Load| {
        let mut scheduler = two_level();
        scheduler.set_app(Time::ZERO, LOOSE, &AppPolicy::default());
        Run::new(scheduler, [tight, |_| 60_000_000])
            .until(seconds(20))
            .completed
            .map(|count| u64::from(count) * SIZE.0 / 20_000_000)
    };
    let [tight, rest] = served(|_| 30_000_000);
    assert!(tight >= 29 && rest >= 17, "{tight} and {rest} MB/s");
    let mut scheduler = two_level();
    scheduler.set_app(Time::ZERO, TIGHT, &promised(80, DEADLINES[0]));
    scheduler.set_app(Time::ZERO, LOOSE, &AppPolicy::default());
    let outcome = Run::new(scheduler, [|_| 70_000_000, |_| 60_000_000]).until(seconds(20));
    assert!(outcome.completed[1] >= 95, "one in each of 100 periods: {}", outcome.completed[1]);
}
