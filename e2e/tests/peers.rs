//! One proxy process for each of four servers, as on four hosts: they find each other, and survive a hung and a killed
//! one. Verified load runs through them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use vpfs_e2e::{Daemon, free_ports, proxy_config, run, vpfs};

const SERVERS: u16 = 4;

struct Cluster {
    dir: tempfile::TempDir,
    _servers: Daemon,
    proxies: Vec<Daemon>,
    proxy_port: u16,
}

impl Cluster {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let server_port = free_ports(3 * SERVERS);
        let (proxy_port, peer_port) = (server_port + SERVERS, server_port + 2 * SERVERS);
        let listen = format!("127.0.0.1:{server_port}");
        let mut serve = Command::new(vpfs());
        let mut servers =
            Daemon::start(dir.path(), "servers", serve.args(["serve", "--servers", "4", "--listen", &listen]));
        servers.await_port(server_port + SERVERS - 1);
        let key = dir.path().join("peers.key");
        std::fs::write(&key, "0123456789abcdef".repeat(4)).expect("a file");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
        let named: Vec<String> =
            (0..SERVERS).map(|id| format!("s{} = \"127.0.0.1:{}\"", id + 1, peer_port + id)).collect();
        let peers = format!(
            "[scheduler]\nsharing = \"threshold\"\n\
             [peers]\naddresses = {{ {} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n",
            named.join(", ")
        );
        let text = proxy_config(SERVERS, server_port, proxy_port, &peers);
        std::fs::write(dir.path().join("vpfs.toml"), text).expect("a file");
        let mut cluster = Self { dir, _servers: servers, proxies: Vec::new(), proxy_port };
        cluster.proxies = (0..SERVERS).map(|id| cluster.proxy(id)).collect();
        cluster
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("vpfs.toml")
    }

    fn proxy(&self, id: u16) -> Daemon {
        let name = format!("s{}", id + 1);
        let mut command = Command::new(vpfs());
        let command = command.args(["proxy", "--server", &name, "--config"]).arg(self.config());
        let mut proxy = Daemon::start(self.dir.path(), &name, command);
        proxy.await_log("ready");
        proxy
    }

    /// What the proxy of the first server knows about the others.
    fn peers(&self) -> Value {
        let text = run(Command::new(vpfs()).args(["peers", "--json", "--server", "s1", "--config"]).arg(self.config()));
        let reports: Value = serde_json::from_str(&text).expect("JSON");
        reports[0]["peers"].clone()
    }

    /// Waits until the first proxy has a link to the others but these; how long that took.
    fn await_all_but(&self, absent: &[&str]) -> Duration {
        let start = Instant::now();
        loop {
            let peers = self.peers();
            let list = peers.as_array().expect("a list");
            let is_right = |peer: &Value| peer["connected"] != absent.contains(&peer["server"].as_str().unwrap_or(""));
            if list.len() == 3 && list.iter().all(is_right) {
                return start.elapsed();
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{peers}\n{}", self.proxies[0].log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn verified_load(&self) {
        let url = format!("tcp://127.0.0.1:{}/pfs", self.proxy_port);
        let ior = ["workload", "ior", "--processes", "2", "--transfer", "1MiB", "--block", "8MiB", "--url", &url];
        run(Command::new(vpfs()).args(ior));
    }
}

#[test]
fn a_hung_and_a_killed_proxy_come_back() {
    let mut cluster = Cluster::start();
    cluster.await_all_but(&[]);
    cluster.verified_load();
    cluster.proxies[2].signal("STOP");
    cluster.await_all_but(&["s3"]);
    cluster.proxies[2].signal("CONT");
    let hung = cluster.await_all_but(&[]);
    cluster.proxies[3].kill();
    cluster.await_all_but(&["s4"]);
    cluster.proxies[3] = cluster.proxy(3);
    let killed = cluster.await_all_but(&[]);
    // A generous limit: the machine may be busy.
    assert!(hung + killed < Duration::from_secs(30), "{hung:?}, {killed:?}");
    println!("back after a hang in {hung:?}, after a restart in {killed:?}");
    cluster.verified_load();
    let table = run(Command::new(vpfs()).args(["peers", "--config"]).arg(cluster.config()));
    assert!(table.contains("proxy of s1") && table.contains("proxy of s4") && table.contains("elsewhere"), "{table}");
    let log = cluster.proxies[0].log();
    assert!(log.matches("cannot be reached").count() <= 2, "told once, not each second:\n{log}");
}
