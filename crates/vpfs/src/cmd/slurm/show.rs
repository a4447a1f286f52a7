//! `vpfs slurm show`: what the agent would push.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use vpfs_slurm::{Jobs, nodes_of};

use super::files::load_config;
use super::hosts::Hosts;
use super::sets::{Group, Sets, have_own_jobs, with_proven_accounts, without_share};
use super::{Rules, load, query};
use crate::cmd::app::{some, users};
use crate::cmd::runtime;
use crate::exit::Exit;
use crate::print::{plain, print};

/// Show what running jobs get by the rules, and which cannot be told apart; changes nothing
#[derive(clap::Args)]
pub(super) struct Show {
    #[command(flatten)]
    rules: Rules,

    /// Jobs from a file that `squeue --json` printed, instead of those that run now
    #[arg(long, value_name = "FILE")]
    squeue: Option<PathBuf>,
}

impl Show {
    pub(super) fn run(&self) -> Result<(), Exit> {
        let settings = load(&self.rules.rules)?;
        let config = load_config(&settings)?;
        let Jobs { jobs, unreadable } = match &self.squeue {
            None => query::jobs(settings.timeout),
            Some(path) => {
                let read = File::open(path).map_err(|error| error.to_string());
                let read = read.and_then(Jobs::parse);
                read.map_err(|error| format!("{} {error}", path.display()))
            }
        }
        .map_err(Exit::Failed)?;
        // A file may be of another cluster.
        let are_enforced = self.squeue.is_some()
            || !settings.trusts_accounts()
            || query::settings_of_slurm(settings.timeout).is_ok_and(|told| query::are_accounts_enforced(&told));
        let settings = with_proven_accounts(settings, &config, are_enforced);
        let runtime = runtime()?;
        let sets = runtime.block_on(async {
            let mut hosts = Hosts::new(settings.clone());
            if !have_own_jobs(&config) {
                hosts.want(nodes_of(&jobs));
                hosts.settle().await;
            }
            Sets::of(&jobs, &config, &settings, &hosts)
        });
        runtime.shutdown_background();
        print(table(&sets.groups))?;
        sets.lacks.into_iter().chain(unreadable.iter().map(without_share)).try_for_each(print)
    }
}

/// A row for each job, also if it is on several mounts.
fn table(groups: &[Group]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["job", "share", "weight", "cap", "clients", "user"]);
    let mut shown = BTreeSet::new();
    let apps = groups.iter().flat_map(|group| &group.apps);
    for app in apps.filter(|app| shown.insert(&app.name)) {
        let cells = [
            app.name.clone(),
            app.share.clone().unwrap_or_default(),
            app.weight.unwrap_or(1).to_string(),
            app.cap.clone().unwrap_or_default(),
            some(&app.clients),
            some(&users(app)),
        ];
        table.add_row(cells.map(|cell| plain(&cell)));
    }
    table
}
