//! `[scheduler]`: policy, slots and costs.

use std::collections::BTreeMap;

use vpfs_core::settings::DeviceTime;
use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{
    Backfill, Bytes, CostUnit, Depth, IocoSettings, OpKind, PolicyKind, Settings, Sharing, SharingMode, SlotCost,
    SlotCostTable, TwoLevelSettings, WindowOrder,
};

use crate::device_times;
use crate::profile::{self, Files, Profile};
use crate::reader::Reader;
use crate::tunables::{SCHEDULER, SLOT_COST};
use crate::units::{Rate, Size, decimal, quote};

/// In the order of the table of tunables.
const BACKFILL: [Backfill; 2] = [Backfill::Bounded, Backfill::Paper];

/// In the order of the table of tunables.
const COST_UNITS: [CostUnit; 2] = [CostUnit::DeviceTime, CostUnit::Bytes];

/// In the order of the table of tunables.
const WINDOW_ORDERS: [WindowOrder; 2] = [WindowOrder::Fair, WindowOrder::Paper];

/// In the order of the table of tunables.
const SHARING_MODES: [SharingMode; 3] = [SharingMode::Local, SharingMode::Threshold, SharingMode::Layout];

/// How requests are ordered before each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Policy, slots of one server and slots of one request.
    pub policy: Settings,
    /// Cost of a metadata operation: its real size is not known before it is served, and about the same for all
    /// [vPFS+ §IV].
    pub metadata_cost: Bytes,
    /// What one server can do.
    pub capacity: Option<Rate>,
}

pub(crate) fn read(root: &Reader<'_>, files: Files<'_>) -> SchedulerConfig {
    let reader = Reader::open(root.cx, &SCHEDULER, "scheduler", root.value("scheduler"));
    let profile = profile::load(&reader, files);
    let depth = read_depth(&reader, profile.as_ref());
    let device_times = read_device_times(&reader, profile.as_ref());
    let policy = Settings {
        backfill: reader.choice("backfill").map_or(Backfill::default(), |index| BACKFILL[index]),
        sharing: Sharing { servers: servers(root), ..read_sharing(&reader) },
        metadata_depth: reader.count("metadata_depth").and_then(Depth::new),
        two_level: TwoLevelSettings {
            replenish_period: reader.duration("replenish_period"),
            control_window: reader.duration("control_window"),
            outstanding_max: reader.count("outstanding_max").expect("the row has a default that fits"),
        },
        ioco: IocoSettings {
            window: reader.duration("window"),
            order: reader.choice("window_order").map_or(WindowOrder::default(), |index| WINDOW_ORDERS[index]),
            ..IocoSettings::default()
        },
        adaptive: reader.choice("adaptive") == Some(1),
        cost_unit: reader.choice("cost").map_or(CostUnit::default(), |index| COST_UNITS[index]),
        device_times,
        ..Settings::new(read_kind(&reader), depth, read_slot_costs(&reader, profile, depth))
    };
    SchedulerConfig {
        policy,
        metadata_cost: Bytes(reader.number_or_default("metadata_cost")),
        capacity: reader.number("capacity").map(Rate),
    }
}

fn servers(root: &Reader<'_>) -> u32 {
    u32::try_from(root.list("server").len()).unwrap_or(u32::MAX)
}

fn read_kind(reader: &Reader<'_>) -> PolicyKind {
    reader.choice("policy").map_or(PolicyKind::Isolation, |index| PolicyKind::ALL[index])
}

/// What stands in the file goes before what the profile says.
fn read_depth(reader: &Reader<'_>, profile: Option<&Profile>) -> Depth {
    if let Some(Profile { depth: Some(depth), .. }) = profile
        && !reader.has("depth")
    {
        reader.set("depth", depth.get().to_string());
        return *depth;
    }
    depth(reader)
}

fn read_device_times(reader: &Reader<'_>, profile: Option<&Profile>) -> Vec<DeviceTime> {
    match profile {
        Some(profile) if !reader.has("device_time") => {
            reader.set("device_time", device_times::show(&profile.device_times));
            profile.device_times.clone()
        }
        _ => device_times::read(reader),
    }
}

fn read_slot_costs(reader: &Reader<'_>, profile: Option<Profile>, depth: Depth) -> SlotCostTable {
    match profile {
        Some(profile) if !reader.has("slot_cost") && !reader.has("small_threshold") => {
            for (key, text) in profile.shown {
                reader.set(key, text);
            }
            profile.slot_costs
        }
        _ => read_table(reader, depth).0,
    }
}

pub(crate) fn depth(reader: &Reader<'_>) -> Depth {
    reader.count("depth").and_then(Depth::new).expect("the row has a default and excludes 0")
}

fn read_sharing(reader: &Reader<'_>) -> Sharing {
    Sharing {
        mode: reader.choice("sharing").map_or(SharingMode::Local, |index| SHARING_MODES[index]),
        broadcast_threshold: Bytes(reader.number_or_default("broadcast_threshold")),
        metadata_threshold: reader.count("metadata_threshold").expect("the row has a default that fits"),
        min_local_share_ppm: read_min_local_share(reader),
        ..Sharing::default()
    }
}

/// A percentage as parts of a million, rounded down.
fn read_min_local_share(reader: &Reader<'_>) -> u32 {
    const KEY: &str = "min_local_share";
    let default = Sharing::default().min_local_share_ppm;
    let Some(found) = reader.text(KEY) else {
        reader.set(KEY, "1%");
        return default;
    };
    let percent = found.text.trim().strip_suffix('%').and_then(|percent| decimal(percent.trim()));
    let ppm = percent.filter(|(_, places)| *places <= 9).map(|(digits, places)| digits * 10_000 / 10_u128.pow(places));
    match ppm.and_then(|ppm| u32::try_from(ppm).ok()).filter(|ppm| *ppm <= 1_000_000) {
        Some(ppm) => {
            reader.set(KEY, found.text);
            ppm
        }
        None => {
            reader.refuse(KEY, format!("{} is not a share from \"0%\" to \"100%\"", quote(found.text)));
            default
        }
    }
}

/// Keys with the text of their values.
pub(crate) type Shown = [(&'static str, String); 2];

/// Rows by operation and size, with their lines; 0 for the default ones.
type Rows = BTreeMap<(OpKind, Bytes), (SlotCost, usize)>;

pub(crate) const BOTH: [OpKind; 2] = [OpKind::Read, OpKind::Write];

pub(crate) fn op_name(op: OpKind) -> &'static str {
    match op {
        OpKind::Read => "read",
        OpKind::Write => "write",
        OpKind::Metadata => "metadata",
    }
}

/// The table, and how its keys are shown.
pub(crate) fn read_table(scheduler: &Reader<'_>, depth: Depth) -> (SlotCostTable, Shown) {
    let small = Bytes(scheduler.number_or_default("small_threshold"));
    let rows = if scheduler.has("slot_cost") { read_rows(scheduler, small, depth) } else { default_rows(small) };
    let classes = |op| {
        let rows = rows.iter().filter(move |row| row.0.0 == op);
        rows.map(|(&(_, up_to), &(slot_cost, _))| SizeClass { up_to, slot_cost }).collect::<Vec<_>>()
    };
    let (reads, writes) = (classes(OpKind::Read), classes(OpKind::Write));
    match (reads.is_empty(), writes.is_empty()) {
        // It would leave the other operation unprofiled unnoticed.
        (false, true) => scheduler.refuse("slot_cost", "has no row for writes; add one, or leave op out of a row"),
        (true, false) => scheduler.refuse("slot_cost", "has no row for reads; add one, or leave op out of a row"),
        _ => {}
    }
    let show = |(&(op, up_to), &(slots, _)): (&(OpKind, Bytes), &(SlotCost, usize))| {
        format!("{} up to {}: {}", op_name(op), Size(up_to), slots.get())
    };
    let shown = rows.iter().map(show).collect::<Vec<_>>().join(", ");
    scheduler.set("slot_cost", shown.clone());
    let table = SlotCostTable::new(small, reads, writes).unwrap_or_else(|error| {
        scheduler.refuse("slot_cost", error.to_string());
        SlotCostTable::uniform()
    });
    (table, [("small_threshold", Size(small).to_string()), ("slot_cost", shown)])
}

/// The rows of [`SlotCostTable::default`] that lie above the threshold.
fn default_rows(small: Bytes) -> Rows {
    let table = SlotCostTable::default();
    let sizes = [Bytes::kib(512), Bytes::mib(1), Bytes::mib(2)];
    let sizes = sizes.iter().filter(|&&size| size > small);
    sizes.flat_map(|&size| BOTH.map(|op| ((op, size), (table.slot_cost(op, size), 0)))).collect()
}

fn read_rows(scheduler: &Reader<'_>, small: Bytes, depth: Depth) -> Rows {
    let mut rows = Rows::new();
    for value in scheduler.list("slot_cost") {
        let row = Reader::open(scheduler.cx, &SLOT_COST, scheduler.path("slot_cost"), Some(value));
        let ops = row.choice("op").map_or(&BOTH[..], |index| &BOTH[index..=index]);
        let up_to = row.number("up_to").map(Bytes);
        let slots = row.count("slots").and_then(SlotCost::new);
        let (Some(up_to), Some(slots)) = (up_to, slots) else { continue };
        if up_to <= small {
            let message = format!("is not above small_threshold ({}), up to which requests take 1 slot", Size(small));
            row.refuse("up_to", message);
            continue;
        }
        if slots.get() > depth.get() {
            let message = format!("{} is more than depth; counts as {}", slots.get(), depth.get());
            row.cx.warn(row.line_of("slots"), row.path("slots"), message);
        }
        for &op in ops {
            if let Some((_, line)) = rows.insert((op, up_to), (slots, row.line_of("up_to"))) {
                let (op, size) = (op_name(op), Size(up_to));
                row.refuse("up_to", format!("the row of line {line} is for {op}s up to {size} too; remove one"));
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
