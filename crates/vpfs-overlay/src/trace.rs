//! A record of requests, beside them: it never holds one up.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use vpfs_harl::{CsvLine, Op, REQUESTS_MAX, Request};

/// Requests that wait for the disk. What comes while there are so many is counted, not recorded.
const WAITING_MAX: usize = 1 << 16;

/// Records requests in a CSV file that `vpfs layout advise` reads.
#[derive(Debug)]
pub struct Recorder {
    sender: SyncSender<(Request, Arc<str>)>,
    begin: Instant,
    lost: Arc<AtomicU64>,
}

/// The thread that writes them; it ends when the recorder is dropped.
#[derive(Debug)]
pub struct Writer(JoinHandle<io::Result<()>>);

impl Recorder {
    /// Writes to a new file, at most as many requests as can be read again, 1.5 GB.
    ///
    /// # Errors
    /// If the file exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<(Self, Writer)> {
        let file = File::create_new(path)?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let lost = Arc::default();
        let counted = Arc::clone(&lost);
        let writer =
            std::thread::Builder::new().name("trace".into()).spawn(move || write(file, &receiver, &counted))?;
        Ok((Self { sender, begin: Instant::now(), lost }, Writer(writer)))
    }

    /// Nanoseconds since the record began.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Records a request that is done now.
    pub(crate) fn add(&self, file: &Arc<str>, op: Op, pid: u32, (offset, size): (u64, u64), start: u64) {
        let request = Request { rank: pid, op, offset, size, start, end: self.now() };
        if self.sender.try_send((request, Arc::clone(file))).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Writer {
    /// Waits until all is written.
    ///
    /// # Errors
    /// The first one of writing.
    pub fn finish(self) -> io::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }
}

/// Processes become ranks in the order of their first requests.
fn write(file: File, receiver: &Receiver<(Request, Arc<str>)>, lost: &AtomicU64) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let (mut ranks, mut count) = (HashMap::new(), 0);
    writeln!(out, "{}", CsvLine::Header)?;
    for (mut request, file) in receiver {
        if count == REQUESTS_MAX {
            lost.fetch_add(1, Relaxed);
            continue;
        }
        count += 1;
        let next = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        request.rank = *ranks.entry(request.rank).or_insert(next);
        writeln!(out, "{}", CsvLine::Request(&request, &file))?;
    }
    out.flush()?;
    match lost.load(Relaxed) {
        0 => tracing::info!(requests = count, "the trace is complete"),
        lost => tracing::warn!(requests = count, lost, "the trace is incomplete"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advise_reads_what_is_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.csv");
        let (recorder, writer) = Recorder::create(&path).unwrap();
        let file = Arc::from("/scratch/a, \"b\"");
        recorder.add(&file, Op::Write, 4711, (0, 512), recorder.now());
        recorder.add(&file, Op::Read, 12, (512, 7), recorder.now());
        recorder.add(&file, Op::Read, 4711, (0, 7), recorder.now());
        drop(recorder);
        writer.finish().unwrap();
        let mut reader = vpfs_harl::LogReader::default();
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().for_each(|line| reader.line(line.as_bytes()).unwrap());
        let log = reader.finish().unwrap();
        let seen: Vec<_> = log.files[&*file].iter().map(|r| (r.rank, r.op, r.offset, r.size)).collect();
        assert_eq!(seen, [(0, Op::Write, 0, 512), (1, Op::Read, 512, 7), (0, Op::Read, 0, 7)]);
        assert!(Recorder::create(&path).is_err(), "an older trace is kept");
    }
}
