//! The integration tests of vpfs-config, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod any_text;
mod files;
mod host_lists;
mod identify;
mod metrics;
mod mounts;
mod peers;
mod policies;
mod problems;
mod settings;
mod syntax;
mod trust;
mod warnings;
