//! Settings that change while requests are under way.

mod common;

use common::{DISPATCH, EVENTS, depth, dispatched, ops, weight, write};
use proptest::prelude::*;
use vpfs_core::testing::{Op, Runner};
use vpfs_core::{AppId, Policy, PolicyKind, Scheduler, Settings, SlotCostTable};

const KINDS: [PolicyKind; 5] =
    [PolicyKind::Fifo, PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::TwoLevel, PolicyKind::Ioco];

fn settings(kind: PolicyKind, slots: u32) -> Settings {
    Settings::new(kind, depth(slots), SlotCostTable::default())
}

fn runner(kind: PolicyKind, slots: u32) -> Runner<Policy> {
    Runner::new(Policy::new(&settings(kind, slots), EVENTS))
}

fn change(runner: &mut Runner<Policy>, kind: PolicyKind, slots: u32) {
    runner.scheduler.reconfigure(runner.now, &settings(kind, slots));
}

proptest! {
    /// Whatever changes when, every request is dispatched once and completed once.
    #[test]
    fn a_reload_drops_nothing(
        ops in ops(300),
        changes in prop::collection::vec((prop::sample::select(&KINDS), 1..20_u32), 0..30),
    ) {
        let mut runner = runner(PolicyKind::Fifo, 1);
        let mut changes = changes.into_iter();
        for chunk in ops.chunks(10) {
            dispatched(&mut runner, chunk);
            if let Some((kind, slots)) = changes.next() {
                change(&mut runner, kind, slots);
            }
            prop_assert_eq!(runner.scheduler.queued(), runner.queued.len());
            prop_assert_eq!(runner.scheduler.outstanding(), runner.outstanding.len());
        }
        runner.finish();
        prop_assert!(runner.queued.is_empty() && runner.outstanding.is_empty());
    }
}

/// What is outstanding occupies slots of the new policy, and requests that wait keep their order and their time.
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

/// Between the fair policies tags stay, so shares go on as if nothing had happened.
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

#[test]
fn the_name_is_that_of_the_policy() {
    let names = KINDS.map(|kind| Policy::new(&settings(kind, 14), 0).capabilities().name);
    assert_eq!(names, ["fifo", "sfq-d", "sfq-d-plus", "two-level", "ioco"]);
}
