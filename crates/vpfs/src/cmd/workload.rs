//! `vpfs workload`: runs, verifies and measures the I/O of applications on a parallel file system.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_harl::{CsvLine, Op, Request};
use vpfs_sim::model::plan::{Amount, Btio, BtioClass, FileMode, Interactive, Ior, Md, Order, Phase, Plan, PlanError};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::measure::{Progress, Report, per_second};
use vpfs_testbed::load::run::{Connections, Run, RunError, RunHandle, RunOptions, SyncMode, Transfer};
use vpfs_testbed::load::table;
use vpfs_testbed::load::table::{Pair, kept, side_by_side};

use super::{group_id, user_id};
use crate::print::{Exit, print, roughly};
use crate::service::Stop;

/// Load a file system with the I/O of a known application, verify the data, and measure
///
/// Works with any server of OrangeFS or NFSv3: `vpfs serve`, real ones, or vpfs proxies in front of either. Exits with
/// 3 if data read back differs from what was written.
#[derive(clap::Args)]
pub(crate) struct Workload {
    #[command(subcommand)]
    kind: Box<Kind>,
}

#[derive(clap::Subcommand)]
enum Kind {
    Ior(IorArgs),
    Btio(BtioArgs),
    Md(MdArgs),
    Interactive(InteractiveArgs),
    Isolation(IsolationArgs),
}

impl Workload {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = super::runtime()?;
        runtime.block_on(async {
            match &*self.kind {
                Kind::Ior(args) => args.run().await,
                Kind::Btio(args) => args.run().await,
                Kind::Md(args) => args.run().await,
                Kind::Interactive(args) => args.run().await,
                Kind::Isolation(args) => args.run().await,
            }
        })
    }
}

/// A plan, where it runs, and the options for its output.
struct Job<'a, P> {
    name: &'static str,
    plan: P,
    target: &'a Target,
    keep: bool,
}

impl<P: Plan + Clone + serde::Serialize + 'static> Job<'_, P> {
    /// Runs all repetitions, prints them as formatted by `table`, writes JSON, and fails if data was wrong.
    async fn run(&self, table: impl Fn(&[Report]) -> String) -> Result<(), Exit> {
        self.plan.validate().map_err(|error| usage(&error))?;
        let mut options = self.target.options(self.name, self.keep, self.plan.processes())?;
        let tracer;
        (tracer, options.trace) = Tracer::start(self.target.trace.as_deref())?;
        if self.plan.phases().into_iter().any(|phase| self.plan.limit(phase).is_some()) {
            // SIGTERM ends it at once: a call may take for ever.
            let stop = Stop::on(&[SignalKind::interrupt()]);
            let stop = stop.map_err(|error| Exit::Failed(format!("cannot handle signals: {error}")))?;
            tokio::spawn(stop.set(Arc::clone(&options.stop)));
        }
        let mut reports = Vec::new();
        for repetition in 1..=self.target.repetitions {
            reports.push(self.once(options.clone(), repetition).await.map_err(|error| Exit::Failed(explain(&error)))?);
            if options.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        drop(options);
        if !self.target.json_on_stdout() {
            print(table(&reports).trim_end())?;
        }
        write_json(self, &reports)?;
        tracer.finish().await?;
        verdict(&reports)
    }

    async fn once(&self, options: RunOptions, repetition: u32) -> Result<Report, RunError> {
        let run = Application { plan: self.plan.clone(), options }.prepare().await?;
        let title = match self.target.repetitions {
            1 => self.name.to_owned(),
            all => format!("{} {repetition}/{all}", self.name),
        };
        let line = ProgressLine::start(self.target.quiet);
        let report = run_application(run, &title, &line).await;
        line.clear();
        report
    }
}

/// The bytes of one call.
fn call(option: &str, size: Bytes) -> Result<u32, Exit> {
    u32::try_from(size.0).map_err(|_| Exit::Usage(format!("--{option}: must be below 4GiB")))
}

/// An error in the style of clap.
fn usage(error: &PlanError) -> Exit {
    Exit::Usage(format!("--{}: {}", error.option, error.problem))
}

/// Advice for the user, where there is any.
fn explain(error: &RunError) -> String {
    let hint = match error {
        RunError::Call { call: "create" | "mkdir", source, .. } if source.is_already_exists() => {
            "\nleft by an earlier run? use --overwrite, or another --directory"
        }
        RunError::Call { call: "open", source, .. } if source.is_not_found() => {
            "\nreading without writing needs the files of a run with --keep and the same --directory, sizes and --seed"
        }
        RunError::Connect { source, .. } if source.connection() == Some(ErrorKind::AddrNotAvailable) => {
            "\n--bind and --large-bind take addresses that this host has (ip address)"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

// An application of an isolation experiment: alone, or beside another one.

/// A plan, with the target and identity of its run; ready to run as often as needed.
#[derive(Clone, Debug)]
pub(crate) struct Application<P> {
    pub(crate) plan: P,
    pub(crate) options: RunOptions,
}

impl<P: Plan + Clone + 'static> Application<P> {
    pub(crate) async fn prepare(&self) -> Result<Run, RunError> {
        Run::prepare(Arc::new(self.plan.clone()), self.options.clone()).await
    }

    pub(crate) async fn alone(&self, title: &str, line: &ProgressLine) -> Result<Report, RunError> {
        run_application(self.prepare().await?, title, line).await
    }

    /// The same at another server or proxy.
    pub(crate) fn at(&self, url: &str) -> Self {
        let mut other = self.clone();
        url.clone_into(&mut other.options.client.url);
        other
    }
}

/// Follows a run to its end.
pub(crate) async fn run_application(run: Run, title: &str, line: &ProgressLine) -> Result<Report, RunError> {
    let handle = run.handle();
    line.follow(run.execute(), || format!("{title}: {}", describe_progress(&handle))).await
}

/// Large transfers back to back, as IOR does: the I/O of checkpoints
///
/// Without --write and --read it does both. Every read is verified.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload ior --url tcp://127.0.0.1:5334/orangefs -n 16 -b 64MiB -t 8MiB\n  \
    vpfs workload ior --url tcp://127.0.0.1:5334/orangefs -n 16 --write --time 30s --bind 127.0.0.2\n  \
    vpfs workload ior --url tcp://127.0.0.1:5334/orangefs -n 8 --nodes 2 --reorder-tasks --random -t 64KiB\n  \
    vpfs workload ior --url 'nfs://10.0.0.1:12049/home?mountport=12048' -n 8 --uid 1000 --gid 1000")]
struct IorArgs {
    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4)]
    processes: u32,

    /// Bytes of one call, such as 64K or 1M (KiB and MiB), or 1MB (1000²)
    #[arg(short, long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    transfer: Bytes,

    /// Consecutive bytes of one process in one segment, such as 64K or 1M (KiB and MiB)
    #[arg(short, long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    block: Bytes,

    /// Number of blocks of each process
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    segments: u64,

    /// Write
    #[arg(short, long)]
    write: bool,

    /// Read and verify; without --write, the files of an earlier run with --keep
    #[arg(short, long)]
    read: bool,

    /// Access offsets in random order, each once
    #[arg(short = 'z', long)]
    random: bool,

    /// Use one file for each process instead of a shared one
    #[arg(short = 'F', long)]
    file_per_process: bool,

    /// Read what a process on the next node wrote
    #[arg(short = 'C', long)]
    reorder_tasks: bool,

    /// Request durability after writing (fsync)
    #[arg(short = 'e', long)]
    fsync: bool,

    /// Keep the files
    #[arg(short, long)]
    keep: bool,

    /// Run for this long or until Ctrl-C, starting over when all offsets are done, instead of moving each byte once
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,

    #[command(flatten)]
    target: Target,
}

impl IorArgs {
    async fn run(&self) -> Result<(), Exit> {
        let plan = self.plan()?;
        let job = Job { name: "ior", plan: plan.clone(), target: &self.target, keep: self.keep };
        job.run(|reports| with_latencies(&table::ior(&plan, reports), reports)).await
    }

    fn plan(&self) -> Result<Ior, Exit> {
        let both = !self.write && !self.read;
        Ok(Ior {
            processes: self.processes,
            transfer_bytes: call("transfer", self.transfer)?,
            block_bytes: self.block.0,
            segments: self.segments,
            file_mode: if self.file_per_process { FileMode::PerProcess } else { FileMode::Shared },
            order: if self.random { Order::Random } else { Order::Sequential },
            write: self.write || both,
            read: self.read || both,
            mixed: false,
            start_offset_bytes: 0,
            barrier: false,
            read_shift: if self.reorder_tasks { self.processes.div_ceil(self.target.nodes) } else { 0 },
            fsync: self.fsync,
            keep: self.keep,
            time_limit: self.time,
            seed: self.target.seed,
        })
    }
}

/// Bursts of I/O with computation between them, as BTIO does: the I/O of a simulation
///
/// Writes in bursts, then reads everything back in bursts and verifies it. The classes are those of vPFS+, scaled down
/// to about a minute. The paper's own runs take many minutes: --iterations 40 --think-write 6s --think-read 1s, and
/// --total 400MB for class a (2.5 million calls), 6817MB for class c.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload btio --url tcp://127.0.0.1:5334/orangefs\n  \
    vpfs workload btio --url tcp://127.0.0.1:5334/orangefs -n 8 --iterations 5 --total 1MB --think-write 1s\n  \
    vpfs workload btio --url tcp://127.0.0.1:5334/orangefs --class c --nodes 4 --total 2GB")]
struct BtioArgs {
    /// a: tiny calls by every process (simple subtype); c: large calls by one process on each node (full subtype)
    #[arg(long, value_enum, default_value_t = Class::A)]
    class: Class,

    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 64)]
    processes: u32,

    /// Bursts in each phase
    #[arg(long, value_name = "N", default_value_t = 10)]
    iterations: u32,

    /// Bytes of all bursts together, rounded down to equal bursts [default: 4MB for class a, 600MB for c]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    total: Option<Bytes>,

    /// Bytes of one call; for class c also a range of random sizes [default: 320B for class a, 4MiB..16MiB for c]
    #[arg(short, long, value_name = "SIZE[..SIZE]", value_parser = parse_range)]
    transfer: Option<(u32, u32)>,

    /// Computation after each burst of writes
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    think_write: Duration,

    /// Verification after each burst of reads
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    think_read: Duration,

    /// Only write
    #[arg(long)]
    no_read: bool,

    /// Keep the file
    #[arg(short, long)]
    keep: bool,

    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, ValueEnum)]
enum Class {
    A,
    C,
}

impl Class {
    /// A hundredth of the paper's data in tiny calls, or a tenth of it in large ones: about ten seconds for each phase
    /// on four disks, besides the computation.
    fn about_a_minute(self) -> u64 {
        match self {
            Self::A => 4_000_000,
            Self::C => 600_000_000,
        }
    }
}

impl BtioArgs {
    async fn run(&self) -> Result<(), Exit> {
        let job = Job { name: "btio", plan: self.plan(), target: &self.target, keep: self.keep };
        job.run(|reports| with_latencies(&table::btio(reports), reports)).await
    }

    fn plan(&self) -> Btio {
        let class = Btio::class(match self.class {
            Class::A => BtioClass::A,
            Class::C => BtioClass::C,
        });
        let (transfer_min_bytes, transfer_max_bytes) =
            self.transfer.unwrap_or((class.transfer_min_bytes, class.transfer_max_bytes));
        Btio {
            processes: self.processes,
            nodes: self.target.nodes,
            iterations: self.iterations,
            total_bytes: self.total.map_or(self.class.about_a_minute(), |total| total.0),
            transfer_min_bytes,
            transfer_max_bytes,
            think_write: self.think_write,
            think_read: self.think_read,
            read: !self.no_read,
            keep: self.keep,
            seed: self.target.seed,
            ..class
        }
    }
}

/// One size, or two with ".." between them.
fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let size = |text: &str| {
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        u32::try_from(bytes.0).map_err(|_| format!("{text} is too large for one call"))
    };
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    Ok((size(min)?, size(max)?))
}

/// Metadata operations back to back, one kind after the other, as multi-md-test and mdtest do
///
/// The phases: mkdir, create, stat, utime, readdir, unlink, rmdir.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    vpfs workload md --url tcp://127.0.0.1:5334/orangefs -n 8 --items 1000 --repetitions 3")]
struct MdArgs {
    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4)]
    processes: u32,

    /// Number of directories, and of files, that each process creates and removes; in between it reads and sets the
    /// files' attributes
    #[arg(long, value_name = "N", default_value_t = 100)]
    items: u32,

    /// Number of times that each process lists its whole directory
    #[arg(long, value_name = "N", default_value_t = 10)]
    listings: u32,

    /// Let all processes work in one directory instead of one each
    #[arg(long)]
    shared_directory: bool,

    #[command(flatten)]
    target: Target,
}

impl MdArgs {
    async fn run(&self) -> Result<(), Exit> {
        let plan = Md {
            processes: self.processes,
            items: self.items,
            listings: self.listings,
            shared_directory: self.shared_directory,
            data: None,
        };
        if self.target.trace.is_some() {
            return Err(Exit::Usage("--trace: this workload moves no data".to_owned()));
        }
        Job { name: "md", plan, target: &self.target, keep: false }
            .run(|reports| with_latencies(&table::md(reports), reports))
            .await
    }
}

/// Small calls at random offsets with think time before each: the I/O of a database, a solver with look-ups, or
/// interactive users
///
/// Each process first fills its own file, which is not part of the result. Every read is verified.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload interactive --url tcp://127.0.0.1:5334/orangefs --read\n  \
    vpfs workload interactive --url tcp://127.0.0.1:5334/orangefs -n 16 -t 64KiB --file 1GiB --think 100ms --time 5min")]
struct InteractiveArgs {
    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4)]
    processes: u32,

    /// Bytes of one call, such as 64K or 1M (KiB and MiB), or 1MB (1000²)
    #[arg(short, long, value_name = "SIZE", default_value = "4KiB", value_parser = parse_size)]
    transfer: Bytes,

    /// Bytes of each process's file
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    file: Bytes,

    /// Mean think time before each call, drawn between half and one and a half times this
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = parse_duration)]
    think: Duration,

    /// Run for this long, or until Ctrl-C
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    time: Duration,

    /// Read and verify instead of writing
    #[arg(short, long)]
    read: bool,

    #[command(flatten)]
    target: Target,
}

impl InteractiveArgs {
    async fn run(&self) -> Result<(), Exit> {
        let job = Job { name: "interactive", plan: self.plan()?, target: &self.target, keep: false };
        job.run(table::interactive).await
    }

    fn plan(&self) -> Result<Interactive, Exit> {
        Ok(Interactive {
            processes: self.processes,
            transfer_bytes: call("transfer", self.transfer)?,
            file_bytes: self.file.0,
            think: self.think,
            time: self.time,
            read: self.read,
            fills: true,
            seed: self.target.seed,
        })
    }
}

/// Transfers that wait for the disk; more of them hold the workload up.
const WAITING_MAX: usize = 4096;

/// A file of requests in CSV. A request is on disk, or at least with the system, soon after it is added.
pub(crate) struct TraceFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// What went wrong first; nothing is written after that.
    failed: Option<std::io::Error>,
}

impl TraceFile {
    /// Replaces an existing file.
    pub(crate) fn create(path: &Path) -> Result<Self, Exit> {
        let file = File::create(path).map_err(|error| Exit::cannot_write(path, &error))?;
        let mut trace = Self { path: path.to_owned(), out: BufWriter::new(file), failed: None };
        trace.line(CsvLine::Header);
        Ok(trace)
    }

    pub(crate) fn add(&mut self, request: &Request, file: &str) {
        self.line(CsvLine::Request(request, file));
    }

    fn line(&mut self, line: CsvLine<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }

    /// Fails if anything could not be written.
    pub(crate) fn finish(mut self) -> Result<(), Exit> {
        let flushed = self.out.flush();
        self.failed.map_or(flushed, Err).map_err(|error| Exit::cannot_write(&self.path, &error))
    }
}

/// Writes what runs report, beside them.
struct Tracer {
    writer: Option<JoinHandle<Result<(), Exit>>>,
}

impl Tracer {
    /// A tracer, and what runs report to.
    fn start(path: Option<&Path>) -> Result<(Self, Option<mpsc::Sender<Transfer>>), Exit> {
        let Some(path) = path else { return Ok((Self { writer: None }, None)) };
        let mut file = TraceFile::create(path)?;
        let (sender, mut receiver) = mpsc::channel::<Transfer>(WAITING_MAX);
        let begin = Instant::now();
        let writer = spawn_blocking(move || {
            while let Some(transfer) = receiver.blocking_recv() {
                file.add(&request(&transfer, begin), &transfer.path);
            }
            file.finish()
        });
        Ok((Self { writer: Some(writer) }, Some(sender)))
    }

    /// Waits until all is written; every sender must be gone.
    async fn finish(self) -> Result<(), Exit> {
        match self.writer {
            Some(writer) => writer.await.unwrap_or_else(|error| Err(Exit::Failed(format!("the trace: {error}")))),
            None => Ok(()),
        }
    }
}

fn request(transfer: &Transfer, begin: Instant) -> Request {
    let nanoseconds = |at: Instant| u64::try_from(at.duration_since(begin).as_nanos()).unwrap_or(u64::MAX);
    Request {
        rank: transfer.process,
        op: if transfer.is_write { Op::Write } else { Op::Read },
        offset: transfer.extent.offset,
        size: transfer.extent.bytes.into(),
        start: nanoseconds(transfer.began),
        end: nanoseconds(transfer.done),
    }
}

// Whether a proxy can tell two loads apart: it knows applications by listener, address and user.

/// The address that a connection comes from, and where it ends.
type Ends = (IpAddr, SocketAddr);

/// What may keep a proxy from telling both loads apart.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doubt {
    /// Nothing tells them apart: the warning.
    Same(String),
    /// Only their users do, which counts by the proxy's configuration: how to make it count.
    Users(String),
}

/// A doubt if some connections of both loads come from the same address to the same listener.
///
/// By default a proxy makes an application of each client host, so both loads are one and nothing protects one of them
/// from the other. With NFS, and by `apps.auto`, users may be told apart; a client cannot know whether they are.
fn doubt(small: &BTreeSet<Ends>, large: &BTreeSet<Ends>, users: [u32; 2]) -> Option<Doubt> {
    let &(address, listener) = small.intersection(large).next()?;
    if users[0] != users[1] {
        return Some(Doubt::Users(format!(
            "both loads connect from {address} to {listener} and differ by their users, {} and {}: two applications \
             with auto = \"uid\" in [apps], as `vpfs init --nfs` writes, or an [[app]] for each; `vpfs top` shows them",
            users[0], users[1]
        )));
    }
    Some(Doubt::Same(warning(address, listener)))
}

fn warning(address: IpAddr, listener: SocketAddr) -> String {
    let mut text = format!(
        "warning: both loads connect from {address} to {listener}, so a proxy there takes them for one application and \
         does\n  not protect one from the other. \"kept\" will say nothing about vpfs. Run it again with"
    );
    let addresses = if address.is_loopback() {
        "--bind 127.0.0.2 --large-bind 127.0.0.3"
    } else {
        "--bind ADDRESS --large-bind ANOTHER"
    };
    let ways = [
        (addresses, "two addresses of this host, which are two applications by default, or"),
        ("--large-url tcp://HOST:PORT/NAME", "a second listener: [[listener]] with a port and app = \"...\", or"),
        ("--large-uid 1001", "another user, if vpfs.toml has apps.auto = \"uid\" or [[app]] with uids."),
    ];
    for (option, meaning) in ways {
        let _ = write!(text, "\n    {option:<40} {meaning}");
    }
    text + "\n  (Without proxies there is nothing to tell apart, and this measures what there is to gain.)"
}

/// Measure how much of its speed a small application keeps next to a large one, and vice versa
///
/// Runs small calls with think time alone, large calls alone, then both at once. A proxy must be able to tell both
/// apart: by default, each client address is an application, so give each load an address of its own, or a listener.
/// With the address of a server instead of a proxy, it measures what there is to gain.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload isolation --url tcp://127.0.0.1:5334/orangefs --bind 127.0.0.2 --large-bind 127.0.0.3\n    \
    a proxy on this host, as `vpfs init` configures it: two addresses are two applications\n  \
    vpfs workload isolation --url tcp://oss1:5334/orangefs --bind 10.0.1.7 --large-bind 10.0.1.8\n    \
    from a host with two addresses (`ip address add 10.0.1.8/24 dev eth0` adds one)\n  \
    vpfs workload isolation --url tcp://oss1:5334/orangefs --large-url tcp://oss1:5434/orangefs\n    \
    two listeners, each with app = \"...\" in vpfs.toml")]
struct IsolationArgs {
    /// Where the large application connects [default: same as the small one]
    #[arg(long, value_name = "URL", help_heading = "Target")]
    large_url: Option<String>,

    /// Local addresses that the large application connects from [default: those of --bind]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Target")]
    large_bind: Vec<IpAddr>,

    /// User in every credential of the large application [default: that of --uid]
    #[arg(long, value_name = "UID", value_parser = user_id, help_heading = "Target")]
    large_uid: Option<u32>,

    /// Processes of the small application; each has one call in flight
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4)]
    processes: u32,

    /// Bytes of one call of the small application
    #[arg(short, long, value_name = "SIZE", default_value = "8KiB", value_parser = parse_size)]
    transfer: Bytes,

    /// Bytes of the file of each process of the small application
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    file: Bytes,

    /// Mean think time of the small application before each call, drawn between half and one and a half times this
    #[arg(long, value_name = "TIME", default_value = "2ms", value_parser = parse_duration)]
    think: Duration,

    /// Let the small application read and verify instead of writing
    #[arg(short, long)]
    read: bool,

    /// Processes of the large application, each with its own file
    #[arg(long, value_name = "N", default_value_t = 12)]
    large_processes: u32,

    /// Bytes of one call of the large application
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_size)]
    large_transfer: Bytes,

    /// Bytes of the file of each process of the large application, written (or read) repeatedly
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = parse_size)]
    large_file: Bytes,

    /// Let the large application read and verify instead of writing; its files are written before the first run
    #[arg(long)]
    large_read: bool,

    /// Length of the measurement in each of the three runs
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    time: Duration,

    #[command(flatten)]
    target: Target,
}

const WATCH_EVERY: Duration = Duration::from_millis(20);

impl IsolationArgs {
    async fn run(&self) -> Result<(), Exit> {
        if self.target.repetitions != 1 {
            return Err(Exit::Usage(
                "--repetitions: three runs form one measurement; run the command again instead".to_owned(),
            ));
        }
        let (mut small, mut large) = (self.small()?, self.large()?);
        let (tracer, trace) = Tracer::start(self.target.trace.as_deref())?;
        (small.options.trace, large.options.trace) = (trace.clone(), trace);
        let line = ProgressLine::start(self.target.quiet);
        let reports = measure(&small, &large, &line).await;
        line.clear();
        (small.options.trace, large.options.trace) = (None, None);
        let ([small_alone, large_alone, small_beside, large_beside], warning) =
            reports.map_err(|error| Exit::Failed(explain(&error)))?;
        let pair = |alone, beside| Pair { alone, beside };
        let pairs = [pair(&small_alone, &small_beside), pair(&large_alone, &large_beside)];
        if !self.target.json_on_stdout() {
            print(side_by_side(pairs[0], pairs[1]).trim_end())?;
            if warning.is_some() {
                print("(Both loads were one application to a proxy: see the warning above.)")?;
            }
        }
        if let Some(path) = &self.target.json {
            let document = json!({
                "workload": "isolation",
                "url": small.options.client.url,
                "large_url": large.options.client.url,
                "parameters": { "small": small.plan, "large": large.plan },
                "warning": warning,
                "kept": kept(pairs[0], pairs[1]),
                "alone": { "small": small_alone, "large": large_alone },
                "beside": { "small": small_beside, "large": large_beside },
            });
            write_output(path, &document)?;
        }
        tracer.finish().await?;
        verdict([&small_alone, &large_alone, &small_beside, &large_beside])
    }

    fn small(&self) -> Result<Application<Interactive>, Exit> {
        let plan = Interactive {
            processes: self.processes,
            transfer_bytes: call("transfer", self.transfer)?,
            file_bytes: self.file.0,
            think: self.think,
            time: self.time,
            read: self.read,
            fills: true,
            seed: self.target.seed,
        };
        plan.validate().map_err(|error| usage(&error))?;
        let options = self.target.options("isolation", false, plan.processes)?;
        Ok(Application { plan, options })
    }

    fn large(&self) -> Result<Application<Ior>, Exit> {
        let transfer = call("large-transfer", self.large_transfer)?;
        let plan = Ior {
            write: !self.large_read,
            read: self.large_read,
            time_limit: Some(self.time),
            seed: self.target.seed,
            ..Ior::writes(self.large_processes, transfer, self.large_file.0)
        };
        plan.validate().map_err(|error| match error.option {
            "block" => Exit::Usage("--large-file: must be a multiple of --large-transfer".to_owned()),
            option => Exit::Usage(format!("--large-{option}: {}", error.problem)),
        })?;
        let mut options = self.target.options("isolation", false, plan.processes)?;
        // Next to the small application's directory.
        options.directory = match options.directory.trim_end_matches('/') {
            "" => "/isolation-large".to_owned(),
            directory => format!("{directory}-large"),
        };
        options.client.url = self.large_url.clone().unwrap_or(options.client.url);
        options.client.uid = self.large_uid.unwrap_or(options.client.uid);
        if !self.large_bind.is_empty() {
            options.local_addresses.clone_from(&self.large_bind);
        }
        Ok(Application { plan, options })
    }
}

impl Application<Ior> {
    /// The same, but its files stay.
    fn keeping(&self) -> Self {
        Self { plan: Ior { keep: true, ..self.plan.clone() }, options: self.options.clone() }
    }

    /// Writes the files that are to be read.
    async fn fill(&self, line: &ProgressLine) -> Result<(), RunError> {
        let Self { plan, options } = self.keeping();
        let plan = Ior { write: true, read: false, time_limit: None, ..plan };
        let options = RunOptions { trace: None, ..options };
        Self { plan, options }.alone("files of the large one", line).await.map(drop)
    }
}

/// The small application alone, the large one alone, and both at once; and a warning if they cannot be told apart.
async fn measure(
    small: &Application<Interactive>,
    large: &Application<Ior>,
    line: &ProgressLine,
) -> Result<([Report; 4], Option<String>), RunError> {
    // The last run of the large one: it made the directory, so it removes that.
    let other = large.prepare().await?;
    let first = small.prepare().await?;
    let users = [small.options.client.uid, large.options.client.uid];
    let warning = match doubt(&first.ends(), &other.ends(), users) {
        Some(Doubt::Same(warning)) => {
            eprintln!("vpfs: {warning}");
            Some(warning)
        }
        Some(Doubt::Users(note)) => {
            eprintln!("vpfs: {note}");
            None
        }
        None => None,
    };
    let small_alone = run_application(first, "small alone (run 1 of 3)", line).await?;
    let large_title = "large alone (run 2 of 3)";
    let large_alone = if large.plan.read {
        large.fill(line).await?;
        large.keeping().alone(large_title, line).await?
    } else {
        large.alone(large_title, line).await?
    };
    let beside = small.prepare().await?;
    let handles = [beside.handle(), other.handle()];
    let measured = handles[0].clone();
    // The small application's files are filled first, so that both measure nearly the same period.
    let both = async {
        tokio::try_join!(beside.execute(), async {
            begin_of_calls(&measured).await;
            other.execute().await
        })
    };
    let describe = || {
        let [small, large] = handles.each_ref().map(describe_progress);
        format!("both (run 3 of 3), small: {small}; large: {large}")
    };
    let (small_beside, large_beside) = line.follow(both, describe).await?;
    Ok(([small_alone, large_alone, small_beside, large_beside], warning))
}

async fn begin_of_calls(small: &RunHandle) {
    let is_preparing = |phase| matches!(phase, None | Some(Phase::Create | Phase::Setup));
    while is_preparing(small.progress().map(|progress| progress.phase)) {
        sleep(WATCH_EVERY).await;
    }
}

#[derive(clap::Args)]
struct Target {
    /// Any one server or proxy of the file system, tcp://HOST:PORT/NAME; or nfs://HOST:PORT/EXPORT?mountport=PORT,
    /// where the ports can be left out if they are 2049 and 20048
    #[arg(long, value_name = "URL", help_heading = "Target")]
    url: String,

    /// User in every credential, by number or name
    #[arg(long, value_name = "UID", default_value = "0", value_parser = user_id, help_heading = "Target")]
    uid: u32,

    /// Groups in every credential, the primary one first
    #[arg(long = "gid", value_name = "GID,...", value_delimiter = ',', default_value = "0", value_parser = group_id, help_heading = "Target")]
    gids: Vec<u32>,

    /// Host name in every credential
    #[arg(long, value_name = "NAME", default_value = "vpfs", help_heading = "Target")]
    host_name: String,

    /// Local addresses to connect from, assigned to nodes in turn, e.g. 127.0.0.2,127.0.0.3, so that nodes look like
    /// different hosts [default: chosen by the system]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Target")]
    bind: Vec<IpAddr>,

    /// Number of client hosts that the processes are spread over, in blocks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Target")]
    nodes: u32,

    /// Which processes share connections
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = SharedBy::Node, help_heading = "Target")]
    connection_per: SharedBy,

    /// Directory of the run: created if it does not exist, and then also removed [default: / and the workload's name]
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    directory: Option<String>,

    /// Strip size of new files on OrangeFS; several: of each server, in the order of the file system's configuration,
    /// 0B for none
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "64KiB", value_parser = parse_size, help_heading = "Target")]
    strip: Vec<Bytes>,

    /// Number of servers that each new file is striped over, if all have equal strips [default: all]
    #[arg(long, value_name = "N", help_heading = "Target")]
    datafiles: Option<u32>,

    /// Replace an existing file instead of failing
    #[arg(long, help_heading = "Target")]
    overwrite: bool,

    /// Attempts after the first one, with OrangeFS [default: from the servers' configuration]
    #[arg(long, value_name = "N", help_heading = "Target")]
    retries: Option<u32>,

    /// How long to wait for a reply [default: from the servers' configuration; 5min with NFS]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Target")]
    reply_timeout: Option<Duration>,

    /// Number of times to run everything
    #[arg(short = 'i', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Run")]
    repetitions: u32,

    /// Seed of file contents, random order and random sizes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    seed: u64,

    /// Interval of the timeline in the JSON file, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval, help_heading = "Run")]
    interval: Duration,

    /// Write parameters and all measurements to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    json: Option<PathBuf>,

    /// Write each transfer to this file, a CSV log for `vpfs layout advise`; those that prepare files are left out
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    trace: Option<PathBuf>,

    /// Show no progress on standard error
    #[arg(short, long, help_heading = "Run")]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SharedBy {
    /// All processes of a node share one connection to each server, as on a host with a client module
    Node,
    /// Each process has its own connections, as with a user-space library
    Process,
}

impl Target {
    /// Target options of the workload `name` with `processes` processes.
    fn options(&self, name: &str, keep: bool, processes: u32) -> Result<RunOptions, Exit> {
        if self.nodes > processes {
            return Err(Exit::Usage(format!("--nodes: more nodes than processes ({processes})")));
        }
        for (option, is_given) in [("datafiles", self.datafiles.is_some()), ("retries", self.retries.is_some())] {
            if is_given && self.url.starts_with("nfs://") {
                return Err(Exit::Usage(format!("--{option}: is for OrangeFS only; leave it out with nfs://")));
            }
        }
        let directory = self.directory.clone().unwrap_or_else(|| format!("/{name}"));
        if !directory.starts_with('/') {
            return Err(Exit::Usage(format!("--directory: {directory:?} is not absolute; write \"/{directory}\"")));
        }
        Ok(RunOptions {
            client: self.client(),
            local_addresses: self.bind.clone(),
            nodes: self.nodes,
            connections: match self.connection_per {
                SharedBy::Node => Connections::PerNode,
                SharedBy::Process => Connections::PerProcess,
            },
            directory,
            create: self.create()?,
            overwrite: self.overwrite,
            keep,
            sync: SyncMode::Stable,
            seed: self.seed,
            interval: self.interval,
            trace: None,
            stop: Arc::default(),
        })
    }

    fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn client(&self) -> ClientOptions {
        ClientOptions {
            uid: self.uid,
            gids: self.gids.clone(),
            host_name: self.host_name.clone(),
            retry_limit: self.retries,
            reply_timeout: self.reply_timeout,
            ..ClientOptions::new(self.url.clone())
        }
    }

    fn create(&self) -> Result<CreateOptions, Exit> {
        match (self.strip.as_slice(), self.datafiles) {
            ([strip], None) => Ok(CreateOptions::simple_stripe(strip.0)),
            ([strip], Some(count)) => Ok(CreateOptions::simple_stripe(strip.0).datafiles(count)),
            (strips, None) => variable_strips(strips.iter().copied().enumerate()),
            (_, Some(_)) => Err(Exit::Usage("--datafiles: --strip says already which servers hold data".to_owned())),
        }
    }
}

/// Strips of these sizes on servers, none where it is zero.
pub(crate) fn variable_strips(strips: impl IntoIterator<Item = (usize, Bytes)>) -> Result<CreateOptions, Exit> {
    let (servers, sizes): (Vec<usize>, Vec<u64>) =
        strips.into_iter().filter(|(_, strip)| strip.0 > 0).map(|(server, strip)| (server, strip.0)).unzip();
    if servers.is_empty() {
        return Err(Exit::Usage("--strip: no server has a strip; give at least one a size".to_owned()));
    }
    let strips: Vec<String> = sizes.iter().enumerate().map(|(index, size)| format!("{index}:{size}")).collect();
    Ok(CreateOptions::variable_strips(strips.join(";")).on_servers(servers))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < Duration::from_millis(10) { Err("must be at least 10ms".to_owned()) } else { Ok(interval) }
}

/// Shows one line of text after the other.
pub(crate) enum ProgressLine {
    Quiet,
    /// Redraws one line.
    Terminal(ProgressBar),
    /// Prints a line from time to time; holds the time of the last one.
    Plain(Mutex<Option<Instant>>),
}

const REDRAW: Duration = Duration::from_millis(200);

const PLAIN_LINE: Duration = Duration::from_secs(5);

impl ProgressLine {
    pub(crate) fn start(quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        let bar = ProgressBar::new_spinner();
        if bar.is_hidden() {
            return Self::Plain(Mutex::new(Some(Instant::now())));
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is constant and valid"));
        Self::Terminal(bar)
    }

    /// Shows a text until the next one; in plain mode prints it even if the last line was very recent.
    pub(crate) fn announce(&self, text: impl Into<String>) {
        if let Self::Plain(last) = self {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.show(|| text.into());
    }

    /// Shows progress; in plain mode at most every few seconds.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => {
                bar.set_message(text());
                bar.tick();
            }
            Self::Plain(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_none_or(|last| last.elapsed() >= PLAIN_LINE) {
                    eprintln!("{}", text());
                    *last = Some(Instant::now());
                }
            }
        }
    }

    /// Prints a text that stays, whatever is shown next.
    pub(crate) fn tell(&self, text: &str) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => bar.println(text),
            Self::Plain(_) => eprintln!("{text}"),
        }
    }

    pub(crate) fn clear(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }

    /// Waits for `work` and shows the text of `describe` meanwhile.
    pub(crate) async fn follow<T>(&self, work: impl Future<Output = T>, describe: impl Fn() -> String) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(REDRAW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = ticks.tick() => self.show(&describe),
            }
        }
    }
}

/// One line about a run: its phase, how much of that is done, rates in it, and the time that it still takes.
fn describe_progress(run: &RunHandle) -> String {
    let (plan, Some(progress)) = (run.plan(), run.progress()) else { return "connected".to_owned() };
    let phases = plan.phases();
    let number = phases.iter().position(|phase| *phase == progress.phase).map_or(0, |index| index + 1);
    let limit = plan.limit(progress.phase).map(|limit| limit.time);
    let text = of_phase(&progress, plan.amount(progress.phase), limit);
    format!("{} (phase {number} of {}): {text}", progress.phase, phases.len())
}

fn of_phase(progress: &Progress, amount: Option<Amount>, limit: Option<Duration>) -> String {
    let &Progress { operations, bytes, elapsed, .. } = progress;
    let (mut text, done) = match amount {
        Some(Amount::Bytes(all)) => (format!("{} of {}", decimal(bytes as f64), decimal(all as f64)), (bytes, all)),
        Some(Amount::Calls(all)) => (format!("{operations} of {all} calls"), (operations, all)),
        None => (format!("{operations} calls"), (0, 0)),
    };
    let seconds = elapsed.as_secs_f64();
    text += &format!(", {:.1} calls/s", per_second(operations, seconds));
    if bytes > 0 {
        text += &format!(", {}/s", decimal(per_second(bytes, seconds)));
    }
    // It may be done before the limit, and the limit may come before it is done.
    match limit.map(|limit| limit.saturating_sub(elapsed)).into_iter().chain(still_takes(elapsed, done)).min() {
        Some(Duration::ZERO) => text,
        Some(left) => text + &format!(", {} left", roughly(left)),
        None => text,
    }
}

/// Bytes in the largest unit that fits.
fn decimal(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} KB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

/// As much time for the rest as for what is done.
fn still_takes(elapsed: Duration, (done, all): (u64, u64)) -> Option<Duration> {
    let part = (done > 0).then(|| all.saturating_sub(done) as f64 / done as f64)?;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * part).ok()
}

fn with_latencies(table: &str, reports: &[Report]) -> String {
    let latencies = reports.last().map(table::latency).unwrap_or_default();
    format!("{table}\n{latencies}")
}

/// Parameters and all measurements, if a file for them was given.
fn write_json<P: Plan + serde::Serialize>(job: &Job<'_, P>, reports: &[Report]) -> Result<(), Exit> {
    let Some(path) = &job.target.json else { return Ok(()) };
    let summary: Vec<_> =
        [Phase::Write, Phase::Read].into_iter().filter_map(|phase| table::summarize(reports, phase)).collect();
    let document = json!({
        "workload": job.name,
        "url": job.target.url,
        "parameters": job.plan,
        "summary": summary,
        "repetitions": reports,
    });
    write_output(path, &document)
}

/// Writes a document to a file, or to standard output if the path is "-".
pub(crate) fn write_output(path: &Path, document: &Value) -> Result<(), Exit> {
    if path == Path::new("-") {
        return print(format_args!("{document:#}"));
    }
    write_text(path, &format!("{document:#}\n"))
}

pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Exit> {
    fs::write(path, text).map_err(|error| Exit::cannot_write(path, &error))
}

/// Fails now if what a long run finds could not be written to this file then; leaves it as it is.
pub(crate) fn check_output(path: &Path) -> Result<(), Exit> {
    if path == Path::new("-") {
        return Ok(());
    }
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path).map_err(|error| Exit::cannot_write(path, &error))?;
    if is_new { fs::remove_file(path).map_err(|error| Exit::cannot_write(path, &error)) } else { Ok(()) }
}

/// Fails if data read back differs from what was written, and reports where.
pub(crate) fn verdict<'a>(reports: impl IntoIterator<Item = &'a Report, IntoIter: Clone>) -> Result<(), Exit> {
    let reports = reports.into_iter();
    let wrong: u64 = reports.clone().map(|report| report.verification.wrong_reads).sum();
    if wrong == 0 {
        return Ok(());
    }
    let examples = reports.flat_map(|report| &report.verification.examples);
    let lines: Vec<String> = examples.map(|example| format!("  {example}")).collect();
    Err(Exit::Corrupt(format!("{wrong} reads returned wrong data; the first ones:\n{}", lines.join("\n"))))
}

#[cfg(test)]
mod tests {
    use vpfs_sim::model::plan::Phase;

    use super::*;

    fn ends(address: &str, ports: [u16; 2]) -> BTreeSet<Ends> {
        ports.map(|port| (address.parse().unwrap(), SocketAddr::from(([127, 0, 0, 1], port)))).into()
    }

    /// `vpfs workload isolation` had an example with one listener and one address: both loads were one application,
    /// the small one kept 0.01 of its speed, and nothing said why.
    #[test]
    fn loads_of_one_address_at_one_listener_are_one_application() {
        let small = ends("127.0.0.1", [5334, 5335]);
        let warning = |small: &BTreeSet<Ends>, large: &BTreeSet<Ends>| match doubt(small, large, [1000, 1000])? {
            Doubt::Same(text) => Some(text),
            Doubt::Users(text) => panic!("{text}"),
        };
        let text = warning(&small, &small).unwrap();
        assert!(text.contains("from 127.0.0.1 to 127.0.0.1:5334"), "{text}");
        assert!(text.contains("--bind 127.0.0.2 --large-bind 127.0.0.3"), "{text}");
        assert!(warning(&small, &ends("127.0.0.1", [5335, 5336])).is_some(), "one server in common");
        let far = ends("10.0.0.7", [5334, 5335]);
        let text = warning(&far, &far).unwrap();
        assert!(!text.contains("127.0.0.2"), "{text}");
        assert_eq!(warning(&small, &ends("127.0.0.2", [5334, 5335])), None);
        assert_eq!(warning(&small, &ends("127.0.0.1", [5434, 5435])), None);
    }

    /// With what `vpfs init --nfs` writes, loads of two users were said to be one application; `vpfs top` showed two.
    #[test]
    fn loads_of_two_users_may_be_two_applications() {
        let ends = ends("127.0.0.1", [2050, 2050]);
        let Some(Doubt::Users(text)) = doubt(&ends, &ends, [1000, 1001]) else { panic!("it is not certain") };
        assert!(text.contains("1000 and 1001") && text.contains("auto = \"uid\""), "{text}");
    }

    #[test]
    fn strips_of_each_server() {
        let strips = |sizes: &[u64]| variable_strips(sizes.iter().copied().map(Bytes::kib).enumerate());
        let some = CreateOptions::variable_strips("0:65536;1:1048576").on_servers(vec![0, 2]);
        assert_eq!(strips(&[64, 0, 1024]).ok(), Some(some));
        let Err(Exit::Usage(problem)) = strips(&[0, 0]) else { panic!("no strips at all") };
        assert!(problem.contains("at least one"), "{problem}");
    }

    #[test]
    fn a_line_says_how_much_is_done_how_fast_and_how_long_the_rest_takes() {
        let elapsed = Duration::from_secs(10);
        let write = Progress { phase: Phase::Write, operations: 2000, bytes: 1_000_000, elapsed };
        let texts = [
            of_phase(&write, Some(Amount::Bytes(4_000_000)), None),
            of_phase(&write, None, Some(Duration::from_secs(600))),
            of_phase(&Progress { operations: 5, bytes: 0, ..write }, Some(Amount::Calls(20)), None),
            of_phase(&Progress { operations: 0, bytes: 0, ..write }, Some(Amount::Bytes(1 << 20)), None),
            of_phase(&Progress { bytes: 320, ..write }, Some(Amount::Bytes(10_240)), Some(Duration::from_secs(20))),
            of_phase(&write, Some(Amount::Bytes(4_000_000)), Some(Duration::from_secs(3600))),
        ];
        let expected = [
            "1.0 MB of 4.0 MB, 200.0 calls/s, 100.0 KB/s, 30 s left",
            "2000 calls, 200.0 calls/s, 100.0 KB/s, 10 min left",
            "5 of 20 calls, 0.5 calls/s, 30 s left",
            "0 B of 1.0 MB, 0.0 calls/s",
            "320 B of 10.2 KB, 200.0 calls/s, 32 B/s, 10 s left",
            "1.0 MB of 4.0 MB, 200.0 calls/s, 100.0 KB/s, 30 s left",
        ];
        assert_eq!(texts, expected);
    }
}
