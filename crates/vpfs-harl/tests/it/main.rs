//! The integration tests of vpfs-harl, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod advise;
mod darshan;
#[path = "../../../../fuzz/src/harl.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;
mod log;
mod memory;
mod rules;
mod search;
