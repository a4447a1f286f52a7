//! Proxies on four hosts: network namespaces on one bridge. Needs root and `ip`; without them the test is skipped, and
//! says so.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use vpfs_e2e::{Daemon, on_path, output, run, skip, vpfs};

const PROXIES: u16 = 4;

/// Namespaces that are connected by a bridge in the first one; deleted with the test.
struct Hosts {
    prefix: String,
}

impl Hosts {
    /// `None` if this user may not create any.
    fn new() -> Option<Self> {
        on_path("ip")?;
        let hosts = Self { prefix: format!("vpfs{}-", std::process::id()) };
        let first = output(Command::new("ip").args(["netns", "add", &hosts.name(0)]));
        if !first.status.success() {
            return None;
        }
        hosts.ip(0, "link add br0 type bridge");
        hosts.ip(0, "addr add 10.77.0.100/24 dev br0");
        hosts.ip(0, "link set br0 up");
        hosts.ip(0, "link set lo up");
        for host in 1..=PROXIES {
            let name = hosts.name(host);
            run(Command::new("ip").args(["netns", "add", &name]));
            hosts.ip(0, &format!("link add host{host} type veth peer name eth0 netns {name}"));
            hosts.ip(0, &format!("link set host{host} master br0 up"));
            hosts.ip(host, &format!("addr add 10.77.0.{host}/24 dev eth0"));
            hosts.ip(host, "link set eth0 up");
            hosts.ip(host, "link set lo up");
        }
        Some(hosts)
    }

    fn name(&self, host: u16) -> String {
        format!("{}{host}", self.prefix)
    }

    fn ip(&self, host: u16, args: &str) {
        run(Command::new("ip").args(["-n", &self.name(host)]).args(args.split(' ')));
    }

    /// A command on this host.
    fn on(&self, host: u16) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host)]).arg(vpfs());
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..=PROXIES {
            // It may not exist.
            let _ = output(Command::new("ip").args(["netns", "delete", &self.name(host)]));
        }
    }
}

/// Servers at the bridge; the proxy of each on a host of its own, which listens at the same ports on all.
fn write_files(dir: &Path) {
    let key = dir.join("peers.key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).expect("a file");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    let mut text = String::new();
    let (mut clients, mut peers) = (Vec::new(), Vec::new());
    for id in 1..=PROXIES {
        text += &format!("[[server]]\nname = \"s{id}\"\naddress = \"tcp://10.77.0.100:{}\"\n\n", 3333 + id);
        clients.push(format!("s{id} = \"tcp://10.77.0.{id}:5334\""));
        peers.push(format!("s{id} = \"10.77.0.{id}:7334\""));
    }
    text += &format!(
        "[[listener]]\naddresses = {{ {} }}\n[scheduler]\nsharing = \"threshold\"\n\
         [peers]\naddresses = {{ {} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n",
        clients.join(", "),
        peers.join(", ")
    );
    std::fs::write(dir.join("vpfs.toml"), text).expect("a file");
}

/// The servers with which the proxy of `server` is connected.
fn reached(config: &Path, server: &str) -> Vec<String> {
    let text = run(Command::new(vpfs()).args(["peers", "--json", "--server", server, "--config"]).arg(config));
    let reports: Value = serde_json::from_str(&text).expect("JSON");
    let peers = reports[0]["peers"].as_array().expect("a list").iter();
    let connected = peers.filter(|peer| peer["connected"] == true).filter_map(|peer| peer["server"].as_str());
    connected.map(str::to_owned).collect()
}

/// Waits until these are connected, and returns how long that took.
fn await_reached(config: &Path, server: &str, expected: &[&str]) -> Duration {
    let start = Instant::now();
    while reached(config, server) != expected {
        assert!(start.elapsed() < Duration::from_secs(20), "{server} has {:?}", reached(config, server));
        std::thread::sleep(Duration::from_millis(50));
    }
    start.elapsed()
}

#[test]
fn a_partition_in_halves_heals() {
    let Some(hosts) = Hosts::new() else { return skip("no network namespaces: not root, or no `ip`") };
    let dir = tempfile::tempdir().expect("a directory");
    write_files(dir.path());
    let config = dir.path().join("vpfs.toml");
    let mut serve = hosts.on(0);
    let _servers =
        Daemon::start(dir.path(), "servers", serve.args(["serve", "--servers", "4", "--listen", "10.77.0.100:3334"]));
    let mut proxies: Vec<Daemon> = (1..=PROXIES)
        .map(|id| {
            let (name, mut command) = (format!("s{id}"), hosts.on(id));
            Daemon::start(dir.path(), &name, command.args(["proxy", "--server", &name, "--config"]).arg(&config))
        })
        .collect();
    proxies.iter_mut().for_each(|proxy| proxy.await_log("ready"));
    let load = || {
        let ior = ["workload", "ior", "--processes", "2", "--transfer", "1MiB", "--block", "8MiB"];
        run(hosts.on(0).args(ior).args(["--url", "tcp://10.77.0.1:5334/pfs"]));
    };
    await_reached(&config, "s1", &["s2", "s3", "s4"]);
    await_reached(&config, "s4", &["s1", "s2", "s3"]);
    load();
    // Hosts 1 and 2 on one side, 3 and 4 on the other: frames to the other side go to an address that nobody has.
    let across = || (1..=2).flat_map(|near| (3..=4).flat_map(move |far| [(near, far), (far, near)]));
    for (from, to) in across() {
        hosts.ip(from, &format!("neigh replace 10.77.0.{to} lladdr 02:00:00:00:00:01 dev eth0 nud permanent"));
    }
    await_reached(&config, "s1", &["s2"]);
    await_reached(&config, "s4", &["s3"]);
    for (from, to) in across() {
        hosts.ip(from, &format!("neigh delete 10.77.0.{to} dev eth0"));
    }
    let healed =
        await_reached(&config, "s1", &["s2", "s3", "s4"]).max(await_reached(&config, "s4", &["s1", "s2", "s3"]));
    println!("healed in {healed:?}");
    load();
    let log = proxies[0].log();
    // A short absence is not told. On a slow machine a proxy may also have been missed when the cluster started.
    let absences = log.matches("cannot be reached: shares").count();
    assert!(absences <= 5, "one line for each peer that is gone, not each second:\n{log}");
}
