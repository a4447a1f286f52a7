//! `depth` and `slot_cost` of `[scheduler]` and of profiles: the slots of the storage, and how many of them a request
//! occupies.

use std::collections::BTreeMap;

use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{Bytes, Depth, OpKind, SlotCost, SlotCostTable};

use super::keys::SLOT_COST;
use crate::schema::table::Table;
use crate::schema::units::Size;

pub(crate) fn depth(table: &Table<'_>) -> Depth {
    table.count("depth").and_then(Depth::new).expect("the row has a default and excludes 0")
}

/// Keys with their values as text.
pub(crate) type Shown = [(&'static str, String); 2];

/// Rows by operation and size, with their lines; line 0 for the default ones.
type Rows = BTreeMap<(OpKind, Bytes), (SlotCost, usize)>;

pub(crate) const BOTH: [OpKind; 2] = [OpKind::Read, OpKind::Write];

pub(crate) fn op_name(op: OpKind) -> &'static str {
    match op {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Metadata => "metadata",
    }
}

/// The table, and its keys as text.
pub(crate) fn read_table(scheduler: &Table<'_>, depth: Depth) -> (SlotCostTable, Shown) {
    let small = Bytes(scheduler.number_or_default("small_threshold"));
    let rows = if scheduler.has("slot_cost") { read_rows(scheduler, small, depth) } else { default_rows(small) };
    let classes = |op| {
        let rows = rows.iter().filter(move |row| row.0.0 == op);
        rows.map(|(&(_, up_to), &(slot_cost, _))| SizeClass { up_to, slot_cost }).collect::<Vec<_>>()
    };
    let (reads, writes) = (classes(OpKind::Read), classes(OpKind::Write));
    match (reads.is_empty(), writes.is_empty()) {
        // Otherwise one operation would silently remain without a profile.
        (false, true) => scheduler.refuse("slot_cost", "has no row for writes; add one, or omit op in a row"),
        (true, false) => scheduler.refuse("slot_cost", "has no row for reads; add one, or omit op in a row"),
        _ => {}
    }
    let show = |(&(op, up_to), &(slots, _)): (&(OpKind, Bytes), &(SlotCost, usize))| {
        format!("{} up to {}: {}", op_name(op), Size(up_to), slots.get())
    };
    let shown = rows.iter().map(show).collect::<Vec<_>>().join(", ");
    let element = |(&(op, up_to), &(slots, _)): (&(OpKind, Bytes), &(SlotCost, usize))| {
        format!("{{ op = \"{}\", up_to = \"{}\", slots = {} }}", op_name(op), Size(up_to), slots.get())
    };
    scheduler.set_list("slot_cost", &rows.iter().map(element).collect::<Vec<_>>(), shown.clone());
    scheduler.imply("slot_cost", "of the paper's storage");
    let table = SlotCostTable::new(small, reads, writes).unwrap_or_else(|error| {
        scheduler.refuse("slot_cost", error.to_string());
        SlotCostTable::uniform()
    });
    (table, [("small_threshold", Size(small).to_string()), ("slot_cost", shown)])
}

/// The rows of [`SlotCostTable::default`] above the threshold.
fn default_rows(small: Bytes) -> Rows {
    let table = SlotCostTable::default();
    let sizes = [Bytes::kib(512), Bytes::mib(1), Bytes::mib(2)];
    let sizes = sizes.iter().filter(|&&size| size > small);
    sizes.flat_map(|&size| BOTH.map(|op| ((op, size), (table.slot_cost(op, size), 0)))).collect()
}

fn read_rows(scheduler: &Table<'_>, small: Bytes, depth: Depth) -> Rows {
    let mut rows = Rows::new();
    for row in scheduler.tables("slot_cost", &SLOT_COST) {
        let ops = row.choice("op").map_or(&BOTH[..], |index| &BOTH[index..=index]);
        let up_to = row.number("up_to").map(Bytes);
        let slots = row.count("slots").and_then(SlotCost::new);
        let (Some(up_to), Some(slots)) = (up_to, slots) else { continue };
        if up_to <= small {
            let message =
                format!("is not above small_threshold ({}); requests up to that size take 1 slot", Size(small));
            row.refuse("up_to", message);
            continue;
        }
        if slots.get() > depth.get() {
            let message = format!("{} exceeds depth; {} is used", slots.get(), depth.get());
            row.cx.warn(row.line_of("slots"), row.path("slots"), message);
        }
        for &op in ops {
            if let Some((_, line)) = rows.insert((op, up_to), (slots, row.line_of("up_to"))) {
                let (op, size) = (op_name(op), Size(up_to));
                row.refuse("up_to", format!("line {line} also has a row for {op}s up to {size}; remove one of them"));
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_cores() {
        let rows = default_rows(Bytes::kib(128));
        let classes = |op| {
            let rows = rows.iter().filter(move |row| row.0.0 == op);
            rows.map(|(&(_, up_to), &(slot_cost, _))| SizeClass { up_to, slot_cost }).collect()
        };
        let table = SlotCostTable::new(Bytes::kib(128), classes(OpKind::Read), classes(OpKind::Write));
        assert_eq!(table, Ok(SlotCostTable::default()));
        assert_eq!(default_rows(Bytes::mib(1)).len(), 2);
    }
}
