//! The persistent form of a namespace: one append-only log, compacted when it is opened.
//!
//! Changes are appended to a buffer in the order they were made; a thread writes the buffer to the file, many changes
//! at a time, and publishes how much it has written. A crash of the process loses nothing that was acknowledged. A
//! crash of the machine may lose the last changes, as nothing waits for the disk itself, and leaves a log that is cut
//! at the first torn record.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::watch;

use super::{Namespace, Record};

const FILE: &str = "namespace.log";

/// The log while it is in use. Dropping the last handle writes what is buffered and ends the thread.
#[derive(Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
    written: watch::Receiver<Progress>,
}

#[derive(Debug, Default)]
struct Shared {
    buffer: Mutex<Buffer>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Number of records appended so far.
    records: u64,
    closed: bool,
}

/// How much has been written to the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Progress {
    /// Number of records in the file.
    Written(u64),
    /// A write failed; nothing more will be written.
    Failed,
}

/// The log could not be written; later changes are in memory only.
#[derive(Debug)]
pub(crate) struct JournalFailed;

impl Journal {
    /// Reads the log in `directory` into `namespace`, rewrites it in its shortest form, and opens it for appending.
    pub(crate) fn open(directory: &Path, namespace: &mut Namespace, now: u64) -> io::Result<Arc<Self>> {
        fs::create_dir_all(directory)?;
        let path = directory.join(FILE);
        match fs::read(&path) {
            Ok(log) => replay(&log, namespace)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        write_snapshot(&path, namespace, now)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        let shared = Arc::new(Shared::default());
        let (progress, written) = watch::channel(Progress::Written(0));
        let writing = Arc::clone(&shared);
        thread::spawn(move || writing.write_to(file, &progress));
        Ok(Arc::new(Self { shared, written }))
    }

    /// Appends a change; calls must be in the order of the changes.
    pub(crate) fn append(&self, record: Record) {
        let mut buffer = self.shared.lock();
        record.append_to(&mut buffer.bytes);
        buffer.records += 1;
        self.shared.filled.notify_one();
    }

    /// Waits until everything appended so far is in the file.
    pub(crate) async fn catch_up(&self) -> Result<(), JournalFailed> {
        let target = self.shared.lock().records;
        let mut written = self.written.clone();
        let reached = |progress: &Progress| match progress {
            Progress::Written(records) => *records >= target,
            Progress::Failed => true,
        };
        match written.wait_for(reached).await.as_deref() {
            Ok(Progress::Written(_)) => Ok(()),
            Ok(Progress::Failed) | Err(_) => Err(JournalFailed),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut file: File, progress: &watch::Sender<Progress>) {
        while let Some((bytes, records)) = self.take() {
            if let Err(error) = file.write_all(&bytes) {
                tracing::error!(%error, "the namespace log cannot be written, changes are refused from now on");
                progress.send_replace(Progress::Failed);
                return;
            }
            progress.send_replace(Progress::Written(records));
        }
    }

    /// Waits for bytes and takes all of them; `None` when closed and empty.
    fn take(&self) -> Option<(Vec<u8>, u64)> {
        let mut buffer = self.lock();
        while buffer.bytes.is_empty() {
            if buffer.closed {
                return None;
            }
            buffer = self.filled.wait(buffer).unwrap_or_else(PoisonError::into_inner);
        }
        Some((std::mem::take(&mut buffer.bytes), buffer.records))
    }
}

fn replay(mut log: &[u8], namespace: &mut Namespace) -> io::Result<()> {
    while let Some(record) = Record::split_off(&mut log) {
        if !namespace.replay(record) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the namespace log is inconsistent"));
        }
    }
    if !log.is_empty() {
        tracing::warn!(bytes = log.len(), "the namespace log ends in a torn record, which is dropped");
    }
    Ok(())
}

/// Replaces the log atomically, so that a crash leaves either the old one or the new one.
fn write_snapshot(path: &Path, namespace: &Namespace, now: u64) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut log = Vec::new();
    for record in namespace.snapshot(now) {
        record.append_to(&mut log);
    }
    let mut file = File::create(&temporary)?;
    file.write_all(&log)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
