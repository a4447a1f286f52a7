//! The integration tests of vpfs-testbed, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod cluster;
mod device;
mod fs_conf;
mod profile;
mod relayout;
mod run;
