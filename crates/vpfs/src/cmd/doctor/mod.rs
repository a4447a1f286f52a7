//! `vpfs doctor`: what is wrong with a deployment, and how to fix it.

mod cluster;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use futures_util::future::join_all;
use serde::Serialize;
use vpfs_config::{Address, Config, Server};
use vpfs_core::{Bytes, ServerId};
use vpfs_proxy::admin::api::{Status, fingerprint};
use vpfs_proxy::admin::events::EventsReport;
use vpfs_proxy::{
    PeersReport, Reader, Resolver, SecretProblem, StateDir, check_names, check_secrets, check_serving, check_start,
    descriptors_needed,
};

use super::asking::{Answer, Answers, Asking};
use super::check::{Names, is_own};
use super::write_back::{Device, DeviceError, Storage};
use super::{HOW_TO_CONFIGURE, check, runtime, write_back};
use crate::exit::Exit;
use crate::print::{plain, print, print_json};

/// Check a deployment, and say how to fix what is wrong
///
/// Reads the configuration, asks the servers and the proxies, and looks at this host: clients that are connected to
/// servers past their proxies, file descriptors, the packet filter, the state directory, the memory of an NFS server.
/// Where slurm.toml is in the same directory, also looks at what jobs of Slurm need for their shares. Changes nothing.
/// Some checks need root. Exits with 1 if a check fails.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs doctor                 on each storage server, as root\n  \
    vpfs doctor --json          the same for programs")]
pub(crate) struct Doctor {
    #[command(flatten)]
    patient: Patient,

    /// Print JSON: a list with an object for each finding
    #[arg(long)]
    json: bool,
}

/// What is examined.
#[derive(clap::Args)]
pub(super) struct Patient {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = crate::cmd::CONFIG)]
    pub(super) config: PathBuf,

    /// A server whose proxy runs here, by its name in the file; may be given several times [default: those whose
    /// address is this host's]
    #[arg(long = "server", value_name = "NAME", add = super::asking::servers())]
    pub(super) servers: Vec<String>,
}

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = runtime()?;
        let findings = runtime.block_on(self.patient.examine());
        // A name server that hangs must not keep this from ending.
        runtime.shutdown_background();
        let findings = findings?;
        if self.json { print_json(&findings) } else { print(findings_table(&findings)) }?;
        match findings.iter().filter(|finding| finding.result == Verdict::Failed).count() {
            0 => Ok(()),
            1 => Err(Exit::Failed("one check failed".to_owned())),
            failed => Err(Exit::Failed(format!("{failed} checks failed"))),
        }
    }
}

impl Patient {
    /// All findings, in the order of the checks. An error if a server that was named is not in the file.
    pub(super) async fn examine(&self) -> Result<Vec<Finding>, Exit> {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(problems) => {
                let mut check = Check::new("configuration");
                let fix = match self.config.try_exists() {
                    Ok(false) => HOW_TO_CONFIGURE,
                    _ => "each line says what to change; nothing else was checked",
                };
                check.fail(problems, fix);
                return Ok(check.or(""));
            }
        };
        let names = addresses(&config).await;
        let here = self.here(&config, &names)?;
        let mut findings = configuration(&self.config, &config);
        findings.extend(start(&config, &here).await);
        findings.extend(resolved(&config, &here).await);
        findings.extend(servers(&config).await);
        findings.extend(self.proxies(&config, &here).await);
        findings.extend(bypass(&config, &here, &names));
        findings.extend(firewall(&config, &here));
        findings.extend(state());
        findings.extend(write_back(&config, &here).await);
        findings.extend(cluster::examine(&self.config).await);
        Ok(findings)
    }

    /// The servers whose proxies run here.
    fn here(&self, config: &Config, names: &Names) -> Result<Vec<ServerId>, Exit> {
        if !self.servers.is_empty() {
            return self.servers.iter().map(|name| config.server(name).map_err(Exit::Usage)).collect();
        }
        let is_here = |host: &str| names.of(host).into_iter().any(is_own);
        let servers = config.servers().filter(|(_, server)| is_here(server.address.host()));
        Ok(servers.map(|(id, _)| id).collect())
    }

    /// What those of this host and, with `[peers]`, of all hosts say.
    async fn proxies(&self, config: &Config, here: &[ServerId]) -> Vec<Finding> {
        let ((statuses, failure), (reports, _), (remote, remote_failure), (events, _)) = tokio::join!(
            self.ask::<Status>(config),
            self.ask::<PeersReport>(config),
            self.ask_at::<PeersReport>(config, true),
            self.ask_at::<EventsReport>(config, false)
        );
        let name = |id: &ServerId| config.servers[id.index()].name.as_str();
        let expected: Vec<&str> = if config.peers.is_some() {
            config.servers().map(|(id, _)| name(&id)).collect()
        } else {
            here.iter().map(name).collect()
        };
        let processes: Vec<u32> = events.list.iter().map(|report| report.process).collect();
        let mut findings = cluster::proxies(&statuses, failure.as_deref(), &expected);
        findings.extend(cluster::versions(&statuses.list, env!("CARGO_PKG_VERSION")));
        findings.extend(cluster::configurations(&statuses.list, &fingerprint(config.fingerprint())));
        findings.extend(cluster::connections(&statuses.list));
        findings.extend(cluster::peers(config, &reports.list));
        findings.extend(cluster::remote(config, &remote, remote_failure.as_deref()));
        findings.extend(cluster::clocks(config, &reports.list));
        findings.extend(descriptors(config, &processes));
        findings.extend(secrets(config, &processes));
        findings
    }

    /// What the proxies of this host answer and, if they do not have all servers, those of all hosts by `[peers]`; or
    /// why none does.
    pub(super) async fn ask<A: Answer>(&self, config: &Config) -> (Answers<A>, Option<String>) {
        // All at once, as each may have to wait for one that hangs.
        let elsewhere = async {
            match config.peers {
                Some(_) => Some(self.ask_at::<A>(config, true).await),
                None => None,
            }
        };
        let ((here, failure), elsewhere) = tokio::join!(self.ask_at::<A>(config, false), elsewhere);
        let servers = here.list.iter().flat_map(A::servers).count();
        let Some((all, remote_failure)) = elsewhere.filter(|_| servers != config.servers.len()) else {
            return (here, failure);
        };
        match remote_failure {
            None => (all, None),
            Some(why) if failure.is_none() => (Answers { silent: vec![why], ..here }, None),
            why => (here, why),
        }
    }

    async fn ask_at<A: Answer>(&self, config: &Config, remote: bool) -> (Answers<A>, Option<String>) {
        let asking = Asking::of(self.config.clone(), Vec::new(), remote);
        match asking.answers(config).await {
            Ok(answers) => (answers, None),
            Err(exit) => (Answers { list: Vec::new(), silent: Vec::new() }, Some(exit.to_string())),
        }
    }
}

fn configuration(path: &Path, config: &Config) -> Vec<Finding> {
    let mut check = Check::new("configuration");
    if !config.warnings.list.is_empty() {
        check.warn(&config.warnings, "change it, unless you mean it");
    }
    check.or(format!("{} is valid", path.display()))
}

async fn start(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let mut check = Check::new("start");
    if here.is_empty() {
        return check.skip("no server of the file is on this host", "name those whose proxies run here with --server");
    }
    for reason in check_start(config, here).await {
        check.fail(reason, "vpfs proxy --check with the same --server tells the same before a restart does");
    }
    for reason in check_serving(config) {
        check.fail(reason, "write an address of this host, or 0.0.0.0, as listen");
    }
    check.or("proxies can start here")
}

async fn resolved(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let mut check = Check::new("names");
    let (count, missing) = check_names(config, here, Resolver::default()).await;
    let fix = "correct the name, or what /etc/nsswitch.conf asks";
    missing.into_iter().for_each(|line| check.warn(line, fix));
    check.or(format!("all have addresses ({count})"))
}

async fn servers(config: &Config) -> Vec<Finding> {
    let mut check = Check::new("servers");
    let all: Vec<ServerId> = config.servers().map(|(id, _)| id).collect();
    let (answers, differences) = check::ask_all(config, &all).await;
    let fix = "start the server, or make vpfs.toml and the servers' configuration agree";
    differences.into_iter().for_each(|difference| check.fail(difference, fix));
    check.or(format!("all answer, and agree with the configuration ({})", answers.len()))
}

/// Addresses of all servers, of hosts that are trusted like servers, and of proxies.
async fn addresses(config: &Config) -> Names {
    let wanted = RefCell::new(BTreeSet::new());
    let want = |name: &str| {
        wanted.borrow_mut().insert(name.to_owned());
        Vec::new()
    };
    config.resolve_servers(&want);
    let servers = config.servers.iter().map(|server| &server.address);
    servers.chain(proxies(config)).for_each(|address| drop(want(address.host())));
    Names::look_up(wanted.into_inner()).await
}

/// Where clients reach the proxies.
fn proxies(config: &Config) -> impl Iterator<Item = &Address> {
    config.listeners.iter().flat_map(|listener| &listener.addresses)
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    result: Verdict,
    /// What is so.
    finding: String,
    /// How to fix it; empty if nothing has to be done.
    fix: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but probably not as intended.
    Warning,
    /// Something does not work.
    Failed,
    /// It could not be checked.
    Skipped,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// The findings of one check.
struct Check {
    name: &'static str,
    findings: Vec<Finding>,
}

impl Check {
    fn new(name: &'static str) -> Self {
        Self { name, findings: Vec::new() }
    }

    fn warn(&mut self, finding: impl Display, fix: impl Display) {
        self.add(Verdict::Warning, finding, fix);
    }

    fn fail(&mut self, finding: impl Display, fix: impl Display) {
        self.add(Verdict::Failed, finding, fix);
    }

    /// Something could not be checked.
    fn note(&mut self, why: impl Display, fix: impl Display) {
        self.add(Verdict::Skipped, why, fix);
    }

    fn skip(mut self, why: impl Display, fix: impl Display) -> Vec<Finding> {
        self.note(why, fix);
        self.findings
    }

    /// What was found; `fine` if that was nothing.
    fn or(mut self, fine: impl Display) -> Vec<Finding> {
        if self.findings.is_empty() {
            self.add(Verdict::Ok, fine, "");
        }
        self.findings
    }

    fn add(&mut self, result: Verdict, finding: impl Display, fix: impl Display) {
        let (finding, fix) = (finding.to_string(), fix.to_string());
        self.findings.push(Finding { check: self.name, result, finding, fix });
    }
}

/// A table as wide as the terminal.
pub(super) fn findings_table(findings: &[Finding]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["check", "result", "what is so", "how to fix it"]);
    for Finding { check, result, finding, fix } in findings {
        let lines = |text: &str| text.lines().map(plain).collect::<Vec<_>>().join("\n");
        table.add_row([(*check).to_owned(), result.name().to_owned(), lines(finding), lines(fix)]);
    }
    table
}

/// History takes up to 256 MiB; with what is needed to write it anew, no more than this.
const SPACE: u64 = 512 << 20;

/// From 32 MiB on, small writes were measured to wait behind what a disk of 60 MB/s stores at once
/// (docs/measurements.md). This is what the guide recommends for disks of 1 GB/s.
const GATHERED: Bytes = Bytes::mib(16);

/// Whether proxies with these process ids may open enough files.
fn descriptors(config: &Config, processes: &[u32]) -> Vec<Finding> {
    let mut check = Check::new("descriptors");
    let needed = descriptors_needed(config.limits.connections);
    for process in processes {
        let Some(limit) = fs::read_to_string(format!("/proc/{process}/limits")).ok().and_then(|text| open_files(&text))
        else {
            return check.skip(format!("the limits of process {process} cannot be read"), "run this as root");
        };
        if limit < needed {
            let fix = "raise LimitNOFILE= of the service, or lower limits.connections; then restart it";
            check.fail(format!("process {process} may open {limit} files; limits.connections needs {needed}"), fix);
        }
    }
    if processes.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    check.or(format!("enough for limits.connections ({needed})"))
}

/// The hard limit in the text of `/proc/PID/limits`: proxies raise the soft one to it.
fn open_files(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether tokens and keys open what they are for, to nobody else, and can be read by the proxies with these process
/// ids.
fn secrets(config: &Config, processes: &[u32]) -> Vec<Finding> {
    let mut check = Check::new("secrets");
    let status = |process: &u32| Some((*process, fs::read_to_string(format!("/proc/{process}/status")).ok()?));
    let running = processes.iter().filter_map(status);
    let mut readers: Vec<Reader> = running.filter_map(|(process, text)| Reader::of_process(process, &text)).collect();
    if readers.is_empty() {
        readers.extend(Reader::of_service());
    }
    let mut problems: Vec<SecretProblem> =
        readers.iter().flat_map(|reader| check_secrets(config, Some(reader))).collect();
    if readers.is_empty() {
        problems = check_secrets(config, None);
    }
    problems.dedup();
    for problem in problems {
        let fix = "let the user of the proxy read it (systemctl show --property=User vpfs-proxy), and no other user";
        if problem.is_useless { check.fail(problem, fix) } else { check.warn(problem, fix) }
    }
    check.or("tokens and keys can be read by the proxies, and not by all users")
}

/// Whether what outlives a restart can be written.
fn state() -> Vec<Finding> {
    let check = Check::new("state");
    let Some(path) = StateDir::of_service().file("") else {
        let fix = "the packaged service makes it (StateDirectory=)";
        return check.skip("there is no /var/lib/vpfs: nothing outlives a restart, and there is no history", fix);
    };
    state_at(check, &path)
}

fn state_at(mut check: Check, path: &Path) -> Vec<Finding> {
    let place = path.display();
    match rustix::fs::statvfs(path) {
        Err(error) => check.fail(format!("{place}: {error}"), "look at the file system that it is on"),
        Ok(status) => {
            let free = status.f_bavail.saturating_mul(status.f_frsize);
            if status.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
                check.fail(format!("{place} is read-only"), "mount it so that it can be written, or repair it");
            } else if free < SPACE {
                let fix = "make space there, or write enabled = \"off\" under [history]";
                check.warn(format!("{place} has {} MiB free; history takes up to 256 MiB", free >> 20), fix);
            }
        }
    }
    check.or(format!("{place} has space"))
}

/// Whether clients are connected to the servers of this host past their proxies.
fn bypass(config: &Config, here: &[ServerId], names: &Names) -> Vec<Finding> {
    let mut check = Check::new("bypass");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let connections: Vec<_> = tables.iter().flat_map(|table| established(table)).collect();
    let servers = config.resolve_servers(&|name| names.of(name));
    // A proxy may run on another host than its server.
    let proxies: Vec<IpAddr> = proxies(config).flat_map(|address| names.of(address.host())).collect();
    let may = |ip| is_own(ip) || servers.contains(ip) || proxies.contains(&ip);
    for id in here {
        let Server { name, address, .. } = &config.servers[id.index()];
        for ip in names.of(address.host()) {
            let place = SocketAddr::new(ip, address.port());
            let past = past(&connections, place, may);
            if past.is_empty() {
                continue;
            }
            let some: Vec<String> = past.iter().take(5).map(|(ip, count)| format!("{ip} ({count})")).collect();
            let text = format!("{name}: {} hosts are connected past the proxy: {}", past.len(), some.join(", "));
            let fix = format!(
                "let them mount the proxy, or redirect them (vpfs init --redirect), then close port {} to them; if they \
                 are servers, list them in trust.servers",
                address.port()
            );
            check.fail(text, fix);
        }
    }
    if here.is_empty() {
        return check.skip("no server of the file is on this host", "run this on the servers' hosts, too");
    }
    check.or("no client is connected to a server here past its proxy")
}

/// Whether the packet filter sends clients to the proxies, or keeps them from the servers.
fn firewall(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let check = Check::new("firewall");
    if here.iter().all(|id| config.servers[id.index()].address.host().parse().is_ok_and(|ip: IpAddr| ip.is_loopback()))
    {
        return check.or("other hosts cannot reach the servers of this one");
    }
    if here.iter().all(|id| config.servers[id.index()].is_mount()) {
        return check.or("nobody connects to a mount");
    }
    let rules = Command::new("nft").args(["list", "ruleset"]).output();
    match rules {
        Ok(output) if output.status.success() => {
            rules_for(check, config, here, &String::from_utf8_lossy(&output.stdout))
        }
        Ok(_) => check.skip("the rules of nftables cannot be read", "run this as root"),
        Err(error) => check.skip(format!("nft: {error}"), "if there is another packet filter, look at its rules"),
    }
}

fn rules_for(mut check: Check, config: &Config, here: &[ServerId], rules: &str) -> Vec<Finding> {
    let is_redirected = config.listeners.iter().any(|listener| listener.is_redirected);
    for id in here {
        let Server { name, address, .. } = &config.servers[id.index()];
        let port = address.port().to_string();
        let has_port = rules.split(|c: char| !c.is_ascii_digit()).any(|word| word == port);
        if has_port {
            continue;
        }
        if is_redirected {
            let text =
                format!("{name}: clients are told port {port}, and no rule of nftables redirects it to the proxy");
            check.fail(text, "nft -f vpfs.nft, as `vpfs init --redirect` has written it");
        } else {
            let text = format!("{name}: no rule of nftables names port {port}, so clients may pass by the proxy");
            check.warn(text, "once all clients have moved, let only servers reach that port");
        }
    }
    check.or("rules name the ports of all servers here")
}

/// Whether little of what clients wrote is in the memory of this host and not on the disks of its servers.
async fn write_back(config: &Config, here: &[ServerId]) -> Vec<Finding> {
    let mut check = Check::new("write-back");
    let servers: Vec<&Server> = here.iter().map(|id| &config.servers[id.index()]).collect();
    if servers.iter().all(|server| server.is_mount()) {
        return Vec::new();
    }
    if write_back::in_force(config).is_none() {
        return check.skip("limits.write_back is off, or vpfs only observes", "");
    }
    let mut disks: BTreeMap<Device, (PathBuf, bool)> = BTreeMap::new();
    // All at once, as each may have to wait for one that hangs.
    for Storage { directories, answers_from_memory } in join_all(servers.into_iter().map(Storage::of)).await {
        for directory in directories {
            match Device::of(&directory) {
                Ok(device) => disks.entry(device).or_insert((directory, false)).1 |= answers_from_memory,
                Err(_) if !answers_from_memory => {}
                Err(error) => unlimited(&mut check, &error, gathered(|path| fs::read_to_string(path).ok())),
            }
        }
    }
    let fix = "systemctl enable --now vpfs-write-back, or run vpfs proxy as root";
    let is_open = |(device, (_, from_memory)): &(&Device, &(PathBuf, bool))| device.limit().is_none() && *from_memory;
    for (device, (directory, _)) in disks.iter().filter(is_open) {
        let text =
            format!("{} is on disk {device}: nothing limits what is written and not stored", directory.display());
        check.warn(text, fix);
    }
    let limited = |(device, _): (&Device, _)| Some(format!("{device}: {} MiB", device.limit()?.div_ceil(1 << 20)));
    let limits: Vec<String> = disks.iter().filter_map(limited).collect();
    if disks.is_empty() {
        let fix = "if one is on this host, write its data = \"/srv/export\" under [[server]]";
        check.note("nothing says which disks the servers here have", fix);
    }
    if limits.is_empty() {
        return check.or("the servers here store a write before they answer it");
    }
    check.or(format!("what is written and not stored is limited (disk {})", limits.join(", ")))
}

/// A disk that the kernel cannot limit by itself. It begins to store when it has gathered this much for all disks.
fn unlimited(check: &mut Check, error: &DeviceError, gathered: Option<Bytes>) {
    let Some(most) = gathered else { return };
    if most > GATHERED {
        let mib = most.0.div_ceil(1 << 20);
        let text = format!("{error}; it gathers {mib} MiB of writes until it stores any: small ones wait behind them");
        let fix = "set vm.dirty_bytes and vm.dirty_background_bytes (docs/guide/servers.md, The server's memory)";
        check.warn(text, fix);
    }
}

/// How much may be dirty until the kernel begins to store it; `read` reads a file.
fn gathered(read: impl Fn(&str) -> Option<String>) -> Option<Bytes> {
    let setting = |name: &str| read(&format!("/proc/sys/vm/{name}"))?.trim().parse::<u64>().ok();
    // Of the two of each, the one that was not set last is 0.
    let bytes = |name: &str, available: u64| match setting(&format!("{name}_bytes"))? {
        0 => Some(available / 100 * setting(&format!("{name}_ratio"))?),
        bytes => Some(bytes),
    };
    let memory = read("/proc/meminfo")?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024;
    let (background, limit) = (bytes("dirty_background", available)?, bytes("dirty", available)?);
    // So the kernel does if the first is not below the second.
    Some(Bytes(if background < limit { background } else { limit / 2 }))
}

/// A connection that is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    local: SocketAddr,
    remote: SocketAddr,
}

const ESTABLISHED: &str = "01";

/// The established connections of such a file; lines of another form are skipped.
fn established(text: &str) -> impl Iterator<Item = Connection> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        (fields.next()? == ESTABLISHED).then_some(Connection { local, remote })
    })
}

/// For example `0100007F:0D06`: the words of an address in this host's order of bytes, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Hosts that are connected to `server` past the proxies, with the number of their connections. Those for which `may`
/// is true, such as the host itself and other servers, are left out.
fn past(connections: &[Connection], server: SocketAddr, may: impl Fn(IpAddr) -> bool) -> BTreeMap<IpAddr, usize> {
    let mut hosts = BTreeMap::new();
    for connection in connections.iter().filter(|connection| connection.local == server) {
        let host = connection.remote.ip();
        if !may(host) {
            *hosts.entry(host).or_default() += 1;
        }
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::asking::PATIENCE;
    use crate::cmd::asking::tests::stopped;

    /// Symptom: with one proxy that was stopped, this took 40 s. Cause: it was asked for one thing after the other,
    /// here and by `[peers]`.
    #[tokio::test(start_paused = true)]
    async fn a_proxy_that_hangs_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _sockets, _port) = stopped(folder.path());
        let patient = Patient { config: path.clone(), servers: vec!["s1".to_owned()] };
        let (config, began) = (Config::load(&path).unwrap(), tokio::time::Instant::now());
        let findings = patient.proxies(&config, &[ServerId(0)]).await;
        assert_eq!(findings[0].result, Verdict::Failed);
        assert!(began.elapsed() < PATIENCE * 11 / 10, "{:?}", began.elapsed());
    }

    #[test]
    fn the_limit_that_counts_is_the_hard_one() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             1                    2                    processes \n\
                    Max open files            1024                 65536                files     \n";
        assert_eq!(open_files(text), Some(65536));
        assert_eq!(open_files("Max open files  unlimited unlimited"), None);
    }

    #[test]
    fn rules_are_found_by_whole_ports() {
        let text = |more: &str| {
            let text = format!(
                "[[server]]\nname = \"s1\"\naddress = \"tcp://192.0.2.1:3334\"\n[[listener]]\nport = 5334\n{more}"
            );
            Config::parse("f", &text).unwrap_or_else(|problems| panic!("{problems}"))
        };
        let verdict = |config: &Config, rules: &str| rules_for(Check::new(""), config, &[ServerId(0)], rules)[0].result;
        let (plain, redirected) = (text(""), text("advertise = \"server\"\n"));
        assert_eq!(verdict(&plain, "tcp dport 3334 drop"), Verdict::Ok);
        assert_eq!(verdict(&plain, "tcp dport 33340 drop"), Verdict::Warning);
        assert_eq!(verdict(&redirected, ""), Verdict::Failed);
        assert_eq!(verdict(&redirected, "192.0.2.1 . 3334 : 5334"), Verdict::Ok);
    }

    #[test]
    fn a_server_that_gathers_writes_is_warned_of() {
        let gathered = |settings: [u64; 4]| {
            let names = ["dirty_background_bytes", "dirty_background_ratio", "dirty_bytes", "dirty_ratio"];
            let read = |path: &str| match path.strip_prefix("/proc/sys/vm/") {
                Some(name) => Some(format!("{}\n", settings[names.iter().position(|known| *known == name)?])),
                None => Some("MemTotal:  9 kB\nMemAvailable:    1024000 kB\n".to_owned()),
            };
            gathered(read).map(|Bytes(bytes)| bytes)
        };
        assert_eq!(gathered([0, 10, 0, 20]), Some(104_857_600), "of 1,000 MiB");
        assert_eq!(gathered([1 << 20, 0, 0, 20]), Some(1 << 20));
        assert_eq!(gathered([0, 10, 8 << 20, 0]), Some(4 << 20), "half of a limit that is lower");
        let verdict = |bytes| {
            let mut check = Check::new("");
            unlimited(&mut check, &DeviceError::OldKernel, bytes);
            check.or("")[0].result
        };
        assert_eq!(verdict(Some(Bytes::mib(1))), Verdict::Ok);
        assert_eq!(
            verdict(gathered([0, 10, 64 << 20, 0]).map(Bytes)),
            Verdict::Warning,
            "where small writes were slow"
        );
        assert_eq!(super::gathered(|_| None), None);
    }

    #[test]
    fn a_state_directory_that_is_gone_fails() {
        let folder = tempfile::tempdir().unwrap();
        let state = |path: &Path| state_at(Check::new(""), path)[0].result;
        assert_eq!(state(&folder.path().join("missing")), Verdict::Failed);
        assert_ne!(state(folder.path()), Verdict::Failed);
    }

    #[test]
    fn clients_that_pass_by_are_found() {
        // 10.0.0.1:3334 with 10.0.0.9 twice, with itself, and listening; the last one by IPv6.
        let text = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 0100000A:0D06 00000000:0000 0A 00000000:00000000\n   \
            1: 0100000A:0D06 0900000A:C001 01 00000000:00000000\n   \
            2: 0100000A:0D06 0100000A:C002 01 00000000:00000000\n   \
            3: 0100000A:1234 0900000A:C003 01 00000000:00000000\n   \
            4: 0000000000000000FFFF00000100000A:0D06 0000000000000000FFFF00000900000A:C004 01 0:0\n   \
            5: nonsense:0D06 0900000A:C001 01\n";
        let connections: Vec<Connection> = established(text).collect();
        assert_eq!(connections.len(), 4);
        let (own, client) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 9]));
        let found = past(&connections, SocketAddr::new(own, 0xd06), |ip| ip == own);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(client, 2)]);
    }
}
