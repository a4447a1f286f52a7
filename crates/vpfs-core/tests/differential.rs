//! The fast engine against the oracle, event for event.

mod common;

use common::{DISPATCH, EVENTS, depth, ops, weight, write};
use proptest::prelude::*;
use vpfs_core::testing::{Op, Oracle, Runner};
use vpfs_core::{AppId, Bytes, Depth, Scheduler, Sfq, SlotCostTable};

fn compare(depth: Depth, table: SlotCostTable, ops: &[Op]) {
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

proptest! {
    #[test]
    fn fast_equals_oracle(slots in 1..20_u32, table in 0..4_u32, ops in ops(400)) {
        compare(depth(slots), Op::slot_cost_table(table), &ops);
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
        compare(depth(3), SlotCostTable::default(), &ops);
    }
}
