//! Standard output.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::Exit;

/// Prints a text and a line end. A reader that closes the pipe early, such as `head`, is not an error.
pub(crate) fn print(text: impl Display) -> Result<(), Exit> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
