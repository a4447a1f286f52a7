//! Lays an existing file out anew: copies it into a file with the new layout, compares both, and gives the new file
//! its name atomically. A copy that was killed at any moment goes on where it ended, and until the new file is complete
//! and verified, the old one keeps its name.
//!
//! [`Job`] has the order of steps and what a crash leaves of them, without I/O; [`Relayout`] executes the steps on any
//! mounted file system, and [`OrangefsRelayout`] on OrangeFS without a mount. Layouts themselves are set by whoever
//! prepares the target (a directory that new files inherit theirs from, or an empty file), or given by the caller.

mod attributes;
mod error;
mod files;
mod job;
mod orangefs;
mod record;
mod relayout;
mod writers;

pub use error::RelayoutError;
pub use job::{Done, Found, Job, ResumeError, Step};
pub use orangefs::OrangefsRelayout;
pub use record::{Record, Stage, Version};
pub use relayout::{Options, Progress, Relayout, Summary};
