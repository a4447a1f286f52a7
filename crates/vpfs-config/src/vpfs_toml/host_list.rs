//! Lists of hosts: addresses, networks and names, as written in the file and as resolved.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use toml::de::DeValue;

use super::hosts::{self, Host};
use crate::schema::settings::quoted;
use crate::schema::table::Table;

/// Hosts as written in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostList {
    /// Networks and single addresses.
    pub nets: Vec<IpNet>,
    /// Host names, each with the line where it appears.
    pub names: Vec<(String, usize)>,
}

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSet {
    addresses: HashSet<IpAddr>,
    nets: Vec<IpNet>,
}

impl HostSet {
    /// O(number of networks), no allocation.
    pub fn contains(&self, ip: IpAddr) -> bool {
        // A dual-stack socket reports IPv4 clients as ::ffff:10.1.2.3.
        let ip = ip.to_canonical();
        self.addresses.contains(&ip) || self.nets.iter().any(|net| net.contains(&ip))
    }

    pub(crate) fn add(&mut self, ips: impl IntoIterator<Item = IpAddr>) {
        self.addresses.extend(ips.into_iter().map(|ip| ip.to_canonical()));
    }
}

impl HostList {
    /// Reads the list at `key`; `hosts_left` is the number of hosts that the file may still name.
    pub(crate) fn read(table: &Table<'_>, key: &str, hosts_left: &mut usize) -> Self {
        let mut list = Self::default();
        let mut texts = Vec::new();
        for value in table.list(key) {
            let line = table.cx.line_of(value);
            let DeValue::String(text) = value.get_ref() else {
                table.cx.refuse(line, table.path(key), table.mismatch(key, value.get_ref()));
                continue;
            };
            match Self::parse(text, *hosts_left) {
                Ok(hosts) => {
                    *hosts_left -= hosts.len();
                    list.nets.extend(hosts.nets);
                    list.names.extend(hosts.names.into_iter().map(|(name, _)| (name, line)));
                }
                Err(message) => table.cx.refuse(line, table.path(key), message),
            }
            texts.push(text.trim());
        }
        let elements: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        table.set_list(key, &elements, texts.join(", "));
        list
    }

    /// The hosts denoted by `text`, as cluster tools write them: `c[001-064],login1`, `10.1.0.0/16`,
    /// `10.1.0.31-10.1.0.38`; at most `limit`, where a range of addresses counts as the networks that cover it.
    ///
    /// # Errors
    /// What is no host, why, and what to write instead.
    pub fn parse(text: &str, limit: usize) -> Result<Self, String> {
        let mut list = Self::default();
        for host in hosts::read(text, limit)? {
            match host {
                Host::Net(net) => list.nets.push(net),
                Host::Name(name) => list.names.push((name, 0)),
            }
        }
        Ok(list)
    }

    /// The number of networks and names.
    fn len(&self) -> usize {
        self.nets.len() + self.names.len()
    }

    /// The addresses of the list; `known` has those of each host name, or none.
    pub fn resolve(&self, known: &dyn Fn(&str) -> Vec<IpAddr>) -> HostSet {
        let (single, nets): (Vec<IpNet>, _) =
            self.nets.iter().partition(|net| net.prefix_len() == net.max_prefix_len());
        let mut set = HostSet { nets, ..HostSet::default() };
        set.add(single.iter().map(IpNet::addr));
        self.names.iter().for_each(|(name, _)| set.add(known(name)));
        set
    }
}
