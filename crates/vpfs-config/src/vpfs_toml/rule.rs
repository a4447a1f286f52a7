//! Which clients a rule matches.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use toml::de::DeValue;
use vpfs_core::OpKind;

use super::accounts::{self, Account};
use super::client::Client;
use super::host_list::{HostList, HostSet};
use super::patterns::Patterns;
use super::program::Program;
use crate::schema::settings::quoted;
use crate::schema::table::Table;
use crate::schema::units::quote;

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
    /// The names that their hosts state for themselves.
    pub machines: Option<Patterns>,
    /// The ports of the listeners that they connect to.
    pub listeners: Option<Vec<u16>>,
    /// What they ask for.
    pub operations: Option<Vec<OpKind>>,
    /// The executables of programs that use a mount.
    pub programs: Option<Patterns>,
    /// Their control groups.
    pub cgroups: Option<Patterns>,
    /// The files that they use, below the mount.
    pub files: Option<Patterns>,
    /// The Slurm jobs that they belong to; only pushed applications have any.
    pub jobs: Option<Ids>,
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

    /// Whether no range has two.
    pub(crate) fn are_single(&self) -> bool {
        self.0.iter().all(|(low, high)| low == high)
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
        *self != Self::default()
    }

    /// Whether what it matches depends on more than the client's host, user and groups as the file has them.
    pub(crate) fn has_more(&self) -> bool {
        let is_of_program =
            self.programs.is_some() || self.cgroups.is_some() || self.files.is_some() || self.jobs.is_some();
        let is_of_request = self.machines.is_some() || self.listeners.is_some() || self.operations.is_some();
        self.has_names() || is_of_request || is_of_program
    }

    /// Whether it has users or groups whose ids the file does not say.
    fn has_names(&self) -> bool {
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
}

/// What names in rules stand for.
pub(crate) struct Meanings<'a> {
    /// The addresses of each host name, or none.
    pub(crate) hosts: &'a dyn Fn(&str) -> Vec<IpAddr>,
    /// The id of each user and group.
    pub(crate) accounts: &'a dyn Fn(&Account) -> Option<u32>,
    /// The ports of each listener.
    pub(crate) ports: &'a [Vec<u16>],
}

/// A rule with its host names, users, groups and ports resolved.
#[derive(Clone, Debug)]
pub(crate) struct Matcher {
    clients: Option<HostSet>,
    /// Positions in the file.
    listeners: Option<Vec<usize>>,
    rule: Rule,
}

impl Matcher {
    pub(crate) fn new(rule: &Rule, meanings: &Meanings<'_>) -> Self {
        let at = |wanted: &Vec<u16>| {
            let listeners = (0..).zip(meanings.ports);
            let found = listeners.filter(|(_, ports)| ports.iter().any(|port| wanted.contains(port)));
            found.map(|(index, _)| index).collect()
        };
        let clients = rule.clients.as_ref().map(|clients| clients.resolve(meanings.hosts));
        let listeners = rule.listeners.as_ref().map(at);
        let uids = resolved_ids(rule.uids.as_ref(), rule.user_accounts(), meanings.accounts);
        let gids = resolved_ids(rule.gids.as_ref(), rule.group_accounts(), meanings.accounts);
        Self { clients, listeners, rule: Rule { uids, gids, ..rule.clone() } }
    }

    /// O(networks) and O(log of ranges).
    pub(crate) fn matches(&self, client: &Client<'_>) -> bool {
        self.clients.as_ref().is_none_or(|hosts| hosts.contains(client.ip))
            && self.listeners.as_ref().is_none_or(|listeners| listeners.contains(&client.listener))
            && self.rule.machines.as_ref().is_none_or(|machines| machines.matches(client.machine))
            && self.has_user(client.uid, client.gids)
            && self.has_operation(client.op)
            && self.rule.jobs.is_none()
    }

    fn has_user(&self, uid: Option<u32>, gids: &[u32]) -> bool {
        self.rule.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.rule.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }

    fn has_operation(&self, op: OpKind) -> bool {
        self.rule.operations.as_ref().is_none_or(|operations| operations.contains(&op))
    }

    /// A program has neither an address nor a listener. O(patterns).
    pub(crate) fn has_program(&self, program: &Program<'_>) -> bool {
        let matches = |patterns: &Option<Patterns>, path| patterns.as_ref().is_none_or(|all| all.matches(path));
        let jobs = self.rule.jobs.as_ref();
        self.clients.is_none()
            && self.listeners.is_none()
            && jobs.is_none_or(|jobs| program.job().is_some_and(|job| jobs.contains(job)))
            && self.has_user(Some(program.uid), program.gids)
            && self.has_operation(program.op)
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

/// What the rules of a file have in common while they are read.
pub(crate) struct Reading<'a> {
    pub(crate) are_mounts: bool,
    /// The number of hosts that the file may still name.
    pub(crate) hosts_left: &'a mut usize,
    /// Ports that rules have, each with its line and key.
    pub(crate) ports: Vec<(u16, usize, String)>,
}

impl Reading<'_> {
    /// Reports ports that no listener has.
    pub(crate) fn check_ports(&self, root: &Table<'_>, listeners: &[Vec<u16>]) {
        let known: BTreeSet<u16> = listeners.iter().flatten().copied().collect();
        for (port, line, key) in self.ports.iter().filter(|(port, ..)| !known.contains(port)) {
            let known = known.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            root.cx.refuse(*line, key, format!("no [[listener]] has port {port}; their ports are {known}"));
        }
    }

    /// Reads the rule in an `[[app]]` or a `[[match]]`.
    pub(crate) fn rule(&mut self, table: &Table<'_>) -> Rule {
        let of_programs = ["programs", "cgroups", "files"];
        if self.are_mounts {
            let why = "has no effect for mounts: their programs are on the same host; remove it";
            ["clients", "machines", "listeners"]
                .iter()
                .filter(|key| table.has(key))
                .for_each(|key| table.refuse(key, why));
        } else {
            of_programs.iter().filter(|key| table.has(key)).for_each(|key| table.refuse(key, unseen(key)));
        }
        let patterns = |key| table.has(key).then(|| Patterns::read(table, key));
        let rule = Rule {
            clients: table.has("clients").then(|| HostList::read(table, "clients", self.hosts_left)),
            uids: table.has("uids").then(|| read_ids(table, "uids")),
            users: accounts::read(table, "users", "uids"),
            gids: table.has("gids").then(|| read_ids(table, "gids")),
            groups: accounts::read(table, "groups", "gids"),
            machines: patterns("machines"),
            listeners: table.has("listeners").then(|| self.ports(table)),
            operations: table.has("operations").then(|| read_operations(table)),
            programs: patterns("programs"),
            cgroups: patterns("cgroups"),
            files: patterns("files"),
            jobs: None,
        };
        let keys = ["clients", "uids", "users", "gids", "groups", "machines", "listeners", "operations"];
        for key in keys.into_iter().chain(of_programs) {
            if table.has(key) && table.list(key).is_empty() {
                table.refuse(key, "is empty and would match no client; remove it to match all");
            }
        }
        rule
    }

    fn ports(&mut self, table: &Table<'_>) -> Vec<u16> {
        let key = "listeners";
        let read = |value: &DeValue<'_>| match value {
            DeValue::Integer(port) => u16::from_str_radix(port.as_str(), port.radix()).ok(),
            _ => None,
        };
        let ports = table.elements(key, "expects the ports of listeners such as 5335", read);
        self.ports.extend(ports.iter().map(|port| (*port, table.line_of(key), table.path(key))));
        let texts: Vec<String> = ports.iter().map(u16::to_string).collect();
        table.set_list(key, &texts, texts.join(", "));
        ports
    }
}

/// Why the requests of clients do not show what this key is about, and what does.
fn unseen(key: &str) -> &'static str {
    match key {
        "files" => {
            "is known of programs that use a mount only: requests of OrangeFS and NFS carry handles, which tell neither \
             a path nor an export; give an export a port of its own and write listeners, or write mount:// servers"
        }
        _ => {
            "is known of programs that use a mount only: requests tell a host, a user and groups; write clients, uids \
             or users, or write mount:// servers"
        }
    }
}

const OPERATIONS: [(&str, OpKind); 3] =
    [("read", OpKind::Read), ("write", OpKind::Write), ("metadata", OpKind::Metadata)];

fn read_operations(table: &Table<'_>) -> Vec<OpKind> {
    let named = |value: &DeValue<'_>| OPERATIONS.into_iter().find(|(name, _)| value.as_str() == Some(name));
    let expected =
        "expects \"read\", \"write\" or \"metadata\", which is all that requests of every protocol are told by";
    let found = table.elements("operations", expected, named);
    let names = found.iter().map(|(name, _)| *name);
    let quoted: Vec<String> = names.clone().map(quoted).collect();
    table.set_list("operations", &quoted, names.collect::<Vec<_>>().join(", "));
    found.into_iter().map(|(_, op)| op).collect()
}

const IDS_EXPECTED: &str = "expects numbers from 0 to 4294967295 and ranges such as \"1000-1999\"";

fn read_ids(table: &Table<'_>, key: &str) -> Ids {
    let range = |value: &DeValue<'_>| match value {
        DeValue::Integer(id) => u32::from_str_radix(id.as_str(), id.radix()).ok().map(|id| (id, id)),
        DeValue::String(text) => id_range(text),
        _ => None,
    };
    let names = if key == "uids" { "users" } else { "groups" };
    let mut ids = Vec::new();
    for value in table.list(key) {
        match (range(value.get_ref()), value.get_ref().as_str().filter(|text| accounts::is_name(text))) {
            (Some(range), _) => ids.push(range),
            (None, Some(name)) => {
                let message = format!("{} is a name; write {names} = [{}]", quote(name), quoted(name));
                table.cx.refuse(table.cx.line_of(value), table.path(key), message);
            }
            (None, None) => table.cx.refuse(table.cx.line_of(value), table.path(key), IDS_EXPECTED),
        }
    }
    let ids = Ids::of(ids);
    let range = |&(low, high): &(u32, u32)| if low == high { low.to_string() } else { format!("\"{low}-{high}\"") };
    table.set_list(key, &ids.0.iter().map(range).collect::<Vec<_>>(), ids.to_string());
    ids
}

/// A number, or a range such as `1000-1999`.
pub(crate) fn id_range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}
