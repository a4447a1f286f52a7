//! What is measured with several processes runs against these: `vpfs proxy` between clients and embedded servers, or
//! those of a running OrangeFS cluster. And where a result comes from.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vpfs_e2e::{Daemon, free_ports};
use vpfs_testbed::fsconfig::{Alias, Configuration};

/// The options that choose it.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// A running cluster instead of embedded servers: its fs.conf is in DIR
    #[arg(long = "orangefs", value_name = "DIR")]
    pub(crate) cluster: Option<PathBuf>,
    /// Measure this vpfs; by default it is built from this source
    #[arg(long, value_name = "PROGRAM")]
    vpfs: Option<PathBuf>,
}

pub(crate) struct Started {
    /// The vpfs that is measured.
    pub(crate) program: PathBuf,
    pub(crate) cluster: Cluster,
    _servers: Option<Daemon>,
}

impl Target {
    /// Builds the program, and starts this number of embedded servers with a device model unless there is a cluster.
    pub(crate) fn start(&self, dir: &Path, servers: u16, device: &str) -> Result<Started, String> {
        let program = program(self.vpfs.as_deref())?;
        let (embedded, cluster) = match &self.cluster {
            Some(dir) => (None, Cluster::read(dir)?),
            None => {
                let (embedded, cluster) = embedded(dir, &program, servers, device);
                (Some(embedded), cluster)
            }
        };
        Ok(Started { program, cluster, _servers: embedded })
    }
}

/// Our own program: `given`, or the `dist` build in the target directory of this one, built first so that it is up to
/// date.
pub(crate) fn program(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        let found = given.is_file().then(|| given.to_owned());
        return found.ok_or_else(|| format!("--vpfs {}: no such file; leave it out to build one", given.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = Command::new(cargo).args(["build", "--quiet", "--profile", "dist", "--package", "vpfs"]).status();
    if !build.map_err(|error| format!("cannot run cargo build: {error}"))?.success() {
        return Err("vpfs does not build; see above".to_owned());
    }
    let this = std::env::current_exe().map_err(|error| format!("cannot find the target directory: {error}"))?;
    // target/dist/vpfs-bench -> target/dist/vpfs
    let target = this.ancestors().nth(2).ok_or("this program is in no target directory; give --vpfs PROGRAM")?;
    let vpfs = target.join("dist/vpfs");
    if vpfs.is_file() { Ok(vpfs) } else { Err(format!("{} is missing; give --vpfs PROGRAM", vpfs.display())) }
}

/// Starts `vpfs serve` with this device model.
fn embedded(dir: &Path, program: &Path, servers: u16, device: &str) -> (Daemon, Cluster) {
    let first = free_ports(servers);
    let mut command = Command::new(program);
    command.args(["serve", "--servers", &servers.to_string(), "--listen", &format!("127.0.0.1:{first}")]);
    let mut daemon = Daemon::start(dir, "servers", command.args(["--device", device]));
    (first..first + servers).for_each(|port| daemon.await_port(port));
    let addresses = (first..first + servers).map(|port| format!("tcp://127.0.0.1:{port}")).collect();
    (daemon, Cluster { addresses, name: "pfs".to_owned() })
}

/// A running OrangeFS file system.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Addresses of all servers, written as in fs.conf, as vpfs requires.
    pub(crate) addresses: Vec<String>,
    /// The file system's name, which follows the address when mounting.
    pub(crate) name: String,
}

impl Cluster {
    /// Reads `fs.conf` in `dir`; of several file systems, the first.
    pub(crate) fn read(dir: &Path) -> Result<Self, String> {
        let file = dir.join("fs.conf");
        let conf = std::fs::read_to_string(&file).map_err(|error| {
            format!("{}: {error}; start a cluster and give --orangefs the directory with its fs.conf", file.display())
        })?;
        Self::of(&conf).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn of(conf: &str) -> Result<Self, String> {
        let parsed = Configuration::parse(conf.as_bytes()).map_err(|error| error.to_string())?;
        // A server may have several addresses, one for each kind of network; vpfs speaks TCP.
        let addresses: Vec<_> = parsed.aliases.iter().filter_map(Alias::tcp).map(str::to_owned).collect();
        if addresses.is_empty() {
            return Err("no line is `Alias NAME tcp://HOST:PORT`".to_owned());
        }
        let name = parsed.file_systems[0].name.clone();
        Ok(Self { addresses, name })
    }

    /// The URL for a client that is to start with the server at `address`.
    pub(crate) fn spec(&self, address: &str) -> String {
        format!("{address}/{}", self.name)
    }
}

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
pub(crate) struct Place<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) program: &'a Path,
    pub(crate) cluster: &'a Cluster,
}

impl Proxies {
    /// Starts a process for each server, and waits until all listen. `rest` is the end of the configuration, with the
    /// table `[scheduler]`.
    pub(crate) fn start(place: &Place<'_>, apps: &[AppConfig], rest: &str) -> Result<Self, String> {
        let Place { dir, program, cluster } = *place;
        let servers = cluster.addresses.len();
        let of_apps = u16::try_from(apps.len() * servers).map_err(|_| "too many applications")?;
        let first_port = free_ports(of_apps + u16::try_from(servers).map_err(|_| "too many servers")?);
        let (key, config) = (dir.join("peers.key"), dir.join("vpfs.toml"));
        write(&key, &"0123456789abcdef".repeat(4))?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).map_err(|error| error.to_string())?;
        let peers = at(first_port + of_apps, servers, "");
        let text = config_text(("tcp://", &cluster.addresses), "", first_port, apps, rest)
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
    pub(crate) fn used(&self) -> Result<(Duration, u64), String> {
        self.running.iter().try_fold((Duration::ZERO, 0), |(time, memory), proxy| {
            Ok((time + processor_time(proxy.id())?, memory + peak_memory(proxy.id())?))
        })
    }
}

/// The configuration without peers, with `lines` in the table of each server: each application has its own listener, so
/// that none is mistaken for another, at consecutive ports for all servers. Addresses begin with `scheme`.
pub(crate) fn config_text(
    (scheme, addresses): (&str, &[String]),
    lines: &str,
    first_port: u16,
    apps: &[AppConfig],
    rest: &str,
) -> String {
    let mut text = String::new();
    for (id, address) in addresses.iter().enumerate() {
        let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n{lines}\n");
    }
    for (AppConfig { name, lines }, port) in apps.iter().zip((first_port..).step_by(addresses.len())) {
        let own = at(port, addresses.len(), scheme);
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

/// What was measured, where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The commit, with `+` if the tree had changes.
    pub(crate) commit: String,
    /// Processors, memory and kernel.
    pub(crate) machine: String,
    /// UTC.
    pub(crate) time: String,
}

impl Origin {
    /// Of what is measured now.
    pub(crate) fn here() -> Self {
        let changed = output("git", &["status", "--porcelain", "--untracked-files=no"]).is_some();
        let commit = output("git", &["rev-parse", "--short=8", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
        let time = output("date", &["-u", "+%Y-%m-%dT%H:%MZ"]).unwrap_or_else(|| "unknown".to_owned());
        Self { commit: commit + if changed { "+" } else { "" }, machine: machine(), time }
    }
}

fn machine() -> String {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let (processors, memory, kernel) =
        (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/proc/sys/kernel/osrelease"));
    let value = |text: &str, name: &str| -> Option<String> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let count = std::thread::available_parallelism().map_or(0, usize::from);
    let model = value(&processors, "model name").unwrap_or_else(|| "processors".to_owned());
    let kib: u64 = value(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or_default();
    format!("{count} × {model}, {} GiB, Linux {}", kib >> 20, kernel.trim())
}

/// What a program prints, if it prints anything.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Writes a file, or says which one cannot be written.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use vpfs_testbed::fsconfig::FsConfig;

    use super::*;

    #[test]
    fn addresses_and_name_are_those_that_clients_know() {
        let text = FsConfig::new("pfs", &["tcp://127.0.0.1:7334".to_owned(), "tcp://h:7335".to_owned()]).to_text();
        let cluster = Cluster::of(&text).unwrap();
        assert_eq!(cluster.spec(&cluster.addresses[1]), "tcp://h:7335/pfs");
    }

    #[test]
    fn a_directory_without_a_cluster_is_named_with_the_fix() {
        let error = Cluster::read(Path::new("/nonexistent")).unwrap_err();
        assert!(error.contains("/nonexistent/fs.conf") && error.contains("--orangefs"), "{error}");
    }

    #[test]
    fn each_application_has_a_listener_at_every_server() {
        let addresses = ["tcp://h:1".to_owned(), "tcp://h:2".to_owned()];
        let app = |number| AppConfig { name: format!("app{number}"), lines: format!("weight = {number}\n") };
        let apps: Vec<_> = (1..=8).map(app).collect();
        let text = config_text(("tcp://", &addresses), "", 20_000, &apps, "[scheduler]\n");
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
