//! The time of a scheduling decision.
//!
//! The workload is fixed, so that results can be compared with those of other schedulers: flow i has weight 1 + i mod 8
//! and starts with four requests, round robin. One pair is: dispatch a request, complete it, and enqueue a new one of
//! the same flow. So every flow has three or four requests queued. Slots are unlimited, time advances by a microsecond
//! for each pair.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Args;
use vpfs_core::testing::Random;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Cap, Constants, Depth, Ioco, IocoSettings, Isolation, OpKind, Policy, PolicyKind, Request,
    RequestId, Scheduler, Scope, Settings, Sfq, ShareId, SlotCostTable, Target, Time, TwoLevel, TwoLevelSettings,
    Weight,
};

use crate::{Effort, Measurement};

const PREFILL: u32 = 4;

#[derive(Clone, Copy, Debug)]
enum Sizes {
    /// All of 4096 bytes.
    Equal,
    /// From a table of 2²⁰ random ones of 4, 64, 256 and 1024 KiB.
    Mixed,
}

impl Sizes {
    fn name(self) -> &'static str {
        match self {
            Self::Equal => "4K",
            Self::Mixed => "mixed",
        }
    }

    /// A power of two of sizes, to be used in turn.
    fn table(self) -> Vec<Bytes> {
        let mut random = Random::new(42);
        match self {
            Self::Equal => vec![Bytes::kib(4)],
            Self::Mixed => {
                (0..1 << 20).map(|_| [4, 64, 256, 1024][(random.bits() >> 62) as usize]).map(Bytes::kib).collect()
            }
        }
    }
}

/// A scheduler with its flows, between two pairs.
struct Bench<S> {
    scheduler: S,
    sizes: Vec<Bytes>,
    enqueued: usize,
    now: Time,
}

impl<S: Scheduler> Bench<S> {
    /// `flows` with four requests each, with `policy`, except weights from 1 to 8.
    fn new(mut scheduler: S, flows: u32, sizes: Sizes, policy: AppPolicy) -> Self {
        for flow in 0..flows {
            scheduler.set_app(Time::ZERO, AppId(flow), &AppPolicy { weight: weight(flow), ..policy });
        }
        let mut bench = Self { scheduler, sizes: sizes.table(), enqueued: 0, now: Time::ZERO };
        for id in 0..PREFILL * flows {
            bench.enqueue(RequestId(id), AppId(id % flows));
        }
        bench
    }

    fn enqueue(&mut self, id: RequestId, app: AppId) -> Bytes {
        let cost = self.sizes[self.enqueued & (self.sizes.len() - 1)];
        self.enqueued += 1;
        self.scheduler.enqueue(self.now, Request::new(id, app, OpKind::Write, cost));
        cost
    }

    /// Dispatch, complete, enqueue; which flow, and the size of its new request.
    fn pair(&mut self) -> (AppId, Bytes) {
        self.now = Time::from_nanos(self.now.as_nanos() + 1000);
        let dispatch = loop {
            match self.scheduler.poll_dispatch(self.now) {
                Some(dispatch) => break dispatch,
                // Held by a pace.
                None => {
                    let due = self.scheduler.poll_timeout();
                    self.now = due.unwrap_or_else(|| unreachable!("slots are unlimited")).max(self.now);
                    self.scheduler.handle_timeout(self.now);
                }
            }
        };
        self.scheduler.complete(self.now, dispatch.id);
        (dispatch.app, self.enqueue(dispatch.id, dispatch.app))
    }

    /// Nanoseconds for each of `pairs`.
    fn time(&mut self, pairs: u32) -> f64 {
        let start = Instant::now();
        for _ in 0..pairs {
            black_box(self.pair());
        }
        nanos_since(start) / f64::from(pairs)
    }

    /// The largest service per weight of a class of weights divided by the smallest, over `pairs`. Counts the requests
    /// enqueued instead of those dispatched: in each pair both belong to the same flow.
    fn shares(&mut self, flows: u32, pairs: u32) -> f64 {
        let mut served = [0.0; 8];
        for _ in 0..pairs {
            let (app, cost) = self.pair();
            served[(app.0 % 8) as usize] += cost.0 as f64;
        }
        let classes = (0..flows.min(8)).map(|class| {
            let members = (flows - class).div_ceil(8);
            served[class as usize] / f64::from(weight(class).get()) / f64::from(members)
        });
        let (least, most) = classes.fold((f64::MAX, 0.0_f64), |(least, most), x| (least.min(x), most.max(x)));
        most / least
    }

    /// The median time of the first request of each of `newcomers` flows, in nanoseconds.
    fn newcomers(&mut self, flows: u32, newcomers: u32) -> f64 {
        let mut nanos: Vec<f64> = (0..newcomers)
            .map(|newcomer| {
                // The others continue, so that the newcomer finds a realistic state.
                for _ in 0..100 {
                    black_box(self.pair());
                }
                let start = Instant::now();
                self.enqueue(RequestId(PREFILL * flows + newcomer), AppId(flows + newcomer));
                nanos_since(start)
            })
            .collect();
        nanos.sort_by(f64::total_cmp);
        nanos[nanos.len() / 2]
    }
}

fn nanos_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9
}

fn weight(flow: u32) -> Weight {
    Weight::new(1 + flow % 8).unwrap_or(Weight::ONE)
}

fn unlimited() -> Depth {
    Depth::new(u32::MAX).unwrap_or_else(|| unreachable!("the depth is not zero"))
}

fn sfq(table: SlotCostTable) -> Sfq {
    Sfq::new(unlimited(), table, 0)
}

fn two_level() -> TwoLevel {
    let settings = TwoLevelSettings { outstanding_max: u32::MAX, ..TwoLevelSettings::default() };
    TwoLevel::new(settings, unlimited(), 0)
}

/// A class with a rate that is never reached: every request passes both levels.
fn class() -> AppPolicy {
    let target = Target { rate: Bytes::mib(1 << 30), scope: Scope::Server, deadline: Duration::from_secs(1) };
    AppPolicy { target: Some(target), ..AppPolicy::default() }
}

/// A cap that is never reached: the cost of accounting.
fn cap() -> AppPolicy {
    AppPolicy { cap: Cap::new(1 << 50, Bytes::mib(1 << 20)), ..AppPolicy::default() }
}

/// SFQ(D) as a daemon holds it.
fn policy() -> Policy {
    Policy::new(&Settings::new(PolicyKind::SfqD, unlimited(), SlotCostTable::uniform()), 0)
}

/// Dispatch, complete and enqueue, by number of flows, sizes and scheduler.
pub(crate) fn pairs(effort: Effort) -> Vec<Measurement> {
    let mut measurements = Vec::new();
    for (flows, target) in flow_counts(effort) {
        for sizes in [Sizes::Equal, Sizes::Mixed] {
            let case = Case { flows, sizes, target };
            let one = SlotCostTable::uniform;
            let (none, ioco) = (AppPolicy::default(), IocoSettings::default());
            measurements.push(case.measure(effort, "sfq-d", none, || sfq(one())));
            measurements.push(case.measure(effort, "sfq-d-plus", none, || sfq(SlotCostTable::default())));
            measurements.push(case.measure(effort, "sfq-d with caps", cap(), policy));
            measurements.push(case.measure(effort, "two-level", class(), two_level).without_shares());
            measurements.push(case.measure(effort, "ioco", none, || Ioco::new(ioco, unlimited(), 0)).without_shares());
            measurements.push(
                case.measure(effort, "isolation", none, || Isolation::new(Constants::DEFAULT, 0)).without_shares(),
            );
        }
    }
    measurements
}

/// The time of the first request of a new flow, by the number of existing flows.
pub(crate) fn newcomers(effort: Effort) -> Vec<Measurement> {
    let measure = |flows| {
        let sample = |_| {
            Bench::new(sfq(SlotCostTable::default()), flows, Sizes::Mixed, AppPolicy::default()).newcomers(flows, 101)
        };
        Measurement {
            benchmark: "first request of a new flow",
            subject: "sfq-d-plus",
            input: format!("{flows} others, mixed"),
            unit: "ns",
            samples: (0..effort.runs).map(sample).collect(),
            target: Some(1000.0),
            shares_max_min: None,
        }
    };
    flow_counts(effort).into_iter().map(|(flows, _)| measure(flows)).collect()
}

/// Numbers of flows, and the nanoseconds that a pair should not exceed.
fn flow_counts(effort: Effort) -> Vec<(u32, f64)> {
    if effort.quick { vec![(10, 150.0)] } else { vec![(10, 150.0), (1000, 300.0), (100_000, 1000.0)] }
}

struct Case {
    flows: u32,
    sizes: Sizes,
    target: f64,
}

impl Case {
    fn measure<S: Scheduler>(
        &self,
        effort: Effort,
        subject: &'static str,
        policy: AppPolicy,
        scheduler: impl Fn() -> S,
    ) -> Measurement {
        let Self { flows, sizes, target } = *self;
        let pairs = if effort.quick { 1000 } else { 1_000_000 };
        let mut shares = 1.0;
        let sample = |_| {
            let mut bench = Bench::new(scheduler(), flows, sizes, policy);
            bench.time(flows.max(pairs / 100));
            let nanos = bench.time(pairs);
            shares = bench.shares(flows, pairs);
            nanos
        };
        Measurement {
            benchmark: "dispatch, complete, enqueue",
            subject,
            input: format!("{flows} flows, {}", sizes.name()),
            unit: "ns/pair",
            samples: (0..effort.runs).map(sample).collect(),
            target: Some(target),
            shares_max_min: Some(shares),
        }
    }
}

/// Requests that are outstanding at a time, below the depth.
const OUTSTANDING: usize = 24;
const DEPTH: u32 = 32;

/// Make decisions of one policy, as a program to be examined.
#[derive(Debug, Args)]
pub(crate) struct CountOptions {
    /// The policy.
    policy: String,
    /// How many requests to enqueue, dispatch and complete.
    requests: u32,
    /// Applications, which send one after another.
    #[arg(long, default_value_t = 16)]
    flows: u32,
    /// Shares that they are in, in equal numbers; none if 0.
    #[arg(long, default_value_t = 0)]
    shares: u32,
    /// Requests that each of them has queued before the first one goes.
    #[arg(long, default_value_t = 0)]
    queued: u32,
}

/// Enqueues a request each 100 µs, dispatches what may go, and completes the oldest. If applications have requests
/// queued from the beginning, each completed one makes room for the next.
pub(crate) fn count(options: &CountOptions) -> Result<(), String> {
    let kind = PolicyKind::ALL.into_iter().find(|kind| kind.name() == options.policy);
    let kind = kind.ok_or_else(|| format!("there is no policy {}", options.policy))?;
    let depth = Depth::new(DEPTH).ok_or("the depth is not zero")?;
    let mut scheduler = Policy::new(&Settings::new(kind, depth, SlotCostTable::default()), 0);
    for app in 0..if options.shares > 0 { options.flows } else { 0 } {
        let policy = AppPolicy { share: Some(ShareId(app % options.shares)), ..AppPolicy::default() };
        scheduler.set_app(Time::ZERO, AppId(app), &policy);
    }
    let (mut outstanding, mut free, mut ids) = (VecDeque::new(), Vec::new(), 0..);
    for app in (0..options.queued).flat_map(|_| 0..options.flows) {
        let Some(id) = ids.next() else { unreachable!("the range has no end") };
        scheduler.enqueue(Time::ZERO, Request::new(RequestId(id), AppId(app), OpKind::Write, Bytes::kib(4)));
    }
    for turn in 0..options.requests {
        let now = Time::from_nanos(u64::from(turn) * 100_000);
        let Some(id) = free.pop().or_else(|| ids.next()) else { unreachable!("the range has no end") };
        let size = Bytes::kib(if turn % 3 == 0 { 256 } else { 4 });
        scheduler.enqueue(now, Request::new(RequestId(id), AppId(turn % options.flows), OpKind::Write, size));
        let before = outstanding.len();
        while let Some(dispatch) = scheduler.poll_dispatch(now) {
            outstanding.push_back(black_box(dispatch).id);
        }
        // Large requests may take all slots.
        let is_full = outstanding.len() == before || outstanding.len() > OUTSTANDING;
        if is_full && let Some(id) = outstanding.pop_front() {
            scheduler.complete(now, id);
            free.push(id.0);
        }
        while black_box(scheduler.poll_event()).is_some() {}
    }
    Ok(())
}
