//! The integration tests of vpfs-node, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod coordination;
mod exempt;
mod frames;
mod mesh;
mod node;
mod snapshot;
mod totals;
