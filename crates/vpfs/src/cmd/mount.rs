//! `vpfs mount`: the overlay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use vpfs_admin::events::Events;
use vpfs_config::{LogFormat, LogLevel};
use vpfs_overlay::{MountError, Mounted, Options, Recorder, Writer, prepare_process};

use super::regions::Regions;
use super::shares::{self, Shares};
use super::systemd;
use crate::exit::Exit;
use crate::log::{self, LogSwitch};
use crate::print::now;
use crate::signals::Stop;

/// Show a directory under another path: with regions of files in several directories, traces, and shares
///
/// Programs use MOUNTPOINT as they would use SOURCE. As root it serves all users, each with their own rights; otherwise
/// only the user who runs it, without regions. Runs until SIGTERM, SIGINT or `umount`; files that are open then
/// still work, and a second signal ends it at once. What a killed one left at MOUNTPOINT is taken away.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs mount /mnt/pfs /scratch                            the same files under another path\n  \
    vpfs mount /mnt/pfs /scratch --trace /var/tmp/traces    and a log for `vpfs layout advise`\n  \
    vpfs mount /mnt/pfs /scratch --regions regions.toml     new files get advised regions\n  \
    vpfs mount /mnt/pfs /scratch --config vpfs.toml         programs get their shares")]
pub(crate) struct Mount {
    /// The directory to show
    source: PathBuf,

    /// Where to show it: an existing directory outside of SOURCE, or SOURCE itself
    mountpoint: PathBuf,

    /// Where regions of files lie, and which new files get them; see docs/guide/layouts.md
    #[arg(long, value_name = "FILE")]
    regions: Option<PathBuf>,

    /// Record all reads and writes in a new file in this directory
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,

    /// Let requests take turns as this file says, which has a mount:// server for each host; see docs/config.md. SIGHUP
    /// reads it again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Which of its servers this mount is, by name [default: the only one, or the one with the name of this host]
    #[arg(long, value_name = "NAME", requires = "config")]
    server: Option<String>,
}

impl Mount {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        prepare_process().map_err(|error| Exit::Failed(format!("cannot drop capabilities: {error}")))?;
        let regions = self.regions.as_deref().map(Regions::read).transpose()?;
        let config = self.config.as_deref().map(|path| shares::load(path, self.server.as_deref())).transpose()?;
        let events = Events::default();
        let (level, is_json) = config
            .as_ref()
            .map_or((LogLevel::Info, false), |(config, _)| (config.log.level, config.log.format == LogFormat::Json));
        let log = log::start(level, is_json, &events)?;
        let (recorder, writer) = self.trace.as_deref().map(record).transpose()?.unzip();
        let (classes, rules) = regions.map_or_else(Default::default, |regions| (regions.classes, regions.rules));
        super::runtime()?.block_on(async {
            let mut shares = match config {
                Some((config, server)) => Some(Shares::start(config, server, &events).await?),
                None => None,
            };
            let turns = shares.as_ref().map(Shares::turns);
            let served = self.serve(Options { classes, rules, recorder, turns }, &mut shares, &log).await;
            if let Some(shares) = shares {
                shares.end().await;
            }
            served
        })?;
        writer.map_or(Ok(()), Writer::finish).map_err(|error| Exit::Failed(format!("cannot write the trace: {error}")))
    }

    async fn serve(&self, options: Options, shares: &mut Option<Shares>, log: &LogSwitch) -> Result<(), Exit> {
        let failed = |error: std::io::Error| Exit::Failed(error.to_string());
        let mut stop = Stop::new().map_err(failed)?;
        let ended = Arc::new(Notify::new());
        let tell = Arc::clone(&ended);
        let mounted = Mounted::new(&self.source, &self.mountpoint, options, move || tell.notify_one());
        let mut mounted = mounted.map_err(|error| match error {
            MountError::Io { .. } | MountError::NoProc(_) => Exit::Failed(error.to_string()),
            _ => Exit::Usage(error.to_string()),
        })?;
        let what = format!("{} at {}", self.source.display(), self.mountpoint.display());
        tracing::info!("showing {what}");
        systemd::ready(&what, false);
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        loop {
            tokio::select! {
                () = stop.asked() => break,
                () = ended.notified() => return mounted.end().map_err(failed),
                _ = hangup.recv() => if let Some((shares, path)) = shares.as_mut().zip(self.config.as_deref()) {
                    shares.reload(path, log).await;
                },
            }
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
