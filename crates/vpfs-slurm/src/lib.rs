//! Running jobs of Slurm to a set of applications, without I/O: [`Jobs::parse`] reads what `squeue --json` prints, and
//! [`Settings`] are the rules of slurm.toml. [`build`] makes the set of both for proxies, [`build_for_mounts`] those
//! for mounts.
//!
//! Names and comments of jobs are text of users: nothing of them gets into a set but what rules take, and of that only
//! letters, digits, `-`, `_` and `.`.
#![forbid(unsafe_code)]

mod build;
mod jobs;
mod keys;
mod settings;
mod template;

pub use build::{Built, Unclear, build, build_for_mounts, nodes_of};
pub use jobs::{Job, Jobs, Unreadable};
pub use settings::{Reach, Rule, Settings, slurm_manual};
