//! Slot costs derived from the time that the storage spends on requests [vPFS+ §III-B].

use alloc::vec::Vec;

use super::demand::{Class, Demand};
use crate::request::OpKind;
use crate::slot_cost::{SizeClass, SlotCostTable};
use crate::units::{Bytes, SlotCost};

/// Upper limit of slot costs: once a request occupies all slots, a higher cost makes no difference.
const SLOTS_MAX: u64 = 256;

/// A table that fits `demand`, if `current` no longer does.
///
/// A small request costs one slot; a larger one costs slots in proportion to its time. Classes without samples keep
/// their cost, as long as costs still grow with size. Costs that are off by less than a quarter stay unchanged, so that
/// noise does not move them. O(classes).
pub(super) fn fitting(demand: &Demand, current: &SlotCostTable) -> Option<SlotCostTable> {
    let small = current.small_threshold();
    let unit = smallest(demand, small)?;
    let rows = |op| rows(demand, current, op, unit);
    let table = SlotCostTable::new(small, rows(OpKind::Read), rows(OpKind::Write)).ok()?;
    let moved = |op| large_sizes(small).any(|size| far_apart(slots(current, op, size), slots(&table, op, size)));
    (moved(OpKind::Read) || moved(OpKind::Write)).then_some(table)
}

fn rows(demand: &Demand, current: &SlotCostTable, op: OpKind, unit: u64) -> Vec<SizeClass> {
    let mut least = 1;
    let row = |size| {
        let measured = demand.get_serial(Class::of(op, size)).map(|nanos| (nanos + unit / 2) / unit);
        least = measured.unwrap_or(slots(current, op, size)).clamp(least, SLOTS_MAX);
        let slot_cost = u32::try_from(least).ok().and_then(SlotCost::new).unwrap_or(SlotCost::ONE);
        SizeClass { up_to: size, slot_cost }
    };
    large_sizes(current.small_threshold()).map(row).collect()
}

/// The time of a request that occupies one slot.
fn smallest(demand: &Demand, small: Bytes) -> Option<u64> {
    let sizes = || sizes().take_while(move |&size| size <= small);
    let of_op = |op| sizes().filter_map(move |size| demand.get_serial(Class::of(op, size)));
    of_op(OpKind::Read).chain(of_op(OpKind::Write)).min()
}

fn sizes() -> impl Iterator<Item = Bytes> {
    (0..Class::SIZES).map(Class::largest)
}

fn large_sizes(small: Bytes) -> impl Iterator<Item = Bytes> {
    sizes().filter(move |&size| size > small)
}

fn slots(table: &SlotCostTable, op: OpKind, size: Bytes) -> u64 {
    table.slot_cost(op, size).get().into()
}

fn far_apart(one: u64, other: u64) -> bool {
    one * 4 > other * 5 || other * 4 > one * 5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(samples: &[(OpKind, u64, u64)]) -> Demand {
        let mut demand = Demand::new();
        for &(op, kib, nanos) in samples {
            (0..64).for_each(|_| demand.add(Class::of(op, Bytes::kib(kib)), nanos));
        }
        demand
    }

    fn table(samples: &[(OpKind, u64, u64)]) -> Option<[u64; 5]> {
        let table = fitting(&demand(samples), &SlotCostTable::default())?;
        Some([256, 512, 1024, 2048, 4096].map(|kib| slots(&table, OpKind::Write, Bytes::kib(kib))))
    }

    #[test]
    fn costs_are_multiples_of_the_time_of_small_requests() {
        use OpKind::{Read, Write};
        assert_eq!(table(&[(Read, 64, 100), (Write, 2048, 1040)]), Some([2, 2, 3, 10, 10]));
        assert_eq!(table(&[(Write, 64, 100), (Write, 256, 770), (Write, 2048, 410)]), Some([8, 8, 8, 8, 8]));
        assert_eq!(table(&[(Write, 64, 100), (Write, 2048, 520)]), None, "5 as before");
        assert_eq!(table(&[(Write, 64, 100), (Write, 2048, 590)]), None, "6 is near");
        assert_eq!(table(&[(Write, 2048, 5000)]), None, "nothing to compare with");
        assert_eq!(table(&[(Write, 64, 1), (Write, 2048, u64::MAX)]), Some([2, 2, 3, 256, 256]));
    }
}
