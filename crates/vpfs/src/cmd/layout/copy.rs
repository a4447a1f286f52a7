//! `vpfs layout copy`: an existing file in a new layout.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vpfs_config::units::Size;
use vpfs_core::Bytes;
use vpfs_relayout::{Options, OrangefsRelayout, Progress, Relayout, RelayoutError, Summary};
use vpfs_testbed::{Client, ClientOptions};

use super::strips::Strip;

use crate::cmd::workload::progress::ProgressLine;
use crate::exit::Exit;
use crate::print::print;

/// Rewrite a file with a new layout: copy it, verify the copy, and rename it
///
/// The layout is that of new files in TARGET's directory, that of the empty file TARGET with --fill, or on OrangeFS
/// without a mounted client (--url) that of --strip. The new file gets its name only after both files were read again
/// and found equal. If the command is interrupted, run it again: it resumes. Owner, mode, times and extended attributes
/// are kept, and holes stay holes (with --url, neither of the latter two).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs layout copy data.h5 /scratch/new-layout/            into a directory that has the layout\n  \
    vpfs layout copy data.h5 /scratch/new-layout/ --replace  and the new file becomes data.h5\n  \
    lfs setstripe -E 1G -S 1M -E eof -S 4M new.h5 && vpfs layout copy data.h5 new.h5 --fill\n  \
    vpfs layout copy /data.h5 /data.h5 --replace \\\n      \
        --url tcp://oss1:3334/orangefs --strip 36KiB,36KiB,148KiB,148KiB")]
pub(crate) struct CopyArgs {
    /// The file
    source: PathBuf,

    /// The new file, or a directory in which it gets SOURCE's name
    target: PathBuf,

    /// At the end, replace SOURCE by the new file in one step
    #[arg(long)]
    replace: bool,

    /// TARGET is an empty file that was created with the layout
    #[arg(long)]
    fill: bool,

    /// Discard an unfinished copy and start again
    #[arg(long)]
    restart: bool,

    /// Write zeros where SOURCE has holes, for file systems that do not count holes (OrangeFS with varstrip_dist)
    #[arg(long)]
    fill_holes: bool,

    /// Go on if the file system refuses owner, mode, times or extended attributes
    #[arg(long)]
    allow_loss: bool,

    /// Copy in this OrangeFS file system, without a mounted client, as the user who runs this command:
    /// tcp://HOST:PORT/NAME of any one server. SOURCE and TARGET are absolute paths in it. Nobody else may write to
    /// SOURCE meanwhile
    #[arg(long, value_name = "URL", requires = "strip", conflicts_with_all = ["fill", "fill_holes"])]
    url: Option<String>,

    /// The new file's strip on each server, in the order of the servers' configuration or with their addresses
    /// (tcp://oss1:3334=36KiB,...), 0B for none; or one for all
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', requires = "url")]
    strip: Vec<Strip>,

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
        let show = |progress| line.show(|| describe(progress));
        let copied = match &self.url {
            Some(url) => crate::cmd::runtime()?.block_on(self.in_orangefs(url, options, show)),
            None => Relayout::open(&self.source, &self.target, options).and_then(|copy| copy.run(show)).map_err(exit),
        };
        line.clear();
        let summary = copied?;
        summary.warnings.iter().for_each(|warning| eprintln!("vpfs: warning: {warning}"));
        print(conclusion(&summary))
    }

    async fn in_orangefs(&self, url: &str, options: Options, show: impl FnMut(Progress)) -> Result<Summary, Exit> {
        let (uid, gid) = user();
        let client = Client::connect(ClientOptions { uid, gids: vec![gid], ..ClientOptions::new(url) }).await;
        let client = client.map_err(|error| Exit::Failed(error.to_string()))?;
        let layout = Strip::layout(&self.strip, client.fs_config())?;
        let (source, target) = (absolute(&self.source)?, absolute(&self.target)?);
        let copy = OrangefsRelayout::open(client, source, target, layout, options).await.map_err(exit)?;
        copy.run(show).await.map_err(exit)
    }
}

/// A path in a file system that is not mounted.
fn absolute(path: &Path) -> Result<&str, Exit> {
    path.to_str().filter(|path| path.starts_with('/')).ok_or_else(|| {
        Exit::Usage(format!("with --url, {} must be an absolute path in that file system, in UTF-8", path.display()))
    })
}

/// The user and group that run this command.
fn user() -> (u32, u32) {
    std::fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()))
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
