//! The daemon between clients and servers, over real sockets of this machine.
//!
//! No test sleeps to wait for something, and none passes or fails by a measured time: tests wait for events, or run in
//! virtual time, in which a timeout means that nothing more can happen.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a panic is the report of a test, sizes are small, and measurements are for people"
)]

mod bounded;
mod changes;
mod churn;
mod common;
mod costs;
mod descriptors;
mod drain;
mod failures;
mod handover;
mod hostile;
mod identify;
mod learned;
mod memory;
mod names;
mod nfs;
mod peers;
mod pieces;
mod reload;
mod sets;
mod shares;
mod strangers;
mod transparent;
mod trust;
mod unstored;
