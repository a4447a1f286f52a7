//! Which clients a rule matches.

use std::fmt;
use std::net::IpAddr;

use toml::de::DeValue;

use super::host_list::{HostList, HostSet};
use crate::schema::reader::Reader;

/// The maximum number of hosts in all host lists of a file together.
pub const HOSTS_LIMIT: usize = 65_536;

/// Which clients an application's rule matches. All given parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The addresses they connect from.
    pub clients: Option<HostList>,
    /// Users.
    pub uids: Option<Ids>,
    /// Groups; one of them must match.
    pub gids: Option<Ids>,
}

/// A set of user or group ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids(Vec<(u32, u32)>);

impl Ids {
    /// The set of these ranges, ends included, in any order.
    pub(crate) fn of(mut ranges: Vec<(u32, u32)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match merged.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        Self(merged)
    }

    /// The ranges, ends included, in order.
    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// O(log n) in the number of ranges.
    pub fn contains(&self, id: u32) -> bool {
        let after = self.0.partition_point(|&(low, _)| low <= id);
        after > 0 && id <= self.0[after - 1].1
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (low, high)) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            if low == high { write!(f, "{comma}{low}")? } else { write!(f, "{comma}{low}-{high}")? }
        }
        Ok(())
    }
}

impl Rule {
    /// Whether the rule has any part; a rule without parts matches no client.
    pub fn is_given(&self) -> bool {
        self.clients.is_some() || self.uids.is_some() || self.gids.is_some()
    }
}

/// A rule with its host names resolved.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    clients: Option<HostSet>,
    uids: Option<Ids>,
    gids: Option<Ids>,
}

impl Matcher {
    /// `known` has the addresses of each host name, or none.
    pub(crate) fn new(rule: &Rule, known: &dyn Fn(&str) -> Vec<IpAddr>) -> Self {
        let clients = rule.clients.as_ref().map(|clients| clients.resolve(known));
        Self { clients, uids: rule.uids.clone(), gids: rule.gids.clone() }
    }

    /// O(networks) and O(log of ranges).
    pub(crate) fn matches(&self, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> bool {
        self.clients.as_ref().is_none_or(|hosts| hosts.contains(ip))
            && self.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }
}

/// Reads the rule of an application; `hosts_left` is the number of hosts that the file may still name.
pub(crate) fn read_rule(reader: &Reader<'_>, hosts_left: &mut usize) -> Rule {
    let rule = Rule {
        clients: reader.has("clients").then(|| HostList::read(reader, "clients", hosts_left)),
        uids: reader.has("uids").then(|| read_ids(reader, "uids")),
        gids: reader.has("gids").then(|| read_ids(reader, "gids")),
    };
    for key in ["clients", "uids", "gids"] {
        if reader.has(key) && reader.list(key).is_empty() {
            reader.refuse(key, "is empty and would match no client; remove it to match all");
        }
    }
    rule
}

fn read_ids(reader: &Reader<'_>, key: &str) -> Ids {
    let mut ranges = Vec::new();
    for value in reader.list(key) {
        let range = match value.get_ref() {
            DeValue::Integer(id) => u32::from_str_radix(id.as_str(), id.radix()).ok().map(|id| (id, id)),
            DeValue::String(text) => id_range(text),
            _ => None,
        };
        match range {
            Some(range) => ranges.push(range),
            None => {
                let message = "expects numbers from 0 to 4294967295 and ranges such as \"1000-1999\"";
                reader.cx.refuse(reader.cx.line_of(value), reader.path(key), message);
            }
        }
    }
    let ids = Ids::of(ranges);
    let range = |&(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("\"{low}-{high}\"") };
    reader.set_list(key, &ids.0.iter().map(range).collect::<Vec<_>>(), ids.to_string());
    ids
}

/// A number, or a range such as `1000-1999`.
pub(crate) fn id_range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}
