//! How the schedulers of different servers report their service to each other [vPFS §III-B].
//!
//! Each server keeps running totals by flow and what is counted of it. A message carries the totals that changed since
//! the version that the peer acknowledged, never differences. So the next message repairs the effects of lost, late,
//! repeated or reordered ones, and after a partition all views converge. The receiver turns totals into differences for
//! its scheduler, which knows nothing about peers.
//!
//! A peer's service counts only if it was given while this server was running and could hear of it: what an older
//! peer gave before it was first heard from, and what any peer gave while it was lost, is a baseline, which is not
//! passed on. So shares are local during a fault, and right after it those of the sum again: nobody has to make up for
//! the time between. A restarted server starts a new incarnation with totals of zero, and the service of the old one
//! stays counted. If its clock went back, so that peers take it for an older one, they tell it which one they know, and
//! it takes a greater one.
//!
//! More servers than [`CoordinationSettings::group_size`] form a tree of groups (`groups`), in which representatives
//! pass on what they hear (`roles`): a message then carries the totals of all servers that its sender stands for, and
//! the number of messages of a server grows with the logarithm of the number of servers.
//!
//! Nothing here does I/O, reads a clock or draws a random number. Memory is bounded by
//! [`CoordinationSettings::max_flows`] for this server and for each peer, traffic by the number of changes: when
//! everything is acknowledged, only keep-alives are sent.
//!
//! # Versions
//!
//! Each change of one of a server's totals takes its next version. A message covers the versions from `base` to `at`,
//! and contains the totals whose latest change is among them. Changes that do not fit into one message wait for its
//! acknowledgement, oldest first, so that the receiver always knows everything up to `at`. Flows that left keep an
//! entry until all live peers know about it, and at least for [`CoordinationSettings::forget_after`]. A peer that was
//! away for longer may know less than the `horizon` of the forgotten changes: it gets all current totals again, and
//! drops flows that are not among them; it then never learns the last service of those flows before they left.
//!
//! # The drive contract
//!
//! 1. Give an input: [`Coordinator::report`], [`Coordinator::flow_arrived`], [`Coordinator::flow_left`],
//!    [`Coordinator::handle_message`], [`Coordinator::handle_timeout`] or [`Coordinator::set_members`], and once after
//!    [`Coordinator::new`], none.
//! 2. Drain [`Coordinator::poll_transmit`], [`Coordinator::poll_service`] and [`Coordinator::poll_event`] until `None`.
//! 3. Ask [`Coordinator::poll_timeout`] when to call `handle_timeout` next, if nothing else happens before.
//!
//! ```
//! use vpfs_node::coordination::*;
//! use vpfs_core::{ServerId, ServiceClass, Time};
//!
//! let servers = [ServerId(0), ServerId(1)];
//! let mut coordinators = servers.map(|me| Coordinator::new(Time::ZERO, me, 1, servers,
//! CoordinationSettings::default())); let climate = FlowKey::of("climate");
//!
//! // Server 0 served 10 MiB; every message is delivered to its peer at once.
//! coordinators[0].report(Time::ZERO, climate, ServiceClass::Data, 10 << 20)?;
//! for now in (0..500).map(Time::from_millis) {
//!     for from in [0, 1] {
//!         coordinators[from].handle_timeout(now);
//!         while let Some((to, message)) = coordinators[from].poll_transmit(now) {
//!             coordinators[to.0 as usize].handle_message(now, servers[from], &message)?;
//!         }
//!     }
//! }
//! assert_eq!(coordinators[1].poll_service(), Some((climate, ServiceClass::Data.into(), 10 << 20)));
//! assert_eq!(coordinators[1].total_service(climate, ServiceClass::Data), Some(10 << 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cluster_totals;
mod coordinator;
mod event;
mod groups;
mod level;
mod link;
mod message;
mod owed;
mod own_totals;
mod peer_table;
mod plausible;
mod roles;
mod settings;
mod traffic;
mod view;

pub use coordinator::Coordinator;
pub use event::Event;
pub use groups::{Groups, Members, Side};
pub use link::PeerState;
pub use message::{Counted, FlowKey, FlowTotal, Message, MessageError, Position, Standing};
pub use own_totals::FlowsExceeded;
pub use settings::CoordinationSettings;
pub use traffic::Traffic;
