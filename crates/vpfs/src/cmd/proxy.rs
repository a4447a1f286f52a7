//! `vpfs proxy`: the daemon.

use std::path::PathBuf;

use rustix::process::Pid;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use vpfs_admin::events::Events;
use vpfs_config::{Config, LogFormat, Protocol};
use vpfs_core::{ServerId, SharingMode};
use vpfs_proxy::{Daemon, Environment, Offer, Resolver, StateDir, check_names};

use super::successor::Starting;
use super::write_back::{Attached, Watch};
use super::{admin, check_connect, check_start, count, load_config, reload, runtime, successor, systemd};
use crate::exit::Exit;
use crate::log::{self, LogSwitch};
use crate::print::print;
use crate::signals::{self, Stop};

/// Run proxies in front of storage servers that schedule the requests of clients
///
/// Reads one configuration file for the whole cluster. SIGHUP reloads it without dropping a connection. SIGUSR2 starts
/// the installed program again and hands all connections over to it, for upgrades and for settings that need a restart;
/// if it does not start, this one continues. SIGTERM and SIGINT let operations in progress finish
/// (limits.drain_timeout); a second one exits at once.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs proxy --config vpfs.toml --check          say whether the file is valid, and what is wrong\n  \
    vpfs proxy --check --print                     and print all settings in force\n  \
    vpfs proxy --check --connect                   and ask the servers whether it agrees with them\n  \
    vpfs proxy --config vpfs.toml                  a proxy for every server in the file\n  \
    vpfs proxy --config vpfs.toml --server s1      a proxy for s1 only, on its host\n  \
    vpfs proxy --reload 4711                       let the proxy of this process id read its file again")]
pub(crate) struct Proxy {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = super::CONFIG)]
    config: PathBuf,

    /// A server to serve, by its name in the file; may be given several times [default: every server in the file]
    #[arg(long = "server", value_name = "NAME", add = super::asking::candidates::servers())]
    servers: Vec<String>,

    /// Check the configuration, say the outcome in one line, and exit: 2 if it is not valid or a proxy for these
    /// servers could not start here (addresses, keys), 4 if host names can't be resolved now, with which a proxy
    /// starts nevertheless
    #[arg(long)]
    check: bool,

    /// With --check, also print all settings in force, as a file
    #[arg(long, requires = "check")]
    print: bool,

    /// With --check, also ask each server for its configuration, as clients do, and compare names and addresses; and
    /// NFS servers for the versions that they speak
    #[arg(long, requires = "check")]
    connect: bool,

    /// Let the proxy with this process id read its file again, wait for it, and exit with 1 if it refuses; for the same
    /// user, as ExecReload= of the service
    #[arg(long, value_name = "PID", conflicts_with = "check", value_parser = reload::process)]
    reload: Option<Pid>,

    /// Take over from the process at the other end of standard input, which starts this one at SIGUSR2
    #[arg(long, hide = true)]
    take_over: bool,
}

impl Proxy {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        if let Some(pid) = self.reload {
            return reload::ask(pid);
        }
        let runtime = runtime()?;
        let result = self.run_on(&runtime);
        // Whatever still waits for a disk in another thread must not keep the process from ending.
        runtime.shutdown_background();
        result
    }

    fn run_on(&self, runtime: &Runtime) -> Result<(), Exit> {
        // First of all: a signal that comes before it is handled ends the process. One to all processes of a service
        // hits a successor, too, and must not end it.
        let guard = runtime.enter();
        let signals = handled(Signals::new())?;
        drop(guard);
        let config = self.load()?;
        let servers = self.chosen(&config)?;
        if !self.check && config.servers.iter().all(vpfs_config::Server::is_mount) {
            return Err(Exit::Usage(format!("{} is for `vpfs mount`: it has mounts only", self.config.display())));
        }
        if self.check {
            return runtime.block_on(async {
                if self.print {
                    print(config.to_toml().trim_end())?;
                }
                let checked = check(&config, &servers, !self.servers.is_empty()).await;
                if self.connect {
                    check_connect::run(&config, &servers).await?;
                }
                checked
            });
        }
        let events = Events::default();
        let switch = log::start(config.log.level, config.log.format == LogFormat::Json, &events)?;
        if !config.warnings.list.is_empty() {
            tracing::warn!(warnings = %config.warnings, "the configuration is valid, but probably not as intended");
        }
        runtime.block_on(self.serve(config, &servers, signals, (&switch, &events)))
    }

    fn load(&self) -> Result<Config, Exit> {
        load_config(&self.config)
    }

    fn chosen(&self, config: &Config) -> Result<Vec<ServerId>, Exit> {
        if self.servers.is_empty() {
            return Ok(config.servers().map(|(id, _)| id).collect());
        }
        self.servers.iter().map(|name| config.server(name).map_err(Exit::Usage)).collect()
    }

    async fn serve(
        &self,
        config: Config,
        servers: &[ServerId],
        mut signals: Signals,
        (log, events): (&LogSwitch, &Events),
    ) -> Result<(), Exit> {
        let mut daemon = tokio::select! {
            daemon = self.start(config, servers) => daemon?,
            () = signals.stop.asked() => return Ok(()),
        };
        signals.forget_upgrades()?;
        tell_ready(daemon.config(), servers, self.take_over);
        let askers = daemon.take_askers();
        let watchdog = systemd::watch(daemon.observer());
        let doors = (&daemon.observer(), daemon.pushes());
        let admin = admin::serve(daemon.config(), servers, self.take_over, doors, (events, askers));
        let _write_back = Attached::start(&self.config, daemon.config(), servers);
        let mut watch = Watch::new(daemon.config(), servers);
        let failed = |error| tracing::error!(%error, "upgrade failed; this process continues");
        let mut successor = None;
        loop {
            tokio::select! {
                _ = signals.hangup.recv() => {
                    reload::run(&mut daemon, &self.config, log).await;
                    successor.iter_mut().for_each(Starting::reload_later);
                }
                _ = signals.upgrade.recv() => match &successor {
                    Some(_) => tracing::warn!("an upgrade is in progress already; its successor is not ready yet"),
                    None => successor = Starting::new(&daemon).map_err(failed).ok(),
                },
                ready = ready(&mut successor) => match ready {
                    Ok(offer) => {
                        // The successor serves it from now on.
                        drop((admin, watchdog));
                        return successor::hand_over(daemon, offer, &mut signals.stop).await;
                    }
                    Err(error) => {
                        successor = None;
                        failed(error);
                    }
                },
                limits = watch.next() => tell_limits(&daemon, limits),
                () = signals.stop.asked() => break,
            }
        }
        drop(successor);
        tracing::info!("draining");
        systemd::stopping();
        tokio::select! {
            cut_off = daemon.drain() => match cut_off {
                0 => tracing::info!("drained"),
                _ => tracing::warn!(connections = cut_off, "limits.drain_timeout expired; connections were cut off"),
            },
            () = signals.stop.asked() => tracing::warn!("second signal; exiting at once"),
        }
        Ok(())
    }

    async fn start(&self, config: Config, servers: &[ServerId]) -> Result<Daemon, Exit> {
        let environment = Environment { resolver: Resolver::default(), state: StateDir::of_service() };
        let daemon = if self.take_over {
            let inheritance = successor::inheritance().await.map_err(|error| {
                Exit::Failed(format!(
                    "cannot take over from another process, which should have started this one: {error}"
                ))
            })?;
            Daemon::succeed(&environment, config, servers, inheritance).await
        } else {
            Daemon::start_in(&environment, config, servers).await
        };
        daemon.map_err(|error| Exit::Failed(error.to_string()))
    }
}

/// When the successor is ready, if there is one.
async fn ready(successor: &mut Option<Starting>) -> std::io::Result<Offer> {
    match successor {
        Some(successor) => successor.ready().await,
        None => std::future::pending().await,
    }
}

/// The signals that a proxy handles.
struct Signals {
    hangup: Signal,
    upgrade: Signal,
    stop: Stop,
}

impl Signals {
    /// All of them are handled from now on, and those that have no meaning are ignored.
    fn new() -> std::io::Result<Self> {
        signals::ignore_harmless();
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            stop: Stop::new()?,
        })
    }

    /// Requests for an upgrade that came before there was anything to hand over are dropped.
    fn forget_upgrades(&mut self) -> Result<(), Exit> {
        self.upgrade = handled(signal(SignalKind::user_defined2()))?;
        Ok(())
    }
}

/// Passes on which servers' hosts limit what is not stored.
fn tell_limits(daemon: &Daemon, limits: impl IntoIterator<Item = (ServerId, bool)>) {
    for (id, is_limited) in limits {
        if daemon.set_limited_there(id, is_limited) {
            let by = if is_limited { "its host" } else { "requests to store at once" };
            tracing::info!(server = daemon.config().servers[id.index()].name, by, "what is not stored is limited");
        }
    }
}

/// Says who is served how; systemd knows that a successor is ready from its predecessor.
fn tell_ready(config: &Config, servers: &[ServerId], is_successor: bool) {
    let names: Vec<&str> = servers.iter().map(|id| config.servers[id.index()].name.as_str()).collect();
    let names = names.join(", ");
    let policy = match config.scheduler.observed {
        Some(kind) => format!("{}, only observed: nothing is held", kind.name()),
        None => config.scheduler.policy.kind.name().to_owned(),
    };
    tracing::info!(servers = names, listeners = listeners(config, servers), policy, "ready");
    systemd::ready(&format!("serving {names}"), is_successor);
}

/// For example `10.0.0.1:5334 and 3 more: by rules; 10.0.0.1:6334 and 3 more: climate`.
fn listeners(config: &Config, servers: &[ServerId]) -> String {
    let Some(&first) = servers.first() else { return String::new() };
    let more = if servers.len() > 1 { format!(" and {} more", servers.len() - 1) } else { String::new() };
    let listener = |listener: &vpfs_config::Listener| {
        let (host, port) = listener.bind_address(first);
        let app = listener.app.map_or("by rules", |app| &config.apps[app.0].name);
        format!("{host}:{port}{more}: {app}")
    };
    config.listeners.iter().map(listener).collect::<Vec<_>>().join("; ")
}

/// For example `2 servers of NFS`, or `2 mounts`.
fn servers_of_protocols(config: &Config) -> String {
    let of =
        |protocol: Protocol| config.servers.iter().filter(|server| server.address.protocol() == Some(protocol)).count();
    if config.servers.iter().all(vpfs_config::Server::is_mount) {
        return count(config.servers.len(), "mount");
    }
    let counts = [(of(Protocol::OrangeFs), "OrangeFS"), (of(Protocol::Nfs), "NFS")];
    let named = counts.iter().filter(|(number, _)| *number > 0);
    named.map(|(number, name)| format!("{} of {name}", count(*number, "server"))).collect::<Vec<_>>().join(", ")
}

fn handled<T>(result: std::io::Result<T>) -> Result<T, Exit> {
    result.map_err(|error| Exit::Failed(format!("cannot handle signals: {error}")))
}

async fn check(config: &Config, servers: &[ServerId], are_chosen: bool) -> Result<(), Exit> {
    if !config.warnings.list.is_empty() {
        eprintln!("warnings:\n{}", config.warnings);
    }
    let is_shared = config.scheduler.policy.sharing.mode != SharingMode::Local;
    if is_shared && servers.len() < config.servers.len() && config.peers.is_none() {
        eprintln!("warning: shares hold only among the servers of one process; add a [peers] table");
    }
    check_start::run(config, servers, are_chosen).await?;
    let (names, missing) = check_names(config, servers, Resolver::default()).await;
    let parts = [(config.listeners.len(), "listener"), (names, "host name")];
    let parts = parts.map(|(number, what)| count(number, what)).join(", ");
    let parts = format!("{}, {parts}", servers_of_protocols(config));
    if missing.is_empty() {
        return print(format_args!("the configuration is valid: {parts}"));
    }
    for line in missing {
        eprintln!("warning: {line}");
    }
    Err(Exit::Unresolved(format!(
        "the configuration is valid: {parts}; but not all of these names can be resolved now. A proxy starts nevertheless \
         and looks them up again"
    )))
}
