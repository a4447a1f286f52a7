//! `vpfs workload md`.

use vpfs_model::plan::Md;
use vpfs_testbed::load::table;

use super::target::Target;
use super::{Job, output};
use crate::exit::Exit;

/// Metadata operations back to back, one kind after the other, as multi-md-test and mdtest do
///
/// The phases: mkdir, create, stat, utime, readdir, unlink, rmdir.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    vpfs workload md --url tcp://127.0.0.1:5334/orangefs -n 8 --items 1000 --repetitions 3")]
pub(super) struct MdArgs {
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
    pub(super) async fn run(&self) -> Result<(), Exit> {
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
            .run(|reports| output::with_latencies(&table::md(reports), reports))
            .await
    }
}
