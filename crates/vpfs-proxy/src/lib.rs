//! The data plane: listens in front of servers, moves bytes, and lets the schedulers of the core decide what is
//! dispatched.
//!
//! A [`Daemon`] owns one *gate* for each server that it serves (a short mutex around a [`vpfs_node::Node`]) and one
//! task for each client connection, which drives a [`vpfs_protocol::session::Session`]. No lock is held across I/O.
//! What administrators ask is answered by [`admin`], from snapshots.

use std::sync::{Mutex, MutexGuard, PoisonError};

mod accept;
pub mod admin;
mod check;
mod clock;
mod connection;
mod daemon;
mod event_log;
mod gate;
mod handover;
mod hosts;
mod memory;
mod names;
mod observer;
mod peers;
mod secrets;
mod shared;
#[cfg(test)]
mod simulation;
mod sockets;
mod state_dir;
mod stream;
mod turns;

pub use check::{StartError, check_serving, check_start, descriptors_needed, shortage_of_descriptors};
pub use daemon::{Daemon, Pushes, ReloadError};
pub use handover::{Inheritance, Offer};
pub use hosts::Used;
pub(crate) use hosts::{Holder, Place, Places, Room};
pub use names::{Environment, Resolver, account_id, check_names};
pub use observer::{AppStatus, HolderReport, Observer, ServerStatus, Status};
pub use peers::{
    AppReport, Askers, KeyError, PeerReport, PeersError, PeersReport, Stream, TrafficReport, connect_to_ask,
};
pub use secrets::{Reader, SecretProblem, check_secrets};
pub use state_dir::StateDir;
pub use turns::{Cancel, Turn, Turns, Waiting, Work};
pub use vpfs_node::AppTotals;

/// Locks, also after a panic under the lock: what our locks protect is changed in one step, and the other sessions
/// continue.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
