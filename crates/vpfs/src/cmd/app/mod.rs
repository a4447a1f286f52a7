//! `vpfs app`: the applications of a configuration.

mod which;

use clap::Subcommand;

use crate::exit::Exit;

/// Ask about applications
#[derive(clap::Args)]
pub(crate) struct App {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Which(which::Which),
}

impl App {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Which(which) => which.run(),
        }
    }
}
