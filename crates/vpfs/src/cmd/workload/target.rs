//! Options shared by all workloads: target, identity and output.

use std::fs;
use std::fs::OpenOptions;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use vpfs_config::units::{parse_duration, parse_size};
use vpfs_core::Bytes;
use vpfs_sim::model::plan::{Amount, Phase, Plan};
use vpfs_testbed::client::{ClientOptions, CreateOptions};
use vpfs_testbed::load::measure::{Progress, Report, per_second};
use vpfs_testbed::load::run::{Connections, RunHandle, RunOptions, SyncMode};
use vpfs_testbed::load::table;

use super::Job;
use crate::cmd::accounts;
use crate::exit::Exit;
use crate::print::{print, roughly};

#[derive(clap::Args)]
pub(super) struct Target {
    /// Any one server or proxy of the file system, tcp://HOST:PORT/NAME; or nfs://HOST:PORT/EXPORT?mountport=PORT,
    /// where the ports can be left out if they are 2049 and 20048
    #[arg(long, value_name = "URL", help_heading = "Target")]
    pub(super) url: String,

    /// User in every credential, by number or name
    #[arg(long, value_name = "UID", default_value = "0", value_parser = accounts::user, help_heading = "Target")]
    uid: u32,

    /// Groups in every credential, the primary one first
    #[arg(long = "gid", value_name = "GID,...", value_delimiter = ',', default_value = "0", value_parser = accounts::group, help_heading = "Target")]
    gids: Vec<u32>,

    /// Host name in every credential
    #[arg(long, value_name = "NAME", default_value = "vpfs", help_heading = "Target")]
    host_name: String,

    /// Local addresses to connect from, assigned to nodes in turn, e.g. 127.0.0.2,127.0.0.3, so that nodes look like
    /// different hosts [default: chosen by the system]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Target")]
    bind: Vec<IpAddr>,

    /// Number of client hosts that the processes are spread over, in blocks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Target")]
    pub(super) nodes: u32,

    /// Which processes share connections
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = SharedBy::Node, help_heading = "Target")]
    connection_per: SharedBy,

    /// Directory of the run: created if it does not exist, and then also removed [default: / and the workload's name]
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    directory: Option<String>,

    /// Strip size of new files on OrangeFS; several: of each server, in the order of the file system's configuration,
    /// 0B for none
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "64KiB", value_parser = parse_size, help_heading = "Target")]
    strip: Vec<Bytes>,

    /// Number of servers that each new file is striped over, if all have equal strips [default: all]
    #[arg(long, value_name = "N", help_heading = "Target")]
    datafiles: Option<u32>,

    /// Replace an existing file instead of failing
    #[arg(long, help_heading = "Target")]
    overwrite: bool,

    /// Attempts after the first one, with OrangeFS [default: from the servers' configuration]
    #[arg(long, value_name = "N", help_heading = "Target")]
    retries: Option<u32>,

    /// How long to wait for a reply [default: from the servers' configuration; 5min with NFS]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Target")]
    reply_timeout: Option<Duration>,

    /// Number of times to run everything
    #[arg(short = 'i', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Run")]
    pub(super) repetitions: u32,

    /// Seed of file contents, random order and random sizes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Run")]
    pub(super) seed: u64,

    /// Interval of the timeline in the JSON file, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval, help_heading = "Run")]
    interval: Duration,

    /// Write parameters and all measurements to this file; "-" for standard output instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(super) json: Option<PathBuf>,

    /// Write each transfer to this file, a CSV log for `vpfs layout advise`; those that prepare files are left out
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(super) trace: Option<PathBuf>,

    /// Show no progress on standard error
    #[arg(short, long, help_heading = "Run")]
    pub(super) quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SharedBy {
    /// All processes of a node share one connection to each server, as on a host with a client module
    Node,
    /// Each process has its own connections, as with a user-space library
    Process,
}

impl Target {
    /// Target options of the workload `name` with `processes` processes.
    pub(super) fn options(&self, name: &str, keep: bool, processes: u32) -> Result<RunOptions, Exit> {
        if self.nodes > processes {
            return Err(Exit::Usage(format!("--nodes: more nodes than processes ({processes})")));
        }
        for (option, is_given) in [("datafiles", self.datafiles.is_some()), ("retries", self.retries.is_some())] {
            if is_given && self.url.starts_with("nfs://") {
                return Err(Exit::Usage(format!("--{option}: is for OrangeFS only; leave it out with nfs://")));
            }
        }
        let directory = self.directory.clone().unwrap_or_else(|| format!("/{name}"));
        if !directory.starts_with('/') {
            return Err(Exit::Usage(format!("--directory: {directory:?} is not absolute; write \"/{directory}\"")));
        }
        Ok(RunOptions {
            client: self.client(),
            local_addresses: self.bind.clone(),
            nodes: self.nodes,
            connections: match self.connection_per {
                SharedBy::Node => Connections::PerNode,
                SharedBy::Process => Connections::PerProcess,
            },
            directory,
            create: self.create()?,
            overwrite: self.overwrite,
            keep,
            sync: SyncMode::Stable,
            seed: self.seed,
            interval: self.interval,
            trace: None,
            stop: Arc::default(),
        })
    }

    /// Whether JSON is printed instead of the table.
    pub(super) fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn client(&self) -> ClientOptions {
        ClientOptions {
            uid: self.uid,
            gids: self.gids.clone(),
            host_name: self.host_name.clone(),
            retry_limit: self.retries,
            reply_timeout: self.reply_timeout,
            ..ClientOptions::new(self.url.clone())
        }
    }

    /// The layout of new files.
    fn create(&self) -> Result<CreateOptions, Exit> {
        match (self.strip.as_slice(), self.datafiles) {
            ([strip], None) => Ok(CreateOptions::simple_stripe(strip.0)),
            ([strip], Some(count)) => Ok(CreateOptions::simple_stripe(strip.0).datafiles(count)),
            (strips, None) => variable_strips(strips.iter().copied().enumerate()),
            (_, Some(_)) => Err(Exit::Usage("--datafiles: --strip says already which servers hold data".to_owned())),
        }
    }
}

/// Strips of these sizes on servers, none where it is zero.
pub(crate) fn variable_strips(strips: impl IntoIterator<Item = (usize, Bytes)>) -> Result<CreateOptions, Exit> {
    let (servers, sizes): (Vec<usize>, Vec<u64>) =
        strips.into_iter().filter(|(_, strip)| strip.0 > 0).map(|(server, strip)| (server, strip.0)).unzip();
    if servers.is_empty() {
        return Err(Exit::Usage("--strip: no server has a strip; give at least one a size".to_owned()));
    }
    let strips: Vec<String> = sizes.iter().enumerate().map(|(index, size)| format!("{index}:{size}")).collect();
    Ok(CreateOptions::variable_strips(strips.join(";")).on_servers(servers))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < Duration::from_millis(10) { Err("must be at least 10ms".to_owned()) } else { Ok(interval) }
}

/// Shows one line of text after the other.
pub(crate) enum ProgressLine {
    /// Prints nothing.
    Quiet,
    /// Redraws one line.
    Terminal(ProgressBar),
    /// Prints a line from time to time; holds the time of the last one.
    Plain(Mutex<Option<Instant>>),
}

const REDRAW: Duration = Duration::from_millis(200);

const PLAIN_LINE: Duration = Duration::from_secs(5);

impl ProgressLine {
    pub(crate) fn start(quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        let bar = ProgressBar::new_spinner();
        if bar.is_hidden() {
            return Self::Plain(Mutex::new(Some(Instant::now())));
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is constant and valid"));
        Self::Terminal(bar)
    }

    /// Shows a text until the next one; in plain mode prints it even if the last line was very recent.
    pub(crate) fn announce(&self, text: impl Into<String>) {
        if let Self::Plain(last) = self {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.show(|| text.into());
    }

    /// Shows progress; in plain mode at most every few seconds.
    pub(crate) fn show(&self, text: impl FnOnce() -> String) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => {
                bar.set_message(text());
                bar.tick();
            }
            Self::Plain(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_none_or(|last| last.elapsed() >= PLAIN_LINE) {
                    eprintln!("{}", text());
                    *last = Some(Instant::now());
                }
            }
        }
    }

    /// Prints a text that stays, whatever is shown next.
    pub(crate) fn tell(&self, text: &str) {
        match self {
            Self::Quiet => {}
            Self::Terminal(bar) => bar.println(text),
            Self::Plain(_) => eprintln!("{text}"),
        }
    }

    /// Removes the line from a terminal.
    pub(crate) fn clear(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }

    /// Waits for `work` and shows the text of `describe` meanwhile.
    pub(crate) async fn follow<T>(&self, work: impl Future<Output = T>, describe: impl Fn() -> String) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = interval(REDRAW);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                result = &mut work => return result,
                _ = ticks.tick() => self.show(&describe),
            }
        }
    }
}

/// One line about a run: its phase, how much of that is done, rates in it, and the time that it still takes.
pub(crate) fn describe_progress(run: &RunHandle) -> String {
    let (plan, Some(progress)) = (run.plan(), run.progress()) else { return "connected".to_owned() };
    let phases = plan.phases();
    let number = phases.iter().position(|phase| *phase == progress.phase).map_or(0, |index| index + 1);
    let limit = plan.limit(progress.phase).map(|limit| limit.time);
    let text = of_phase(&progress, plan.amount(progress.phase), limit);
    format!("{} (phase {number} of {}): {text}", progress.phase, phases.len())
}

fn of_phase(progress: &Progress, amount: Option<Amount>, limit: Option<Duration>) -> String {
    let &Progress { operations, bytes, elapsed, .. } = progress;
    let (mut text, done) = match amount {
        Some(Amount::Bytes(all)) => (format!("{} of {}", decimal(bytes as f64), decimal(all as f64)), (bytes, all)),
        Some(Amount::Calls(all)) => (format!("{operations} of {all} calls"), (operations, all)),
        None => (format!("{operations} calls"), (0, 0)),
    };
    let seconds = elapsed.as_secs_f64();
    text += &format!(", {:.1} calls/s", per_second(operations, seconds));
    if bytes > 0 {
        text += &format!(", {}/s", decimal(per_second(bytes, seconds)));
    }
    // It may be done before the limit, and the limit may come before it is done.
    match limit.map(|limit| limit.saturating_sub(elapsed)).into_iter().chain(still_takes(elapsed, done)).min() {
        Some(Duration::ZERO) => text,
        Some(left) => text + &format!(", {} left", roughly(left)),
        None => text,
    }
}

/// Bytes in the largest unit that fits.
fn decimal(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} KB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

/// As much time for the rest as for what is done.
fn still_takes(elapsed: Duration, (done, all): (u64, u64)) -> Option<Duration> {
    let part = (done > 0).then(|| all.saturating_sub(done) as f64 / done as f64)?;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() * part).ok()
}

/// A table, then latencies of the last repetition.
pub(super) fn with_latencies(table: &str, reports: &[Report]) -> String {
    let latencies = reports.last().map(table::latency).unwrap_or_default();
    format!("{table}\n{latencies}")
}

/// Parameters and all measurements, if a file for them was given.
pub(super) fn write_json<P: Plan + serde::Serialize>(job: &Job<'_, P>, reports: &[Report]) -> Result<(), Exit> {
    let Some(path) = &job.target.json else { return Ok(()) };
    let summary: Vec<_> =
        [Phase::Write, Phase::Read].into_iter().filter_map(|phase| table::summarize(reports, phase)).collect();
    let document = json!({
        "workload": job.name,
        "url": job.target.url,
        "parameters": job.plan,
        "summary": summary,
        "repetitions": reports,
    });
    write_output(path, &document)
}

/// Writes a document to a file, or to standard output if the path is "-".
pub(crate) fn write_output(path: &Path, document: &Value) -> Result<(), Exit> {
    if path == Path::new("-") {
        return print(format_args!("{document:#}"));
    }
    write_text(path, &format!("{document:#}\n"))
}

/// Writes a file.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Exit> {
    fs::write(path, text).map_err(|error| Exit::cannot_write(path, &error))
}

/// Fails now if what a long run finds could not be written to this file then; leaves it as it is.
pub(crate) fn check_output(path: &Path) -> Result<(), Exit> {
    if path == Path::new("-") {
        return Ok(());
    }
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path).map_err(|error| Exit::cannot_write(path, &error))?;
    if is_new { fs::remove_file(path).map_err(|error| Exit::cannot_write(path, &error)) } else { Ok(()) }
}

/// Fails if data read back differs from what was written, and reports where.
pub(crate) fn verdict<'a>(reports: impl IntoIterator<Item = &'a Report, IntoIter: Clone>) -> Result<(), Exit> {
    let reports = reports.into_iter();
    let wrong: u64 = reports.clone().map(|report| report.verification.wrong_reads).sum();
    if wrong == 0 {
        return Ok(());
    }
    let examples = reports.flat_map(|report| &report.verification.examples);
    let lines: Vec<String> = examples.map(|example| format!("  {example}")).collect();
    Err(Exit::Corrupt(format!("{wrong} reads returned wrong data; the first ones:\n{}", lines.join("\n"))))
}

#[cfg(test)]
mod tests {
    use vpfs_sim::model::plan::Phase;

    use super::*;

    #[test]
    fn strips_of_each_server() {
        let strips = |sizes: &[u64]| variable_strips(sizes.iter().copied().map(Bytes::kib).enumerate());
        let some = CreateOptions::variable_strips("0:65536;1:1048576").on_servers(vec![0, 2]);
        assert_eq!(strips(&[64, 0, 1024]).ok(), Some(some));
        let Err(Exit::Usage(problem)) = strips(&[0, 0]) else { panic!("no strips at all") };
        assert!(problem.contains("at least one"), "{problem}");
    }

    #[test]
    fn a_line_says_how_much_is_done_how_fast_and_how_long_the_rest_takes() {
        let elapsed = Duration::from_secs(10);
        let write = Progress { phase: Phase::Write, operations: 2000, bytes: 1_000_000, elapsed };
        let texts = [
            of_phase(&write, Some(Amount::Bytes(4_000_000)), None),
            of_phase(&write, None, Some(Duration::from_secs(600))),
            of_phase(&Progress { operations: 5, bytes: 0, ..write }, Some(Amount::Calls(20)), None),
            of_phase(&Progress { operations: 0, bytes: 0, ..write }, Some(Amount::Bytes(1 << 20)), None),
            of_phase(&Progress { bytes: 320, ..write }, Some(Amount::Bytes(10_240)), Some(Duration::from_secs(20))),
            of_phase(&write, Some(Amount::Bytes(4_000_000)), Some(Duration::from_secs(3600))),
        ];
        let expected = [
            "1.0 MB of 4.0 MB, 200.0 calls/s, 100.0 KB/s, 30 s left",
            "2000 calls, 200.0 calls/s, 100.0 KB/s, 10 min left",
            "5 of 20 calls, 0.5 calls/s, 30 s left",
            "0 B of 1.0 MB, 0.0 calls/s",
            "320 B of 10.2 KB, 200.0 calls/s, 32 B/s, 10 s left",
            "1.0 MB of 4.0 MB, 200.0 calls/s, 100.0 KB/s, 30 s left",
        ];
        assert_eq!(texts, expected);
    }
}
