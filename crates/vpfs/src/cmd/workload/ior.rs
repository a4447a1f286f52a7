//! `vpfs workload ior`.

use std::time::Duration;

use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_model::plan::{FileMode, Ior, Order};
use vpfs_testbed::load::table;

use super::target::Target;
use super::{Job, call, output};
use crate::exit::Exit;

/// Large transfers back to back, as IOR does: the I/O of checkpoints
///
/// Without --write and --read it does both. Every read is verified.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload ior --url tcp://127.0.0.1:5334/orangefs -n 16 -b 64MiB -t 8MiB\n  \
    vpfs workload ior --url tcp://127.0.0.1:5334/orangefs -n 16 --write --time 30s --bind 127.0.0.2\n  \
    vpfs workload ior --url tcp://127.0.0.1:5334/orangefs -n 8 --nodes 2 --reorder-tasks --random -t 64KiB\n  \
    vpfs workload ior --url 'nfs://10.0.0.1:12049/home?mountport=12048' -n 8 --uid 1000 --gid 1000")]
pub(super) struct IorArgs {
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

    /// Run for this long, starting over when all offsets are done, instead of moving each byte once
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,

    #[command(flatten)]
    target: Target,
}

impl IorArgs {
    pub(super) async fn run(&self) -> Result<(), Exit> {
        let plan = self.plan()?;
        let job = Job { name: "ior", plan: plan.clone(), target: &self.target, keep: self.keep };
        job.run(|reports| output::with_latencies(&table::ior(&plan, reports), reports)).await
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
