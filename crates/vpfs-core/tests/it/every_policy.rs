//! The guarantees of every policy, alone and under caps.

use std::time::Duration;

use proptest::prelude::*;
use vpfs_core::testing::{Op, Random, Runner};
use vpfs_core::{
    AppId, Bytes, Cap, Deadlines, Dispatch, Event, IocoSettings, OpKind, Policy, PolicyKind, Scheduler, Scope,
    Settings, Sharing, SharingMode, SlotCostTable, Target, TwoLevelSettings,
};

use crate::common::{DISPATCH, EVENTS, check_timer, depth, ops, weight};

/// Settings with short periods compared to a test; `step` is the duration of one of its steps.
fn settings(kind: PolicyKind, slots: u32, step: Duration) -> Settings {
    let settings = Settings::new(kind, depth(slots), SlotCostTable::default());
    // Paced deadlines are those of the isolation engine.
    let deadlines = Deadlines::Paper;
    let two_level =
        TwoLevelSettings { deadlines, replenish_period: step * 20, control_window: step * 100, outstanding_max: slots };
    let ioco = IocoSettings { window: step * 50, max_clock_skew: step * 50, ..IocoSettings::default() };
    Settings { two_level, ioco, ..settings }
}

/// Two applications with targets, two with orders, and, if wanted, one with a cap.
fn runner(settings: &Settings, capped: bool) -> Runner<Policy> {
    let mut runner = Runner::new(Policy::new(settings, EVENTS));
    for (app, megabytes) in [(0, 50), (1, 2000)] {
        let deadline = settings.two_level.replenish_period * 10;
        let target = Target { rate: Bytes::mib(megabytes), scope: Scope::Server, deadline };
        runner.set_app(AppId(app), |policy| policy.target = Some(target));
    }
    runner.set_app(AppId(1), |policy| policy.order = Some(7));
    runner.set_app(AppId(2), |policy| policy.order = Some(1));
    if capped {
        runner.set_app(AppId(3), |policy| policy.cap = Cap::new(100_000_000, Bytes::mib(1)));
    }
    runner
}

const MICROSECOND: Duration = Duration::from_micros(1);

fn kind() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(&PolicyKind::ALL)
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let mode = prop::sample::select(&[SharingMode::Local, SharingMode::Threshold, SharingMode::Layout]);
    let metadata_depth = prop::option::of((1..5_u32).prop_map(depth));
    (kind(), 1..20_u32, any::<u16>(), mode, metadata_depth).prop_map(|(kind, slots, step_ns, mode, metadata_depth)| {
        let sharing = Sharing { mode, broadcast_threshold: Bytes::mib(2), ..Sharing::default() };
        let step = Duration::from_nanos(u64::from(step_ns) + 1);
        Settings { sharing, metadata_depth, ..settings(kind, slots, step) }
    })
}

fn check_counts(runner: &Runner<Policy>) {
    assert_eq!(runner.scheduler.queued(), runner.queued.len());
    assert_eq!(runner.scheduler.outstanding(), runner.outstanding.len());
}

fn all_dispatched(runner: &mut Runner<Policy>, ops: &[Op]) -> Vec<Dispatch> {
    ops.iter().flat_map(|&op| runner.apply(op)).collect()
}

proptest! {
    /// Each request is dispatched at most once (the runner panics on a dispatch of a request that is not queued), and
    /// completed or cancelled once; counts agree after every step, and nothing is lost.
    #[test]
    fn requests_are_conserved(kind in kind(), slots in 1..20_u32, capped: bool, ops in ops(300)) {
        let mut runner = runner(&settings(kind, slots, MICROSECOND), capped);
        let issued = ops.iter().filter(|op| matches!(op, Op::Enqueue { .. })).count();
        for op in ops {
            runner.apply(op);
            check_counts(&runner);
        }
        runner.finish();
        prop_assert!(runner.queued.is_empty() && runner.outstanding.is_empty());
        let count = |wanted: fn(&Event) -> bool| runner.events.iter().filter(|(_, event)| wanted(event)).count();
        let gone = count(|event| matches!(event, Event::Completed { .. } | Event::Cancelled { .. }));
        prop_assert_eq!(gone, issued);
        prop_assert_eq!(count(|event| matches!(event, Event::Lost { .. })), 0);
    }

    /// The same inputs give the same dispatches and the same events.
    #[test]
    fn equal_inputs_give_equal_outputs(settings in any_settings(), capped: bool, ops in ops(300)) {
        let run = || {
            let mut runner = runner(&settings, capped);
            let dispatches = all_dispatched(&mut runner, &ops);
            (dispatches, runner.events)
        };
        prop_assert_eq!(run(), run());
    }

    /// Whenever settings, caps, targets, orders and weights change, every request is dispatched once and completed
    /// once, and no timer spins.
    #[test]
    fn changes_lose_nothing(
        capped: bool,
        ops in ops(300),
        changes in prop::collection::vec((any_settings(), 0..5_u32, any::<u16>(), 0..2000_u64), 0..30),
    ) {
        let mut runner = runner(&settings(PolicyKind::Fifo, 1, MICROSECOND), capped);
        runner.elsewhere = |cost| cost.0.is_multiple_of(2).then_some(cost);
        let mut changes = changes.into_iter();
        for chunk in ops.chunks(10) {
            all_dispatched(&mut runner, chunk);
            if let Some((settings, app, bits, pause_ms)) = changes.next() {
                runner.now = runner.now + Duration::from_millis(pause_ms);
                runner.scheduler.reconfigure(runner.now, &settings);
                let deadline = Duration::from_micros(bits.into());
                let scope = if bits.is_multiple_of(2) { Scope::Server } else { Scope::Total };
                let target = Target { rate: Bytes::kib(bits.into()), scope, deadline };
                runner.set_app(AppId(app), |policy| {
                    policy.target = (bits % 3 > 0).then_some(target);
                    policy.order = Some(bits);
                    policy.cap = Cap::new(u64::from(bits % 4) * 1_000_000_000, Bytes(100_000));
                });
                check_timer(&mut runner);
            }
            check_counts(&runner);
        }
        runner.finish();
        prop_assert!(runner.queued.is_empty() && runner.outstanding.is_empty());
    }

    /// A policy that claims to be work-conserving never leaves the storage idle while a request is queued; any other
    /// one sets a timeout. No timer spins.
    #[test]
    fn work_is_conserved_where_claimed(settings in any_settings(), capped: bool, ops in ops(300)) {
        let mut runner = runner(&settings, capped);
        runner.elsewhere = |cost| cost.0.is_multiple_of(2).then_some(cost);
        let claimed = settings.capabilities().work_conserving && !capped;
        for op in ops {
            runner.apply(op);
            if op == DISPATCH {
                let idles = !runner.queued.is_empty() && runner.outstanding.is_empty();
                prop_assert!(!idles || !claimed && runner.scheduler.poll_timeout().is_some());
                check_timer(&mut runner);
            }
        }
    }

    /// While all applications keep sending, each request is dispatched within a bound.
    #[test]
    fn nobody_starves(kind in kind(), capped: bool, seed: u64) {
        let (longest, bound) = longest_wait(kind, capped, seed);
        prop_assert!(longest <= bound, "{longest} steps of at most {bound}");
    }
}

/// Requests that an application has in progress.
const CONCURRENCY: u64 = 2;
const STEP: Duration = Duration::from_millis(1);
/// Sizes and weights, and the ratio of the largest to the smallest of each.
const SIZES_KIB: [u64; 3] = [256, 512, 1024];
const SIZE_RATIO: u64 = 4;
const WEIGHT_RATIO: u32 = 2;

/// The longest wait of a request and its bound, in steps of a millisecond; one request completes in each step.
fn longest_wait(kind: PolicyKind, capped: bool, seed: u64) -> (u64, u64) {
    let mut runner = runner(&settings(kind, 2, STEP), capped);
    let mut random = Random::new(seed);
    for app in 0..Op::APPS {
        runner.apply(Op::SetWeight { app: AppId(app), weight: weight(1 + random.below(WEIGHT_RATIO)) });
        (0..CONCURRENCY).for_each(|_| enqueue(&mut runner, &mut random, AppId(app)));
    }
    let mut longest = Duration::ZERO;
    for _ in 0..6000 {
        let dispatches = runner.apply(DISPATCH);
        longest = dispatches.iter().map(|dispatch| runner.now.since(dispatch.enqueued_at)).fold(longest, Ord::max);
        runner.now = runner.now + STEP;
        if !runner.outstanding.is_empty() {
            let pick = random.below(u32::try_from(runner.outstanding.len()).expect("few"));
            let app = runner.outstanding[pick as usize].0.app;
            runner.apply(Op::Complete { pick });
            enqueue(&mut runner, &mut random, app);
        }
    }
    // Requests that are still waiting count as well.
    let until = runner.now;
    while !runner.queued.is_empty() {
        let dispatches = runner.apply(DISPATCH);
        longest = dispatches.iter().map(|dispatch| until.since(dispatch.enqueued_at)).fold(longest, Ord::max);
        runner.apply(Op::Complete { pick: 0 });
        runner.now = runner.now + STEP;
    }
    (u64::try_from(longest.as_millis()).expect("short"), bound(kind, capped))
}

fn enqueue(runner: &mut Runner<Policy>, random: &mut Random, app: AppId) {
    let cost = Bytes::kib(SIZES_KIB[random.below(3) as usize]);
    runner.apply(Op::Enqueue { app, op: OpKind::Write, cost });
}

fn bound(kind: PolicyKind, capped: bool) -> u64 {
    let turns = |apps: u64| apps * (CONCURRENCY * SIZE_RATIO * u64::from(WEIGHT_RATIO) + 1);
    let apps = u64::from(Op::APPS);
    let policy = match kind {
        PolicyKind::Fifo => 0,
        // Before its turn, each application is served as often as the request's queue allows, by size and weight.
        PolicyKind::SfqD | PolicyKind::SfqDPlus => turns(apps),
        // The window must end, and requests issued in it or earlier must be served.
        PolicyKind::Ioco => 2 * 50 + CONCURRENCY * apps,
        // One best-effort request passes in each period of 20, and goes when its deadline of a second is over; for
        // classes with 50 MiB/s or more it is less.
        PolicyKind::TwoLevel => 20 * turns(3) + 1000,
        // Turns as under SFQ(D). The limits of bulk are updated in each control window, of 100 ms while something
        // always completes in it, and an application that got too little in some of them must not wait for more than
        // twenty.
        PolicyKind::Isolation => turns(apps) + 20 * 100,
    };
    // 100 MB/s for everything that the application has, and the request before.
    let cap = if capped { (CONCURRENCY + 1) * 1024 * 1024 / 100_000 } else { 0 };
    // Each step is a few microseconds longer than a millisecond.
    policy + cap + policy / 50 + 2
}
