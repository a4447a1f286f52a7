//! Rules of applications that others hide: the first rule that matches a client decides.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::apps::{App, Apps};
use super::host_list::HostList;
use super::rule::{Ids, Rule};
use crate::schema::table::Table;

/// The rules that are compared with each other: far more than people write, and few enough to take no time.
const COMPARED: usize = 500;

/// Warns about applications that get no client because of those before them, and about clients of two applications.
/// Only applications with one rule, of addresses and ids, are compared: those of names are not known here. That a
/// general rule follows a narrower one is how exceptions are written, and no reason for a warning.
pub(crate) fn warn(root: &Table<'_>, apps: &Apps) {
    let is_compared = |app: &App| app.rule.is_given() && app.alternatives.is_empty() && !app.rule.has_more();
    let rules = apps.list.iter().filter(|app| is_compared(app));
    let rules: Vec<(&str, Clients<'_>)> =
        rules.take(COMPARED).map(|app| (app.name.as_str(), Clients::of(&app.rule))).collect();
    for (index, (name, rule)) in rules.iter().enumerate() {
        let before = &rules[..index];
        let line = |name: &str| apps.names.line_of(name);
        let place = |other: &str| format!("{other:?} (line {})", line(other));
        let message = if let Some((other, _)) = before.iter().find(|(_, other)| other.has_all_of(rule)) {
            let other = place(other);
            format!("no client can belong to it: {other} comes first and has all of them; put the narrower one first")
        } else if let Some(others) = rule.parts_before(before) {
            let others = others.into_iter().map(place).collect::<Vec<_>>().join(", ");
            format!("no client can belong to it: {others} come first and together have all of them")
        } else if let Some((other, common)) =
            before.iter().find_map(|(other, earlier)| Some((other, earlier.shared_with(rule)?)))
        {
            let other = place(other);
            format!("{common} is also in {other}, which comes first and gets it; remove it from one of them")
        } else {
            continue;
        };
        root.cx.warn(line(name), format!("app.{name}"), message);
    }
}

/// What a rule matches: all these sets, where `None` is everybody.
pub(crate) struct Clients<'a>([Option<Set<'a>>; PARTS]);

/// Hosts, users, groups and jobs.
const PARTS: usize = 4;

impl<'a> Clients<'a> {
    pub(crate) fn of(rule: &'a Rule) -> Self {
        let ids = |ids: &Ids| Set::of_ids(ids);
        let hosts = rule.clients.as_ref().map(Set::of_hosts);
        let [uids, gids, jobs] = [&rule.uids, &rule.gids, &rule.jobs].map(|list| list.as_ref().map(ids));
        let sets = [hosts, uids, gids, jobs];
        Self(sets.map(|set| set.filter(|set| !set.is_everybody())))
    }

    fn has_all_of(&self, other: &Self) -> bool {
        (0..PARTS).all(|part| self.covers(other, part))
    }

    fn covers(&self, other: &Self, part: usize) -> bool {
        match (&self.0[part], &other.0[part]) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(other)) => own.has_all_of(other),
        }
    }

    /// Several rules that together have all of this one, if they differ from it in one part only.
    fn parts_before<'n>(&self, before: &[(&'n str, Self)]) -> Option<Vec<&'n str>> {
        (0..PARTS).find_map(|part| {
            let own = self.0[part].as_ref()?;
            let others = |rule: &Self| (0..PARTS).all(|other| other == part || rule.covers(self, other));
            let parts: Vec<_> = before.iter().filter(|(_, rule)| others(rule)).collect();
            let sets = parts.iter().filter_map(|(name, rule)| Some((*name, rule.0[part].as_ref()?)));
            let sets: Vec<_> = sets.filter(|(_, set)| set.shared_with(own).is_some()).collect();
            let all = Set::union(sets.iter().map(|(_, set)| *set));
            all.has_all_of(own).then(|| sets.into_iter().map(|(name, _)| name).collect())
        })
    }

    /// Something that both rules may match, such as `client 10.1.2.3`, or `None` if nothing can.
    pub(crate) fn common_with(&self, other: &Self) -> Option<String> {
        let mut common = None;
        for (kind, pair) in ["client", "user", "group", "job"].into_iter().zip(self.0.iter().zip(&other.0)) {
            let of_both = match pair {
                (Some(own), Some(other)) => Some(own.shared_with(other)?),
                (Some(one), None) | (None, Some(one)) => one.shared_with(one),
                (None, None) => None,
            };
            common = common.or(of_both.map(|of_both| format!("{kind} {of_both}")));
        }
        Some(common.unwrap_or_else(|| "all clients".to_owned()))
    }

    /// Something that both rules match, if they have the same parts and neither is an exception from the other.
    fn shared_with(&self, later: &Self) -> Option<String> {
        if later.has_all_of(self) {
            return None;
        }
        let mut common = None;
        for pair in self.0.iter().zip(&later.0) {
            match pair {
                (None, None) => {}
                (Some(own), Some(later)) => common = common.or(Some(own.shared_with(later)?)),
                _ => return None,
            }
        }
        common
    }
}

/// Addresses and names, or ids.
struct Set<'a> {
    /// Sorted, and with gaps between them; IPv4 addresses as part of IPv6.
    ranges: Vec<(u128, u128)>,
    names: BTreeSet<&'a str>,
    is_of_hosts: bool,
}

/// Where IPv4 addresses are among those of IPv6.
const IPV4: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);

impl<'a> Set<'a> {
    fn of_hosts(list: &'a HostList) -> Self {
        let names = list.names.iter().map(|(name, _)| name.as_str()).collect();
        Self { ranges: merged(list.nets.iter().map(range_of).collect()), names, is_of_hosts: true }
    }

    fn of_ids(ids: &Ids) -> Self {
        let ranges = ids.ranges().iter().map(|&(low, high)| (low.into(), high.into())).collect();
        Self { ranges, names: BTreeSet::new(), is_of_hosts: false }
    }

    fn union<'s>(sets: impl Iterator<Item = &'s Self>) -> Self
    where
        'a: 's,
    {
        let mut all = Self { ranges: Vec::new(), names: BTreeSet::new(), is_of_hosts: true };
        for set in sets {
            all.ranges.extend(&set.ranges);
            all.names.extend(&set.names);
        }
        all.ranges = merged(all.ranges);
        all
    }

    /// All ids, or all IPv4 addresses: servers of OrangeFS have no others.
    fn is_everybody(&self) -> bool {
        let all = if self.is_of_hosts { IPV4 } else { (0, u32::MAX.into()) };
        self.ranges.iter().any(|range| range.0 <= all.0 && all.1 <= range.1)
    }

    fn has_all_of(&self, other: &Self) -> bool {
        let has = |range: &(u128, u128)| {
            let after = self.ranges.partition_point(|own| own.0 <= range.0);
            after > 0 && range.1 <= self.ranges[after - 1].1
        };
        other.ranges.iter().all(has) && other.names.is_subset(&self.names)
    }

    fn shared_with(&self, other: &Self) -> Option<String> {
        if let Some(name) = other.names.iter().find(|name| self.names.contains(*name)) {
            return Some((*name).to_owned());
        }
        let common = other.ranges.iter().find_map(|range| {
            let after = self.ranges.partition_point(|own| own.1 < range.0);
            let own = self.ranges.get(after).filter(|own| own.0 <= range.1)?;
            Some((own.0.max(range.0), own.1.min(range.1)))
        });
        common.map(|range| self.show(range))
    }

    fn show(&self, (low, high): (u128, u128)) -> String {
        let text = |value: u128| match self.is_of_hosts {
            true => IpAddr::from(value.to_be_bytes()).to_canonical().to_string(),
            false => value.to_string(),
        };
        if low == high { text(low) } else { format!("{}-{}", text(low), text(high)) }
    }
}

fn range_of(net: &IpNet) -> (u128, u128) {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    };
    (bits(net.network()), bits(net.broadcast()))
}

/// The same numbers as sorted ranges with gaps between them.
fn merged(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match merged.last_mut() {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => merged.push((low, high)),
        }
    }
    merged
}
