//! Settings that change while requests are under way.

use std::panic::{AssertUnwindSafe, catch_unwind};

use vpfs_core::testing::{Op, Runner};
use vpfs_core::{
    AppId, AppPolicy, Backfill, Bytes, Capabilities, Event, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler,
    ServiceClass, ServiceReport, Settings, SharedService, Sharing, SharingMode, SlotCostTable, Time, WindowOrder,
};

use crate::common::{DISPATCH, EVENTS, depth, dispatched, weight, write};

const KINDS: [PolicyKind; PolicyKind::ALL.len()] = PolicyKind::ALL;

fn settings(kind: PolicyKind, slots: u32) -> Settings {
    Settings::new(kind, depth(slots), SlotCostTable::default())
}

fn runner(kind: PolicyKind, slots: u32) -> Runner<Policy> {
    Runner::new(Policy::new(&settings(kind, slots), EVENTS))
}

fn change(runner: &mut Runner<Policy>, kind: PolicyKind, slots: u32) {
    runner.scheduler.reconfigure(runner.now, &settings(kind, slots));
}

/// Outstanding requests occupy slots of the new policy, and queued ones keep their order and their time.
#[test]
fn a_new_policy_takes_over() {
    let mut runner = runner(PolicyKind::Fifo, 3);
    runner.apply(Op::SetWeight { app: AppId(1), weight: weight(4) });
    let first = dispatched(&mut runner, &[write(0, 10), write(0, 10), write(1, 10), DISPATCH]);
    assert_eq!(first.len(), 3);
    let arrived = runner.now;
    for _ in 0..8 {
        dispatched(&mut runner, &[write(0, 10), write(1, 10)]);
    }
    change(&mut runner, PolicyKind::SfqD, 3);
    assert_eq!(runner.apply(DISPATCH), []);
    let mut order = Vec::new();
    for _ in 0..10 {
        order.extend(dispatched(&mut runner, &[Op::Complete { pick: 0 }, DISPATCH]));
    }
    assert_eq!(order.len(), 10);
    assert!(order[0].enqueued_at > arrived && order.iter().all(|dispatch| dispatch.slot_cost.get() == 1));
    let share = order.iter().filter(|dispatch| dispatch.app == AppId(1)).count();
    assert_eq!(share, 8, "weight 4 was kept: {order:?}");
}

/// Tags stay when switching between the fair policies, so shares continue unchanged.
#[test]
fn from_sfq_d_to_plus_and_back_keeps_tags() {
    let ops: Vec<Op> = (0..40).map(|step| write(step % 3, 20)).collect();
    let order = |changes: bool| {
        let mut runner = runner(PolicyKind::SfqD, 2);
        runner.apply(Op::SetWeight { app: AppId(0), weight: weight(3) });
        let mut order = dispatched(&mut runner, &ops);
        for step in 0..40 {
            if changes {
                change(&mut runner, KINDS[1 + step % 2], 2);
            }
            order.extend(dispatched(&mut runner, &[DISPATCH, Op::Complete { pick: 0 }]));
        }
        order
    };
    assert_eq!(order(true), order(false));
}

/// Only where shares hold over several servers must these report to each other, or where all go at one pace.
#[test]
fn policies_that_share_need_peers() {
    for kind in KINDS {
        let shares = matches!(kind, PolicyKind::SfqD | PolicyKind::SfqDPlus | PolicyKind::Isolation);
        for mode in [SharingMode::Local, SharingMode::Threshold, SharingMode::Layout] {
            let sharing = Sharing { mode, ..Sharing::default() };
            let Capabilities { needs_peers, .. } = Settings { sharing, ..settings(kind, 14) }.capabilities();
            let expected = shares && mode != SharingMode::Local || kind == PolicyKind::Isolation;
            assert_eq!(needs_peers, expected, "{kind:?} {mode:?}");
        }
    }
}

fn enqueue(policy: &mut Policy, id: u32, app: u32, op: OpKind) {
    let cost = if op == OpKind::Metadata { Bytes::kib(10) } else { Bytes::kib(64) };
    policy.enqueue(Time::ZERO, Request::new(RequestId(id), AppId(app), op, cost));
}

fn dispatched_ids(policy: &mut Policy) -> Vec<u32> {
    std::iter::from_fn(|| policy.poll_dispatch(Time::ZERO)).map(|dispatch| dispatch.id.0).collect()
}

/// With its own queue, metadata waits neither for data slots nor for the data service of its application.
#[test]
fn metadata_has_a_queue_of_its_own() {
    let apart = Settings { metadata_depth: Some(depth(1)), ..settings(PolicyKind::SfqD, 1) };
    let order = |settings: &Settings| {
        let mut policy = Policy::new(settings, EVENTS);
        (0..4).for_each(|id| enqueue(&mut policy, id, 0, OpKind::Write));
        // Application 1 would be first in a shared queue because it has had no service yet.
        for (id, app) in [(4, 0), (5, 1), (6, 0), (7, 1)] {
            enqueue(&mut policy, id, app, OpKind::Metadata);
        }
        let mut order = Vec::new();
        while policy.queued() > 0 {
            let ids = dispatched_ids(&mut policy);
            ids.iter().for_each(|&id| policy.complete(Time::ZERO, RequestId(id)));
            order.push(ids);
        }
        let events: Vec<_> = std::iter::from_fn(|| policy.poll_event()).map(|(_, event)| event).collect();
        assert_eq!(events.last(), Some(&Event::Idle));
        order
    };
    assert_eq!(order(&apart), [vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]]);
    assert_eq!(order(&settings(PolicyKind::SfqD, 1)).concat(), [0, 5, 7, 1, 2, 3, 4, 6]);
}

/// Symptom: one id for a data and a metadata request at once; when one of the two completes, the slot of the other is
/// freed. Cause: each queue knew its own ids only. Proof: it panics, as the contract says.
#[test]
fn an_id_is_in_use_in_both_queues() {
    for (first, second) in [(OpKind::Write, OpKind::Metadata), (OpKind::Metadata, OpKind::Write)] {
        let apart = Settings { metadata_depth: Some(depth(1)), ..settings(PolicyKind::SfqD, 1) };
        let mut policy = Policy::new(&apart, EVENTS);
        enqueue(&mut policy, 3, 0, first);
        let again = AssertUnwindSafe(|| enqueue(&mut policy, 3, 0, second));
        let panic = catch_unwind(again).expect_err("the id is in use");
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("request id 3 is in use"));
    }
}

#[test]
fn metadata_gets_and_leaves_its_queue_while_requests_wait() {
    let shared = settings(PolicyKind::SfqD, 1);
    let apart = Settings { metadata_depth: Some(depth(1)), ..shared.clone() };
    let mut policy = Policy::new(&shared, EVENTS);
    policy.set_app(Time::ZERO, AppId(1), &AppPolicy::weighted(weight(3)));
    (0..2).for_each(|id| enqueue(&mut policy, id, 0, OpKind::Metadata));
    assert_eq!(dispatched_ids(&mut policy), [0]);
    policy.reconfigure(Time::ZERO, &apart);
    for id in 2..10 {
        enqueue(&mut policy, id, id % 2, OpKind::Metadata);
    }
    assert_eq!(dispatched_ids(&mut policy), [2], "1 stays in the shared queue");
    policy.reconfigure(Time::ZERO, &shared);
    enqueue(&mut policy, 10, 0, OpKind::Metadata);
    policy.complete(Time::ZERO, RequestId(0));
    assert_eq!(dispatched_ids(&mut policy), [1]);
    let mut order = Vec::new();
    for id in [2, 3, 5, 7, 4, 9, 6, 8] {
        policy.complete(Time::ZERO, RequestId(id));
        order.extend(dispatched_ids(&mut policy));
    }
    assert_eq!(order, [3, 5, 7, 4, 9, 6, 8], "weights hold there as well");
    policy.complete(Time::ZERO, RequestId(1));
    assert_eq!(dispatched_ids(&mut policy), [10]);
    let is_idle =
        |policy: &mut Policy| std::iter::from_fn(|| policy.poll_event()).any(|(_, event)| event == Event::Idle);
    assert!(!is_idle(&mut policy), "the metadata queue is, but not all");
    policy.complete(Time::ZERO, RequestId(10));
    assert!(is_idle(&mut policy));
    assert_eq!((policy.queued(), policy.outstanding()), (0, 0));
}

/// Reports from other servers go to the queue of their class.
#[test]
fn reports_are_routed_by_class() {
    let sharing = Sharing { mode: SharingMode::Threshold, metadata_threshold: 3, ..Sharing::default() };
    let order = |metadata_depth, class| {
        let mut policy = Policy::new(&Settings { sharing, metadata_depth, ..settings(PolicyKind::SfqD, 1) }, 0);
        policy.handle_peer(Time::ZERO, ServiceReport { app: AppId(0), class, bytes: 5000 });
        (0..2).for_each(|id| enqueue(&mut policy, id, id, OpKind::Metadata));
        dispatched_ids(&mut policy)
    };
    assert_eq!(order(Some(depth(1)), ServiceClass::Data), [0]);
    assert_eq!(order(Some(depth(1)), ServiceClass::Metadata), [1]);
    assert_eq!(order(None, ServiceClass::Data), [1], "both classes move the same tags");
    assert_eq!(order(None, ServiceClass::Metadata), [1]);

    let mut policy =
        Policy::new(&Settings { sharing, metadata_depth: Some(depth(1)), ..settings(PolicyKind::SfqD, 1) }, 0);
    for id in 0..3 {
        assert_eq!(policy.poll_report(Time::ZERO), None);
        enqueue(&mut policy, id, 0, OpKind::Metadata);
        enqueue(&mut policy, id + 3, 0, OpKind::Read);
    }
    let bytes = 3 * 10 * 1024;
    let report = ServiceReport { app: AppId(0), class: ServiceClass::Metadata, bytes };
    assert_eq!(policy.poll_report(Time::ZERO), Some(report), "in operations, while data is far below its threshold");
    assert_eq!(policy.poll_report(Time::ZERO), None);
}

/// Of 14 slots, two large requests take 10; a third one waits, and of the small ones those far ahead pass it only
/// without a bound.
#[test]
fn the_form_of_backfill_changes_at_once() {
    let mut runner = runner(PolicyKind::SfqDPlus, 14);
    runner.apply(Op::SetWeight { app: AppId(0), weight: weight(100) });
    let small = |count| vec![write(1, 100); count];
    dispatched(&mut runner, &[vec![write(0, 2496); 3], small(2), vec![DISPATCH]].concat());
    assert_eq!((runner.outstanding.len(), runner.queued.len()), (3, 2), "two large and a small one");
    let paper = Settings { backfill: Backfill::Paper, ..settings(PolicyKind::SfqDPlus, 14) };
    runner.scheduler.reconfigure(runner.now, &paper);
    assert_eq!(runner.apply(DISPATCH).len(), 1);
}

/// Two requests are in windows 0 and 1 of one second by the caller's clock, and both in window 1 by the cluster's.
#[test]
fn a_new_policy_goes_by_the_clusters_clock() {
    let served = |ahead_ns| {
        let mut policy = Policy::new(&settings(PolicyKind::Fifo, 2), 0);
        policy.set_clock(ahead_ns);
        let mut ioco = settings(PolicyKind::Ioco, 2);
        ioco.ioco.order = WindowOrder::Paper;
        policy.reconfigure(Time::ZERO, &ioco);
        for (app, order, ms) in [(1, 1, 900), (0, 0, 1100)] {
            policy.set_app(Time::ZERO, AppId(app), &AppPolicy { order: Some(order), ..AppPolicy::default() });
            policy
                .enqueue(Time::from_millis(ms), Request::new(RequestId(app), AppId(app), OpKind::Read, Bytes::kib(64)));
        }
        let dispatched = std::iter::from_fn(|| policy.poll_dispatch(Time::from_millis(1100)));
        dispatched.map(|dispatch| dispatch.app.0).collect::<Vec<_>>()
    };
    assert_eq!(served(0), [1, 0]);
    assert_eq!(served(500_000_000), [0, 1]);
}
