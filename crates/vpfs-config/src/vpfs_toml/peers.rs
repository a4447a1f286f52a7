//! `[peers]`: how the proxies of different processes reach and recognise each other.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::host_name::is_host_name;
use super::keys::{PEERS, SOCKETS};
use super::network::Server;
use crate::names::{NAME_RULE, is_name};
use crate::schema::problem::{did_you_mean, some_of};
use crate::schema::table::Table;
use crate::schema::units::quote;

/// How proxies of different processes tell each other what they served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The cluster's name.
    pub cluster: String,
    /// Host and port where the proxy of each server listens for others, by [`vpfs_core::ServerId`].
    pub addresses: Vec<(String, u16)>,
    /// The local address to listen at, if it is not the host of the address.
    pub bind: Option<IpAddr>,
    /// How processes recognise each other.
    pub security: PeerSecurity,
    /// The difference of clocks beyond which the log has a warning.
    pub clock_limit: Duration,
    /// The directory of the sockets of processes.
    pub sockets: PathBuf,
}

/// How processes recognise each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerSecurity {
    /// By a secret that all of them have, in this file.
    SharedKey(PathBuf),
    /// By certificates of a common authority.
    Certificates {
        /// The authorities' certificates.
        authority: PathBuf,
        /// The process's own one.
        certificate: PathBuf,
        /// Its private key.
        private_key: PathBuf,
    },
    /// Not at all, and nothing is encrypted.
    None,
}

impl Peers {
    /// Makes relative paths relative to `folder`.
    pub(crate) fn resolve_paths(&mut self, folder: &Path) {
        let paths: Vec<&mut PathBuf> = match &mut self.security {
            PeerSecurity::SharedKey(key) => vec![key],
            PeerSecurity::Certificates { authority, certificate, private_key } => {
                vec![authority, certificate, private_key]
            }
            PeerSecurity::None => Vec::new(),
        };
        paths.into_iter().chain([&mut self.sockets]).for_each(|path| *path = folder.join(&*path));
    }
}

/// Reads the table; `None` if the file has none, or one with a problem, which is reported.
pub(crate) fn read(root: &Table<'_>, servers: &[Server]) -> Option<Peers> {
    if !root.has("peers") {
        return None;
    }
    let table = root.table("peers", &PEERS);
    let cluster = read_name(&table);
    let bind = read_bind(&table);
    let (addresses, security) = (read_addresses(&table, servers), read_security(&table));
    let clock_limit = table.duration_or_default("clock_limit");
    let sockets = table.text("sockets").unwrap_or(SOCKETS);
    table.set("sockets", sockets);
    let sockets = PathBuf::from(sockets);
    Some(Peers { cluster, addresses: addresses?, bind, security: security?, clock_limit, sockets })
}

fn read_name(table: &Table<'_>) -> String {
    let name = table.text("cluster").unwrap_or("vpfs");
    if !is_name(name) {
        table.refuse("cluster", format!("{} is not a name; {NAME_RULE}", quote(name)));
    }
    table.set("cluster", name);
    name.to_owned()
}

fn read_bind(table: &Table<'_>) -> Option<IpAddr> {
    let text = table.text("bind")?;
    let bind = text.parse().ok();
    match bind {
        Some(_) => table.set("bind", text),
        None => {
            table.refuse("bind", format!("{} is not an IP address; write for example \"0.0.0.0\"", quote(text)));
        }
    }
    bind
}

fn read_security(table: &Table<'_>) -> Option<PeerSecurity> {
    const KEY: &[&str] = &["shared_key"];
    const CERTIFICATES: &[&str] = &["authority", "certificate", "private_key"];
    let choice = table.choice("security")?;
    let (needed, others) = match choice {
        0 => (KEY, CERTIFICATES),
        1 => (CERTIFICATES, KEY),
        _ => (&[][..], &["shared_key", "authority", "certificate", "private_key"][..]),
    };
    for key in others.iter().filter(|key| table.has(key)) {
        table.refuse(key, "has no effect with this security; remove it, or choose another security");
    }
    let missing: Vec<&str> = needed.iter().copied().filter(|key| !table.has(key)).collect();
    if !missing.is_empty() {
        table.refuse("security", format!("needs {}; `vpfs init` writes such files", some_of(&missing)));
    }
    let files: Vec<PathBuf> = needed.iter().filter_map(|key| read_file(table, key)).collect();
    match choice {
        0 => files.into_iter().next().map(PeerSecurity::SharedKey),
        1 => {
            let [authority, certificate, private_key] = files.try_into().ok()?;
            Some(PeerSecurity::Certificates { authority, certificate, private_key })
        }
        _ => Some(PeerSecurity::None),
    }
}

fn read_file(table: &Table<'_>, key: &str) -> Option<PathBuf> {
    let path = table.text(key)?;
    table.set(key, path);
    Some(path.into())
}

fn read_addresses(table: &Table<'_>, servers: &[Server]) -> Option<Vec<(String, u16)>> {
    match (table.has("port"), table.has("addresses")) {
        (true, true) => table.refuse("port", "cannot be combined with addresses; remove one of the two"),
        (false, false) => {
            let example =
                "port = 7334 (the same on every server's host) or addresses = { s1 = \"10.0.0.1:7334\", ... }";
            table.refuse("addresses", format!("is missing; add {example}"));
        }
        (true, false) => {
            let port = u16::try_from(table.count("port")?).ok()?;
            return Some(servers.iter().map(|server| (server.address.host().to_owned(), port)).collect());
        }
        (false, true) => return named_addresses(table, servers),
    }
    None
}

fn named_addresses(table: &Table<'_>, servers: &[Server]) -> Option<Vec<(String, u16)>> {
    let DeValue::Table(given) = table.value("addresses")?.get_ref() else {
        table.refuse("addresses", table.mismatch("addresses", table.value("addresses")?.get_ref()));
        return None;
    };
    let path = |name: &str| table.path(&format!("addresses.{name}"));
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    for name in given.keys().filter(|name| !names.contains(&name.get_ref().as_ref())) {
        let hint = did_you_mean(name.get_ref(), names.iter().copied());
        table.cx.refuse(table.cx.line_of(name), path(name.get_ref()), format!("unknown server{hint}"));
    }
    let missing: Vec<&str> = names.iter().copied().filter(|name| !given.contains_key(*name)).collect();
    if !missing.is_empty() {
        table.refuse("addresses", format!("has no address for {}; every server needs one", some_of(&missing)));
    }
    let mut addresses = Vec::new();
    for name in names {
        let value = given.get(name)?;
        let text = value.get_ref().as_str();
        match text.and_then(host_and_port) {
            Some(address) => {
                table.set_member("addresses", name, text.unwrap_or_default());
                addresses.push(address);
            }
            None => {
                let message = "is not an address; write for example \"10.0.0.1:7334\"";
                table.cx.refuse(table.cx.line_of(value), path(name), message);
            }
        }
    }
    Some(addresses)
}

fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let v6 =
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).filter(|host| host.parse::<IpAddr>().is_ok());
    v6.or_else(|| Some(host).filter(|host| is_host_name(host))).map(|host| (host.to_owned(), port))
}
