//! Maps server addresses to proxy addresses, in both directions.

use std::collections::HashMap;

/// The complete map of one listener: every server's own address and the address announced to clients instead.
///
/// It must be complete and equal in all proxies: clients compare the configuration texts of all servers and refuse to
/// mount if one differs (OrangeFS 2.10 wire protocol, integrity check).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap {
    to_client: HashMap<String, String>,
    to_server: HashMap<String, String>,
}

impl AddressMap {
    /// A map of (server address, proxy address) pairs, written as in the servers' configuration: `tcp://host:port`.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut map = Self::default();
        for (server, proxy) in pairs {
            map.to_server.insert(proxy.clone(), server.clone());
            map.to_client.insert(server, proxy);
        }
        map
    }

    /// The address announced to clients instead of this server address.
    pub fn for_client(&self, server: &str) -> Option<&str> {
        self.to_client.get(server).map(String::as_str)
    }

    /// The server behind this proxy address.
    pub fn for_server(&self, proxy: &str) -> Option<&str> {
        self.to_server.get(proxy).map(String::as_str)
    }
}
