//! `[[server]]` and `[[listener]]`: the servers, and the addresses that clients see instead.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vpfs_core::ServerId;

use crate::apps::Names;
use crate::clients::AppIndex;
use crate::hosts::{HostList, HostSet, is_host_name};
use crate::keys::{METRICS, OWNER, PEERS, REFUSE, SOCKETS, TRUST, WEB};
use crate::schema::{Table, did_you_mean, some_of};
use crate::units::{NAME_RULE, SetName, is_name, quote};

/// A server's protocol, given by the scheme of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// OrangeFS over TCP: `tcp://`, as in its own configuration.
    OrangeFs,
    /// NFS and what belongs to it over ONC RPC and TCP: `nfs://`.
    Nfs,
}

impl Protocol {
    const SCHEMES: [(&'static str, Self); 2] = [("tcp://", Self::OrangeFs), ("nfs://", Self::Nfs)];

    /// What its addresses begin with, `tcp://` or `nfs://`.
    pub fn scheme(self) -> &'static str {
        Self::SCHEMES.iter().find(|(_, known)| *known == self).expect("each has a scheme").0
    }

    fn split(text: &str) -> Option<(Self, &str)> {
        Self::SCHEMES.iter().find_map(|&(scheme, protocol)| Some((protocol, text.strip_prefix(scheme)?)))
    }
}

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

const SERVERS_LIMIT: usize = 1024;

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
        let table = Table::open(root.cx, &crate::keys::SERVER, format!("server.{}", index + 1), Some(value));
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

pub(crate) fn read_listeners(
    root: &Table<'_>,
    servers: &[Server],
    apps: &Names,
    taken: &mut Addresses,
) -> Vec<Listener> {
    let mut listeners = Vec::new();
    for (index, value) in bounded(root, "listener", LISTENERS_LIMIT).iter().enumerate() {
        let path = format!("listener.{}", index + 1);
        let table = Table::open(root.cx, &crate::keys::LISTENER, path, Some(value));
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

/// The table `addresses`; reports servers that do not exist, and those that it lacks, of which it says why they are
/// needed.
fn by_server<'a>(table: &Table<'a>, servers: &[Server], needed: &str) -> Option<&'a DeTable<'a>> {
    let DeValue::Table(given) = table.value("addresses")?.get_ref() else {
        table.refuse("addresses", table.mismatch("addresses", table.value("addresses")?.get_ref()));
        return None;
    };
    let names: HashSet<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    for name in given.keys().filter(|name| !names.contains(name.get_ref().as_ref())) {
        let hint = did_you_mean(name.get_ref(), servers.iter().map(|server| server.name.as_str()));
        let path = table.path(&format!("addresses.{}", name.get_ref()));
        table.cx.refuse(table.cx.line_of(name), path, format!("unknown server{hint}"));
    }
    let missing = servers.iter().map(|server| server.name.as_str()).filter(|name| !given.contains_key(*name));
    let missing: Vec<&str> = missing.collect();
    if !missing.is_empty() {
        table.refuse("addresses", format!("has no address for {}; {needed}", some_of(&missing)));
    }
    Some(given)
}

/// The addresses in the order of the servers, with their lines; shorter if one is missing.
fn named_addresses<'a>(table: &Table<'_>, servers: &'a [Server]) -> Vec<ProxyAddress<'a>> {
    let Some(given) = by_server(table, servers, "a listener needs one for every server") else { return Vec::new() };
    let path = |name: &str| table.path(&format!("addresses.{name}"));
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

/// Which hosts a proxy trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The hosts whose requests between servers are believed; `None`: those of `[[server]]` that are not loopback.
    pub servers: Option<HostList>,
    /// Whether clients may administer servers.
    pub may_manage: bool,
}

pub(crate) fn read_trust(root: &Table<'_>, hosts_left: &mut usize) -> Trust {
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
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let paths: Vec<&mut PathBuf> = match &mut self.security {
            PeerSecurity::SharedKey(key) => vec![key],
            PeerSecurity::Certificates { authority, certificate, private_key } => {
                vec![authority, certificate, private_key]
            }
            PeerSecurity::None => Vec::new(),
        };
        paths.into_iter().chain([&mut self.sockets])
    }
}

/// Reads the table; `None` if the file has none, or one with a problem, which is reported.
pub(crate) fn read_peers(root: &Table<'_>, servers: &[Server]) -> Option<Peers> {
    if !root.has("peers") {
        return None;
    }
    let table = root.table("peers", &PEERS);
    let cluster = read_name(&table);
    let bind = read_bind(&table);
    let (addresses, security) = (read_peer_addresses(&table, servers), read_security(&table));
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
    let files: Vec<PathBuf> = needed.iter().filter_map(|key| table.shown_text(key).map(PathBuf::from)).collect();
    match choice {
        0 => files.into_iter().next().map(PeerSecurity::SharedKey),
        1 => {
            let [authority, certificate, private_key] = files.try_into().ok()?;
            Some(PeerSecurity::Certificates { authority, certificate, private_key })
        }
        _ => Some(PeerSecurity::None),
    }
}

fn read_peer_addresses(table: &Table<'_>, servers: &[Server]) -> Option<Vec<(String, u16)>> {
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
        (false, true) => return named_peer_addresses(table, servers),
    }
    None
}

fn named_peer_addresses(table: &Table<'_>, servers: &[Server]) -> Option<Vec<(String, u16)>> {
    let given = by_server(table, servers, "every server needs one")?;
    let path = |name: &str| table.path(&format!("addresses.{name}"));
    let mut addresses = Vec::new();
    for name in servers.iter().map(|server| server.name.as_str()) {
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

/// Where metrics are served by TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// The address; one of the loopback, if there is no token.
    pub listen: SocketAddr,
    /// The file with the secret that readers of metrics must send.
    pub token: Option<PathBuf>,
}

/// Reads the table; `None` if metrics are not served by TCP, or the table has a problem, which is reported.
pub(crate) fn read_metrics(root: &Table<'_>) -> Option<Metrics> {
    let table = root.table("metrics", &METRICS);
    let token = table.shown_text("token");
    let Some(text) = table.text("listen") else {
        if token.is_some() {
            table.refuse("token", "has no effect without listen; add listen = \"0.0.0.0:9334\", or remove it");
        }
        return None;
    };
    let listen = endpoint(&table, text)?;
    if token.is_none() && !listen.ip().to_canonical().is_loopback() {
        let (quoted, port) = (quote(text), listen.port());
        let message = format!(
            "{quoted} can be reached from other hosts, where everybody could read what each application does; add \
             token = \"metrics.token\", a file with a secret, or listen at \"127.0.0.1:{port}\""
        );
        table.refuse("listen", message);
        return None;
    }
    table.set("listen", text);
    Some(Metrics { listen, token: token.map(PathBuf::from) })
}

/// The address in `listen`; reports what is none.
fn endpoint(table: &Table<'_>, text: &str) -> Option<SocketAddr> {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() > 0);
    if address.is_none() {
        let fix = "is not an IP address with a port; write for example \"127.0.0.1:9334\"";
        table.refuse("listen", format!("{} {fix}", quote(text)));
    }
    address
}

/// Where the live page is served by TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// The address.
    pub listen: SocketAddr,
    /// The file with the secret in the path of the page.
    pub key: PathBuf,
}

/// Reads the table; `None` if the page is not served by TCP, or the table has a problem, which is reported.
pub(crate) fn read_web(root: &Table<'_>) -> Option<Web> {
    let table = root.table("web", &WEB);
    let [listen, key] = ["listen", "key"].map(|name| table.shown_text(name));
    match (listen, key) {
        (Some(listen), Some(key)) => Some(Web { listen: endpoint(&table, listen)?, key: PathBuf::from(key) }),
        (Some(_), None) => {
            let fix = "everybody who can connect could see what each application does; add key = \"web.key\", a file with a \
                       secret (openssl rand -hex 16)";
            table.refuse("listen", fix);
            None
        }
        (None, Some(_)) => {
            table.refuse("key", "has no effect without listen; add listen = \"127.0.0.1:9335\", or remove it");
            None
        }
        (None, None) => None,
    }
}

/// The clients that may push sets under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What its sets are called, or begin with before a dot.
    pub name: String,
    /// The file with the secret that it must send.
    pub token: PathBuf,
}

pub(crate) fn read_owners(root: &Table<'_>) -> Vec<Owner> {
    let mut names = Names::new("owner");
    let read = |(index, value)| {
        let table = Table::open(root.cx, &OWNER, format!("owner.{}", index + 1), Some(value));
        let name = names.read(&table, "name");
        let (token, name) = (table.shown_text("token"), name?);
        match SetName::parse(&name) {
            Ok(set) if set.owner() == name => Some(Owner { name, token: PathBuf::from(token?) }),
            Ok(_) => {
                table.refuse("name", "has a dot; the owner of a set is what stands before the first one");
                None
            }
            Err(problem) => {
                table.refuse("name", problem);
                None
            }
        }
    };
    (0..).zip(root.list("owner")).filter_map(read).collect()
}
