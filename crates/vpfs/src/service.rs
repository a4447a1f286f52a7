//! Structured logs on standard error, or in the journal of systemd with their fields. A thread of its own writes them:
//! whatever takes them may stop doing so, and nothing else waits for it.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::FutureExt;
use rustix::process::Signal as Number;
use sd_notify::NotifyState;
use serde_json::{Map, Value};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::{Registry, reload};
use vpfs_config::LogLevel;
use vpfs_proxy::Observer;
use vpfs_proxy::admin::events::Events;

use crate::print::Exit;

/// Overrides every configured level: levels by target, such as `warn,vpfs_proxy=debug`.
const VARIABLE: &str = "VPFS_LOG";

/// Lines that wait for the thread that writes them. More than these are lost, and counted.
const WAITING: usize = 4096;

pub(crate) struct LogSwitch {
    handle: Handle<Targets, Registry>,
    overridden: bool,
    /// When it is dropped, what was logged is written, unless that takes more than a second.
    _writer: WorkerGuard,
}

impl LogSwitch {
    /// Applies a configured level, unless the environment overrides it.
    pub(crate) fn set(&self, level: LogLevel) {
        if !self.overridden {
            // The only possible error is that the subscriber is gone, and with it the log.
            let _ = self.handle.reload(filter(level));
        }
    }
}

/// Starts logging at `level`, or at the level in the environment variable `VPFS_LOG`. `events` get what has the default
/// level, whatever the level of the log is.
pub(crate) fn start_log(level: LogLevel, json: bool, events: &Events) -> Result<LogSwitch, Exit> {
    let variable = std::env::var(VARIABLE).ok();
    let filter = match &variable {
        Some(text) => {
            text.parse().map_err(|error| Exit::Usage(format!("{VARIABLE}={text} is not a filter: {error}")))?
        }
        None => filter(level),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let journal = Journal::of_standard_error().filter(|_| !json);
    let is_plain = journal.is_none() && !json;
    let out = journal.map_or_else(|| Box::new(io::stderr()) as Box<dyn Write + Send>, |journal| Box::new(journal));
    let (writer, guard) = writer(out, |lines| {
        tracing::warn!(lines, "lines of the log were lost, since what takes them was too slow");
    });
    let is_terminal = io::stderr().is_terminal();
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(is_terminal).with_target(false);
    let layer = if is_plain { layer.boxed() } else { layer.json().boxed() };
    let kept = events.layer().with_filter(LevelFilter::INFO);
    tracing_subscriber::registry().with(layer.with_filter(filter)).with(kept).init();
    Ok(LogSwitch { handle, overridden: variable.is_some(), _writer: guard })
}

/// Of what is not ours, `fuser` warns of things that are no problem, such as an unmount by somebody else.
fn filter(level: LogLevel) -> Targets {
    let default = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    Targets::new().with_default(default).with_target("fuser", LevelFilter::ERROR)
}

/// What hands lines to a thread that writes them to `out`, and tells how many lines were lost.
fn writer(out: Box<dyn Write + Send>, tell: fn(usize)) -> (NonBlocking, WorkerGuard) {
    let lost = Arc::default();
    let out = Out { out, lost: Arc::clone(&lost), told: 0, tell };
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(WAITING).finish(out);
    let _ = lost.set(writer.error_counter());
    (writer, guard)
}

struct Out {
    out: Box<dyn Write + Send>,
    lost: Arc<OnceLock<ErrorCounter>>,
    told: usize,
    tell: fn(usize),
}

impl Write for Out {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = self.lost.get().map_or(0, ErrorCounter::dropped_lines);
        if lost > self.told {
            let lines = lost - self.told;
            self.told = lost;
            (self.tell)(lines);
        }
        self.out.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// Lines of the log as entries of the journal of systemd (systemd.journal-fields(7), "Journal Native Protocol").
// `VPFS_APP` there is the field `app` here.

const SOCKET: &str = "/run/systemd/journal/socket";

/// Takes one line of JSON with each write, and makes one entry of it.
struct Journal(UnixDatagram);

impl Journal {
    /// The journal, if standard error goes there and it can be reached.
    fn of_standard_error() -> Option<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let error = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
        // It is inherited by whatever a service starts, also with standard error elsewhere.
        if stream != format!("{}:{}", error.dev(), error.ino()) {
            return None;
        }
        let socket = UnixDatagram::unbound().ok()?;
        // The journal discards an empty one.
        socket.send_to(&[], SOCKET).ok()?;
        Some(Self(socket))
    }
}

impl Write for Journal {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // By its path each time, so that a journal that is started again gets what follows.
        self.0.send_to(&entry(&serde_json::from_slice(line)?), SOCKET)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(line: &Map<String, Value>) -> Vec<u8> {
    let priority = match line.get("level").and_then(Value::as_str) {
        Some("ERROR") => "3",
        Some("WARN") => "4",
        Some("INFO") => "5",
        Some("DEBUG") => "6",
        _ => "7",
    };
    let mut entry = Vec::new();
    put(&mut entry, "SYSLOG_IDENTIFIER", "vpfs");
    put(&mut entry, "PRIORITY", priority);
    for (name, value) in line.get("fields").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match name.as_str() {
            "message" => put(&mut entry, "MESSAGE", &value),
            _ => put(&mut entry, &format!("VPFS_{}", name.to_uppercase()), &value),
        }
    }
    entry
}

/// With its length, so that nothing in a value can begin another field.
fn put(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    entry.push(b'\n');
    entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

pub(crate) struct Stop(Vec<Signal>);

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        Self::on(&[SignalKind::terminate(), SignalKind::interrupt()])
    }

    pub(crate) fn on(kinds: &[SignalKind]) -> io::Result<Self> {
        kinds.iter().map(|kind| signal(*kind)).collect::<io::Result<_>>().map(Self)
    }

    pub(crate) async fn asked(&mut self) {
        poll_fn(|context| {
            let comes = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if comes { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Sets `flag` at the first one; the second one ends the process.
    pub(crate) async fn set(mut self, flag: Arc<AtomicBool>) {
        self.asked().await;
        flag.store(true, Ordering::Relaxed);
        self.asked().await;
        std::process::exit(130)
    }
}

/// Signals that end a process by default, although people who send them to a daemon hardly mean that.
const HARMLESS: [(Number, &str); 8] = [
    (Number::USR1, "SIGUSR1"),
    (Number::ALARM, "SIGALRM"),
    (Number::VTALARM, "SIGVTALRM"),
    (Number::PROF, "SIGPROF"),
    (Number::IO, "SIGIO"),
    (Number::POWER, "SIGPWR"),
    (Number::STKFLT, "SIGSTKFLT"),
    (Number::XFSZ, "SIGXFSZ"),
];
/// The signals that Linux leaves to programs and C libraries to their users.
const REAL_TIME: std::ops::RangeInclusive<i32> = 34..=64;

/// These signals do nothing from now on except write a line to the log. Call within a runtime.
pub(crate) fn ignore_harmless() {
    let named = HARMLESS.into_iter().map(|(signal, name)| (signal.as_raw(), name.to_owned()));
    let numbered = REAL_TIME.map(|number| (number, format!("SIGRTMIN+{}", number - REAL_TIME.start())));
    for (number, name) in named.chain(numbered) {
        // A signal that this system does not have cannot come.
        let Ok(mut received) = signal(SignalKind::from_raw(number)) else { continue };
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                let meanings = "SIGHUP reloads, SIGUSR2 upgrades, SIGTERM and SIGINT drain";
                tracing::info!(signal = name, "this signal has no meaning here: {meanings}");
            }
        });
    }
}

const STATUS_MAX: usize = 500;

/// Everything is served; a successor's predecessor says so for it.
pub(crate) fn ready(status: &str, is_successor: bool) {
    let ready = (!is_successor).then_some(NotifyState::Ready);
    tell(&ready.into_iter().chain([NotifyState::Status(status)]).collect::<Vec<_>>());
}

/// A reload begins. systemd wants to know when, so that it recognises the end of this one.
pub(crate) fn reloading() {
    let now = NotifyState::monotonic_usec_now().ok();
    tell(&[NotifyState::Reloading].into_iter().chain(now).collect::<Vec<_>>());
}

pub(crate) fn reloaded(outcome: &Result<String, String>) {
    let text = match outcome {
        Ok(what) => format!("reloaded: {what}"),
        Err(reason) => format!("reload rejected, the old configuration stays active: {reason}"),
    };
    let line: String = text.replace('\n', "; ").chars().take(STATUS_MAX).collect();
    tell(&[NotifyState::Ready, NotifyState::Status(&line)]);
}

/// The process with this id is the main one from now on, and has the whole time until its first ping is due.
pub(crate) fn succeeded_by(pid: u32) {
    tell(&[NotifyState::Watchdog, NotifyState::MainPid(pid)]);
}

/// Lets `successor` serve the watchdog of this process, which is named by its id; without an id, it is for anyone.
pub(crate) fn pass_watchdog_on(successor: &mut Command) {
    successor.env_remove("WATCHDOG_PID");
}

/// Until this is dropped, tells systemd that the data path answers, if it watches for that. It restarts a proxy that
/// hangs.
pub(crate) fn watch(observer: Observer) -> JoinSet<()> {
    let mut watching = JoinSet::new();
    if let Some(patience) = sd_notify::watchdog_enabled() {
        watching.spawn(ping(observer, patience).boxed());
    }
    watching
}

async fn ping(observer: Observer, patience: Duration) {
    loop {
        // First of all: a successor is not heard until its predecessor has named it.
        tokio::time::sleep(patience / 4).await;
        let mut pulse = std::pin::pin!(observer.pulse());
        if tokio::time::timeout(patience / 2, &mut pulse).await.is_err() {
            tracing::error!("the data path does not answer; systemd will restart this process");
            pulse.await;
        }
        tell(&[NotifyState::Watchdog]);
    }
}

pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Without systemd this does nothing.
fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// Takes its first line, and the others once it is told.
    struct Stuck {
        has_line: mpsc::Sender<()>,
        goes_on: mpsc::Receiver<()>,
        lines: Arc<AtomicUsize>,
    }

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.lines.fetch_add(1, Ordering::SeqCst) == 0 {
                self.has_line.send(()).map_err(io::Error::other)?;
                self.goes_on.recv().map_err(io::Error::other)?;
            }
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_lost_and_counted() {
        static LOST: AtomicUsize = AtomicUsize::new(0);
        let ((has_line, first), (go_on, goes_on), lines) = (mpsc::channel(), mpsc::channel(), Arc::default());
        let stuck = Stuck { has_line, goes_on, lines: Arc::clone(&lines) };
        let (mut writer, guard) = writer(Box::new(stuck), |lines| {
            LOST.fetch_add(lines, Ordering::SeqCst);
        });
        writer.write_all(b"taken").unwrap();
        first.recv().unwrap();
        for _ in 0..WAITING + 7 {
            writer.write_all(b"waits").unwrap();
        }
        go_on.send(()).unwrap();
        drop(guard);
        assert_eq!((lines.load(Ordering::SeqCst), LOST.load(Ordering::SeqCst)), (1 + WAITING, 7));
    }
}
