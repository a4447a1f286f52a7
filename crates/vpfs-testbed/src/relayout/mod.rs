//! Rewrites a file with a new layout: copies it into a file with that layout, compares both, and renames the new file
//! atomically. A copy that was killed at any moment resumes where it stopped; the old file keeps its name until the new
//! one is complete and verified.
//!
//! [`Job`] has the order of steps and what a crash leaves of them, without I/O; [`Relayout`] executes the steps on any
//! mounted file system, and [`OrangefsRelayout`] on OrangeFS without a mount. Layouts themselves are set by the one who
//! prepares the target (a directory that new files inherit theirs from, or an empty file), or given by the caller.

mod job;
mod mounted;
mod orangefs;

pub use job::{Done, Found, Job, Record, ResumeError, Stage, Step, Version};
pub use mounted::{Options, Progress, Relayout, RelayoutError, Summary, copy_attributes};
pub use orangefs::OrangefsRelayout;
