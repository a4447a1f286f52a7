//! Why storage cannot be measured.

use std::io;
use std::path::PathBuf;

use vpfs_core::Bytes;

/// Why storage cannot be measured, and what would help.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ProfileError {
    /// A call of the operating system failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The path is neither a directory nor a block device.
    #[error("{} is neither a directory nor a block device; name the directory that the servers store in", .0.display())]
    Unsuitable(PathBuf),
    /// The file system has no direct I/O.
    #[error(
        "the file system of {} refuses direct I/O, so its page cache would be measured with it; if that is meant, use --buffered",
        .0.display()
    )]
    NoDirectIo(PathBuf),
    /// The test file would not fit.
    #[error("the test file takes {} MiB and {} has {} MiB free; use a smaller --size", .needed.0 >> 20, .path.display(), .free.0 >> 20)]
    NoSpace { path: PathBuf, needed: Bytes, free: Bytes },
    /// The largest access does not fit.
    #[error("{} KiB are not enough to measure with; {} KiB are needed", .has.0 >> 10, .needed.0 >> 10)]
    TooSmall { has: Bytes, needed: Bytes },
    /// Data in a directory is never destroyed.
    #[error("--destroy-data is for block devices, and {} is none", .0.display())]
    NotADevice(PathBuf),
    /// The device named for destruction is not the one being measured.
    #[error("--destroy-data must name the device that is measured, {}, once more; it names {}", .measured.display(), .named.display())]
    OtherDevice { measured: PathBuf, named: PathBuf },
    /// The device is in use.
    #[error("{} is in use (mounted, swap, or part of a volume); its data is not destroyed", .0.display())]
    InUse(PathBuf),
    /// The device contains data where file systems, partition tables and volumes keep their signatures.
    #[error(
        "{} is not empty: there is data at byte {at}; its data is not destroyed. If nobody needs it, write zeros to the \
         first and last MiB of the device",
        .path.display()
    )]
    NotEmpty { path: PathBuf, at: u64 },
    /// A connection failed.
    #[error("cannot {action} {address}: {source}")]
    Network { action: &'static str, address: String, source: io::Error },
    /// Something else answers there.
    #[error("{0} is not `vpfs profile network --listen`; start that on the server, at this port")]
    NotOurServer(String),
}

impl ProfileError {
    /// For `map_err`.
    pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// For `map_err`.
    pub(crate) fn network(action: &'static str, address: &str) -> impl FnOnce(io::Error) -> Self {
        let address = address.to_owned();
        move |source| Self::Network { action, address, source }
    }
}
