//! The data plane: listens in front of servers, moves bytes, and lets the schedulers of the core decide what is
//! dispatched.
//!
//! A [`Daemon`] owns one *gate* for each server that it serves (a short mutex around a [`vpfs_node::Node`]) and one
//! task for each client connection, which drives a [`vpfs_session::Session`]. No lock is held across I/O.

mod abandoned;
mod accept;
mod accounts;
mod alarm;
mod budget;
mod check;
mod clock;
mod connection;
mod connection_permits;
mod daemon;
mod descriptors;
mod event_log;
mod follower;
mod gate;
mod half;
mod handover;
mod hosts;
mod identity;
mod keeper;
mod learned;
mod limits;
mod listener;
mod log_limit;
mod mailbox;
mod memory;
mod names;
mod observer;
mod origin;
mod outbox;
mod patience;
mod peers;
mod pipes;
mod places;
mod processor_wait;
mod pushes;
mod read_buffers;
mod requests;
mod secrets;
mod sets_file;
mod shared;
#[cfg(test)]
mod simulation;
mod sites;
mod sockets;
mod start_error;
mod state_dir;
mod stream;
mod ticket;
mod turns;
mod unstored;

pub use accounts::account_id;
pub use budget::Used;
pub use check::{check_serving, check_start, descriptors_needed, shortage_of_descriptors};
pub use daemon::{Daemon, ReloadError};
pub use handover::{Inheritance, Offer};
pub use names::{Environment, Resolver, check_names};
pub use observer::{AppStatus, HolderReport, Observer, ServerStatus, Status};
pub use peers::{AppReport, KeyError, PeerReport, PeersError, PeersReport, TrafficReport};
pub use peers::{Askers, Stream, connect_to_ask};
pub use places::{Holder, Place, Places, Room};
pub use pushes::Pushes;
pub use secrets::{Reader, SecretProblem, check_secrets};
pub use start_error::StartError;
pub use state_dir::StateDir;
pub use turns::{Cancel, Turn, Turns, Waiting, Work};
pub use vpfs_node::AppTotals;
