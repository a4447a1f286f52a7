//! Jobs to a set of applications.
//!
//! Requests show where they come from, and sometimes whose they are. So a job that has its nodes for itself is told by
//! their addresses, and one that shares a node also by its user. Two jobs of one user on one node look the same: what
//! happens there counts as that of the older one, and [`Built::unclear`] says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use vpfs_config::HostList;
use vpfs_config::sets::{AppText, IdText, Set};

use crate::jobs::Job;
use crate::settings::Settings;

/// A set, and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// By age: of two that match a request, the older one counts.
    pub apps: Vec<AppText>,
    /// Jobs that look the same on some nodes.
    pub unclear: Vec<Unclear>,
    /// Nodes whose address is not known; jobs are not recognised there.
    pub unknown_nodes: BTreeSet<String>,
    /// Jobs that do not fit the limits of a set; the newest ones.
    pub left_out: usize,
}

/// Several jobs of one user that share a client host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// Whose.
    pub user: String,
    /// As which of them everything counts that happens there.
    pub counts_as: String,
    /// The others.
    pub others: Vec<String>,
}

/// A job with all its components.
struct Whole<'a> {
    job: &'a Job,
    hosts: BTreeSet<IpAddr>,
}

/// The nodes of all jobs, each once.
pub fn nodes_of(jobs: &[Job]) -> BTreeSet<String> {
    jobs.iter().flat_map(|job| nodes(&job.nodes)).collect()
}

/// The most nodes of one job.
const NODES: usize = 65_536;

fn nodes(list: &str) -> Vec<String> {
    let Ok(list) = HostList::parse(list, NODES) else { return Vec::new() };
    list.names.into_iter().map(|(name, _)| name).chain(list.nets.iter().map(|net| net.addr().to_string())).collect()
}

/// The set for `jobs`, by age; `addresses` has those of each node's client host, or none. O(jobs and their nodes).
pub fn build(jobs: &[Job], settings: &Settings, addresses: &dyn Fn(&str) -> Vec<IpAddr>) -> Built {
    let mut built = Built::default();
    let wholes = wholes(jobs, addresses, &mut built.unknown_nodes);
    let mut at_host = HashMap::<IpAddr, Vec<usize>>::new();
    for (index, whole) in wholes.iter().enumerate() {
        whole.hosts.iter().for_each(|host| at_host.entry(*host).or_default().push(index));
    }
    let mut hosts_left = vpfs_config::HOSTS_LIMIT;
    for whole in wholes.iter().filter(|whole| !whole.hosts.is_empty()) {
        let Some(left) = hosts_left.checked_sub(whole.hosts.len()).filter(|_| built.apps.len() < Set::APPS) else {
            built.left_out += 1;
            continue;
        };
        hosts_left = left;
        let is_shared = whole.hosts.iter().any(|host| at_host[host].len() > 1);
        built.apps.push(app(whole, is_shared, settings));
    }
    built.unclear = unclear(&wholes, &at_host);
    built
}

/// Components of heterogeneous jobs are one: they run as one program.
fn wholes<'a>(
    jobs: &'a [Job],
    addresses: &dyn Fn(&str) -> Vec<IpAddr>,
    unknown: &mut BTreeSet<String>,
) -> Vec<Whole<'a>> {
    let mut wholes = Vec::<Whole<'a>>::new();
    let mut by_name = HashMap::<&str, usize>::new();
    for job in jobs {
        let index = *by_name.entry(&job.name).or_insert_with(|| {
            wholes.push(Whole { job, hosts: BTreeSet::new() });
            wholes.len() - 1
        });
        for node in nodes(&job.nodes) {
            let found = addresses(&node);
            if found.is_empty() {
                unknown.insert(node);
            }
            wholes[index].hosts.extend(found);
        }
    }
    wholes
}

fn app(Whole { job, hosts }: &Whole<'_>, is_shared: bool, settings: &Settings) -> AppText {
    let rule = settings.rule_for(job);
    AppText {
        name: job.name.clone(),
        share: rule.and_then(|rule| rule.share_of(job)),
        weight: Some(rule.map_or(1, |rule| rule.weight)),
        cap: rule.and_then(|rule| rule.cap).map(|cap| cap.to_string()),
        clients: hosts.iter().map(ToString::to_string).collect(),
        uids: is_shared.then_some(IdText::One(job.uid)).into_iter().collect(),
        gids: Vec::new(),
    }
}

fn unclear(wholes: &[Whole<'_>], at_host: &HashMap<IpAddr, Vec<usize>>) -> Vec<Unclear> {
    let mut same = BTreeMap::<usize, BTreeSet<usize>>::new();
    for there in at_host.values().filter(|there| there.len() > 1) {
        let mut first = HashMap::<u32, usize>::new();
        for &index in there {
            let oldest = *first.entry(wholes[index].job.uid).or_insert(index);
            if oldest != index {
                same.entry(oldest).or_default().insert(index);
            }
        }
    }
    let name = |index: usize| wholes[index].job.name.clone();
    let of = |(oldest, others): (usize, BTreeSet<usize>)| Unclear {
        user: wholes[oldest].job.user.clone(),
        counts_as: name(oldest),
        others: others.into_iter().map(name).collect(),
    };
    same.into_iter().map(of).collect()
}
