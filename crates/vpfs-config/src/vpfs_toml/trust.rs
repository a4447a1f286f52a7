//! `[trust]`: whose requests are believed to come from a server, and who may administer servers.

use std::io;
use std::net::IpAddr;

use super::host_list::{HostList, HostSet, Lookup};
use super::keys::{REFUSE, TRUST};
use super::network::Server;
use crate::schema::problem::Problems;
use crate::schema::reader::Reader;

/// Whom a proxy believes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The hosts whose requests between servers are believed; `None`: those of `[[server]]` that are not loopback.
    pub servers: Option<HostList>,
    /// Whether clients may administer servers.
    pub may_manage: bool,
}

/// The hosts whose requests between servers are believed, by address. Created by [`crate::Config::resolve_servers`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedServers {
    /// Their addresses.
    pub hosts: HostSet,
    /// Why hosts of `[[server]]` have no address. Nothing from there is believed, but its proxy still works.
    pub unresolved: Vec<String>,
}

pub(crate) fn read(root: &Reader<'_>, hosts_left: &mut usize) -> Trust {
    let reader = Reader::open(root.cx, &TRUST, "trust", root.value("trust"));
    Trust {
        servers: reader.has("servers").then(|| HostList::read(&reader, "servers", hosts_left)),
        may_manage: reader.choice("management") != Some(REFUSE),
    }
}

/// Finds the addresses of the list, or else of the servers, calling `resolver` once for each host name.
pub(crate) fn resolve(
    file: &str,
    trust: &Trust,
    servers: &[Server],
    resolver: impl FnMut(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<TrustedServers, Problems> {
    let mut lookup = Lookup::new(resolver);
    let mut trusted = TrustedServers::default();
    match &trust.servers {
        Some(list) => trusted.hosts = lookup.resolve("trust.servers", list),
        None => {
            let mut hosts: Vec<&str> = servers.iter().map(|server| server.address.host()).collect();
            hosts.sort_unstable();
            hosts.dedup();
            hosts.into_iter().for_each(|host| trusted.add(host, &mut lookup));
        }
    }
    lookup.finish(file)?;
    Ok(trusted)
}

impl TrustedServers {
    /// Adds a server's host, but no loopback address: any program on this machine could connect from there.
    fn add(&mut self, host: &str, lookup: &mut Lookup<impl FnMut(&str) -> io::Result<Vec<IpAddr>>>) {
        let remote = |ip: &IpAddr| !ip.to_canonical().is_loopback();
        if let Ok(ip) = host.parse() {
            return self.hosts.add(Some(ip).filter(remote));
        }
        match lookup.ask(host) {
            Ok(found) => self.hosts.add(found.iter().copied().filter(remote)),
            Err(message) => self.unresolved.push(message.to_owned()),
        }
    }
}
