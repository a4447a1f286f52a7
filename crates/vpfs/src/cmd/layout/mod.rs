//! `vpfs layout`: how files are spread over servers that differ.

mod advise;
mod advised;
mod answer;
mod classes;
mod copy;
mod logs;
mod orangefs;
mod picture;
mod show;
mod size;
mod strips;
mod system;

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
    Advise(advise::Advise),
    Copy(copy::CopyArgs),
}

impl Layout {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Advise(advise) => advise.run(),
            Command::Copy(copy) => copy.run(),
        }
    }
}
