//! The cluster of [HARL §IV-A], as the simulator and as the cost model see it. The scenario file states the
//! assumptions.

use std::sync::Arc;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;
use vpfs_harl::{Access, Cluster, ClusterError, Op, Request, ServerClass, Trace, TraceError};
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind, UniformAccess, UniformProfile};
use vpfs_sim::model::plan::{Call, Extent, Ior, Phase, Plan, Step};
use vpfs_sim::{Region, Results, Scenario, SimError, Workload};

use crate::figures::scenario;

pub(super) const TEXT: &str = include_str!("../../../../../scenarios/figures/harl.toml");

/// Files and memory are simulated at this part of their size: what fills a cache, and what is written through it,
/// shrink alike.
pub(super) const SCALE: u64 = 16;

/// The stripes of disk and flash servers in bytes.
pub(super) type Stripes = [u64; 2];

/// What the servers store in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Devices with the start-up times and rates of the paper's cost model, without a cache: its premise.
    Bare,
    /// Disks and flash behind the write-back cache of their kernel.
    Cached,
}

impl Storage {
    pub(super) const ALL: [Self; 2] = [Self::Bare, Self::Cached];

    /// In names of values.
    pub(super) fn name(self) -> &'static str {
        if self == Self::Bare { "bare" } else { "cached" }
    }
}

/// Start-up times and rates of disk and flash servers that the paper's cost model has.
const MODELS: [UniformProfile; 2] = [UniformProfile::HARL_DISK, UniformProfile::HARL_FLASH];

/// An application on the cluster.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) storage: Storage,
    /// Servers with disks, and with flash.
    pub(super) servers: [u32; 2],
    /// What is simulated, [`SCALE`] times smaller than the paper's.
    pub(super) plan: Arc<dyn Plan>,
    /// The paper's requests as a trace has them, each place once.
    pub(super) pass: Arc<dyn Plan>,
    /// The phases that are measured.
    pub(super) phases: Vec<Phase>,
}

/// The IOR of the scenario file: 16 processes, 512 KiB, random offsets, at its scale.
pub(super) fn ior() -> Result<Ior, SimError> {
    match scenario::parse("harl.toml", TEXT)?.apps.swap_remove(0).workload {
        Workload::Ior(ior) => Ok(ior),
        other => Err(SimError::Scenario(format!("harl.toml: the application is not IOR but {other:?}"))),
    }
}

impl Job {
    fn scenario(&self, regions: Vec<Region>) -> Result<Scenario, SimError> {
        let mut scenario = scenario::parse("harl.toml", TEXT)?;
        for ((group, count), model) in scenario.servers.iter_mut().zip(self.servers).zip(MODELS) {
            group.count = count;
            if self.storage == Storage::Bare {
                group.device = DeviceProfile::Uniform(model);
            }
        }
        let app = &mut scenario.apps[0];
        app.layout.regions = regions;
        app.phases.clone_from(&self.phases);
        app.workload = Workload::Plan(Arc::clone(&self.plan));
        Ok(scenario)
    }

    /// Runs it with these stripes of disk and flash servers, by region.
    pub(super) fn run(&self, layout: &[(u64, Stripes)], seed: u64) -> Result<Results, SimError> {
        let region = |&(start, stripes): &(u64, Stripes)| Region { start: start / SCALE, stripes: self.round(stripes) };
        let scenario = self.scenario(layout.iter().map(region).collect())?;
        scenario::run(&scenario::seeded(&scenario, seed), "fifo")
    }

    fn round(&self, [disk, flash]: Stripes) -> Vec<(u32, u64)> {
        let [disks, flashes] = self.servers;
        let disks_round = (0..disks).map(|server| (server, disk));
        let flash_round = (disks..disks + flashes).map(|server| (server, flash));
        disks_round.chain(flash_round).filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// The servers with the paper's parameters.
    pub(super) fn of_paper(&self) -> Result<Cluster, SimError> {
        let access = |UniformAccess { startup_min, startup_max, bytes_per_second }| {
            Access::new(startup_min, startup_max, bytes_per_second)
        };
        self.cluster(MODELS.map(|UniformProfile { read, write }| [access(read), access(write)]))
    }

    /// The servers as they are measured under load, cache included.
    pub(super) fn measured(&self) -> Result<Cluster, SimError> {
        let groups = self.scenario(Vec::new())?.servers;
        let of = |class: usize| [IoKind::Read, IoKind::Write].map(|kind| under_load(&groups[class].device, kind));
        self.cluster([of(0), of(1)])
    }

    fn cluster(&self, accesses: [[Result<Access, ClusterError>; 2]; 2]) -> Result<Cluster, SimError> {
        let link = self.scenario(Vec::new())?.servers[0].link.bytes_per_second;
        let class = |((name, servers), [read, write]): ((&str, u32), [Result<Access, ClusterError>; 2])| {
            Ok::<_, ClusterError>(ServerClass { name: name.into(), servers, read: read?, write: write?, free: None })
        };
        let classes = ["disk", "flash"].into_iter().zip(self.servers).zip(accesses).map(class);
        let cluster = classes.collect::<Result<_, _>>().and_then(|classes| Cluster::new(classes, link));
        cluster.map_err(|error| SimError::Scenario(format!("harl.toml: {error}")))
    }

    /// The requests of one pass. Their times are the numbers of a process's requests, so that they tell an order, and
    /// no durations.
    pub(super) fn trace(&self) -> Result<Trace, SimError> {
        let of_rank = |rank| {
            let steps = self.phases.iter().flat_map(move |phase| self.pass.steps(*phase, rank));
            (0..).zip(steps).filter_map(move |(number, step)| request(rank, number, step))
        };
        let requests = (0..self.pass.processes()).flat_map(of_rank).collect();
        Trace::new(requests).map_err(|error: TraceError| SimError::Scenario(error.to_string()))
    }
}

fn request(rank: u32, number: u64, step: Step) -> Option<Request> {
    let request = |op, extent: Extent| {
        let (offset, size) = (extent.offset, extent.bytes.into());
        Some(Request { rank, op, offset, size, start: number, end: number })
    };
    match step {
        Step::Call(Call::Read(extent)) => request(Op::Read, extent),
        Step::Call(Call::Write(extent)) => request(Op::Write, extent),
        _ => None,
    }
}

/// A server's part of the file in the paper, 2 GiB, at [`SCALE`].
const FILE: u64 = (2 << 30) / SCALE;
const SIZES: [u64; 2] = [64 << 10, 512 << 10];
const OUTSTANDING: usize = 16;

/// The start-up time and the rate of a device under load: the times in which it serves a file, each place once in
/// random order with many accesses outstanding, in small and in large accesses, and the line through both.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole nanoseconds and bytes, not negative"
)]
fn under_load(device: &DeviceProfile, kind: IoKind) -> Result<Access, ClusterError> {
    let [small, large] = SIZES.map(|size| {
        let (mut device, mut now, mut outstanding) = (device.build(), Time::ZERO, 0);
        let mut places: Vec<u64> = (0..FILE / size).collect();
        places.sort_unstable_by_key(|&place| mix(place));
        let mut left = places.iter();
        loop {
            while outstanding < OUTSTANDING
                && let Some(place) = left.next()
            {
                device.submit(now, Io { kind, object: 1, offset: place * size, len: size });
                outstanding += 1;
            }
            if outstanding == 0 {
                return now.as_nanos() as f64 / places.len() as f64;
            }
            now = device.poll_timeout().map_or(now, |next| next.max(now));
            while device.poll_completed(now).is_some() {
                outstanding -= 1;
            }
        }
    });
    let per_byte = ((large - small) / (SIZES[1] - SIZES[0]) as f64).max(0.01);
    let startup = (small - per_byte * SIZES[0] as f64).max(0.0);
    // Where small accesses cost hardly more for each byte than large ones, a cache gathers them.
    let startup = if startup * 10.0 < small { 0.0 } else { startup };
    let startup = Duration::from_nanos(startup as u64);
    Access::new(startup, startup, (1e9 / per_byte) as u64)
}
