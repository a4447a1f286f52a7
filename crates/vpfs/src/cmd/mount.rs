//! `vpfs mount`: the overlay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Notify;
use vpfs_admin::events::Events;
use vpfs_config::LogLevel;
use vpfs_overlay::{MountError, Mounted, Options, Recorder, Writer};

use super::regions::Regions;
use super::systemd;
use crate::exit::Exit;
use crate::log;
use crate::print::now;
use crate::signals::Stop;

/// Show a directory under another path: with regions of files in several directories, and traces
///
/// Programs use MOUNTPOINT as they would use SOURCE. As root it serves all users, each with their own rights; otherwise
/// only the user who runs it, without regions. Runs until SIGTERM, SIGINT or `umount`; files that are open then
/// still work, and a second signal ends it at once. What a killed one left at MOUNTPOINT is taken away.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs mount /mnt/pfs /scratch                            the same files under another path\n  \
    vpfs mount /mnt/pfs /scratch --trace /var/tmp/traces    and a log for `vpfs layout advise`\n  \
    vpfs mount /mnt/pfs /scratch --regions regions.toml     new files get advised regions")]
pub(crate) struct Mount {
    /// The directory to show
    source: PathBuf,

    /// Where to show it: an existing directory outside of SOURCE, or SOURCE itself
    mountpoint: PathBuf,

    /// Where regions of files lie, and which new files get them; see docs/guide/mount.md
    #[arg(long, value_name = "FILE")]
    regions: Option<PathBuf>,

    /// Record all reads and writes in a new file in this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
}

impl Mount {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let regions = self.regions.as_deref().map(Regions::read).transpose()?;
        let _log = log::start(LogLevel::Info, false, &Events::default())?;
        let (recorder, writer) = self.trace.as_deref().map(record).transpose()?.unzip();
        let (classes, rules) = regions.map_or_else(Default::default, |regions| (regions.classes, regions.rules));
        let options = Options { classes, rules, recorder };
        super::runtime()?.block_on(self.serve(options))?;
        writer.map_or(Ok(()), Writer::finish).map_err(|error| Exit::Failed(format!("cannot write the trace: {error}")))
    }

    async fn serve(&self, options: Options) -> Result<(), Exit> {
        let failed = |error: std::io::Error| Exit::Failed(error.to_string());
        let mut stop = Stop::new().map_err(failed)?;
        let ended = Arc::new(Notify::new());
        let tell = Arc::clone(&ended);
        let mounted = Mounted::new(&self.source, &self.mountpoint, options, move || tell.notify_one());
        let mut mounted = mounted.map_err(|error| match error {
            MountError::Io { .. } => Exit::Failed(error.to_string()),
            _ => Exit::Usage(error.to_string()),
        })?;
        let what = format!("{} at {}", self.source.display(), self.mountpoint.display());
        tracing::info!("showing {what}");
        systemd::ready(&what, false);
        tokio::select! {
            () = stop.asked() => {}
            () = ended.notified() => return mounted.end().map_err(failed),
        }
        systemd::stopping();
        tracing::info!("unmounting; files that are open still work until they are closed");
        mounted.unmount().map_err(failed)?;
        tokio::select! {
            () = stop.asked() => Err(Exit::Failed("ended before all files were closed".to_owned())),
            () = ended.notified() => mounted.end().map_err(failed),
        }
    }
}

fn record(directory: &Path) -> Result<(Recorder, Writer), Exit> {
    let path = directory.join(format!("trace-{}-{}.csv", now(), std::process::id()));
    Recorder::create(&path).map_err(|error| Exit::Failed(format!("cannot create {}: {error}", path.display())))
}
