//! `vpfs write-back`: how much of what was written is in memory and not on the disks of this host's servers
//! (docs/decisions/0004-write-back.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{Read, stdin};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fmt, fs, io};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use vpfs_config::{Config, LogFormat, Protocol, Server, WriteBack};
use vpfs_core::{ServerId, UnstoredLimit};
use vpfs_proxy::admin::events::Events;
use vpfs_testbed::client::fetch_config;
use vpfs_testbed::fsconfig::Configuration;

use super::check::{Names, is_own};
use super::{load_config, runtime};
use crate::print::Exit;
use crate::service;
use crate::service::Stop;

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
    #[arg(long = "server", value_name = "NAME", add = super::asking::servers())]
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
        let _log = service::start_log(config.log.level, config.log.format == LogFormat::Json, &Events::default())?;
        let Some(setting) = in_force(&config) else {
            tracing::info!("limits.write_back is off, or vpfs only observes: nothing to do");
            crate::service::ready("off", self.attached);
            return stopped(&mut stop, self.attached).await;
        };
        crate::service::ready("looking for disks", self.attached);
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

/// How long a server may take to say where its data is.
const WAIT: Duration = Duration::from_secs(5);

/// A disk whose unstored pages the kernel counts: `MAJOR:MINOR`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Device(String);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a directory has no such disk.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    #[error("{}: {error}", path.display())]
    Path { path: PathBuf, error: std::io::Error },
    #[error("{}: its file system is on no disk that the kernel has limits for", .0.display())]
    NoDisk(PathBuf),
    #[error("this kernel has no limit for each disk, Linux 6.2 and later have")]
    OldKernel,
}

impl Device {
    /// The disk that a file or directory is on.
    pub(super) fn of(path: &Path) -> Result<Self, DeviceError> {
        let found = fs::metadata(path).map_err(|error| DeviceError::Path { path: path.to_owned(), error })?;
        let number = format!("{}:{}", rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        let block = Path::new("/sys/dev/block").join(&number);
        let no_disk = |_| DeviceError::NoDisk(path.to_owned());
        let block = block.canonicalize().map_err(no_disk)?;
        // What is not stored is counted for a disk, not for its partitions.
        let disk = if block.join("partition").exists() { block.parent().unwrap_or(&block) } else { &block };
        let number = fs::read_to_string(disk.join("dev")).map_err(no_disk)?;
        let device = Self(number.trim().to_owned());
        if !device.setting("max_bytes").parent().is_some_and(Path::exists) {
            return Err(DeviceError::NoDisk(path.to_owned()));
        }
        if device.setting("max_bytes").exists() { Ok(device) } else { Err(DeviceError::OldKernel) }
    }

    /// The file of a setting of the kernel for it.
    fn setting(&self, name: &str) -> PathBuf {
        Path::new("/sys/class/bdi").join(&self.0).join(name)
    }

    /// Bytes that it has stored since the start of the kernel.
    fn stored(&self) -> Option<u64> {
        const SECTOR: u64 = 512;
        let text = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.0)).ok()?;
        Some(text.split_whitespace().nth(6)?.parse::<u64>().ok()? * SECTOR)
    }

    /// The limit in force for what it has not stored, if there is one.
    pub(super) fn limit(&self) -> Option<u64> {
        let read = |name| fs::read_to_string(self.setting(name)).ok()?.trim().parse::<u64>().ok();
        (read("strict_limit")? == 1).then(|| read("max_bytes"))?
    }
}

/// How a server of this host stores.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Storage {
    /// Directories with its data; empty if nothing says where it is.
    pub(super) directories: BTreeSet<PathBuf>,
    /// A write may be answered before it is stored.
    pub(super) answers_from_memory: bool,
}

impl Storage {
    /// By what the configuration, the server or its own files say.
    pub(super) async fn of(server: &Server) -> Self {
        let (host, port) = (server.address.host(), server.address.port());
        match (server.address.protocol(), &server.data) {
            (_, Some(data)) => Self { directories: BTreeSet::from([data.clone()]), answers_from_memory: true },
            (Some(Protocol::OrangeFs), None) => {
                let text = fetch_config(&format!("{host}:{port}"), WAIT).await.unwrap_or_default();
                Self::of_orangefs(&text, server.address.as_str())
            }
            // Unless a client asks for more.
            (Some(Protocol::Nfs), None) => Self { directories: exported(port), answers_from_memory: true },
            (None, None) => Self::default(),
        }
    }

    /// Of the server at `address`, by the configuration of its file system.
    fn of_orangefs(text: &[u8], address: &str) -> Self {
        let Ok(config) = Configuration::parse(text) else { return Self::default() };
        let Some(alias) = config.alias_at(address) else { return Self::default() };
        let directories = config.storage.directories(&alias.name).into_iter().map(PathBuf::from).collect();
        Self { directories, answers_from_memory: config.storage.answers_from_memory() }
    }
}

/// What the NFS server at this port of this host exports.
fn exported(port: u16) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(line) = fs::read(process.path().join("cmdline")) else { continue };
        let Some(file) = config_of_ganesha(&line) else { continue };
        let Ok(text) = fs::read_to_string(file) else { continue };
        if number_in(&text, "nfs_port").unwrap_or(2049) == port {
            found.extend(texts_in(&text, "path").map(PathBuf::from));
        }
    }
    let kernels = || fs::read_to_string("/proc/fs/nfsd/threads").is_ok_and(|threads| threads.trim() != "0");
    if found.is_empty() && port == 2049 && kernels() {
        found.extend(exports(&fs::read_to_string("/var/lib/nfs/etab").unwrap_or_default()));
    }
    found
}

/// The file that Ganesha has its configuration from, by its command line; `None`: it is another program.
fn config_of_ganesha(line: &[u8]) -> Option<PathBuf> {
    let arguments: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    if Path::new(&*arguments[0]).file_name()? != "ganesha.nfsd" {
        return None;
    }
    let given = arguments.iter().position(|argument| argument == "-f").and_then(|at| arguments.get(at + 1));
    Some(given.map_or_else(|| PathBuf::from("/etc/ganesha/ganesha.conf"), |file| PathBuf::from(&**file)))
}

/// The values of a key of Ganesha's configuration, which knows no case: `Key = value;`.
fn texts_in<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let settings = lines.flat_map(|line| line.split([';', '{', '}']));
    settings.filter_map(move |setting| {
        let (name, value) = setting.split_once('=')?;
        name.trim().eq_ignore_ascii_case(key).then(|| value.trim().trim_matches('"'))
    })
}

fn number_in(text: &str, key: &str) -> Option<u16> {
    texts_in(text, key).last()?.parse().ok()
}

/// The directories in the table of the kernel's exports.
fn exports(etab: &str) -> impl Iterator<Item = PathBuf> {
    etab.lines().filter_map(|line| line.split('\t').next()).filter(|path| path.starts_with('/')).map(PathBuf::from)
}

/// The settings that change, in the order in which they are given back. The kernel keeps `max_bytes` as the first.
const SETTINGS: [&str; 2] = ["max_ratio_fine", "strict_limit"];

/// All of what the kernel may have for all disks, in `max_ratio_fine`.
const ALL: &str = "1000000";

/// The settings of a disk as they were before any process of this host changed them. The last process that has a record
/// of a disk puts them back when it drops it; after a crash of that, the next one does.
#[derive(Debug)]
struct Record {
    device: Device,
    path: PathBuf,
    /// Locked, shared by all processes that limit the disk.
    file: File,
}

impl Record {
    /// Notes the settings in `dir`, if nobody has.
    fn keep(dir: &Path, device: &Device) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(device.to_string());
        loop {
            let file = File::options().read(true).append(true).create(true).open(&path)?;
            // Only who has it alone writes it or removes it.
            if file.try_lock().is_ok() {
                if file.metadata()?.len() == 0 {
                    let values = SETTINGS.map(|name| fs::read_to_string(device.setting(name)));
                    let [most, strict] = values.map(|value| value.map(|text| text.trim().to_owned()));
                    io::Write::write_all(&mut &file, format!("{} {}\n", most?, strict?).as_bytes())?;
                }
                file.unlock()?;
            }
            file.lock_shared()?;
            // Another process may have removed it meanwhile.
            let ours = file.metadata()?;
            if ours.len() > 0 && fs::metadata(&path).is_ok_and(|found| found.ino() == ours.ino()) {
                return Ok(Self { device: device.clone(), path, file });
            }
        }
    }

    fn limit(&self, bytes: u64) -> io::Result<()> {
        // Without the first, the second is no limit until all of the kernel's memory for writes is used.
        fs::write(self.device.setting("strict_limit"), "1")?;
        match fs::write(self.device.setting("max_bytes"), bytes.to_string()) {
            // So much is more than the kernel would hold for all disks.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                fs::write(self.device.setting("max_ratio_fine"), ALL)
            }
            result => result,
        }
    }

    /// Puts the settings back unless another process has a record of them.
    fn restore(&self) -> io::Result<()> {
        // Each lets go before it tries to have it alone, so that of several that end together one succeeds.
        self.file.unlock()?;
        match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let text = fs::read_to_string(&self.path)?;
        for (name, value) in SETTINGS.iter().zip(text.split_whitespace()) {
            fs::write(self.device.setting(name), value)?;
        }
        fs::remove_file(&self.path)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        match self.restore() {
            // Another process has put them back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(device = %self.device, %error, "the kernel's settings cannot be put back"),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_where_their_data_is() {
        let conf = "<Defaults>\nTroveMethod alt-aio\nMetadataStorageSpace /m\n</Defaults>\n\
            <Aliases>\nAlias a tcp://h:1\nAlias b tcp://h:2\n</Aliases>\n\
            <ServerOptions>\nServer a\nDataStorageSpace /d/a\nMetadataStorageSpace /m/a\n</ServerOptions>\n\
            <FileSystem>\nName f\nID 9\nRootHandle 4\n<MetaHandleRanges>\nRange a 3-9\n</MetaHandleRanges>\n\
            <DataHandleRanges>\nRange b 10-19\n</DataHandleRanges>\n\
            <StorageHints>\nTroveSyncData no\n</StorageHints>\n</FileSystem>\n";
        let of = |address| Storage::of_orangefs(conf.as_bytes(), address).directories.into_iter().collect::<Vec<_>>();
        assert_eq!(of("tcp://h:1"), ["/d/a", "/m/a"].map(PathBuf::from));
        assert_eq!(of("tcp://h:2"), ["/m"].map(PathBuf::from));
        assert!(of("tcp://h:3").is_empty());
        assert_eq!(Storage::of_orangefs(b"nonsense", "tcp://h:1"), Storage::default());
        let from_memory = |text: &str| Storage::of_orangefs(text.as_bytes(), "tcp://h:1").answers_from_memory;
        assert!(from_memory(conf), "as pvfs2-genconfig writes it");
        assert!(!from_memory(&conf.replace("alt-aio", "directio")));
        assert!(!from_memory(&conf.replace("TroveSyncData no", "TroveSyncData yes")));
    }

    #[test]
    fn exports_are_found() {
        let conf = "NFS_CORE_PARAM { NFS_port=2050; }\n# Path = /no;\nEXPORT { Export_Id = 1; Path = \"/srv/a\"; Pseudo = /a; }\n\
            EXPORT {\n  path = /srv/b;\n}\n";
        assert_eq!(number_in(conf, "nfs_port"), Some(2050));
        assert_eq!(texts_in(conf, "path").collect::<Vec<_>>(), ["/srv/a", "/srv/b"]);
        let file = |line: &[u8]| config_of_ganesha(line);
        assert_eq!(file(b"/usr/bin/ganesha.nfsd\0-F\0-f\0/g.conf\0"), Some("/g.conf".into()));
        assert_eq!(file(b"ganesha.nfsd\0"), Some("/etc/ganesha/ganesha.conf".into()));
        assert_eq!(file(b"grep\0ganesha.nfsd\0"), None);
        assert_eq!(file(b""), None);
        let etab = "/srv/a\t10.0.0.0/8(rw,sync)\n/srv/b\t*(ro)\n\n";
        assert_eq!(exports(etab).collect::<Vec<_>>(), ["/srv/a", "/srv/b"].map(PathBuf::from));
    }
}
