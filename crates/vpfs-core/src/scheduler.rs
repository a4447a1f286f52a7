//! The trait that all policies implement. The crate documentation states the contract for driving it.

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::event::Event;
use crate::request::{Dispatch, Request};
use crate::units::{AppId, Bytes, RequestId, Time};

/// Decides which queued request goes to one storage server next.
///
/// What servers tell each other is apart from this, as few policies take part in it:
/// [`SharedService`](crate::SharedService) for shares, [`Totals`](crate::Totals) for what else holds for the sum over
/// all servers.
///
/// Every method is a pure state change: no I/O, no clock. `now` must not decrease from call to call.
///
/// **Bounds.** A scheduler holds one entry for each [`RequestId`] in use; the caller chooses these numbers,
/// and so bounds the memory. Nothing is ever dropped.
///
/// **Panics.** Using an id that is not in use (or enqueuing one that is) is a bug of the caller and panics.
pub trait Scheduler: Send {
    /// Adds a request to its flow's queue. O(log n) in the number of flows, no allocation once the tables
    /// have grown to the ids in use.
    fn enqueue(&mut self, now: Time, request: Request) {
        self.enqueue_held(now, now, &request);
    }

    /// [`Scheduler::enqueue`] for a request that was held back since `arrived`; its [`Dispatch`] reports that time, so
    /// that wait times are complete.
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request);

    /// The next request that may be dispatched now. Call until `None`, after every input.
    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch>;

    /// An outstanding request is complete on the wire; frees its slots and its id.
    fn complete(&mut self, now: Time, id: RequestId);

    /// An outstanding request waits for its client, not for the storage: frees its slots and its id as if it were
    /// complete, but its time says nothing about the storage.
    fn release(&mut self, now: Time, id: RequestId) {
        self.complete(now, id);
    }

    /// Cancels a request, queued or outstanding; refunds its whole cost and frees its slots and its id.
    fn cancel(&mut self, now: Time, id: RequestId);

    /// Replaces the estimated cost of a queued or outstanding request by the real one. Moves the tags of the flow's
    /// later requests by the difference, never below virtual time. The slots of the request do not change; the number
    /// of its objects changes in proportion.
    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes);

    /// Sets all parameters of an application: its weight also for requests that are already queued. Of the others, a
    /// policy applies those that it knows and ignores the rest. An application has [`AppPolicy::default`] until then.
    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy);

    /// Sets all parameters of a share, or, with `None`, says that nothing stands in it any more, so that its number may
    /// be used again. Set a share before the one that is in it. Policies without weights ignore it.
    fn set_share(&mut self, _now: Time, _share: ShareId, _policy: Option<&SharePolicy>) {}

    /// Requests queued, not yet dispatched.
    fn queued(&self) -> usize;

    /// Requests dispatched, not yet complete.
    fn outstanding(&self) -> usize;

    /// The oldest event that has not been polled yet.
    fn poll_event(&mut self) -> Option<(Time, Event)>;

    /// When to call [`Scheduler::handle_timeout`] next; `None` if only other inputs matter.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// The time given by [`Scheduler::poll_timeout`] has come.
    fn handle_timeout(&mut self, _now: Time) {}
}
