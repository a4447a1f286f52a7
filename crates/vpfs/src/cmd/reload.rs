//! A reload that tells its outcome, which no signal and no version of systemd tells.
//!
//! The one who asks listens at a socket where proxies have theirs, and sends SIGHUP; after each reload a proxy sends
//! the outcome to the socket with its process id, if there is one.

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

fn paths(pid: u32) -> impl Iterator<Item = PathBuf> {
    runtime_dir::all().into_iter().map(move |directory| directory.join(format!("reload-{pid}.sock")))
}

/// What a process id is for; `-1` and the like have another meaning for the system.
pub(super) fn process(text: &str) -> Result<Pid, String> {
    let pid = text.parse::<i32>().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    pid.ok_or_else(|| "a process id is a positive number, such as that in the log or of `pgrep vpfs`".to_owned())
}

/// Whether a process reloads at SIGHUP, as proxies and mounts do; most others end.
fn is_ours(pid: Pid) -> bool {
    let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let program = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).unwrap_or_default();
    let command = arguments.split(|byte| *byte == 0).nth(1);
    // An upgrade removes the file of the program that runs.
    let is_vpfs = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vpfs"));
    is_vpfs && command.is_some_and(|command| command == b"proxy" || command == b"mount")
}

/// Those that may be meant instead.
fn all_of_ours() -> String {
    let processes =
        fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids: Vec<String> = processes.filter(|name| process(name).is_ok_and(is_ours)).collect();
    match pids.is_empty() {
        true => "no proxy runs here that you may see".to_owned(),
        false => format!("the proxies here that you may see are {}", pids.join(", ")),
    }
}

/// Lets the proxy with this process id reload, and waits for the outcome.
pub(crate) fn ask(pid: Pid) -> Result<(), Exit> {
    let number = pid.as_raw_nonzero();
    if !is_ours(pid) {
        return Err(Exit::Usage(format!("process {number} is no vpfs proxy; {}", all_of_ours())));
    }
    let paths: Vec<PathBuf> = paths(number.get().cast_unsigned()).collect();
    // In the directory where the proxy has its own, if that may be written to.
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for path in &paths {
        match listen(path) {
            Ok(socket) => {
                outcome = reload(pid, &socket);
                // Without it nobody waits any more.
                let _ = fs::remove_file(path);
                break;
            }
            Err(error) => outcome = Err(error),
        }
    }
    match outcome {
        Ok(Ok(what)) => print(format_args!("reloaded: {what}")),
        Ok(Err(reason)) => Err(Exit::Failed(format!("reload rejected; the old configuration stays active\n{reason}"))),
        Err(error) => {
            let places = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ");
            let instead = "send it SIGHUP instead, and look at its log";
            Err(Exit::Failed(format!("cannot ask process {number} by {places}: {error}; {instead}")))
        }
    }
}

fn listen(path: &Path) -> io::Result<UnixDatagram> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixDatagram::bind(path)
}

fn reload(process: Pid, socket: &UnixDatagram) -> io::Result<Outcome> {
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
    paths(std::process::id()).for_each(|path| send(&outcome, &path));
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

    /// Symptom: `--reload 1` sent SIGHUP to the first process of the host, and `--reload 0` to a group of them.
    #[test]
    fn only_a_proxy_is_sent_a_signal() {
        for text in ["0", "-1", "99999999999", "x"] {
            assert!(process(text).is_err(), "{text}");
        }
        for pid in [1, i32::MAX] {
            let Err(Exit::Usage(problem)) = ask(process(&pid.to_string()).unwrap()) else { panic!("it is no proxy") };
            assert!(problem.starts_with(&format!("process {pid} is no vpfs proxy; ")), "{problem}");
        }
    }
}
