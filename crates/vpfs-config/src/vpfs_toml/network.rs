//! `[[server]]` and `[[listener]]`: the servers, and the addresses that clients see instead.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;
use vpfs_core::ServerId;

use super::apps::Names;
use super::clients::AppIndex;
use super::host_name::is_host_name;
use crate::schema::problem::did_you_mean;
use crate::schema::table::Table;
use crate::schema::units::quote;

/// A server's protocol, given by the scheme of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// OrangeFS over TCP: `tcp://`, as in its own configuration.
    OrangeFs,
    /// NFS and what belongs to it over ONC RPC and TCP: `nfs://`.
    Nfs,
}

impl Protocol {
    /// All protocols with their schemes.
    const SCHEMES: [(&'static str, Self); 2] = [("tcp://", Self::OrangeFs), ("nfs://", Self::Nfs)];

    /// What its addresses begin with, `tcp://` or `nfs://`.
    pub fn scheme(self) -> &'static str {
        Self::SCHEMES.iter().find(|(_, known)| *known == self).expect("each has a scheme").0
    }

    /// The protocol of an address, and what follows the scheme.
    fn split(text: &str) -> Option<(Self, &str)> {
        Self::SCHEMES.iter().find_map(|&(scheme, protocol)| Some((protocol, text.strip_prefix(scheme)?)))
    }
}

/// What the address of a mount begins with.
const MOUNT: &str = "mount://";

/// A server's or listener's address, `tcp://host:port` or `nfs://host:port`; or `mount://host`, a file system as `vpfs
/// mount` shows it to the programs of one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// `None` for a mount.
    protocol: Option<Protocol>,
    text: String,
    host: String,
    port: u16,
}

impl Address {
    /// Reads `tcp://host:port`, `nfs://host:port` or `mount://host`; an error message states what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("{} {why}; write for example \"tcp://10.0.0.1:3334\"", quote(text)));
        if let Some(host) = text.strip_prefix(MOUNT) {
            return match is_host_name(host) {
                true => Ok(Self { protocol: None, text: text.to_owned(), host: host.to_owned(), port: 0 }),
                false => Err(format!("{} is not the host of a mount; write for example \"mount://c001\"", quote(text))),
            };
        }
        let Some((protocol, rest)) = Protocol::split(text) else {
            return refuse("starts neither with \"tcp://\", for OrangeFS, nor with \"nfs://\" or \"mount://\"");
        };
        if rest.contains('/') {
            return refuse("has a path after its port");
        }
        if rest.contains('[') {
            return refuse("is an IPv6 address, which is not supported here");
        }
        match rest.split_once(':') {
            Some((host, port)) if is_host_name(host) => match port.parse() {
                Ok(port) if port > 0 => {
                    Ok(Self { protocol: Some(protocol), text: text.to_owned(), host: host.to_owned(), port })
                }
                _ => refuse("has no port between 1 and 65535"),
            },
            Some(_) => refuse("has no valid host"),
            None => refuse("has no port"),
        }
    }

    /// The same address with another port.
    fn at_port(&self, port: u16) -> Self {
        let Self { protocol, host, .. } = self;
        let text = format!("{}{host}:{port}", protocol.map_or(MOUNT, Protocol::scheme));
        Self { protocol: *protocol, text, host: host.clone(), port }
    }

    /// The protocol of this address; a mount has none.
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Exactly as written, since it must match the servers' configuration.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A host name or an IPv4 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// 0 for the host of a mount only.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Equal for addresses that differ only in spelling.
    fn canonical(&self) -> String {
        format!("{}:{}", self.host.to_ascii_lowercase(), self.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A server. Its position in [`crate::Config::servers`] is its [`ServerId`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its alias.
    pub name: String,
    /// The address at which it listens.
    pub address: Address,
    /// A directory of its host that holds its data, if the file says it.
    pub data: Option<PathBuf>,
}

impl Server {
    /// Whether it is what `vpfs mount` shows on a host.
    pub fn is_mount(&self) -> bool {
        self.address.protocol.is_none()
    }
}

/// An entry point for clients: one address in front of every server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Clients that connect here belong to this application.
    pub app: Option<AppIndex>,
    /// The addresses of the proxies, by [`ServerId`]; one for each server.
    pub addresses: Vec<Address>,
    /// The local address to listen at, if it is not the host of the proxy's address.
    pub bind: Option<IpAddr>,
    /// Clients are told the servers' own addresses, from which a packet filter redirects them.
    pub is_redirected: bool,
}

impl Listener {
    /// The ports at which clients connect to it.
    pub fn ports(&self) -> Vec<u16> {
        self.addresses.iter().map(Address::port).collect()
    }

    /// Host and port to listen at in front of `server`; the host may be a name.
    pub fn bind_address(&self, server: ServerId) -> (String, u16) {
        let address = &self.addresses[server.index()];
        (self.bind.map_or_else(|| address.host.clone(), |ip| ip.to_string()), address.port)
    }
}

/// The maximum number of servers in a file.
const SERVERS_LIMIT: usize = 1024;
/// The maximum number of listeners in a file.
const LISTENERS_LIMIT: usize = 64;

/// The addresses of the file and their owners; detects duplicates.
#[derive(Default)]
pub(crate) struct Addresses(HashMap<String, (String, usize)>);

impl Addresses {
    /// Records the owner of `address`; an error names the existing owner.
    fn claim(&mut self, address: &Address, owner: String, line: usize) -> Result<(), String> {
        match self.0.get(&address.canonical()) {
            Some((other, line)) => Err(format!("{address} is already {other} (line {line})")),
            None => {
                self.0.insert(address.canonical(), (owner, line));
                Ok(())
            }
        }
    }
}

/// The elements of a list of tables, up to `limit`: memory grows with servers times listeners.
fn bounded<'a>(root: &Table<'a>, key: &str, limit: usize) -> &'a [Spanned<DeValue<'a>>] {
    let list = root.list(key);
    if list.len() > limit {
        root.cx.refuse(
            root.cx.line_of(&list[limit]),
            key,
            format!("there are {} of them; the limit is {limit}", list.len()),
        );
    }
    &list[..list.len().min(limit)]
}

/// Reads the servers; one with an invalid address is kept, so that listeners that name it cause no further problems.
pub(crate) fn read_servers(root: &Table<'_>, addresses: &mut Addresses) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    let mut names = Names::new("server");
    for (index, value) in bounded(root, "server", SERVERS_LIMIT).iter().enumerate() {
        let table = Table::open(root.cx, &super::keys::SERVER, format!("server.{}", index + 1), Some(value));
        let name = names.read(&table, "name");
        let text = table.text("address");
        let (Some(name), Some(text)) = (name, text) else { continue };
        let address = Address::parse(text).and_then(|address| {
            let taken = addresses.claim(&address, own_address(&name), table.line_of("address"));
            taken.map_err(|message| format!("{message}; each server needs its own address")).map(|()| address)
        });
        let address = address.unwrap_or_else(|message| {
            table.refuse("address", message);
            Address { protocol: Some(Protocol::OrangeFs), text: text.to_owned(), host: String::new(), port: 0 }
        });
        table.set("address", text);
        let data = read_data(&table, address.protocol.is_none());
        servers.push(Server { name, address, data });
    }
    if servers.iter().any(Server::is_mount) && !servers.iter().all(Server::is_mount) {
        let message =
            "has mounts and servers; their programs and clients are told apart by different rules, so write two files";
        root.cx.refuse(0, "server", message);
    }
    if root.list("server").is_empty() {
        let example = "[[server]] with name = \"s1\" and address = \"tcp://10.0.0.1:3334\"";
        root.cx.refuse(0, "server", format!("is missing; add one {example} for every server"));
    }
    servers
}

fn read_data(table: &Table<'_>, is_mount: bool) -> Option<PathBuf> {
    let text = table.text("data")?;
    if is_mount {
        table.refuse("data", "has no effect for a mount, whose source `vpfs mount` names; remove it");
        return None;
    }
    if !text.starts_with('/') {
        table.refuse("data", format!("{} is not absolute; write for example \"/srv/export\"", quote(text)));
        return None;
    }
    table.set("data", text);
    Some(text.into())
}

fn own_address(server: &str) -> String {
    format!("used by server {server:?}")
}

/// Reads the listeners, after servers and applications.
pub(crate) fn read_listeners(
    root: &Table<'_>,
    servers: &[Server],
    apps: &Names,
    taken: &mut Addresses,
) -> Vec<Listener> {
    let mut listeners = Vec::new();
    for (index, value) in bounded(root, "listener", LISTENERS_LIMIT).iter().enumerate() {
        let path = format!("listener.{}", index + 1);
        let table = Table::open(root.cx, &super::keys::LISTENER, path, Some(value));
        let app = table.text("app").and_then(|name| apps.find(&table, "app", name));
        if let Some(found) = table.text("app") {
            table.set("app", found);
        }
        let addresses = read_addresses(&table, servers, index + 1, taken);
        let is_redirected = table.choice("advertise") == Some(1);
        listeners.push(Listener { app, addresses, bind: read_bind(&table), is_redirected });
    }
    let are_mounts = servers.iter().all(Server::is_mount) && !servers.is_empty();
    if are_mounts && !listeners.is_empty() {
        root.cx.refuse(0, "listener", "has no effect for mounts, which no client connects to; remove it");
    }
    if listeners.is_empty() && !are_mounts {
        root.cx.refuse(0, "listener", "is missing; add a [[listener]] with port = 5334 or addresses = { ... }");
    }
    listeners
}

fn read_bind(table: &Table<'_>) -> Option<IpAddr> {
    let text = table.text("bind")?;
    match text.parse() {
        Ok(bind) => {
            table.set("bind", text);
            Some(bind)
        }
        Err(_) => {
            table.refuse("bind", format!("{} is not an IP address; write for example \"0.0.0.0\"", quote(text)));
            None
        }
    }
}

fn read_addresses(table: &Table<'_>, servers: &[Server], number: usize, taken: &mut Addresses) -> Vec<Address> {
    let given: Vec<ProxyAddress<'_>> = match (table.has("port"), table.has("addresses")) {
        (true, true) => {
            table.refuse("port", "cannot be combined with addresses; remove one of the two");
            return Vec::new();
        }
        (false, false) => {
            let example = "port = 5334 (the same on every server's host) or addresses = { s1 = \"tcp://...\", ... }";
            table.refuse("addresses", format!("is missing; add {example}"));
            return Vec::new();
        }
        (true, false) => same_port(table, servers),
        (false, true) => named_addresses(table, servers),
    };
    for announced in &given {
        let (key, remedy) = match table.has("port") {
            true => ("port".into(), "choose another port, or write addresses if servers share a host"),
            false => (format!("addresses.{}", announced.server), "choose another port"),
        };
        let owner = format!("used by listener {number} for server {:?}", announced.server);
        if let Err(message) = taken.claim(&announced.address, owner, announced.line) {
            table.cx.refuse(announced.line, table.path(&key), format!("{message}; {remedy}"));
        }
        if !table.has("port") {
            table.set_member("addresses", announced.server, announced.address.as_str());
        }
    }
    given.into_iter().map(|announced| announced.address).collect()
}

/// The address of the proxy in front of one server.
struct ProxyAddress<'a> {
    server: &'a str,
    address: Address,
    line: usize,
}

/// The same port on every server's own host.
fn same_port<'a>(table: &Table<'_>, servers: &'a [Server]) -> Vec<ProxyAddress<'a>> {
    let Some(port) = table.count("port").and_then(|port| u16::try_from(port).ok()) else { return Vec::new() };
    let line = table.line_of("port");
    // A server with an invalid address has no host; that has been reported.
    let servers = servers.iter().filter(|server| !server.address.host.is_empty());
    let announced = |server: &'a Server| {
        let address = server.address.at_port(port);
        ProxyAddress { server: &server.name, address, line }
    };
    servers.map(announced).collect()
}

/// A proxy speaks the protocol of its server.
fn same_protocol(address: Address, server: &Server) -> Result<Address, String> {
    // A server with an invalid address has no host; that has been reported.
    let expected = server.address.protocol;
    if address.protocol == expected || server.address.host.is_empty() {
        return Ok(address);
    }
    let (name, scheme) = (&server.name, expected.map_or(MOUNT, Protocol::scheme));
    Err(format!("{address} does not start with {scheme:?}, as the address of server {name:?} does"))
}

/// The addresses in the order of the servers, with their lines; shorter if one is missing.
fn named_addresses<'a>(table: &Table<'_>, servers: &'a [Server]) -> Vec<ProxyAddress<'a>> {
    let Some(value) = table.value("addresses") else { return Vec::new() };
    let DeValue::Table(given) = value.get_ref() else {
        table.refuse("addresses", table.mismatch("addresses", value.get_ref()));
        return Vec::new();
    };
    let path = |name: &str| table.path(&format!("addresses.{name}"));
    let known: HashSet<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    for name in given.keys().filter(|name| !known.contains(name.get_ref().as_ref())) {
        let hint = did_you_mean(name.get_ref(), servers.iter().map(|server| server.name.as_str()));
        table.cx.refuse(table.cx.line_of(name), path(name.get_ref()), format!("unknown server{hint}"));
    }
    let missing: Vec<_> =
        servers.iter().map(|server| server.name.as_str()).filter(|name| !given.contains_key(*name)).collect();
    if !missing.is_empty() {
        let missing = crate::schema::problem::some_of(&missing);
        table.refuse("addresses", format!("has no address for {missing}; a listener needs one for every server"));
    }
    let mut addresses = Vec::new();
    for server in servers {
        let Some(value) = given.get(server.name.as_str()) else { continue };
        let line = table.cx.line_of(value);
        let parsed = match value.get_ref() {
            DeValue::String(text) => Address::parse(text).and_then(|address| same_protocol(address, server)),
            other => Err(table.mismatch("addresses", other)),
        };
        match parsed {
            Ok(address) => addresses.push(ProxyAddress { server: &server.name, address, line }),
            Err(message) => table.cx.refuse(line, path(&server.name), message),
        }
    }
    addresses
}
