//! How many slots of the storage a request occupies, by operation and size [vPFS+ §III-B].

use alloc::vec::Vec;

use thiserror::Error;

use crate::request::OpKind;
use crate::units::{Bytes, SlotCost};

/// The largest request that occupies one slot, unless a profile says otherwise [vPFS+ §III-B, Fig. 3b].
pub const SMALL_THRESHOLD: Bytes = Bytes::kib(128);

/// One row of a [`SlotCostTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// The largest request of this class.
    pub up_to: Bytes,
    /// Slots that each request of this class occupies.
    pub slot_cost: SlotCost,
}

/// Why rows do not form a valid [`SlotCostTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SlotCostError {
    /// A row is not above the previous one, or not above the small threshold.
    #[error("size class up to {} bytes does not lie above the one before it ({} bytes)", .up_to.0, .before.0)]
    NotAscending { up_to: Bytes, before: Bytes },
    /// More rows than [`SlotCostTable::MAX_ROWS`].
    #[error("{rows} size classes for one operation, at most {} are allowed", SlotCostTable::MAX_ROWS)]
    TooManyRows { rows: usize },
}

/// The slot cost L of every request: 1 for metadata and up to the small threshold, above it as in the rows of its
/// operation; the last row applies to everything larger as well.
///
/// Reads and writes have separate rows, for storage that treats them differently, such as flash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCostTable {
    small: Bytes,
    reads: Vec<SizeClass>,
    writes: Vec<SizeClass>,
}

impl SlotCostTable {
    /// The largest number of rows for each operation. Dispatch looks at each distinct slot cost, so there must be few.
    pub const MAX_ROWS: usize = 32;

    /// A table from profiled rows, each list ascending and above `small`.
    pub fn new(small: Bytes, reads: Vec<SizeClass>, writes: Vec<SizeClass>) -> Result<Self, SlotCostError> {
        check(small, &reads)?;
        check(small, &writes)?;
        Ok(Self { small, reads, writes })
    }

    /// Every request occupies one slot; turns SFQ(D)+ into SFQ(D).
    pub const fn uniform() -> Self {
        Self { small: Bytes(u64::MAX), reads: Vec::new(), writes: Vec::new() }
    }

    /// The largest request that occupies one slot for any operation.
    pub const fn small_threshold(&self) -> Bytes {
        self.small
    }

    /// The rows of an operation, ascending; none for metadata.
    pub fn rows(&self, op: OpKind) -> &[SizeClass] {
        match op {
            OpKind::Metadata => &[],
            OpKind::Read => &self.reads,
            OpKind::Write => &self.writes,
        }
    }

    /// The slot cost of a request, before it is clamped to the depth. O(rows).
    pub fn slot_cost(&self, op: OpKind, size: Bytes) -> SlotCost {
        let rows = self.rows(op);
        if size <= self.small {
            return SlotCost::ONE;
        }
        let row = rows.iter().find(|row| size <= row.up_to).or(rows.last());
        row.map_or(SlotCost::ONE, |row| row.slot_cost)
    }

    /// All slot costs that occur, ascending; always includes 1.
    pub fn distinct(&self) -> Vec<SlotCost> {
        let rows = self.reads.iter().chain(&self.writes).map(|row| row.slot_cost);
        let mut costs: Vec<SlotCost> = core::iter::once(SlotCost::ONE).chain(rows).collect();
        costs.sort_unstable();
        costs.dedup();
        costs
    }
}

/// The paper's storage: 1 up to 128 KiB and 5 at 2 MiB for a depth of 14. Between them latency grows in proportion to
/// size, so the costs there are interpolated and rounded up [vPFS+ §III-B, Fig. 3, §V-A].
impl Default for SlotCostTable {
    fn default() -> Self {
        let rows = [(512, 2), (1024, 3), (2048, 5)].map(|(kib, slots)| SizeClass {
            up_to: Bytes::kib(kib),
            slot_cost: SlotCost::new(slots).unwrap_or(SlotCost::ONE),
        });
        Self { small: SMALL_THRESHOLD, reads: rows.to_vec(), writes: rows.to_vec() }
    }
}

fn check(small: Bytes, rows: &[SizeClass]) -> Result<(), SlotCostError> {
    if rows.len() > SlotCostTable::MAX_ROWS {
        return Err(SlotCostError::TooManyRows { rows: rows.len() });
    }
    let mut before = small;
    for &SizeClass { up_to, .. } in rows {
        if up_to <= before {
            return Err(SlotCostError::NotAscending { up_to, before });
        }
        before = up_to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn the_default_follows_the_paper() {
        let table = SlotCostTable::default();
        let slots = |op, kib| table.slot_cost(op, Bytes::kib(kib)).get();
        for op in [OpKind::Read, OpKind::Write] {
            let sizes = [4, 128, 129, 256, 512, 513, 1024, 1025, 2048, 16384];
            assert_eq!(sizes.map(|kib| slots(op, kib)), [1, 1, 2, 2, 2, 3, 3, 5, 5, 5]);
        }
        assert_eq!(slots(OpKind::Metadata, 4096), 1);
        assert_eq!(table.distinct().iter().map(|cost| cost.get()).collect::<Vec<_>>(), [1, 2, 3, 5]);
    }

    #[test]
    fn uniform_is_one_slot_each() {
        let table = SlotCostTable::uniform();
        assert_eq!(table.slot_cost(OpKind::Write, Bytes(u64::MAX)), SlotCost::ONE);
        assert_eq!(table.distinct(), [SlotCost::ONE]);
    }

    #[test]
    fn rows_must_ascend() {
        let row = |kib| SizeClass { up_to: Bytes::kib(kib), slot_cost: SlotCost::ONE };
        let error = SlotCostTable::new(Bytes::kib(128), vec![row(128)], vec![]).unwrap_err();
        assert_eq!(error, SlotCostError::NotAscending { up_to: Bytes::kib(128), before: Bytes::kib(128) });
        assert!(SlotCostTable::new(Bytes::kib(128), vec![], vec![row(256), row(256)]).is_err());
        let rows = SlotCostTable::MAX_ROWS + 1;
        let error = SlotCostTable::new(Bytes::ZERO, (1..=33).map(row).collect(), vec![]).unwrap_err();
        assert_eq!(error, SlotCostError::TooManyRows { rows });
    }
}
