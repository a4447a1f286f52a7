//! `[scheduler]`: policy, slots and costs.

use std::collections::BTreeMap;

use vpfs_core::{Bytes, Depth, OpKind, SlotCost};

use crate::reader::Reader;
use crate::tunables::{SCHEDULER, SLOT_COST};
use crate::units::{Rate, Size};

/// Which scheduler orders the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// In order of arrival.
    Fifo,
    /// By weight, one slot for each request [vPFS+ §III-A].
    SfqD,
    /// By weight, more slots for large requests, with backfill [vPFS+ §III-B, §III-C].
    SfqDPlus,
}

impl Policy {
    /// In the order of the table of tunables.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::SfqD, Self::SfqDPlus];

    /// As it is written in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::SfqD => "sfq-d",
            Self::SfqDPlus => "sfq-d-plus",
        }
    }
}

/// A row of the slot cost table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotCostRow {
    /// Reads or writes.
    pub op: OpKind,
    /// Largest request it holds for.
    pub up_to: Bytes,
    /// What such a request occupies.
    pub slots: SlotCost,
}

/// How requests are ordered before each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Which scheduler.
    pub policy: Policy,
    /// Slots of one server.
    pub depth: Depth,
    /// Requests up to this size occupy one slot.
    pub small_threshold: Bytes,
    /// Cost of a metadata operation.
    pub metadata_cost: Bytes,
    /// What one server can do.
    pub capacity: Option<Rate>,
    /// Ordered by operation, then size. Requests above the last row of their operation take that row.
    pub slot_cost: Vec<SlotCostRow>,
}

impl SchedulerConfig {
    /// What a request of this operation and size occupies, at most the depth.
    pub fn slots(&self, op: OpKind, size: Bytes) -> SlotCost {
        if size <= self.small_threshold || self.policy != Policy::SfqDPlus {
            return SlotCost::ONE;
        }
        let rows = || self.slot_cost.iter().filter(|row| row.op == op);
        let row = rows().find(|row| size <= row.up_to).or_else(|| rows().next_back());
        row.map_or(SlotCost::ONE, |row| row.slots.clamp_to(self.depth))
    }
}

pub(crate) fn read(root: &Reader<'_>) -> SchedulerConfig {
    let reader = Reader::open(root.cx, &SCHEDULER, "scheduler", root.value("scheduler"));
    let policy = reader.choice("policy").map_or(Policy::SfqDPlus, |index| Policy::ALL[index]);
    let small_threshold = Bytes(reader.number_or_default("small_threshold"));
    let depth = reader.count("depth").and_then(Depth::new).expect("the row has a default and excludes 0");
    SchedulerConfig {
        policy,
        depth,
        small_threshold,
        metadata_cost: Bytes(reader.number_or_default("metadata_cost")),
        capacity: reader.number("capacity").map(Rate),
        slot_cost: read_slot_cost(&reader, small_threshold, depth),
    }
}

const BOTH: [OpKind; 2] = [OpKind::Read, OpKind::Write];

fn op_name(op: OpKind) -> &'static str {
    match op {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Metadata => "metadata",
    }
}

/// The storage measured in [vPFS+ Fig. 3]: requests of 2 MiB take 5 slots, and latency grows in proportion from the
/// small threshold on.
fn paper_rows() -> Vec<SlotCostRow> {
    let rows = BOTH.iter().flat_map(|&op| {
        [(512, 2), (1024, 3), (2048, 5)].map(|(kib, slots)| (op, Bytes::kib(kib), SlotCost::new(slots)))
    });
    rows.filter_map(|(op, up_to, slots)| Some(SlotCostRow { op, up_to, slots: slots? })).collect()
}

fn read_slot_cost(scheduler: &Reader<'_>, small_threshold: Bytes, depth: Depth) -> Vec<SlotCostRow> {
    let mut lines: BTreeMap<(OpKind, Bytes), (SlotCost, usize)> = BTreeMap::new();
    for value in scheduler.list("slot_cost") {
        let row = Reader::open(scheduler.cx, &SLOT_COST, scheduler.path("slot_cost"), Some(value));
        let ops = row.choice("op").map_or(&BOTH[..], |index| &BOTH[index..=index]);
        let (Some(up_to), Some(slots)) = (row.number("up_to").map(Bytes), row.count("slots").and_then(SlotCost::new))
        else {
            continue;
        };
        if up_to <= small_threshold {
            let threshold = Size(small_threshold);
            row.refuse(
                "up_to",
                format!("is not above small_threshold ({threshold}), up to which requests take 1 slot"),
            );
        }
        if slots.get() > depth.get() {
            let message = format!("{} is more than depth; counts as {}", slots.get(), depth.get());
            row.cx.warn(row.line_of("slots"), row.path("slots"), message);
        }
        for &op in ops {
            if let Some((_, line)) = lines.get(&(op, up_to)) {
                let (op, size) = (op_name(op), Size(up_to));
                row.refuse("up_to", format!("the row of line {line} is for {op}s up to {size} too; remove one"));
            }
            lines.insert((op, up_to), (slots, row.line_of("up_to")));
        }
    }
    let rows: Vec<_> = lines.into_iter().map(|((op, up_to), (slots, _))| SlotCostRow { op, up_to, slots }).collect();
    finish_rows(scheduler, rows)
}

/// Fills in the default; a table for one operation only would leave the other one unprofiled unnoticed.
fn finish_rows(scheduler: &Reader<'_>, mut rows: Vec<SlotCostRow>) -> Vec<SlotCostRow> {
    if !scheduler.has("slot_cost") {
        rows = paper_rows();
    }
    let has = |op| rows.iter().any(|row| row.op == op);
    match (has(OpKind::Read), has(OpKind::Write)) {
        (true, false) => scheduler.refuse("slot_cost", "has no row for writes; add one, or leave op out of a row"),
        (false, true) => scheduler.refuse("slot_cost", "has no row for reads; add one, or leave op out of a row"),
        _ => {}
    }
    let show = |row: &SlotCostRow| format!("{} up to {}: {}", op_name(row.op), Size(row.up_to), row.slots.get());
    scheduler.set("slot_cost", rows.iter().map(show).collect::<Vec<_>>().join(", "));
    rows
}
