//! Whether a daemon can start on this host, without starting it: by what the start itself does.
//! Its file descriptors: each connection takes two, and without any left the daemon neither accepts nor connects.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use std::{fmt, io};

use futures_util::future::BoxFuture;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vpfs_config::Config;
use vpfs_core::ServerId;

use crate::names::Resolver;
use crate::peers::PeersError;
use crate::sockets::bind_first;
use crate::{peers, stream};

/// How long to wait for a name to listen at; [`crate::check_names`] reports one that takes longer.
const PATIENCE: Duration = Duration::from_secs(2);

struct Place {
    owner: Owner,
    host: String,
    port: u16,
}

#[derive(Clone, PartialEq, Eq)]
enum Owner {
    Listener(usize, String),
    Peers,
    Metrics,
    Page,
}

/// Why a process for these servers cannot start here. An address that is in use is no reason: it may be that of a proxy
/// which runs.
pub fn check_start<'a>(config: &'a Config, servers: &'a [ServerId]) -> BoxFuture<'a, Vec<StartError>> {
    Box::pin(async move {
        let mut reasons = Vec::new();
        reasons.extend(disjoint(config, servers).err());
        if let Some(configured) = &config.peers {
            reasons.extend(peers::check_keys(configured).await.err().map(StartError::Peers));
        }
        for place in places(config, servers) {
            let addresses = addresses_of(&place.host).await;
            match bind_first(&addresses.iter().map(|&ip| (ip, place.port).into()).collect::<Vec<_>>()) {
                Err(error) if !addresses.is_empty() && error.kind() != io::ErrorKind::AddrInUse => {
                    reasons.push(place.refused(error));
                }
                _ => {}
            }
        }
        reasons
    })
}

/// What a process with this configuration would go without on this host, although it starts: addresses at which metrics
/// or the page cannot be served.
pub fn check_serving(config: &Config) -> Vec<StartError> {
    let refused = |place: Place| {
        let ip = place.host.parse::<IpAddr>().ok()?;
        let error = bind_first(&[(ip, place.port).into()]).err()?;
        (error.kind() != io::ErrorKind::AddrInUse).then(|| place.refused(error))
    };
    serving(config).into_iter().filter_map(refused).collect()
}

async fn addresses_of(host: &str) -> Vec<IpAddr> {
    if let Ok(ip) = host.parse() {
        return vec![ip];
    }
    let found = tokio::time::timeout(PATIENCE, Resolver::default().look_up(host.to_owned())).await;
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// Refuses servers of one process if it would listen twice at the same address: for clients, peers, metrics or the
/// page.
pub(crate) fn disjoint(config: &Config, servers: &[ServerId]) -> Result<(), StartError> {
    let mut places = places(config, servers);
    places.extend(serving(config));
    for (index, place) in places.iter().enumerate() {
        if let Some(other) = places[..index].iter().find(|other| other.meets(place)) {
            let error = format!("{} listens there, too; choose another port, or another bind", other.owner.name());
            return Err(place.refused(io::Error::other(error)));
        }
    }
    Ok(())
}

fn places(config: &Config, servers: &[ServerId]) -> Vec<Place> {
    let mut places = Vec::new();
    for (index, listener) in config.listeners.iter().enumerate() {
        for &id in servers {
            let (host, port) = listener.bind_address(id);
            places.push(Place {
                owner: Owner::Listener(index + 1, config.servers[id.index()].name.clone()),
                host,
                port,
            });
        }
    }
    let peers = config.peers.as_ref().map(|peers| peers::listening(peers, servers)).unwrap_or_default();
    places.extend(peers.into_iter().map(|(host, port)| Place { owner: Owner::Peers, host, port }));
    places
}

fn serving(config: &Config) -> Vec<Place> {
    let metrics = config.metrics.as_ref().map(|metrics| (Owner::Metrics, metrics.listen));
    let page = config.web.as_ref().map(|page| (Owner::Page, page.listen));
    let place = |(owner, at): (_, SocketAddr)| Place { owner, host: at.ip().to_string(), port: at.port() };
    [metrics, page].into_iter().flatten().map(place).collect()
}

impl Place {
    fn meets(&self, other: &Self) -> bool {
        let ip = |host: &str| host.parse::<IpAddr>().ok();
        let is_any = |one: &str, other: &str| {
            let (one, other) = (ip(one), ip(other));
            one.zip(other).is_some_and(|(one, other)| one.is_unspecified() && one.is_ipv4() == other.is_ipv4())
        };
        let (host, others) = (&self.host, &other.host);
        self.port == other.port && (host.eq_ignore_ascii_case(others) || is_any(host, others) || is_any(others, host))
    }

    fn refused(&self, error: io::Error) -> StartError {
        let (host, port) = (self.host.clone(), self.port);
        match &self.owner {
            Owner::Listener(_, server) => StartError::Listen { server: server.clone(), host, port, error },
            Owner::Peers => StartError::Peers(peers::PeersError::Listen { host, port, error }),
            Owner::Metrics | Owner::Page => StartError::Serve { what: self.owner.name(), host, port, error },
        }
    }
}

impl Owner {
    fn name(&self) -> String {
        match self {
            Self::Listener(number, server) => format!("listener {number} for server {server}"),
            Self::Peers => "[peers]".to_owned(),
            Self::Metrics => "[metrics]".to_owned(),
            Self::Page => "[web]".to_owned(),
        }
    }
}

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum StartError {
    /// The process to succeed is gone.
    #[error("cannot take over from the predecessor: {0}")]
    Predecessor(io::Error),
    /// Other processes cannot be reached.
    #[error("{0}")]
    Peers(#[from] PeersError),
    /// An address cannot be bound.
    #[error("cannot listen at {host}:{port} for server {server}: {error}")]
    Listen { server: String, host: String, port: u16, error: io::Error },
    /// The same for metrics or the page.
    #[error("cannot listen at {host}:{port} for {what}: {error}")]
    Serve { what: String, host: String, port: u16, error: io::Error },
}

/// Descriptors for everything but connections: pipes, listening sockets, the runtime, the log, files while they are
/// read.
const OTHERS: usize = 64 + 2 * stream::MOST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Process,
    System,
}

impl Exhausted {
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::Process),
            Errno::NFILE => Some(Self::System),
            _ => None,
        }
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => {
                let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                write!(f, "out of file descriptors (limit {limit}): raise LimitNOFILE= of the service, or `ulimit -n`")
            }
            Self::System => f.write_str("the system is out of file descriptors: raise fs.file-max"),
        }
    }
}

/// Raises the soft limit of the process to the hard one, if `connections` need it; warns if that is not enough.
pub(crate) fn provide_descriptors(connections: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|limit| limit < descriptors_needed(connections)) {
        // Permitted to every process; if it fails nevertheless, the limit is what it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    if let Some(shortage) = shortage_of_descriptors(connections) {
        tracing::warn!("{shortage}");
    }
}

/// What is missing if the process may not have two descriptors for each connection.
pub fn shortage_of_descriptors(connections: usize) -> Option<String> {
    let needed = descriptors_needed(connections);
    let limit = getrlimit(Resource::Nofile).maximum.filter(|limit| *limit < needed)?;
    Some(format!(
        "limits.connections needs {needed} file descriptors, two for each, but the limit is {limit}: raise LimitNOFILE= of \
         the service, or `ulimit -n`, or lower limits.connections"
    ))
}

/// How many a process needs for so many connections.
pub fn descriptors_needed(connections: usize) -> u64 {
    connections.saturating_mul(2).saturating_add(OTHERS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n\
                       [[server]]\nname = \"s2\"\naddress = \"tcp://192.0.2.1:3334\"\n";

    const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    async fn reasons(text: &str, servers: &[u32]) -> Vec<String> {
        let config = Config::parse("f", &format!("{TWO}{text}")).unwrap_or_else(|problems| panic!("{problems}"));
        let servers: Vec<_> = servers.iter().map(|&id| ServerId(id)).collect();
        check_start(&config, &servers).await.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn addresses_of_other_hosts_are_refused_and_used_ones_are_not() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let listener = format!("[[listener]]\nport = {port}\n");
        assert_eq!(reasons(&listener, &[0]).await, [""; 0]);
        let elsewhere = format!(
            "cannot listen at 192.0.2.1:{port} for server s2: this host does not have the address; name the servers of \
             this host with --server, or write bind"
        );
        for servers in [&[0, 1][..], &[1]] {
            assert_eq!(reasons(&listener, servers).await, [&*elsewhere]);
        }
        assert_eq!(reasons(&format!("{listener}bind = \"127.0.0.1\"\n"), &[1]).await, [""; 0]);
    }

    #[tokio::test]
    async fn two_sockets_at_one_address_are_refused() {
        let listener = "[[listener]]\nport = 5334\n";
        let both = format!("{listener}bind = \"0.0.0.0\"\n");
        assert_eq!(reasons(&both, &[0]).await, [""; 0]);
        let mixed = format!(
            "{listener}[[listener]]\nbind = \"0.0.0.0\"\naddresses = {{ s1 = \"tcp://a:5334\", s2 = \"tcp://b:5334\" }}\n"
        );
        let peers = format!("{listener}[peers]\nport = 5334\nsecurity = \"none\"\n");
        let metrics = format!("{listener}[metrics]\nlisten = \"127.0.0.1:5334\"\n");
        for (text, servers, refused) in [
            (&both, &[0, 1][..], "0.0.0.0:5334 for server s2"),
            (&mixed, &[0], "0.0.0.0:5334 for server s1"),
            (&peers, &[0], "127.0.0.1:5334 for peers"),
            (&metrics, &[0], "127.0.0.1:5334 for [metrics]"),
        ] {
            let expected = format!(
                "cannot listen at {refused}: listener 1 for server s1 listens there, too; choose another port, or another \
                 bind"
            );
            assert_eq!(reasons(text, servers).await, [expected]);
        }
    }

    #[test]
    fn metrics_and_the_page_need_an_address_of_this_host() {
        let without = |address: &str| {
            let text = format!(
                "{TWO}[[listener]]\nport = 5334\n[metrics]\nlisten = \"{address}:9334\"\ntoken = \"t\"\n\
                 [web]\nlisten = \"127.0.0.1:9335\"\nkey = \"k\"\n"
            );
            let config = Config::parse("f", &text).unwrap_or_else(|problems| panic!("{problems}"));
            check_serving(&config).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(without("127.0.0.1"), [""; 0]);
        let told = without("192.0.2.1");
        assert!(told.len() == 1 && told[0].starts_with("cannot listen at 192.0.2.1:9334 for [metrics]: "), "{told:?}");
    }

    /// One server, or a process for all of them, had no peers, so that nothing listened, and the key did not matter:
    /// agents and commands with `--remote` were refused while all checks passed.
    #[tokio::test]
    async fn a_process_for_all_servers_is_checked_like_others() {
        let text = "[[listener]]\nbind = \"127.0.0.1\"\naddresses = { s1 = \"tcp://a:5334\", s2 = \"tcp://b:5335\" }\n\
                    [peers]\nport = 7334\nbind = \"127.0.0.1\"\nshared_key = \"/missing\"\n";
        assert_eq!(
            reasons(text, &[0, 1]).await,
            ["[peers] /missing does not exist: write the secret into it, then chgrp vpfs and chmod 640 it"]
        );
    }

    #[tokio::test]
    async fn keys_that_cannot_be_read_are_refused_where_there_are_peers() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        let text = format!(
            "[[listener]]\nport = 5334\nbind = \"127.0.0.1\"\n[peers]\nport = 7334\nbind = \"127.0.0.1\"\nshared_key = {key:?}\n"
        );
        let missing = format!(
            "[peers] {} does not exist: write the secret into it, then chgrp vpfs and chmod 640 it",
            key.display()
        );
        assert_eq!(reasons(&text, &[0]).await, [missing]);
        assert_eq!(reasons(&text, &[]).await.len(), 1, "a process for no server has peers");
        std::fs::write(&key, SECRET).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(reasons(&text, &[0]).await, [""; 0]);
        std::fs::write(&key, "no key").unwrap();
        let wrong =
            format!("[peers] {} is not a key of 64 hexadecimal digits, as `vpfs init` writes it", key.display());
        assert_eq!(reasons(&text, &[0]).await, [wrong]);
    }
}
