//! The fast engine against the oracle, event for event.

use proptest::prelude::*;
use vpfs_core::testing::{Op, Oracle, Runner};
use vpfs_core::{AppId, Backfill, Bytes, Depth, Scheduler, ServiceReport, Sfq, Sharing, SharingMode, SlotCostTable};

use crate::common::{DISPATCH, EVENTS, depth, ops, weight, write};

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
