//! The cluster of [HARL §IV-A], as the simulator and as the cost model see it. The scenario file states the
//! assumptions.

use std::sync::Arc;

use vpfs_harl::{Access, Cluster, ClusterError, Op, Request, ServerClass, Trace, TraceError};
use vpfs_model::device::{UniformAccess, UniformProfile};
use vpfs_model::plan::{Call, Extent, Ior, Phase, Plan, Step};
use vpfs_sim::{Region, Results, Scenario, SimError, Workload};

use crate::scenario;

pub(super) const TEXT: &str = include_str!("../../../../scenarios/figures/harl.toml");

/// Files and memory are simulated at this part of their size: what fills a cache, and what is written through it,
/// shrink alike.
pub(super) const SCALE: u64 = 16;

/// The stripes of disk and flash servers in bytes.
pub(super) type Stripes = [u64; 2];

/// An application on the cluster.
#[derive(Clone)]
pub(super) struct Job {
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
        for (group, count) in scenario.servers.iter_mut().zip(self.servers) {
            group.count = count;
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

    /// The servers as the cost model knows them.
    pub(super) fn cluster(&self) -> Result<Cluster, SimError> {
        let scenario = self.scenario(Vec::new())?;
        let models = [("disk", UniformProfile::HARL_DISK), ("flash", UniformProfile::HARL_FLASH)];
        let class = |(&servers, (name, UniformProfile { read, write })): (&u32, (&str, UniformProfile))| {
            let (read, write) = (access(&read)?, access(&write)?);
            Ok(ServerClass { name: name.into(), servers, read, write, free: None })
        };
        let classes = self.servers.iter().zip(models).map(class).collect::<Result<_, SimError>>()?;
        Cluster::new(classes, scenario.servers[0].link.bytes_per_second).map_err(|error| refuse(&error))
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

fn access(access: &UniformAccess) -> Result<Access, SimError> {
    Access::new(access.startup_min, access.startup_max, access.bytes_per_second).map_err(|error| refuse(&error))
}

fn refuse(error: &ClusterError) -> SimError {
    SimError::Scenario(format!("harl.toml: {error}"))
}
