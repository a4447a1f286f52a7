//! Shows a directory of a mounted file system under another path, through FUSE: files of regions that lie in several
//! directories look like any file, and traces have what programs ask for (docs/decisions/0012-layouts-and-mount.md).
//!
//! The pure part is [`RegionMap`], which bytes lie where, and [`rule`], which files get regions. [`Opened`] is a file
//! of regions without FUSE. [`Mounted`] is all of it.

mod caller;
mod check;
mod fd;
mod fuse;
mod inodes;
mod join;
mod map;
mod mount;
mod overlay;
mod shares;
mod stored;
mod trace;

pub use check::{Finding, Report, check};
pub use fd::prepare_process;
pub use join::join;
pub use map::{MapError, Piece, RegionFile, RegionMap, Rule, TEXT_MAX, is_class, rule};
pub use mount::{MountError, Mounted};
pub use overlay::Options;
pub use stored::{ATTRIBUTE, Class, Opened, Stored};
pub use trace::{Recorder, Writer};
