//! Decides to which application a client belongs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use toml::de::DeValue;
use vpfs_core::Weight;

use super::hosts;
use crate::schema::problem::{Problem, Problems, collected};
use crate::schema::reader::Reader;
use crate::schema::units::quote;

/// The position of an application in [`crate::Config::apps`].
///
/// Differs from its [`vpfs_core::AppId`] once the file has been read again: ids stay with their names, positions do
/// not. [`crate::AppTable`] maps positions to ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppIndex(pub usize);

/// Which clients get their own application if no rule matches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoBy {
    /// None; they belong to the default application.
    Off,
    /// One for each client address.
    ClientHost,
    /// One for each user.
    Uid,
}

/// How applications are created for clients that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// The clients that get one.
    pub by: AutoBy,
    /// The maximum number.
    pub limit: usize,
    /// The weight of each.
    pub weight: Weight,
}

/// The maximum number of hosts in all host lists of a file together.
pub const HOSTS_LIMIT: usize = 65_536;

/// Which clients an application's rule matches. All given parts must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The addresses they connect from.
    pub clients: Option<Clients>,
    /// Users.
    pub uids: Option<Ids>,
    /// Groups; one of them must match.
    pub gids: Option<Ids>,
}

/// The addresses that clients connect from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Networks and single addresses.
    pub nets: Vec<IpNet>,
    /// Host names, each with the line where it appears.
    pub hosts: Vec<(String, usize)>,
}

/// A set of user or group ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids(Vec<(u32, u32)>);

impl Ids {
    /// The set of these ranges, ends included, in any order.
    fn of(mut ranges: Vec<(u32, u32)>) -> Self {
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

/// The application to which a client belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// An application of the file.
    App(AppIndex),
    /// One created for this client.
    Auto(AutoKey),
}

/// The client host or user of an automatic application. Displays as `host:10.1.2.3` or `uid:1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AutoKey {
    /// A client host.
    Host(IpAddr),
    /// A user.
    Uid(u32),
}

impl fmt::Display for AutoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(ip) => write!(f, "host:{ip}"),
            Self::Uid(uid) => write!(f, "uid:{uid}"),
        }
    }
}

/// Decides to which application a client belongs. Created by [`crate::Config::resolve`].
#[derive(Clone, Debug)]
pub struct Identify {
    /// Those with a rule, in the order of the file.
    rules: Vec<(AppIndex, Matcher)>,
    default: AppIndex,
    auto: AutoBy,
}

/// A rule with its host names resolved.
#[derive(Clone, Debug)]
struct Matcher {
    clients: Option<(HashSet<IpAddr>, Vec<IpNet>)>,
    uids: Option<Ids>,
    gids: Option<Ids>,
}

impl Identify {
    /// The application of the client at `ip` that connected through a listener of application `listener` and states
    /// this user and these groups.
    ///
    /// Call again when a connection states another user. An unknown user matches no rule with `uids`. O(number of
    /// applications and networks), no allocation.
    pub fn identify(&self, listener: Option<AppIndex>, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> Identity {
        if let Some(app) = listener {
            return Identity::App(app);
        }
        // A dual-stack socket reports IPv4 clients as ::ffff:10.1.2.3.
        let ip = ip.to_canonical();
        if let Some((app, _)) = self.rules.iter().find(|(_, rule)| rule.matches(ip, uid, gids)) {
            return Identity::App(*app);
        }
        match (self.auto, uid) {
            (AutoBy::ClientHost, _) => Identity::Auto(AutoKey::Host(ip)),
            (AutoBy::Uid, Some(uid)) => Identity::Auto(AutoKey::Uid(uid)),
            (AutoBy::Uid, None) | (AutoBy::Off, _) => Identity::App(self.default),
        }
    }

    /// Whether users or groups can change the result; if not, one result holds for a whole connection.
    pub fn depends_on_user(&self) -> bool {
        self.auto == AutoBy::Uid || self.rules.iter().any(|(_, rule)| rule.uids.is_some() || rule.gids.is_some())
    }
}

impl Matcher {
    fn matches(&self, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> bool {
        let client = |(addresses, nets): &(HashSet<IpAddr>, Vec<IpNet>)| {
            addresses.contains(&ip) || nets.iter().any(|net| net.contains(&ip))
        };
        self.clients.as_ref().is_none_or(client)
            && self.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }
}

/// Builds an [`Identify`] from rules, calling `resolver` once for each host name.
pub(crate) fn resolve<'a>(
    file: &str,
    rules: impl Iterator<Item = (&'a str, &'a Rule)>,
    default: AppIndex,
    auto: Auto,
    mut resolver: impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<Identify, Problems> {
    let mut known: HashMap<&str, Result<Vec<IpAddr>, String>> = HashMap::new();
    let mut problems = Vec::new();
    let mut matchers = Vec::new();
    for (index, (app, rule)) in rules.enumerate().filter(|(_, (_, rule))| rule.is_given()) {
        let clients = rule.clients.as_ref().map(|clients| {
            let (single, nets): (Vec<IpNet>, _) =
                clients.nets.iter().partition(|net| net.prefix_len() == net.max_prefix_len());
            let mut addresses: HashSet<_> = single.iter().map(|net| net.addr().to_canonical()).collect();
            for (name, line) in &clients.hosts {
                match known.entry(name).or_insert_with(|| ask(&mut resolver, name)) {
                    Ok(found) => addresses.extend(found.iter().map(IpAddr::to_canonical)),
                    Err(message) => {
                        problems.push(Problem {
                            line: *line,
                            key: format!("app.{app}.clients"),
                            message: message.clone(),
                        });
                    }
                }
            }
            (addresses, nets)
        });
        matchers.push((AppIndex(index), Matcher { clients, uids: rule.uids.clone(), gids: rule.gids.clone() }));
    }
    if problems.is_empty() {
        return Ok(Identify { rules: matchers, default, auto: auto.by });
    }
    Err(collected(file, problems))
}

fn ask(resolver: &mut impl FnMut(&str) -> io::Result<Vec<IpAddr>>, name: &str) -> Result<Vec<IpAddr>, String> {
    match resolver(name) {
        Ok(addresses) if addresses.is_empty() => Err(format!("host {name:?} has no address")),
        Ok(addresses) => Ok(addresses),
        Err(error) => Err(format!("host {name:?} cannot be resolved: {error}")),
    }
}

/// Reads the rule of an application; `hosts_left` is the number of hosts that the file may still name.
pub(crate) fn read_rule(reader: &Reader<'_>, hosts_left: &mut usize) -> Rule {
    let rule = Rule {
        clients: reader.has("clients").then(|| read_clients(reader, hosts_left)),
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

fn read_clients(reader: &Reader<'_>, hosts_left: &mut usize) -> Clients {
    let mut clients = Clients::default();
    let mut texts = Vec::new();
    for value in reader.list("clients") {
        let line = reader.cx.line_of(value);
        let DeValue::String(text) = value.get_ref() else {
            reader.cx.refuse(line, reader.path("clients"), reader.mismatch("clients", value.get_ref()));
            continue;
        };
        if let Err(message) = read_client(text.trim(), line, &mut clients, hosts_left) {
            reader.cx.refuse(line, reader.path("clients"), message);
        }
        texts.push(text.trim());
    }
    reader.set("clients", texts.join(", "));
    clients
}

fn read_client(text: &str, line: usize, clients: &mut Clients, hosts_left: &mut usize) -> Result<(), String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        clients.nets.push(ip.into());
        return Ok(());
    }
    if text.contains('/') || (text.contains(':') && !text.contains('[')) {
        let refused = |_| format!("{} is not a network; write for example \"10.1.0.0/16\"", quote(text));
        let net: IpNet = text.parse().map_err(refused)?;
        if net != net.trunc() {
            return Err(format!("{text} has bits set beyond its prefix; write \"{}\"", net.trunc()));
        }
        clients.nets.push(net);
        return Ok(());
    }
    let names = hosts::expand(text, *hosts_left)?;
    *hosts_left -= names.len();
    for name in names {
        match name.parse::<IpAddr>() {
            Ok(ip) => clients.nets.push(ip.into()),
            Err(_) if name.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                return Err(format!("{} is not an address; write for example \"10.1.2.3\"", quote(&name)));
            }
            Err(_) => clients.hosts.push((name, line)),
        }
    }
    Ok(())
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
    reader.set(key, ids.to_string());
    ids
}

fn id_range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}

/// Host names that must be resolved, each once, in alphabetical order, with the first line where each appears.
pub(crate) fn unresolved<'a>(rules: impl Iterator<Item = &'a Rule>) -> BTreeMap<&'a str, usize> {
    let mut names = BTreeMap::new();
    for (name, line) in rules.filter_map(|rule| rule.clients.as_ref()).flat_map(|clients| &clients.hosts) {
        names.entry(name.as_str()).or_insert(*line);
    }
    names
}
