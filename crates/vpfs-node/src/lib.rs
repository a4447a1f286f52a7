//! Everything about one storage server that needs no I/O and no clock: the scheduler, the coordination with the nodes
//! of other servers, cost estimates, and the service of each application. The daemon and the simulator drive the same
//! [`Node`].
//!
//! # The drive contract
//!
//! 1. Give one input: [`Node::enqueue`], [`Node::correct_cost`], [`Node::correct_objects`], [`Node::complete`],
//!    [`Node::cancel`], [`Node::set_app`], [`Node::flow_left`], [`Node::learn_size`], [`Node::handle_message`],
//!    [`Node::reconfigure`] or [`Node::handle_timeout`]; after [`Node::new`], none.
//! 2. Call [`Node::poll_transmit`] until `None`, then [`Node::poll_dispatch`] until `None`, then
//!    [`Node::poll_transmit`] until `None` again: a dispatch may produce a report to other servers.
//! 3. Call [`Node::poll_event`] until `None`.
//! 4. Ask [`Node::poll_timeout`] when to call `handle_timeout` if no other input comes first.
//!
//! `now` must not decrease from call to call.
//!
//! ```
//! use vpfs_core::{AppId, AppPolicy, Bytes, Depth, OpKind, PolicyKind, RequestId, ServerId, Settings};
//! use vpfs_core::{SlotCostTable, Time};
//! use vpfs_node::{Arrival, Node, NodeSettings, Served};
//!
//! let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
//! let settings = NodeSettings { policy, metadata_cost: Bytes::kib(8), peers: None };
//! let mut node = Node::new(Time::ZERO, ServerId(0), &settings);
//! let (app, id) = (AppId(0), RequestId(0));
//! node.set_app(Time::ZERO, app, "climate", &AppPolicy::default());
//! node.enqueue(Time::ZERO, id, &Arrival::new(app, OpKind::Write, 1 << 20));
//! assert!(node.poll_transmit(Time::ZERO).is_none(), "it has no peers");
//! assert_eq!(node.poll_dispatch(Time::ZERO).map(|dispatch| dispatch.id), Some(id));
//! let now = Time::from_millis(20);
//! node.complete(now, id, app, &Served { bytes: 1 << 20, ..Served::new(OpKind::Write, Time::ZERO, Time::ZERO) });
//! assert_eq!(node.totals().iter().next().map(|(_, totals)| totals.bytes), Some(1 << 20));
//! ```
#![forbid(unsafe_code)]

mod arrival;
pub mod coordination;
mod costs;
mod event;
mod file_sizes;
mod flows;
mod node;
mod part;
mod parts;
mod peers;
mod totals;

pub use arrival::{Arrival, Served};
pub use event::Event;
pub use flows::AppName;
pub use node::{Node, NodeSettings};
pub use peers::{PeerService, PeerSettings};
pub use totals::{AppTotals, Totals};
