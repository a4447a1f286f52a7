//! Why a file cannot be rewritten with a new layout.

use std::io;
use std::path::{Path, PathBuf};

use vpfs_testbed::client::ClientError;

use crate::ResumeError;

/// Why a copy ended before its end, and what would help. The source has its name and content in each case.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum RelayoutError {
    /// A call of the operating system failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A server of OrangeFS refused or failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Orangefs { action: &'static str, path: PathBuf, source: Box<ClientError> },
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
    HardLinks { path: PathBuf, links: u64 },
    /// What they write after the switch would be lost.
    #[error("{} is open for writing in {writers}; end these programs first", .path.display())]
    Writers { path: PathBuf, writers: String },
    /// An earlier copy cannot go on.
    #[error("{}: {why}", .path.display())]
    Resume { path: PathBuf, why: ResumeError },
    /// There is a partial file without state.
    #[error("{} exists, but the state of its copy does not; move it away", .0.display())]
    ForeignPartial(PathBuf),
    /// The state file is damaged, or of another version.
    #[error("{} cannot be read ({why}); remove it and the partial file beside it, and start again", .path.display())]
    BadState { path: PathBuf, why: String },
    /// The state belongs to another pair of files.
    #[error("{} is the state of a copy from {} to {}; finish that one first", .path.display(), .source_file.display(), .destination.display())]
    OtherCopy { path: PathBuf, source_file: PathBuf, destination: PathBuf },
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
    Differs { partial: PathBuf, source_file: PathBuf, at: u64 },
    /// The file system counts holes differently.
    #[error(
        "{} has {has} bytes instead of {wanted}: its file system does not count holes; start again with --fill-holes --restart",
        .path.display()
    )]
    WrongSize { path: PathBuf, has: u64, wanted: u64 },
    /// Owner, mode, times or an extended attribute was refused.
    #[error(
        "the file system of {} does not take over the {attribute} ({why}); use --allow-loss if it is not needed",
        .path.display()
    )]
    Attribute { path: PathBuf, attribute: String, why: io::Error },
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
