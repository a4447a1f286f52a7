//! `[scheduler]`: policy, slots and costs.

use std::io;

use vpfs_core::settings::DeviceTime;
use vpfs_core::{
    Backfill, Bytes, CostUnit, Deadlines, Depth, IocoSettings, PolicyKind, Protection, Settings, Sharing, SharingMode,
    SlotCostTable, TwoLevelSettings, WindowOrder,
};

use super::device_times;
use super::ignored;
use super::keys::SCHEDULER;
use super::profile::{self, Files, MeasuredProfile};
use super::slot_costs::{depth, read_table};
use crate::schema::table::Table;
use crate::schema::units::{Rate, decimal, quote};

/// In the order of the table of tunables.
const BACKFILL: [Backfill; 2] = [Backfill::Bounded, Backfill::Paper];

/// In the order of the table of tunables.
const COST_UNITS: [CostUnit; 2] = [CostUnit::DeviceTime, CostUnit::Bytes];

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
    ignored::warn(std::slice::from_ref(&table), kind);
    let profile = profile::load(&table, files);
    let depth = read_depth(&table, profile.as_ref());
    let device_times = read_device_times(&table, profile.as_ref());
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
        adaptive: table.choice("adaptive") == Some(1),
        cost_unit: table.choice("cost").map_or(CostUnit::default(), |index| COST_UNITS[index]),
        protection: table.choice("protection").map_or(Protection::default(), |index| PROTECTIONS[index]),
        device_times,
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

fn read_device_times(table: &Table<'_>, profile: Option<&MeasuredProfile>) -> Vec<DeviceTime> {
    match profile {
        Some(profile) if !table.has("device_time") => {
            table.set("device_time", device_times::show(&profile.device_times));
            table.imply("device_time", OF_PROFILE);
            profile.device_times.clone()
        }
        _ => device_times::read(table),
    }
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
