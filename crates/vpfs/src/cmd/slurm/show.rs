//! `vpfs slurm show`: what the agent would push.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use vpfs_config::sets::AppText;
use vpfs_slurm::{Built, Jobs, build, nodes_of};

use super::hosts::Hosts;
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

/// The names in one line.
const NAMED: usize = 5;

impl Show {
    pub(super) fn run(&self) -> Result<(), Exit> {
        let settings = load(&self.rules.rules)?;
        let Jobs(jobs) = match &self.squeue {
            None => query::jobs(settings.timeout),
            Some(path) => {
                let read = File::open(path).map_err(|error| error.to_string());
                let read = read.and_then(|file| Jobs::parse(BufReader::new(file)));
                read.map_err(|error| format!("{} {error}", path.display()))
            }
        }
        .map_err(Exit::Failed)?;
        let addresses = runtime()?.block_on(Hosts::default().find(&nodes_of(&jobs), &settings));
        let built = build(&jobs, &settings, &|node| addresses.get(node).cloned().unwrap_or_default());
        print(table(&built.apps))?;
        lacks(&built).into_iter().try_for_each(print)
    }
}

fn table(apps: &[AppText]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["job", "share", "weight", "cap", "clients", "user"]);
    for app in apps {
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

/// What the rules and the nodes leave open, in words.
pub(super) fn lacks(Built { unclear, unknown_nodes, left_out, .. }: &Built) -> Vec<String> {
    let mut lines: Vec<String> = unclear
        .iter()
        .take(NAMED)
        .map(|found| {
            let others = names(&found.others);
            let (user, first) = (plain(&found.user), &found.counts_as);
            format!(
                "jobs of {user} share nodes: where {first} runs, {others} cannot be told apart from it and count as it"
            )
        })
        .collect();
    if unclear.len() > NAMED {
        lines.push(format!("and {} more jobs share nodes with others of the same user", unclear.len() - NAMED));
    }
    if !unknown_nodes.is_empty() {
        let nodes: Vec<String> = unknown_nodes.iter().map(|node| plain(node)).collect();
        lines.push(format!("jobs are not recognised on nodes whose addresses cannot be found: {}", names(&nodes)));
    }
    if *left_out > 0 {
        lines.push(format!("{left_out} jobs are too many for one set, and get what clients without a rule get"));
    }
    lines
}

fn names(all: &[String]) -> String {
    let shown = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
