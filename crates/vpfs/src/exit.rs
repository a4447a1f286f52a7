//! Exit codes of the command.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What each exit code means, for man pages.
pub(crate) const CODES: [(u8, &str); 5] = [
    (0, "It succeeded."),
    (1, "The operation failed, or a check did; the message says why."),
    (2, "The arguments or the configuration are wrong."),
    (3, "Data that was read back differs from what was written."),
    (4, "The configuration is valid, but host names cannot be resolved now."),
];

/// Why a subcommand failed; each kind has its own exit code.
#[derive(Debug)]
pub(crate) enum Exit {
    /// 1: the operation failed.
    Failed(String),
    /// 2: the arguments or the configuration are wrong (clap uses the same code).
    Usage(String),
    /// 3: it ran, but data read back differs from what was written.
    Corrupt(String),
    /// 4: the configuration is valid, but host names can't be resolved now.
    Unresolved(String),
}

impl Exit {
    /// A file that cannot be written.
    pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("cannot write {}: {error}", path.display()))
    }

    /// Prints the error for the user and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("vpfs: {self}");
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Corrupt(_) => 3,
            Self::Unresolved(_) => 4,
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) | Self::Usage(message) | Self::Corrupt(message) | Self::Unresolved(message) => {
                f.write_str(message)
            }
        }
    }
}
