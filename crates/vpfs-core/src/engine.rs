//! What a policy needs besides `Scheduler` so that it can be exchanged for another one while requests are in use, and
//! what it tells of itself.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::dsfq::SharedService;
use crate::event::EventQueue;
use crate::member::Member;
use crate::pace::{Pacing, TriedRate};
use crate::request::Request;
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::totals::Totals;
use crate::units::{AppId, Bytes, Depth, RequestId, Time};

/// What limits the work in the storage at the moment, for people who look into a scheduler; `None` for what a policy
/// does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests in the storage, of `two-level` (its Lo).
    pub depth: Option<Depth>,
    /// The rate of bulk while it is paced, in bytes per second; each access counts 64 KiB more.
    pub pace: Option<u64>,
}

/// What a policy has learned at run time and can take back after a restart, as plain data: for a successor, or a file.
///
/// Only what makes the first seconds bad without it is kept; the rest is learned again at once. It may come from
/// another version, or from a time when the storage was another one. So a policy takes any values, limits them to what
/// it could have learned itself, and continues to learn from there: what is wrong is corrected as after a change of the
/// storage.
///
/// By [`Isolation`](crate::Isolation); other policies learn nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The best rate of bulk, 0 if unknown, and the most that it was served, in cost per second.
    pub best: u64,
    /// See `best`.
    pub most: u64,
    /// The usual cost of a request of bulk.
    pub usual: u64,
    /// How long such a request takes alone, 0 if unknown.
    pub alone_ns: u64,
}

/// A scheduler that can be exchanged for another one.
pub(crate) trait Engine: Scheduler + Debug {
    /// Changes from the settings `before` to `settings`. Returns `false`, and changes nothing, if the settings need a
    /// new engine.
    fn reconfigure(&mut self, now: Time, before: &Settings, settings: &Settings) -> bool;

    /// All requests, for another engine.
    fn hand_over(self: Box<Self>) -> Handover;

    /// The requests of another engine; call while there are none here.
    fn take_over(&mut self, now: Time, handover: Handover);

    /// A request in use, and when it was enqueued.
    fn request(&self, id: RequestId) -> (Time, Request);

    /// Its shares for the sum over all servers, if it has such.
    fn shared(&mut self) -> Option<&mut dyn SharedService> {
        None
    }

    /// The rates that it keeps, if it does.
    fn totals(&mut self) -> Option<&mut Totals> {
        None
    }

    /// The pace of bulk, if it has one that several servers can share.
    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        None
    }

    /// The clock that all servers go by is this far ahead of the caller's; behind it if negative.
    fn set_clock(&mut self, _ahead_ns: i64) {}

    /// What waits of a member only because its rate does not allow more. O(1), or O(applications) for a share.
    fn waiting(&self, _of: Member) -> Bytes {
        Bytes::ZERO
    }

    /// What it has learned and would have to learn again after a restart; `None` if nothing.
    fn learned(&self, _now: Time) -> Option<Learned> {
        None
    }

    /// Continues from what an earlier one had learned; call before the first request.
    fn remember(&mut self, _now: Time, _learned: &Learned) {}

    /// What limits the work in the storage now.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The applications that go at the pace of bulk, in order.
    fn bulk(&self) -> &[AppId] {
        &[]
    }

    /// What rates of bulk were recently worth, if that is decided here.
    fn tried_rates(&self) -> Vec<TriedRate<AppId>> {
        Vec::new()
    }
}

/// The requests that one engine gives to the next, each with the time at which it was enqueued.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) outstanding: Vec<(Time, Request)>,
    /// In order of arrival.
    pub(crate) queued: Vec<(Time, Request)>,
    pub(crate) events: EventQueue,
}
