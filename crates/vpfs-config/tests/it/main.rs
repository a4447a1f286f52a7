//! The integration tests of vpfs-config, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod files;
#[path = "../../../../fuzz/src/config.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;
mod identify;
mod problems;
mod sections;
mod slurm;
