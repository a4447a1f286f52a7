//! The pure core of vpfs: what a request is, who it belongs to, what it costs, and when it may go.
//!
//! Nothing here reads a clock, does I/O, starts a thread or knows a protocol. Time is an argument and
//! outputs are polled, so the daemon and the simulator run the same code and equal inputs give equal
//! outputs, byte for byte.
//!
//! # The drive contract
//!
//! 1. Give an input: [`Scheduler::enqueue`], [`Scheduler::complete`], [`Scheduler::cancel`],
//!    [`Scheduler::correct_cost`] or [`Scheduler::handle_timeout`], with a `now` that never goes back.
//! 2. Drain [`Scheduler::poll_dispatch`] until `None`, then [`Scheduler::poll_event`] until `None`.
//! 3. Ask [`Scheduler::poll_timeout`] when to call `handle_timeout` next, if nothing else happens before.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
extern crate alloc;

pub mod cap;
pub mod event;
pub mod fairness;
pub mod fifo;
mod heap;
mod list;
pub mod policy;
pub mod request;
pub mod scheduler;
pub mod sfq;
pub mod slot_cost;
pub mod stripe;
#[cfg(feature = "testing")]
pub mod testing;
pub mod units;

pub use cap::{Cap, Capped};
pub use event::{Event, EventQueue};
pub use fifo::Fifo;
pub use policy::{Policy, PolicyKind, Settings};
pub use request::{Dispatch, OpKind, Request};
pub use scheduler::{Capabilities, Scheduler};
pub use sfq::Sfq;
pub use slot_cost::SlotCostTable;
pub use units::{AppId, Bytes, Depth, RequestId, ServerId, SlotCost, Time, VirtualTime, Weight};
