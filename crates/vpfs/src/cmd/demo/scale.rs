//! The size of the demo: the setup of vPFS+ §V scaled down to one machine and a minute. One set of parameters for all
//! ways of sharing.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use serde_json::{Value, json};
use vpfs_config::Protocol;
use vpfs_model::device::{DeviceProfile, HddProfile};
use vpfs_model::plan::{Btio, BtioClass, Ior};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, RunOptions, SyncMode};

use super::isolation::Experiment;
use crate::cmd::count;
use crate::cmd::workload::application::Application;

/// The disk of the paper's storage nodes. Files were just written, so they are contiguous within a block group of EXT3.
/// Four such disks move less than 300 MB/s, which is a light load for two processors.
pub(super) const DEVICE: DeviceProfile =
    DeviceProfile::Hdd(HddProfile { extent_bytes: 128 << 20, ..HddProfile::SAS_7200 });
/// Slots of each server under the papers' policies, from the paper's profile of that disk [vPFS+ §V-A]. Slot costs are
/// the default ones, including the paper's 5 for 2 MiB.
pub(super) const DEPTH: u32 = 14;
/// The cap on the writer, on each server: below 3 % of the disk's rate. The paper's scheduler left 0.1 % [vPFS+ §V-B],
/// at which the writer would not complete a single call during the demo.
pub(super) const CAP: &str = "server_cap = \"2MB/s\"\nburst = \"2MiB\"";

/// Addresses of the small application's nodes.
pub(super) const SMALL_NETWORK: &str = "127.0.1.0/24";
/// Addresses of the writer's nodes.
pub(super) const WRITER_NETWORK: &str = "127.0.2.0/24";
/// Nodes of each application, as in the paper.
const NODES: u8 = 4;

/// Bytes of one call of the small application [vPFS+ §V-B].
const SMALL_CALL: u32 = 320;
/// Bytes of one call of the writer for each server, the size that the paper profiled. The paper's 32 MiB over eight
/// servers are 4 MiB for each. Clients of NFS make two WRITEs of it.
const WRITER_CALL: u32 = 2 << 20;

/// The protocol of the servers, and the lengths of the demo's parts.
pub(super) struct Scale {
    pub(super) protocol: Protocol,
    small_processes: u32,
    iterations: u32,
    think_write: Duration,
    think_read: Duration,
    writer_processes: u32,
    warm_up: Duration,
    /// How long the writer is measured running alone.
    pub(super) writer_alone: Duration,
}

impl Scale {
    /// The whole demo within 90 seconds, on a busy machine as well.
    ///
    /// - 56 writers instead of the paper's 64: four times the 14 slots. With 28 to 40 writers the unmanaged run takes
    ///   only 1.1 to 1.7 times as long as SFQ(D), which then holds little back, and the difference can be lost in
    ///   noise; with 56 it takes twice as long.
    /// - 8 small processes, 4 bursts of one call in each phase: an unmanaged call takes more than two seconds.
    /// - Think times: the paper's 6 s and 1 s compare with 4 s and 3 s of I/O, which the writer made 13 times slower.
    ///   Here I/O is slowed down far more, because the model has no cache that would absorb small writes. Computation
    ///   is therefore a larger part, so that the longest run stays short and slowdowns are of the same order as in the
    ///   paper.
    pub(super) const FULL: Self = Self {
        protocol: Protocol::OrangeFs,
        small_processes: 8,
        iterations: 4,
        think_write: Duration::from_millis(750),
        think_read: Duration::from_millis(450),
        writer_processes: 56,
        warm_up: Duration::from_millis(1500),
        writer_alone: Duration::from_secs(4),
    };

    /// The whole demo within 25 seconds: one burst in each phase and a shorter warm-up, everything else the same.
    pub(super) const QUICK: Self =
        Self { iterations: 1, warm_up: Duration::from_millis(800), writer_alone: Duration::from_secs(1), ..Self::FULL };

    /// For a test: hardly any computation.
    #[cfg(test)]
    pub(super) const TEST: Self = Self {
        think_write: Duration::from_millis(200),
        think_read: Duration::from_millis(100),
        warm_up: Duration::from_millis(600),
        writer_alone: Duration::from_millis(500),
        ..Self::QUICK
    };

    /// The same with this protocol.
    pub(super) fn with(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    /// Servers, each with a proxy. The paper has eight of OrangeFS; an export of NFS has one.
    pub(super) fn servers(&self) -> u8 {
        match self.protocol {
            Protocol::OrangeFs => 4,
            Protocol::Nfs => 1,
        }
    }

    pub(super) fn experiment(&self) -> Experiment {
        Experiment { small: self.small(), writer: self.writer(), warm_up: self.warm_up }
    }

    fn small(&self) -> Application<Btio> {
        // One in each burst.
        let calls = u64::from(self.small_processes) * u64::from(self.iterations);
        let plan = Btio {
            processes: self.small_processes,
            nodes: NODES.into(),
            iterations: self.iterations,
            total_bytes: calls * u64::from(SMALL_CALL),
            think_write: self.think_write,
            think_read: self.think_read,
            // The file is lost together with the servers.
            keep: true,
            ..Btio::class(BtioClass::A)
        };
        // A dump in the paper's run is 10 MB in 160 strips; strips of one call spread ours over all servers as well.
        // Naming the servers makes the file striped from its first byte.
        let create =
            CreateOptions::simple_stripe(SMALL_CALL.into()).on_servers((0..self.servers().into()).collect::<Vec<_>>());
        Application { plan, options: options("/simulation", 1, create) }
    }

    fn writer(&self) -> Application<Ior> {
        let plan = Ior {
            keep: true,
            // Stopped when the small application ends.
            time_limit: Some(Duration::from_secs(3600)),
            seed: 2,
            ..Ior::writes(self.writer_processes, self.writer_call(), self.writer_call().into())
        };
        Application { plan, options: options("/checkpoint", 2, CreateOptions::default()) }
    }

    fn writer_call(&self) -> u32 {
        WRITER_CALL * u32::from(self.servers())
    }

    /// A description of the setup, for people.
    pub(super) fn describe(&self) -> String {
        let bursts = count(self.iterations as usize, "burst");
        format!(
            "{} on a model of a disk (7200 rpm, 72 MB/s; vPFS+ §V-A), D = {DEPTH}.\n\
             Small application: {} processes, {bursts} of 1 write, then of 1 read, {SMALL_CALL} B each,\n  \
             computation between.\n\
             Checkpoint writer: {} processes, writes of {} MiB back to back.",
            match self.protocol {
                Protocol::OrangeFs => format!("{} servers, each behind a proxy,", self.servers()),
                Protocol::Nfs => "A server of NFSv3 behind a proxy".to_owned(),
            },
            self.small_processes,
            self.writer_processes,
            self.writer_call() >> 20,
        )
    }

    /// All parameters that affect the results, for the JSON document.
    pub(super) fn parameters(&self) -> Value {
        json!({
            "servers": self.servers(),
            "device": format!("{DEVICE:?}"),
            "depth": DEPTH,
            "small": self.small().plan,
            "writer": self.writer().plan,
            "writer_cap": CAP,
            "warm_up_seconds": self.warm_up.as_secs_f64(),
            "writer_alone_seconds": self.writer_alone.as_secs_f64(),
        })
    }
}

/// Target options with a separate user and separate hosts: 127.0.`network`.1 and following.
fn options(directory: &str, network: u8, create: CreateOptions) -> RunOptions {
    RunOptions {
        client: ClientOptions { uid: 1000 + u32::from(network), ..ClientOptions::new("") },
        local_addresses: (1..=NODES).map(|node| IpAddr::V4(Ipv4Addr::new(127, 0, network, node))).collect(),
        nodes: NODES.into(),
        connections: Connections::PerNode,
        directory: directory.to_owned(),
        create,
        overwrite: false,
        keep: true,
        sync: SyncMode::Stable,
        seed: network.into(),
        interval: Duration::from_millis(500),
        trace: None,
    }
}

#[cfg(test)]
mod tests {
    use vpfs_model::plan::Plan;

    use super::*;

    #[test]
    fn all_sizes_are_valid() {
        for scale in [Scale::FULL, Scale::QUICK, Scale::TEST] {
            let experiment = scale.experiment();
            assert_eq!((experiment.small.plan.validate(), experiment.writer.plan.validate()), (Ok(()), Ok(())));
            assert_eq!(experiment.small.plan.written_bytes(), experiment.small.plan.total_bytes);
            assert!(scale.writer_processes > DEPTH, "otherwise SFQ(D) would have nothing to hold back");
        }
    }
}
