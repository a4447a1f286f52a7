//! Sets of applications that an owner pushes while a daemon runs, for example a job scheduler: one [`Set`] and its
//! JSON, and all [`Sets`] that a daemon holds.
//!
//! A set replaces its owner's last one as a whole, and expires by itself (docs/decisions/0013-jobs-and-rules.md).

mod difference;
mod held;
mod set;

pub use crate::names::SetName;
pub use difference::difference;
pub use held::{Overlap, Put, Refusal, Sets};
pub use set::{AppText, IdText, Set, SetText};

pub use crate::vpfs_toml::paths::check_share;
