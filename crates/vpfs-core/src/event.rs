//! Typed events: what a scheduler did and why. Logs, metrics, dashboards and snapshot tests read them; the core itself
//! logs nothing.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::request::ServiceClass;
use crate::units::{AppId, Bytes, Depth, RequestId, SlotCost, Time, Weight};

/// One thing that happened in a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after the types and terms documented elsewhere")]
pub enum Event {
    /// A request entered its flow's queue.
    Enqueued { id: RequestId, app: AppId, cost: Bytes },
    /// A request was released to the storage.
    Dispatched { id: RequestId, app: AppId, slot_cost: SlotCost, enqueued_at: Time, backfilled: bool },
    /// The request with the smallest start tag needs more slots than are free; smaller ones may be backfilled. Emitted
    /// once for each request.
    HeadBlocked { id: RequestId, app: AppId, slot_cost: SlotCost, slots_free: u32 },
    /// A request was held back because its application is above its cap; `Enqueued` follows when it is released.
    CapHeld { id: RequestId, app: AppId },
    /// An outstanding request is complete.
    Completed { id: RequestId, app: AppId, cost: Bytes },
    /// A request was cancelled, queued or outstanding; its cost was refunded.
    Cancelled { id: RequestId, app: AppId, cost: Bytes },
    /// The real cost of a request became known.
    CostCorrected { id: RequestId, app: AppId, estimated: Bytes, real: Bytes },
    /// An application's weight was changed.
    WeightChanged { app: AppId, weight: Weight },
    /// The number of slots was changed.
    DepthChanged { depth: Depth },
    /// More than one in ten requests of an application exceed their promised latency (one in twenty, of a deadline),
    /// what the others keep, and why; at most once in ten seconds.
    LatencyMissed { app: AppId, latency: Duration, kept: Duration, cause: MissCause },
    /// An application takes all that it can get (`bulk`), so others are protected from it; or no longer.
    KindChanged { app: AppId, bulk: bool },
    /// A request was completed later than its application was promised [Two-level].
    DeadlineMissed { id: RequestId, app: AppId, late_by: Duration },
    /// Applications got new credits while some of them waited for credits: a period ended, or (early) the storage had
    /// spare capacity for one request [Two-level].
    Replenished { early: bool },
    /// Other servers reported that they gave `app` this much service (below zero: a refund). Of all that they reported,
    /// `pending` has not delayed its requests here yet.
    PeerService { app: AppId, class: ServiceClass, bytes: i64, pending: Bytes },
    /// Other servers are informed that `app` requested this much service here (below zero: a refund).
    Reported { app: AppId, class: ServiceClass, bytes: i64 },
    /// Nothing is queued and nothing outstanding any more.
    Idle,
    /// This many events were dropped because they were not polled in time.
    Lost { events: u64 },
}

/// Why a promised latency cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissCause {
    /// The application asks for more than its share, or than its target.
    MoreThanItsShare,
    /// Bulk already gets no more than its share. A larger weight for the application, smaller calls by the others or
    /// faster storage would help.
    BulkAtItsShare,
}

/// A bounded queue of events with their times.
///
/// If the queue is full, a new event is counted but not kept, and [`Event::Lost`] reports the count. A capacity of zero
/// switches events off. O(1) each, no allocation once it has grown to what is kept between two polls: a driver that
/// polls after each input needs few places, and the same ones stay in the processor's cache.
#[derive(Debug, Default)]
pub struct EventQueue {
    events: VecDeque<(Time, Event)>,
    capacity: usize,
    lost: u64,
    lost_at: Time,
}

impl EventQueue {
    /// An empty queue for at most `capacity` events.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { events: VecDeque::new(), capacity, lost: 0, lost_at: Time::ZERO }
    }

    /// Keeps `event`, or counts it as lost if the queue is full.
    pub fn push(&mut self, now: Time, event: Event) {
        if self.events.len() < self.capacity {
            self.events.push_back((now, event));
        } else if self.capacity > 0 {
            self.lost += 1;
            self.lost_at = now;
        }
    }

    /// The oldest event; after the last one, the number of events lost since then.
    pub fn poll(&mut self) -> Option<(Time, Event)> {
        if let Some(event) = self.events.pop_front() {
            if self.events.is_empty() {
                // The next one takes the first place, which is in the processor's cache, and not the next place.
                self.events.clear();
            }
            return Some(event);
        }
        let events = core::mem::take(&mut self.lost);
        (events > 0).then_some((self.lost_at, Event::Lost { events }))
    }
}
