//! The cluster of [HARL §IV-A], as the simulator and as the cost model see it.
//!
//! Deviations and guesses, for all figures of the paper:
//! - The paper prints no parameters of its hardware. One set for all figures, with which its cost model gives the
//!   stripes that it reports, see [`UniformProfile::HARL_DISK`]; disks read and write at the same speed, as in its
//!   Table I.
//! - A run of ten seconds of random requests instead of a pass over 16 GiB: each process in its own 1/16 of the file.
//! - Clients' links are not a bottleneck.

use vpfs_harl::{Access, Cluster, ClusterError, Op, Request, ServerClass, Trace, TraceError};
use vpfs_model::device::{DeviceProfile, UniformAccess, UniformProfile};
use vpfs_model::plan::{Call, Ior, Phase, Plan, Step};
use vpfs_sim::{Region, Results, Scenario, SimError, Workload};

use crate::scenario;

const TEXT: &str = include_str!("../../../../scenarios/figures/harl.toml");

/// An experiment of the paper with IOR.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) op: Op,
    pub(super) disks: u32,
    pub(super) flash: u32,
    pub(super) processes: u32,
    pub(super) request: u32,
}

impl Case {
    /// Sixteen processes, 512 KiB, six disks and two flash servers.
    pub(super) const fn default(op: Op) -> Self {
        Self { op, disks: 6, flash: 2, processes: 16, request: 512 << 10 }
    }

    pub(super) fn op_name(&self) -> &'static str {
        match self.op {
            Op::Read => "read",
            Op::Write => "write",
        }
    }

    fn phase(&self) -> Phase {
        match self.op {
            Op::Read => Phase::Read,
            Op::Write => Phase::Write,
        }
    }

    /// Its scenario with these regions.
    fn scenario(&self, regions: Vec<Region>) -> Result<Scenario, SimError> {
        let mut scenario = scenario::parse("harl.toml", TEXT)?;
        for (group, count) in scenario.servers.iter_mut().zip([self.disks, self.flash]) {
            group.count = count;
        }
        let app = &mut scenario.apps[0];
        app.layout.regions = regions;
        app.phases = vec![self.phase()];
        if let Workload::Ior(ior) = &mut app.workload {
            let total = ior.block_bytes * u64::from(ior.processes);
            ior.block_bytes = total / u64::from(self.processes);
            ior.processes = self.processes;
            ior.transfer_bytes = self.request;
            (ior.read, ior.write) = (self.op == Op::Read, self.op == Op::Write);
        }
        Ok(scenario)
    }

    /// Runs it with these stripes of disk and flash servers.
    pub(super) fn run(&self, stripes: [u64; 2]) -> Result<Results, SimError> {
        let region = Region { start: 0, stripes: self.round(stripes) };
        scenario::run(&self.scenario(vec![region])?, "fifo")
    }

    fn round(&self, [disk, flash]: [u64; 2]) -> Vec<(u32, u64)> {
        let disks = (0..self.disks).map(|server| (server, disk));
        let flash = (self.disks..self.disks + self.flash).map(|server| (server, flash));
        disks.chain(flash).filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// The servers as the cost model knows them.
    pub(super) fn cluster(&self) -> Result<Cluster, SimError> {
        let scenario = self.scenario(Vec::new())?;
        let class = |(group, name): (&vpfs_sim::ServerGroup, &str)| match &group.device {
            DeviceProfile::Uniform(UniformProfile { read, write }) => Ok(ServerClass {
                name: name.into(),
                servers: group.count,
                read: access(read)?,
                write: access(write)?,
                free: None,
            }),
            other => Err(SimError::Scenario(format!("harl.toml: {name} has no uniform device but {other:?}"))),
        };
        let classes = scenario.servers.iter().zip(["disk", "flash"]).map(class).collect::<Result<_, _>>()?;
        Cluster::new(classes, scenario.servers[0].link.bytes_per_second).map_err(|error| refuse(&error))
    }

    /// One pass of all processes over the file.
    pub(super) fn trace(&self) -> Result<Trace, SimError> {
        let scenario = self.scenario(Vec::new())?;
        let Workload::Ior(ior) = &scenario.apps[0].workload else {
            return Err(SimError::Scenario("harl.toml: the application is not IOR".into()));
        };
        let pass = Ior { time_limit: None, ..ior.clone() };
        let requests = (0..pass.processes).flat_map(|rank| pass.steps(self.phase(), rank).filter_map(request(rank)));
        Trace::new(requests.collect()).map_err(|error: TraceError| SimError::Scenario(error.to_string()))
    }
}

fn request(rank: u32) -> impl Fn(Step) -> Option<Request> {
    move |step| {
        let (op, extent) = match step {
            Step::Call(Call::Read(extent)) => (Op::Read, extent),
            Step::Call(Call::Write(extent)) => (Op::Write, extent),
            _ => return None,
        };
        Some(Request { rank, op, offset: extent.offset, size: extent.bytes.into(), start: 0, end: 0 })
    }
}

fn access(access: &UniformAccess) -> Result<Access, SimError> {
    Access::new(access.startup_min, access.startup_max, access.bytes_per_second).map_err(|error| refuse(&error))
}

fn refuse(error: &ClusterError) -> SimError {
    SimError::Scenario(format!("harl.toml: {error}"))
}
