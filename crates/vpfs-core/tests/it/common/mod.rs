//! Helpers shared by several tests.

use proptest::prelude::*;
use vpfs_core::testing::{Op, Runner, Tunable};
use vpfs_core::{AppId, Bytes, Depth, OpKind, Weight};

pub(crate) const EVENTS: usize = 4096;

pub(crate) fn ops(length: usize) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(any::<u64>().prop_map(Op::from_bits), 0..length)
}

pub(crate) fn depth(slots: u32) -> Depth {
    Depth::new(slots).expect("not zero")
}

pub(crate) fn weight(weight: u32) -> Weight {
    Weight::new(weight).expect("in range")
}

/// A write of `units` times [`Op::COST_UNIT`].
pub(crate) fn write(app: u32, units: u64) -> Op {
    Op::Enqueue { app: AppId(app), op: OpKind::Write, cost: Bytes(units * Op::COST_UNIT) }
}

pub(crate) const DISPATCH: Op = Op::Dispatch { at_most: u32::MAX };

/// Applies all `ops`; returns the dispatches in order.
pub(crate) fn dispatched<S: Tunable>(runner: &mut Runner<S>, ops: &[Op]) -> Vec<vpfs_core::Dispatch> {
    ops.iter().flat_map(|&op| runner.apply(op)).collect()
}

/// Waits for the time given by `poll_timeout`. After that timeout has been handled and everything dispatched, the next
/// timeout must be later or absent; otherwise a driver would spin.
pub(crate) fn check_timer<S: Tunable>(runner: &mut Runner<S>) {
    runner.now = runner.scheduler.poll_timeout().map_or(runner.now, |due| due.max(runner.now));
    runner.apply(DISPATCH);
    let (due, now) = (runner.scheduler.poll_timeout(), runner.now);
    assert!(due.is_none_or(|due| due > now), "{due:?} was not served at {now:?}");
}
