//! Applications on simulated servers, alone or beside each other.

use std::collections::BTreeMap;
use std::time::Duration;

use vpfs_core::Weight;
use vpfs_model::device::DeviceProfile;
use vpfs_model::plan::{Interactive, Ior, Phase};
use vpfs_sim::{App, Layout, LinkProfile, PolicySpec, Results, Scenario, ServerGroup, Simulation, Workload, parallel};

use super::super::{Access, Figures};

/// The offsets of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Offsets {
    /// Random offsets in the file of the process.
    Random,
    /// Sequential in the file of the process.
    Sequential,
}

/// What an application does: each process makes one call, waits for it, thinks, and makes the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    pub(crate) pattern: Offsets,
    pub(crate) op: Access,
    /// Bytes of a call.
    pub(crate) bytes: u32,
    pub(crate) processes: u32,
    /// Mean; only random calls think.
    pub(crate) think: Duration,
}

impl Load {
    fn workload(&self) -> Workload {
        let (processes, transfer_bytes, read) = (self.processes, self.bytes, self.op == Access::Read);
        match self.pattern {
            Offsets::Random => Workload::Interactive(Interactive {
                processes,
                transfer_bytes,
                file_bytes: 256 << 20,
                think: self.think,
                time: FOREVER,
                read,
                seed: 1,
            }),
            Offsets::Sequential => Workload::Ior(Ior {
                write: !read,
                read,
                keep: true,
                time_limit: Some(FOREVER),
                ..Ior::writes(processes, transfer_bytes, u64::from(transfer_bytes) * 64)
            }),
        }
    }

    /// On the servers, without weight, target or cap.
    pub(crate) fn app(&self, name: &str) -> App {
        let phase = if self.op == Access::Read { Phase::Read } else { Phase::Write };
        App { phases: vec![phase], layout: Layout::striped(STRIP), ..App::new(name, self.workload()) }
    }

    /// [`Load::app`] with a weight.
    pub(crate) fn weighted(&self, name: &str, weight: u32) -> App {
        App { weight: Weight::new(weight).unwrap_or(Weight::ONE), ..self.app(name) }
    }
}

/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1_000_000);
/// Consecutive bytes of a file on one server: OrangeFS's default.
pub(crate) const STRIP: u64 = 64 << 10;

/// Equal servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    /// A name of [`DeviceProfile::by_name`].
    pub(crate) model: &'static str,
    pub(crate) servers: u32,
}

/// How long a run is measured, after half of that to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seconds(pub(crate) u64);

/// Runs `apps` on servers with `policy`; returns the results of each.
pub(crate) fn run(site: Site, apps: Vec<App>, policy: &PolicySpec, seconds: Seconds) -> Result<Vec<Figures>, String> {
    let device = DeviceProfile::by_name(site.model).map_err(|error| error.to_string())?;
    // The network is not a bottleneck, so that the storage is.
    let link = LinkProfile { bytes_per_second: 10_000_000_000, latency: Duration::from_micros(20) };
    let from = Duration::from_secs(seconds.0.div_ceil(2));
    let to = from + Duration::from_secs(seconds.0);
    let scenario = Scenario {
        duration: Some(to),
        wait_limit: FOREVER,
        trace: true,
        servers: vec![ServerGroup { link, ..ServerGroup::new(site.servers, device) }],
        apps,
        ..Scenario::default()
    };
    let results = Simulation::new(&scenario, policy).and_then(Simulation::run).map_err(|error| error.to_string())?;
    let bytes = results.bytes_between(from, to);
    Ok((0..).zip(bytes).map(|(app, bytes)| figures(&results, app, bytes, from, to)).collect())
}

fn figures(results: &Results, app: u32, bytes: u64, from: Duration, to: Duration) -> Figures {
    let calls = results.trace.iter().filter(|call| call.app == app && call.finished > from);
    let mut times: Vec<f64> = calls.map(|call| (call.finished - call.issued).as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let seconds = (to - from).as_secs_f64();
    Figures {
        calls_per_second: times.len() as f64 / seconds,
        bytes_per_second: bytes as f64 / seconds,
        mean_ms: times.iter().sum::<f64>() / times.len() as f64,
        p99_ms: times.get(times.len() * 99 / 100).copied().unwrap_or(f64::NAN),
    }
}

/// An application running alone.
pub(crate) type Alone = (Site, Load, Seconds);

/// The results of applications alone, each measured once, under FIFO.
pub(crate) struct Baselines(BTreeMap<Alone, Figures>);

impl Baselines {
    /// Measures all that `wanted` names.
    pub(crate) fn measure(wanted: impl IntoIterator<Item = Alone>) -> Result<Self, String> {
        let mut wanted: Vec<Alone> = wanted.into_iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let measured = parallel::map(&wanted, |(site, load, seconds)| {
            run(*site, vec![load.app("alone")], &PolicySpec::fifo(), *seconds)
        });
        let measured = measured.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Self(wanted.into_iter().zip(measured.into_iter().map(|apps| apps[0])).collect()))
    }

    /// One that was measured.
    pub(crate) fn of(&self, alone: Alone) -> Figures {
        self.0[&alone]
    }
}
