//! Shows a directory of a mounted file system under another path, through FUSE: files of regions that lie in several
//! directories look like any file, and traces have what programs ask for (docs/decisions/0012-layouts-and-mount.md).
//!
//! The pure part is [`RegionMap`], which bytes lie where, and [`rule`], which files get regions. [`Opened`] is a file
//! of regions without FUSE. [`Mounted`] is all of it.

mod attr;
mod caller;
mod check;
mod class;
mod fd;
mod fuse;
mod handles;
mod identity;
mod inodes;
mod join;
mod listing;
mod map;
mod mount;
mod names;
mod opening;
mod overlay;
mod owner;
mod process;
mod programs;
mod shares;
mod stored;
mod trace;
mod waiters;
mod workers;
mod xattr;

pub use check::{Finding, Report, check};
pub use class::Class;
pub use join::join;
pub use map::{MapError, Piece, RegionFile, RegionMap, TEXT_MAX, is_class};
pub use mount::{MountError, Mounted};
pub use names::{Rule, rule};
pub use overlay::Options;
pub use process::prepare_process;
pub use stored::{ATTRIBUTE, Opened, Stored};
pub use trace::{Recorder, Writer};
