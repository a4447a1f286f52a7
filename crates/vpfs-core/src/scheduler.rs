//! The trait that all policies implement. The crate documentation states the contract for driving it.

use crate::app_policy::{AppPolicy, GroupId};
use crate::event::Event;
use crate::request::{Dispatch, Request, ServiceClass, ServiceReport};
use crate::total::{Reach, TotalKind};
use crate::total_id::TotalId;
use crate::units::{AppId, Bytes, RequestId, Time};

/// Decides which queued request goes to one storage server next.
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

    /// [`Scheduler::enqueue`] for a request that a layer above has held since `arrived`; its [`Dispatch`] reports that
    /// time, so that wait times are complete.
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

    /// Other servers gave `report.app` this much service. Policies that share by server ignore it.
    fn handle_peer(&mut self, _now: Time, _report: ServiceReport) {}

    /// Other servers gave this much service to members of `group` that this server does not know.
    fn handle_strangers(&mut self, _now: Time, _group: GroupId, _class: ServiceClass, _bytes: i64) {}

    /// The next amount to report to other servers. Call until `None`, after every input, as with dispatches.
    fn poll_report(&mut self, _now: Time) -> Option<ServiceReport> {
        None
    }

    /// A message to the other servers goes out anyway: the next calls of [`Scheduler::poll_report`] return all amounts,
    /// also while they are below the threshold. O(1).
    fn report_all(&mut self) {}

    /// Sets how many of the servers that share totals can be reached; [`Reach::ALONE`] until then. O(applications).
    fn set_reach(&mut self, _now: Time, _reach: Reach) {}

    /// Other servers gave this much of an application's total of this kind, or took some back. Ignored by schedulers
    /// that have no such total of it.
    fn handle_total(&mut self, _now: Time, _kind: TotalKind, _report: ServiceReport) {}

    /// What was given here of an application's total since the last report, if it is enough to tell the other servers.
    /// Call until `None`, after every input.
    fn poll_total(&mut self, _now: Time) -> Option<(TotalKind, ServiceReport)> {
        None
    }

    /// Sets the part of a total that may be given here, in bytes per second, whatever other servers give; `None` (as
    /// before the first call): the whole of it, less what they give. Ignored by schedulers that have no such total.
    fn set_part(&mut self, _now: Time, _total: TotalId, _part: Option<u64>) {}

    /// What waits here only because a total does not allow more. O(1).
    fn waiting(&self, _total: TotalId) -> Bytes {
        Bytes::ZERO
    }

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
