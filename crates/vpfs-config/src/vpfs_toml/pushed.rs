//! Applications that were pushed while the daemon runs, and which client belongs to which.

use std::collections::HashMap;
use std::net::IpAddr;

use super::app_entry::AppEntry;
use super::client::Client;
use super::program::Program;
use super::rule::{Matcher, Meanings, Rule};

/// The applications of all sets in order, found by the addresses, users and jobs in their rules.
#[derive(Debug, Default)]
pub struct PushedApps {
    apps: Vec<AppEntry>,
    matchers: Vec<Matcher>,
    by_name: HashMap<String, usize>,
    /// Those with single addresses, in order.
    by_address: HashMap<IpAddr, Vec<usize>>,
    /// Those without clients, by single users, in order.
    by_uid: HashMap<u32, Vec<usize>>,
    /// Those with single jobs, in order.
    by_job: HashMap<u32, Vec<usize>>,
    /// Those with networks, or ranges of users, or only groups, in order.
    others: Vec<usize>,
}

impl PushedApps {
    /// Indexes applications by their rules. O(hosts and users in all rules).
    pub(crate) fn new<'a>(apps: impl Iterator<Item = (AppEntry, &'a Rule)>) -> Self {
        let mut all = Self::default();
        let without_names = Meanings { hosts: &|_| Vec::new(), accounts: &|_| None, ports: &[] };
        for (index, (app, rule)) in apps.enumerate() {
            all.index(index, rule);
            all.matchers.push(Matcher::new(rule, &without_names));
            all.by_name.insert(app.name.clone(), index);
            all.apps.push(app);
        }
        all
    }

    fn index(&mut self, index: usize, rule: &Rule) {
        match (&rule.clients, &rule.uids, &rule.jobs) {
            (_, _, Some(jobs)) if jobs.are_single() => {
                for (job, _) in jobs.ranges() {
                    self.by_job.entry(*job).or_default().push(index);
                }
            }
            (Some(clients), ..) if clients.nets.iter().all(|net| net.prefix_len() == net.max_prefix_len()) => {
                for net in &clients.nets {
                    self.by_address.entry(net.addr().to_canonical()).or_default().push(index);
                }
            }
            (None, Some(uids), None) if uids.are_single() => {
                for (uid, _) in uids.ranges() {
                    self.by_uid.entry(*uid).or_default().push(index);
                }
            }
            _ => self.others.push(index),
        }
    }

    /// The position of the first application that matches a client. O(those that share its address or its user, and
    /// those with networks).
    pub(crate) fn find(&self, client: &Client<'_>) -> Option<usize> {
        let by_uid = client.uid.and_then(|uid| self.by_uid.get(&uid));
        self.first([self.by_address.get(&client.ip), by_uid], |matcher| matcher.matches(client))
    }

    /// The positions of all applications that match a client. O(applications).
    pub fn matching(&self, client: &Client<'_>) -> impl Iterator<Item = usize> {
        self.matchers.iter().enumerate().filter(|(_, matcher)| matcher.matches(client)).map(|(index, _)| index)
    }

    /// The same for a program that uses a mount. O(those of its job or its user, and those with networks).
    pub(crate) fn find_program(&self, program: &Program<'_>) -> Option<usize> {
        let by_job = program.job().and_then(|job| self.by_job.get(&job));
        self.first([by_job, self.by_uid.get(&program.uid)], |matcher| matcher.has_program(program))
    }

    /// The first one in these lists and among the others that matches.
    fn first(&self, lists: [Option<&Vec<usize>>; 2], matches: impl Fn(&Matcher) -> bool) -> Option<usize> {
        let matches = |index: &&usize| matches(&self.matchers[**index]);
        let first = |list: &Vec<usize>| list.iter().find(matches).copied();
        lists.into_iter().flatten().chain([&self.others]).filter_map(first).min()
    }

    /// The application at a position.
    pub fn get(&self, index: usize) -> Option<&AppEntry> {
        self.apps.get(index)
    }

    /// The application of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&AppEntry> {
        self.by_name.get(name).map(|index| &self.apps[*index])
    }

    /// The number of applications.
    pub fn len(&self) -> usize {
        self.apps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.apps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::{AppPolicy, OpKind};

    use super::*;
    use crate::vpfs_toml::app_entry::Charge;
    use crate::{HostList, Ids};

    fn rule(clients: &[&str], uids: &[u32]) -> Rule {
        let mut list = HostList::default();
        clients.iter().for_each(|text| list.nets.extend(HostList::parse(text, 99).unwrap().nets));
        Rule {
            clients: (!clients.is_empty()).then_some(list),
            uids: (!uids.is_empty()).then(|| Ids::of(uids.iter().map(|uid| (*uid, *uid)).collect())),
            ..Rule::default()
        }
    }

    fn pushed(rules: &[Rule]) -> PushedApps {
        let entry = |index: usize| AppEntry {
            name: index.to_string(),
            is_automatic: true,
            charge: Charge::default(),
            share: None,
            policy: AppPolicy::default(),
        };
        PushedApps::new(rules.iter().enumerate().map(|(index, rule)| (entry(index), rule)))
    }

    /// However a rule is indexed, the first one in order counts, as if all were tried.
    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules = [
            rule(&["10.0.0.1"], &[7]),
            rule(&["10.0.0.0/24"], &[8]),
            rule(&[], &[9]),
            rule(&["10.0.0.1", "10.0.0.2"], &[]),
            rule(&[], &[7, 8]),
        ];
        let apps = pushed(&rules);
        for ip in ["10.0.0.1", "10.0.0.2", "10.0.1.1"] {
            let ip: IpAddr = ip.parse().unwrap();
            for uid in [None, Some(7), Some(8), Some(9), Some(10)] {
                let client = Client { listener: 0, ip, uid, gids: &[], machine: "", op: OpKind::Read };
                let slow = apps.matchers.iter().position(|matcher| matcher.matches(&client));
                assert_eq!(apps.find(&client), slow, "{client:?}");
            }
        }
    }

    #[test]
    fn many_jobs_are_found_by_their_nodes() {
        let job = |job: u32| rule(&[&format!("10.{}.{}.1", job / 250, job % 250)], &[]);
        let apps = pushed(&(0..10_000).map(job).collect::<Vec<_>>());
        assert!(apps.others.is_empty() && apps.by_address.values().all(|list| list.len() == 1));
        let ip = "10.39.249.1".parse().unwrap();
        let client = Client { listener: 0, ip, uid: Some(1), gids: &[], machine: "", op: OpKind::Read };
        assert_eq!(apps.find(&client), Some(9_999));
    }
}
