//! Structured logs on standard error, or in the journal of systemd with their fields. A thread of its own writes them:
//! whatever takes them may stop doing so, and nothing else waits for it.

use std::fs::File;
use std::io;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::{Registry, reload};
use vpfs_config::LogLevel;
use vpfs_proxy::admin::events::Events;

use crate::exit::Exit;

/// Overrides every configured level: levels by target, such as `warn,vpfs_proxy=debug`.
const VARIABLE: &str = "VPFS_LOG";

/// Lines that wait for the thread that writes them. More than these are lost, and counted.
const WAITING: usize = 4096;

/// Changes the level of a running daemon.
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
pub(crate) fn start(level: LogLevel, json: bool, events: &Events) -> Result<LogSwitch, Exit> {
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

/// Where the thread writes to.
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
