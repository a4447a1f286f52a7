//! `vpfs workload btio`.

use std::time::Duration;

use clap::ValueEnum;
use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_model::plan::{Btio, BtioClass};
use vpfs_testbed::load::table;

use super::target::Target;
use super::{Job, output};
use crate::exit::Exit;

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
pub(super) struct BtioArgs {
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
    pub(super) async fn run(&self) -> Result<(), Exit> {
        let job = Job { name: "btio", plan: self.plan(), target: &self.target, keep: self.keep };
        job.run(|reports| output::with_latencies(&table::btio(reports), reports)).await
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
