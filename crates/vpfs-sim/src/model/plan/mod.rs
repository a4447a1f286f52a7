//! Workloads as data: phases, and for each process in a phase a sequence of steps.
//!
//! Plans are pure. Equal parameters and seed give equal steps, so a run can be repeated and its generators tested
//! without a file system; `vpfs-testbed` executes them and `vpfs-sim` simulates them.

mod btio;
mod ior;
mod md;
mod shared_file;
mod timed;
mod wrf;

use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use std::{fmt, iter};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

pub use btio::{Btio, BtioClass, Subtype};
pub use ior::{FileMode, Ior, Order};
pub use md::{Md, MdData};
pub use shared_file::{MpiTileIo, Noncontig, PioBench, PioPattern};
pub use timed::{Interactive, Pace, Paced, Replay};
pub use wrf::Wrf;

/// A directory of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dir {
    /// The run's own directory; the runner creates it.
    Base,
    /// A directory in it.
    Sub(u32),
    /// A directory in a directory in it.
    Nested(u32, u32),
}

/// A file of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Its directory.
    pub dir: Dir,
    /// Its number within the directory.
    pub number: u32,
}

/// The path in the run's directory.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dir {
            Dir::Base => {}
            Dir::Sub(a) => write!(f, "dir.{a}/")?,
            Dir::Nested(a, b) => write!(f, "dir.{a}/dir.{b}/")?,
        }
        write!(f, "file.{}", self.number)
    }
}

/// Consecutive bytes of a file, moved by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least one.
    pub bytes: u32,
}

/// One call to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates a directory, which must not exist.
    MakeDir(Dir),
    /// Removes an empty directory.
    RemoveDir(Dir),
    /// Reads all entries of a directory.
    ListDir(Dir),
    /// Creates a file, which must not exist, and opens it.
    Create(FileId),
    /// Looks a file up and opens it.
    Open(FileId),
    /// Looks a file up and reads its attributes.
    Stat(FileId),
    /// Looks a file up and sets its times.
    SetTimes(FileId),
    /// Removes a file.
    Remove(FileId),
    /// Writes the pattern's bytes to an open file.
    Write(Extent),
    /// Reads from an open file and verifies the data.
    Read(Extent),
    /// Writes the pattern's bytes to blocks of an open file: list I/O. A client without such a call writes the blocks
    /// one after the other.
    WriteStrided(Strided),
    /// Reads blocks of an open file and verifies the data: list I/O, or one block after the other.
    ReadStrided(Strided),
    /// Asks the servers to make an open file durable.
    Sync(FileId),
}

impl Call {
    /// The name of the system call or command that does the same.
    pub fn name(self) -> &'static str {
        match self {
            Self::MakeDir(_) => "mkdir",
            Self::RemoveDir(_) => "rmdir",
            Self::ListDir(_) => "readdir",
            Self::Create(_) => "create",
            Self::Open(_) => "open",
            Self::Stat(_) => "stat",
            Self::SetTimes(_) => "utime",
            Self::Remove(_) => "unlink",
            Self::Write(_) => "write",
            Self::Read(_) => "read",
            Self::WriteStrided(_) => "writev",
            Self::ReadStrided(_) => "readv",
            Self::Sync(_) => "fsync",
        }
    }

    /// The contiguous extents that the call moves; none for a metadata call.
    pub fn extents(self) -> impl Iterator<Item = Extent> + Send {
        let (one, many) = match self {
            Self::Write(extent) | Self::Read(extent) => (Some(extent), None),
            Self::WriteStrided(strided) | Self::ReadStrided(strided) => (None, Some(strided)),
            _ => (None, None),
        };
        one.into_iter().chain(many.into_iter().flat_map(Strided::extents))
    }
}

/// One step of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// I/O, measured; each process has one call outstanding.
    Call(Call),
    /// Computation: the process does nothing for this long.
    Think(Duration),
    /// The process does nothing until this long after it started the phase; no wait if that time has passed.
    Until(Duration),
    /// Waits until all processes have arrived. Not allowed in a phase with a time limit.
    Barrier,
}

/// The steps of one process in one phase.
pub type Steps = Box<dyn Iterator<Item = Step> + Send>;

/// A part of a run between two barriers, with one kind of operation and its own measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Creates the files that the measured phases need.
    Setup,
    /// Directory creation.
    MakeDir,
    /// File creation.
    Create,
    /// File opening.
    Open,
    /// Data written.
    Write,
    /// Files made durable.
    Sync,
    /// Data read and verified.
    Read,
    /// Reads, writes and metadata of an application, as they come.
    Mixed,
    /// Attributes read.
    Stat,
    /// Times of files set.
    SetTimes,
    /// Directories listed.
    ListDir,
    /// Files removed.
    Remove,
    /// Directories removed.
    RemoveDir,
    /// Removes what [`Phase::Setup`] created.
    Cleanup,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Setup => "setup",
            Self::MakeDir => "mkdir",
            Self::Create => "create",
            Self::Open => "open",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Read => "read",
            Self::Mixed => "mixed",
            Self::Stat => "stat",
            Self::SetTimes => "utime",
            Self::ListDir => "readdir",
            Self::Remove => "unlink",
            Self::RemoveDir => "rmdir",
            Self::Cleanup => "cleanup",
        })
    }
}

/// A generator of steps.
pub trait Plan: fmt::Debug + Send + Sync {
    /// Checks the parameters against each other.
    fn validate(&self) -> Result<(), PlanError> {
        Ok(())
    }

    /// Number of processes, at least one.
    fn processes(&self) -> u32;

    /// Phases in order; each occurs once.
    fn phases(&self) -> Vec<Phase>;

    /// The steps of `process` in `phase`. Equal arguments give equal steps.
    fn steps(&self, phase: Phase, process: u32) -> Steps;

    /// When a process ends `phase` early; `None`: it continues until its steps are used up.
    fn limit(&self, _phase: Phase) -> Option<Limit> {
        None
    }

    /// What all processes together do in `phase`; `None` if a limit ends it, or if that is not known beforehand.
    fn amount(&self, _phase: Phase) -> Option<Amount> {
        None
    }
}

/// How much is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many calls.
    Calls(u64),
    /// So many bytes to move.
    Bytes(u64),
}

/// A process starts no new step once `time` is over and it has done `at_least_steps` in this phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Counted from the start of the phase in this process.
    pub time: Duration,
    /// Steps that are done even after the time is over.
    pub at_least_steps: u64,
}

/// Invalid parameters of a workload; the message names the option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {problem}")]
pub struct PlanError {
    /// The command-line option without dashes.
    pub option: &'static str,
    /// What is wrong with it, and which values are valid.
    pub problem: String,
}

impl PlanError {
    fn new(option: &'static str, problem: impl Into<String>) -> Self {
        Self { option, problem: problem.into() }
    }
}

fn refuse_if(invalid: bool, option: &'static str, problem: &str) -> Result<(), PlanError> {
    if invalid { Err(PlanError::new(option, problem)) } else { Ok(()) }
}

/// Each process is a task, and a run keeps some state for each of them.
const MAX_PROCESSES: u32 = 1 << 16;

fn check_processes(processes: u32) -> Result<(), PlanError> {
    if (1..=MAX_PROCESSES).contains(&processes) {
        return Ok(());
    }
    Err(PlanError::new("processes", format!("must be at least 1 and at most {MAX_PROCESSES}")))
}

/// Calls, and a barrier after each of them if wanted.
fn in_step(each: impl Iterator<Item = Call> + Send + 'static, barrier: bool) -> Steps {
    if barrier { Box::new(each.flat_map(|call| [Step::Call(call), Step::Barrier])) } else { calls(each) }
}

/// The calls of all processes in a phase.
#[cfg(test)]
fn all_calls(plan: &dyn Plan, phase: Phase) -> Vec<Call> {
    let steps = (0..plan.processes()).flat_map(|process| plan.steps(phase, process));
    steps.filter_map(|step| if let Step::Call(call) = step { Some(call) } else { None }).collect()
}

fn calls(calls: impl Iterator<Item = Call> + Send + 'static) -> Steps {
    Box::new(calls.map(Step::Call))
}

/// Equal blocks at equal distances in a file, moved by one call: list I/O [IOCO §5.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The file.
    pub file: FileId,
    /// First byte of the first block.
    pub offset: u64,
    /// Bytes of each block, at least one.
    pub block_bytes: u32,
    /// From the start of one block to the start of the next, at least `block_bytes`.
    pub stride_bytes: u64,
    /// Number of blocks, at least one.
    pub blocks: u32,
}

impl Strided {
    /// The blocks, by offset.
    pub fn extents(self) -> impl Iterator<Item = Extent> + Send {
        let Self { file, offset, block_bytes, stride_bytes, blocks } = self;
        let block = move |index| Extent { file, offset: offset + u64::from(index) * stride_bytes, bytes: block_bytes };
        (0..blocks).map(block)
    }

    /// Total bytes of all blocks.
    pub fn bytes(self) -> u64 {
        u64::from(self.block_bytes) * u64::from(self.blocks)
    }
}

/// Cuts `range` of a file into pieces of sizes chosen by `seed`; the last one takes the remaining bytes.
fn pieces(
    file: FileId,
    range: Range<u64>,
    sizes: RangeInclusive<u32>,
    seed: u64,
) -> impl Iterator<Item = Extent> + Send + use<> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let Range { start: mut offset, end } = range;
    iter::from_fn(move || {
        let left = u32::try_from(end - offset).unwrap_or(u32::MAX);
        let piece = (left > 0).then(|| random.random_range(sizes.clone()).min(left));
        let extent = piece.map(|bytes| Extent { file, offset, bytes });
        offset += u64::from(piece.unwrap_or(0));
        extent
    })
}

/// The node of `process`. Nodes are filled in blocks, as MPI launchers do by default; the first nodes take one more if
/// there is a remainder.
pub fn node_of_process(process: u32, nodes: u32, processes: u32) -> u32 {
    let share = u64::from(process) * u64::from(nodes) / u64::from(processes);
    u32::try_from(share).expect("below the number of nodes")
}

/// The first process of `node`.
pub fn first_process_of_node(node: u32, nodes: u32, processes: u32) -> u32 {
    let first = (u64::from(node) * u64::from(processes)).div_ceil(u64::from(nodes));
    u32::try_from(first).expect("at most the number of processes")
}

/// Durations in JSON are seconds.
fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

fn optional_seconds<S: serde::Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ior() -> Ior {
        Ior { segments: 2, file_mode: FileMode::Shared, read: true, ..Ior::writes(3, 10, 40) }
    }

    fn md(processes: u32, items: u32, shared_directory: bool, data: Option<MdData>) -> Md {
        Md { processes, items, listings: 2, shared_directory, data }
    }

    fn interactive() -> Interactive {
        Interactive {
            processes: 3,
            transfer_bytes: 4096,
            file_bytes: (5 << 20) + 1000,
            think: Duration::from_millis(20),
            time: Duration::from_secs(60),
            read: true,
            fills: true,
            seed: 1,
        }
    }

    /// What [`Plan::amount`] says is what the steps of all processes come to.
    #[test]
    fn what_is_to_be_done_is_known() {
        let short = |class| Btio { iterations: 3, total_bytes: 64 << 20, ..Btio::class(class) };
        let shared = Ior { mixed: true, fsync: true, ..ior() };
        let data = Some(MdData { bytes: 250, transfer_bytes: 100 });
        let plans: [&dyn Plan; 9] = [
            &short(BtioClass::A),
            &short(BtioClass::C),
            &shared,
            &Ior { file_mode: FileMode::PerProcess, ..shared.clone() },
            &md(3, 4, false, None),
            &md(3, 4, true, None),
            &md(3, 4, false, data),
            &md(3, 4, true, data),
            &interactive(),
        ];
        for plan in plans {
            // Which processes open a file of IOR's is not counted, and what a time ends is not known.
            let is_known = |phase: &Phase| *phase != Phase::Open && plan.limit(*phase).is_none();
            for phase in plan.phases().into_iter().filter(is_known) {
                let calls = all_calls(plan, phase);
                let bytes = calls.iter().flat_map(|call| call.extents()).map(|extent| u64::from(extent.bytes)).sum();
                let counted = if bytes > 0 { Amount::Bytes(bytes) } else { Amount::Calls(calls.len() as u64) };
                assert_eq!(plan.amount(phase), Some(counted), "{plan:?}, {phase}");
            }
        }
    }

    #[test]
    fn refusals_name_the_option() {
        let refused = |option, plan: &dyn Plan| {
            assert_eq!(plan.validate().map_err(|error| error.option), Err(option), "{plan:?}");
        };
        refused("processes", &Ior { processes: 0, ..ior() });
        refused("processes", &Ior { processes: (1 << 16) + 1, ..ior() });
        refused("block", &Ior { block_bytes: 45, ..ior() });
        refused("block", &Ior { block_bytes: 40 << 60, ..ior() });
        refused("write", &Ior { write: false, read: false, ..ior() });
        refused("start-offset", &Ior { start_offset_bytes: i64::MAX as u64, ..ior() });
        refused("barrier", &Ior { barrier: true, time_limit: Some(Duration::from_secs(1)), ..ior() });

        let class_a = || Btio::class(BtioClass::A);
        refused("nodes", &Btio { nodes: 65, ..class_a() });
        refused("transfer", &Btio { transfer_max_bytes: 400, ..class_a() });
        refused("processes", &Btio { processes: 0, ..class_a() });
        refused("processes", &Btio { processes: (1 << 16) + 1, ..class_a() });
        refused("total", &Btio { total_bytes: 1 << 63, ..class_a() });
        refused("total", &Btio { total_bytes: 1000, ..class_a() });

        refused("items", &md(1 << 16, 1 << 20, true, None));
        refused("processes", &md(0, 1000, true, None));
        refused("processes", &md((1 << 16) + 1, 1, true, None));
        refused("transfer", &md(64, 1, false, Some(MdData { bytes: 1, transfer_bytes: 0 })));

        refused("processes", &Wrf { processes: 0, ..Wrf::PAPER });
        refused("minutes", &Wrf { forecast_minutes: 0, ..Wrf::PAPER });
        refused("minutes", &Wrf { forecast_minutes: u32::MAX, ..Wrf::PAPER });
        refused("transfer", &Wrf { transfer_min_bytes: 1 << 20, ..Wrf::PAPER });
        refused("restart", &Wrf { restart_bytes: 1 << 63, ..Wrf::PAPER });

        refused("processes", &PioBench::paper(0));
        refused("request", &PioBench { request_bytes: 0, ..PioBench::paper(2) });
        refused("requests", &PioBench { requests: 0, ..PioBench::paper(2) });
        refused("requests", &PioBench { requests: u64::MAX, ..PioBench::paper(2) });
        refused("write", &PioBench { write: false, read: false, ..PioBench::paper(2) });

        refused("tiles", &MpiTileIo::paper(1 << 16, 1 << 16));
        refused("processes", &MpiTileIo::paper(0, 4));
        refused("nodes", &MpiTileIo { nodes: 9, ..MpiTileIo::paper(2, 4) });
        refused("rows", &MpiTileIo { row_bytes: 0, ..MpiTileIo::paper(2, 4) });
        refused("rows", &MpiTileIo { row_bytes: 1 << 30, ..MpiTileIo::paper(2, 4) });
        refused("requests", &MpiTileIo { requests: u64::MAX, ..MpiTileIo::paper(2, 4) });

        refused("processes", &Noncontig::paper(0));
        refused("blocks", &Noncontig { blocks: 0, ..Noncontig::paper(2) });
        refused("block", &Noncontig { block_bytes: 0, ..Noncontig::paper(2) });
        refused("requests", &Noncontig { requests: u64::MAX, ..Noncontig::paper(2) });

        refused("processes", &Interactive { processes: 0, ..interactive() });
        refused("transfer", &Interactive { transfer_bytes: 0, ..interactive() });
        refused("file", &Interactive { file_bytes: 4095, ..interactive() });
        refused("file", &Interactive { file_bytes: u64::MAX, ..interactive() });
        refused("think", &Interactive { think: Duration::MAX, ..interactive() });
        refused("time", &Interactive { time: Duration::ZERO, ..interactive() });

        let time = Duration::from_secs(120);
        let pace = |pace| Paced { processes: 32, transfer_bytes: 256 << 10, pace, time, read: false };
        let steady = Pace::Ramp { from: 1, to: 1 };
        refused("rate", &pace(Pace::Ramp { from: 0, to: 5 }));
        refused("on", &pace(Pace::OnOff { rate: 1, on: Duration::ZERO, off: time }));
        refused("time", &Paced { time: Duration::ZERO, ..pace(steady) });
        refused("transfer", &Paced { transfer_bytes: 0, ..pace(steady) });

        let most = Interactive { time: Duration::MAX, ..interactive() };
        let fine: [&dyn Plan; 4] = [&ior(), &md(1 << 16, 1000, true, None), &most, &Wrf::PAPER];
        for plan in fine {
            assert_eq!(plan.validate(), Ok(()), "{plan:?}");
        }
    }

    #[test]
    fn every_node_begins_where_the_one_before_it_ends() {
        for processes in 1..20 {
            for nodes in 1..=processes {
                let placed: Vec<u32> =
                    (0..processes).map(|process| node_of_process(process, nodes, processes)).collect();
                assert!(placed.is_sorted());
                for node in 0..nodes {
                    let first = placed.iter().position(|&n| n == node).unwrap();
                    assert_eq!(first, first_process_of_node(node, nodes, processes) as usize);
                }
            }
        }
    }
}
