//! `[scheduler]`: policy, slots and costs.

use std::collections::BTreeMap;
use std::io;

use vpfs_core::slot_cost::SizeClass;
use vpfs_core::{
    Backfill, Bytes, Deadlines, Depth, IocoSettings, OpKind, PolicyKind, Protection, Settings, Sharing, SharingMode,
    SlotCost, SlotCostTable, TwoLevelSettings, WindowOrder,
};

use super::keys;
use super::keys::{PROFILE, PROFILE_ROOT, SCHEDULER, SLOT_COST};
use crate::schema::Problems;
use crate::schema::table::{Table, read_file};
use crate::schema::units::{Rate, Size, decimal, quote};

/// In the order of the table of tunables.
const BACKFILL: [Backfill; 2] = [Backfill::Bounded, Backfill::Paper];

/// In the order of the table of tunables.
const PROTECTIONS: [Protection; 2] = [Protection::Balanced, Protection::Strong];

/// In the order of the table of tunables.
const DEADLINES: [Deadlines; 2] = [Deadlines::Paced, Deadlines::Paper];

const WINDOW_ORDERS: [WindowOrder; 2] = [WindowOrder::Fair, WindowOrder::Paper];

/// In the order of the table of tunables.
const SHARING_MODES: [SharingMode; 3] = [SharingMode::Local, SharingMode::Threshold, SharingMode::Layout];

/// Why a file need not have a setting.
const OF_PROFILE: &str = "of the profile";

/// How requests are scheduled in front of each server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Policy, slots of one server and slots of one request.
    pub policy: Settings,
    /// Cost of a metadata operation for each object: its real size is not known before it is served, and is similar for
    /// all [vPFS+ §IV].
    pub metadata_cost: Bytes,
    /// The throughput of one server.
    pub capacity: Option<Rate>,
    /// The policy that is not in force, because nothing is to be held.
    pub observed: Option<PolicyKind>,
}

impl Table<'_> {
    /// The `scheduler` table inside this one, like `[scheduler]` in vpfs.toml; `files` returns the text of a profile by
    /// name.
    pub fn scheduler(&self, files: &dyn Fn(&str) -> io::Result<String>) -> SchedulerConfig {
        read(self, false, files)
    }
}

pub(super) fn read(root: &Table<'_>, are_mounts: bool, files: Files<'_>) -> SchedulerConfig {
    let table = root.table("scheduler", &SCHEDULER);
    let kind = if are_mounts { read_kind_of_mounts(&table) } else { read_kind(&table) };
    keys::warn(std::slice::from_ref(&table), kind);
    let profile = load_profile(&table, files);
    let depth = read_depth(&table, profile.as_ref());
    let observed = (table.choice("mode") == Some(1)).then_some(kind);
    let policy = Settings {
        backfill: table.choice("backfill").map_or(Backfill::default(), |index| BACKFILL[index]),
        sharing: Sharing { servers: servers(root), ..read_sharing(&table, kind) },
        metadata_depth: table.count("metadata_depth").and_then(Depth::new),
        two_level: TwoLevelSettings {
            deadlines: table.choice("deadlines").map_or(Deadlines::default(), |index| DEADLINES[index]),
            replenish_period: table.duration_or_default("replenish_period"),
            control_window: table.duration_or_default("control_window"),
            outstanding_max: table.count("outstanding_max").expect("the row has a default that fits"),
        },
        ioco: IocoSettings {
            window: table.duration_or_default("window"),
            order: table.choice("window_order").map_or(WindowOrder::default(), |index| WINDOW_ORDERS[index]),
            ..IocoSettings::default()
        },
        protection: table.choice("protection").map_or(Protection::default(), |index| PROTECTIONS[index]),
        ..Settings::new(kind, depth, read_slot_costs(&table, profile, depth))
    };
    let policy = match observed {
        Some(_) => Settings { kind: PolicyKind::Fifo, metadata_depth: None, ..policy },
        None => policy,
    };
    SchedulerConfig {
        policy,
        metadata_cost: Bytes(table.number_or_default("metadata_cost")),
        capacity: table.number("capacity").map(Rate),
        observed,
    }
}

fn servers(root: &Table<'_>) -> u32 {
    u32::try_from(root.list("server").len()).unwrap_or(u32::MAX)
}

fn read_kind(table: &Table<'_>) -> PolicyKind {
    table.choice("policy").map_or(PolicyKind::Isolation, |index| PolicyKind::ALL[index])
}

/// Policies that learn what the storage's time costs, or order whole servers, would take what other hosts do for the
/// cost of their own requests.
fn read_kind_of_mounts(table: &Table<'_>) -> PolicyKind {
    const HERE: [PolicyKind; 3] = [PolicyKind::Fifo, PolicyKind::SfqD, PolicyKind::SfqDPlus];
    if !table.has("policy") {
        table.set("policy", PolicyKind::SfqDPlus.name());
        table.imply("policy", "of mounts");
        return PolicyKind::SfqDPlus;
    }
    let kind = read_kind(table);
    if !HERE.contains(&kind) {
        let why = "judges the storage by what it sees, and a mount sees its own host only";
        table.refuse("policy", format!("{} {why}; write sfq-d-plus, sfq-d or fifo", kind.name()));
    }
    kind
}

/// A value in the file takes precedence over the profile.
fn read_depth(table: &Table<'_>, profile: Option<&MeasuredProfile>) -> Depth {
    if let Some(MeasuredProfile { depth: Some(depth), .. }) = profile
        && !table.has("depth")
    {
        table.set("depth", depth.get().to_string());
        table.imply("depth", OF_PROFILE);
        return *depth;
    }
    depth(table)
}

fn read_slot_costs(table: &Table<'_>, profile: Option<MeasuredProfile>, depth: Depth) -> SlotCostTable {
    match profile {
        Some(profile) if !table.has("slot_cost") && !table.has("small_threshold") => {
            for (key, text) in profile.shown {
                table.set(key, text);
                table.imply(key, OF_PROFILE);
            }
            profile.slot_costs
        }
        _ => read_table(table, depth).0,
    }
}

fn read_sharing(table: &Table<'_>, kind: PolicyKind) -> Sharing {
    let mode = table.choice("sharing").map_or(SharingMode::Local, |index| SHARING_MODES[index]);
    if mode == SharingMode::Local && table.is_used("sharing", kind) {
        let keys = ["broadcast_threshold", "metadata_threshold", "min_local_share"];
        table.warn_of(&keys, "has no effect with sharing = \"local\"; remove it, or choose another sharing");
    }
    Sharing {
        mode,
        broadcast_threshold: Bytes(table.number_or_default("broadcast_threshold")),
        metadata_threshold: table.count("metadata_threshold").expect("the row has a default that fits"),
        min_local_share_ppm: read_min_local_share(table),
        ..Sharing::default()
    }
}

/// A percentage in parts per million, rounded down.
fn read_min_local_share(table: &Table<'_>) -> u32 {
    const KEY: &str = "min_local_share";
    let default = Sharing::default().min_local_share_ppm;
    let Some(found) = table.text(KEY) else {
        table.set(KEY, "1%");
        return default;
    };
    let percent = found.trim().strip_suffix('%').and_then(|percent| decimal(percent.trim()));
    let ppm = percent.filter(|(_, places)| *places <= 9).map(|(digits, places)| digits * 10_000 / 10_u128.pow(places));
    match ppm.and_then(|ppm| u32::try_from(ppm).ok()).filter(|ppm| *ppm <= 1_000_000) {
        Some(ppm) => {
            table.set(KEY, found);
            ppm
        }
        None => {
            table.refuse(KEY, format!("{} is not a share from \"0%\" to \"100%\"", quote(found)));
            default
        }
    }
}

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

/// Returns the text of a file, by its name in the configuration.
pub(crate) type Files<'a> = &'a dyn Fn(&str) -> io::Result<String>;

/// The measured values.
pub(crate) struct MeasuredProfile {
    pub(crate) depth: Option<Depth>,
    pub(crate) slot_costs: SlotCostTable,
    /// The slot costs as text.
    pub(crate) shown: Shown,
}

/// The profile that `[scheduler]` names; `None` if it names none, or one with a problem, which is reported.
pub(crate) fn load_profile(scheduler: &Table<'_>, files: Files<'_>) -> Option<MeasuredProfile> {
    const KEY: &str = "profile";
    let name = scheduler.text(KEY)?;
    scheduler.set(KEY, name);
    let read = files(name).map_err(|error| format!("{name} cannot be read: {error}; create it with `vpfs profile`"));
    match read.and_then(|text| parse(name, &text).map_err(|problems| problems.to_string())) {
        Ok(profile) => Some(profile),
        Err(message) => {
            scheduler.refuse(KEY, message);
            None
        }
    }
}

fn parse(file: &str, text: &str) -> Result<MeasuredProfile, Problems> {
    read_file(file, text, &PROFILE_ROOT, |root| {
        let table = root.table("scheduler", &PROFILE);
        let depth = depth(&table);
        let (slot_costs, shown) = read_table(&table, depth);
        MeasuredProfile { depth: table.has("depth").then_some(depth), slot_costs, shown }
    })
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
