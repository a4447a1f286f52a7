//! `vpfs peers`: what the proxies of this host and others know about each other.

mod ask;
mod table;

use std::path::PathBuf;

use vpfs_admin::socket;
use vpfs_config::Config;
use vpfs_proxy::PeersReport;

use super::runtime;
use crate::exit::Exit;
use crate::print::print;
use ask::{Silence, ask};

/// Show which other proxies are there, and what applications got here and elsewhere
///
/// Asks the proxies on this host, through their sockets in the directory peers.sockets (/run/vpfs without a peers
/// table), which only root, their own user and the group of the socket may use.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs peers                       peers and applications of all proxies on this host\n  \
    vpfs peers --server s1 --json    the same of one proxy, for programs")]
pub(crate) struct Peers {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/vpfs.toml")]
    config: PathBuf,

    /// Only the proxy of this server, by its name in the file; may be given several times [default: all that run here]
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
        let reports = runtime()?.block_on(self.reports(&config))?;
        if self.json {
            let text = serde_json::to_string_pretty(&reports);
            return print(text.map_err(|error| Exit::Failed(error.to_string()))?);
        }
        reports.iter().try_for_each(|report| print(table::of(report, &config)))
    }

    /// What the proxies say that were asked for.
    async fn reports(&self, config: &Config) -> Result<Vec<PeersReport>, Exit> {
        for name in &self.servers {
            config.server(name).map_err(Exit::Usage)?;
        }
        let (mut reports, mut silent) = (Vec::<PeersReport>::new(), Vec::new());
        let is_named = |name: &String| self.servers.contains(name);
        // A process has the socket of its first server, so another one may answer for a server that was named.
        let (named, others): (Vec<_>, Vec<_>) = config.servers.iter().partition(|server| is_named(&server.name));
        for server in named.into_iter().chain(others) {
            let answered = |name: &String| reports.iter().any(|report| report.servers.contains(name));
            if !self.servers.is_empty() && self.servers.iter().all(answered) {
                break;
            }
            match ask(&socket::path(config.sockets(), &server.name)).await {
                Ok(report) => reports.push(report),
                Err(Silence::Absent) => {}
                Err(silence) => silent.push((server.name.as_str(), silence)),
            }
        }
        let here: Vec<&str> = reports.iter().flat_map(|report| &report.servers).map(String::as_str).collect();
        match self.servers.iter().find(|name| !here.contains(&name.as_str())) {
            Some(name) => return Err(self.missing(config, &format!("the proxy of {name}"), &here, &silent)),
            None if reports.is_empty() => return Err(self.missing(config, "any proxy", &here, &silent)),
            None => {}
        }
        // Those that have ended are nobody's concern while others answer.
        let concerning = silent.iter().filter(|(_, silence)| !matches!(silence, Silence::Ended));
        concerning.for_each(|(server, silence)| eprintln!("vpfs: the proxy of {server} {silence}"));
        reports.retain(|report| self.servers.is_empty() || report.servers.iter().any(|s| self.servers.contains(s)));
        Ok(reports)
    }

    /// Why `wanted` cannot be asked.
    fn missing(&self, config: &Config, wanted: &str, here: &[&str], silent: &[(&str, Silence)]) -> Exit {
        let directory = config.sockets();
        let mut text = format!("cannot ask {wanted} of {} on this host", self.config.display());
        for (server, silence) in silent {
            text += &format!("\n  the proxy of {server} {silence} ({})", socket::path(directory, server).display());
        }
        if !here.is_empty() {
            text += &format!("\n  the proxies here are those of {}", here.join(", "));
        } else if silent.is_empty() {
            text += &match directory.exists() {
                true => format!("\n  {} has no socket of its servers", directory.display()),
                false => format!("\n  there is no directory {}, where their sockets would be", directory.display()),
            };
            text += match config.peers {
                Some(_) => {
                    ": either none runs, or it was started with another peers.sockets, or as a user who may not write \
                     there, which its log says"
                }
                None => {
                    ": either none runs, or that directory was not there at its start (the systemd unit creates it, or \
                     set `sockets` in a [peers] table)"
                }
            };
        }
        Exit::Failed(text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// `vpfs peers` said that no proxy runs on the host whatever the reason was, also while one did.
    #[test]
    fn the_reason_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vpfs.toml");
        let text = "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n[[listener]]\nport = 5334\n\
                    [peers]\nport = 7334\nsecurity = \"none\"\nsockets = \"sockets\"\n";
        fs::write(&path, text).unwrap();
        let config = Config::load(&path).unwrap();
        let why = |servers: &[&str]| {
            let servers = servers.iter().map(|name| (*name).to_owned()).collect();
            let peers = Peers { config: path.clone(), servers, json: false };
            match runtime().unwrap().block_on(peers.reports(&config)) {
                Err(Exit::Failed(text) | Exit::Usage(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert!(why(&[]).contains("there is no directory"), "{}", why(&[]));
        fs::create_dir(folder.path().join("sockets")).unwrap();
        assert!(why(&[]).contains("has no socket"), "{}", why(&[]));
        drop(UnixListener::bind(folder.path().join("sockets/s1.sock")).unwrap());
        assert!(why(&["s1"]).contains("the proxy of s1 has ended"), "{}", why(&["s1"]));
        assert!(why(&["s2"]).contains("s2"), "no such server: {}", why(&["s2"]));
    }
}
