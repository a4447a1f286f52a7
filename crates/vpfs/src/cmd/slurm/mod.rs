//! `vpfs slurm`: jobs get shares.

mod agent;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use clap::Subcommand;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use vpfs_config::slurm::{Jobs, Reach, Settings, nodes_of};
use vpfs_config::{Config, read_text};

use super::app::{some, users};
use super::asking::read_token;
use super::runtime;
use crate::exit::Exit;
use crate::print::{plain, print};
use agent::{Group, Sets, with_proven_accounts, without_share};
pub(super) use agent::{Hosts, have_own_jobs, names};

/// Give running jobs of Slurm their shares of the storage
///
/// The agent runs beside slurmctld. It reads the running jobs, maps them to weights by rules, and pushes them to all
/// proxies, or to the mounts on their nodes, which keep them for some minutes if it ends.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs slurm show                  what running jobs get by the rules of /etc/vpfs/slurm.toml\n  \
    vpfs slurm agent                 push it, at once when a job starts, and every 30 seconds\n  \
    PrologSlurmctld=/usr/local/sbin/vpfs-slurm-wake     in slurm.conf: a script that runs `vpfs slurm wake`")]
pub(crate) struct Slurm {
    #[command(subcommand)]
    command: SlurmCommand,
}

#[derive(Subcommand)]
enum SlurmCommand {
    Agent(agent::Agent),
    Show(Show),
    Wake(Wake),
}

impl Slurm {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            SlurmCommand::Agent(agent) => agent.run(),
            SlurmCommand::Show(show) => show.run(),
            SlurmCommand::Wake(wake) => {
                wake.run();
                Ok(())
            }
        }
    }
}

/// The rules.
#[derive(clap::Args)]
struct Rules {
    /// The rules and settings, see docs/slurm.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/slurm.toml")]
    rules: PathBuf,
}

fn load(rules: &Path) -> Result<Settings, Exit> {
    let file = rules.display().to_string();
    let text = read_text(rules).map_err(|error| Exit::Usage(format!("{file}: cannot be read: {error}")))?;
    let folder = rules.parent().unwrap_or(Path::new(""));
    Settings::parse(&file, &text, folder).map_err(|problems| Exit::Usage(format!("invalid rules\n{problems}")))
}

/// What the files say.
pub(super) struct Files {
    /// slurm.toml.
    rules: PathBuf,
    pub(super) settings: Settings,
    pub(super) config: Config,
    token: Option<String>,
    /// As they were before they were read.
    stamp: Stamp,
}

/// Which file was there and when it was written, for slurm.toml, the configuration and the token.
type Stamp = Vec<Option<(u64, i64, i64)>>;

impl Files {
    /// Reads and checks all of them.
    pub(super) fn load(rules: &Path) -> Result<Self, Exit> {
        let settings = load(rules)?;
        // Before they are read: a change meanwhile is seen the next time.
        let stamp = stamp(rules, &settings);
        let config = load_config(&settings)?;
        if settings.reach == Reach::Peers && config.peers.is_none() {
            let file = settings.config.display();
            return Err(Exit::Usage(format!(
                "{file} has no [peers], so its proxies have no address; use reach = \"sockets\""
            )));
        }
        look_at(&settings.wake).map_err(|reason| {
            Exit::Usage(format!("{}: agent.wake: {}: {reason}", rules.display(), settings.wake.display()))
        })?;
        let token = settings.token.as_deref().map(read_token).transpose()?;
        Ok(Self { rules: rules.to_owned(), settings, config, token, stamp })
    }

    /// As they are now.
    fn stamp_now(&self) -> Stamp {
        stamp(&self.rules, &self.settings)
    }
}

/// The configuration of the servers, which accept jobs of the owner in `settings`.
fn load_config(settings: &Settings) -> Result<Config, Exit> {
    let config = super::load_config(&settings.config)?;
    let owner = settings.owner.owner();
    // Root needs no token at sockets, and then no owner.
    if settings.token.is_some() && !config.owners.iter().any(|known| known.name == owner) {
        let file = settings.config.display();
        return Err(Exit::Usage(format!(
            "{file} has no [[owner]] {owner:?}, so proxies refuse its jobs; add name = {owner:?} and its token there, or \
             correct agent.owner"
        )));
    }
    Ok(config)
}

/// What is at the path of a socket that is to be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing, or the socket of a program that has ended.
    Free,
    /// A socket at which a program receives, such as this or another agent.
    Used,
}

/// Looks without changing anything. An error, if there is what no agent has made.
pub(super) fn look_at(path: &Path) -> Result<At, String> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(At::Free),
        Err(error) => return Err(error.to_string()),
        Ok(metadata) => metadata,
    };
    if !metadata.file_type().is_socket() {
        return Err("is something else than a socket, and stays as it is; name a path where nothing is".into());
    }
    match UnixDatagram::unbound().and_then(|socket| socket.connect(path)) {
        Ok(()) => Ok(At::Used),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(At::Free),
        Err(error) => Err(format!("is another program's socket ({error}); name a path where nothing is")),
    }
}

fn stamp(rules: &Path, settings: &Settings) -> Stamp {
    let of = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
    };
    [Some(rules), Some(&settings.config), settings.token.as_deref()].into_iter().flatten().map(of).collect()
}

// Asking Slurm by its own programs. Each is ended when it takes too long. Block.

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
fn jobs(patience: Duration) -> Result<Jobs, String> {
    ask("squeue", &["--all", "--json"], patience, Jobs::parse)
}

/// The address of each node in slurm.conf.
///
/// # Errors
/// As [`jobs`].
pub(super) fn addresses(patience: Duration) -> Result<HashMap<String, String>, String> {
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
pub(super) fn settings_of_slurm(patience: Duration) -> Result<HashMap<String, String>, String> {
    ask("scontrol", &["show", "config"], patience, |mut out| {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        let pair =
            |line: &str| line.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
        Ok(String::from_utf8_lossy(&bytes).lines().filter_map(pair).collect())
    })
}

/// Whether users have only the accounts that they were given, by [`settings_of_slurm`].
pub(super) fn are_accounts_enforced(told: &HashMap<String, String>) -> bool {
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
    let (out, errors) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (answered, answer) = mpsc::channel();
    thread::spawn(move || {
        // It fails only if nobody waits any more.
        let _ = answered.send(read(out.take(LONGEST)));
    });
    let (complained, complaint) = mpsc::channel();
    thread::spawn(move || {
        let (mut errors, mut line) = (BufReader::new(errors), Vec::new());
        let _ = errors.by_ref().take(LONGEST_ERROR).read_until(b'\n', &mut line);
        let _ = complained.send(String::from_utf8_lossy(&line).into_owned());
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
            // It was said before the end, but perhaps is not read yet. A child of it may keep the pipe open.
            let said = complaint.recv_timeout(until.saturating_duration_since(Instant::now())).unwrap_or_default();
            let said = said.trim_end().chars().flat_map(char::escape_debug).collect::<String>();
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

/// Show what running jobs get by the rules, and which cannot be told apart; changes nothing
#[derive(clap::Args)]
struct Show {
    #[command(flatten)]
    rules: Rules,

    /// Jobs from a file that `squeue --json` printed, instead of those that run now
    #[arg(long, value_name = "FILE")]
    squeue: Option<PathBuf>,
}

impl Show {
    fn run(&self) -> Result<(), Exit> {
        let settings = load(&self.rules.rules)?;
        let config = load_config(&settings)?;
        let Jobs { jobs, unreadable } = match &self.squeue {
            None => jobs(settings.timeout),
            Some(path) => {
                let read = File::open(path).map_err(|error| error.to_string());
                let read = read.and_then(Jobs::parse);
                read.map_err(|error| format!("{} {error}", path.display()))
            }
        }
        .map_err(Exit::Failed)?;
        // A file may be of another cluster.
        let are_enforced = self.squeue.is_some()
            || !settings.trusts_accounts()
            || settings_of_slurm(settings.timeout).is_ok_and(|told| are_accounts_enforced(&told));
        let settings = with_proven_accounts(settings, &config, are_enforced);
        let runtime = runtime()?;
        let sets = runtime.block_on(async {
            let mut hosts = Hosts::new(settings.clone());
            if !have_own_jobs(&config) {
                hosts.want(nodes_of(&jobs));
                hosts.settle().await;
            }
            Sets::of(&jobs, &config, &settings, &hosts)
        });
        runtime.shutdown_background();
        print(table(&sets.groups))?;
        sets.lacks.into_iter().chain(unreadable.iter().map(without_share)).try_for_each(print)
    }
}

/// A row for each job, also if it is on several mounts.
fn table(groups: &[Group]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["job", "share", "weight", "cap", "clients", "user"]);
    let mut shown = BTreeSet::new();
    let apps = groups.iter().flat_map(|group| &group.apps);
    for app in apps.filter(|app| shown.insert(&app.name)) {
        let cells = [
            app.name.clone(),
            app.share.clone().unwrap_or_default(),
            app.weight.unwrap_or(1).to_string(),
            app.cap.clone().unwrap_or_default(),
            some(&app.clients),
            some(&users(app)),
        ];
        table.add_row(cells.map(|cell| plain(&cell)));
    }
    table
}

/// Let the agent read the jobs now; for PrologSlurmctld, EpilogSlurmctld and strigger
///
/// Sends one datagram, which never waits, and exits with 0 whether or not an agent got it: without it, the agent finds
/// a job within its interval.
#[derive(clap::Args)]
struct Wake {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = "/run/vpfs-slurm/wake.sock")]
    socket: PathBuf,
}

impl Wake {
    fn run(&self) {
        if let Err(error) = self.send() {
            eprintln!("vpfs: the agent was not woken at {}: {error}", self.socket.display());
        }
    }

    fn send(&self) -> io::Result<()> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        match socket.send_to(b"wake", &self.socket) {
            // As many wait that the agent will read the jobs anyway.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_not_fit_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let load = |agent: &str| {
            let text = format!("[agent]\nconfig = \"vpfs.toml\"\ntoken = \"token\"\nreach = \"sockets\"\n{agent}\n");
            write("slurm.toml", &text);
            Files::load(&folder.path().join("slurm.toml")).map(drop).map_err(|exit| exit.to_string())
        };
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
        write("vpfs.toml", text);
        write("token", "0123456789abcdef");
        assert!(load("").unwrap_err().contains("has no [[owner]] \"slurm\""));
        write("vpfs.toml", &format!("{text}[[owner]]\nname = \"slurm\"\ntoken = \"token\"\n"));
        assert_eq!(load("wake = \"new.sock\""), Ok(()));
        assert!(load("owner = \"slurn\"").unwrap_err().contains("has no [[owner]] \"slurn\""));
        assert!(load("wake = \"vpfs.toml\"").unwrap_err().contains("agent.wake"));
        assert!(folder.path().join("vpfs.toml").exists());
    }

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
