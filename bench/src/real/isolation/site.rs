//! Servers as they are installed, on limited disks, and a proxy in front of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use vpfs_e2e::{Daemon, free_ports, requirements};

use super::disk::{Disk, Speed};
use crate::real::cluster::Cluster;
use crate::real::write;

/// Kinds of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// nfs-ganesha on one disk of 60 MB/s and 600 accesses a second
    Nfs,
    /// Four OrangeFS servers as `pvfs2-genconfig` configures them, on disks of 15 MB/s and 300 accesses
    Orangefs,
}

/// Servers on their disks.
pub(super) struct Site {
    // Fields are dropped in this order, and a disk is busy while its server runs.
    _servers: Vec<Daemon>,
    pub(super) disks: Vec<Disk>,
    pub(super) kind: Kind,
    /// As in vpfs.toml, with a mount daemon's last.
    addresses: Vec<String>,
    dir: PathBuf,
}

impl Site {
    /// `None`, which is reported, if the servers are not installed.
    pub(super) fn start(kind: Kind, dir: &Path) -> Result<Option<Self>, String> {
        match kind {
            Kind::Nfs if requirements::are_present("nfs", &["ganesha.nfsd", "rpcbind", "unshare"]) => {
                nfs(dir).map(Some)
            }
            Kind::Orangefs if requirements::are_present("orangefs", &["pvfs2-genconfig", "pvfs2-server"]) => {
                orangefs(dir).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The URL for clients that go past any proxy.
    pub(super) fn url(&self) -> String {
        url(self.kind, &self.addresses)
    }
}

/// A running proxy, with a listener for each of two applications.
pub(super) struct Proxy {
    /// The URLs of the small and of the large application.
    pub(super) urls: [String; 2],
    _process: Daemon,
}

/// What a configuration has besides addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    /// Of each server's table.
    pub(super) server: &'static str,
    /// Of the large application's table.
    pub(super) large: String,
    /// The end of the file.
    pub(super) rest: String,
}

impl Proxy {
    /// Starts this program.
    pub(super) fn start(site: &Site, program: &Path, lines: &Lines) -> Result<Self, String> {
        let (Lines { server, large, rest }, mut text) = (lines, String::new());
        for (id, address) in site.addresses.iter().enumerate() {
            let _ = writeln!(text, "[[server]]\nname = \"s{id}\"\naddress = \"{address}\"\n{server}\n");
        }
        let servers = u16::try_from(site.addresses.len()).map_err(|_| "too many servers")?;
        let first = free_ports(2 * servers);
        let scheme = if site.kind == Kind::Nfs { "nfs://" } else { "tcp://" };
        let listener = |(number, app): (u16, &str)| {
            let ports = first + number * servers..first + (number + 1) * servers;
            let addresses: Vec<String> = ports.map(|port| format!("{scheme}127.0.0.1:{port}")).collect();
            let named = addresses.iter().enumerate().map(|(id, address)| format!("s{id} = \"{address}\""));
            let named = named.collect::<Vec<_>>().join(", ");
            let lines = if app == "large" { large.as_str() } else { "" };
            let _ = writeln!(text, "[[listener]]\napp = \"{app}\"\naddresses = {{ {named} }}\n");
            let _ = writeln!(text, "[[app]]\nname = \"{app}\"\n{lines}\n");
            url(site.kind, &addresses)
        };
        let urls = [(0, "small"), (1, "large")].map(listener);
        let config = site.dir.join("vpfs.toml");
        write(&config, &format!("{text}[apps]\nauto = \"off\"\n\n{rest}\n"))?;
        let mut command = Command::new(program);
        let mut process = Daemon::start(&site.dir, "proxy", command.args(["proxy", "--config"]).arg(&config));
        process.await_port(first + 2 * servers - 1);
        Ok(Self { urls, _process: process })
    }
}

/// Where clients of servers or proxies at these addresses connect to.
fn url(kind: Kind, addresses: &[String]) -> String {
    match kind {
        Kind::Nfs => {
            let port = addresses[1].rsplit(':').next().unwrap_or_default();
            format!("{}/vfs?mountport={port}", addresses[0])
        }
        Kind::Orangefs => Cluster { addresses: Vec::new(), name: "orangefs".to_owned() }.spec(&addresses[0]),
    }
}

/// What Debian's packages set up, except addresses, protocols that need other services, and the largest calls.
fn nfs(dir: &Path) -> Result<Site, String> {
    let disk = Disk::start(dir, "export", Speed { bytes: 60_000_000, accesses: 600 })?;
    let ports = free_ports(2);
    let (at, export) = (dir.display(), disk.mount().display());
    let config = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; Bind_addr = 127.0.0.1; NFS_Port = {ports}; MNT_Port = {}; Enable_NLM = false;\n\
         Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; }}\n\
         EXPORT_DEFAULTS {{ SecType = sys, none; Squash = None; Access_Type = RW; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{export}\"; Pseudo = \"/vfs\"; Protocols = 3; Transports = TCP;\n\
         MaxRead = 1048576; MaxWrite = 1048576; FSAL {{ Name = VFS; }} }}\n",
        ports + 1
    );
    write(&dir.join("ganesha.conf"), &config)?;
    // The port mapper has its files in /run, and ends with the server.
    let script = format!(
        "mount -t tmpfs none /run; mkdir /run/rpcbind; rpcbind -f & until [ -e /run/rpcbind.sock ]; do sleep 0.05; done; \
         exec ganesha.nfsd -F -f {at}/ganesha.conf -L {at}/ganesha.log -p {at}/ganesha.pid"
    );
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--kill-child", "sh", "-c", &script]);
    let mut server = Daemon::start(dir, "server", &mut command);
    server.await_port(ports + 1);
    let addresses = vec![format!("nfs://127.0.0.1:{ports}"), format!("nfs://127.0.0.1:{}", ports + 1)];
    Ok(Site { kind: Kind::Nfs, disks: vec![disk], addresses, dir: dir.to_owned(), _servers: vec![server] })
}

fn orangefs(dir: &Path) -> Result<Site, String> {
    const SERVERS: u16 = 4;
    let disk = |id| Disk::start(dir, &format!("disk{id}"), Speed { bytes: 15_000_000, accesses: 300 });
    let disks = (0..SERVERS).map(disk).collect::<Result<Vec<_>, _>>()?;
    let first = free_ports(SERVERS);
    let (conf, spec) = (dir.join("fs.conf"), format!("tcp://127.0.0.1:{{{first}-{}}}", first + SERVERS - 1));
    let mut command = Command::new("pvfs2-genconfig");
    command.args(["--quiet", "--iospec", &spec, "--metaspec", &spec, "--storage"]).arg(dir.join("none"));
    command.arg("--metadata").arg(dir.join("none")).arg("--logfile").arg(dir.join("orangefs.log")).arg(&conf);
    vpfs_e2e::run(&mut command);
    let mut text = std::fs::read_to_string(&conf).map_err(|error| format!("{}: {error}", conf.display()))?;
    for (port, disk) in (first..).zip(&disks) {
        let mount = disk.mount().display();
        let _ = write!(
            text,
            "<ServerOptions>\n\tServer 127.0.0.1_tcp{port}\n\tDataStorageSpace {mount}/data\n\t\
             MetadataStorageSpace {mount}/metadata\n</ServerOptions>\n"
        );
    }
    write(&conf, &text)?;
    let start = |port| {
        let alias = format!("127.0.0.1_tcp{port}");
        let command = || {
            let mut command = Command::new("pvfs2-server");
            command.arg(&conf).args(["-a", &alias]);
            command
        };
        vpfs_e2e::run(command().arg("-f"));
        let mut server = Daemon::start(dir, &alias, command().arg("-d"));
        server.await_port(port);
        server
    };
    let servers = (first..first + SERVERS).map(start).collect();
    let addresses = (first..first + SERVERS).map(|port| format!("tcp://127.0.0.1:{port}")).collect();
    Ok(Site { kind: Kind::Orangefs, disks, addresses, dir: dir.to_owned(), _servers: servers })
}
