//! `vpfs proxy`: the daemon.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command};
use std::time::Duration;
use std::{fs, io};

use futures_util::future::FutureExt;
use rustix::process::{Pid, Signal as KillSignal, kill_process};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use vpfs_config::{Config, LogFormat, Protocol};
use vpfs_core::{ServerId, SharingMode};
use vpfs_proxy::admin::events::Events;
use vpfs_proxy::admin::{
    Kept, MetricsAccess, bind_socket, keep_history, serve_askers, serve_metrics, serve_socket, socket_path,
    watch_storage,
};
use vpfs_proxy::{Askers, Daemon, Environment, Inheritance, Observer, Offer, Pushes, Resolver, StateDir, check_names};

use super::write_back::{Attached, Watch};
use super::{asking, check, count, load_config, runtime, web};
use crate::print::{Exit, print, roughly};
use crate::service;
use crate::service::{LogSwitch, Stop};

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
    #[arg(long = "server", value_name = "NAME", add = super::asking::servers())]
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
    #[arg(long, value_name = "PID", conflicts_with = "check", value_parser = process)]
    reload: Option<Pid>,

    /// Take over from the process at the other end of standard input, which starts this one at SIGUSR2
    #[arg(long, hide = true)]
    take_over: bool,
}

impl Proxy {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        if let Some(pid) = self.reload {
            return ask_reload(pid);
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
                    check::check_connect(&config, &servers).await?;
                }
                checked
            });
        }
        let events = Events::default();
        let switch = service::start_log(config.log.level, config.log.format == LogFormat::Json, &events)?;
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
        let askers = daemon.take_askers();
        let watchdog = service::watch(daemon.observer());
        let doors = (&daemon.observer(), daemon.pushes());
        let admin = serve_admin(daemon.config(), servers, self.take_over, doors, (events, askers));
        tell_ready(daemon.config(), servers, self.take_over);
        let _write_back = Attached::start(&self.config, daemon.config(), servers);
        let mut watch = Watch::new(daemon.config(), servers);
        let failed = |error| tracing::error!(%error, "upgrade failed; this process continues");
        let mut successor = None;
        loop {
            tokio::select! {
                _ = signals.hangup.recv() => {
                    run_reload(&mut daemon, &self.config, log).await;
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
                        return hand_over(daemon, offer, &mut signals.stop).await;
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
        service::stopping();
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
            let inheritance = inheritance().await.map_err(|error| {
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

struct Signals {
    hangup: Signal,
    upgrade: Signal,
    stop: Stop,
}

impl Signals {
    /// All of them are handled from now on, and those that have no meaning are ignored.
    fn new() -> std::io::Result<Self> {
        service::ignore_harmless();
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
    service::ready(&format!("serving {names}"), is_successor);
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
    check::check_here(config, servers, are_chosen).await?;
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

// Where a proxy tells what it knows: its socket, and metrics for the network (`vpfs_proxy::admin`). A proxy works
// without.

/// How often to try an address that is in use, at first by a predecessor.
const RETRY: Duration = Duration::from_millis(100);

/// The failure at which a predecessor has left for long, so that it is somebody else.
const TOLD: u32 = 50;

/// Serves until this is dropped. With `take_over`, a predecessor serves until it hands over.
pub(super) fn serve_admin(
    config: &Config,
    servers: &[ServerId],
    take_over: bool,
    (observer, pushes): (&Observer, Pushes),
    (events, askers): (&Events, Option<Askers>),
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(watch_storage(observer.clone()).boxed());
    let history = history_file(config, servers);
    if let Some(path) = history.clone() {
        tasks.spawn(keep_history(path, observer.clone()).boxed());
    }
    let kept = Kept { events: events.clone(), history, pushes: Some(pushes) };
    if let Some(listener) = open_socket(config, servers, take_over) {
        tasks.spawn(serve_socket(listener, observer.clone(), kept.clone()).boxed());
    }
    if let Some(askers) = askers {
        tasks.spawn(serve_askers(askers, observer.clone(), kept.clone()).boxed());
    }
    if let Some(page) = config.web.clone() {
        let observer = observer.clone();
        tasks.spawn(
            async move {
                let listener = listen(page.listen, "the page is").await;
                tracing::info!(listen = %page.listen, "serving the page");
                web::serve_own(listener, page.key, observer, kept).await;
            }
            .boxed(),
        );
    }
    if let Some(metrics) = config.metrics.clone() {
        let observer = observer.clone();
        tasks.spawn(
            async move {
                let listener = listen(metrics.listen, "metrics are").await;
                tracing::info!(listen = %metrics.listen, "serving metrics");
                let access = metrics.token.map_or(MetricsAccess::Everybody, MetricsAccess::Token);
                serve_metrics(listener, access, observer).await;
            }
            .boxed(),
        );
    }
    tasks
}

/// In the state directory, if there is one.
fn history_file(config: &Config, servers: &[ServerId]) -> Option<PathBuf> {
    let name = &config.servers[servers.first()?.index()].name;
    StateDir::of_service().file(&format!("{name}.history.sqlite")).filter(|_| config.keeps_history)
}

/// At the first place where that is possible, which the log says.
fn open_socket(config: &Config, servers: &[ServerId], take_over: bool) -> Option<tokio::net::UnixListener> {
    let name = &config.servers[servers.first()?.index()].name;
    let mut failures = Vec::new();
    for directory in asking::runtime_dir_of(config) {
        let path = socket_path(&directory, name);
        match bind_socket(&path, take_over) {
            Ok(listener) => {
                tracing::info!(path = %path.display(), "commands such as `vpfs top` ask here");
                return Some(listener);
            }
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        }
    }
    let reasons = failures.join("; ");
    tracing::warn!(reasons, "no socket, so `vpfs top` and others cannot ask this proxy: {}", asking::REMEDY);
    None
}

/// Tries until it succeeds: a predecessor closes its listener when it hands over, and whatever else is wrong may be
/// fixed at any time.
async fn listen(address: SocketAddr, what: &str) -> TcpListener {
    let mut failures = 0;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                failures += 1;
                if failures == TOLD {
                    tracing::warn!(listen = %address, %error, "{what} not served yet");
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The argument by which a successor knows that it is one.
const TAKE_OVER: &str = "--take-over";

/// What [`Child::kill`](std::process::Child::kill) sends.
const SIGKILL: i32 = 9;

/// A successor that was started and may not be ready yet. Dropped before, it is ended.
struct Starting {
    pid: u32,
    ready: Pin<Box<dyn Future<Output = io::Result<Offer>> + Send>>,
    /// The configuration was read again meanwhile.
    has_old_file: bool,
}

impl Starting {
    /// Starts a successor with the arguments of this process.
    ///
    /// It is started by the name that this process was started by: an upgrade may have replaced that file, or a link to
    /// it.
    pub(crate) fn new(daemon: &Daemon) -> io::Result<Self> {
        if daemon.is_taking_over() {
            return Err(io::Error::other("an upgrade is in progress: its connections have not all arrived"));
        }
        let mut args = std::env::args_os();
        let program = args.next().ok_or_else(|| io::Error::other("the name of this program is unknown"))?;
        let args: Vec<OsString> = args.filter(|arg| arg != TAKE_OVER).collect();
        let (ours, theirs) = UnixStream::pair()?;
        tracing::info!(program = %program.display(), "starting a successor");
        // With a command that lives longer, this process would hold the other end, too, and not notice its end.
        let child = {
            let mut command = Command::new(program);
            service::pass_watchdog_on(&mut command);
            command.args(args).arg(TAKE_OVER).stdin(OwnedFd::from(theirs)).spawn()?
        };
        let (pid, offering) = (child.id(), daemon.offer(ours));
        let mut unready = Unready(Some(child));
        let ready = Box::pin(async move {
            match offering.await {
                Ok(offer) => {
                    drop(unready.0.take());
                    Ok(offer)
                }
                Err(error) => Err(unready.reason().await.unwrap_or(error)),
            }
        });
        Ok(Self { pid, ready, has_old_file: false })
    }

    /// Waits until it serves the listening sockets. Cancel safe; not to be called again afterwards.
    pub(crate) async fn ready(&mut self) -> io::Result<Offer> {
        let offer = (&mut self.ready).await?;
        let pid = self.pid;
        service::succeeded_by(pid);
        tracing::info!(pid, "the successor is ready");
        if self.has_old_file
            && let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw)
            && let Err(error) = kill_process(process, KillSignal::HUP)
        {
            tracing::error!(%error, "the successor may have the configuration from before the reload; reload it");
        }
        Ok(offer)
    }

    /// This process has read its configuration again; the successor does so when it is ready.
    fn reload_later(&mut self) {
        self.has_old_file = true;
    }
}

/// A new process that is of no use until it is ready.
struct Unready(Option<Child>);

impl Unready {
    /// Why it ended, if a signal did that. It may have ended by itself; otherwise it is ended now.
    async fn reason(&mut self) -> Option<io::Error> {
        let mut child = self.0.take()?;
        let _ = child.kill();
        let ended = tokio::task::spawn_blocking(move || child.wait());
        // A process in the hands of a disk that hangs does not end.
        let status = tokio::time::timeout(Duration::from_secs(1), ended).await.ok()?.ok()?.ok()?;
        let signal = status.signal().filter(|signal| *signal != SIGKILL)?;
        let fix = "with systemctl kill, use --kill-who=main";
        Some(io::Error::other(format!("signal {signal} ended the new process; {fix}")))
    }
}

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
        }
    }
}

/// Hands all connections over, and ends when the last one is.
async fn hand_over(daemon: Daemon, offer: Offer, stop: &mut Stop) -> Result<(), Exit> {
    tokio::select! {
        (given, cut_off) = daemon.hand_over(offer) => {
            tracing::info!(given, cut_off, "connections are handed over");
        }
        () = stop.asked() => tracing::warn!("signal during the upgrade; the remaining connections are cut off"),
    }
    Ok(())
}

/// What the process at the other end of standard input offers.
async fn inheritance() -> io::Result<Inheritance> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    tokio::task::spawn_blocking(move || Inheritance::receive(channel)).await.map_err(io::Error::other)?
}

// A reload that tells its outcome, which no signal and no version of systemd tells.
//
// The one who asks listens at a socket where proxies have theirs, and sends SIGHUP; after each reload a proxy sends
// the outcome to the socket with its process id, if there is one.

/// A reload waits for nothing but the disk with the file.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reasons of a refusal beyond this are in the log.
const LONGEST: usize = 32 << 10;

/// The outcome: what has changed, or why nothing has.
type Outcome = Result<String, String>;

fn paths(pid: u32) -> impl Iterator<Item = PathBuf> {
    asking::runtime_dirs().into_iter().map(move |directory| directory.join(format!("reload-{pid}.sock")))
}

/// What a process id is for; `-1` and the like have another meaning for the system.
pub(super) fn process(text: &str) -> Result<Pid, String> {
    let pid = text.parse::<i32>().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw);
    pid.ok_or_else(|| "a process id is a positive number, such as that in the log or of `pgrep vpfs`".to_owned())
}

/// Whether a process reloads at SIGHUP, as proxies and mounts do; most others end.
fn is_ours(pid: Pid) -> bool {
    let arguments = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let program = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).unwrap_or_default();
    let command = arguments.split(|byte| *byte == 0).nth(1);
    // An upgrade removes the file of the program that runs.
    let is_vpfs = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vpfs"));
    is_vpfs && command.is_some_and(|command| command == b"proxy" || command == b"mount")
}

/// Those that may be meant instead.
fn all_of_ours() -> String {
    let processes =
        fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids: Vec<String> = processes.filter(|name| process(name).is_ok_and(is_ours)).collect();
    match pids.is_empty() {
        true => "no proxy runs here that you may see".to_owned(),
        false => format!("the proxies here that you may see are {}", pids.join(", ")),
    }
}

/// Lets the proxy with this process id reload, and waits for the outcome.
fn ask_reload(pid: Pid) -> Result<(), Exit> {
    let number = pid.as_raw_nonzero();
    if !is_ours(pid) {
        return Err(Exit::Usage(format!("process {number} is no vpfs proxy; {}", all_of_ours())));
    }
    let paths: Vec<PathBuf> = paths(number.get().cast_unsigned()).collect();
    // In the directory where the proxy has its own, if that may be written to.
    let mut outcome = Err(io::ErrorKind::NotFound.into());
    for path in &paths {
        match listen_for_reload(path) {
            Ok(socket) => {
                outcome = reload(pid, &socket);
                // Without it nobody waits any more.
                let _ = fs::remove_file(path);
                break;
            }
            Err(error) => outcome = Err(error),
        }
    }
    match outcome {
        Ok(Ok(what)) => print(format_args!("reloaded: {what}")),
        Ok(Err(reason)) => Err(Exit::Failed(format!("reload rejected; the old configuration stays active\n{reason}"))),
        Err(error) => {
            let places = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ");
            let instead = "send it SIGHUP instead, and look at its log";
            Err(Exit::Failed(format!("cannot ask process {number} by {places}: {error}; {instead}")))
        }
    }
}

fn listen_for_reload(path: &Path) -> io::Result<UnixDatagram> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixDatagram::bind(path)
}

fn reload(process: Pid, socket: &UnixDatagram) -> io::Result<Outcome> {
    socket.set_read_timeout(Some(PATIENCE))?;
    kill_process(process, KillSignal::HUP)?;
    let mut bytes = vec![0; LONGEST * 8];
    let len = socket.recv(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "it did not say how the reload ended"),
        _ => error,
    })?;
    serde_json::from_slice(&bytes[..len]).map_err(io::Error::other)
}

/// Lets a daemon of this process read its file again, and tells who waits for it how that has ended.
pub(super) async fn run_reload(daemon: &mut Daemon, file: &Path, log: &LogSwitch) {
    service::reloading();
    // The signal nearly always comes from root. What is in the file was decided by its owner.
    if let Ok(metadata) = fs::metadata(file) {
        let age = metadata.modified().ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
        let written = format!("{} ago", roughly(age));
        tracing::info!(file = %file.display(), owner_uid = metadata.uid(), written, "reading the configuration again");
    }
    let outcome = reread(daemon, file).await;
    match &outcome {
        Ok(_) => log.set(daemon.config().log.level),
        Err(reason) => tracing::error!(%reason, "reload rejected; the old configuration stays active"),
    }
    service::reloaded(&outcome);
    paths(std::process::id()).for_each(|path| send(&outcome, &path));
}

async fn reread(daemon: &mut Daemon, file: &Path) -> Outcome {
    let newer = Config::load(file).map_err(|problems| problems.to_string())?;
    match daemon.reload(newer).await.map_err(|error| error.to_string())? {
        0 => Ok("nothing changed".to_owned()),
        changes => Ok(format!("{} changed", count(changes, "setting"))),
    }
}

fn send(outcome: &Outcome, path: &Path) {
    let shortened = |text: &String| text.chars().take(LONGEST).collect::<String>();
    let outcome = outcome.as_ref().map(shortened).map_err(shortened);
    let sent = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(&serde_json::to_vec(&outcome)?, path)
    });
    // Usually nobody waits.
    if let Err(error) = sent {
        tracing::debug!(%error, "cannot report the outcome of the reload");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_arrives_whatever_its_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reload-1.sock");
        send(&Ok("nobody waits".into()), &path);
        let socket = UnixDatagram::bind(&path).unwrap();
        for (sent, arrives) in [(Ok("x".into()), Ok("x".into())), (Err("\n".repeat(99_999)), Err("\n".repeat(LONGEST)))]
        {
            send(&sent, &path);
            let mut bytes = vec![0; LONGEST * 8];
            let len = socket.recv(&mut bytes).unwrap();
            assert_eq!(serde_json::from_slice::<Outcome>(&bytes[..len]).unwrap(), arrives);
        }
    }

    /// Symptom: `--reload 1` sent SIGHUP to the first process of the host, and `--reload 0` to a group of them.
    #[test]
    fn only_a_proxy_is_sent_a_signal() {
        for text in ["0", "-1", "99999999999", "x"] {
            assert!(process(text).is_err(), "{text}");
        }
        for pid in [1, i32::MAX] {
            let Err(Exit::Usage(problem)) = ask_reload(process(&pid.to_string()).unwrap()) else {
                panic!("it is no proxy")
            };
            assert!(problem.starts_with(&format!("process {pid} is no vpfs proxy; ")), "{problem}");
        }
    }
}
