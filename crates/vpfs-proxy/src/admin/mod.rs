//! What a daemon tells administrators: HTTP and JSON on a Unix [`socket`] of its own, and [`metrics`] for
//! Prometheus, by TCP if the configuration says so (docs/decisions/0010-watching.md).
//!
//! It changes nothing in the daemon but pushed applications, for those who may
//! (docs/decisions/0013-jobs-and-rules.md), and writes one file: the history. It asks for a
//! [`Status`](crate::Status), whose snapshots lock each gate once, and makes text of it in threads of its own,
//! beside those that move data. How many ask at a time, how long they may take, and what they may send, is bounded
//! here; so no question can slow storage down.

mod answer;
pub mod api;
mod client;
pub mod events;
mod history;
pub mod metrics;
mod server;
mod sets;
mod slowness;
pub mod socket;
#[cfg(test)]
mod testing;

pub use client::{Change, Failure, change, change_by, get, get_by};
pub use history::{HISTORY, keep as keep_history, kept as kept_history, route as route_of_history};
pub use server::{
    EVENTS, Kept, METRICS, MetricsAccess, PEERS, PageKey, SETS, STATUS, get_here, serve_askers, serve_metrics,
    serve_page, serve_socket,
};
pub use sets::{PushedSet, PushedSets};
pub use slowness::watch_storage;
