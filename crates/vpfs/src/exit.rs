//! How the command ends.

use std::process::ExitCode;

/// Why a subcommand did not do what was asked; each kind has its own exit code.
#[derive(Debug)]
pub(crate) enum Exit {
    /// 1: it was tried and failed.
    Failed(String),
    /// 2: the arguments or the configuration are wrong (clap uses the same code).
    Usage(String),
    /// 3: it ran, but data read back was not what had been written.
    Corrupt(String),
}

impl Exit {
    /// Tells the user, and the code for the caller.
    pub(crate) fn report(&self) -> ExitCode {
        let (code, message) = match self {
            Self::Failed(message) => (1, message),
            Self::Usage(message) => (2, message),
            Self::Corrupt(message) => (3, message),
        };
        eprintln!("vpfs: {message}");
        ExitCode::from(code)
    }
}
