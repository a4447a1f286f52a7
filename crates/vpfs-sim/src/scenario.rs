//! What is simulated: servers, network, policies to compare, and applications.

use std::sync::Arc;
use std::time::Duration;

use vpfs_config::Share;
use vpfs_core::{AppPolicy, Bytes, Cap, Depth, Minimum, PolicyKind, Settings, SlotCostTable, Target, Weight};

use crate::layout::Layout;
use crate::model::device::{Device, DeviceProfile, MetadataProfile, Shared, StallProfile, Stalling};
use crate::model::plan::{Btio, Interactive, Ior, Md, MpiTileIo, Noncontig, Paced, Phase, PioBench, Plan, Wrf};
use crate::network::{LinkProfile, PeerNetwork};

/// Everything that determines a run except the policy, and the policies to compare.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name in tables and files.
    pub name: String,
    /// The seed of everything random.
    pub seed: u64,
    /// The latest end of the run; `None`: when all applications that are not in the background have finished.
    pub duration: Option<Duration>,
    /// The interval between values of a time series.
    pub interval: Duration,
    /// A request that waits longer than this for its dispatch is an error: starvation.
    pub wait_limit: Duration,
    /// Whether results include each application's service at each server, with time series.
    pub by_server: bool,
    /// Whether results list each call with its finish at each server.
    pub trace: bool,
    /// The servers, in groups of equal ones, numbered in this order.
    pub servers: Vec<ServerGroup>,
    /// The largest random delay of each request on its way to a server: clients do not reach all servers at once.
    pub jitter: Duration,
    /// The largest random delay that all requests of an application share, and as much again those of each process:
    /// they do not begin at the same instant.
    pub skew: Duration,
    /// The link of each client node; `None`: only the servers' links are a limit.
    pub node_link: Option<LinkProfile>,
    /// The network between the servers' proxies, used if their schedulers need each other.
    pub peers: PeerNetwork,
    /// The policies to compare; each applies to all servers.
    pub policies: Vec<PolicySpec>,
    /// The tree in which applications stand, as far as it is more than their paths.
    pub shares: Vec<Share>,
    /// The applications, by [`vpfs_core::AppId`].
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
            skew: Duration::ZERO,
            node_link: None,
            peers: PeerNetwork::default(),
            policies: Vec::new(),
            shares: Vec::new(),
            apps: Vec::new(),
        }
    }
}

/// A group of equal servers.
#[derive(Clone, Debug)]
pub struct ServerGroup {
    /// The number of servers.
    pub count: u32,
    /// The device that holds the data.
    pub device: DeviceProfile,
    /// The service for metadata operations.
    pub metadata: MetadataProfile,
    /// What the servers store.
    pub role: Role,
    /// A server's link, equal in both directions.
    pub link: LinkProfile,
    /// Buffers of 256 KiB through which each request's data flows between link and device, each of them an access to
    /// the device; zero: a request is one access.
    pub flow_buffers: u32,
    /// Moments in which a device stands still, each server's at other times.
    pub stalls: Option<StallProfile>,
    /// One device under all servers of the group, instead of one under each.
    pub shared_device: bool,
}

impl ServerGroup {
    /// Servers for data and metadata behind gigabit links.
    pub fn new(count: u32, device: DeviceProfile) -> Self {
        Self {
            count,
            device,
            metadata: MetadataProfile::PVFS2_BDB,
            role: Role::Both,
            link: LinkProfile::GIGABIT,
            flow_buffers: 0,
            stalls: None,
            shared_device: false,
        }
    }
}

impl ServerGroup {
    /// The device of each server. `first` is the number of the first server, which determines when its device stands
    /// still.
    pub(crate) fn devices(&self, seed: u64, first: u32) -> Vec<Box<dyn Device>> {
        let device = |number: u32| match self.stalls {
            None => self.device.build(),
            Some(stalls) => Box::new(Stalling::new(stalls, seed ^ u64::from(number), self.device.build())),
        };
        if self.shared_device {
            let all = Shared::between(self.count as usize, device(first)).into_iter();
            return all.map(|device| Box::new(device) as Box<dyn Device>).collect();
        }
        (first..first + self.count).map(device).collect()
    }
}

/// What a server stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Data of files, and directories and attributes.
    Both,
    /// Data of files.
    Data,
    /// Directories and attributes.
    Metadata,
}

/// A named policy.
#[derive(Clone, Debug)]
pub struct PolicySpec {
    /// The name in tables; unique in a scenario.
    pub name: String,
    /// The settings of each server's scheduler.
    pub settings: Settings,
    /// The cost of a metadata request [vPFS+ §IV].
    pub metadata_cost: Bytes,
    /// What determines the window of a request in IOCO.
    pub request_time: RequestTime,
}

/// What a proxy knows of the time of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestTime {
    /// When it arrives at the server, as in the daemon.
    #[default]
    Arrival,
    /// When its client makes the call, equal at all servers, as with the client library of [IOCO §4.1].
    Issue,
}

impl PolicySpec {
    /// FIFO, as without vpfs.
    pub fn fifo() -> Self {
        Self::new("fifo", Settings::new(PolicyKind::Fifo, Depth::new(14).expect("not zero"), SlotCostTable::default()))
    }

    /// A named policy, with a cost of 10 KiB for a metadata request.
    pub fn new(name: impl Into<String>, settings: Settings) -> Self {
        Self { name: name.into(), settings, metadata_cost: Bytes::kib(10), request_time: RequestTime::default() }
    }

    /// The same policy for applications that may use `servers` servers.
    pub(crate) fn over(&self, servers: u32) -> Self {
        let mut policy = self.clone();
        policy.settings.sharing.servers = servers;
        policy
    }
}

/// An application: its load and its share.
#[derive(Clone, Debug)]
pub struct App {
    /// The name in tables; unique in a scenario.
    pub name: String,
    /// Its weight among those in the same share.
    pub weight: Weight,
    /// The path of the share that it is in; servers know those in shares from their first request on.
    pub share: Option<String>,
    /// Its maximum rate, at each server or for the sum over all.
    pub cap: Option<Cap>,
    /// For throughput and latency control.
    pub target: Option<Target>,
    /// The least that it gets, for policies that keep minima.
    pub minimum: Option<Minimum>,
    /// The latency to keep for nine in ten of its requests, for policies that isolate.
    pub latency: Option<Duration>,
    /// Its number, which determines its place in each window of IOCO; `None`: derived from its name, as in the daemon.
    pub order: Option<u16>,
    /// When its processes start.
    pub start: Duration,
    /// When its processes stop starting new steps.
    pub end: Option<Duration>,
    /// Restarts when it has finished, and the run does not wait for it.
    pub background: bool,
    /// Its writes are complete when the device has them, also behind a cache.
    pub stable: bool,
    /// Its workload.
    pub workload: Workload,
    /// The phases that it runs; empty: all of its workload.
    pub phases: Vec<Phase>,
    /// Client nodes that its processes run on; limited to the number of processes.
    pub nodes: u32,
    /// Calls that each process has outstanding at once.
    pub outstanding: u32,
    /// How its files are distributed over the servers.
    pub layout: Layout,
}

impl App {
    /// Weight 1, running from the start of the simulation until it finishes, on one node, one outstanding call for each
    /// process.
    pub fn new(name: impl Into<String>, workload: impl Into<Workload>) -> Self {
        Self {
            name: name.into(),
            weight: Weight::ONE,
            share: None,
            cap: None,
            target: None,
            minimum: None,
            latency: None,
            order: None,
            start: Duration::ZERO,
            end: None,
            background: false,
            stable: false,
            workload: workload.into(),
            phases: Vec::new(),
            nodes: 1,
            outstanding: 1,
            layout: Layout::default(),
        }
    }

    pub(crate) fn policy(&self) -> AppPolicy {
        let App { weight, cap, target, minimum, latency, order, .. } = *self;
        AppPolicy { weight, cap, target, minimum, latency, order, ..AppPolicy::default() }
    }
}

/// The workload of an application's processes.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Large transfers back to back.
    Ior(Ior),
    /// Bursts with computation between them.
    Btio(Btio),
    /// Metadata operations.
    Md(Md),
    /// Forecasts with restart files and many reads of attributes.
    Wrf(Wrf),
    /// Requests of equal size, in segments or strided.
    Pio(PioBench),
    /// Tiles of an array.
    Tile(MpiTileIo),
    /// Columns of an array.
    Noncontig(Noncontig),
    /// Calls at a rate.
    Paced(Paced),
    /// Small calls with think time between them.
    Interactive(Interactive),
    /// Any other plan, which has its own seed.
    Plan(Arc<dyn Plan>),
}

impl Workload {
    /// The plan, with `seed` for its random parts.
    pub fn plan(&self, seed: u64) -> Arc<dyn Plan> {
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
    pub(crate) fn validate(&self) -> Result<(), crate::model::plan::PlanError> {
        self.plan(0).validate()
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

/// Whether servers exchange messages in this scenario.
pub(crate) fn needs_peers(policy: &PolicySpec, scenario: &Scenario) -> bool {
    let of_apps = scenario.apps.iter().flat_map(|app| app.policy().totals().collect::<Vec<_>>());
    let all = of_apps.chain(scenario.shares.iter().flat_map(|share| share.policy.totals()));
    policy.settings.needs_peers(all.map(|(kind, _)| kind))
}
