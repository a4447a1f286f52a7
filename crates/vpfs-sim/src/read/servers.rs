//! `[[servers]]` and `[peers]`.

use std::time::Duration;

use vpfs_config::Table;

use crate::model::device::MetadataProfile;

use super::{device, keys, read_numbers};
use crate::link::LinkProfile;
use crate::peer_network::{Partition, PeerNetwork, Restart};
use crate::scenario::{Role, ServerGroup};

const ROLES: [Role; 3] = [Role::Both, Role::Data, Role::Metadata];

pub(super) fn read_group(table: &Table<'_>) -> ServerGroup {
    let parallel = table.count("metadata_parallel").unwrap_or(1) as usize;
    ServerGroup {
        count: table.count("count").unwrap_or(1),
        device: device::read(table),
        metadata: MetadataProfile { parallel, ..MetadataProfile::PVFS2_BDB },
        role: table.choice("role").map_or(Role::Both, |index| ROLES[index]),
        link: LinkProfile {
            bytes_per_second: table.number("link_rate").unwrap_or(1),
            latency: table.duration("link_latency").unwrap_or_default(),
        },
        flow_buffers: table.count("flow_buffers").unwrap_or(0),
        stalls: table.has("stalls").then(|| device::read_stalls(&table.table("stalls", &keys::STALLS))),
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
