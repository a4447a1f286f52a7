//! Lists of hosts: addresses, networks and names, as written in the file and as resolved.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use toml::de::DeValue;

use super::hosts;
use crate::schema::reader::Reader;
use crate::schema::units::quote;

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
    pub(crate) fn read(reader: &Reader<'_>, key: &str, hosts_left: &mut usize) -> Self {
        let mut list = Self::default();
        let mut texts = Vec::new();
        for value in reader.list(key) {
            let line = reader.cx.line_of(value);
            let DeValue::String(text) = value.get_ref() else {
                reader.cx.refuse(line, reader.path(key), reader.mismatch(key, value.get_ref()));
                continue;
            };
            if let Err(message) = list.read_element(text.trim(), line, hosts_left) {
                reader.cx.refuse(line, reader.path(key), message);
            }
            texts.push(text.trim());
        }
        reader.set(key, texts.join(", "));
        list
    }

    fn read_element(&mut self, text: &str, line: usize, hosts_left: &mut usize) -> Result<(), String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            self.nets.push(ip.into());
            return Ok(());
        }
        if text.contains('/') || (text.contains(':') && !text.contains('[')) {
            let refused = |_| format!("{} is not a network; write for example \"10.1.0.0/16\"", quote(text));
            let net: IpNet = text.parse().map_err(refused)?;
            if net != net.trunc() {
                return Err(format!("{text} has bits set beyond its prefix; write \"{}\"", net.trunc()));
            }
            self.nets.push(net);
            return Ok(());
        }
        let names = hosts::expand(text, *hosts_left)?;
        *hosts_left -= names.len();
        for name in names {
            match name.parse::<IpAddr>() {
                Ok(ip) => self.nets.push(ip.into()),
                Err(_) if name.bytes().all(|b| b.is_ascii_digit() || b == b'.') => {
                    return Err(format!("{} is not an address; write for example \"10.1.2.3\"", quote(&name)));
                }
                Err(_) => self.names.push((name, line)),
            }
        }
        Ok(())
    }

    /// The addresses of the list; `known` has those of each host name, or none.
    pub(crate) fn resolve(&self, known: &dyn Fn(&str) -> Vec<IpAddr>) -> HostSet {
        let (single, nets): (Vec<IpNet>, _) =
            self.nets.iter().partition(|net| net.prefix_len() == net.max_prefix_len());
        let mut set = HostSet { nets, ..HostSet::default() };
        set.add(single.iter().map(IpNet::addr));
        self.names.iter().for_each(|(name, _)| set.add(known(name)));
        set
    }
}
