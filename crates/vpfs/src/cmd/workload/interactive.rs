//! `vpfs workload interactive`.

use std::time::Duration;

use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_model::plan::Interactive;
use vpfs_testbed::load::table;

use super::target::Target;
use super::{Job, call};
use crate::exit::Exit;

/// Small calls at random offsets with think time before each: the I/O of a database, a solver with look-ups, or
/// interactive users
///
/// Each process first fills its own file, which is not part of the result. Every read is verified.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs workload interactive --url tcp://127.0.0.1:5334/orangefs --read\n  \
    vpfs workload interactive --url tcp://127.0.0.1:5334/orangefs -n 16 -t 64KiB --file 1GiB --think 100ms --time 5min")]
pub(super) struct InteractiveArgs {
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

    /// Run for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    time: Duration,

    /// Read and verify instead of writing
    #[arg(short, long)]
    read: bool,

    #[command(flatten)]
    target: Target,
}

impl InteractiveArgs {
    pub(super) async fn run(&self) -> Result<(), Exit> {
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
