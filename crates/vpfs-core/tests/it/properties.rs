//! Guarantees of SFQ(D) and SFQ(D)+ for any operations, besides those of every policy.

use std::time::Duration;

use proptest::prelude::*;
use vpfs_core::fairness::{per_weight, service_gap_bound, unfairness};
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::testing::{Client, Op, Runner, Storage, run};
use vpfs_core::{
    AppId, AppPolicy, Backfill, Bytes, Event, OpKind, Scheduler, Sfq, Sharing, SharingMode, SlotCost, SlotCostTable,
    Time, Weight,
};

use crate::common::{EVENTS, depth, dispatched, ops, weight};

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
