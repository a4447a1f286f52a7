//! `vpfs layout`: how files are spread over servers that differ.

mod advise;
mod advised;
mod answer;
mod check;
mod classes;
mod copy;
mod join;
pub(super) mod logs;
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
    Check(check::Check),
    Copy(copy::CopyArgs),
    Join(join::Join),
}

impl Layout {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Advise(advise) => advise.run(),
            Command::Check(check) => check.run(),
            Command::Copy(copy) => copy.run(),
            Command::Join(join) => join.run(),
        }
    }
}
