//! Exit codes of the command.

use std::process::ExitCode;

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
    /// Prints the error for the user and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let (code, message) = match self {
            Self::Failed(message) => (1, message),
            Self::Usage(message) => (2, message),
            Self::Corrupt(message) => (3, message),
            Self::Unresolved(message) => (4, message),
        };
        eprintln!("vpfs: {message}");
        ExitCode::from(code)
    }
}
