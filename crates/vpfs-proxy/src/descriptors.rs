//! File descriptors: each connection takes two, and without any left the daemon neither accepts nor connects.

use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections: listening sockets, the runtime, the log, files while they are read.
const OTHERS: usize = 64;

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
    let needed = connections.saturating_mul(2).saturating_add(OTHERS) as u64;
    let fits = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If this fails, the limit is what it was.
    if fits(current) || (setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() && fits(maximum)) {
        return;
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    tracing::warn!(
        limit,
        needed,
        "limits.connections does not fit the limit of file descriptors, two for each: raise LimitNOFILE= of the \
         service, or `ulimit -n`, or lower limits.connections"
    );
}
