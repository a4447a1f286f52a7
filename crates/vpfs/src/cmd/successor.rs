//! SIGUSR2: the installed program is started again and takes over every connection.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use vpfs_proxy::{Daemon, Inheritance, Offer};

use super::systemd;
use crate::exit::Exit;
use crate::signals::Stop;

/// The argument by which a successor knows that it is one.
const TAKE_OVER: &str = "--take-over";

/// What [`Child::kill`](std::process::Child::kill) sends.
const SIGKILL: i32 = 9;

/// Starts a successor with the arguments of this process, and waits until it serves the listening sockets.
///
/// It is started by the name that this process was started by: an upgrade may have replaced that file, or a link to it.
pub(crate) async fn start(daemon: &Daemon) -> io::Result<Offer> {
    if daemon.is_taking_over() {
        return Err(io::Error::other("an upgrade is in progress: its connections have not all arrived"));
    }
    let mut args = std::env::args_os();
    let program = args.next().ok_or_else(|| io::Error::other("the name of this program is unknown"))?;
    let args: Vec<OsString> = args.filter(|arg| arg != TAKE_OVER).collect();
    let (ours, theirs) = UnixStream::pair()?;
    tracing::info!(program = %program.display(), "starting a successor");
    // With a command that lives longer, this process would hold the other end, too, and not notice its end.
    let mut child = {
        let mut command = Command::new(program);
        systemd::pass_watchdog_on(&mut command);
        command.args(args).arg(TAKE_OVER).stdin(OwnedFd::from(theirs)).spawn()?
    };
    let pid = child.id();
    match daemon.offer(ours).await {
        Ok(offer) => {
            systemd::succeeded_by(pid);
            tracing::info!(pid, "the successor is ready");
            Ok(offer)
        }
        Err(error) => {
            // It may have ended by itself, and is of no use in any case.
            let _ = child.kill();
            match child.wait()?.signal() {
                Some(signal) if signal != SIGKILL => {
                    let fix = "with systemctl kill, use --kill-who=main";
                    Err(io::Error::other(format!("signal {signal} ended the new process; {fix}")))
                }
                _ => Err(error),
            }
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
