//! `vpfs layout`: how files are spread over servers that differ.

mod copy;

use clap::Subcommand;

use crate::exit::Exit;

/// Spread files better over servers that differ
#[derive(clap::Args)]
pub(crate) struct Layout {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Copy(copy::CopyArgs),
}

impl Layout {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Copy(copy) => copy.run(),
        }
    }
}
