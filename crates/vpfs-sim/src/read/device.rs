//! What holds the data of `[[servers]]`: a model by its name, or with parameters of one's own.

use std::time::Duration;

use vpfs_config::Table;
use vpfs_device::{DeviceProfile, HddProfile, SsdProfile, WriteBackProfile};

use super::keys;

/// The device of a group; the parameters that are not given are those of the model named by `device`.
pub(super) fn read(group: &Table<'_>) -> DeviceProfile {
    let named = DeviceProfile::by_name(group.text("device").unwrap_or("hdd")).unwrap_or_else(|error| {
        group.refuse("device", error.to_string());
        DeviceProfile::None
    });
    let device = match (group.has("hdd"), group.has("ssd")) {
        (true, true) => {
            group.refuse("ssd", "there is [servers.hdd] too; remove one");
            named
        }
        (true, false) => {
            check_kind(group, "hdd", matches!(named, DeviceProfile::Hdd(_)));
            DeviceProfile::Hdd(read_hdd(&group.table("hdd", &keys::HDD), &named))
        }
        (false, true) => {
            check_kind(group, "ssd", matches!(named, DeviceProfile::Ssd(_)));
            DeviceProfile::Ssd(read_ssd(&group.table("ssd", &keys::SSD), &named))
        }
        (false, false) => named,
    };
    if !group.has("cache") {
        return device;
    }
    let cache = read_cache(&group.table("cache", &keys::CACHE));
    DeviceProfile::WriteBack(cache, Box::new(device))
}

/// Parameters of one kind of device have no place in a model of another kind.
fn check_kind(group: &Table<'_>, parameters: &str, fits: bool) {
    if group.has("device") && !fits {
        let device = group.text("device").unwrap_or_default();
        group.refuse(parameters, format!("does not belong to device = {device:?}; remove one of them"));
    }
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

fn read_cache(table: &Table<'_>) -> WriteBackProfile {
    let base = WriteBackProfile::LINUX_24_GB;
    let limit_bytes = table.number("limit").unwrap_or(base.limit_bytes);
    let flushed = table.number("stall").unwrap_or(0);
    let background = table.number("background").unwrap_or(limit_bytes / 2);
    if background > limit_bytes {
        table.refuse("background", "is more than limit, at which writers wait already");
    }
    if flushed > limit_bytes {
        table.refuse("stall", "is more than limit, all that is there to be flushed; give a smaller one");
    }
    WriteBackProfile {
        background_bytes: background,
        limit_bytes,
        resume_bytes: limit_bytes.saturating_sub(flushed),
        commit_interval: table.duration("commit_interval").unwrap_or(Duration::from_secs(5)),
        ..base
    }
}
