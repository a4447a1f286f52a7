//! Shows a directory of a mounted file system under another path, through FUSE: files of regions that lie in several
//! directories look like any file, and traces have what programs ask for (docs/decisions/0012-layouts-and-mount.md).
//!
//! The pure part is [`RegionMap`], which bytes lie where, and [`rule`], which files get regions. [`Opened`] is a file
//! of regions without FUSE. [`Mounted`] is all of it.

mod fuse;
mod inodes;
mod map;
mod overlay;
mod repair;
mod shares;
mod stored;
mod system;

pub use fuse::{MountError, Mounted};
pub use map::{MapError, Piece, RegionFile, RegionMap, Rule, TEXT_MAX, is_class, rule};
pub use overlay::{Options, Recorder, Writer};
pub use repair::{Finding, Report, check, join};
pub use stored::{ATTRIBUTE, Class, Opened, Stored};
pub use system::prepare_process;
