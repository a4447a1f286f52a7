//! `vpfs peers`: what proxies know about each other.

pub(crate) mod socket;
mod table;

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vpfs_config::Config;
use vpfs_proxy::PeersReport;

use crate::exit::Exit;
use crate::print::print;

/// The longest answer: a thousand servers and a hundred thousand applications need less.
const LONGEST: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// Show which other proxies are there, and what applications got here and elsewhere
///
/// Asks the proxies on this host, through their sockets in the directory peers.sockets, which only their own user may
/// use.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs peers                       peers and applications of all proxies on this host\n  \
    vpfs peers --server s1 --json    the same of one proxy, for programs")]
pub(crate) struct Peers {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/vpfs.toml")]
    config: PathBuf,

    /// The first server of a proxy, by its name in the file; may be given several times [default: all that run here]
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,

    /// Print JSON: a list with an object for each proxy
    #[arg(long)]
    json: bool,
}

impl Peers {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let config =
            Config::load(&self.config).map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))?;
        let Some(peers) = &config.peers else {
            return Err(Exit::Usage(format!("{} has no [peers] table", self.config.display())));
        };
        let reports = self.ask(&config, &peers.sockets)?;
        if self.json {
            let text = serde_json::to_string_pretty(&reports);
            return print(text.map_err(|error| Exit::Failed(error.to_string()))?);
        }
        reports.iter().try_for_each(|report| print(table::of(report)))
    }

    fn ask(&self, config: &Config, sockets: &Path) -> Result<Vec<PeersReport>, Exit> {
        let mut reports = Vec::new();
        for name in &self.servers {
            config.server(name).map_err(Exit::Usage)?;
            let path = socket::path(sockets, name);
            reports.push(ask(&path).map_err(|error| failed(&path, &error))?);
        }
        if self.servers.is_empty() {
            for server in &config.servers {
                let path = socket::path(sockets, &server.name);
                match ask(&path) {
                    Ok(report) => reports.push(report),
                    // A proxy that ended by force leaves its socket behind.
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
                    Err(error) => return Err(failed(&path, &error)),
                }
            }
            if reports.is_empty() {
                return Err(Exit::Failed(format!("no proxy of {} runs on this host", self.config.display())));
            }
        }
        Ok(reports)
    }
}

fn failed(path: &Path, error: &io::Error) -> Exit {
    Exit::Failed(format!("cannot ask {}: {error}; does the proxy run, and may you use its socket?", path.display()))
}

fn ask(path: &Path) -> io::Result<PeersReport> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(io::Error::other)
}
