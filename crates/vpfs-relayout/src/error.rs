//! Why a file cannot be rewritten with a new layout.

use std::io;
use std::path::{Path, PathBuf};

use vpfs_testbed::client::ClientError;

use crate::ResumeError;

/// Why a copy ended before its end, and what would help. The source has its name and content in each case.
#[derive(Debug, thiserror::Error)]
pub enum RelayoutError {
    /// A call of the operating system failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What the call was to do.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A server of OrangeFS refused or failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Orangefs {
        /// What was to be done.
        action: &'static str,
        /// The path in the file system.
        path: PathBuf,
        /// The client's error.
        source: Box<ClientError>,
    },
    /// It is a directory, a device or a pipe.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// Nothing is overwritten.
    #[error("{} exists; name a new file, or an empty one that has the layout, with --fill", .0.display())]
    Exists(PathBuf),
    /// `--fill` without a file to fill, or with one that has data.
    #[error("--fill needs an empty file, and {} is none; create it with the layout that is wanted", .0.display())]
    NotEmpty(PathBuf),
    /// Only a rename within a file system is atomic.
    #[error(
        "--replace needs a target on the source's file system, and {} is on another one; copy without --replace",
        .0.display()
    )]
    OtherFileSystem(PathBuf),
    /// The other names would keep the old layout and diverge.
    #[error(
        "{} has {links} names (hard links), and the others would stay with the old file; remove them, or copy without \
         --replace",
        .path.display()
    )]
    HardLinks {
        /// The source.
        path: PathBuf,
        /// All its names.
        links: u64,
    },
    /// What they write after the switch would be lost.
    #[error("{} is open for writing in {writers}; end these programs first", .path.display())]
    Writers {
        /// The source.
        path: PathBuf,
        /// Processes.
        writers: String,
    },
    /// An earlier copy cannot go on.
    #[error("{}: {why}", .path.display())]
    Resume {
        /// Its state file.
        path: PathBuf,
        /// What is in the way.
        why: ResumeError,
    },
    /// There is a partial file without state.
    #[error("{} exists, but the state of its copy does not; move it away", .0.display())]
    ForeignPartial(PathBuf),
    /// The state file is damaged, or of another version.
    #[error("{} cannot be read ({why}); remove it and the partial file beside it, and start again", .path.display())]
    BadState {
        /// The state file.
        path: PathBuf,
        /// Place and kind of damage.
        why: String,
    },
    /// The state belongs to another pair of files.
    #[error("{} is the state of a copy from {} to {}; finish that one first", .path.display(), .source_file.display(), .destination.display())]
    OtherCopy {
        /// The state file.
        path: PathBuf,
        /// Its source.
        source_file: PathBuf,
        /// Its destination.
        destination: PathBuf,
    },
    /// Another process is copying it now.
    #[error("another process copies to {} at the moment", .0.display())]
    Locked(PathBuf),
    /// It was written to during the copy.
    #[error("{} changed during the copy, so the new file was not renamed; start again with --restart", .0.display())]
    Changed(PathBuf),
    /// The copy is not what the source is.
    #[error(
        "{} differs from {} at byte {at}; the new file was not renamed; start again with --restart, and check \
         the storage if this happens again",
        .partial.display(), .source_file.display()
    )]
    Differs {
        /// The new file.
        partial: PathBuf,
        /// The source.
        source_file: PathBuf,
        /// The first different byte.
        at: u64,
    },
    /// The file system counts holes differently.
    #[error(
        "{} has {has} bytes instead of {wanted}: its file system does not count holes; start again with --fill-holes --restart",
        .path.display()
    )]
    WrongSize {
        /// The new file.
        path: PathBuf,
        /// Its size.
        has: u64,
        /// The source's size.
        wanted: u64,
    },
    /// Owner, mode, times or an extended attribute was refused.
    #[error(
        "the file system of {} does not take over the {attribute} ({why}); use --allow-loss if it is not needed",
        .path.display()
    )]
    Attribute {
        /// The new file.
        path: PathBuf,
        /// What was refused.
        attribute: String,
        /// By which error.
        why: io::Error,
    },
    /// After a crash in the middle of the switch.
    #[error("{} does not have the content that was copied; it was changed or moved after the switch", .0.display())]
    NotConfirmed(PathBuf),
}

impl RelayoutError {
    /// For `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
