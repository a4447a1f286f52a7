//! What a benchmark runs against: which servers, and which vpfs.

use std::path::{Path, PathBuf};
use std::process::Command;

use vpfs_e2e::{Daemon, free_ports};

use super::cluster::Cluster;

/// The options that choose it.
#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// A running cluster instead of embedded servers: its fs.conf is in DIR
    #[arg(long = "orangefs", value_name = "DIR")]
    pub(super) cluster: Option<PathBuf>,
    /// Measure this vpfs; by default it is built from this source
    #[arg(long, value_name = "PROGRAM")]
    vpfs: Option<PathBuf>,
}

/// It is running.
pub(super) struct Started {
    /// The vpfs that is measured.
    pub(super) program: PathBuf,
    pub(super) cluster: Cluster,
    _servers: Option<Daemon>,
}

impl Target {
    /// Builds the program, and starts this number of embedded servers with a device model unless there is a cluster.
    pub(super) fn start(&self, dir: &Path, servers: u16, device: &str) -> Result<Started, String> {
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
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf, String> {
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
