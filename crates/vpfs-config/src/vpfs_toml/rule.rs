//! Which clients a rule matches.

use std::fmt;
use std::net::IpAddr;

use toml::de::DeValue;

use super::accounts::{self, Account};
use super::host_list::{HostList, HostSet};
use super::patterns::Patterns;
use super::program::Program;
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
    /// Users by name, beside `uids`.
    pub users: Vec<String>,
    /// Groups; one of them must match.
    pub gids: Option<Ids>,
    /// Groups by name, beside `gids`.
    pub groups: Vec<String>,
    /// The executables of programs that use a mount.
    pub programs: Option<Patterns>,
    /// Their control groups.
    pub cgroups: Option<Patterns>,
    /// The files that they use, below the mount.
    pub files: Option<Patterns>,
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
        let is_of_client = self.clients.is_some() || self.uids.is_some() || self.gids.is_some() || self.has_names();
        is_of_client || self.is_of_program()
    }

    /// Whether it has users or groups whose ids the file does not say.
    pub(crate) fn has_names(&self) -> bool {
        !self.users.is_empty() || !self.groups.is_empty()
    }

    /// Its users by name.
    pub(crate) fn user_accounts(&self) -> impl Iterator<Item = Account> {
        self.users.iter().cloned().map(Account::User)
    }

    /// Its groups by name.
    pub(crate) fn group_accounts(&self) -> impl Iterator<Item = Account> {
        self.groups.iter().cloned().map(Account::Group)
    }

    /// Whether only programs that use a mount can match.
    pub fn is_of_program(&self) -> bool {
        self.programs.is_some() || self.cgroups.is_some() || self.files.is_some()
    }
}

/// A rule with its host names, users and groups resolved.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    clients: Option<HostSet>,
    rule: Rule,
}

impl Matcher {
    /// `known` has the addresses of each host name, or none, and `accounts` the id of each user and group.
    pub(crate) fn new(
        rule: &Rule,
        known: &dyn Fn(&str) -> Vec<IpAddr>,
        accounts: &dyn Fn(&Account) -> Option<u32>,
    ) -> Self {
        let clients = rule.clients.as_ref().map(|clients| clients.resolve(known));
        let uids = resolved_ids(rule.uids.as_ref(), rule.user_accounts(), accounts);
        let gids = resolved_ids(rule.gids.as_ref(), rule.group_accounts(), accounts);
        Self { clients, rule: Rule { uids, gids, ..rule.clone() } }
    }

    /// O(networks) and O(log of ranges).
    pub(crate) fn matches(&self, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> bool {
        self.clients.as_ref().is_none_or(|hosts| hosts.contains(ip)) && self.has_user(uid, gids)
    }

    fn has_user(&self, uid: Option<u32>, gids: &[u32]) -> bool {
        self.rule.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.rule.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }

    pub(crate) fn has_program(&self, program: &Program<'_>) -> bool {
        let matches = |patterns: &Option<Patterns>, path| patterns.as_ref().is_none_or(|all| all.matches(path));
        self.has_user(Some(program.uid), program.gids)
            && matches(&self.rule.programs, program.executable)
            && matches(&self.rule.cgroups, program.cgroup)
            && matches(&self.rule.files, program.file)
    }
}

/// Ids by number and name; `None` if there is neither.
fn resolved_ids(
    ids: Option<&Ids>,
    named: impl Iterator<Item = Account>,
    known: &dyn Fn(&Account) -> Option<u32>,
) -> Option<Ids> {
    let mut named = named.peekable();
    if named.peek().is_none() {
        return ids.cloned();
    }
    let found = named.filter_map(|account| known(&account)).map(|id| (id, id));
    Some(Ids::of(ids.map(Ids::ranges).unwrap_or_default().iter().copied().chain(found).collect()))
}

/// Reads the rule of an application; `hosts_left` is the number of hosts that the file may still name.
pub(crate) fn read_rule(reader: &Reader<'_>, are_mounts: bool, hosts_left: &mut usize) -> Rule {
    let of_programs = ["programs", "cgroups", "files"];
    let (without_effect, why) = match are_mounts {
        true => (&["clients"][..], "has no effect for mounts: their programs are on the same host; remove it"),
        false => (&of_programs[..], "is known of programs that use a mount only; remove it, or write mount:// servers"),
    };
    without_effect.iter().filter(|key| reader.has(key)).for_each(|key| reader.refuse(key, why));
    let patterns = |key| reader.has(key).then(|| Patterns::read(reader, key));
    let rule = Rule {
        clients: reader.has("clients").then(|| HostList::read(reader, "clients", hosts_left)),
        uids: reader.has("uids").then(|| read_ids(reader, "uids")),
        users: accounts::read(reader, "users", "uids"),
        gids: reader.has("gids").then(|| read_ids(reader, "gids")),
        groups: accounts::read(reader, "groups", "gids"),
        programs: patterns("programs"),
        cgroups: patterns("cgroups"),
        files: patterns("files"),
    };
    for key in ["clients", "uids", "users", "gids", "groups"].into_iter().chain(of_programs) {
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
