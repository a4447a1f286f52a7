//! `vpfs write-back`: how much of what was written is in memory and not on the disks of this host's servers
//! (docs/decisions/0004-write-back.md).

mod device;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use vpfs_admin::events::Events;
use vpfs_config::{Config, LogFormat, Protocol, Server, WriteBack};
use vpfs_core::{ServerId, UnstoredLimit};

use self::record::Record;
use super::names::{Names, is_own};
use super::{load_config, runtime};
use crate::exit::Exit;
use crate::log;
use crate::signals::Stop;

pub(super) use self::device::{Device, DeviceError, Storage};

/// Limit what is in the memory of a server's host and not yet on its disk
///
/// Finds the disks behind the servers of this host, and lets the kernel hold no more for each than `limits.write_back`
/// says, by default what it stores in an eighth of a second: everything that is not stored yet is ahead of a small
/// write. Other disks are not touched. Puts the kernel's settings back when it ends.
/// vpfs-write-back.service runs it; `vpfs proxy` does if root runs that. Needs root and Linux 6.2.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs write-back                     for all servers of the file that are on this host\n  \
    vpfs doctor                         shows the disks and their limits")]
pub(crate) struct WriteBackArgs {
    /// The configuration, see docs/config.md
    #[arg(long, value_name = "FILE", default_value = super::CONFIG)]
    config: PathBuf,

    /// Only this server, by its name in the file, if its address is this host's; may be given several times [default:
    /// all such servers]
    #[arg(long = "server", value_name = "NAME", add = super::asking::candidates::servers())]
    servers: Vec<String>,

    /// End with the process at the other end of standard input
    #[arg(long, hide = true)]
    attached: bool,
}

/// Where processes note how the kernel was set up.
const RECORDS: &str = "/run/vpfs-write-back";
/// How often a limit follows the disk.
const EVERY: Duration = Duration::from_secs(1);
/// How often disks are looked for, while a server has none: it may not have started yet.
const AGAIN: Duration = Duration::from_secs(10);

impl WriteBackArgs {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let runtime = runtime()?;
        let result = runtime.block_on(self.run_until_stopped());
        // Standard input may be read for ever.
        runtime.shutdown_background();
        result
    }

    async fn run_until_stopped(&self) -> Result<(), Exit> {
        let failed = |error| Exit::Failed(format!("cannot handle signals: {error}"));
        let mut stop = Stop::new().map_err(failed)?;
        let config = load_config(&self.config)?;
        let _log = log::start(config.log.level, config.log.format == LogFormat::Json, &Events::default())?;
        let Some(setting) = in_force(&config) else {
            tracing::info!("limits.write_back is off, or vpfs only observes: nothing to do");
            super::systemd::ready("off", self.attached);
            return stopped(&mut stop, self.attached).await;
        };
        super::systemd::ready("looking for disks", self.attached);
        let limiting = async {
            let servers = self.here(&config).await?;
            if servers.is_empty() {
                tracing::info!("no server is on this host: nothing to do");
            }
            match keep(&servers, setting, Path::new(RECORDS)).await {}
        };
        // Also while names are looked up: a proxy waits for this to end.
        tokio::select! {
            result = limiting => result,
            result = stopped(&mut stop, self.attached) => result,
        }
    }

    /// The servers of this host: of another one, a directory of the same name here would be on the wrong disk.
    async fn here<'a>(&self, config: &'a Config) -> Result<Vec<&'a Server>, Exit> {
        let named = self.servers.iter().map(|name| config.server(name).map_err(Exit::Usage));
        let named = named.map(|id| Ok(&config.servers[id?.index()])).collect::<Result<Vec<_>, Exit>>()?;
        let wanted = if named.is_empty() { config.servers.iter().collect() } else { named };
        let hosts = wanted.iter().map(|server| server.address.host().to_owned());
        let names = Names::look_up(hosts.collect()).await;
        let is_here = |server: &&Server| names.of(server.address.host()).into_iter().any(is_own);
        Ok(wanted.into_iter().filter(is_here).collect())
    }
}

/// The limit of a configuration; `None`: the kernel is left as it is.
pub(super) fn in_force(config: &Config) -> Option<WriteBack> {
    let is_off = config.limits.write_back == WriteBack::Off || config.scheduler.observed.is_some();
    (!is_off).then_some(config.limits.write_back)
}

/// Ends with a signal or, if `is_attached`, with the process at the other end of standard input.
async fn stopped(stop: &mut Stop, is_attached: bool) -> Result<(), Exit> {
    let (ended, end) = oneshot::channel::<()>();
    if is_attached {
        std::thread::spawn(move || {
            let _ = stdin().lock().read_to_end(&mut Vec::new());
            drop(ended);
        });
        // Its parent ends by the same signals, but later: it lets operations end first.
        let _ = end.await;
        return Ok(());
    }
    let _never = ended;
    stop.asked().await;
    Ok(())
}

/// A disk with its limit.
struct Disk {
    record: Record,
    limit: UnstoredLimit,
    stored: Option<u64>,
    /// The limit that the log has, or 0.
    told: u64,
    /// The log says that there is none.
    has_failed: bool,
}

/// Limits the disks of these servers for ever.
async fn keep(servers: &[&Server], setting: WriteBack, records: &Path) -> std::convert::Infallible {
    let mut disks: BTreeMap<Device, Disk> = BTreeMap::new();
    let (mut waiting, mut told) = (servers.to_vec(), BTreeSet::new());
    let mut looked: Option<Instant> = None;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !waiting.is_empty() && looked.is_none_or(|at| at.elapsed() >= AGAIN) {
            looked = Some(Instant::now());
            let asked = join_all(waiting.iter().map(|server| Storage::of(server))).await;
            let found = waiting.into_iter().zip(asked);
            let (known, unknown): (Vec<_>, Vec<_>) = found.partition(|(_, storage)| !storage.directories.is_empty());
            for (server, Storage { directories, .. }) in known {
                find(server, &directories, records, &mut disks, &mut told);
            }
            waiting = unknown.into_iter().map(|(server, _)| server).collect();
        }
        for (device, disk) in &mut disks {
            disk.follow(device, setting);
        }
    }
}

/// Adds the disks of a server.
fn find(
    server: &Server,
    directories: &BTreeSet<PathBuf>,
    records: &Path,
    disks: &mut BTreeMap<Device, Disk>,
    told: &mut BTreeSet<String>,
) {
    for directory in directories {
        let found = match Device::of(directory) {
            Ok(device) if disks.contains_key(&device) => continue,
            Ok(device) => {
                Record::keep(records, &device).map(|record| (device, record)).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match found {
            Ok((device, record)) => {
                tracing::info!(server = server.name, directory = %directory.display(), %device, "this is its disk");
                disks.insert(
                    device,
                    Disk { record, limit: UnstoredLimit::default(), stored: None, told: 0, has_failed: false },
                );
            }
            Err(error) if told.insert(error.clone()) => {
                let fix =
                    "set vm.dirty_bytes and vm.dirty_background_bytes to what the disk stores in an eighth of a second";
                tracing::warn!(server = server.name, %error, fix, "what is not stored yet cannot be limited");
            }
            Err(_) => {}
        }
    }
}

impl Disk {
    /// A second has passed.
    fn follow(&mut self, device: &Device, setting: WriteBack) {
        let now = device.stored();
        if let Some((now, before)) = now.zip(self.stored) {
            self.limit.observe(now.saturating_sub(before));
        }
        self.stored = now;
        let wanted = match setting {
            WriteBack::Size(size) => size.0,
            WriteBack::Auto | WriteBack::Off => self.limit.get().0,
        };
        // The kernel keeps it as a part of its memory, which changes.
        let in_force = device.limit().unwrap_or(0);
        if wanted.abs_diff(in_force) <= wanted / 16 {
            return;
        }
        match self.record.limit(wanted) {
            Ok(()) => {
                if wanted.abs_diff(self.told) > self.told / 4 {
                    self.told = wanted;
                    tracing::info!(%device, mib = wanted.div_ceil(1 << 20), "how much may be unstored");
                }
            }
            Err(_) if self.has_failed => {}
            Err(error) => {
                self.has_failed = true;
                tracing::warn!(%device, %error, "its unstored data cannot be limited; run this as root");
            }
        }
    }
}

/// Whether the disks of NFS servers are limited, which are on this host.
pub(super) struct Watch {
    /// Servers that may be on this host, and whose disks are not known.
    waiting: Vec<(ServerId, Server)>,
    disks: BTreeMap<ServerId, BTreeSet<Device>>,
    ticks: Interval,
    looked: Option<Instant>,
}

impl Watch {
    pub(super) fn new(config: &Config, servers: &[ServerId]) -> Self {
        let servers = servers.iter().map(|id| (*id, config.servers[id.index()].clone()));
        let are_asked = |(_, server): &(ServerId, Server)| {
            server.address.protocol() == Some(Protocol::Nfs) && in_force(config).is_some()
        };
        let waiting = servers.filter(are_asked).collect();
        Self { waiting, disks: BTreeMap::new(), ticks: interval(EVERY), looked: None }
    }

    /// What is known each second; cancel safe.
    pub(super) async fn next(&mut self) -> Vec<(ServerId, bool)> {
        if self.waiting.is_empty() && self.disks.is_empty() {
            return std::future::pending().await;
        }
        self.ticks.tick().await;
        if self.looked.is_none_or(|at| at.elapsed() >= AGAIN) {
            self.looked = Some(Instant::now());
            self.look().await;
        }
        let limits = self.disks.iter().map(|(id, disks)| (*id, disks.iter().all(|disk| disk.limit().is_some())));
        limits.collect()
    }

    async fn look(&mut self) {
        let host = |server: &Server| server.address.host().to_owned();
        let names = Names::look_up(self.waiting.iter().map(|(_, server)| host(server)).collect()).await;
        self.waiting.retain(|(_, server)| {
            let addresses = names.of(&host(server));
            addresses.is_empty() || addresses.into_iter().any(is_own)
        });
        for (id, server) in &self.waiting {
            let directories = Storage::of(server).await.directories;
            let disks: BTreeSet<Device> = directories.iter().filter_map(|path| Device::of(path).ok()).collect();
            if !disks.is_empty() {
                self.disks.insert(*id, disks);
            }
        }
        self.waiting.retain(|(id, _)| !self.disks.contains_key(id));
    }
}

/// `vpfs write-back` as a child of a proxy that root runs; it ends with the proxy, however that ends.
pub(super) struct Attached(Child);

impl Attached {
    /// Starts it, if there is anything to do and this process may.
    pub(super) fn start(config_file: &Path, config: &Config, servers: &[ServerId]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        in_force(config)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["write-back", "--attached", "--config"]).arg(config_file).stdin(Stdio::piped());
        if servers.len() < config.servers.len() {
            for id in servers {
                command.args(["--server", &config.servers[id.index()].name]);
            }
        }
        match command.spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                tracing::warn!(%error, "what is not stored yet is not limited: vpfs write-back does not start");
                None
            }
        }
    }
}

impl Drop for Attached {
    /// Ends it, and waits until the kernel's settings are back.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
