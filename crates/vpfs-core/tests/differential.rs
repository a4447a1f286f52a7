//! The fast engine against the oracle, event for event.

use proptest::prelude::*;
use vpfs_core::testing::{Op, Oracle, Runner};
use vpfs_core::{AppId, Bytes, Depth, OpKind, Scheduler, Sfq, SlotCostTable, Weight};

const EVENTS: usize = 4096;

fn compare(depth: u32, table: SlotCostTable, ops: &[Op]) {
    let depth = Depth::new(depth).expect("not zero");
    let mut fast = Runner::new(Sfq::new(depth, table.clone(), EVENTS));
    let mut slow = Runner::new(Oracle::new(depth, table, EVENTS));
    for (step, &op) in ops.iter().enumerate() {
        assert_eq!(fast.apply(op), slow.apply(op), "step {step}: {op:?}");
        assert_eq!(fast.events, slow.events, "step {step}: {op:?}");
        assert_eq!(fast.scheduler.queued(), slow.scheduler.queued());
        assert_eq!(fast.scheduler.outstanding(), slow.scheduler.outstanding());
        fast.events.clear();
        slow.events.clear();
    }
}

fn ops(length: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any::<u64>().prop_map(Op::from_bits), 0..length)
}

proptest! {
    #[test]
    fn fast_equals_oracle(depth in 1..20_u32, table in 0..4_u32, ops in ops(400)) {
        compare(depth, Op::slot_cost_table(table), &ops);
    }
}

/// Every list of six operations out of eight.
#[test]
fn all_short_lists() {
    let enqueue = |app, units| Op::Enqueue { app: AppId(app), op: OpKind::Write, cost: Bytes(units * Op::COST_UNIT) };
    let alphabet = [
        enqueue(0, 5),
        enqueue(1, 1200),
        enqueue(1, 7),
        Op::Dispatch { at_most: u32::MAX },
        Op::Complete { pick: 0 },
        Op::Cancel { pick: 0 },
        Op::CorrectCost { pick: 1, real: Bytes(2 * Op::COST_UNIT) },
        Op::SetWeight { app: AppId(1), weight: Weight::new(3).unwrap() },
    ];
    let length = 6;
    for list in 0..alphabet.len().pow(length) {
        let ops: Vec<Op> = (0..length).map(|at| alphabet[list / alphabet.len().pow(at) % alphabet.len()]).collect();
        compare(3, SlotCostTable::default(), &ops);
    }
}
