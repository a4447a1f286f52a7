//! `[trust]`: whose requests are believed to come from a server, and who may administer servers.

use std::net::IpAddr;

use super::host_list::{HostList, HostSet};
use super::keys::{REFUSE, TRUST};
use super::network::Server;
use crate::schema::table::Table;

/// Which hosts a proxy trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The hosts whose requests between servers are believed; `None`: those of `[[server]]` that are not loopback.
    pub servers: Option<HostList>,
    /// Whether clients may administer servers.
    pub may_manage: bool,
}

pub(crate) fn read(root: &Table<'_>, hosts_left: &mut usize) -> Trust {
    let table = root.table("trust", &TRUST);
    Trust {
        servers: table.has("servers").then(|| HostList::read(&table, "servers", hosts_left)),
        may_manage: table.choice("management") != Some(REFUSE),
    }
}

/// The addresses of the list, or else of the servers; `known` has those of each host name, or none.
pub(crate) fn resolve(trust: &Trust, servers: &[Server], known: &dyn Fn(&str) -> Vec<IpAddr>) -> HostSet {
    if let Some(list) = &trust.servers {
        return list.resolve(known);
    }
    // No loopback address: any program on this machine could connect from there.
    let remote = |ip: &IpAddr| !ip.to_canonical().is_loopback();
    let addresses = |server: &Server| {
        let host = server.address.host();
        host.parse().map_or_else(|_| known(host), |ip| vec![ip])
    };
    let mut hosts = HostSet::default();
    hosts.add(servers.iter().flat_map(addresses).filter(remote));
    hosts
}
