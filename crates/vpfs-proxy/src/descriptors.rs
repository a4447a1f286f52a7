//! File descriptors: each connection takes two, and without any left the daemon neither accepts nor connects.

use std::{fmt, io};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::stream;

/// Descriptors for everything but connections: pipes, listening sockets, the runtime, the log, files while they are
/// read.
const OTHERS: usize = 64 + 2 * stream::MOST;

/// The process or the system has no file descriptor left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Process,
    System,
}

impl Exhausted {
    /// Whether an operation failed for this reason.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::Process),
            Errno::NFILE => Some(Self::System),
            _ => None,
        }
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => {
                let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                write!(f, "out of file descriptors (limit {limit}): raise LimitNOFILE= of the service, or `ulimit -n`")
            }
            Self::System => f.write_str("the system is out of file descriptors: raise fs.file-max"),
        }
    }
}

/// Raises the soft limit of the process to the hard one, if `connections` need it; warns if that is not enough.
pub(crate) fn provide(connections: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|limit| limit < needed(connections)) {
        // Permitted to every process; if it fails nevertheless, the limit is what it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    if let Some(shortage) = shortage(connections) {
        tracing::warn!("{shortage}");
    }
}

/// What is missing if the process may not have two descriptors for each connection.
pub fn shortage(connections: usize) -> Option<String> {
    let needed = needed(connections);
    let limit = getrlimit(Resource::Nofile).maximum.filter(|limit| *limit < needed)?;
    Some(format!(
        "limits.connections needs {needed} file descriptors, two for each, but the limit is {limit}: raise LimitNOFILE= of \
         the service, or `ulimit -n`, or lower limits.connections"
    ))
}

/// How many a process needs for so many connections.
pub fn needed(connections: usize) -> u64 {
    connections.saturating_mul(2).saturating_add(OTHERS) as u64
}
