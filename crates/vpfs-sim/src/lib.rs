//! A deterministic discrete-event simulation of a parallel file system behind vpfs.
//!
//! Clients run the plans of `vpfs workload`; servers use the daemon's schedulers and the device models of the embedded
//! servers ([`model`]); only time is simulated. Equal scenarios give equal results, byte for byte.
//!
//! ```
//! use std::time::Duration;
//!
//! use vpfs_core::{Depth, PolicyKind, Settings, SlotCostTable, Weight};
//! use vpfs_sim::model::device::DeviceProfile;
//! use vpfs_sim::model::plan::{FileMode, Ior, Order, Phase};
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
//! sweep, and run each with each [`PolicySpec`]. Take the numbers from [`Results`]: run times, latencies and totals of
//! [`AppResults`]; shares and fairness over any time from [`Results::shares_between`], [`Results::jain_between`] and
//! [`Results::unfairness_between`]; the series of each application and server. `Scenario::by_server` adds each
//! application's service at each server, with the time of its last request there; `Scenario::trace` adds every call
//! with its finish at each server; [`Simulation::run_traced`] tells what each moved. [`App::phases`] leaves out phases
//! that a figure does not measure, and [`App::background`] keeps up a load until the others have finished. Simulations
//! are independent of each other, so a sweep may run them on several threads.
//!
//! # Invariants
//!
//! Every run checks, from outside the schedulers: requested bytes are either served or in progress, no more slots are
//! in use than the depth, no request waits for its dispatch longer than [`Scenario::wait_limit`], time does not move
//! backwards, and applications finish. A broken rule is a [`SimError::Violation`] with seed and time.
//!
//! # The path of a call
//!
//! A read or write is one request at each server that holds a part of it, all sent at once; it is complete with the
//! last of them. A request reaches the server's proxy after the link's latency and waits in the scheduler. Once
//! dispatched, a read is one access of the device, whose data flows to the client while the device works. For a write
//! the client is told to send, and the device starts when the first 256 KiB have arrived. Links carry data in the order
//! of reservation. When the operation is complete on the server's side of the wire, its slots are free. A metadata call
//! is a number of requests one after the other. A link counts data as carried when its turn there comes, even if a
//! slower link holds it up.
//!
//! Not modelled: time spent in clients, proxies and processors, except what a server's messages to its peers cost it
//! ([`PeerNetwork::message_work`]); client caches; packets, their loss and collisions.
//!
//! # The event loop
//!
//! Requirements: a defined order of events at equal times, timers that are reset at every input, no allocation for an
//! event, millions of events per second on one thread, and access to the whole cluster from each event. Alternatives
//! considered:
//!
//! - nexosim (formerly asynchronix) is the best maintained. It runs models as actors with mailboxes on its own threads;
//!   each event is an asynchronous message. Here one event touches a server, a node's link and a process at once, and
//!   events need one total order.
//! - desque and desru box each event, desru with floating-point time; odem-rs and asim make each process a future,
//!   where a scheduler's single next deadline has no natural place; des-sim is young.
//!
//! So the loop is a radix heap of small events, ordered by time and then by insertion. A timer that is reset leaves its
//! old event in the heap, which is ignored when it comes. The standard library's binary heap took a quarter more time
//! for vPFS Table 2 (61a3c30).

mod bounds;
mod calendar;
mod layout;
pub mod model;
mod network;
pub mod parallel;
mod process;
mod read;
mod results;
mod scenario;
mod server;
mod simulation;
mod world;

pub use layout::{Layout, Region, Start};
pub use network::{LinkProfile, Partition, PeerNetwork, Restart};
pub use read::{Files, scenario_manual};
pub use results::{
    AppAtServer, AppResults, CallTrace, CoordinationResults, PartTrace, Results, ServerResults, SimError, Transfer,
    Violation,
};
pub use scenario::{App, PolicySpec, RequestTime, Role, Scenario, ServerGroup, Workload};
pub use simulation::{Progress, Simulation};
