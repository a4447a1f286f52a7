//! Traces: the requests of a run as a file that `vpfs layout advise` reads.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;
use vpfs_harl::{CsvLine, Op, Request};
use vpfs_testbed::load::run::Transfer;

use crate::exit::Exit;

/// Transfers that wait for the disk; more of them hold the workload up.
const WAITING_MAX: usize = 4096;

/// A file of requests in CSV. A request is on disk, or at least with the system, soon after it is added.
pub(crate) struct TraceFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// What went wrong first; nothing is written after that.
    failed: Option<std::io::Error>,
}

impl TraceFile {
    /// Replaces an existing file.
    pub(crate) fn create(path: &Path) -> Result<Self, Exit> {
        let file = File::create(path).map_err(|error| Exit::cannot_write(path, &error))?;
        let mut trace = Self { path: path.to_owned(), out: BufWriter::new(file), failed: None };
        trace.line(CsvLine::Header);
        Ok(trace)
    }

    pub(crate) fn add(&mut self, request: &Request, file: &str) {
        self.line(CsvLine::Request(request, file));
    }

    fn line(&mut self, line: CsvLine<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.out, "{line}").err();
        }
    }

    /// Fails if anything could not be written.
    pub(crate) fn finish(mut self) -> Result<(), Exit> {
        let flushed = self.out.flush();
        self.failed.map_or(flushed, Err).map_err(|error| Exit::cannot_write(&self.path, &error))
    }
}

/// Writes what runs report, beside them.
pub(super) struct Tracer {
    /// None if no trace is wanted.
    writer: Option<JoinHandle<Result<(), Exit>>>,
}

impl Tracer {
    /// A tracer, and what runs report to.
    pub(super) fn start(path: Option<&Path>) -> Result<(Self, Option<mpsc::Sender<Transfer>>), Exit> {
        let Some(path) = path else { return Ok((Self { writer: None }, None)) };
        let mut file = TraceFile::create(path)?;
        let (sender, mut receiver) = mpsc::channel::<Transfer>(WAITING_MAX);
        let begin = Instant::now();
        let writer = spawn_blocking(move || {
            while let Some(transfer) = receiver.blocking_recv() {
                file.add(&request(&transfer, begin), &transfer.path);
            }
            file.finish()
        });
        Ok((Self { writer: Some(writer) }, Some(sender)))
    }

    /// Waits until all is written; every sender must be gone.
    pub(super) async fn finish(self) -> Result<(), Exit> {
        match self.writer {
            Some(writer) => writer.await.unwrap_or_else(|error| Err(Exit::Failed(format!("the trace: {error}")))),
            None => Ok(()),
        }
    }
}

fn request(transfer: &Transfer, begin: Instant) -> Request {
    let nanoseconds = |at: Instant| u64::try_from(at.duration_since(begin).as_nanos()).unwrap_or(u64::MAX);
    Request {
        rank: transfer.process,
        op: if transfer.is_write { Op::Write } else { Op::Read },
        offset: transfer.extent.offset,
        size: transfer.extent.bytes.into(),
        start: nanoseconds(transfer.began),
        end: nanoseconds(transfer.done),
    }
}
