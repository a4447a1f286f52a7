//! Asking Slurm by its own programs. Each is ended when it takes too long. Block.

use std::collections::HashMap;
use std::io::Read;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use vpfs_slurm::Jobs;

/// The most that a program may print: 10,000 jobs are 40 MB.
const LONGEST: u64 = 512 << 20;
/// The most of its complaints.
const LONGEST_ERROR: u64 = 4096;
/// How often to look whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// All jobs that have nodes.
///
/// # Errors
/// Why they are not known: no answer in time, a failure, or another format.
pub(super) fn jobs(patience: Duration) -> Result<Jobs, String> {
    ask("squeue", &["--all", "--json"], patience, Jobs::parse)
}

/// The address of each node in slurm.conf.
///
/// # Errors
/// As [`jobs`].
pub(in crate::cmd) fn addresses(patience: Duration) -> Result<HashMap<String, String>, String> {
    ask("sinfo", &["--all", "--noheader", "--Node", "--format=%N %o"], patience, |mut out| {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes);
        let pair = |line: &str| line.trim().split_once(' ').map(|(node, at)| (node.to_owned(), at.trim().to_owned()));
        Ok(text.lines().filter_map(pair).collect())
    })
}

/// The settings in slurm.conf, by name.
///
/// # Errors
/// As [`jobs`].
pub(in crate::cmd) fn settings_of_slurm(patience: Duration) -> Result<HashMap<String, String>, String> {
    ask("scontrol", &["show", "config"], patience, |mut out| {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let pair =
            |line: &str| line.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
        Ok(String::from_utf8_lossy(&bytes).lines().filter_map(pair).collect())
    })
}

/// Whether users have only the accounts that they were given, by [`settings_of_slurm`].
pub(in crate::cmd) fn are_accounts_enforced(told: &HashMap<String, String>) -> bool {
    let enforced = told.get("AccountingStorageEnforce").map_or("", String::as_str);
    // The others imply associations.
    let sufficient = ["associations", "limits", "qos", "safe", "wckeys", "all"];
    enforced.split(',').any(|word| sufficient.contains(&word.trim().to_lowercase().as_str()))
}

fn ask<T: Send + 'static>(
    program: &str,
    args: &[&str],
    patience: Duration,
    read: impl FnOnce(std::io::Take<ChildStdout>) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let until = Instant::now() + patience;
    let mut command = Command::new(program);
    // An administrator's own preferences would change the output.
    let preferences = std::env::vars_os().map(|(name, _)| name);
    for name in preferences.filter(|name| {
        name.as_encoded_bytes().starts_with(b"SQUEUE_") || name.as_encoded_bytes().starts_with(b"SINFO_")
    }) {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run {program}: {error}"))?;
    let (out, mut errors) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (answered, answer) = mpsc::channel();
    thread::spawn(move || {
        // It fails only if nobody waits any more.
        let _ = answered.send(read(out.take(LONGEST)));
    });
    let (complained, complaint) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = errors.by_ref().take(LONGEST_ERROR).read_to_end(&mut bytes);
        let _ = complained.send(String::from_utf8_lossy(&bytes).into_owned());
        // Whatever else it says must not keep it waiting.
        let _ = std::io::copy(&mut errors, &mut std::io::sink());
    });
    let answer = answer.recv_timeout(until.saturating_duration_since(Instant::now()));
    let succeeded = end(&mut child, until);
    let late = || format!("{program} did not answer within {patience:?}");
    match (answer, succeeded) {
        (Ok(Ok(answer)), Some(true)) => Ok(answer),
        (Err(_), _) | (_, None) => Err(late()),
        (Ok(answer), Some(succeeded)) => {
            let said = complaint.recv_timeout(LOOK).unwrap_or_default();
            let said = said.lines().next().unwrap_or_default().chars().flat_map(char::escape_debug).collect::<String>();
            Err(match answer {
                Err(reason) if succeeded => format!("{program} {reason}"),
                _ => format!("{program} failed: {said}"),
            })
        }
    }
}

/// Waits for the end, or makes one; whether it succeeded by itself.
fn end(child: &mut Child, until: Instant) -> Option<bool> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            _ => break,
        }
    }
    // It may have ended just now.
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mut out: impl Read) -> Result<String, String> {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text).map_err(|error| error.to_string())
    }

    fn shell(script: &str, patience: Duration) -> Result<String, String> {
        ask("sh", &["-c", script], patience, text)
    }

    #[test]
    fn whatever_a_program_does_there_is_an_answer() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo hello", long).as_deref(), Ok("hello\n"));
        assert_eq!(
            shell("printf 'no \\033controller\\nmore' >&2; exit 1", long),
            Err("sh failed: no \\u{1b}controller".into())
        );
        assert_eq!(shell("yes complaint | head -c 300000 >&2; echo done", long).as_deref(), Ok("done\n"));
        assert!(ask("no-such-program", &[], long, text).unwrap_err().contains("cannot run"));
        let wrong = ask("echo", &["{}"], long, Jobs::parse).unwrap_err();
        assert!(wrong.contains("something else than jobs"), "{wrong}");
        for hanging in ["sleep 1000", "echo half; exec sleep 1000", "exec >&-; exec sleep 1000"] {
            let error = shell(hanging, Duration::from_millis(50)).unwrap_err();
            assert!(error.contains("did not answer"), "{error}");
        }
    }
}
