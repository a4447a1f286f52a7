//! The data plane: listens in front of servers, moves bytes, and lets the schedulers of the core decide what goes on.
//!
//! A [`Daemon`] owns one *gate* for each server it stands before (a short mutex around a scheduler) and one task for each
//! client connection, which drives a [`vpfs_interpose::Session`]. No lock is held across I/O.

mod clock;
mod connection;
mod daemon;
mod door;
mod file_sizes;
mod gate;
mod identity;
mod limits;
mod mailbox;
mod peers;
mod policy;
mod shared;
mod slots;
mod sockets;
mod totals;

pub use daemon::{Daemon, ReloadError, StartError};
pub use totals::AppTotals;
