//! Guarantees of SFQ(D) and SFQ(D)+ for any operations, besides those of every policy.

use std::time::Duration;

use proptest::prelude::*;
use vpfs_core::fairness::{per_weight, service_gap_bound, unfairness};
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::testing::{Client, Op, Oracle, Runner, Storage, run};
use vpfs_core::{
    AppId, AppPolicy, Backfill, Bytes, Depth, Dispatch, Event, OpKind, Request, RequestId, Scheduler, ServiceReport,
    Sfq, Sharing, SharingMode, SlotCost, SlotCostTable, Time, Weight,
};

use crate::common::{DISPATCH, EVENTS, depth, dispatched, ops, weight, write};

proptest! {
    /// Σ L ≤ D after every dispatch, whatever other servers report.
    #[test]
    fn slots_are_never_exceeded(
        slots in 1..20_u32,
        mode in prop::sample::select(&[SharingMode::Local, SharingMode::Threshold, SharingMode::Layout]),
        ops in ops(300),
    ) {
        let mut limit = slots;
        let mut sfq = Sfq::new(depth(slots), SlotCostTable::default(), EVENTS);
        sfq.set_sharing(Sharing { mode, ..Sharing::default() });
        let mut runner = Runner::new(sfq);
        runner.elsewhere = |cost| (!cost.0.is_multiple_of(3)).then_some(Bytes(cost.0 * 3));
        for op in ops {
            if let Op::SetDepth { depth } = op {
                limit = depth.get();
            }
            if !runner.apply(op).is_empty() {
                let used: u32 = runner.outstanding.iter().map(|(_, cost)| cost.get()).sum();
                prop_assert!(used <= limit, "{used} slots used of {limit}");
            }
        }
    }

    /// Requests that pass a blocked head take at most as many slots as it needs itself.
    #[test]
    fn a_blocked_head_does_not_starve(slots in 5..20_u32, ops in ops(400)) {
        // One application with large requests, so that it is the one whose head is blocked.
        let large = |op| matches!(op, Op::Enqueue { app: AppId(0), .. });
        let ops = ops.into_iter().filter_map(|op| match op {
            Op::Enqueue { app, .. } if large(op) => Some(Op::Enqueue { app, op: OpKind::Write, cost: Bytes::mib(2) }),
            Op::Enqueue { app, .. } => Some(Op::Enqueue { app, op: OpKind::Read, cost: Bytes::kib(64) }),
            Op::Dispatch { .. } | Op::Complete { .. } => Some(op),
            _ => None,
        });
        let mut runner = Runner::new(Sfq::new(depth(slots), SlotCostTable::default(), EVENTS));
        ops.for_each(|op| drop(runner.apply(op)));
        let mut blocked = None;
        let mut passed_by = 0;
        for (_, event) in &runner.events {
            match *event {
                Event::HeadBlocked { id, slot_cost, .. } => {
                    prop_assert_eq!(blocked, None);
                    blocked = Some((id, slot_cost.get()));
                }
                Event::Dispatched { slot_cost, backfilled: true, .. } => passed_by += slot_cost.get(),
                Event::Dispatched { id, .. } if blocked.is_some_and(|(head, _)| head == id) => {
                    (blocked, passed_by) = (None, 0);
                }
                _ => {}
            }
            prop_assert!(blocked.is_none_or(|(_, slots)| passed_by <= slots), "{passed_by} slots passed {blocked:?}");
        }
    }

    /// SFQ(D)+ where every L is 1 is SFQ(D).
    #[test]
    fn plus_with_equal_slot_costs_is_sfq_d(slots in 1..20_u32, ops in ops(300)) {
        let row = |kib| SizeClass { up_to: Bytes::kib(kib), slot_cost: SlotCost::ONE };
        let ones = SlotCostTable::new(Bytes::kib(4), vec![row(64), row(1024)], vec![row(512)]);
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::SetSlotCosts { .. })).collect();
        let events = |table| {
            let mut runner = Runner::new(Sfq::new(depth(slots), table, EVENTS));
            dispatched(&mut runner, &ops);
            runner.events
        };
        prop_assert_eq!(events(ones.expect("ascending")), events(SlotCostTable::uniform()));
    }

    /// |W₁/φ₁ − W₂/φ₂| ≤ (D + 1) · (c₁/φ₁ + c₂/φ₂) over every time in which both are backlogged, for any costs, weights
    /// and service times.
    #[test]
    fn service_per_weight_differs_by_no_more_than_the_bound(
        slots in 1..32_u32,
        weights in prop::collection::vec(1..1000_u32, 3),
        sizes in prop::collection::vec(prop::collection::vec(1..3_000_000_u64, 1..5), 3),
        script in prop::collection::vec(1..5_000_u64, 1..9),
    ) {
        let weights: Vec<Weight> = weights.into_iter().map(weight).collect();
        let mut scheduler = Sfq::new(depth(slots), SlotCostTable::uniform(), 0);
        let clients: Vec<Client> = (0..).zip(&sizes).map(|(app, sizes)| {
            scheduler.set_app(Time::ZERO, AppId(app), &AppPolicy::weighted(weights[app as usize]));
            let sizes = sizes.iter().map(|&size| Bytes(size)).collect();
            // More than fit the slots, so that it always has something queued.
            Client { app: AppId(app), op: OpKind::Read, sizes, concurrency: slots + 1 }
        }).collect();
        let mut storage = Storage::new(script.into_iter().map(Duration::from_micros).collect());
        let completions = run(&mut scheduler, &mut storage, &clients, Time::from_millis(50));
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let largest = |app: usize| (clients[app].sizes.iter().copied().max().unwrap_or_default(), weights[app]);
            let bound = service_gap_bound(depth(slots), [largest(one), largest(other)]);
            // The gap over the time from t₁ to t₂ is the difference of the gaps since the start.
            let (mut gap, mut least, mut most) = (0.0_f64, 0.0_f64, 0.0_f64);
            for &(_, AppId(app), cost) in &completions {
                let service = per_weight(cost, weights[app as usize]);
                gap += if app as usize == one { service } else if app as usize == other { -service } else { 0.0 };
                (least, most) = (least.min(gap), most.max(gap));
            }
            prop_assert!(most - least <= bound * 1.000_001, "gap {} exceeds {bound}", most - least);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// In the long run, SFQ(D) and SFQ(D)+ give shares by weight, with large and small requests mixed.
    #[test]
    fn shares_follow_weights(plus in any::<bool>(), weights in prop::collection::vec(1..9_u32, 2..6)) {
        let table = if plus { SlotCostTable::default() } else { SlotCostTable::uniform() };
        let services = services(table, Backfill::Bounded, &weights);
        prop_assert!(unfairness(&services) < 0.02, "{services:?}");
    }

    /// With the paper's backfill, SFQ(D)+ gives shares by weight among applications with small requests and among those
    /// with large ones. Between the two groups the small ones may get more, because they also use slots that are too
    /// few for a large one [vPFS+ §III-C].
    #[test]
    fn backfill_keeps_shares_among_equals(weights in prop::collection::vec(1..9_u32, 4..7)) {
        let services = services(SlotCostTable::default(), Backfill::Paper, &weights);
        for group in [0, 1] {
            let equals: Vec<_> = services.iter().skip(group).step_by(2).copied().collect();
            prop_assert!(unfairness(&equals) < 0.02, "{equals:?} of {services:?}");
        }
    }
}

/// The service of two backlogged applications, one with requests of 1 MiB and one with 128 KiB: the ratio of the first
/// to the second.
fn large_to_small(weights: [u32; 2], backfill: Backfill) -> f64 {
    let mut scheduler = Sfq::new(depth(14), SlotCostTable::default(), 0);
    scheduler.set_backfill(backfill);
    let clients = [(0, Bytes::mib(1)), (1, Bytes::kib(128))].map(|(app, size)| {
        scheduler.set_app(Time::ZERO, AppId(app), &AppPolicy::weighted(weight(weights[app as usize])));
        Client { app: AppId(app), op: OpKind::Write, sizes: vec![size], concurrency: 60 }
    });
    let mut storage = Storage::new(vec![Duration::from_micros(700), Duration::from_micros(1300)]);
    let mut bytes = [0_u64; 2];
    for (_, app, cost) in run(&mut scheduler, &mut storage, &clients, Time::from_millis(10_000)) {
        bytes[app.index()] += cost.0;
    }
    bytes[0] as f64 / bytes[1] as f64
}

/// Symptom: a flow of large requests got less than its weight, and the larger the weight the greater the loss. Cause:
/// while each of its requests was blocked, small requests got as many slots as it needs, however far ahead they already
/// were. Proof: with the bound the shares follow the weights to 5 %; without, they are what the paper's backfill gives.
#[test]
fn weights_hold_between_large_and_small_requests() {
    for (weights, paper) in [([8, 1], 4.8), ([32, 1], 16.0), ([1, 1], 1.0), ([1, 8], 0.125), ([1, 32], 1.0 / 32.0)] {
        let wanted = f64::from(weights[0]) / f64::from(weights[1]);
        let bounded = large_to_small(weights, Backfill::Bounded);
        assert!((bounded / wanted - 1.0).abs() < 0.05, "{weights:?} gives {bounded}");
        let unbounded = large_to_small(weights, Backfill::Paper);
        assert!((unbounded / paper - 1.0).abs() < 0.05, "{weights:?} gives {unbounded} with the paper's backfill");
    }
}

/// The service of applications with `weights` in two seconds if they are always backlogged. Every other one has large
/// requests.
fn services(table: SlotCostTable, backfill: Backfill, weights: &[u32]) -> Vec<(Bytes, Weight)> {
    let mut scheduler = Sfq::new(depth(14), table, 0);
    scheduler.set_backfill(backfill);
    let mut clients = Vec::new();
    for (app, &share) in (0..).zip(weights) {
        scheduler.set_app(Time::ZERO, AppId(app), &AppPolicy::weighted(weight(share)));
        let sizes = if app % 2 == 0 { vec![Bytes::kib(4), Bytes::kib(100)] } else { vec![Bytes::mib(1)] };
        clients.push(Client { app: AppId(app), op: OpKind::Write, sizes, concurrency: 60 });
    }
    let mut storage = Storage::new(vec![Duration::from_micros(700), Duration::from_micros(1300)]);
    let mut services: Vec<_> = weights.iter().map(|&share| (Bytes::ZERO, weight(share))).collect();
    for (_, app, cost) in run(&mut scheduler, &mut storage, &clients, Time::from_millis(2000)) {
        services[app.index()].0 += cost;
    }
    services
}

// Single situations of SFQ(D) and SFQ(D)+, step by step.

const LARGE: Bytes = Bytes::mib(2);
const SMALL: Bytes = Bytes::kib(64);

fn sfq_d(slots: u32) -> Runner<Sfq> {
    Runner::new(Sfq::new(depth(slots), SlotCostTable::uniform(), EVENTS))
}

fn sfq_d_plus(slots: u32) -> Runner<Sfq> {
    Runner::new(Sfq::new(depth(slots), SlotCostTable::default(), EVENTS))
}

fn enqueue(app: u32, cost: Bytes) -> Op {
    Op::Enqueue { app: AppId(app), op: OpKind::Write, cost }
}

/// Completes the oldest outstanding request of `app`.
fn complete(runner: &mut Runner<Sfq>, app: u32) {
    let index = runner.outstanding.iter().position(|(request, _)| request.app == AppId(app));
    let pick = u32::try_from(index.expect("one is outstanding")).expect("few");
    runner.apply(Op::Complete { pick });
}

/// Serves `count` requests one after the other; returns their applications.
fn serve(runner: &mut Runner<Sfq>, count: usize) -> Vec<u32> {
    let mut apps = Vec::new();
    for _ in 0..count {
        apps.extend(runner.apply(DISPATCH).iter().map(|dispatch| dispatch.app.0));
        runner.apply(Op::Complete { pick: 0 });
    }
    apps
}

fn apps(dispatches: &[Dispatch]) -> Vec<u32> {
    dispatches.iter().map(|dispatch| dispatch.app.0).collect()
}

#[test]
fn an_idle_application_has_no_credit_when_it_returns() {
    let mut runner = sfq_d(1);
    dispatched(&mut runner, &[enqueue(1, SMALL), DISPATCH, Op::Complete { pick: 0 }]);
    dispatched(&mut runner, &[enqueue(0, SMALL); 8]);
    assert_eq!(serve(&mut runner, 4), [0; 4]);
    // It is served in turn, not four times at once to catch up.
    dispatched(&mut runner, &[enqueue(1, SMALL); 4]);
    assert_eq!(serve(&mut runner, 8), [1, 0, 1, 0, 1, 0, 1, 0]);
}

#[test]
fn a_new_weight_applies_to_queued_requests() {
    let mut runner = sfq_d(1);
    dispatched(&mut runner, &[[enqueue(0, SMALL), enqueue(1, SMALL)]; 8].concat());
    assert_eq!(serve(&mut runner, 4), [0, 1, 0, 1]);
    runner.apply(Op::SetWeight { app: AppId(1), weight: weight(3) });
    let served = serve(&mut runner, 8);
    assert_eq!(served.iter().filter(|&&app| app == 1).count(), 6, "{served:?}");
}

/// The paper's storage: 14 slots, 5 for 2 MiB [vPFS+ §V-A].
#[test]
fn small_requests_pass_a_blocked_large_one_until_its_slots_are_used() {
    let mut runner = sfq_d_plus(14);
    dispatched(&mut runner, &[enqueue(0, LARGE); 3]);
    assert_eq!(apps(&runner.apply(DISPATCH)), [0, 0]);
    // The first 32 of these have smaller tags than the waiting third large one: they do not pass it, they precede it.
    dispatched(&mut runner, &[enqueue(1, SMALL); 80]);
    for _ in 0..80 {
        runner.apply(DISPATCH);
        if runner.outstanding.iter().any(|(request, _)| request.app == AppId(1)) {
            complete(&mut runner, 1);
        }
    }
    let dispatches = |runner: &Runner<Sfq>, wanted: bool| {
        let small = runner.events.iter().filter_map(|&(_, event)| match event {
            Event::Dispatched { app: AppId(1), backfilled, .. } => Some(backfilled),
            _ => None,
        });
        small.filter(|&backfilled| backfilled == wanted).count()
    };
    assert_eq!(dispatches(&runner, false), 32);
    assert_eq!(dispatches(&runner, true), 5, "as many slots as the large request needs");
    complete(&mut runner, 0);
    let next = runner.apply(DISPATCH);
    assert_eq!(next[0].app, AppId(0));
    assert!(!next[0].backfilled && next[0].slot_cost.get() == 5);
    assert_eq!(runner.events.iter().filter(|(_, event)| matches!(event, Event::HeadBlocked { .. })).count(), 1);
}

#[test]
fn after_the_depth_was_lowered_nothing_goes_until_it_fits() {
    let mut runner = sfq_d_plus(10);
    dispatched(&mut runner, &[enqueue(0, LARGE), enqueue(0, LARGE), DISPATCH, enqueue(0, LARGE)]);
    runner.apply(Op::SetDepth { depth: depth(3) });
    assert_eq!(runner.apply(DISPATCH), []);
    complete(&mut runner, 0);
    assert_eq!(runner.apply(DISPATCH), [], "5 of 3 slots are in use");
    complete(&mut runner, 0);
    let next = runner.apply(DISPATCH);
    assert_eq!(next[0].slot_cost.get(), 3, "all there are");
}

/// Symptom: an application that queues and cancels large requests comes first every time.
/// Cause: a refund that moves the flow's older requests as well.
#[test]
fn cancelling_gives_no_priority() {
    let order = |cancel: bool| {
        let mut runner = sfq_d(1);
        dispatched(&mut runner, &[[enqueue(0, SMALL), enqueue(1, SMALL)]; 20].concat());
        let mut order = Vec::new();
        for _ in 0..20 {
            if cancel {
                runner.apply(enqueue(1, Bytes::mib(64)));
                let newest = u32::try_from(runner.queued.len() - 1).expect("few");
                runner.apply(Op::Cancel { pick: newest });
            }
            order.extend(serve(&mut runner, 1));
        }
        order
    };
    assert_eq!(order(true), order(false));
}

/// A read that asks for more than there is pays for what it got.
#[test]
fn short_reads_pay_for_the_bytes_that_they_got() {
    let mut runner = sfq_d(1);
    let mut served = [0, 0];
    dispatched(&mut runner, &[[enqueue(0, LARGE), enqueue(1, SMALL)]; 2].concat());
    for _ in 0..100 {
        let [dispatch] = runner.apply(DISPATCH)[..] else { panic!("one at a time") };
        if dispatch.app == AppId(0) {
            let index = runner.queued.len();
            runner.apply(Op::CorrectCost { pick: u32::try_from(index).expect("few"), real: SMALL });
        }
        served[dispatch.app.index()] += 1;
        runner.apply(Op::Complete { pick: 0 });
        runner.apply(enqueue(dispatch.app.0, if dispatch.app == AppId(0) { LARGE } else { SMALL }));
    }
    // While a read is in progress its estimate counts, which costs it a turn now and then.
    assert!(served[0] >= 45, "{served:?}");
}

#[test]
#[should_panic(expected = "request id 7 is not in use")]
fn completing_an_unknown_request_panics() {
    sfq_d(1).scheduler.complete(Time::ZERO, RequestId(7));
}

#[test]
#[should_panic(expected = "request id 7 is in use")]
fn enqueuing_an_id_in_use_panics() {
    let mut scheduler = sfq_d(1).scheduler;
    let request = Request::new(RequestId(7), AppId(0), OpKind::Read, SMALL);
    scheduler.enqueue(Time::ZERO, request);
    scheduler.enqueue(Time::ZERO, request);
}

#[test]
#[should_panic(expected = "only a dispatched request can be complete")]
fn completing_a_queued_request_panics() {
    let mut scheduler = sfq_d(1).scheduler;
    let request = Request::new(RequestId(0), AppId(0), OpKind::Read, SMALL);
    scheduler.enqueue(Time::ZERO, request);
    scheduler.complete(Time::ZERO, request.id);
}

// The fast engine against the oracle, event for event.

fn compare(depth: Depth, table: &SlotCostTable, ops: &[Op]) {
    for backfill in [Backfill::Bounded, Backfill::Paper] {
        compare_sharing(depth, table.clone(), Sharing::default(), backfill, ops);
    }
}

fn compare_sharing(depth: Depth, table: SlotCostTable, sharing: Sharing, backfill: Backfill, ops: &[Op]) {
    let mut fast = Runner::new(Sfq::new(depth, table.clone(), EVENTS));
    let mut slow = Runner::new(Oracle::new(depth, table, EVENTS));
    fast.scheduler.set_sharing(sharing);
    slow.scheduler.set_sharing(sharing);
    fast.scheduler.set_backfill(backfill);
    slow.scheduler.set_backfill(backfill);
    // Two in three requests reveal their cost elsewhere: exactly three times their own, also after corrections.
    let elsewhere = |cost: Bytes| (!(cost.0 / Op::COST_UNIT).is_multiple_of(3)).then_some(Bytes(cost.0 * 3));
    (fast.elsewhere, slow.elsewhere) = (elsewhere, elsewhere);
    for (step, &op) in ops.iter().enumerate() {
        assert_eq!(fast.apply(op), slow.apply(op), "step {step}: {op:?}");
        assert_eq!(fast.events, slow.events, "step {step}: {op:?}");
        assert_eq!(fast.scheduler.queued(), slow.scheduler.queued());
        assert_eq!(fast.scheduler.outstanding(), slow.scheduler.outstanding());
        assert_eq!(fast.reports, slow.reports, "step {step}: {op:?}");
        fast.events.clear();
        slow.events.clear();
    }
}

proptest! {
    #[test]
    fn fast_equals_oracle(slots in 1..20_u32, table in 0..4_u32, ops in ops(400)) {
        compare(depth(slots), &Op::slot_cost_table(table), &ops);
    }

    #[test]
    fn fast_equals_oracle_in_total_service(
        slots in 1..20_u32,
        table in 0..4_u32,
        mode in prop::sample::select(&[SharingMode::Threshold, SharingMode::Layout]),
        min_local_share_ppm in prop::sample::select(&[0, 10_000, 200_000, 1_000_000]),
        servers in 1..4_u32,
        backfill in prop::sample::select(&[Backfill::Bounded, Backfill::Paper]),
        threshold_kib in 0..8192_u64,
        metadata_threshold in 0..9_u32,
        // With the larger scale, reports exceed the limit of what may be pending.
        report_scale in prop::sample::select(&[1, 300]),
        ops in ops(400),
    ) {
        // Delays are cut at any byte, so that tags are only exact for powers of two.
        let exact = |op| match op {
            Op::SetWeight { app, weight: exact } => Op::SetWeight { app, weight: weight(exact.get().next_power_of_two()) },
            Op::Peer { report } => Op::Peer { report: ServiceReport { bytes: report.bytes * report_scale, ..report } },
            _ => op,
        };
        let ops: Vec<_> = ops.into_iter().map(exact).collect();
        let broadcast_threshold = Bytes::kib(threshold_kib);
        let sharing = Sharing { mode, broadcast_threshold, metadata_threshold, min_local_share_ppm, servers };
        compare_sharing(depth(slots), Op::slot_cost_table(table), sharing, backfill, &ops);
    }
}

/// Every list of six operations out of eight.
#[test]
fn all_short_lists() {
    let alphabet = [
        write(0, 5),
        write(1, 1200),
        write(1, 7),
        DISPATCH,
        Op::Complete { pick: 0 },
        Op::Cancel { pick: 0 },
        Op::CorrectCost { pick: 1, real: Bytes(2 * Op::COST_UNIT) },
        Op::SetWeight { app: AppId(1), weight: weight(3) },
    ];
    let length = 6;
    for list in 0..alphabet.len().pow(length) {
        let ops: Vec<Op> = (0..length).map(|at| alphabet[list / alphabet.len().pow(at) % alphabet.len()]).collect();
        compare(depth(3), &SlotCostTable::default(), &ops);
    }
}
