//! `vpfs init`: the configuration of a cluster, with keys or certificates, from the servers' own one; or for an NFS
//! server.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use vpfs_config::{Config, Problem, Problems, read_bytes};
use vpfs_testbed::fsconfig::{Configuration, FsConfigError, FsServer};
use vpfs_testbed::nfs::Url;

use super::{count, random_hex};
use crate::print::{Exit, print};

/// Write the configuration of a cluster from that of its OrangeFS servers, or for an NFS server
///
/// With --nfs, writes a vpfs.toml with one proxy on the server's host, in which each user is an application. Otherwise
/// writes vpfs.toml and what proxies recognise each other by: a shared key, or an authority with a certificate for each
/// server's host. With --redirect writes also rules of nftables, by which clients reach the proxies at the servers' own
/// addresses. Says where each file belongs. Nothing that exists is overwritten.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs init --from /etc/orangefs/orangefs-server.conf --output /etc/vpfs\n  \
    vpfs init --from fs.conf --output cluster --certificates      then copy cluster/s1/* to /etc/vpfs of s1's host\n  \
    vpfs init --nfs nas1:/export/home --output /etc/vpfs")]
pub(crate) struct Init {
    /// The configuration of the OrangeFS servers, the file that all of them have in common
    #[arg(long, value_name = "FILE", required_unless_present = "nfs")]
    from: Option<PathBuf>,

    /// The NFS server as for mount, or nfs://HOST:PORT/EXPORT?mountport=PORT if its ports are not 2049 and 20048
    #[arg(long, value_name = "HOST:/EXPORT", value_parser = Export::parse,
        conflicts_with_all = ["from", "file_system", "peer_port", "certificates"])]
    nfs: Option<Export>,

    /// Only the servers of this file system [default: of all in the file]
    #[arg(long, value_name = "NAME")]
    file_system: Option<String>,

    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    output: PathBuf,

    /// The port where proxies listen for clients; with --nfs, that before it is for the mount daemon [default: 5334, or
    /// 12049 with --nfs]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(2..))]
    port: Option<u16>,

    /// The port where proxies listen for each other
    #[arg(long, value_name = "PORT", default_value = "7334")]
    peer_port: u16,

    /// Write certificates instead of a shared key
    #[arg(long)]
    certificates: bool,

    /// Redirect clients on the servers' hosts, so that they keep the servers' addresses
    #[arg(long)]
    redirect: bool,
}

impl Init {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match (&self.nfs, &self.from) {
            (Some(export), _) => export.write(&self.output, self.port.unwrap_or(NFS_PORT), self.redirect),
            (None, Some(from)) => self.for_orangefs(from),
            (None, None) => Err(Exit::Usage("give --from or --nfs".to_owned())),
        }
    }

    fn for_orangefs(&self, from: &Path) -> Result<(), Exit> {
        let found = read_servers(from, self.file_system.as_deref())?;
        let text = config_text(self, &found.servers);
        // What is written must be valid: names of servers can be too long, or ports too high.
        let config =
            Config::parse("vpfs.toml", &text).map_err(|problems| refused(from, &found, &text, &problems.list))?;
        write_files(&self.output, &self.files(&found, &config, text)?)?;
        found.notes.iter().for_each(|note| eprintln!("vpfs: note: {note}"));
        print(self.next_steps(&found, &config))
    }

    fn files(&self, found: &Found<'_>, config: &Config, text: String) -> Result<Vec<NewFile>, Exit> {
        let mut files = vec![NewFile::new("vpfs.toml", text, 0o644)];
        if self.redirect {
            files.push(NewFile::new("vpfs.nft", rules(config), 0o644));
        }
        if self.certificates {
            files.extend(certificates(&found.servers)?);
        } else {
            files.push(NewFile::new("peers.key", new_key()?, 0o600));
        }
        Ok(files)
    }

    fn next_steps(&self, found: &Found<'_>, config: &Config) -> String {
        let count = count(config.servers.len(), "server");
        let server = &config.servers[0];
        let name = &server.name;
        let copy = match self.certificates {
            true => format!(
                "copy vpfs.toml and what is in {name}/ to /etc/vpfs, but never ca-key.pem; chgrp vpfs and chmod 640 \
                 peers-key.pem there"
            ),
            false => {
                "copy both: install -m 644 vpfs.toml /etc/vpfs; install -m 640 -g vpfs peers.key /etc/vpfs".to_owned()
            }
        };
        let clients = match self.redirect {
            true => "Once all proxies run, redirect clients on each host: nft -f vpfs.nft".to_owned(),
            false => {
                let (proxy, fs) = (&config.listeners[0].addresses[0], &found.file_system);
                format!("Once all proxies run, clients mount {proxy}/{fs} instead of {}/{fs}", server.address)
            }
        };
        format!(
            "wrote {} for {count}\n\
             On the host of each server, for example {name}:\n  \
                 {copy}\n  \
                 vpfs proxy --check --connect --server {name}\n  \
                 vpfs proxy --server {name}\n\
             {clients}",
            self.output.display(),
        )
    }
}

/// How an application is written, as a comment, for who reads the file; without one `others` are applications.
fn app_example(rule: &str, others: &str) -> String {
    format!(
        "# By default {others} is an application, with an equal share, until a rule such as this one gives some of them a name and a\n\
         # larger share together (`vpfs proxy --reload PID` applies it, and `vpfs app which` says to which application a\n\
         # client belongs):\n\
         # [[app]]\n# name = \"climate\"\n# weight = 4\n# {rule}\n"
    )
}

/// The problems of a text that is not written, at the places in the servers' configuration that lead to them.
fn refused(from: &Path, found: &Found<'_>, text: &str, problems: &[Problem]) -> Exit {
    let described = problems.iter().map(|problem| match server_at(text, problem.line) {
        Some(index) => {
            let server = &found.servers[index];
            format!("{}: Alias {:?}: {}", found.place(server), server.alias, problem.message)
        }
        None => {
            let (from, ports) = (from.display(), "--port and --peer-port are the first ports");
            format!("{from}: {}: {} ({ports})", problem.key, problem.message)
        }
    });
    Exit::Usage(described.collect::<Vec<_>>().join("\n"))
}

/// The port where proxies listen for clients, unless another one is given.
const PORT: u16 = 5334;

/// A table for each server, one listener and `[peers]`.
fn config_text(init: &Init, servers: &[FsServer]) -> String {
    let mut text = String::from(
        "# Written by `vpfs init`; the same file on all hosts. `vpfs proxy --check --print` prints all settings with their\n\
         # defaults, and `vpfs proxy --check --connect` compares the servers below with what the real ones say.\n\n",
    );
    for server in servers {
        text += &format!("[[server]]\nname = {:?}\naddress = {:?}\n\n", server.alias, server.address);
    }
    text += &format!("[[listener]]\n{}", addresses(servers, "tcp://", init.port.unwrap_or(PORT)));
    if init.redirect {
        text += "# vpfs.nft redirects clients from there to the listener.\nadvertise = \"server\"\n";
    }
    text += &format!("\n{}", app_example("clients = [\"c[001-064]\"]", "each client host"));
    text += "\n[scheduler]\n# Shares hold for the sum over all servers.\nsharing = \"threshold\"\n\n[peers]\n";
    text += &addresses(servers, "", init.peer_port);
    text + match init.certificates {
        true => {
            "security = \"certificates\"\nauthority = \"ca.pem\"\ncertificate = \"peers.pem\"\nprivate_key = \
             \"peers-key.pem\"\n"
        }
        false => "shared_key = \"peers.key\"\n",
    }
}

/// The server, by its place, whose table has this line of the text, counted from 1.
fn server_at(text: &str, line: usize) -> Option<usize> {
    let tables: Vec<&str> = text.lines().take(line).filter(|line| line.starts_with('[')).collect();
    let is_servers = tables.iter().all(|table| *table == "[[server]]");
    if is_servers { tables.len().checked_sub(1) } else { None }
}

/// One port on all hosts; ports from it on if servers share a host.
fn addresses(servers: &[FsServer], scheme: &str, first: u16) -> String {
    let mut on_host: HashMap<&str, u16> = HashMap::new();
    let mut named = Vec::new();
    for server in servers {
        let host = server.host_and_port().rsplit_once(':').map_or("", |(host, _)| host);
        let earlier = on_host.entry(host).or_default();
        // A port above the maximum is refused when the text is read.
        named.push(format!("{:?} = \"{scheme}{host}:{}\"", server.alias, u32::from(first) + u32::from(*earlier)));
        *earlier += 1;
    }
    match on_host.len() == servers.len() {
        true => format!("port = {first}\n"),
        false => format!("addresses = {{ {} }}\n", named.join(", ")),
    }
}

#[derive(Debug)]
struct Found<'a> {
    from: &'a Path,
    configuration: Configuration,
    /// The name of the first file system, which is on the first of the servers.
    file_system: String,
    /// All that clients use, in the order of their handles.
    servers: Vec<FsServer>,
    /// What an administrator should know.
    notes: Vec<String>,
}

/// Reads the configuration `from` for one file system, or for all if none is named: a proxy serves whatever its server
/// does.
fn read_servers<'a>(from: &'a Path, file_system: Option<&str>) -> Result<Found<'a>, Exit> {
    let failed = |error: std::io::Error| Exit::Usage(format!("{}: {error}", from.display()));
    let text = read_bytes(from).map_err(failed)?;
    let refused = |error| servers_refused(from, error);
    let configuration = Configuration::parse(&text).map_err(refused)?;
    let names: Vec<&str> = match file_system {
        Some(name) => vec![name],
        None => configuration.file_systems.iter().map(|fs| fs.name.as_str()).collect(),
    };
    let (mut servers, mut written) = (Vec::new(), HashSet::new());
    for name in &names {
        let of_one = &configuration.file_system(name).map_err(refused)?.servers;
        servers.extend(of_one.iter().filter(|server| written.insert(server.alias.as_str())).cloned());
    }
    distinct(&configuration, &servers).map_err(refused)?;
    let notes = notes(&configuration, &written, &names);
    let file_system = names.first().copied().unwrap_or_default().to_owned();
    Ok(Found { from, configuration, file_system, servers, notes })
}

/// A proxy stands in front of one server.
fn distinct(configuration: &Configuration, servers: &[FsServer]) -> Result<(), FsConfigError> {
    let mut seen = HashMap::new();
    for server in servers {
        if let Some(other) = seen.insert(server.host_and_port().to_ascii_lowercase(), &server.alias) {
            let line = configuration.alias(&server.alias).map_or(0, |alias| alias.line);
            let what = format!("Alias {:?} has the address of {other:?}; each server needs its own", server.alias);
            return Err(FsConfigError::Line { line, what });
        }
    }
    Ok(())
}

fn servers_refused(from: &Path, error: FsConfigError) -> Exit {
    let file = from.display();
    Exit::Usage(match error {
        FsConfigError::Line { line, what } => format!("{file}:{line}: {what}"),
        FsConfigError::UnknownFileSystem { .. } => {
            format!("{file}: {error}; give one with --file-system, or leave that out for all")
        }
        FsConfigError::Whole(what) => format!("{file}: {what}"),
    })
}

fn notes(configuration: &Configuration, written: &HashSet<&str>, names: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    if names.len() > 1 {
        notes.push(format!("the proxies serve all {} file systems: {}", names.len(), names.join(", ")));
    }
    for alias in &configuration.aliases {
        let others: Vec<&str> = alias.others().collect();
        if !written.contains(alias.name.as_str()) {
            notes.push(format!(
                "{} (line {}) is left out, since it has no handles in {}; clients reach it without a proxy",
                alias.name,
                alias.line,
                names.join(", ")
            ));
        } else if !others.is_empty() {
            notes.push(format!(
                "{} is also at {}; clients that use that transport pass by the proxy",
                alias.name,
                others.join(", ")
            ));
        }
    }
    if configuration.storage.answers_from_memory() {
        notes.push(
            "the servers answer a write when it is in memory (TroveMethod is not directio, TroveSyncData is no): vpfs \
             limits what is not on disk yet, where a proxy runs on its server's host and the kernel has 6.2 or later \
             (limits.write_back)"
                .to_owned(),
        );
    }
    notes
}

impl Found<'_> {
    fn place(&self, server: &FsServer) -> String {
        let line = self.configuration.alias(&server.alias).map_or(0, |alias| alias.line);
        format!("{}:{line}", self.from.display())
    }
}

/// The port where the proxy listens for NFS; the one before it is for the mount daemon.
const NFS_PORT: u16 = 12049;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Export(Url);

impl Export {
    /// Reads `host:/path`, as for `mount`, or a URL.
    fn parse(text: &str) -> Result<Self, String> {
        let url = match text.split_once(":/") {
            Some((host, path)) if host != "nfs" => format!("nfs://{host}/{path}"),
            _ => text.to_owned(),
        };
        Url::parse(&url).map(Self).map_err(|_| {
            "write HOST:/EXPORT, or nfs://HOST:PORT/EXPORT?mountport=PORT for other ports than 2049 and 20048"
                .to_owned()
        })
    }

    /// Writes vpfs.toml to the directory `output`, for a proxy at `port`, if `redirect` with rules that send clients
    /// there, and says what to do with it.
    fn write(&self, output: &Path, port: u16, redirect: bool) -> Result<(), Exit> {
        let text = self.config(port);
        // One is enough: the others are the same at other ports.
        let refused = |problems: Problems| {
            let first = problems.list.first().map_or("", |problem| &problem.message);
            Exit::Usage(format!("--nfs {}: {first}", self.0.host))
        };
        let config = Config::parse("vpfs.toml", &text).map_err(refused)?;
        let mut files = vec![NewFile::new("vpfs.toml", text, 0o644)];
        if redirect {
            files.push(NewFile::new("vpfs.nft", rules(&config), 0o644));
        }
        write_files(output, &files)?;
        print(self.next_steps(output, port, redirect))
    }

    fn has_mount_daemon(&self) -> bool {
        self.0.mount_port != self.0.port
    }

    fn config(&self, port: u16) -> String {
        let Url { host, export, port: server_port, mount_port } = &self.0;
        let mut addresses = format!("nfs = \"nfs://{host}:{port}\"");
        let mut text = format!(
            "# Written by `vpfs init` for {host}:{export}. `vpfs proxy --check --print` prints all settings with their\n\
             # defaults, and `vpfs proxy --check --connect` asks the server what it speaks.\n\n\
             [[server]]\nname = \"nfs\"\naddress = \"nfs://{host}:{server_port}\"\n\n"
        );
        if self.has_mount_daemon() {
            text += &format!(
                "# The mount daemon, for NFSv3. NFSv4 has none: remove this and its address below if nobody uses NFSv3.\n\
                 [[server]]\nname = \"mountd\"\naddress = \"nfs://{host}:{mount_port}\"\n\n"
            );
            addresses += &format!(", mountd = \"nfs://{host}:{}\"", port - 1);
        }
        text + &format!(
            "[[listener]]\naddresses = {{ {addresses} }}\n\n\
             # Each user is an application, on whichever host.\n\
             [apps]\nauto = \"uid\"\n\n{}",
            app_example("users = [\"alice\", \"bob\"]", "each user")
        )
    }

    fn next_steps(&self, output: &Path, port: u16, redirect: bool) -> String {
        let Url { host, export: path, .. } = &self.0;
        let mount_port = if self.has_mount_daemon() { port - 1 } else { port };
        let clients = match redirect {
            true => format!("Once the proxy runs, redirect clients on {host}: nft -f vpfs.nft"),
            false => format!(
                "Once the proxy runs, clients mount through it:\n  \
                     mount -t nfs -o vers=4.1,port={port} {host}:{path} {path}\n  \
                     mount -t nfs -o vers=3,proto=tcp,nolock,port={port},mountproto=tcp,mountport={mount_port} {host}:{path} {path}"
            ),
        };
        format!(
            "wrote {config}\n\
             On {host}, there or as /etc/vpfs/vpfs.toml, which needs no --config:\n  \
                 vpfs proxy --config {config} --check --connect\n  \
                 vpfs proxy --config {config}\n\
             The server sees the proxy as its client: export {path} to {host}, with `insecure` in Linux's exports\n\
             {clients}",
            config = output.join("vpfs.toml").display()
        )
    }
}

// Rules of nftables that send clients of the servers' own addresses to the proxies.

/// A file for `nft -f`, the same on all hosts: on each, only connections to its own addresses match.
///
/// Connections of servers pass by, so requests between servers wait for no client; so do those of the host itself,
/// such as the proxy's own ones, because they are not routed.
fn rules(config: &Config) -> String {
    let hosts: BTreeSet<&str> = config.servers.iter().map(|server| server.address.host()).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let proxies = config.servers.iter().zip(&config.listeners[0].addresses);
    let ports = proxies.map(|(server, proxy)| {
        format!("            {} . {} : {},\n", server.address.host(), server.address.port(), proxy.port())
    });
    format!(
        "#!/usr/sbin/nft -f\n\
         # Written by `vpfs init`; run it on every server's host. `nft delete table ip vpfs` undoes it. Only new\n\
         # connections are redirected; existing ones stay as they are.\n\
         table ip vpfs\n\
         delete table ip vpfs\n\
         table ip vpfs {{\n    \
             set servers {{\n        type ipv4_addr\n        elements = {{ {} }}\n    }}\n    \
             map proxies {{\n        type ipv4_addr . inet_service : inet_service\n        elements = {{\n{}        \
             }}\n    }}\n    \
             chain prerouting {{\n        \
                 type nat hook prerouting priority dstnat; policy accept;\n        \
                 meta l4proto tcp ip saddr != @servers redirect to :ip daddr . tcp dport map @proxies\n    \
             }}\n\
         }}\n",
        hosts.join(", "),
        ports.collect::<String>(),
    )
}

fn new_key() -> Result<String, Exit> {
    Ok(random_hex::<32>()? + "\n")
}

/// An authority, and a directory for each server with a certificate for its host.
fn certificates(servers: &[FsServer]) -> Result<Vec<NewFile>, Exit> {
    let failed = |error: rcgen::Error| Exit::Failed(format!("cannot make certificates: {error}"));
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "vpfs peers");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
    let mut files = vec![NewFile::new("ca-key.pem", authority.key().serialize_pem(), 0o600)];
    for server in servers {
        let host = server.host_and_port().rsplit_once(':').map_or(server.host_and_port(), |(host, _)| host);
        let key = KeyPair::generate().map_err(failed)?;
        let params = CertificateParams::new(vec![host.to_owned()]).map_err(failed)?;
        let certificate = params.signed_by(&key, &authority).map_err(failed)?;
        let folder = Path::new(&server.alias);
        files.push(NewFile::new(folder.join("ca.pem"), authority.pem(), 0o644));
        files.push(NewFile::new(folder.join("peers.pem"), certificate.pem(), 0o644));
        files.push(NewFile::new(folder.join("peers-key.pem"), key.serialize_pem(), 0o600));
    }
    Ok(files)
}

struct NewFile {
    /// Relative to the output directory.
    path: PathBuf,
    text: String,
    mode: u32,
}

impl NewFile {
    fn new(path: impl Into<PathBuf>, text: impl Into<String>, mode: u32) -> Self {
        Self { path: path.into(), text: text.into(), mode }
    }
}

/// Writes all files to the directory `output`; what exists is kept.
fn write_files(output: &Path, files: &[NewFile]) -> Result<(), Exit> {
    if output.exists() && !output.is_dir() {
        return Err(Exit::Usage(format!("{} is no directory; choose another --output", output.display())));
    }
    if let Some(there) = files.iter().map(|file| output.join(&file.path)).find(|path| path.symlink_metadata().is_ok()) {
        return Err(Exit::Failed(format!("{} exists and is kept; choose another --output", there.display())));
    }
    files.iter().try_for_each(|file| write_one(&output.join(&file.path), file))
}

fn write_one(path: &Path, file: &NewFile) -> Result<(), Exit> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder)
        .map_err(|error| Exit::Failed(format!("cannot create {}: {error}", folder.display())))?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(path);
    opened
        .and_then(|mut opened| opened.write_all(file.text.as_bytes()))
        .map_err(|error| Exit::cannot_write(path, &error))
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use vpfs_config::PeerSecurity;
    use vpfs_testbed::fsconfig::FsConfig;

    use super::*;

    fn init(output: &Path, certificates: bool) -> Result<(), Exit> {
        init_for(output, certificates, false, &["tcp://oss1:3334", "tcp://10.0.0.2:3334"])
    }

    fn init_for(output: &Path, certificates: bool, redirect: bool, addresses: &[&str]) -> Result<(), Exit> {
        let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
        let from = output.with_extension("conf");
        std::fs::write(&from, FsConfig::new("orangefs", &addresses).to_text()).unwrap();
        Init { certificates, redirect, ..arguments(from, output) }.run()
    }

    fn arguments(from: PathBuf, output: &Path) -> Init {
        let (from, output) = (Some(from), output.to_owned());
        Init {
            from,
            nfs: None,
            file_system: None,
            output,
            port: None,
            peer_port: 7334,
            certificates: false,
            redirect: false,
        }
    }

    fn usage(result: Result<(), Exit>) -> String {
        let Err(Exit::Usage(problem)) = result else { panic!("{result:?}") };
        problem
    }

    /// The example of an application is valid when its comment is removed.
    fn assert_example(output: &Path) {
        let text = std::fs::read_to_string(output.join("vpfs.toml")).unwrap();
        let (before, example) = text.split_once("# [[app]]\n").expect("an example");
        let (example, after) = example.split_once("\n\n").unwrap_or((example, ""));
        let lines: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let uncommented = format!("{before}[[app]]\n{}\n{after}", lines.join("\n"));
        let config = Config::parse("vpfs.toml", &uncommented).unwrap();
        let app = config.apps.iter().find(|app| app.name == "climate").expect("the example");
        assert_eq!(app.weight.get(), 4);
    }

    #[test]
    fn what_is_written_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("key");
        init(&output, false).unwrap();
        let peers = Config::load(&output.join("vpfs.toml")).unwrap().peers.unwrap();
        let PeerSecurity::SharedKey(key) = peers.security else { panic!("{peers:?}") };
        assert_eq!(std::fs::read_to_string(&key).unwrap().trim().len(), 64);
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(peers.addresses, [("oss1".into(), 7334), ("10.0.0.2".into(), 7334)]);
        assert_example(&output);
        std::fs::remove_file(output.join("vpfs.toml")).unwrap();
        let Err(Exit::Failed(kept)) = init(&output, false) else { panic!("nothing is overwritten") };
        assert_eq!(kept, format!("{} exists and is kept; choose another --output", key.display()));
        assert!(!output.join("vpfs.toml").exists(), "all or nothing is written");
    }

    #[test]
    fn problems_are_those_of_the_file_that_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("bad.conf");
        let bad = |addresses: &[&str]| usage(init_for(&folder.path().join("bad"), false, false, addresses));
        let problem = bad(&["tcp://oss1:3334", "tcp://oss_1:70000"]);
        assert!(problem.starts_with(&format!("{}:18: Alias \"s2\": ", from.display())), "{problem}");
        let problem = bad(&["tcp://oss1:3334", "tcp://OSS1:3334"]);
        assert!(
            problem.ends_with(":18: Alias \"s2\" has the address of \"s1\"; each server needs its own"),
            "{problem}"
        );
        let problem = bad(&["ib://oss1:3335"]);
        assert!(problem.starts_with(&format!("{}:17: server `s1` is reached at", from.display())), "{problem}");
        assert!(!folder.path().join("bad").exists());
    }

    #[test]
    fn all_file_systems_are_served_unless_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (from, output) = (folder.path().join("fs.conf"), folder.path().join("all"));
        let text = FsConfig::new("pvfs2-fs", &["tcp://oss1:3334".to_owned(), "tcp://oss2:3334".to_owned()]).to_text();
        let second = "<FileSystem>\nName home\nID 7\nRootHandle 9\n<MetaHandleRanges>\nRange s2 3-99\n\
                      </MetaHandleRanges>\n<DataHandleRanges>\nRange s2 100-200\n</DataHandleRanges>\n</FileSystem>\n";
        std::fs::write(&from, text + second).unwrap();
        let init = |output: &Path, name: Option<&str>| {
            Init { file_system: name.map(str::to_owned), ..arguments(from.clone(), output) }.run()
        };
        init(&output, None).unwrap();
        assert_eq!(Config::load(&output.join("vpfs.toml")).unwrap().servers.len(), 2);
        let one = folder.path().join("one");
        init(&one, Some("home")).unwrap();
        let names: Vec<String> =
            Config::load(&one.join("vpfs.toml")).unwrap().servers.into_iter().map(|server| server.name).collect();
        assert_eq!(names, ["s2"]);
        let problem = usage(init(&one, Some("orangefs")));
        assert!(
            problem.contains("no file system is called `orangefs`; there are `pvfs2-fs`, `home`; give one"),
            "{problem}"
        );
    }

    #[test]
    fn each_server_gets_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("certificates");
        init(&output, true).unwrap();
        let config = Config::load(&output.join("vpfs.toml")).unwrap();
        for server in &config.servers {
            for (file, mode) in [("peers.pem", 0o644), ("peers-key.pem", 0o600), ("ca.pem", 0o644)] {
                let metadata = std::fs::metadata(output.join(&server.name).join(file)).unwrap();
                assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
            }
        }
        assert_eq!(std::fs::metadata(output.join("ca-key.pem")).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn servers_of_one_host_get_ports_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("shared");
        init_for(&output, false, true, &["tcp://oss1:3334", "tcp://oss2:3334", "tcp://oss1:3335"]).unwrap();
        let config = Config::load(&output.join("vpfs.toml")).unwrap();
        let listener: Vec<&str> = config.listeners[0].addresses.iter().map(|address| address.as_str()).collect();
        assert_eq!(listener, ["tcp://oss1:5334", "tcp://oss2:5334", "tcp://oss1:5335"]);
        let clients: Vec<&str> = config.address_pairs(0).map(|(_, told)| told.as_str()).collect();
        assert_eq!(clients, ["tcp://oss1:3334", "tcp://oss2:3334", "tcp://oss1:3335"], "clients notice nothing");
        let peers = config.peers.unwrap().addresses;
        assert_eq!(peers, [("oss1".into(), 7334), ("oss2".into(), 7334), ("oss1".into(), 7335)]);
        let rules = std::fs::read_to_string(output.join("vpfs.nft")).unwrap();
        assert!(rules.contains("oss1 . 3335 : 5335"), "{rules}");
        assert!(rules.contains("elements = { oss1, oss2 }"), "{rules}");
    }

    #[test]
    fn servers_that_answer_from_memory_are_noted() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/fs_conf/same_backslashes");
        let text = std::fs::read_to_string(corpus).unwrap();
        assert!(text.contains("TroveSyncData no"));
        let dir = tempfile::tempdir().unwrap();
        for (text, is_noted) in [(text.replace("alt-aio", "directio"), false), (text, true)] {
            let file = dir.path().join("fs.conf");
            std::fs::write(&file, text).unwrap();
            let notes = read_servers(&file, None).unwrap().notes;
            assert_eq!(notes.iter().any(|note| note.contains("in memory")), is_noted, "{notes:?}");
        }
    }

    #[test]
    fn exports_are_written_as_administrators_write_them() {
        for (text, expected) in [
            ("nas1:/export/home", "nfs://nas1:2049/export/home?mountport=20048"),
            ("10.0.0.1:/", "nfs://10.0.0.1:2049/?mountport=20048"),
            ("[fd00::1]:/home", "nfs://[fd00::1]:2049/home?mountport=20048"),
            ("nfs://nas1:3049/home?mountport=635", "nfs://nas1:3049/home?mountport=635"),
        ] {
            assert_eq!(Export::parse(text).map(|export| export.0.to_string()).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["nas1", "nas1:home", ":/home", "nfs://nas1", "nfs:///home", "nfs://a:x/home"] {
            assert!(Export::parse(bad).is_err_and(|problem| problem.starts_with("write HOST:/EXPORT")), "{bad}");
        }
    }

    #[test]
    fn nfs_what_is_written_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |text: &str, output: &str| Export::parse(text).unwrap().write(&folder.path().join(output), NFS_PORT, true);
        let servers = |output: &str| {
            let config = Config::load(&folder.path().join(output).join("vpfs.toml")).unwrap();
            assert!(config.warnings.list.is_empty(), "{}", config.warnings);
            let pairs = config.servers.iter().zip(&config.listeners[0].addresses);
            pairs.map(|(server, proxy)| format!("{} {proxy}", server.address)).collect::<Vec<_>>()
        };
        write("10.0.0.1:/home", "two").unwrap();
        assert_example(&folder.path().join("two"));
        let nfs = "nfs://10.0.0.1:2049 nfs://10.0.0.1:12049".to_owned();
        assert_eq!(servers("two"), [nfs.clone(), "nfs://10.0.0.1:20048 nfs://10.0.0.1:12048".to_owned()]);
        let rules = std::fs::read_to_string(folder.path().join("two/vpfs.nft")).unwrap();
        assert!(rules.contains("10.0.0.1 . 20048 : 12048"), "{rules}");
        write("nfs://10.0.0.1/home?mountport=2049", "one").unwrap();
        assert_eq!(servers("one"), [nfs]);
        let Err(Exit::Usage(problem)) = write("[fd00::1]:/home", "six") else { panic!("IPv6 is not supported") };
        assert!(problem.starts_with("--nfs [fd00::1]: ") && problem.contains("IPv6"), "{problem}");
        assert!(!folder.path().join("six").exists());
    }
}
