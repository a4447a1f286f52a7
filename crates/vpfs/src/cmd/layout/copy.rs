//! `vpfs layout copy`: an existing file in a new layout.

use std::path::PathBuf;

use vpfs_config::units::Size;
use vpfs_core::Bytes;
use vpfs_relayout::{Options, Progress, Relayout, RelayoutError, Summary};

use crate::cmd::workload::progress::ProgressLine;
use crate::exit::Exit;
use crate::print::print;

/// Copy a file into a new layout, verify the copy, and let it take its name
///
/// The layout is that of new files in TARGET's directory, or of the empty file TARGET with --fill. The new file gets
/// its name only after both files were read again and found equal. If the command is stopped in any way, the same
/// command goes on where it ended. Owner, mode, times and extended attributes are kept, and holes stay holes.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs layout copy data.h5 /scratch/new-layout/            into a directory that has the layout\n  \
    vpfs layout copy data.h5 /scratch/new-layout/ --replace  and the new file becomes data.h5\n  \
    lfs setstripe -E 1G -S 1M -E eof -S 4M new.h5 && vpfs layout copy data.h5 new.h5 --fill")]
pub(crate) struct CopyArgs {
    /// The file
    source: PathBuf,

    /// The new file, or a directory in which it gets SOURCE's name
    target: PathBuf,

    /// At the end the new file takes SOURCE's name, in one step, and the old file is deleted
    #[arg(long)]
    replace: bool,

    /// TARGET is an empty file that was created with the layout
    #[arg(long)]
    fill: bool,

    /// Forget an earlier copy that did not end, and copy anew
    #[arg(long)]
    restart: bool,

    /// Write zeros where SOURCE has holes, for file systems that do not count holes (OrangeFS with varstrip_dist)
    #[arg(long)]
    fill_holes: bool,

    /// Go on if the file system refuses owner, mode, times or extended attributes
    #[arg(long)]
    allow_loss: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

impl CopyArgs {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let options = Options {
            replace: self.replace,
            fill: self.fill,
            restart: self.restart,
            fill_holes: self.fill_holes,
            allow_loss: self.allow_loss,
            ..Options::default()
        };
        let line = ProgressLine::start(self.quiet);
        let copied = Relayout::open(&self.source, &self.target, options)
            .and_then(|copy| copy.run(|progress| line.show(|| describe(progress))));
        line.clear();
        let summary = copied.map_err(exit)?;
        summary.warnings.iter().for_each(|warning| eprintln!("vpfs: warning: {warning}"));
        print(conclusion(&summary))
    }
}

fn describe(Progress { verifying, done, all }: Progress) -> String {
    let percent = (u128::from(done) * 100).checked_div(u128::from(all)).unwrap_or(100);
    let action = if verifying { "comparing" } else { "copying" };
    format!("{action}: {percent} % of {}", Size(Bytes(all)))
}

fn conclusion(summary: &Summary) -> String {
    format!("{}: {} bytes, verified, sha256 {}", summary.destination.display(), summary.size, summary.sha256)
}

fn exit(error: RelayoutError) -> Exit {
    match error {
        RelayoutError::Differs { .. } | RelayoutError::NotConfirmed(_) => Exit::Corrupt(error.to_string()),
        error => Exit::Failed(error.to_string()),
    }
}
