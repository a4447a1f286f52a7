//! `[[servers]]`, with a device that is selected by name or has custom parameters, and `[peers]`.

use std::time::Duration;

use vpfs_config::Table;

use super::{keys, read_numbers};
use crate::model::device::{
    DeviceProfile, HddProfile, MetadataProfile, PageCacheProfile, SsdProfile, StallProfile, UniformAccess,
    UniformProfile, VolumeProfile,
};
use crate::network::{LinkProfile, Partition, PeerNetwork, Restart};
use crate::scenario::{Role, ServerGroup};

const ROLES: [Role; 3] = [Role::Both, Role::Data, Role::Metadata];

pub(super) fn read_group(table: &Table<'_>) -> ServerGroup {
    let parallel = table.count("metadata_parallel").unwrap_or(1) as usize;
    ServerGroup {
        count: table.count("count").unwrap_or(1),
        device: read_device(table),
        metadata: MetadataProfile { parallel, ..MetadataProfile::PVFS2_BDB },
        role: table.choice("role").map_or(Role::Both, |index| ROLES[index]),
        link: LinkProfile {
            bytes_per_second: table.number("link_rate").unwrap_or(1),
            latency: table.duration("link_latency").unwrap_or_default(),
        },
        flow_buffers: table.count("flow_buffers").unwrap_or(0),
        stalls: table.has("stalls").then(|| read_stalls(&table.table("stalls", &keys::STALLS))),
        shared_device: false,
    }
}

pub(super) fn read_peers(table: &Table<'_>) -> PeerNetwork {
    PeerNetwork {
        latency: table.duration("latency").unwrap_or_default(),
        message_work: table.duration("message_work").unwrap_or_default(),
        message_overhead: table.size("message_overhead").unwrap_or_default(),
        loss_ppm: table.count("loss_ppm").unwrap_or(0),
        duplicate_ppm: table.count("duplicate_ppm").unwrap_or(0),
        extra_delay: table.duration("extra_delay").unwrap_or_default(),
        partitions: table.tables("partition", &keys::PARTITION).iter().map(read_partition).collect(),
        restarts: table.tables("restart", &keys::RESTART).iter().map(read_restart).collect(),
        random_restarts: table.count("random_restarts").unwrap_or(0),
        ..PeerNetwork::default()
    }
}

fn read_partition(table: &Table<'_>) -> Partition {
    let time = |key| table.duration(key).unwrap_or(Duration::ZERO);
    let mut servers = read_numbers(table, "servers");
    servers.sort_unstable();
    Partition { from: time("from"), to: time("to"), servers }
}

fn read_restart(table: &Table<'_>) -> Restart {
    Restart { at: table.duration("at").unwrap_or_default(), server: table.count("server").unwrap_or(0) }
}

/// Tables with device parameters; a group has at most one of them.
const KINDS: [&str; 4] = ["hdd", "ssd", "uniform", "volume"];

/// The device of a group; missing parameters are those of the model named by `device`.
fn read_device(group: &Table<'_>) -> DeviceProfile {
    let named = DeviceProfile::by_name(group.text("device").unwrap_or("hdd")).unwrap_or_else(|error| {
        group.refuse("device", error.to_string());
        DeviceProfile::None
    });
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| group.has(kind)).collect();
    let device = match given[..] {
        [] => named,
        [kind] => read_own(group, kind, &named),
        [first, second, ..] => {
            group.refuse(second, format!("there is also [servers.{first}]; remove one of them"));
            named
        }
    };
    if !group.has("cache") {
        return device;
    }
    let (base, device) = match device {
        DeviceProfile::PageCache(base, device) => (base, device),
        // Linux does not read ahead of scattered requests.
        device => (PageCacheProfile { read_ahead_bytes: 0, ..PageCacheProfile::LINUX_24_GB }, Box::new(device)),
    };
    DeviceProfile::PageCache(read_cache(&group.table("cache", &keys::CACHE), &base), device)
}

/// A device of one of [`KINDS`]. Parameters of one kind do not apply to a model of another kind.
fn read_own(group: &Table<'_>, kind: &str, named: &DeviceProfile) -> DeviceProfile {
    let (own, fits) = match kind {
        "hdd" => {
            let own = read_hdd(&group.table(kind, &keys::HDD), named);
            (DeviceProfile::Hdd(own), matches!(named, DeviceProfile::Hdd(_)))
        }
        "ssd" => {
            let own = read_ssd(&group.table(kind, &keys::SSD), named);
            (DeviceProfile::Ssd(own), matches!(named, DeviceProfile::Ssd(_)))
        }
        "uniform" => {
            let own = read_uniform(&group.table(kind, &keys::UNIFORM), named);
            (DeviceProfile::Uniform(own), matches!(named, DeviceProfile::Uniform(_)))
        }
        _ => {
            let own = read_volume(&group.table(kind, &keys::VOLUME), named);
            (DeviceProfile::Volume(own), matches!(named, DeviceProfile::Volume(_)))
        }
    };
    if group.has("device") && !fits {
        let device = group.text("device").unwrap_or_default();
        group.refuse(kind, format!("does not match device = {device:?}; remove one of them"));
    }
    own
}

fn read_hdd(table: &Table<'_>, named: &DeviceProfile) -> HddProfile {
    let base = if let DeviceProfile::Hdd(base) = named { base.clone() } else { HddProfile::SAS_7200 };
    HddProfile {
        capacity_bytes: table.number("capacity").unwrap_or(base.capacity_bytes),
        seek_min: table.duration("seek_min").unwrap_or(base.seek_min),
        seek_span: table.duration("seek_span").unwrap_or(base.seek_span),
        rotation: table.duration("rotation").unwrap_or(base.rotation),
        bytes_per_second: table.number("rate").unwrap_or(base.bytes_per_second),
        command_queue: table.count("command_queue").map_or(base.command_queue, |commands| commands as usize),
        batch_bytes: table.number("batch").unwrap_or(base.batch_bytes),
        extent_bytes: table.number("extent").unwrap_or(base.extent_bytes),
        ..base
    }
}

fn read_ssd(table: &Table<'_>, named: &DeviceProfile) -> SsdProfile {
    let base = if let DeviceProfile::Ssd(base) = named { base.clone() } else { SsdProfile::PCIE_X4 };
    SsdProfile {
        channels: table.count("channels").map_or(base.channels, |channels| channels as usize),
        stripe_bytes: table.number("stripe").unwrap_or(base.stripe_bytes),
        read_base: table.duration("read_base").unwrap_or(base.read_base),
        write_base: table.duration("write_base").unwrap_or(base.write_base),
        read_bytes_per_second: table.number("read_rate").unwrap_or(base.read_bytes_per_second),
        write_bytes_per_second: table.number("write_rate").unwrap_or(base.write_bytes_per_second),
    }
}

fn read_uniform(table: &Table<'_>, named: &DeviceProfile) -> UniformProfile {
    let base = if let DeviceProfile::Uniform(base) = named { *base } else { UniformProfile::HARL_DISK };
    let access = |[min, max, rate]: [&str; 3], base: UniformAccess| {
        let startup_min = table.duration(min).unwrap_or(base.startup_min);
        let startup_max = table.duration(max).unwrap_or(base.startup_max);
        if startup_min > startup_max {
            let key = if table.has(min) { min } else { max };
            table.refuse(
                key,
                format!("{min} = {startup_min:?} exceeds {max} = {startup_max:?}; exchange or adjust them"),
            );
        }
        UniformAccess {
            startup_min,
            startup_max,
            bytes_per_second: table.number(rate).unwrap_or(base.bytes_per_second),
        }
    };
    UniformProfile {
        read: access(["read_startup_min", "read_startup_max", "read_rate"], base.read),
        write: access(["write_startup_min", "write_startup_max", "write_rate"], base.write),
    }
}

fn read_volume(table: &Table<'_>, named: &DeviceProfile) -> VolumeProfile {
    let base = if let DeviceProfile::Volume(base) = named { base.clone() } else { VolumeProfile::CLOUD };
    VolumeProfile {
        bytes_per_second: table.number("rate").unwrap_or(base.bytes_per_second),
        ios_per_second: table.number("ios").unwrap_or(base.ios_per_second),
        burst: table.duration("burst").unwrap_or(base.burst),
        io_bytes: table.number("io_size").unwrap_or(base.io_bytes),
        latency: table.duration("latency").unwrap_or(base.latency),
        backing_bytes_per_second: table.number("backing_rate").unwrap_or(base.backing_bytes_per_second),
    }
}

fn read_stalls(table: &Table<'_>) -> StallProfile {
    let time = |key| table.duration(key).unwrap_or_default();
    StallProfile { every: time("every"), length: time("length"), heavy: false }
}

fn read_cache(table: &Table<'_>, base: &PageCacheProfile) -> PageCacheProfile {
    let limit_bytes = table.number("limit").unwrap_or(base.limit_bytes);
    let flushed = table.number("stall").unwrap_or(0);
    let background = table.number("background").unwrap_or(limit_bytes / 2);
    if background > limit_bytes {
        table.refuse("background", "exceeds limit, at which writers already wait");
    }
    if flushed > limit_bytes {
        table.refuse("stall", "exceeds limit, which is all that there is to flush; give a smaller size");
    }
    // Memory is as many times as large as in the base.
    let kept = u128::from(base.kept_bytes) * u128::from(limit_bytes) / u128::from(base.limit_bytes);
    PageCacheProfile {
        kept_bytes: u64::try_from(kept).unwrap_or(u64::MAX),
        background_bytes: background,
        limit_bytes,
        resume_bytes: limit_bytes.saturating_sub(flushed),
        commit_interval: table.duration("commit_interval").unwrap_or(base.commit_interval),
        ..base.clone()
    }
}
