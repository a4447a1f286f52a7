//! `vpfs demo`: the effect of scheduling on a small application beside a checkpointing one, on this machine.

mod isolation;

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vpfs_config::{Config, Protocol};
use vpfs_core::ServerId;
use vpfs_proxy::Daemon;
use vpfs_sim::model::device::{DeviceProfile, HddProfile};
use vpfs_sim::model::plan::{Btio, BtioClass, Ior};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::{Connections, RunError, RunOptions, SyncMode};
use vpfs_testbed::nfs::{NfsConfig, NfsServer};
use vpfs_testbed::{ClusterConfig, DeviceClock, EmbeddedCluster};

use super::count;
use super::workload::target::ProgressLine;
use super::workload::{Application, target};
use isolation::{Comparison, Experiment, Management, Trial};

use crate::exit::Exit;
use crate::print::{Blocks, print};

/// Show in 75 seconds on this machine how a small application performs next to a checkpointing one
///
/// Starts four file servers on a model of a disk, and four vpfs proxies in front of them, all over real loopback
/// sockets. A simulation with tiny I/Os (BTIO class A) then runs alone, and beside a checkpoint writer (IOR) under no
/// management, SFQ(D), SFQ(D)+, SFQ(D) with a cap on the writer, and `isolation`, the default, without any settings.
/// The table shows the results of both applications.
///
/// With --protocol nfs, one server of NFSv3 takes the place of the four, behind one proxy.
///
/// This is the experiment of vPFS+ (MSST 2019), Fig. 5 and 6, scaled down, with `isolation` added. All numbers are
/// measured during the run.
#[derive(clap::Args)]
pub(crate) struct Demo {
    /// Shorter runs: 25 seconds in total, too short to judge what `isolation` promises
    #[arg(long)]
    quick: bool,

    /// What the file servers speak
    #[arg(long, value_name = "NAME", default_value = "orangefs", value_parser = super::protocol())]
    protocol: Protocol,

    /// Write parameters and all measurements to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Show no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

/// The results of all runs, before they are compared.
struct Runs {
    small_alone: Report,
    /// Bytes per second.
    writer_alone: f64,
    trials: Vec<(Management, Trial)>,
}

/// Steps of the demo: each application alone, then both for each way of sharing.
const STEPS: usize = 2 + Management::ALL.len();

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = super::runtime()?;
        let begin = Instant::now();
        let scale = if self.quick { Scale::QUICK } else { Scale::FULL }.with(self.protocol);
        let line = ProgressLine::start(self.quiet);
        let runs = runtime.block_on(run_all(&scale, DeviceClock::default(), &line));
        line.clear();
        self.report(&scale, &runs?, begin.elapsed().as_secs_f64())
    }

    fn report(&self, scale: &Scale, runs: &Runs, wall_seconds: f64) -> Result<(), Exit> {
        let mut comparison = Comparison::new(&runs.small_alone, runs.writer_alone, &runs.trials);
        if self.quick {
            // Opening files is most of the I/O then.
            comparison.promises.clear();
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            let table = isolation::table(&comparison, Blocks::of_locale());
            print(format_args!("{} {wall_seconds:.0} s in all.\n\n{table}", scale.describe()))?;
        }
        if let Some(path) = &self.json {
            target::write_output(path, &document(scale, runs, &comparison, wall_seconds))?;
        }
        let reports = runs.trials.iter().map(|(_, trial)| &trial.small).chain([&runs.small_alone]);
        target::verdict(reports)
    }
}

/// Each step has its own servers and proxies, so that no run is affected by an earlier one.
async fn run_all(scale: &Scale, clock: DeviceClock, line: &ProgressLine) -> Result<Runs, Exit> {
    let experiment = scale.experiment();
    let failed = |error: RunError| Exit::Failed(error.to_string());
    let step = |number: usize, title: &str| {
        let title = format!("[{number}/{STEPS}] {title}");
        line.announce(&*title);
        title
    };

    let title = step(1, "small application alone");
    let bed = Bed::start(Management::None, scale, clock).await?;
    let small_alone = experiment.small.at(&bed.url).alone(&title, line).await.map_err(failed)?;

    let title = step(2, "checkpoint writer alone");
    let bed = Bed::start(Management::None, scale, clock).await?;
    let meter = || bed.writer_bytes();
    let writer_alone = experiment.writer_alone(&bed.url, &meter, scale.writer_alone, &title, line).await;
    let writer_alone = writer_alone.map_err(failed)?;

    let mut trials = Vec::new();
    for (number, management) in (3..).zip(Management::ALL) {
        let title = step(number, &format!("both, {}", management.title()));
        let bed = Bed::start(management, scale, clock).await?;
        let trial = experiment.both(&bed.url, &|| bed.writer_bytes(), &title, line).await.map_err(failed)?;
        trials.push((management, trial));
    }
    Ok(Runs { small_alone, writer_alone, trials })
}

fn document(scale: &Scale, runs: &Runs, comparison: &Comparison, wall_seconds: f64) -> Value {
    let reports =
        runs.trials.iter().map(|(management, trial)| json!({ "management": management, "small": trial.small }));
    json!({
        "parameters": scale.parameters(),
        "comparison": comparison,
        "small_alone": runs.small_alone,
        "runs": reports.collect::<Vec<_>>(),
        "wall_seconds": wall_seconds,
    })
}

/// Servers and proxies; dropping it stops both.
struct Bed {
    /// The URL that clients connect to: the first proxy.
    url: String,
    proxies: Daemon,
    _servers: Servers,
}

enum Servers {
    OrangeFs(EmbeddedCluster),
    Nfs(NfsServer),
}

impl Servers {
    async fn start(scale: &Scale, clock: DeviceClock) -> io::Result<Self> {
        Ok(match scale.protocol {
            Protocol::OrangeFs => {
                let config = ClusterConfig::new(scale.servers().into());
                let config = ClusterConfig { devices: vec![DEVICE], clock, ..config };
                Self::OrangeFs(EmbeddedCluster::start(config).await?)
            }
            Protocol::Nfs => {
                let config = NfsConfig { device: DEVICE, clock, ..NfsConfig::default() };
                Self::Nfs(NfsServer::start(config).await?)
            }
        })
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::OrangeFs(cluster) => cluster.addresses().to_vec(),
            Self::Nfs(server) => vec![server.address()],
        }
    }

    /// The URL for clients, through a proxy in front of the first server.
    fn url_at(&self, proxy: SocketAddr) -> String {
        match self {
            Self::OrangeFs(cluster) => {
                cluster.url().replacen(&cluster.addresses()[0].to_string(), &proxy.to_string(), 1)
            }
            Self::Nfs(server) => server.url_at(proxy).to_string(),
        }
    }
}

impl Bed {
    async fn start(management: Management, scale: &Scale, clock: DeviceClock) -> Result<Self, Exit> {
        let failed = |what: &str, error: &dyn std::fmt::Display| Exit::Failed(format!("cannot start {what}: {error}"));
        let servers = Servers::start(scale, clock).await.map_err(|error| failed("file servers", &error))?;
        let (scheme, addresses) = (scale.protocol.scheme(), servers.addresses());
        let ports = free_ports(addresses.len()).map_err(|error| failed("proxies", &error))?;
        let text = configuration(management, scheme, &addresses, &ports);
        let config = Config::parse("demo", &text).map_err(|problems| failed("proxies", &problems))?;
        let ids: Vec<ServerId> = config.servers().map(|(id, _)| id).collect();
        let proxies = Daemon::start(config, &ids).await.map_err(|error| failed("proxies", &error))?;
        let url = servers.url_at((Ipv4Addr::LOCALHOST, ports[0]).into());
        Ok(Self { url, proxies, _servers: servers })
    }

    /// Bytes of the writer that have passed the proxies so far.
    fn writer_bytes(&self) -> u64 {
        self.proxies.totals().iter().filter(|(app, _)| app == WRITER).map(|(_, totals)| totals.bytes).sum()
    }
}

/// The writer's name in the configuration.
const WRITER: &str = "checkpoint";

/// The daemon's configuration, in the form of its file.
fn configuration(management: Management, scheme: &str, servers: &[SocketAddr], ports: &[u16]) -> String {
    let mut text = String::new();
    for (index, address) in servers.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{index}\"\naddress = \"{scheme}{address}\"");
    }
    let told = (0..).zip(ports).map(|(index, port): (usize, _)| format!("s{index} = \"{scheme}127.0.0.1:{port}\""));
    let _ = writeln!(text, "[[listener]]\naddresses = {{ {} }}", told.collect::<Vec<_>>().join(", "));
    let depth = format!("depth = {}", DEPTH);
    let (policy, set_by_hand) = match management {
        Management::None => ("fifo", &*depth),
        Management::SfqD | Management::Capped => ("sfq-d", &*depth),
        Management::SfqDPlus => ("sfq-d-plus", &*depth),
        Management::Isolation => ("isolation", ""),
    };
    let _ = writeln!(text, "[scheduler]\npolicy = \"{policy}\"\n{set_by_hand}");
    let cap = if management == Management::Capped { CAP } else { "" };
    let _ = writeln!(text, "[[app]]\nname = \"small\"\nclients = [\"{SMALL_NETWORK}\"]");
    let _ = writeln!(text, "[[app]]\nname = \"{WRITER}\"\nclients = [\"{WRITER_NETWORK}\"]\n{cap}");
    text
}

/// Free ports. Another program could take one before the proxies do; they would report it.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

// The size of the demo: the setup of vPFS+ §V scaled down to one machine and a minute. One set of parameters for all
// ways of sharing.

/// The disk of the paper's storage nodes. Files were just written, so they are contiguous within a block group of EXT3.
/// Four such disks move less than 300 MB/s, which is a light load for two processors.
const DEVICE: DeviceProfile = DeviceProfile::Hdd(HddProfile { extent_bytes: 128 << 20, ..HddProfile::SAS_7200 });

/// Slots of each server under the papers' policies, from the paper's profile of that disk [vPFS+ §V-A]. Slot costs are
/// the default ones, including the paper's 5 for 2 MiB.
const DEPTH: u32 = 14;

/// The cap on the writer, on each server: below 3 % of the disk's rate. The paper's scheduler left 0.1 % [vPFS+ §V-B],
/// at which the writer would not complete a single call during the demo.
const CAP: &str = "server_cap = \"2MB/s\"\nburst = \"2MiB\"";

/// Addresses of the small application's nodes.
const SMALL_NETWORK: &str = "127.0.1.0/24";

/// Addresses of the writer's nodes.
const WRITER_NETWORK: &str = "127.0.2.0/24";

/// Nodes of each application, as in the paper.
const NODES: u8 = 4;

/// Bytes of one call of the small application [vPFS+ §V-B].
const SMALL_CALL: u32 = 320;

/// Bytes of one call of the writer for each server, the size that the paper profiled. The paper's 32 MiB over eight
/// servers are 4 MiB for each. Clients of NFS make two WRITEs of it.
const WRITER_CALL: u32 = 2 << 20;

/// The protocol of the servers, and the lengths of the demo's parts.
struct Scale {
    protocol: Protocol,
    small_processes: u32,
    iterations: u32,
    think_write: Duration,
    think_read: Duration,
    writer_processes: u32,
    warm_up: Duration,
    /// How long the writer is measured running alone.
    writer_alone: Duration,
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
    const FULL: Self = Self {
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
    const QUICK: Self =
        Self { iterations: 1, warm_up: Duration::from_millis(800), writer_alone: Duration::from_secs(1), ..Self::FULL };

    /// For a test: hardly any computation.
    #[cfg(test)]
    const TEST: Self = Self {
        think_write: Duration::from_millis(200),
        think_read: Duration::from_millis(100),
        warm_up: Duration::from_millis(600),
        writer_alone: Duration::from_millis(500),
        ..Self::QUICK
    };

    /// The same with this protocol.
    fn with(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    /// Servers, each with a proxy. The paper has eight of OrangeFS; an export of NFS has one.
    fn servers(&self) -> u8 {
        match self.protocol {
            Protocol::OrangeFs => 4,
            Protocol::Nfs => 1,
        }
    }

    fn experiment(&self) -> Experiment {
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
    fn describe(&self) -> String {
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
    fn parameters(&self) -> Value {
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
        stop: Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use vpfs_sim::model::plan::Plan;

    use super::*;

    /// The whole demo in virtual time: sockets, proxies and servers are real, but waiting takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_short_demo_matches_the_papers_ordering() {
        assert_matches_paper(&Scale::TEST).await;
    }

    #[tokio::test(start_paused = true)]
    #[ignore = "a long simulation; the one with OrangeFS is in the fast tier"]
    async fn so_does_one_with_nfs() {
        assert_matches_paper(&Scale::TEST.with(Protocol::Nfs)).await;
    }

    async fn assert_matches_paper(scale: &Scale) {
        let runs = run_all(scale, DeviceClock::Tokio, &ProgressLine::Quiet).await;
        let runs = runs.unwrap_or_else(|exit| panic!("{exit:?}"));
        let comparison = Comparison::new(&runs.small_alone, runs.writer_alone, &runs.trials);
        assert!(comparison.matches_paper, "{}", isolation::table(&comparison, Blocks::Ascii));
    }

    #[test]
    fn every_configuration_is_valid_and_without_warnings() {
        let servers: Vec<SocketAddr> = (1001..=1004).map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect();
        for (management, scheme) in Management::ALL.into_iter().flat_map(|all| [(all, "tcp://"), (all, "nfs://")]) {
            let text = configuration(management, scheme, &servers, &[2001, 2002, 2003, 2004]);
            let config = Config::parse("demo", &text).unwrap();
            assert!(config.warnings.list.is_empty());
            assert_eq!(
                config.apps.iter().filter(|app| app.cap.is_some()).count(),
                usize::from(management == Management::Capped)
            );
        }
    }

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
