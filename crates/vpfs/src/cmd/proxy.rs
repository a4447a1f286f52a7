//! `vpfs proxy`: the daemon.

use std::path::PathBuf;

use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use vpfs_config::{Config, LogFormat};
use vpfs_core::{ServerId, SharingMode};
use vpfs_proxy::Daemon;

use super::peers::socket;
use super::{runtime, successor, systemd};
use crate::exit::Exit;
use crate::log::{self, LogSwitch};
use crate::print::print;
use crate::signals::Stop;

/// Run proxies in front of storage servers that schedule the requests of clients
///
/// Reads one configuration file for the whole cluster. SIGHUP reloads it without dropping a connection. SIGUSR2 starts
/// the installed program again and hands all connections over to it, for upgrades and for settings that need a restart;
/// if it does not start, this one continues. SIGTERM and SIGINT let operations in progress finish
/// (limits.drain_timeout); a second one exits at once.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs proxy --config vpfs.toml --check          report the problems of the file, or print all settings\n  \
    vpfs proxy --config vpfs.toml                  a proxy for every server in the file\n  \
    vpfs proxy --config vpfs.toml --server s1      a proxy for s1 only, on its host")]
pub(crate) struct Proxy {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = "/etc/vpfs/vpfs.toml")]
    config: PathBuf,

    /// A server to serve, by its name in the file; may be given several times [default: every server in the file]
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,

    /// Check the configuration, print it with all defaults, and exit
    #[arg(long)]
    check: bool,

    /// Take over from the process at the other end of standard input, which starts this one at SIGUSR2
    #[arg(long, hide = true)]
    take_over: bool,
}

impl Proxy {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = runtime()?;
        if self.take_over {
            // First of all: whoever signals all processes of a service hits its successor, too, and must not end it.
            let _guard = runtime.enter();
            drop(upgrades()?);
        }
        let config = self.load()?;
        let servers = self.chosen(&config)?;
        if self.check {
            return check(&config, &servers);
        }
        let switch = log::start(config.log.level, config.log.format == LogFormat::Json)?;
        if !config.warnings.list.is_empty() {
            tracing::warn!(warnings = %config.warnings, "the configuration is valid, but probably not as intended");
        }
        runtime.block_on(self.serve(config, &servers, &switch))
    }

    fn load(&self) -> Result<Config, Exit> {
        Config::load(&self.config).map_err(|problems| Exit::Usage(format!("invalid configuration\n{problems}")))
    }

    fn chosen(&self, config: &Config) -> Result<Vec<ServerId>, Exit> {
        if self.servers.is_empty() {
            return Ok(config.servers().map(|(id, _)| id).collect());
        }
        self.servers.iter().map(|name| config.server(name).map_err(Exit::Usage)).collect()
    }

    async fn serve(&self, config: Config, servers: &[ServerId], log: &LogSwitch) -> Result<(), Exit> {
        let mut hangup = handled(signal(SignalKind::hangup()))?;
        let mut stop = handled(Stop::new())?;
        let mut daemon = self.start(config, servers).await?;
        let mut upgrade = upgrades()?;
        tracing::info!(policy = ?daemon.config().scheduler.policy.kind, "ready");
        if !self.take_over {
            systemd::tell(NotifyState::Ready);
        }
        let mut asked = open(daemon.config(), servers, self.take_over);
        loop {
            tokio::select! {
                _ = hangup.recv() => self.reload(&mut daemon, log).await,
                _ = upgrade.recv() => match successor::start(&daemon).await {
                    Ok(offer) => return successor::hand_over(daemon, offer, &mut stop).await,
                    Err(error) => tracing::error!(%error, "upgrade failed; this process continues"),
                },
                Some(question) = next(&mut asked) => {
                    // Who asked may be gone.
                    let _ = question.send(daemon.peers().await);
                }
                () = stop.asked() => break,
            }
        }
        tracing::info!("draining");
        systemd::tell(NotifyState::Stopping);
        tokio::select! {
            cut_off = daemon.drain() => match cut_off {
                0 => tracing::info!("drained"),
                _ => tracing::warn!(connections = cut_off, "limits.drain_timeout expired; connections were cut off"),
            },
            () = stop.asked() => tracing::warn!("second signal; exiting at once"),
        }
        Ok(())
    }

    async fn start(&self, config: Config, servers: &[ServerId]) -> Result<Daemon, Exit> {
        let daemon = if self.take_over {
            let inheritance = successor::inheritance().await.map_err(|error| {
                Exit::Failed(format!(
                    "cannot take over from another process, which should have started this one: {error}"
                ))
            })?;
            Daemon::succeed(config, servers, inheritance).await
        } else {
            Daemon::start(config, servers).await
        };
        daemon.map_err(|error| Exit::Failed(error.to_string()))
    }

    async fn reload(&self, daemon: &mut Daemon, log: &LogSwitch) {
        let newer = match Config::load(&self.config) {
            Ok(newer) => newer,
            Err(problems) => return tracing::error!(%problems, "reload rejected; the old configuration stays active"),
        };
        match daemon.reload(newer).await {
            Ok(()) => log.set(daemon.config().log.level),
            Err(error) => tracing::error!(%error, "reload rejected; the old configuration stays active"),
        }
    }
}

/// The requests for an upgrade from now on.
fn upgrades() -> Result<Signal, Exit> {
    handled(signal(SignalKind::user_defined2()))
}

fn handled<T>(result: std::io::Result<T>) -> Result<T, Exit> {
    result.map_err(|error| Exit::Failed(format!("cannot handle signals: {error}")))
}

/// Where `vpfs peers` asks. Without its socket a proxy still works.
fn open(config: &Config, servers: &[ServerId], take_over: bool) -> Option<mpsc::Receiver<socket::Question>> {
    let directory = socket::directory(config);
    // Nobody asked for a directory then, but the systemd unit provides one.
    if config.peers.is_none() && !directory.exists() {
        return None;
    }
    let path = socket::path(directory, &config.servers[servers.first()?.index()].name);
    let opened = socket::listen(&path, take_over);
    opened
        .inspect_err(|error| tracing::warn!(path = %path.display(), %error, "`vpfs peers` cannot ask this proxy"))
        .ok()
}

/// Never ends if there is no socket.
async fn next(asked: &mut Option<mpsc::Receiver<socket::Question>>) -> Option<socket::Question> {
    match asked {
        Some(asked) => asked.recv().await,
        None => std::future::pending().await,
    }
}

fn check(config: &Config, servers: &[ServerId]) -> Result<(), Exit> {
    let names: Vec<&str> = config.unresolved().map(|(name, _)| name).collect();
    let invalid = |problems| Exit::Usage(format!("invalid configuration\n{problems}"));
    config.resolve(addresses_of).map_err(invalid)?;
    let trusted = config.resolve_servers(addresses_of).map_err(invalid)?;
    for (key, value) in config.settings() {
        print(format_args!("{key} = {value}"))?;
    }
    if !config.warnings.list.is_empty() {
        eprintln!("warnings:\n{}", config.warnings);
    }
    let is_shared = config.scheduler.policy.sharing.mode != SharingMode::Local;
    if is_shared && servers.len() < config.servers.len() && config.peers.is_none() {
        eprintln!("warning: shares hold only among the servers of one process; add a [peers] table");
    }
    for reason in trusted.unresolved {
        eprintln!("warning: {reason}; requests of this server to others would be scheduled like a client's");
    }
    eprintln!("the configuration is valid ({} servers, {} host names resolved)", config.servers.len(), names.len());
    Ok(())
}

fn addresses_of(host: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
    Ok(std::net::ToSocketAddrs::to_socket_addrs(&(host, 0))?.map(|address| address.ip()).collect())
}
