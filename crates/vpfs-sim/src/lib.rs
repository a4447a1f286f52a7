//! A deterministic discrete-event simulation of a parallel file system behind vpfs.
//!
//! Clients run the plans of `vpfs workload`, servers the schedulers of the daemon and the device models of the embedded
//! servers; only the time is not real. Equal scenarios give equal results, byte for byte.
//!
//! ```
//! use std::time::Duration;
//!
//! use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Weight};
//! use vpfs_model::device::DeviceProfile;
//! use vpfs_model::plan::{FileMode, Ior, Order, Phase};
//! use vpfs_sim::{App, PolicySpec, Scenario, ServerGroup, Simulation};
//!
//! let ior = Ior {
//!     processes: 8,
//!     transfer_bytes: 1 << 20,
//!     block_bytes: 64 << 20,
//!     segments: 1,
//!     file_mode: FileMode::PerProcess,
//!     order: Order::Sequential,
//!     write: true,
//!     read: false,
//!     mixed: false,
//!     start_offset_bytes: 0,
//!     barrier: false,
//!     read_shift: 0,
//!     fsync: false,
//!     keep: true,
//!     time_limit: Some(Duration::from_secs(60)),
//!     seed: 1,
//! };
//! let app = |name, weight| App { weight, phases: vec![Phase::Write], ..App::new(name, ior.clone()) };
//! let settings = Settings::new(PolicyKind::SfqD, Depth::new(4).expect("not zero"), SlotCostTable::uniform());
//! let scenario = Scenario {
//!     duration: Some(Duration::from_secs(20)),
//!     servers: vec![ServerGroup::new(2, DeviceProfile::hdd())],
//!     policies: vec![PolicySpec::fifo(), PolicySpec::new("sfq-d", settings)],
//!     apps: vec![app("climate", Weight::new(2).expect("not zero")), app("genome", Weight::ONE)],
//!     ..Scenario::default()
//! };
//! let results = Simulation::new(&scenario, &scenario.policies[1])?.run()?;
//! let shares = results.shares_between(Duration::from_secs(5), Duration::from_secs(20));
//! assert!((shares[0] - 2.0 / 3.0).abs() < 0.03, "{shares:?}");
//! # Ok::<(), vpfs_sim::SimError>(())
//! ```
//!
//! # A figure
//!
//! Build a [`Scenario`] (or read one from a file with [`Scenario::parse`]), clone and change it for each point of the
//! sweep, run each with each [`PolicySpec`], and take the numbers from [`Results`]: run times, latencies and totals of
//! [`AppResults`], shares and fairness over any time from [`Results::shares_between`], [`Results::jain_between`] and
//! [`Results::unfairness_between`], the series of each application and server. `Scenario::by_server` adds what each
//! application got at each server, with the time of its last request there; `Scenario::trace` adds every call with its
//! finish at each server. [`App::phases`] leaves out what a figure does not measure, and [`App::background`] keeps a
//! load up until the others are finished. Simulations are independent of each other, so a sweep may run them on threads
//! of its own.
//!
//! # What must always hold
//!
//! Every run checks, from outside the schedulers: bytes asked for are served or under way, no more slots are in use
//! than the depth, nobody waits for a dispatch longer than [`Scenario::wait_limit`], time does not go back, and
//! applications finish. A broken rule is a [`SimError::Violation`] with seed and time.
//!
//! # The way of a call
//!
//! A read or write is one request at each server that holds a part of it, all sent at once; it is complete with the
//! last of them. A request reaches the server's proxy after the link's latency and waits in the scheduler. Once
//! dispatched, a read is one access of the device, whose data flows to the client while the device works; for a write
//! the client is told to send, and the device begins when the first 256 KiB are there. Links carry data in the order in
//! which it was promised. When the operation is complete on the server's side of the wire, its slots are free. A
//! metadata call is a number of requests one after the other. A link counts data as carried when its turn there comes,
//! also if a slower link holds it up.
//!
//! Not modelled: time spent in clients, proxies and processors, but for what a server's messages to others cost it
//! ([`PeerNetwork::message_work`]); caches of clients; packets, their loss and collisions.
//!
//! # The event loop
//!
//! Needed: events at equal times in a defined order, timers that are set anew at every input, no allocation for an
//! event, millions of events per second on one thread, and access to all of the cluster from each event. Looked at:
//!
//! - nexosim (before: asynchronix) is the best kept one. It runs models as actors with mailboxes on threads of its own;
//!   each event is an asynchronous message. Here one event touches a server, a node's link and a process at once, and
//!   the order of all events must be one.
//! - desque and desru put each event into a box, desru with floating-point time; odem-rs and asim make a process a
//!   future, where a scheduler's single next deadline has no natural place; des-sim is young.
//!
//! So the loop is the standard library's binary heap of small events, ordered by time and then by insertion. A timer
//! that was set anew leaves its old event in the heap, which is ignored when it comes.

mod bounds;
mod calendar;
mod error;
mod layout;
mod link;
mod measure;
mod messages;
pub mod parallel;
mod peer_network;
mod peers;
mod policy;
mod process;
mod read;
mod results;
mod scenario;
mod server;
mod simulation;
mod trace;
mod world;

pub use error::{SimError, Violation};
pub use layout::{Layout, Start};
pub use link::LinkProfile;
pub use peer_network::{Partition, PeerNetwork, Restart};
pub use read::scenario_manual;
pub use results::{
    AppAtServer, AppResults, CallTrace, CoordinationResults, Latency, PartTrace, Results, ServerResults,
};
pub use scenario::{App, PolicySpec, Role, Scenario, ServerGroup, Workload};
pub use simulation::{Progress, Simulation};
