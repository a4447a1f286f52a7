//! SIGUSR2: the installed program is started again and takes over every connection.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use vpfs_proxy::{Daemon, Inheritance, Offer};

use super::systemd;
use crate::exit::Exit;
use crate::signals::Stop;

/// The argument by which a successor knows that it is one.
const TAKE_OVER: &str = "--take-over";

/// What [`Child::kill`](std::process::Child::kill) sends.
const SIGKILL: i32 = 9;

/// A successor that was started and may not be ready yet. Dropped before, it is ended.
pub(crate) struct Starting {
    pid: u32,
    ready: Pin<Box<dyn Future<Output = io::Result<Offer>> + Send>>,
    /// The configuration was read again meanwhile.
    has_old_file: bool,
}

impl Starting {
    /// Starts a successor with the arguments of this process.
    ///
    /// It is started by the name that this process was started by: an upgrade may have replaced that file, or a link to
    /// it.
    pub(crate) fn new(daemon: &Daemon) -> io::Result<Self> {
        if daemon.is_taking_over() {
            return Err(io::Error::other("an upgrade is in progress: its connections have not all arrived"));
        }
        let mut args = std::env::args_os();
        let program = args.next().ok_or_else(|| io::Error::other("the name of this program is unknown"))?;
        let args: Vec<OsString> = args.filter(|arg| arg != TAKE_OVER).collect();
        let (ours, theirs) = UnixStream::pair()?;
        tracing::info!(program = %program.display(), "starting a successor");
        // With a command that lives longer, this process would hold the other end, too, and not notice its end.
        let child = {
            let mut command = Command::new(program);
            systemd::pass_watchdog_on(&mut command);
            command.args(args).arg(TAKE_OVER).stdin(OwnedFd::from(theirs)).spawn()?
        };
        let (pid, offering) = (child.id(), daemon.offer(ours));
        let mut unready = Unready(Some(child));
        let ready = Box::pin(async move {
            match offering.await {
                Ok(offer) => {
                    drop(unready.0.take());
                    Ok(offer)
                }
                Err(error) => Err(unready.reason().await.unwrap_or(error)),
            }
        });
        Ok(Self { pid, ready, has_old_file: false })
    }

    /// Waits until it serves the listening sockets. Cancel safe; not to be called again afterwards.
    pub(crate) async fn ready(&mut self) -> io::Result<Offer> {
        let offer = (&mut self.ready).await?;
        let pid = self.pid;
        systemd::succeeded_by(pid);
        tracing::info!(pid, "the successor is ready");
        if self.has_old_file
            && let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw)
            && let Err(error) = kill_process(process, Signal::HUP)
        {
            tracing::error!(%error, "the successor may have the configuration from before the reload; reload it");
        }
        Ok(offer)
    }

    /// This process has read its configuration again; the successor does so when it is ready.
    pub(crate) fn reload_later(&mut self) {
        self.has_old_file = true;
    }
}

/// A new process that is of no use until it is ready.
struct Unready(Option<Child>);

impl Unready {
    /// Why it ended, if a signal did that. It may have ended by itself; otherwise it is ended now.
    async fn reason(&mut self) -> Option<io::Error> {
        let mut child = self.0.take()?;
        let _ = child.kill();
        let ended = tokio::task::spawn_blocking(move || child.wait());
        // A process in the hands of a disk that hangs does not end.
        let status = tokio::time::timeout(Duration::from_secs(1), ended).await.ok()?.ok()?.ok()?;
        let signal = status.signal().filter(|signal| *signal != SIGKILL)?;
        let fix = "with systemctl kill, use --kill-who=main";
        Some(io::Error::other(format!("signal {signal} ended the new process; {fix}")))
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
        }
    }
}

/// Hands all connections over, and ends when the last one is.
pub(crate) async fn hand_over(daemon: Daemon, offer: Offer, stop: &mut Stop) -> Result<(), Exit> {
    tokio::select! {
        (given, cut_off) = daemon.hand_over(offer) => {
            tracing::info!(given, cut_off, "connections are handed over");
        }
        () = stop.asked() => tracing::warn!("signal during the upgrade; the remaining connections are cut off"),
    }
    Ok(())
}

/// What the process at the other end of standard input offers.
pub(crate) async fn inheritance() -> io::Result<Inheritance> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    tokio::task::spawn_blocking(move || Inheritance::receive(channel)).await.map_err(io::Error::other)?
}
