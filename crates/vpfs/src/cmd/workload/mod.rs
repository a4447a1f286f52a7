//! `vpfs workload`: runs, verifies and measures the I/O of applications on a parallel file system.

mod isolation;
pub(crate) mod target;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::ValueEnum;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_harl::{CsvLine, Op, Request};
use vpfs_sim::model::plan::{Btio, BtioClass, FileMode, Interactive, Ior, Md, Order, Plan, PlanError};
use vpfs_testbed::load::measure::Report;
use vpfs_testbed::load::run::{Run, RunError, RunOptions, Transfer};
use vpfs_testbed::load::table;

use crate::exit::Exit;
use crate::print::print;
use crate::signals::Stop;
pub(crate) use target::variable_strips;
use target::{ProgressLine, Target, describe_progress};

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
    Isolation(isolation::IsolationArgs),
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
    /// The subcommand.
    name: &'static str,
    plan: P,
    target: &'a Target,
    /// Whether files are kept.
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
        target::write_json(self, &reports)?;
        tracer.finish().await?;
        target::verdict(&reports)
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
    /// Connects.
    pub(crate) async fn prepare(&self) -> Result<Run, RunError> {
        Run::prepare(Arc::new(self.plan.clone()), self.options.clone()).await
    }

    /// Runs it, with its progress.
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
        job.run(|reports| target::with_latencies(&table::ior(&plan, reports), reports)).await
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
        job.run(|reports| target::with_latencies(&table::btio(reports), reports)).await
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
            .run(|reports| target::with_latencies(&table::md(reports), reports))
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
    /// None if no trace is wanted.
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

#[cfg(test)]
mod tests {
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
}
