//! `vpfs slurm`: jobs get shares.

mod agent;
mod files;
mod hosts;
mod pushing;
mod query;
mod sets;
mod show;
mod wake;

pub(in crate::cmd) use files::{At, Files, look_at};
pub(in crate::cmd) use hosts::Hosts;
pub(in crate::cmd) use query::{addresses, are_accounts_enforced, settings_of_slurm};
pub(in crate::cmd) use sets::{have_own_jobs, names};

use std::path::{Path, PathBuf};

use clap::Subcommand;
use vpfs_config::read_text;
use vpfs_slurm::Settings;

use crate::exit::Exit;

/// Give running jobs of Slurm their shares of the storage
///
/// The agent runs beside slurmctld. It reads the running jobs, maps them to weights by rules, and pushes them to all
/// proxies, or to the mounts on their nodes, which keep them for some minutes if it ends.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs slurm show                  what running jobs get by the rules of /etc/vpfs/slurm.toml\n  \
    vpfs slurm agent                 push it, at once when a job starts, and every 30 seconds\n  \
    PrologSlurmctld=/usr/local/sbin/vpfs-slurm-wake     in slurm.conf: a script that runs `vpfs slurm wake`")]
pub(crate) struct Slurm {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Agent(agent::Agent),
    Show(show::Show),
    Wake(wake::Wake),
}

impl Slurm {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Agent(agent) => agent.run(),
            Command::Show(show) => show.run(),
            Command::Wake(wake) => {
                wake.run();
                Ok(())
            }
        }
    }
}

/// The rules.
#[derive(clap::Args)]
struct Rules {
    /// The rules and settings, see docs/slurm.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/slurm.toml")]
    rules: PathBuf,
}

fn load(rules: &Path) -> Result<Settings, Exit> {
    let file = rules.display().to_string();
    let text = read_text(rules).map_err(|error| Exit::Usage(format!("{file}: cannot be read: {error}")))?;
    let folder = rules.parent().unwrap_or(Path::new(""));
    Settings::parse(&file, &text, folder).map_err(|problems| Exit::Usage(format!("invalid rules\n{problems}")))
}
