//! What a benchmark runs against: which servers, and which vpfs.

use std::path::PathBuf;

use super::cluster::Cluster;
use super::local::embedded_servers;
use super::process::Running;
use super::program;
use super::scratch::Scratch;

/// The options that choose it.
#[derive(Debug)]
pub(super) struct Target {
    /// The directory of a running cluster; `None`: embedded servers.
    pub(super) cluster: Option<PathBuf>,
    /// The device model of embedded servers.
    pub(super) device: String,
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
    /// Embedded servers with this device model, and the vpfs of this source.
    pub(super) fn new(device: &str) -> Self {
        Self { cluster: None, device: device.to_owned(), vpfs: None }
    }

    /// Takes an option; `false` if it is not one of these.
    pub(super) fn try_set(&mut self, flag: &str, value: &str) -> Result<bool, String> {
        match flag {
            // Servers and clients have other working directories, so they need absolute paths.
            "--orangefs" => {
                let dir = std::path::absolute(value).map_err(|error| format!("{flag} {value}: {error}"))?;
                self.cluster = Some(dir);
            }
            "--device" => self.device = value.to_owned(),
            "--vpfs" => self.vpfs = Some(value.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Builds the program, and starts this number of embedded servers unless there is a cluster.
    pub(super) fn start(&self, scratch: &Scratch, servers: usize) -> Result<Started, String> {
        let program = program::build(self.vpfs.as_deref())?;
        let (embedded, cluster) = match &self.cluster {
            Some(dir) => (None, Cluster::read(dir)?),
            None => embedded_servers(scratch, &program, servers, &self.device).map(|(it, all)| (Some(it), all))?,
        };
        Ok(Started { program, cluster, _servers: embedded })
    }
}
