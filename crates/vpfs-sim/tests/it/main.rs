//! The integration tests of vpfs-sim, in one program: linking dozens takes longer than running them.

#![allow(
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod any_text;
mod bounds;
mod common;
mod demo;
mod groups;
mod ioco;
mod isolation;
mod jitter;
mod model {
    mod cache;
    mod disks;
    mod volume;
}
mod models;
mod pace;
mod peers;
mod promises;
mod restarts;
mod scenarios;
mod shares;
mod stalls;
mod times;
mod totals;
mod transfers;
