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
use crate::schema::reader::Reader;
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
pub(crate) fn read(root: &Reader<'_>, servers: &[Server]) -> Option<Peers> {
    let reader = Reader::open(root.cx, &PEERS, "peers", Some(root.value("peers")?));
    let cluster = read_name(&reader);
    let bind = read_bind(&reader);
    let (addresses, security) = (read_addresses(&reader, servers), read_security(&reader));
    let clock_limit = reader.duration("clock_limit");
    let sockets = reader.text("sockets").map_or(SOCKETS, |found| found.text);
    reader.set("sockets", sockets);
    let sockets = PathBuf::from(sockets);
    Some(Peers { cluster, addresses: addresses?, bind, security: security?, clock_limit, sockets })
}

fn read_name(reader: &Reader<'_>) -> String {
    let name = reader.text("cluster").map_or("vpfs", |found| found.text);
    if !is_name(name) {
        reader.refuse("cluster", format!("{} is not a name; {NAME_RULE}", quote(name)));
    }
    reader.set("cluster", name);
    name.to_owned()
}

fn read_bind(reader: &Reader<'_>) -> Option<IpAddr> {
    let text = reader.text("bind")?.text;
    let bind = text.parse().ok();
    match bind {
        Some(_) => reader.set("bind", text),
        None => {
            reader.refuse("bind", format!("{} is not an IP address; write for example \"0.0.0.0\"", quote(text)));
        }
    }
    bind
}

fn read_security(reader: &Reader<'_>) -> Option<PeerSecurity> {
    const KEY: &[&str] = &["shared_key"];
    const CERTIFICATES: &[&str] = &["authority", "certificate", "private_key"];
    let choice = reader.choice("security")?;
    let (needed, others) = match choice {
        0 => (KEY, CERTIFICATES),
        1 => (CERTIFICATES, KEY),
        _ => (&[][..], &["shared_key", "authority", "certificate", "private_key"][..]),
    };
    for key in others.iter().filter(|key| reader.has(key)) {
        reader.refuse(key, "has no effect with this security; remove it, or choose another security");
    }
    let missing: Vec<&str> = needed.iter().copied().filter(|key| !reader.has(key)).collect();
    if !missing.is_empty() {
        reader.refuse("security", format!("needs {}; `vpfs init` writes such files", some_of(&missing)));
    }
    let files: Vec<PathBuf> = needed.iter().filter_map(|key| read_file(reader, key)).collect();
    match choice {
        0 => files.into_iter().next().map(PeerSecurity::SharedKey),
        1 => {
            let [authority, certificate, private_key] = files.try_into().ok()?;
            Some(PeerSecurity::Certificates { authority, certificate, private_key })
        }
        _ => Some(PeerSecurity::None),
    }
}

fn read_file(reader: &Reader<'_>, key: &str) -> Option<PathBuf> {
    let path = reader.text(key)?.text;
    reader.set(key, path);
    Some(path.into())
}

fn read_addresses(reader: &Reader<'_>, servers: &[Server]) -> Option<Vec<(String, u16)>> {
    match (reader.has("port"), reader.has("addresses")) {
        (true, true) => reader.refuse("port", "cannot be combined with addresses; remove one of the two"),
        (false, false) => {
            let example =
                "port = 7334 (the same on every server's host) or addresses = { s1 = \"10.0.0.1:7334\", ... }";
            reader.refuse("addresses", format!("is missing; add {example}"));
        }
        (true, false) => {
            let port = u16::try_from(reader.count("port")?).ok()?;
            return Some(servers.iter().map(|server| (server.address.host().to_owned(), port)).collect());
        }
        (false, true) => return named_addresses(reader, servers),
    }
    None
}

fn named_addresses(reader: &Reader<'_>, servers: &[Server]) -> Option<Vec<(String, u16)>> {
    let DeValue::Table(table) = reader.value("addresses")?.get_ref() else {
        reader.refuse("addresses", reader.mismatch("addresses", reader.value("addresses")?.get_ref()));
        return None;
    };
    let path = |name: &str| reader.path(&format!("addresses.{name}"));
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    for name in table.keys().filter(|name| !names.contains(&name.get_ref().as_ref())) {
        let hint = did_you_mean(name.get_ref(), names.iter().copied());
        reader.cx.refuse(reader.cx.line_of(name), path(name.get_ref()), format!("unknown server{hint}"));
    }
    let missing: Vec<&str> = names.iter().copied().filter(|name| !table.contains_key(*name)).collect();
    if !missing.is_empty() {
        reader.refuse("addresses", format!("has no address for {}; every server needs one", some_of(&missing)));
    }
    let mut addresses = Vec::new();
    for name in names {
        let value = table.get(name)?;
        let text = value.get_ref().as_str();
        match text.and_then(host_and_port) {
            Some(address) => {
                reader.set_member("addresses", name, text.unwrap_or_default());
                addresses.push(address);
            }
            None => {
                let message = "is not an address; write for example \"10.0.0.1:7334\"";
                reader.cx.refuse(reader.cx.line_of(value), path(name), message);
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
