//! Decides to which application a client belongs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use toml::de::DeValue;
use vpfs_core::Weight;

use super::host_list::{HostList, HostSet};
use crate::schema::reader::Reader;

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
    /// The weight of each share of them.
    pub weight: Weight,
    /// Which of them are in a share.
    pub share: AutoShare,
}

/// Which automatic applications share a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoShare {
    /// All.
    Together,
    /// Those of one network, with a prefix of this many bits in IPv4.
    Network(u8),
    /// None.
    Each,
}

/// The share of all automatic applications, or the beginning of the names of those for networks.
pub(crate) const AUTO: &str = "auto";

impl AutoShare {
    /// The prefix that the addresses of an IPv6 network have in common: hosts choose the rest themselves.
    const PREFIX_V6: u8 = 64;

    /// The path of the share of an automatic application, `auto` or for example `auto:10.1.2.0`.
    pub(crate) fn path(self, key: AutoKey) -> Option<String> {
        match (self, key) {
            (Self::Each, _) => None,
            (Self::Network(prefix), AutoKey::Host(IpAddr::V4(ip))) => {
                let network = Ipv4Addr::from_bits(ip.to_bits() & !u32::MAX.unbounded_shr(prefix.into()));
                Some(format!("{AUTO}:{network}"))
            }
            (Self::Network(_), AutoKey::Host(IpAddr::V6(ip))) => {
                let network = Ipv6Addr::from_bits(ip.to_bits() & !u128::MAX.unbounded_shr(Self::PREFIX_V6.into()));
                Some(format!("{AUTO}:{network}"))
            }
            (Self::Together, _) | (Self::Network(_), AutoKey::Uid(_)) => Some(AUTO.to_owned()),
        }
    }
}

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
    clients: Option<HostSet>,
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
}

impl Matcher {
    fn matches(&self, ip: IpAddr, uid: Option<u32>, gids: &[u32]) -> bool {
        self.clients.as_ref().is_none_or(|hosts| hosts.contains(ip))
            && self.uids.as_ref().is_none_or(|uids| uid.is_some_and(|uid| uids.contains(uid)))
            && self.gids.as_ref().is_none_or(|ids| gids.iter().any(|&gid| ids.contains(gid)))
    }
}

/// Builds an [`Identify`] from rules; `known` has the addresses of each host name, or none.
pub(crate) fn resolve<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    default: AppIndex,
    auto: Auto,
    known: &dyn Fn(&str) -> Vec<IpAddr>,
) -> Identify {
    let matcher = |rule: &Rule| Matcher {
        clients: rule.clients.as_ref().map(|clients| clients.resolve(known)),
        uids: rule.uids.clone(),
        gids: rule.gids.clone(),
    };
    let given = rules.enumerate().filter(|(_, rule)| rule.is_given());
    let rules = given.map(|(index, rule)| (AppIndex(index), matcher(rule))).collect();
    Identify { rules, default, auto: auto.by }
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

fn id_range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low <= high).then_some((low, high))
}
