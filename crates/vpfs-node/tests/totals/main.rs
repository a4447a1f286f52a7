//! What holds for the sum over all servers.
#![allow(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod caps;
mod cluster;
mod large;
mod minima;
mod targets;
