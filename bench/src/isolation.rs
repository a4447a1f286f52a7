//! `cargo xtask bench isolation`: what a small application and a large one keep of what each does alone, on servers as
//! they are installed, whose memory takes writes before their disks do (docs/decisions/0004-write-back.md).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use vpfs_core::PolicyKind;
use vpfs_e2e::{Daemon, free_ports, requirements};
use vpfs_sim::model::plan::{
    Amount, Call, Dir, Extent, FileId, Interactive, Ior, Limit, Phase, Plan, PlanError, Step, Steps,
};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::run::{Connections, Run, RunOptions, SyncMode, Transfer};

use crate::servers::{AppConfig, Cluster, Origin, config_text, write};
use crate::{gym, servers};

/// Measure isolation on servers as they are installed, on disks of which the kernel limits everything; needs root and
/// control groups v1. With --random: in simulated cases, which need neither
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only these servers
    #[arg(long, value_enum)]
    servers: Option<Kind>,

    /// Only cases whose name ends with this
    #[arg(long, value_name = "TEXT", default_value = "")]
    case: String,

    /// Only settings of these names, as in the tables; of caps, "best cap" finds the one at which the product of what
    /// both keep is highest
    #[arg(long, value_name = "NAME;...", value_delimiter = ';')]
    setting: Vec<String>,

    /// Other values of limits.write_back that are tried as well
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',')]
    write_back: Vec<String>,

    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..))]
    seconds: u64,

    /// Where images of the disks and logs are; some 10 GB
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,

    /// Write all results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Measure this vpfs; by default it is built from this source
    #[arg(long, value_name = "PROGRAM")]
    vpfs: Option<PathBuf>,

    /// Instead of servers: simulate so many random cases, and score a policy against the best cap or window of each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,

    /// The first random case; each next one has the next number
    #[arg(long, value_name = "N", default_value_t = 1, requires = "random")]
    seed: u64,

    /// The policy of the random cases
    #[arg(long, value_name = "NAME", default_value = "isolation", requires = "random", value_parser = policy)]
    policy: PolicyKind,

    /// Of the random cases, print what halving and doubling each constant of the law does; with a NAME only those whose
    /// names begin with it
    #[arg(long, value_name = "NAME", requires = "random", num_args = 0..=1, default_missing_value = "")]
    constants: Option<String>,
}

fn policy(name: &str) -> Result<PolicyKind, String> {
    let known = PolicyKind::ALL.into_iter().find(|policy| policy.name() == name);
    known.ok_or_else(|| format!("allowed are {}", PolicyKind::NAMES.join(", ")))
}

const SMALL: [Small; 5] = [
    Small { name: "4 KiB stable", bytes: 4 << 10, reads: false, sync: SyncMode::Stable },
    Small { name: "4 KiB and fsync", bytes: 4 << 10, reads: false, sync: SyncMode::Each },
    Small { name: "64 KiB and fsync", bytes: 64 << 10, reads: false, sync: SyncMode::Each },
    Small { name: "4 KiB unstable", bytes: 4 << 10, reads: false, sync: SyncMode::Unstable },
    Small { name: "4 KiB reads", bytes: 4 << 10, reads: true, sync: SyncMode::Stable },
];

/// Caps that are tried by hand, in percent of what the large application does alone.
const CAPS: [u32; 2] = [40, 100];
/// Of these, the best one for both is found to this many percent.
const CAP_STEP: u32 = 8;

/// How vpfs is set up.
#[derive(Clone, Debug)]
struct Setting {
    name: String,
    /// `None`: no vpfs.
    config: Option<Lines>,
}

impl Setting {
    /// All but caps.
    fn all(write_back: &[String]) -> Vec<Self> {
        let with = |name: &str, lines: Lines| Self { name: name.to_owned(), config: Some(lines) };
        let ending = |rest: &str| Lines { rest: rest.to_owned(), ..Lines::default() };
        let mut all = vec![Self { name: "no vpfs".to_owned(), config: None }, with("isolation", Lines::default())];
        // No disk is behind it, so that only the proxy is left to limit anything.
        all.push(with("isolation, filer", Lines { server: "data = \"/proc\"", ..Lines::default() }));
        all.extend(write_back.iter().map(String::as_str).chain(["off"]).map(|value| {
            let rest = format!("[limits]\nwrite_back = \"{value}\"\n");
            with(&format!("isolation, write_back {value}"), ending(&rest))
        }));
        all
    }

    fn cap(large_alone: f64, percent: u32) -> Self {
        let large = format!("cap = \"{:.1}MB/s\"", large_alone * f64::from(percent) / 1e8);
        let rest = "[scheduler]\npolicy = \"fifo\"\n".to_owned();
        Self { name: format!("cap of {percent} %"), config: Some(Lines { large, rest, ..Lines::default() }) }
    }
}

/// The whole number between two others at which a function with one peak is highest, to `step`: golden-section search.
fn peak<E>([mut low, mut high]: [u32; 2], step: u32, mut of: impl FnMut(u32) -> Result<f64, E>) -> Result<u32, E> {
    const GOLDEN: f64 = 0.618;
    #[expect(clippy::cast_possible_truncation, reason = "at most 100 percent")]
    let within = |low: u32, high: u32| (f64::from(high - low) * GOLDEN).round() as u32;
    let (mut first, mut second) = (high - within(low, high), low + within(low, high));
    let (mut at_first, mut at_second) = (of(first)?, of(second)?);
    while high - low > step {
        if at_first > at_second {
            (high, second, at_second) = (second, first, at_first);
            first = high - within(low, high);
            at_first = of(first)?;
        } else {
            (low, first, at_first) = (first, second, at_second);
            second = low + within(low, high);
            at_second = of(second)?;
        }
    }
    Ok(if at_first > at_second { first } else { second })
}

#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    if let Some(cases) = options.random {
        return gym::run(options.policy, cases, options.seed, options.constants.as_deref());
    }
    let program = servers::program(options.vpfs.as_deref())?;
    let mut results = Vec::new();
    let kinds = [Kind::Nfs, Kind::Orangefs].into_iter().filter(|kind| options.servers.is_none_or(|only| only == *kind));
    for kind in kinds {
        let dir = tempfile::tempdir_in(&options.dir).map_err(|error| format!("{}: {error}", options.dir.display()))?;
        let Some(site) = Site::start(kind, dir.path())? else { continue };
        let bench = Bench { options, program: &program, site: &site };
        for small in SMALL {
            for (order, name) in Order::ALL {
                let case = format!("{}, {}, {name}", if kind == Kind::Nfs { "NFS" } else { "OrangeFS" }, small.name);
                // OrangeFS has no writes that ask for stable storage.
                let is_there = kind == Kind::Nfs || small.reads || small.sync != SyncMode::Stable;
                if is_there && case.ends_with(&options.case) {
                    let (table, measured) = bench.case(&case, small, order)?;
                    println!("{table}\n");
                    results.extend(measured);
                }
            }
        }
    }
    match &options.json {
        Some(file) => write(file, &format!("{:#}\n", serde_json::Value::from(results))),
        None => Ok(()),
    }
}

struct Bench<'a> {
    options: &'a Options,
    program: &'a std::path::Path,
    site: &'a Site,
}

impl Bench<'_> {
    /// Runs with nothing in the kernel's memory.
    fn within<T>(&self, run: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        self.site.disks.iter().try_for_each(Disk::settle)?;
        self.run(run)
    }

    /// Runs on threads of its own: nothing is left of what it started.
    fn run<T>(&self, run: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start threads: {error}"))?;
        let result = runtime.block_on(run);
        runtime.shutdown_background();
        result
    }

    /// Measures a case; a table, and the same as JSON.
    fn case(&self, name: &str, small: Small, order: Order) -> Result<(Table, Vec<serde_json::Value>), String> {
        let (site, time) = (self.site, std::time::Duration::from_secs(self.options.seconds));
        let direct = site.url();
        eprintln!("{name}: writing the files");
        site.disks.iter().try_for_each(|disk| disk.limit(false))?;
        self.run(fill(site.kind, &direct))?;
        eprintln!("{name}: each alone");
        let small_alone = self.within(small_alone(site.kind, &direct, small, time))?;
        let large_alone = self.within(large_alone(site, &direct, order, time))?;
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN).set_header([
            name,
            "small kept",
            "calls/s",
            "mean ms",
            "p99 ms",
            "large kept",
            "MB/s",
            "stored MB/s",
            "large alone kept",
        ]);
        table.add_row(row("alone", [small_alone, large_alone], [small_alone, large_alone], 0.0));
        let alone = [small_alone, large_alone];
        let mut results = Vec::new();
        let is_wanted =
            |name: &str| self.options.setting.is_empty() || self.options.setting.iter().any(|one| one == name);
        for setting in Setting::all(&self.options.write_back).into_iter().filter(|setting| is_wanted(&setting.name)) {
            let measured = self.measure(name, &setting, small, order, alone)?;
            table.add_row(measured.row);
            results.push(measured.json);
        }
        if is_wanted("best cap") {
            let mut tried = BTreeMap::new();
            let best = peak(CAPS, CAP_STEP, |percent| {
                let setting = Setting::cap(large_alone.bytes_per_second, percent);
                let measured = self.measure(name, &setting, small, order, alone)?;
                let kept = measured.kept;
                tried.insert(percent, measured);
                Ok::<_, String>(kept)
            })?;
            table.add_row(tried[&best].row.clone());
            results.extend(tried.into_values().map(|measured| measured.json));
        }
        Ok((table, results))
    }

    /// Runs both applications with one setting.
    fn measure(
        &self,
        case: &str,
        setting: &Setting,
        small: Small,
        order: Order,
        alone: [Done; 2],
    ) -> Result<Measured, String> {
        let (site, time) = (self.site, std::time::Duration::from_secs(self.options.seconds));
        eprintln!("{case}: {}", setting.name);
        // Before the proxy looks: it takes what disks store for what they can store.
        site.disks.iter().try_for_each(Disk::settle)?;
        let start = |lines: &Lines| Proxy::start(site, self.program, lines);
        let proxy = setting.config.as_ref().map(start).transpose()?;
        let urls = proxy.as_ref().map_or_else(|| [site.url(), site.url()], |proxy| proxy.urls.clone());
        let (done, stored) = self.run(async {
            let before = site.stored();
            let began = std::time::Instant::now();
            let done = both(site.kind, &urls, small, order, time).await?;
            Ok((done, (site.stored() - before) as f64 / began.elapsed().as_secs_f64()))
        })?;
        // What the large one loses by vpfs when nobody is there; afterwards, so that the proxy knows nothing of either
        // before.
        let large = match proxy {
            Some(_) if setting.name.starts_with("isolation") => {
                site.disks.iter().try_for_each(Disk::sync)?;
                Some(self.run(large_alone(site, &urls[1], order, time))?)
            }
            _ => None,
        };
        let mut row = row(&setting.name, done, alone, stored).to_vec();
        row.extend(large.map(|large| format!("{:.2}", large.bytes_per_second / alone[1].bytes_per_second)));
        let json = json!({
            "origin": Origin::here(),
            "case": case, "setting": setting.name, "small": done[0], "large": done[1], "large_alone": large,
            "stored_bytes_per_second": stored, "alone": { "small": alone[0], "large": alone[1] },
        });
        let kept =
            done[0].calls_per_second / alone[0].calls_per_second * done[1].bytes_per_second / alone[1].bytes_per_second;
        Ok(Measured { row, json, kept })
    }
}

/// What a setting achieved.
struct Measured {
    row: Vec<String>,
    json: serde_json::Value,
    /// The product of what both keep.
    kept: f64,
}

fn row(name: &str, done: [Done; 2], alone: [Done; 2], stored: f64) -> [String; 8] {
    let [small, large] = done;
    [
        name.to_owned(),
        format!("{:.2}", small.calls_per_second / alone[0].calls_per_second),
        format!("{:.0}", small.calls_per_second),
        small.mean_seconds.map_or("-".to_owned(), |mean| format!("{:.1}", mean * 1e3)),
        small.p99_seconds.map_or("-".to_owned(), |p99| format!("{:.0}", p99 * 1e3)),
        format!("{:.2}", large.bytes_per_second / alone[1].bytes_per_second),
        format!("{:.1}", large.bytes_per_second / 1e6),
        format!("{:.1}", stored / 1e6),
    ]
}

/// What each process of the small application does, with one call outstanding and time to think before each.
#[derive(Clone, Copy, Debug)]
struct Small {
    name: &'static str,
    bytes: u32,
    reads: bool,
    sync: SyncMode,
}

/// When the large application is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// From five seconds after the small one on.
    SmallFirst,
    /// For twenty seconds before the small one comes.
    LargeFirst,
    /// As `LargeFirst`, with files that are new, whose places are in the file system's journal.
    NewFiles,
    /// As `SmallFirst`, with 512 MiB each 13 seconds.
    Bursts,
}

impl Order {
    const ALL: [(Self, &str); 4] = [
        (Self::SmallFirst, "small first"),
        (Self::LargeFirst, "large first"),
        (Self::NewFiles, "large first, new files"),
        (Self::Bursts, "bursts"),
    ];

    fn is_large_first(self) -> bool {
        matches!(self, Self::LargeFirst | Self::NewFiles)
    }
}

/// The large application: each process writes its own file from start to end, again and again.
#[derive(Clone, Copy, Debug)]
struct Large {
    processes: u32,
    transfer_bytes: u32,
    order: Order,
    time: Duration,
}

impl Large {
    /// Of all processes together: more than the kernel keeps in memory, so that nothing is written twice before it is
    /// stored.
    const BYTES: u64 = 4608 << 20;
    const BURST_BYTES: u64 = 512 << 20;
    const BURST_EVERY: Duration = Duration::from_secs(13);

    fn new(kind: Kind, order: Order, time: Duration) -> Self {
        let (processes, transfer_bytes) = match kind {
            Kind::Nfs => (8, 1 << 20),
            Kind::Orangefs => (12, 4 << 20),
        };
        Self { processes, transfer_bytes, order, time }
    }

    fn file_bytes(&self) -> u64 {
        Self::BYTES / u64::from(self.processes)
    }
}

impl Plan for Large {
    fn validate(&self) -> Result<(), PlanError> {
        Ok(())
    }

    fn processes(&self) -> u32 {
        self.processes
    }

    fn phases(&self) -> Vec<Phase> {
        if self.order == Order::NewFiles { vec![Phase::Create, Phase::Write] } else { vec![Phase::Write] }
    }

    fn steps(&self, phase: Phase, process: u32) -> Steps {
        let file = FileId { dir: Dir::Base, number: process };
        if phase == Phase::Create {
            return Box::new([Step::Call(Call::Create(file))].into_iter());
        }
        let Self { transfer_bytes: bytes, order, .. } = *self;
        let (calls, processes) = (self.file_bytes() / u64::from(bytes), u64::from(self.processes));
        let in_burst = Self::BURST_BYTES / processes / u64::from(bytes);
        Box::new((0..u64::MAX).flat_map(move |call| {
            let pause = (order == Order::Bursts && call > 0 && call % in_burst == 0).then(|| {
                let burst = u32::try_from(call / in_burst).unwrap_or(u32::MAX);
                Step::Until(Self::BURST_EVERY.saturating_mul(burst))
            });
            let write = Call::Write(Extent { file, offset: call % calls * u64::from(bytes), bytes });
            pause.into_iter().chain([Step::Call(write)])
        }))
    }

    fn limit(&self, phase: Phase) -> Option<Limit> {
        (phase == Phase::Write).then_some(Limit { time: self.time, at_least_steps: 0 })
    }

    fn amount(&self, _: Phase) -> Option<Amount> {
        None
    }
}

/// How long one is there before the other.
const LEAD: Duration = Duration::from_secs(20);
const SMALL_LEAD: Duration = Duration::from_secs(5);
/// What the promise leaves for finding a rate.
const SETTLING: Duration = Duration::from_secs(5);
const FILE_BYTES: u64 = 16 << 20;
const THINK: Duration = Duration::from_millis(2);

/// What an application did in a window.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct Done {
    calls_per_second: f64,
    bytes_per_second: f64,
    /// Of the calls that ended; `None` if none did.
    mean_seconds: Option<f64>,
    p99_seconds: Option<f64>,
}

/// The calls of a running application.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(Instant, Duration, u32)>>>);

impl Calls {
    /// Collects what a run reports.
    fn collect(&self) -> mpsc::Sender<Transfer> {
        let (sender, mut receiver) = mpsc::channel::<Transfer>(1024);
        let calls = self.clone();
        tokio::spawn(async move {
            while let Some(transfer) = receiver.recv().await {
                let took = transfer.done - transfer.began;
                calls.0.lock().unwrap_or_else(PoisonError::into_inner).push((
                    transfer.done,
                    took,
                    transfer.extent.bytes,
                ));
            }
        });
        sender
    }

    fn between(&self, from: Instant, to: Instant) -> Done {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = calls.iter().filter(|(done, ..)| (from..to).contains(done));
        let (mut times, mut bytes) = (Vec::new(), 0.0);
        for (_, took, moved) in within {
            times.push(took.as_secs_f64());
            bytes += f64::from(*moved);
        }
        times.sort_by(f64::total_cmp);
        let (count, seconds) = (times.len() as f64, (to - from).as_secs_f64());
        Done {
            calls_per_second: count / seconds,
            bytes_per_second: bytes / seconds,
            mean_seconds: (!times.is_empty()).then(|| times.iter().sum::<f64>() / count),
            p99_seconds: times.get(times.len() * 99 / 100).copied(),
        }
    }
}

fn options(url: &str, directory: &str, sync: SyncMode) -> RunOptions {
    RunOptions {
        client: ClientOptions::new(url),
        local_addresses: Vec::new(),
        nodes: 1,
        connections: Connections::PerProcess,
        directory: directory.to_owned(),
        create: CreateOptions::simple_stripe(64 << 10),
        overwrite: true,
        keep: true,
        sync,
        seed: 1,
        interval: Duration::from_secs(1),
        trace: None,
        stop: Arc::default(),
    }
}

async fn prepare(plan: impl Plan + 'static, options: RunOptions) -> Result<Run, String> {
    Run::prepare(Arc::new(plan), options).await.map_err(|error| error.to_string())
}

/// The small application's processes: alone they must not be all that the disks can do.
fn processes(kind: Kind) -> u32 {
    match kind {
        Kind::Nfs => 1,
        Kind::Orangefs => 4,
    }
}

/// Writes the files of both, and stores them.
async fn fill(kind: Kind, url: &str) -> Result<(), String> {
    let Large { processes: larges, .. } = Large::new(kind, Order::LargeFirst, Duration::ZERO);
    for (directory, processes, bytes) in
        [("/small", processes(kind), FILE_BYTES), ("/large", larges, Large::BYTES / u64::from(larges))]
    {
        let plan = Ior { fsync: true, keep: true, ..Ior::writes(processes, 1 << 20, bytes) };
        let run = prepare(plan, options(url, directory, SyncMode::Unstable)).await?;
        run.execute().await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Starts the small application; it ends with the runtime.
async fn small(kind: Kind, url: &str, small: Small) -> Result<Calls, String> {
    let plan = Interactive {
        processes: processes(kind),
        transfer_bytes: small.bytes,
        file_bytes: FILE_BYTES,
        think: THINK,
        time: Duration::from_secs(86_400),
        read: small.reads,
        fills: false,
        seed: 1,
    };
    let calls = Calls::default();
    start(plan, options(url, "/small", small.sync), &calls).await?;
    Ok(calls)
}

/// Starts the large application, which calls for `time`.
async fn large(kind: Kind, url: &str, order: Order, time: Duration) -> Result<Calls, String> {
    let calls = Calls::default();
    start(Large::new(kind, order, time), options(url, "/large", SyncMode::Unstable), &calls).await?;
    Ok(calls)
}

async fn start(plan: impl Plan + 'static, options: RunOptions, calls: &Calls) -> Result<(), String> {
    let run = prepare(plan, RunOptions { trace: Some(calls.collect()), ..options }).await?;
    tokio::spawn(async move {
        if let Err(error) = run.execute().await {
            eprintln!("an application ended: {error}");
        }
    });
    Ok(())
}

/// The small application alone.
async fn small_alone(kind: Kind, url: &str, what: Small, time: Duration) -> Result<Done, String> {
    let calls = small(kind, url, what).await?;
    sleep(SETTLING).await;
    let from = Instant::now();
    sleep(time).await;
    Ok(calls.between(from, from + time))
}

/// The large one alone, at the time at which it is measured beside the small one: what the disks store of it, since
/// memory takes more or less than that for a while.
async fn large_alone(site: &Site, url: &str, order: Order, time: Duration) -> Result<Done, String> {
    let lead = if order.is_large_first() { LEAD } else { Duration::ZERO };
    let from = Instant::now() + lead + SETTLING;
    let calls = large(site.kind, url, order, lead + SETTLING + time).await?;
    sleep_until(from).await;
    let before = site.stored();
    sleep_until(from + time).await;
    let bytes_per_second = (site.stored() - before) as f64 / time.as_secs_f64();
    Ok(Done { bytes_per_second, ..calls.between(from, from + time) })
}

/// Both, from five seconds after the later one's arrival on.
async fn both(kind: Kind, urls: &[String; 2], what: Small, order: Order, time: Duration) -> Result<[Done; 2], String> {
    let began = Instant::now();
    let lead = if order.is_large_first() { LEAD } else { SMALL_LEAD };
    let from = began + lead + SETTLING;
    let (smalls, larges) = if order.is_large_first() {
        let larges = large(kind, &urls[1], order, lead + SETTLING + time).await?;
        sleep_until(began + lead).await;
        (small(kind, &urls[0], what).await?, larges)
    } else {
        let smalls = small(kind, &urls[0], what).await?;
        sleep_until(began + lead).await;
        (smalls, large(kind, &urls[1], order, SETTLING + time).await?)
    };
    sleep_until(from + time).await;
    Ok([smalls, larges].map(|calls| calls.between(from, from + time)))
}

/// Kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// nfs-ganesha on one disk of 60 MB/s and 600 accesses a second
    Nfs,
    /// Four OrangeFS servers as `pvfs2-genconfig` configures them, on disks of 15 MB/s and 300 accesses
    Orangefs,
}

/// Servers on their disks.
struct Site {
    // Fields are dropped in this order, and a disk is busy while its server runs.
    _servers: Vec<Daemon>,
    disks: Vec<Disk>,
    kind: Kind,
    /// As in vpfs.toml, with a mount daemon's last.
    addresses: Vec<String>,
    dir: PathBuf,
}

impl Site {
    /// Bytes that its disks have stored so far.
    fn stored(&self) -> u64 {
        self.disks.iter().map(Disk::stored).sum()
    }

    /// `None`, which is reported, if the servers are not installed.
    fn start(kind: Kind, dir: &Path) -> Result<Option<Self>, String> {
        match kind {
            Kind::Nfs if requirements::are_present("nfs", &["ganesha.nfsd", "rpcbind", "unshare"]) => {
                nfs(dir).map(Some)
            }
            Kind::Orangefs if requirements::are_present("orangefs", &["pvfs2-genconfig", "pvfs2-server"]) => {
                orangefs(dir).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The URL for clients that go past any proxy.
    fn url(&self) -> String {
        url(self.kind, &self.addresses)
    }
}

/// A running proxy, with a listener for each of two applications.
struct Proxy {
    /// The URLs of the small and of the large application.
    urls: [String; 2],
    _process: Daemon,
}

/// What a configuration has besides addresses.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// Of each server's table.
    server: &'static str,
    /// Of the large application's table.
    large: String,
    /// The end of the file.
    rest: String,
}

impl Proxy {
    /// Starts this program.
    fn start(site: &Site, program: &Path, lines: &Lines) -> Result<Self, String> {
        let Lines { server, large, rest } = lines;
        let servers = u16::try_from(site.addresses.len()).map_err(|_| "too many servers")?;
        let first = free_ports(2 * servers);
        let scheme = if site.kind == Kind::Nfs { "nfs://" } else { "tcp://" };
        let app = |name: &str, lines: &str| AppConfig { name: name.to_owned(), lines: format!("{lines}\n") };
        let apps = [app("small", ""), app("large", large)];
        let text = config_text((scheme, &site.addresses), server, first, &apps, rest);
        let urls = [0, 1].map(|number| {
            let ports = first + number * servers..first + (number + 1) * servers;
            url(site.kind, &ports.map(|port| format!("{scheme}127.0.0.1:{port}")).collect::<Vec<_>>())
        });
        let config = site.dir.join("vpfs.toml");
        write(&config, &text)?;
        let mut command = Command::new(program);
        let mut process = Daemon::start(&site.dir, "proxy", command.args(["proxy", "--config"]).arg(&config));
        process.await_port(first + 2 * servers - 1);
        Ok(Self { urls, _process: process })
    }
}

/// Where clients of servers or proxies at these addresses connect to.
fn url(kind: Kind, addresses: &[String]) -> String {
    match kind {
        Kind::Nfs => {
            let port = addresses[1].rsplit(':').next().unwrap_or_default();
            format!("{}/vfs?mountport={port}", addresses[0])
        }
        Kind::Orangefs => Cluster { addresses: Vec::new(), name: "orangefs".to_owned() }.spec(&addresses[0]),
    }
}

/// What Debian's packages set up, except addresses, protocols that need other services, and the largest calls.
fn nfs(dir: &Path) -> Result<Site, String> {
    let disk = Disk::start(dir, "export", Speed { bytes: 60_000_000, accesses: 600 })?;
    let ports = free_ports(2);
    let (at, export) = (dir.display(), disk.mount().display());
    let config = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; Bind_addr = 127.0.0.1; NFS_Port = {ports}; MNT_Port = {}; Enable_NLM = false;\n\
         Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; }}\n\
         EXPORT_DEFAULTS {{ SecType = sys, none; Squash = None; Access_Type = RW; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{export}\"; Pseudo = \"/vfs\"; Protocols = 3; Transports = TCP;\n\
         MaxRead = 1048576; MaxWrite = 1048576; FSAL {{ Name = VFS; }} }}\n",
        ports + 1
    );
    write(&dir.join("ganesha.conf"), &config)?;
    // The port mapper has its files in /run, and ends with the server.
    let script = format!(
        "mount -t tmpfs none /run; mkdir /run/rpcbind; rpcbind -f & until [ -e /run/rpcbind.sock ]; do sleep 0.05; done; \
         exec ganesha.nfsd -F -f {at}/ganesha.conf -L {at}/ganesha.log -p {at}/ganesha.pid"
    );
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--kill-child", "sh", "-c", &script]);
    let mut server = Daemon::start(dir, "server", &mut command);
    server.await_port(ports + 1);
    let addresses = vec![format!("nfs://127.0.0.1:{ports}"), format!("nfs://127.0.0.1:{}", ports + 1)];
    Ok(Site { kind: Kind::Nfs, disks: vec![disk], addresses, dir: dir.to_owned(), _servers: vec![server] })
}

fn orangefs(dir: &Path) -> Result<Site, String> {
    const SERVERS: u16 = 4;
    let disk = |id| Disk::start(dir, &format!("disk{id}"), Speed { bytes: 15_000_000, accesses: 300 });
    let disks = (0..SERVERS).map(disk).collect::<Result<Vec<_>, _>>()?;
    let first = free_ports(SERVERS);
    let (conf, spec) = (dir.join("fs.conf"), format!("tcp://127.0.0.1:{{{first}-{}}}", first + SERVERS - 1));
    let mut command = Command::new("pvfs2-genconfig");
    command.args(["--quiet", "--iospec", &spec, "--metaspec", &spec, "--storage"]).arg(dir.join("none"));
    command.arg("--metadata").arg(dir.join("none")).arg("--logfile").arg(dir.join("orangefs.log")).arg(&conf);
    vpfs_e2e::run(&mut command);
    let mut text = std::fs::read_to_string(&conf).map_err(|error| format!("{}: {error}", conf.display()))?;
    for (port, disk) in (first..).zip(&disks) {
        let mount = disk.mount().display();
        let _ = write!(
            text,
            "<ServerOptions>\n\tServer 127.0.0.1_tcp{port}\n\tDataStorageSpace {mount}/data\n\t\
             MetadataStorageSpace {mount}/metadata\n</ServerOptions>\n"
        );
    }
    write(&conf, &text)?;
    let start = |port| {
        let alias = format!("127.0.0.1_tcp{port}");
        let command = || {
            let mut command = Command::new("pvfs2-server");
            command.arg(&conf).args(["-a", &alias]);
            command
        };
        vpfs_e2e::run(command().arg("-f"));
        let mut server = Daemon::start(dir, &alias, command().arg("-d"));
        server.await_port(port);
        server
    };
    let servers = (first..first + SERVERS).map(start).collect();
    let addresses = (first..first + SERVERS).map(|port| format!("tcp://127.0.0.1:{port}")).collect();
    Ok(Site { kind: Kind::Orangefs, disks, addresses, dir: dir.to_owned(), _servers: servers })
}

/// What a disk does in a second.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Bytes.
    bytes: u64,
    /// Accesses.
    accesses: u64,
}

/// A mounted disk; it is gone when dropped.
#[derive(Debug)]
struct Disk {
    disk: vpfs_e2e::Disk,
    speed: Speed,
}

/// The root group of the block I/O controller: only its limits hold for the kernel's own threads.
const CONTROLLER: &str = "/sys/fs/cgroup/blkio";
/// More than a run writes; the file is sparse.
const SIZE: u64 = 24 << 30;

impl Disk {
    /// Makes one in `dir`.
    fn start(dir: &Path, name: &str, speed: Speed) -> Result<Self, String> {
        if !Path::new(CONTROLLER).join("blkio.throttle.write_bps_device").exists() {
            return Err(format!("{CONTROLLER} has no limits in its root group; this needs control groups v1 and root"));
        }
        let disk = Self { disk: vpfs_e2e::Disk::new(dir, name, SIZE, &["--direct-io=on"])?, speed };
        disk.limit(true)?;
        Ok(disk)
    }

    /// Where it is mounted.
    fn mount(&self) -> &Path {
        &self.disk.mount
    }

    /// Stores what the kernel still has in memory for it, without the limit, and gives the memory back.
    fn settle(&self) -> Result<(), String> {
        self.limit(false)?;
        self.sync()?;
        self.limit(true)
    }

    /// Stores what the kernel still has in memory for it, and gives the memory back.
    fn sync(&self) -> Result<(), String> {
        let synced = Command::new("sync").arg("--file-system").arg(self.mount()).status();
        if !synced.is_ok_and(|status| status.success()) {
            return Err(format!("{} cannot be synced", self.mount().display()));
        }
        fs::write("/proc/sys/vm/drop_caches", "1").map_err(|error| format!("drop_caches: {error}"))
    }

    /// Bytes that it has stored so far.
    fn stored(&self) -> u64 {
        const SECTOR: u64 = 512;
        let text = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.disk.number)).unwrap_or_default();
        text.split_whitespace().nth(6).and_then(|sectors| sectors.parse::<u64>().ok()).unwrap_or(0) * SECTOR
    }

    /// Limits it, or not.
    fn limit(&self, is_on: bool) -> Result<(), String> {
        for way in ["read", "write"] {
            for (what, most) in [("bps", self.speed.bytes), ("iops", self.speed.accesses)] {
                let file = format!("{CONTROLLER}/blkio.throttle.{way}_{what}_device");
                let line = format!("{} {}", self.disk.number, if is_on { most } else { 0 });
                fs::write(&file, line).map_err(|error| format!("{file}: {error}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Another disk may get the number.
        if let Err(error) = self.limit(false) {
            eprintln!("{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_cap_is_found_with_few_measurements() {
        for best in [40, 47, 61, 78, 99] {
            let mut tried = 0;
            let found = peak(CAPS, CAP_STEP, |percent| {
                tried += 1;
                Ok::<_, ()>(-f64::from(percent.abs_diff(best)))
            });
            assert!(found.is_ok_and(|found| found.abs_diff(best) <= CAP_STEP) && tried <= 7, "{found:?} {tried}");
        }
        assert_eq!(peak(CAPS, CAP_STEP, |_| Err("no disk")), Err("no disk"));
    }
}
