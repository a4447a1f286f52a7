//! `vpfs doctor`: what is wrong with a deployment, and how to fix it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Display;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use futures_util::future::join_all;
use serde::Serialize;
use vpfs_config::slurm::{Reach, Settings};
use vpfs_config::{Address, Config, PeerSecurity, Server};
use vpfs_core::{Bytes, ServerId};
use vpfs_proxy::admin::PushedSets;
use vpfs_proxy::admin::api::{Holder, Status, fingerprint};
use vpfs_proxy::admin::events::EventsReport;
use vpfs_proxy::{
    PeersReport, Reader, Resolver, SecretProblem, StateDir, check_names, check_secrets, check_serving, check_start,
    descriptors_needed,
};

use super::asking::{Answer, Answers, Asking};
use super::check::{Names, is_own};
use super::slurm::{At, Files, Hosts, are_accounts_enforced, have_own_jobs, look_at, names, settings_of_slurm};
use super::write_back::{Device, DeviceError, Storage};
use super::{HOW_TO_CONFIGURE, check, runtime, slurm, write_back};
use crate::print::{Exit, plain, print, print_json};

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
    #[arg(long, value_name = "FILE", default_value = super::CONFIG)]
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
        findings.extend(examine(&self.config).await);
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
        let mut findings = proxies(&statuses, failure.as_deref(), &expected);
        findings.extend(versions(&statuses.list, env!("CARGO_PKG_VERSION")));
        findings.extend(configurations(&statuses.list, &fingerprint(config.fingerprint())));
        findings.extend(connections(&statuses.list));
        findings.extend(peers(config, &reports.list));
        findings.extend(remote_peers(config, &remote, remote_failure.as_deref()));
        findings.extend(clocks(config, &reports.list));
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
    servers.chain(proxy_addresses(config)).for_each(|address| drop(want(address.host())));
    Names::look_up(wanted.into_inner()).await
}

fn proxy_addresses(config: &Config) -> impl Iterator<Item = &Address> {
    config.listeners.iter().flat_map(|listener| &listener.addresses)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    result: Verdict,
    finding: String,
    /// How to fix it; empty if nothing has to be done.
    fix: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    Warning,
    Failed,
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
    let proxies: Vec<IpAddr> = proxy_addresses(config).flat_map(|address| names.of(address.host())).collect();
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

/// Whether the proxies of all servers in `expected` answer; `failure` is why none does.
fn proxies(answers: &Answers<Status>, failure: Option<&str>, expected: &[&str]) -> Vec<Finding> {
    let mut check = Check::new("proxies");
    let fix = "systemctl start vpfs-proxy there; journalctl --unit vpfs-proxy says why it does not";
    if let Some(failure) = failure {
        check.fail(failure, fix);
        return check.or("");
    }
    let answering: BTreeSet<&str> = answering(&answers.list).map(|(server, _)| server).collect();
    let missing: Vec<&str> = expected.iter().copied().filter(|server| !answering.contains(server)).collect();
    if !missing.is_empty() {
        let why = answers.silent.iter().map(|silent| format!("\n{silent}")).collect::<String>();
        check.fail(format!("no answer for {}{why}", missing.join(", ")), fix);
    }
    check.or(format!("those of {} answer", answering.into_iter().collect::<Vec<_>>().join(", ")))
}

fn answering(statuses: &[Status]) -> impl Iterator<Item = (&str, &str)> {
    statuses
        .iter()
        .flat_map(|status| status.servers.iter().map(|server| (server.server.as_str(), status.version.as_str())))
}

/// Whether all are of one version, which is also that of this command, `own`.
fn versions(statuses: &[Status], own: &str) -> Vec<Finding> {
    let mut check = Check::new("versions");
    let mut by_version = BTreeMap::<&str, Vec<&str>>::new();
    answering(statuses).for_each(|(server, version)| by_version.entry(version).or_default().push(server));
    if by_version.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    if by_version.keys().any(|version| *version != own) {
        let list: Vec<String> =
            by_version.iter().map(|(version, servers)| format!("{version}: {}", servers.join(", "))).collect();
        let fix = "install the same package everywhere; where it is installed already: /usr/lib/vpfs/hand-over";
        check.warn(format!("this command is {own}, proxies are {}", list.join("; ")), fix);
    }
    check.or(format!("all are {own}"))
}

/// Whether all have the configuration of the file, whose fingerprint is `own`, in force; those of another version than
/// this command's cannot be compared.
fn configurations(statuses: &[Status], own: &str) -> Vec<Finding> {
    let mut check = Check::new("configurations");
    let known = |status: &&Status| status.version == env!("CARGO_PKG_VERSION") && !status.configuration.is_empty();
    let others: Vec<&str> = (statuses.iter().filter(known).filter(|status| status.configuration != own))
        .flat_map(|status| status.servers.iter().map(|server| server.server.as_str()))
        .collect();
    if !others.is_empty() {
        let fix = "install the same file on all hosts, then vpfs reload (systemctl reload vpfs-proxy) on each";
        check.warn(format!("{}: the configuration in force is not that of this file", others.join(", ")), fix);
    }
    if !statuses.iter().any(|status| known(&status)) {
        return check.skip("no proxy of this version was asked", "");
    }
    check.or("all have this configuration in force")
}

/// Whether a host holds so many connections that others may lack them.
fn connections(statuses: &[Status]) -> Vec<Finding> {
    let mut check = Check::new("connections");
    for status in statuses {
        let servers: Vec<&str> = status.servers.iter().map(|server| server.server.as_str()).collect();
        for Holder { port, holder, connections } in &status.holders {
            let text = format!(
                "{}: {holder} holds {} of the {} connections that one may have for {port}",
                servers.join(", "),
                connections.now,
                connections.limit
            );
            let fix = "look what it runs; close the port to it if it has no business there";
            check.warn(text, fix);
        }
    }
    if statuses.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    check.or("no host holds many")
}

fn peers(config: &Config, reports: &[PeersReport]) -> Vec<Finding> {
    let mut check = Check::new("peers");
    if config.peers.is_none() {
        return match config.servers.len() {
            1 => check.or("there is only one server"),
            _ => check.skip("there is no [peers] table: shares hold at each server, or in one process", ""),
        };
    }
    for report in reports {
        let missing: Vec<&str> =
            report.peers.iter().filter(|peer| !peer.connected).map(|peer| peer.server.as_str()).collect();
        if !missing.is_empty() {
            let text = format!("{} not connected with {}", report.servers.join(", "), missing.join(", "));
            check.fail(text, "the log of both says why; peers.port must be open between servers' hosts");
        }
    }
    if reports.is_empty() {
        return check.skip("no proxy was asked", "");
    }
    check.or("all are connected")
}

/// Whether the proxies can be asked from another host, as the agent of Slurm and `--remote` do; `failure` is why none
/// can.
fn remote_peers(config: &Config, answers: &Answers<PeersReport>, failure: Option<&str>) -> Vec<Finding> {
    let mut check = Check::new("remote");
    match config.peers.as_ref().map(|peers| &peers.security) {
        None => return check.skip("there is no [peers] table: proxies are asked on their own hosts only", ""),
        Some(PeerSecurity::None) => {
            let fix = "write shared_key in [peers] for jobs of Slurm and --remote";
            return check.skip("peers.security is \"none\": proxies answer nobody at the port of peers", fix);
        }
        Some(_) => {}
    }
    let fix = "peers.port must be open, and the key or certificate the same; the log of that proxy says more";
    failure.into_iter().chain(answers.silent.iter().map(String::as_str)).for_each(|why| check.fail(why, fix));
    check.or("all answer at the port of peers")
}

/// Whether the clocks of peers agree within `peers.clock_limit`.
fn clocks(config: &Config, reports: &[PeersReport]) -> Vec<Finding> {
    let mut check = Check::new("clocks");
    let Some(limit) = config.peers.as_ref().map(|peers| peers.clock_limit) else {
        return check.skip("without [peers] clocks are not compared", "");
    };
    let mut worst = Duration::ZERO;
    let mut known = false;
    for report in reports {
        for peer in &report.peers {
            let Some(ahead) = peer.clock_ahead_seconds else { continue };
            let off = Duration::try_from_secs_f64(ahead.abs()).unwrap_or(Duration::MAX);
            (worst, known) = (worst.max(off), true);
            if off > limit {
                let text = format!(
                    "{}: the clock of {} is {:+.3} s ahead (peers.clock_limit is {limit:?})",
                    report.servers.join(", "),
                    peer.server,
                    ahead
                );
                check.fail(text, "look at chronyc tracking, or timedatectl, on both");
            }
        }
    }
    if !known {
        return check.skip("no proxy knows another one's clock yet", "");
    }
    check.or(format!("they differ by at most {worst:.1?}"))
}

// Checks of what gives jobs of Slurm their shares, on the host of slurmctld.

/// All of them, if slurm.toml is in the directory of the configuration.
async fn examine(config: &Path) -> Vec<Finding> {
    let rules = config.with_file_name("slurm.toml");
    if !rules.exists() {
        return Vec::new();
    }
    let mut check = Check::new("slurm rules");
    let Files { settings, config, .. } = match Files::load(&rules) {
        Ok(files) => files,
        Err(exit) => {
            check.fail(exit.to_string(), "correct it; nothing else of Slurm was checked");
            return check.or("");
        }
    };
    let mut findings = check.or(format!("{} is valid", rules.display()));
    findings.extend(token(&settings, &config));
    findings.extend(reach(&settings, &config).await);
    findings.extend(wake(&settings.wake));
    let patience = settings.timeout;
    let told = tokio::task::spawn_blocking(move || settings_of_slurm(patience)).await;
    let told = told.map_err(|error| error.to_string()).flatten();
    findings.extend(prolog(told.as_ref(), settings.interval));
    findings.extend(accounts(told.as_ref(), settings.uses_accounts()));
    findings.extend(nodes(&settings, &config).await);
    findings
}

/// Whether the owner's token is a secret, and the one that proxies know.
fn token(settings: &Settings, config: &Config) -> Vec<Finding> {
    let mut check = Check::new("slurm token");
    let Some(path) = &settings.token else { return check.or("root needs none at sockets") };
    let place = path.display();
    match fs::metadata(path) {
        Err(error) => check.fail(format!("{place}: {error}"), "make it readable for the agent's user (SlurmUser)"),
        Ok(metadata) if metadata.permissions().mode() & 0o007 != 0 => {
            check.fail(format!("all users can read {place}, so proxies refuse it"), format!("chmod 640 {place}"));
        }
        Ok(_) => {}
    }
    let owner = config.owners.iter().find(|known| known.name == settings.owner.owner());
    // The proxies' own file is on their hosts, and need not be here.
    let theirs = owner.and_then(|owner| fs::read_to_string(&owner.token).ok());
    if let (Some(theirs), Ok(own)) = (theirs, fs::read_to_string(path))
        && theirs.trim() != own.trim()
    {
        check.fail(format!("{place} differs from the token of the [[owner]]"), "copy one to the other on all hosts");
    }
    check.or(format!("{place} is readable for its owner and group alone"))
}

/// Whether the proxies have what the agent pushes.
async fn reach(settings: &Settings, config: &Config) -> Vec<Finding> {
    let asking = Asking::of(settings.config.clone(), Vec::new(), settings.reach == Reach::Peers);
    let told = asking.answers::<PushedSets>(config).await.map_err(|exit| exit.to_string());
    reached(settings, told)
}

fn reached(settings: &Settings, told: Result<Answers<PushedSets>, String>) -> Vec<Finding> {
    let mut check = Check::new("slurm reach");
    let Answers { list, silent } = match told {
        Ok(answers) => answers,
        Err(failure) => Answers { list: Vec::new(), silent: vec![failure] },
    };
    for why in silent {
        check.fail(why, "the agent cannot push there: start the proxy, or open peers.port to this host");
    }
    let left = |told: &PushedSets| {
        let set = told.sets.iter().find(|set| set.set == settings.owner)?;
        Some(Duration::from_secs_f64(set.left_seconds.clamp(0.0, 1e9)))
    };
    let fix = "systemctl status vpfs-slurm; its log says why it does not push";
    for told in &list {
        let servers = told.servers.join(", ");
        match left(told) {
            None => check.fail(format!("{servers} has no jobs from the agent"), fix),
            // It has missed two.
            Some(left) if left + 2 * settings.interval < settings.ttl => {
                check.fail(format!("{servers} last heard from the agent {:.0?} ago", settings.ttl - left), fix);
            }
            Some(_) => {}
        }
    }
    check.or(format!("all proxies have the jobs ({})", list.len()))
}

fn wake(path: &Path) -> Vec<Finding> {
    let mut check = Check::new("slurm wake");
    let place = path.display();
    match look_at(path) {
        Ok(At::Used) => {}
        Ok(At::Free) => check.fail(format!("no agent receives at {place}"), "systemctl start vpfs-slurm"),
        Err(reason) => check.fail(format!("{place}: {reason}"), "correct agent.wake, and what `vpfs slurm wake` uses"),
    }
    check.or(format!("the agent receives at {place}"))
}

/// What `scontrol show config` printed, or why not.
type Told<'a> = Result<&'a HashMap<String, String>, &'a String>;

const ELSEWHERE: &str = "run this on the host of slurmctld";

/// Whether slurmctld wakes the agent, by programs that it can run: if it cannot, no job starts.
fn prolog(told: Told<'_>, interval: Duration) -> Vec<Finding> {
    let mut check = Check::new("slurm prolog");
    let told = match told {
        Ok(told) => told,
        Err(error) => return check.skip(error, ELSEWHERE),
    };
    for (key, what) in [("PrologSlurmctld", "starts"), ("EpilogSlurmctld", "ends")] {
        // Later versions number several.
        let programs = told.iter().filter(|(name, _)| name.split('[').next() == Some(key)).map(|(_, path)| path);
        let programs: Vec<&String> = programs.filter(|path| path.starts_with('/')).collect();
        if programs.is_empty() {
            let fix = format!("in slurm.conf, {key}= a script that runs `vpfs slurm wake`, and start slurmctld again");
            check.warn(format!("no {key}: that a job {what} is seen up to {interval:?} later"), fix);
        }
        for program in programs {
            let is_program =
                fs::metadata(program).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
            if !is_program {
                check.fail(
                    format!("{key}: {program} is no program here"),
                    format!("install it, and chmod 755 {program}"),
                );
            }
        }
    }
    check.or("slurmctld runs programs when jobs start and end")
}

/// Whether users can choose the accounts that rules go by.
fn accounts(told: Told<'_>, uses_accounts: bool) -> Vec<Finding> {
    let mut check = Check::new("slurm accounts");
    let told = match told {
        Ok(told) => told,
        Err(error) => return check.skip(error, ELSEWHERE),
    };
    let is_enforced = are_accounts_enforced(told);
    if uses_accounts && !is_enforced {
        check.warn(
            "rules go by accounts, and any user can choose one (sbatch -A)",
            "AccountingStorageEnforce=associations in slurm.conf, with slurmdbd; or rules by user",
        );
    }
    check.or(if is_enforced { "users have the accounts that they were given" } else { "no rule goes by accounts" })
}

async fn nodes(settings: &Settings, config: &Config) -> Vec<Finding> {
    let mut check = Check::new("slurm nodes");
    if have_own_jobs(config) {
        return check.or("mounts need no addresses of nodes");
    }
    let patience = settings.timeout;
    let listed = tokio::task::spawn_blocking(move || slurm::addresses(patience)).await;
    let listed = match listed.map_err(|error| error.to_string()).flatten() {
        Ok(listed) => listed,
        Err(error) => return check.skip(error, ELSEWHERE),
    };
    let mut hosts = Hosts::new(settings.clone());
    hosts.want(listed.keys().cloned().collect());
    hosts.settle().await;
    let mut missing: Vec<String> = listed.into_keys().filter(|node| hosts.addresses(node).is_empty()).collect();
    missing.sort();
    if !missing.is_empty() {
        let text = format!("jobs are not recognised on nodes without an address: {}", names(&missing));
        check.warn(text, "correct NodeAddr in slurm.conf, agent.clients, or what /etc/nsswitch.conf asks");
    }
    check.or("all have addresses")
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use vpfs_config::sets::SetText;
    use vpfs_proxy::admin::PushedSet;
    use vpfs_proxy::admin::api::Usage;

    use super::*;
    use crate::cmd::asking::PATIENCE;
    use crate::cmd::asking::tests::stopped;
    use crate::cmd::rows::tests::status;

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

    #[test]
    fn who_does_not_answer_is_named() {
        let answers = |servers: &[&str]| Answers {
            list: servers.iter().map(|server| status(server, 1)).collect(),
            silent: vec!["the proxy of s2 does not answer within 2s".to_owned()],
        };
        let verdict = |answers: &Answers<Status>| proxies(answers, None, &["s1", "s2"])[0].result;
        assert_eq!(verdict(&answers(&["s1", "s2"])), Verdict::Ok);
        assert_eq!(verdict(&answers(&["s1"])), Verdict::Failed);
        assert_eq!(proxies(&answers(&[]), Some("cannot ask"), &["s1"])[0].result, Verdict::Failed);
    }

    #[test]
    fn who_holds_connections_is_named() {
        let holder =
            Holder { port: "clients".into(), holder: "10.0.0.9".into(), connections: Usage { now: 9, limit: 10 } };
        let held = Status { holders: vec![holder], ..status("s1", 1) };
        assert_eq!(connections(&[held])[0].result, Verdict::Warning);
        assert_eq!(connections(&[status("s1", 1)])[0].result, Verdict::Ok);
        assert_eq!(connections(&[])[0].result, Verdict::Skipped);
    }

    #[test]
    fn a_port_of_peers_at_which_nobody_answers_fails() {
        let verdict = |peers: &str, silent: &[&str]| {
            let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n";
            let config = Config::parse("f", &format!("{text}{peers}")).unwrap();
            let silent = silent.iter().map(|&why| why.to_owned()).collect();
            remote_peers(&config, &Answers { list: Vec::new(), silent }, None)[0].result
        };
        let key = "[peers]\nport = 7334\nshared_key = \"k\"\n";
        assert_eq!(verdict("", &[]), Verdict::Skipped);
        assert_eq!(verdict("[peers]\nport = 7334\nsecurity = \"none\"\n", &["no"]), Verdict::Skipped);
        assert_eq!(verdict(key, &[]), Verdict::Ok);
        assert_eq!(verdict(key, &["the proxy of s1 cannot be asked at 127.0.0.1:7334"]), Verdict::Failed);
    }

    #[test]
    fn another_configuration_in_force_is_a_warning() {
        let of = |server: &str, configuration: &str| Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: configuration.to_owned(),
            ..status(server, 1)
        };
        let found = configurations(&[of("s1", "a"), of("s2", "b")], "a");
        assert_eq!(found[0].result, Verdict::Warning);
        assert!(super::findings_table(&found).to_string().contains("s2:"), "{found:?}");
        assert_eq!(configurations(&[of("s1", "a")], "a")[0].result, Verdict::Ok);
        assert_eq!(configurations(&[of("s1", "")], "a")[0].result, Verdict::Skipped, "an older one does not say");
    }

    #[test]
    fn versions_that_differ_are_a_warning() {
        let verdict = |statuses: &[Status], own: &str| versions(statuses, own)[0].result;
        assert_eq!(verdict(&[status("s1", 1), status("s2", 1)], "1"), Verdict::Ok);
        assert_eq!(verdict(&[status("s1", 1)], "2"), Verdict::Warning);
        assert_eq!(verdict(&[], "2"), Verdict::Skipped);
    }

    fn verdicts(findings: &[Finding]) -> Vec<Verdict> {
        findings.iter().map(|finding| finding.result).collect()
    }

    fn settings(rules: &str, folder: &Path) -> Settings {
        let text = format!("[agent]\ntoken = \"slurm.token\"\n{rules}");
        Settings::parse("slurm.toml", &text, folder).unwrap_or_else(|problems| panic!("{problems}"))
    }

    #[test]
    fn what_slurm_does_is_compared_with_what_rules_need() {
        let told = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<HashMap<_, _>>()
        };
        let minute = Duration::from_secs(60);
        let prolog = |pairs: &[(&str, &str)]| verdicts(&super::prolog(Ok(&told(pairs)), minute));
        let epilog = ("EpilogSlurmctld[1]", "/bin/sh");
        assert_eq!(prolog(&[("PrologSlurmctld", "/bin/sh"), epilog]), [Verdict::Ok]);
        assert_eq!(prolog(&[("PrologSlurmctld", "(null)"), epilog]), [Verdict::Warning]);
        assert_eq!(prolog(&[("PrologSlurmctld", "/no/program"), epilog]), [Verdict::Failed]);
        assert_eq!(prolog(&[]), [Verdict::Warning, Verdict::Warning]);
        assert_eq!(verdicts(&super::prolog(Err(&"no scontrol".into()), minute)), [Verdict::Skipped]);
        let folder = Path::new("/");
        let by_account = settings("[[rule]]\nshare = \"{account}/{user}\"\n", folder).uses_accounts();
        assert!(by_account && settings("[[rule]]\naccount = \"bio\"\n", folder).uses_accounts());
        assert!(!settings("[[rule]]\nshare = \"{user}\"\n", folder).uses_accounts());
        let accounts =
            |enforced: &str, uses| verdicts(&accounts(Ok(&told(&[("AccountingStorageEnforce", enforced)])), uses));
        assert_eq!(accounts("none", by_account), [Verdict::Warning]);
        assert_eq!(accounts("associations,limits", by_account), [Verdict::Ok]);
        assert_eq!(accounts("none", false), [Verdict::Ok]);
    }

    #[test]
    fn a_token_that_proves_nothing_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "[[server]]\nname = \"s\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n[[owner]]\n\
                    name = \"slurm\"\ntoken = \"theirs\"\n";
        write(path("vpfs.toml"), text).unwrap();
        write(path("theirs"), "0123456789abcdef\n").unwrap();
        let config = Config::load(&path("vpfs.toml")).unwrap();
        let token = || verdicts(&token(&settings("", folder.path()), &config));
        assert_eq!(token(), [Verdict::Failed], "it is missing");
        write(path("slurm.token"), "0123456789abcdef").unwrap();
        set_permissions(path("slurm.token"), Permissions::from_mode(0o644)).unwrap();
        assert_eq!(token(), [Verdict::Failed], "everybody has it");
        set_permissions(path("slurm.token"), Permissions::from_mode(0o640)).unwrap();
        assert_eq!(token(), [Verdict::Ok]);
        write(path("theirs"), "another").unwrap();
        assert_eq!(token(), [Verdict::Failed]);
    }

    #[test]
    fn a_proxy_without_recent_jobs_fails() {
        let settings = settings("", Path::new("/"));
        let told = |left_seconds: Option<f64>| {
            let text = SetText { version: 1, ttl: "5min".into(), apps: Vec::new() };
            let set = |left_seconds| PushedSet { set: settings.owner.clone(), left_seconds, text };
            PushedSets { servers: vec!["s1".into()], sets: left_seconds.map(set).into_iter().collect() }
        };
        let reached = |list, silent| verdicts(&super::reached(&settings, Ok(Answers { list, silent })));
        assert_eq!(reached(vec![told(Some(280.0))], Vec::new()), [Verdict::Ok]);
        assert_eq!(reached(vec![told(Some(100.0))], Vec::new()), [Verdict::Failed]);
        assert_eq!(reached(vec![told(None)], vec!["s2 is silent".into()]), [Verdict::Failed, Verdict::Failed]);
        assert_eq!(verdicts(&super::reached(&settings, Err("nobody".into()))), [Verdict::Failed]);
    }
}
