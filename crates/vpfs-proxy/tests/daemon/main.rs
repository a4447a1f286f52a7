//! The daemon between clients and servers, over real sockets of this machine.
//!
//! No test sleeps to wait for something, and none passes or fails by a measured time: tests wait for events, or run in
//! virtual time, in which a timeout means that nothing more can happen.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a panic is the report; sizes are small")]

mod bounded;
mod changes;
mod churn;
mod common;
mod costs;
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
mod sharing;
mod strangers;
mod transparent;
mod trust;
