//! The disk behind a server's data, as the kernel names it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vpfs_config::{Protocol, Server};
use vpfs_testbed::client::fetch_config;
use vpfs_testbed::fsconfig::Configuration;

/// How long a server may take to say where its data is.
const WAIT: Duration = Duration::from_secs(5);

/// A disk whose unstored pages the kernel counts: `MAJOR:MINOR`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cmd) struct Device(String);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a directory has no such disk.
#[derive(Debug, thiserror::Error)]
pub(in crate::cmd) enum DeviceError {
    #[error("{}: {error}", path.display())]
    Path { path: PathBuf, error: std::io::Error },
    #[error("{}: its file system is on no disk that the kernel has limits for", .0.display())]
    NoDisk(PathBuf),
    #[error("this kernel has no limit for each disk, Linux 6.2 and later have")]
    OldKernel,
}

impl Device {
    /// The disk that a file or directory is on.
    pub(in crate::cmd) fn of(path: &Path) -> Result<Self, DeviceError> {
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
    pub(super) fn setting(&self, name: &str) -> PathBuf {
        Path::new("/sys/class/bdi").join(&self.0).join(name)
    }

    /// Bytes that it has stored since the start of the kernel.
    pub(super) fn stored(&self) -> Option<u64> {
        const SECTOR: u64 = 512;
        let text = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.0)).ok()?;
        Some(text.split_whitespace().nth(6)?.parse::<u64>().ok()? * SECTOR)
    }

    /// The limit in force for what it has not stored, if there is one.
    pub(in crate::cmd) fn limit(&self) -> Option<u64> {
        let read = |name| fs::read_to_string(self.setting(name)).ok()?.trim().parse::<u64>().ok();
        (read("strict_limit")? == 1).then(|| read("max_bytes"))?
    }
}

/// How a server of this host stores.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::cmd) struct Storage {
    /// Directories with its data; empty if nothing says where it is.
    pub(in crate::cmd) directories: BTreeSet<PathBuf>,
    /// A write may be answered before it is stored.
    pub(in crate::cmd) answers_from_memory: bool,
}

impl Storage {
    /// By what the configuration, the server or its own files say.
    pub(in crate::cmd) async fn of(server: &Server) -> Self {
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
