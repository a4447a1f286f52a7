//! Jobs to a set of applications.
//!
//! Requests show where they come from, and sometimes whose they are. So a job that has its nodes for itself is told by
//! their addresses, and one that shares a node also by its user. Two jobs of one user on one node look the same: what
//! happens there counts as that of the older one, and [`Built::unclear`] says so.
//!
//! A mount sees the control groups that slurmd makes, and so tells all jobs of its node apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use vpfs_config::sets::{AppText, IdText, Set};

use crate::jobs::Job;
use crate::settings::Settings;
use crate::template::name_of;

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

/// A job with all its components, and where it runs: hosts' addresses, or names of nodes.
struct Whole<'a, P> {
    job: &'a Job,
    /// The numbers of its components.
    ids: Vec<u64>,
    places: BTreeSet<P>,
}

/// The nodes of all jobs, each once.
pub fn nodes_of(jobs: &[Job]) -> BTreeSet<String> {
    jobs.iter().flat_map(|job| &job.nodes).cloned().collect()
}

/// The set for `jobs`, by age; `addresses` has those of each node's client host, or none. O(jobs and their nodes).
pub fn build(jobs: &[Job], settings: &Settings, addresses: &dyn Fn(&str) -> Vec<IpAddr>) -> Built {
    let mut built = Built::default();
    let wholes = wholes(jobs, |node| {
        let found = addresses(node);
        if found.is_empty() {
            built.unknown_nodes.insert(node.to_owned());
        }
        found
    });
    let mut at_host = HashMap::<IpAddr, Vec<usize>>::new();
    for (index, whole) in wholes.iter().enumerate() {
        whole.places.iter().for_each(|host| at_host.entry(*host).or_default().push(index));
    }
    let mut hosts_left = vpfs_config::HOSTS_LIMIT;
    for whole in wholes.iter().filter(|whole| !whole.places.is_empty()) {
        let Some(left) = hosts_left.checked_sub(whole.places.len()).filter(|_| built.apps.len() < Set::APPS) else {
            built.left_out += 1;
            continue;
        };
        hosts_left = left;
        let is_shared = whole.places.iter().any(|host| at_host[host].len() > 1);
        built.apps.push(AppText {
            clients: whole.places.iter().map(ToString::to_string).collect(),
            uids: is_shared.then_some(IdText::One(whole.job.uid)).into_iter().collect(),
            ..app(whole.job, settings)
        });
    }
    built.unclear = unclear(&wholes, &at_host);
    built
}

/// The applications of each node's mount, by age. O(jobs and their nodes).
pub fn build_for_mounts(jobs: &[Job], settings: &Settings) -> HashMap<String, Vec<AppText>> {
    let mut at_node = HashMap::<String, Vec<AppText>>::new();
    for whole in wholes(jobs, |node| [node.to_owned()]) {
        let jobs = whole.ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect();
        let app = AppText { jobs, ..app(whole.job, settings) };
        for node in whole.places {
            at_node.entry(node).or_default().push(app.clone());
        }
    }
    at_node
}

/// Components of heterogeneous jobs are one: they run as one program.
fn wholes<P: Ord, I: IntoIterator<Item = P>>(jobs: &[Job], mut places: impl FnMut(&str) -> I) -> Vec<Whole<'_, P>> {
    let mut wholes = Vec::<Whole<'_, P>>::new();
    let mut by_name = HashMap::<&str, usize>::new();
    for job in jobs {
        let index = *by_name.entry(&job.name).or_insert_with(|| {
            wholes.push(Whole { job, ids: Vec::new(), places: BTreeSet::new() });
            wholes.len() - 1
        });
        wholes[index].ids.push(job.id);
        wholes[index].places.extend(job.nodes.iter().flat_map(|node| places(node)));
    }
    wholes
}

/// What a job gets.
fn app(job: &Job, settings: &Settings) -> AppText {
    let rule = settings.rule_for(job);
    AppText {
        name: job.name.clone(),
        share: rule.and_then(|rule| rule.share_of(job)),
        weight: Some(rule.map_or(1, |rule| rule.weight)),
        cap: rule.and_then(|rule| rule.cap).map(|cap| cap.to_string()),
        account: (!job.account.is_empty()).then(|| name_of(&job.account)),
        user: (!job.user.is_empty()).then(|| name_of(&job.user)),
        ..AppText::default()
    }
}

fn unclear(wholes: &[Whole<'_, IpAddr>], at_host: &HashMap<IpAddr, Vec<usize>>) -> Vec<Unclear> {
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
