//! What each server is to have for the jobs that run.

use vpfs_config::sets::AppText;
use vpfs_config::{Config, Server};
use vpfs_core::ServerId;
use vpfs_slurm::{Built, Job, Settings, Unreadable, build, build_for_mounts};

use super::hosts::Hosts;
use crate::print::plain;

/// Servers that get the same set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) servers: Vec<ServerId>,
    pub(super) apps: Vec<AppText>,
}

/// The sets of all servers.
#[derive(Debug)]
pub(super) struct Sets {
    pub(super) groups: Vec<Group>,
    /// What the rules and the nodes leave open, in words.
    pub(super) lacks: Vec<String>,
}

/// The names in one line.
const NAMED: usize = 5;

impl Sets {
    /// All proxies get all jobs by their nodes' addresses; the mount of each node gets its own by their control groups.
    pub(super) fn of(jobs: &[Job], config: &Config, settings: &Settings, hosts: &Hosts) -> Self {
        if have_own_jobs(config) {
            return Self::of_mounts(jobs, config, settings);
        }
        let mut built = build(jobs, settings, &|node| hosts.addresses(node));
        // Those that are still looked up are not missing yet.
        built.unknown_nodes.retain(|node| hosts.is_missing(node));
        let (servers, apps) = (config.servers().map(|(id, _)| id).collect(), std::mem::take(&mut built.apps));
        Self { groups: vec![Group { servers, apps }], lacks: lacks(&built) }
    }

    fn of_mounts(jobs: &[Job], config: &Config, settings: &Settings) -> Self {
        let mut at_node = build_for_mounts(jobs, settings);
        let mut group = |(id, server): (ServerId, &Server)| {
            let host = server.address.host();
            // Slurm's names have no domain.
            let short = host.split('.').next().unwrap_or(host);
            let apps = at_node.remove(host).or_else(|| at_node.remove(short)).unwrap_or_default();
            Group { servers: vec![id], apps }
        };
        let groups = config.servers().map(&mut group).collect();
        let mut without: Vec<String> = at_node.into_keys().map(|node| plain(&node)).collect();
        without.sort();
        let lacks =
            (!without.is_empty()).then(|| format!("nodes with jobs that are no mount:// server: {}", names(&without)));
        Self { groups, lacks: lacks.into_iter().collect() }
    }
}

fn lacks(Built { unclear, unknown_nodes, left_out, .. }: &Built) -> Vec<String> {
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

/// The rules, in which accounts choose only shares that are in the configuration unless Slurm checks accounts.
pub(super) fn with_proven_accounts(settings: Settings, config: &Config, are_enforced: bool) -> Settings {
    if are_enforced || !settings.trusts_accounts() {
        return settings;
    }
    let top = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    settings.distrusting_accounts(config.shares.iter().map(|share| top(&share.path)).collect())
}

/// Whether each server gets the jobs of its node, for which no address is needed.
pub(in crate::cmd) fn have_own_jobs(config: &Config) -> bool {
    config.servers.iter().all(Server::is_mount)
}

/// Why a job is in no set.
pub(super) fn without_share(Unreadable { id, why }: &Unreadable) -> String {
    let job = id.map_or("a job without a number".to_owned(), |id| format!("job {id}"));
    format!("{job} gets what clients without a rule get, because what squeue prints of it cannot be read: {why}")
}

pub(in crate::cmd) fn names(all: &[String]) -> String {
    let shown = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
