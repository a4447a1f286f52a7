//! `vpfs generate`: man pages and completions for packages, from the definitions of the commands themselves.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

use crate::exit::Exit;

/// Write man pages and completions for bash, zsh and fish
#[derive(clap::Args)]
pub(crate) struct Generate {
    /// The directory for man/, bash/, zsh/ and fish/; files that exist are replaced
    directory: PathBuf,
}

impl Generate {
    pub(crate) fn run(&self, command: clap::Command) -> Result<(), Exit> {
        let failed = |error| Exit::Failed(format!("cannot write to {}: {error}", self.directory.display()));
        write(&self.directory, command).map_err(failed)
    }
}

fn write(directory: &Path, command: clap::Command) -> io::Result<()> {
    // `vpfs help top` would have a page of its own.
    let mut command = command.disable_help_subcommand(true);
    for (shell, name) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let directory = directory.join(name);
        fs::create_dir_all(&directory)?;
        clap_complete::generate_to(shell, &mut command, "vpfs", directory)?;
    }
    let directory = directory.join("man");
    fs::create_dir_all(&directory)?;
    clap_mangen::generate_to(command, &directory)?;
    for page in fs::read_dir(directory)? {
        let page = page?.path();
        fs::write(&page, with_lines(&fs::read_to_string(&page)?))?;
    }
    Ok(())
}

/// The page with examples line by line, as they are printed by `--help`.
fn with_lines(page: &str) -> String {
    page.replace(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n").replace("\nExamples:\n", "\n")
}
