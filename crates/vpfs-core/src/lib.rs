//! The pure core of vpfs: requests, the applications that they belong to, their costs, and the scheduling policies.
//!
//! Nothing here reads a clock, does I/O, starts a thread or knows a protocol. Time is an argument and
//! outputs are polled, so the daemon and the simulator run the same code and equal inputs give equal
//! outputs, byte for byte.
//!
//! # The drive contract
//!
//! 1. Give an input: [`Scheduler::enqueue`], [`Scheduler::complete`], [`Scheduler::cancel`],
//!    [`Scheduler::correct_cost`] or [`Scheduler::handle_timeout`], or what other servers say
//!    ([`SharedService::handle_peer`], [`Totals::hear`]), with a `now` that never decreases.
//! 2. Call [`Scheduler::poll_dispatch`] until it returns `None`, likewise [`SharedService::poll_report`] and
//!    [`Policy::poll_total`] if servers coordinate, then [`Scheduler::poll_event`].
//! 3. Ask [`Scheduler::poll_timeout`] when to call `handle_timeout` next, if there is no input before.
//!
//! ```
//! use vpfs_core::*;
//!
//! /// Call after every input. Dispatches all requests that may be dispatched; returns the next deadline.
//! fn drain(scheduler: &mut impl Scheduler, now: Time, storage: &mut Vec<RequestId>) -> Option<Time> {
//!     while let Some(dispatch) = scheduler.poll_dispatch(now) {
//!         storage.push(dispatch.id);
//!     }
//!     while let Some((_at, _event)) = scheduler.poll_event() { /* metrics, log */ }
//!     scheduler.poll_timeout()
//! }
//!
//! let depth = Depth::new(14).expect("not zero");
//! let settings = Settings::new(PolicyKind::SfqDPlus, depth, SlotCostTable::default());
//! let mut scheduler = Policy::new(&settings, 64);
//! let (mut storage, mut now) = (Vec::new(), Time::ZERO);
//! let policy = AppPolicy { cap: Cap::new(1 << 30, Bytes::mib(4)), ..AppPolicy::default() };
//! scheduler.set_app(now, AppId(0), &policy);
//! for id in 0..6 {
//!     let request = Request::new(RequestId(id), AppId(0), OpKind::Write, Bytes::mib(2));
//!     scheduler.enqueue(now, request);
//!     drain(&mut scheduler, now, &mut storage);
//! }
//! while scheduler.queued() + scheduler.outstanding() > 0 {
//!     match storage.pop() {
//!         Some(id) => scheduler.complete(now, id),
//!         None => {
//!             now = scheduler.poll_timeout().expect("the cap holds requests back");
//!             scheduler.handle_timeout(now);
//!         }
//!     }
//!     drain(&mut scheduler, now, &mut storage);
//! }
//! assert!(now > Time::ZERO && now < Time::from_millis(8));
//! ```
#![no_std]
extern crate alloc;

mod app_policy;
mod caps;
mod constants;
pub mod dsfq;
mod engine;
pub mod event;
mod fair;
pub mod fairness;
pub mod fifo;
pub mod hash;
mod heap;
pub mod ioco;
pub mod isolation;
mod list;
mod member;
mod minima;
pub mod pace;
mod policies;
pub mod policy;
mod prices;
pub mod request;
pub mod scheduler;
pub mod settings;
pub mod sfq;
mod shares;
pub mod slot_cost;
pub mod stripe;
mod table;
mod tags;
#[cfg(feature = "testing")]
pub mod testing;
pub mod total;
mod totals;
pub mod two_level;
pub mod units;
mod unstored_limit;

pub use app_policy::{AppPolicy, Cap, Minimum, ShareId, SharePolicy};
pub use constants::Constants;
pub use dsfq::SharedService;
pub use engine::{Learned, Limits};
pub use event::{Event, EventQueue, MissCause};
pub use fifo::Fifo;
pub use ioco::Ioco;
pub use isolation::Isolation;
pub use member::Member;
pub use pace::Pacing;
pub use policies::Capabilities;
pub use policy::Policy;
pub use request::{
    Dispatch, FilePosition, MIN_DATA_COST, OpKind, Pieces, Request, Rule, ServiceClass, ServiceReport, Target,
};
pub use scheduler::Scheduler;
pub use settings::{
    Backfill, Deadlines, IocoSettings, PolicyKind, Protection, Settings, Sharing, SharingMode, TwoLevelSettings,
    WindowOrder,
};
pub use sfq::Sfq;
pub use slot_cost::SlotCostTable;
pub use total::{Reach, Scope, TotalKind};
pub use totals::{TotalId, Totals};
pub use two_level::TwoLevel;
pub use units::{AppId, Bytes, Depth, FileKey, Objects, RequestId, ServerId, SlotCost, Time, VirtualTime, Weight};
pub use unstored_limit::UnstoredLimit;
