//! `vpfs layout`: stripes for files on servers that differ.

mod advise;
mod advised;
mod classes;
mod logs;
mod orangefs;
mod picture;
mod show;

use crate::exit::Exit;

/// Find stripes for files on servers of different speed
#[derive(clap::Args)]
pub(crate) struct Layout {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Advise(advise::Advise),
}

impl Layout {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Advise(advise) => advise.run(),
        }
    }
}
