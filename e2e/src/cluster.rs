//! Four servers with a proxy process in front of each, as on a real cluster.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Daemon, Hosts, PATIENCE, await_some, free_ports, run, vpfs};

/// Embedded servers on disks of 15 MB/s, proxies that share by the sum over all of them, and two applications with
/// listeners of their own: *wide*, of weight 2, and *narrow*, of weight 1.
#[derive(Debug)]
pub struct Cluster {
    proxies: Vec<Daemon>,
    _servers: Daemon,
    network: Network,
    dir: tempfile::TempDir,
}

#[derive(Debug)]
enum Network {
    /// All on 127.0.0.1, at ports from this one.
    Loopback(u16),
    /// Each proxy on a host of its own, servers and clients on the first one.
    Hosts(Hosts),
}

/// Who listens.
#[derive(Clone, Copy)]
enum End {
    Server,
    Wide,
    Narrow,
    Peer,
}

impl Network {
    fn address(&self, end: End, server: u16) -> String {
        match (self, end) {
            (Self::Loopback(port), _) => format!("127.0.0.1:{}", port + end as u16 * Cluster::SERVERS + server - 1),
            (Self::Hosts(_), End::Server) => format!("10.77.0.100:{}", 3333 + server),
            (Self::Hosts(_), _) => format!("10.77.0.{server}:{}", 5334 + end as u16),
        }
    }

    /// `name = "address"` of all servers.
    fn table(&self, end: End, scheme: &str) -> String {
        let of = |server| format!("s{server} = \"{scheme}{}\"", self.address(end, server));
        (1..=Cluster::SERVERS).map(of).collect::<Vec<_>>().join(", ")
    }

    /// The vpfs command on a host, of which 0 has clients and servers.
    fn on(&self, host: u16) -> Command {
        match self {
            Self::Loopback(_) => Command::new(vpfs()),
            Self::Hosts(hosts) => hosts.on(host),
        }
    }

    fn config(&self) -> String {
        let mut text = String::new();
        for server in 1..=Cluster::SERVERS {
            let address = self.address(End::Server, server);
            let _ = writeln!(text, "[[server]]\nname = \"s{server}\"\naddress = \"tcp://{address}\"\n");
        }
        for (app, end, weight) in [("wide", End::Wide, 2), ("narrow", End::Narrow, 1)] {
            let own = self.table(end, "tcp://");
            let _ = writeln!(text, "[[listener]]\napp = \"{app}\"\naddresses = {{ {own} }}\n");
            let _ = writeln!(text, "[[app]]\nname = \"{app}\"\nweight = {weight}\n");
        }
        text + &format!(
            "[apps]\nauto = \"off\"\n[scheduler]\npolicy = \"sfq-d\"\ndepth = 4\nsharing = \"threshold\"\n\
             broadcast_threshold = \"1MiB\"\n\
             [peers]\naddresses = {{ {} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n",
            self.table(End::Peer, "")
        )
    }
}

impl Cluster {
    /// Servers are s1 to s4; with hosts, that of server n is host n.
    pub const SERVERS: u16 = 4;

    /// Starts everything, and waits until all proxies are connected with each other. Without hosts, all are on
    /// 127.0.0.1.
    pub fn start(hosts: Option<Hosts>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let network = hosts.map_or_else(|| Network::Loopback(free_ports(4 * Self::SERVERS)), Network::Hosts);
        let key = dir.path().join("peers.key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).expect("a file");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        std::fs::write(dir.path().join("vpfs.toml"), network.config()).expect("a file");
        let mut serve = network.on(0);
        serve.args(["serve", "--device", "throttled-disk", "--listen", &network.address(End::Server, 1)]);
        let mut servers = Daemon::start(dir.path(), "servers", &mut serve);
        servers.await_log("serving");
        let mut cluster = Self { proxies: Vec::new(), _servers: servers, network, dir };
        cluster.proxies = (1..=Self::SERVERS).map(|server| cluster.proxy(server)).collect();
        for server in 1..=Self::SERVERS {
            cluster.await_lost(server, &[]);
        }
        cluster
    }

    fn proxy(&self, server: u16) -> Daemon {
        let name = format!("s{server}");
        let mut command = self.network.on(server);
        command.args(["proxy", "--server", &name, "--config"]).arg(self.dir.path().join("vpfs.toml"));
        let mut proxy = Daemon::start(self.dir.path(), &name, &mut command);
        proxy.await_log("ready");
        proxy
    }

    /// A directory for files of the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The proxy of a server.
    pub fn proxy_of(&mut self, server: u16) -> &mut Daemon {
        &mut self.proxies[usize::from(server) - 1]
    }

    /// Starts the proxy of a server again.
    pub fn restart(&mut self, server: u16) {
        *self.proxy_of(server) = self.proxy(server);
    }

    /// `vpfs workload ior` as an application: *wide* or *narrow*.
    pub fn ior(&self, app: &str) -> Command {
        let end = if app == "wide" { End::Wide } else { End::Narrow };
        let mut command = self.network.on(0);
        command.args(["workload", "ior", "--url", &format!("tcp://{}/pfs", self.network.address(end, 1))]);
        command
    }

    /// Cuts or joins the links between proxies of one side and those of the other; clients and servers notice nothing.
    ///
    /// # Panics
    /// Without hosts.
    pub fn set_cut(&self, one: &[u16], other: &[u16], is_cut: bool) {
        let Network::Hosts(hosts) = &self.network else { panic!("links are cut between hosts only") };
        for (one, other) in one.iter().flat_map(|one| other.iter().map(move |other| (*one, *other))) {
            for (from, to) in [(one, other), (other, one)] {
                // Frames go to an address that nobody has.
                let at = format!("10.77.0.{to}");
                hosts.ip(
                    from,
                    &match is_cut {
                        true => format!("neigh replace {at} lladdr 02:00:00:00:00:01 dev eth0 nud permanent"),
                        false => format!("neigh delete {at} dev eth0"),
                    },
                );
            }
        }
    }

    /// What the proxy of a server knows about the others, and what applications got.
    pub fn report(&self, server: u16) -> Value {
        let text = run(&mut self.peers(&["--json", "--server", &format!("s{server}")]));
        let reports: Value = serde_json::from_str(&text).expect("JSON");
        reports[0].clone()
    }

    /// `vpfs peers`.
    pub fn peers(&self, args: &[&str]) -> Command {
        let config: PathBuf = self.dir.path().join("vpfs.toml");
        let mut command = Command::new(vpfs());
        command.arg("peers").args(args).arg("--config").arg(config);
        command
    }

    /// Waits until the proxy of `server` has links to all others but those of `lost`. Returns how long that took.
    ///
    /// # Panics
    /// If it takes more than 20 s.
    pub fn await_lost(&self, server: u16, lost: &[u16]) -> Duration {
        let start = Instant::now();
        let expected: Vec<String> = lost.iter().map(|id| format!("s{id}")).collect();
        await_some(PATIENCE, || {
            let report = self.report(server);
            let peers = report["peers"].as_array().expect("a list").iter();
            let unreached = peers.filter(|peer| peer["connected"] == false).filter_map(|peer| peer["server"].as_str());
            let is_so = unreached.eq(expected.iter().map(String::as_str));
            if is_so { Ok(start.elapsed()) } else { Err(format!("s{server}, not {lost:?}: {report}")) }
        })
    }
}
