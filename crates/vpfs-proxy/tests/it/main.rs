//! The daemon between clients and servers, over real sockets of this machine.
//!
//! No test sleeps to wait for something, and none passes or fails by a measured time: tests wait for events, or run in
//! virtual time, in which a timeout means that nothing more can happen.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod common;
mod failures;
mod hostile;
mod identify;
mod reload;
mod shares;
mod transparent;
mod unstored;
