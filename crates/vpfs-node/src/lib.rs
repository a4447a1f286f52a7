//! Everything about one storage server that needs no I/O and no clock: the scheduler, the coordination with the nodes
//! of other servers, cost estimates, the requests and who waits for each, and the service of each application. The
//! daemon and the simulator drive the same [`Node`].
//!
//! # The drive contract
//!
//! 1. Give one input: [`Node::enqueue`], [`Node::correct_cost`], [`Node::correct_objects`], [`Node::complete`],
//!    [`Node::cancel`], [`Node::set_app`], [`Node::flow_left`], [`Node::learn_size`], [`Node::handle_message`],
//!    [`Node::reconfigure`] or [`Node::handle_timeout`]; after [`Node::new`], none.
//! 2. Call [`Node::drain`], which passes all that follows to the driver's [`Outputs`], and returns when to call
//!    `handle_timeout` if no other input comes first.
//!
//! `now` must not decrease from call to call.
//!
//! ```
//! use vpfs_core::{AppId, AppPolicy, Bytes, Depth, Dispatch, OpKind, PolicyKind, ServerId, Settings};
//! use vpfs_core::{SlotCostTable, Time};
//! use vpfs_node::{Arrival, Event, Node, NodeSettings, Outputs, PeerMessage, RequestKey, Served};
//!
//! /// The clients to which the storage's answers go.
//! #[derive(Default)]
//! struct Dispatched(Vec<&'static str>);
//!
//! impl Outputs<&'static str> for Dispatched {
//!     fn transmit(&mut self, messages: impl Iterator<Item = (ServerId, PeerMessage)>) {
//!         assert_eq!(messages.count(), 0, "it has no peers");
//!     }
//!     fn dispatch(&mut self, client: &&'static str, _: RequestKey, _: &Dispatch) {
//!         self.0.push(client);
//!     }
//!     fn event(&mut self, _: Time, _: Event) {}
//! }
//!
//! let policy = Settings::new(PolicyKind::Fifo, Depth::ONE, SlotCostTable::default());
//! let settings = NodeSettings { policy, metadata_cost: Bytes::kib(8), peers: None };
//! let mut node = Node::new(Time::ZERO, ServerId(0), &settings);
//! let (app, mut dispatched) = (AppId(0), Dispatched::default());
//! node.set_app(Time::ZERO, app, "climate", &AppPolicy::default());
//! let request = node.enqueue(Time::ZERO, "client", &Arrival::new(app, OpKind::Write, 1 << 20));
//! node.drain(Time::ZERO, &mut dispatched);
//! assert_eq!(dispatched.0, ["client"]);
//! let now = Time::from_millis(20);
//! node.complete(now, request, &Served { bytes: 1 << 20, ..Served::new(OpKind::Write, Time::ZERO, Time::ZERO) });
//! assert_eq!(node.snapshot(now).apps[0].account.write.bytes, 1 << 20);
//! ```
#![forbid(unsafe_code)]

mod accounts;
mod arrival;
pub mod coordination;
mod flows;
pub mod frames;
mod in_storage;
pub mod mesh;
mod node;
mod pace;
mod part;
mod peers;
mod requests;
mod unstored;
mod used;

pub use accounts::{Activity, AppAccount, Histogram, Wait, WaitedFor};
pub use arrival::{Arrival, Served};
pub use flows::{AppName, InShare, NamedShare};
pub use in_storage::{Alike, Quiet, Situation, StorageTimes};
pub use node::{AppSnapshot, AppTotals, Event, Node, NodeSettings, Outputs, Snapshot};
pub use pace::PaceMessage;
pub use peers::{PeerMessage, PeerService, PeerSettings};
pub use requests::RequestKey;
pub use unstored::Unstored;
