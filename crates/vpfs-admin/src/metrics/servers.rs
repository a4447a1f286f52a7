//! What is known about the process, its servers and its peers.

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use vpfs_core::{Learned, LearnedCost, LearnedCosts};
use vpfs_proxy::{HolderReport, PeerReport, ServerStatus, Status};

use super::family::{Family, Measured, put_all};
use crate::api::{op_name, ratio};

static BUILD: Family = Family::gauge("build_info", None, "The version of vpfs");

static PROCESS: [Measured<Status>; 6] = [
    (Family::gauge("uptime", Some(Unit::Seconds), "Time since the start; counters begin then"), |status| {
        status.uptime.as_secs_f64()
    }),
    (Family::gauge("memory_held", Some(Unit::Bytes), "Bytes that connections hold"), |status| status.memory.now as f64),
    (Family::gauge("memory_limit", Some(Unit::Bytes), "limits.memory"), |status| status.memory.limit as f64),
    (Family::gauge("connections", None, "Connections of clients"), |status| status.connections.now as f64),
    (Family::gauge("connections_limit", None, "limits.connections"), |status| status.connections.limit as f64),
    (
        Family::gauge(
            "host_unstored",
            Some(Unit::Bytes),
            "Bytes of files that the host has in memory and on no disk yet",
        ),
        |status| status.unstored as f64,
    ),
];

/// By server; without a value there is no series.
static BY_SERVER: [Measured<ServerStatus, Option<f64>>; 7] = [
    (
        Family::counter(
            "server_busy",
            Some(Unit::Seconds),
            "Time of the storage that all applications used: its rate is the utilisation",
        ),
        |server| Some(server.snapshot.busy.as_secs_f64()),
    ),
    (Family::gauge("server_queued_requests", None, "Requests that wait in vpfs"), |server| {
        Some(server.snapshot.queued as f64)
    }),
    (Family::gauge("server_outstanding_requests", None, "Requests in the storage"), |server| {
        Some(server.snapshot.outstanding as f64)
    }),
    (
        Family::gauge("server_window", Some(Unit::Seconds), "Bound on the device time of requests in the storage"),
        |server| server.snapshot.limits.window.map(|window| window.as_secs_f64()),
    ),
    (Family::gauge("server_depth", None, "Depth that the policy has found"), |server| {
        server.snapshot.limits.depth.map(|depth| depth.get().into())
    }),
    (
        Family::gauge(
            "server_bulk_pace_ratio",
            None,
            "Part of the storage's time to which bulk is limited while others are protected; absent while it is not",
        ),
        |server| server.snapshot.limits.pace_ppm.map(ratio),
    ),
    (
        Family::counter(
            "server_refused_connections",
            None,
            "Connections closed because of limits.connections_per_host",
        ),
        |server| Some(server.refused_connections as f64),
    ),
];

static COST: Family = Family::gauge(
    "server_request_cost",
    Some(Unit::Seconds),
    "Learned device time of a request of the class with this usual size in bytes; of metadata, of one object where a \
     request has so many",
);
static ALONE: Family = Family::gauge(
    "server_request_alone",
    Some(Unit::Seconds),
    "Learned time of a request of the class with this usual size in bytes while nothing else is in the storage",
);

/// By server of another process; without a value there is no series.
static BY_PEER: [Measured<PeerReport, Option<f64>>; 4] = [
    (Family::gauge("peer_connected", None, "1 while the proxy of this server is connected"), |peer| {
        Some(f64::from(u8::from(peer.connected)))
    }),
    (Family::gauge("peer_report_age", Some(Unit::Seconds), "Time since the latest report of the peer"), |peer| {
        peer.news_age_seconds
    }),
    (Family::counter("peer_dropped_reports", None, "Reports that newer ones replaced, or that did not fit"), |peer| {
        Some(peer.dropped as f64)
    }),
    (Family::gauge("peer_clock_offset", Some(Unit::Seconds), "How far the clock of the peer is ahead"), |peer| {
        peer.clock_ahead_seconds
    }),
];

static REPORTS: Family = Family::counter("peer_reports", None, "Reports about service");
static REPORT_BYTES: Family = Family::counter("peer_report", Some(Unit::Bytes), "Bytes of these reports");

static HOLDERS: Family = Family::gauge(
    "holder_connections",
    None,
    "Connections of a host (a user at the socket) that has at least half of what one may have at this port; others have \
     no series",
);

pub(super) fn encode(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    BUILD.put(&mut BUILD.open(encoder)?, &[("version", env!("CARGO_PKG_VERSION"))], 1.0)?;
    for (family, value) in &PROCESS {
        family.put(&mut family.open(encoder)?, &[], value(status))?;
    }
    let mut metric = HOLDERS.open(encoder)?;
    for HolderReport { port, holder, connections } in &status.holders {
        HOLDERS.put(&mut metric, &[("port", port), ("holder", holder)], connections.now as f64)?;
    }
    put_all(&BY_SERVER, encoder, &status.servers, ("server", |server| &server.name))?;
    encode_costs(status, encoder)?;
    encode_peers(&status.peers, encoder)
}

fn encode_costs(status: &Status, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    for (family, is_cost) in [(&COST, true), (&ALONE, false)] {
        let nanos = |cost: &LearnedCost| if is_cost { cost.cost_ns } else { cost.alone_ns };
        let mut metric = family.open(encoder)?;
        for ServerStatus { name, snapshot, .. } in &status.servers {
            let Some(Learned::Isolation(LearnedCosts { costs, .. })) = &snapshot.learned else { continue };
            for cost in costs.iter().filter(|cost| nanos(cost) > 0) {
                let size = cost.size.0.to_string();
                let labels = [("server", name.as_str()), ("op", op_name(cost.op)), ("size", &size)];
                family.put(&mut metric, &labels, nanos(cost) as f64 / 1e9)?;
            }
        }
    }
    Ok(())
}

fn encode_peers(peers: &[PeerReport], encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    put_all(&BY_PEER, encoder, peers, ("peer", |peer| &peer.server))?;
    for (family, is_bytes) in [(&REPORTS, false), (&REPORT_BYTES, true)] {
        let mut metric = family.open(encoder)?;
        for peer in peers {
            for (direction, traffic) in [("sent", peer.sent), ("received", peer.received)] {
                let value = if is_bytes { traffic.bytes } else { traffic.messages };
                family.put(&mut metric, &[("peer", &peer.server), ("direction", direction)], value as f64)?;
            }
        }
    }
    Ok(())
}
