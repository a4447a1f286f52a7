//! Reads logs of requests: columns, fio's iologs and the text of `darshan-dxt-parser` by lines, Darshan's own by
//! regions, all of them compressed or not. Writes CSV.

mod columns;
mod darshan;
mod dxt;
mod fio;
mod packed;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::time::Duration;

pub use self::columns::{Columns, CsvLine, TimeUnit};
pub use self::darshan::{DarshanError, DarshanReader};
pub use self::packed::{Packing, Unpacked};
use crate::trace::{Op, REQUESTS_MAX, Request, TraceError};

/// The most files of a log, and bytes of all their names: more than jobs with a file for each process have.
const FILES_MAX: usize = 1_000_000;
const NAMES_MAX: usize = 256 << 20;
/// The longest name of a file, in bytes: Linux allows no longer path.
const NAME_MAX: usize = 4096;

/// Lines without a request that are read one after another; no log has as many comments.
const IDLE_MAX: u64 = 10_000_000;

/// What to do if this is no log.
const LOGS: &str = "give a CSV file with a header such as rank,op,offset,size,time,end,file, a fio iolog, a Darshan log, \
                    or the output of `darshan-dxt-parser LOG`";

/// The requests of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The requests to each file, in the order of the log.
    pub files: BTreeMap<String, Vec<Request>>,
    /// Requests that move nothing, or whose offset is not known, and that were left out.
    pub left_out: u64,
    /// Whether the log itself says that requests are missing.
    pub is_incomplete: bool,
    /// What else was left out, and what is to be known about how the log was read: a sentence for each.
    pub notes: Vec<String>,
}

/// A problem of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct LogError {
    /// The line, from 1.
    pub line: u64,
    /// The problem and how to fix it.
    pub message: String,
}

/// Reads a log of lines in any known format: push its lines, then [`LogReader::finish`]. Holds the requests, 40 bytes
/// each, and the names of their files.
#[derive(Debug, Default)]
pub struct LogReader {
    line: u64,
    /// Lines since the last request.
    idle: u64,
    columns: Columns,
    format: Option<Format>,
    requests: Requests,
}

#[derive(Debug)]
enum Format {
    Columns(columns::Table),
    Fio(fio::Fio),
    Dxt(dxt::Dxt),
}

impl LogReader {
    /// A reader of logs; those in columns may differ from ours as stated.
    pub fn new(columns: Columns) -> Self {
        Self { columns, ..Self::default() }
    }

    /// Takes the next line, without its end. Names of files need not be UTF-8.
    ///
    /// # Errors
    /// If the line is not of the log's format, or states an impossible request.
    pub fn line(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.line += 1;
        let before = self.requests.count;
        let taken = self.text(String::from_utf8_lossy(bytes).trim());
        self.idle = if self.requests.count == before { self.idle + 1 } else { 0 };
        if self.idle > IDLE_MAX {
            return Err(self.error(format!("{IDLE_MAX} lines without a request; {LOGS}")));
        }
        taken.map_err(|message| self.error(message))
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        match &mut self.format {
            None if text.is_empty() || is_other_comment(text) => Ok(()),
            None => self.first(text),
            Some(Format::Columns(table)) => table.line(text, &mut self.requests),
            Some(Format::Fio(fio)) => fio.line(text, &mut self.requests),
            Some(Format::Dxt(dxt)) => dxt.line(text, &mut self.requests),
        }
    }

    fn first(&mut self, text: &str) -> Result<(), String> {
        if text.starts_with("fio version") {
            self.format = Some(Format::Fio(fio::Fio::new(text)?));
            return Ok(());
        }
        if text.starts_with('#') {
            self.format = Some(Format::Dxt(dxt::Dxt::default()));
            return Ok(());
        }
        let (table, is_request) = columns::Table::new(text, &self.columns)?;
        self.format = Some(Format::Columns(table));
        if is_request { self.text(text) } else { Ok(()) }
    }

    /// The log, after its last line.
    ///
    /// # Errors
    /// If there was no line of any format.
    pub fn finish(self) -> Result<Log, LogError> {
        let Some(format) = self.format else {
            return Err(LogError { line: self.line.max(1), message: format!("the log is empty; {LOGS}") });
        };
        let Requests { files, left_out, is_incomplete, unnamed, .. } = self.requests;
        let (files, mut notes) = match format {
            Format::Dxt(_) => (dxt::one_layer(files), Vec::new()),
            Format::Fio(_) => (files, Vec::new()),
            Format::Columns(table) => (files, table.notes()),
        };
        if unnamed > 0 {
            notes.push(format!(
                "requests left out because the name of their file has more than {NAME_MAX} bytes: {unnamed}"
            ));
        }
        Ok(Log { files, left_out, is_incomplete, notes })
    }

    fn error(&self, message: String) -> LogError {
        LogError { line: self.line, message }
    }
}

/// Whether this is a comment, but not one of Darshan's.
fn is_other_comment(text: &str) -> bool {
    text.starts_with('#') && !text.starts_with("# DXT") && !text.starts_with("# darshan")
}

#[derive(Debug)]
struct Requests<File = String> {
    files: BTreeMap<File, Vec<Request>>,
    count: usize,
    names: usize,
    left_out: u64,
    /// Requests whose file has a name that is too long.
    unnamed: u64,
    is_incomplete: bool,
}

impl<File> Default for Requests<File> {
    fn default() -> Self {
        Self { files: BTreeMap::new(), count: 0, names: 0, left_out: 0, unnamed: 0, is_incomplete: false }
    }
}

impl Requests {
    fn add(&mut self, file: &str, request: Request) -> Result<(), String> {
        if file.len() > NAME_MAX {
            self.unnamed += 1;
            return Ok(());
        }
        let known = self.files.len();
        self.push(file, request)?;
        self.names += if self.files.len() > known { file.len() } else { 0 };
        match self.names > NAMES_MAX {
            true => Err(format!("the names of files have more than {NAMES_MAX} bytes; give a part of the log")),
            false => Ok(()),
        }
    }
}

impl<File: Ord> Requests<File> {
    fn push<Q>(&mut self, file: &Q, request: Request) -> Result<(), String>
    where
        File: Borrow<Q>,
        Q: Ord + ToOwned<Owned = File> + ?Sized,
    {
        request.check().map_err(|error| error.to_string())?;
        if request.size == 0 {
            self.left_out += 1;
            return Ok(());
        }
        self.count += 1;
        if self.count > REQUESTS_MAX {
            return Err(TraceError::TooMany.to_string());
        }
        if let Some(requests) = self.files.get_mut(file) {
            requests.push(request);
            return Ok(());
        }
        if self.files.len() == FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files; give a part of the log"));
        }
        self.files.insert(file.to_owned(), vec![request]);
        Ok(())
    }
}

fn op(text: &str) -> Option<Op> {
    match text {
        "r" | "R" | "read" => Some(Op::Read),
        "w" | "W" | "write" => Some(Op::Write),
        _ => None,
    }
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{what} {} is not a whole number from 0", shown(text)))
}

fn seconds(what: &str, text: &str) -> Result<u64, String> {
    let seconds = text.parse().map_err(|_| format!("{what} {} is not a number of seconds", shown(text)))?;
    nanoseconds(what, seconds)
}

fn nanoseconds(what: &str, seconds: f64) -> Result<u64, String> {
    let time = Duration::try_from_secs_f64(seconds).ok().and_then(|time| u64::try_from(time.as_nanos()).ok());
    time.ok_or_else(|| format!("{what} {seconds:?} is not a number of seconds from 0 to 10^10"))
}

/// Text of a log for a message: quoted, and limited in length.
fn shown(text: &str) -> String {
    format!("{:?}", text.chars().take(60).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn read(text: &str) -> Result<Log, LogError> {
        let mut reader = LogReader::default();
        text.lines().try_for_each(|line| reader.line(line.as_bytes()))?;
        reader.finish()
    }

    pub(super) fn problem(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_log_is_refused() {
        assert_eq!(problem("\n# nothing\n"), "2: the log is empty; ".to_owned() + LOGS);
        assert!(problem("hello").starts_with("1: not a log"), "{}", problem("hello"));
        assert!(LogReader::default().line(b"\xff\xfe").unwrap_err().to_string().starts_with("1: not a log"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            start in prop::sample::select(vec!["", "rank,op,offset,size,time,file", "fio version 3 iolog", "# DXT, file_name: a"]),
            lines in prop::collection::vec("[ -~]{0,60}|[0-9rw ,.x-]{0,40}|X_POSIX 0 write [0-9 .-]{0,40}", 0..6),
            raw in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut reader = LogReader::default();
            let text = lines.iter().map(String::as_bytes).chain([raw.as_slice()]);
            let all_read = std::iter::once(start.as_bytes()).chain(text).all(|line| reader.line(line).is_ok());
            if all_read {
                let _ = reader.finish();
            }
        }
    }
}
