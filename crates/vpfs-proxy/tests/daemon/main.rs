//! The daemon between clients and servers, over real sockets of this machine.
//!
//! Nothing here sleeps to wait for something, and no time that was measured is a pass mark: tests wait for events, or
//! live in virtual time, where a time-out means that nothing more can happen.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a panic is the report; sizes are small")]

mod bounded;
mod common;
mod costs;
mod drain;
mod failures;
mod hostile;
mod identify;
mod memory;
mod pieces;
mod reload;
mod shares;
mod sharing;
mod transparent;
