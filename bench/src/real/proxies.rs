//! Proxies: a process for each server, which know of each other.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use vpfs_e2e::{Daemon, free_ports};

use super::cluster::Cluster;
use super::write;

/// An application as the proxies know it.
#[derive(Clone, Debug)]
pub(crate) struct AppConfig {
    pub(crate) name: String,
    /// Lines of its `[[app]]`, besides the name.
    pub(crate) lines: String,
}

/// The proxies. They end when dropped.
#[derive(Debug)]
pub(crate) struct Proxies {
    /// Of the first listener; its servers' are followed by those of the other applications, and those for peers.
    first_port: u16,
    running: Vec<Daemon>,
}

/// Where measurements run: a directory for files, the vpfs that is measured, and servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) dir: &'a Path,
    pub(super) program: &'a Path,
    pub(super) cluster: &'a Cluster,
}

impl Proxies {
    /// Starts a process for each server, and waits until all listen. `rest` is the end of the configuration, with the
    /// table `[scheduler]`.
    pub(super) fn start(place: &Place<'_>, apps: &[AppConfig], rest: &str) -> Result<Self, String> {
        let Place { dir, program, cluster } = *place;
        let servers = cluster.addresses.len();
        let of_apps = u16::try_from(apps.len() * servers).map_err(|_| "too many applications")?;
        let first_port = free_ports(of_apps + u16::try_from(servers).map_err(|_| "too many servers")?);
        let (key, config) = (dir.join("peers.key"), dir.join("vpfs.toml"));
        write(&key, &"0123456789abcdef".repeat(4))?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).map_err(|error| error.to_string())?;
        let peers = at(first_port + of_apps, servers, "");
        let text = text(&cluster.addresses, first_port, apps, rest)
            + &format!("[peers]\naddresses = {{ {peers} }}\nshared_key = \"peers.key\"\nsockets = \"sockets\"\n");
        write(&config, &text)?;
        let start = |id| {
            let name = format!("s{id}");
            let mut command = Command::new(program);
            command.args(["proxy", "--server", &name, "--config"]).arg(&config);
            let mut proxy = Daemon::start(dir, &format!("proxy-{name}"), &mut command);
            (first_port..).skip(id).step_by(servers).take(apps.len() + 1).for_each(|port| proxy.await_port(port));
            proxy
        };
        Ok(Self { first_port, running: (0..servers).map(start).collect() })
    }

    /// Where the clients of an application, by number from 0, connect to: its listener at the first server.
    pub(crate) fn address(&self, app: usize) -> String {
        format!("tcp://127.0.0.1:{}", usize::from(self.first_port) + app * self.running.len())
    }

    /// The time of processors that all have used, and the most memory that each has occupied, summed, in bytes.
    pub(super) fn used(&self) -> Result<(Duration, u64), String> {
        self.running.iter().try_fold((Duration::ZERO, 0), |(time, memory), proxy| {
            Ok((time + processor_time(proxy.id())?, memory + peak_memory(proxy.id())?))
        })
    }
}

/// The configuration without peers: each application has its own listener, so that none is mistaken for another.
fn text(addresses: &[String], first_port: u16, apps: &[AppConfig], rest: &str) -> String {
    let mut text = String::new();
    for (id, address) in addresses.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n");
    }
    for (AppConfig { name, lines }, port) in apps.iter().zip((first_port..).step_by(addresses.len())) {
        let own = at(port, addresses.len(), "tcp://");
        let _ = writeln!(text, "[[listener]]\napp = \"{name}\"\naddresses = {{ {own} }}\n");
        let _ = writeln!(text, "[[app]]\nname = \"{name}\"\n{lines}");
    }
    text + &format!("[apps]\nauto = \"off\"\n\n{rest}\n")
}

/// `name = "address"` of all servers, at ports from this one.
fn at(port: u16, servers: usize, scheme: &str) -> String {
    let all = (port..).take(servers).enumerate().map(|(id, port)| format!("s{id} = \"{scheme}127.0.0.1:{port}\""));
    all.collect::<Vec<_>>().join(", ")
}

/// The time of processors that a process has used.
fn processor_time(id: u32) -> Result<Duration, String> {
    /// Linux counts in hundredths of a second, whatever its own clock.
    const TICK: Duration = Duration::from_millis(10);
    let text = of_process(id, "stat")?;
    let ticks = ticks(&text).ok_or_else(|| format!("/proc/{id}/stat is not as expected: {text}"))?;
    Ok(TICK * ticks)
}

/// What `/proc/PID/stat` counts for a process: its own time and that of the system for it.
fn ticks(stat: &str) -> Option<u32> {
    // The name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map(|time| time.parse::<u32>().ok());
    times.next()??.checked_add(times.next()??)
}

/// The most memory that a process has occupied, in bytes.
fn peak_memory(id: u32) -> Result<u64, String> {
    let text = of_process(id, "status")?;
    let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    kib.map(|kib: u64| kib << 10).ok_or_else(|| format!("/proc/{id}/status has no VmHWM"))
}

fn of_process(id: u32, name: &str) -> Result<String, String> {
    let file = format!("/proc/{id}/{name}");
    std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_application_has_a_listener_at_every_server() {
        let addresses = ["tcp://h:1".to_owned(), "tcp://h:2".to_owned()];
        let app = |number| AppConfig { name: format!("app{number}"), lines: format!("weight = {number}\n") };
        let apps: Vec<_> = (1..=8).map(app).collect();
        let text = text(&addresses, 20_000, &apps, "[scheduler]\n");
        let last = "app = \"app8\"\naddresses = { s0 = \"tcp://127.0.0.1:20014\", s1 = \"tcp://127.0.0.1:20015\" }";
        assert!(text.contains(last), "{text}");
        assert!(text.contains("name = \"app8\"\nweight = 8\n"), "{text}");
        assert_eq!(at(20_016, 2, ""), "s0 = \"127.0.0.1:20016\", s1 = \"127.0.0.1:20017\"");
    }

    #[test]
    fn processor_times_follow_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 250 130 5 5 20 0 1 0 9 9 9";
        assert_eq!(ticks(stat), Some(380));
        assert_eq!(ticks("7 (a) S 1"), None);
    }
}
