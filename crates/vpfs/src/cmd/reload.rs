//! A reload whose outcome whoever asks for it learns, which no signal and no version of systemd tells.
//!
//! The one who asks listens at a socket in the service's runtime directory, and sends SIGHUP; after each reload a proxy
//! sends the outcome to the socket with its process id, if there is one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use vpfs_config::Config;
use vpfs_proxy::Daemon;

use super::{count, runtime_dir, systemd};
use crate::exit::Exit;
use crate::log::LogSwitch;
use crate::print::{print, roughly};

/// A reload waits for nothing but the disk with the file.
const PATIENCE: Duration = Duration::from_secs(20);
/// The reasons of a refusal beyond this are in the log.
const LONGEST: usize = 32 << 10;

/// The outcome: what has changed, or why nothing has.
type Outcome = Result<String, String>;

fn path(pid: u32) -> PathBuf {
    runtime_dir::of_service().join(format!("reload-{pid}.sock"))
}

/// Lets the proxy with this process id reload, and waits for the outcome.
pub(crate) fn ask(pid: u32) -> Result<(), Exit> {
    let path = path(pid);
    let outcome = reload(pid, &path);
    // Without it nobody waits any more.
    let _ = fs::remove_file(&path);
    match outcome {
        Ok(Ok(what)) => print(format_args!("reloaded: {what}")),
        Ok(Err(reason)) => Err(Exit::Failed(format!("reload rejected; the old configuration stays active\n{reason}"))),
        Err(error) => {
            let instead = "send it SIGHUP instead, and look at its log";
            Err(Exit::Failed(format!("cannot ask process {pid} by {}: {error}; {instead}", path.display())))
        }
    }
}

fn reload(pid: u32, path: &Path) -> io::Result<Outcome> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = UnixDatagram::bind(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    kill_process(process, Signal::HUP)?;
    let mut bytes = vec![0; LONGEST * 8];
    let len = socket.recv(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "it did not say how the reload ended"),
        _ => error,
    })?;
    serde_json::from_slice(&bytes[..len]).map_err(io::Error::other)
}

/// Lets a daemon of this process read its file again, and tells who waits for it how that has ended.
pub(super) async fn run(daemon: &mut Daemon, file: &Path, log: &LogSwitch) {
    systemd::reloading();
    // Who sent the signal is nearly always root; who may write the file decides what is in it.
    if let Ok(metadata) = fs::metadata(file) {
        let age = metadata.modified().ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
        let written = format!("{} ago", roughly(age));
        tracing::info!(file = %file.display(), owner_uid = metadata.uid(), written, "reading the configuration again");
    }
    let outcome = reread(daemon, file).await;
    match &outcome {
        Ok(_) => log.set(daemon.config().log.level),
        Err(reason) => tracing::error!(%reason, "reload rejected; the old configuration stays active"),
    }
    systemd::reloaded(&outcome);
    send(&outcome, &path(std::process::id()));
}

async fn reread(daemon: &mut Daemon, file: &Path) -> Outcome {
    let newer = Config::load(file).map_err(|problems| problems.to_string())?;
    match daemon.reload(newer).await.map_err(|error| error.to_string())? {
        0 => Ok("nothing changed".to_owned()),
        changes => Ok(format!("{} changed", count(changes, "setting"))),
    }
}

fn send(outcome: &Outcome, path: &Path) {
    let shortened = |text: &String| text.chars().take(LONGEST).collect::<String>();
    let outcome = outcome.as_ref().map(shortened).map_err(shortened);
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(&serde_json::to_vec(&outcome)?, path)
    });
    // Usually nobody waits.
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot report the outcome of the reload");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_arrives_whatever_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reload-1.sock");
        send(&Ok("nobody waits".into()), &path);
        let socket = UnixDatagram::bind(&path).unwrap();
        for (sent, arrives) in [(Ok("x".into()), Ok("x".into())), (Err("\n".repeat(99_999)), Err("\n".repeat(LONGEST)))]
        {
            send(&sent, &path);
            let mut bytes = vec![0; LONGEST * 8];
            let len = socket.recv(&mut bytes).unwrap();
            assert_eq!(serde_json::from_slice::<Outcome>(&bytes[..len]).unwrap(), arrives);
        }
    }

    #[test]
    fn a_process_that_does_not_exist_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = reload(i32::MAX as u32, &folder.path().join("socket")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(3), "no such process: {error}");
    }
}
