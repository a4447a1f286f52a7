//! What a benchmark runs against: which servers, and which vpfs.

use std::path::PathBuf;

use super::cluster::Cluster;
use super::local::embedded_servers;
use super::process::Running;
use super::program;
use super::scratch::Scratch;

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
    _servers: Option<Running>,
}

impl Target {
    /// Builds the program, and starts this number of embedded servers with a device model unless there is a cluster.
    pub(super) fn start(&self, scratch: &Scratch, servers: usize, device: &str) -> Result<Started, String> {
        let program = program::build(self.vpfs.as_deref())?;
        let (embedded, cluster) = match &self.cluster {
            Some(dir) => (None, Cluster::read(dir)?),
            None => embedded_servers(scratch, &program, servers, device).map(|(it, all)| (Some(it), all))?,
        };
        Ok(Started { program, cluster, _servers: embedded })
    }
}
