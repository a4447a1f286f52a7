//! What is simulated: servers, network, policies to compare, and applications.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use vpfs_core::{Bytes, Cap, Depth, PolicyKind, Settings, SlotCostTable, Target, Weight};
use vpfs_model::device::{DeviceProfile, MetadataProfile};
use vpfs_model::plan::{Btio, Interactive, Ior, Md, MpiTileIo, Noncontig, Paced, Phase, PioBench, Plan, Wrf};

use crate::layout::Layout;
use crate::link::LinkProfile;
use crate::peer_network::PeerNetwork;

/// Everything that decides a run but the policy, and the policies to compare.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For tables and files.
    pub name: String,
    /// All that is random comes from it.
    pub seed: u64,
    /// The run ends here at the latest; `None`: when all applications but those in the background are finished.
    pub duration: Option<Duration>,
    /// One value of each time series for so long.
    pub interval: Duration,
    /// A request that waits longer for its dispatch is an error: somebody starves.
    pub wait_limit: Duration,
    /// Whether results tell what each application got at each server, with time series.
    pub by_server: bool,
    /// Whether results list each call with its finish at each server.
    pub trace: bool,
    /// The servers, in groups of equal ones, numbered in this order.
    pub servers: Vec<ServerGroup>,
    /// A request takes up to so much longer on its way to a server, by lot for each: clients do not reach all servers
    /// at once.
    pub jitter: Duration,
    /// The link of each client node; `None`: only the servers' links limit.
    pub node_link: Option<LinkProfile>,
    /// Between the servers, if their schedulers need each other.
    pub peers: PeerNetwork,
    /// What to compare; equal at all servers.
    pub policies: Vec<PolicySpec>,
    /// Who asks for service, by [`vpfs_core::AppId`].
    pub apps: Vec<App>,
}

impl Default for Scenario {
    /// One second for each value of a series, ten minutes as wait limit; no jitter, servers, policies or
    /// applications.
    fn default() -> Self {
        Self {
            name: "scenario".into(),
            seed: 1,
            duration: None,
            interval: Duration::from_secs(1),
            wait_limit: Duration::from_secs(600),
            by_server: false,
            trace: false,
            servers: Vec::new(),
            jitter: Duration::ZERO,
            node_link: None,
            peers: PeerNetwork::default(),
            policies: Vec::new(),
            apps: Vec::new(),
        }
    }
}

/// Servers that are alike.
#[derive(Clone, Debug)]
pub struct ServerGroup {
    /// How many.
    pub count: u32,
    /// What holds the data.
    pub device: DeviceProfile,
    /// What serves metadata operations.
    pub metadata: MetadataProfile,
    /// What is kept on them.
    pub role: Role,
    /// Its link, both directions alike.
    pub link: LinkProfile,
}

impl ServerGroup {
    /// Servers for data and metadata behind gigabit links.
    pub fn new(count: u32, device: DeviceProfile) -> Self {
        Self { count, device, metadata: MetadataProfile::PVFS2_BDB, role: Role::Both, link: LinkProfile::GIGABIT }
    }
}

/// What a server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Data of files, and directories and attributes.
    Both,
    /// Data of files.
    Data,
    /// Directories and attributes.
    Metadata,
}

/// A policy under a name.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    /// For tables; names are unique in a scenario.
    pub name: String,
    /// What each server's scheduler is made from.
    pub settings: Settings,
    /// Service that a metadata request is charged [vPFS+ §IV].
    pub metadata_cost: Bytes,
}

impl PolicySpec {
    /// FIFO, as without vpfs.
    pub fn fifo() -> Self {
        Self::new("fifo", Settings::new(PolicyKind::Fifo, Depth::new(14).expect("not zero"), SlotCostTable::default()))
    }

    /// A policy under a name, with 10 KiB for a metadata request.
    pub fn new(name: impl Into<String>, settings: Settings) -> Self {
        Self { name: name.into(), settings, metadata_cost: Bytes::kib(10) }
    }

    /// The same where an application may use so many servers.
    pub(crate) fn over(&self, servers: u32) -> Self {
        let mut policy = self.clone();
        policy.settings.sharing.servers = servers;
        policy
    }
}

/// An application: what it does and what it is to get.
#[derive(Clone, Debug)]
pub struct App {
    /// For tables; names are unique in a scenario.
    pub name: String,
    /// Its share.
    pub weight: Weight,
    /// The most it gets at each server.
    pub cap: Option<Cap>,
    /// For throughput and latency control.
    pub target: Option<Target>,
    /// What nine in ten of its requests are to keep, by policies that isolate.
    pub latency: Option<Duration>,
    /// Its number, from which its place in each window of IOCO follows; `None`: from its name, as the daemon does it.
    pub order: Option<u16>,
    /// When its processes begin.
    pub start: Duration,
    /// When its processes begin no further step.
    pub end: Option<Duration>,
    /// Starts over when it is finished, and the run does not wait for it.
    pub background: bool,
    /// What it does.
    pub workload: Workload,
    /// The phases it does; empty: all of its workload.
    pub phases: Vec<Phase>,
    /// Client nodes that its processes run on; as many as processes if there are fewer of these.
    pub nodes: u32,
    /// Calls that each process has outstanding at once.
    pub outstanding: u32,
    /// How its files lie on the servers.
    pub layout: Layout,
}

impl App {
    /// Weight 1, from the beginning to its end, on one node, one call outstanding for each process.
    pub fn new(name: impl Into<String>, workload: impl Into<Workload>) -> Self {
        Self {
            name: name.into(),
            weight: Weight::ONE,
            cap: None,
            target: None,
            latency: None,
            order: None,
            start: Duration::ZERO,
            end: None,
            background: false,
            workload: workload.into(),
            phases: Vec::new(),
            nodes: 1,
            outstanding: 1,
            layout: Layout::default(),
        }
    }
}

/// What the processes of an application do.
#[derive(Clone)]
pub enum Workload {
    /// Large transfers back to back.
    Ior(Ior),
    /// Bursts with computation between them.
    Btio(Btio),
    /// Metadata operations.
    Md(Md),
    /// Forecasts with restart files and many looks at attributes.
    Wrf(Wrf),
    /// Requests of one size, in segments or in turn.
    Pio(PioBench),
    /// Tiles of an array.
    Tile(MpiTileIo),
    /// Columns of an array.
    Noncontig(Noncontig),
    /// Calls at a rate.
    Paced(Paced),
    /// Small calls with time to think between them.
    Interactive(Interactive),
    /// Any other plan; its own seed decides.
    Plan(Arc<dyn Plan>),
}

impl Workload {
    /// The plan, its random parts from `seed`.
    pub(crate) fn plan(&self, seed: u64) -> Arc<dyn Plan> {
        match self {
            Self::Ior(ior) => Arc::new(Ior { seed, ..ior.clone() }),
            Self::Btio(btio) => Arc::new(Btio { seed, ..btio.clone() }),
            Self::Md(md) => Arc::new(md.clone()),
            Self::Wrf(wrf) => Arc::new(Wrf { seed, ..wrf.clone() }),
            Self::Pio(pio) => Arc::new(pio.clone()),
            Self::Tile(tile) => Arc::new(tile.clone()),
            Self::Noncontig(noncontig) => Arc::new(noncontig.clone()),
            Self::Paced(paced) => Arc::new(paced.clone()),
            Self::Interactive(interactive) => Arc::new(Interactive { seed, ..interactive.clone() }),
            Self::Plan(plan) => Arc::clone(plan),
        }
    }

    /// Checks the parameters, as `vpfs workload` does.
    pub(crate) fn validate(&self) -> Result<(), vpfs_model::plan::PlanError> {
        match self {
            Self::Ior(ior) => ior.validate(),
            Self::Btio(btio) => btio.validate(),
            Self::Md(md) => md.validate(),
            Self::Wrf(wrf) => wrf.validate(),
            Self::Pio(pio) => pio.validate(),
            Self::Tile(tile) => tile.validate(),
            Self::Noncontig(noncontig) => noncontig.validate(),
            Self::Paced(paced) => paced.validate(),
            Self::Interactive(interactive) => interactive.validate(),
            Self::Plan(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ior(ior) => ior.fmt(f),
            Self::Btio(btio) => btio.fmt(f),
            Self::Md(md) => md.fmt(f),
            Self::Wrf(wrf) => wrf.fmt(f),
            Self::Pio(pio) => pio.fmt(f),
            Self::Tile(tile) => tile.fmt(f),
            Self::Noncontig(noncontig) => noncontig.fmt(f),
            Self::Paced(paced) => paced.fmt(f),
            Self::Interactive(interactive) => interactive.fmt(f),
            Self::Plan(plan) => write!(f, "Plan({} processes)", plan.processes()),
        }
    }
}

/// A conversion from the parameters of each kind.
macro_rules! from {
    ($($kind:ident($parameters:ty)),*) => {$(
        impl From<$parameters> for Workload {
            fn from(parameters: $parameters) -> Self {
                Self::$kind(parameters)
            }
        }
    )*};
}

from!(
    Ior(Ior),
    Btio(Btio),
    Md(Md),
    Wrf(Wrf),
    Pio(PioBench),
    Tile(MpiTileIo),
    Noncontig(Noncontig),
    Paced(Paced),
    Interactive(Interactive)
);
