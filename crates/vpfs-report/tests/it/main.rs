//! The integration tests of vpfs-report, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod advice;
mod report;
