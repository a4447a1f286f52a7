//! SFQ(D) and SFQ(D)+ [vPFS+ §III]: shares in proportion to weights, with as many outstanding requests as the storage
//! handles at once.
//!
//! One engine implements both: SFQ(D) is SFQ(D)+ with every request occupying one slot.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::dsfq::{Change, SharedService};
use crate::engine::{Engine, Handover};
use crate::event::{Event, EventQueue};
use crate::fair::{FairQueue, Queued};
use crate::list::{Links, Node};
use crate::request::{Dispatch, OpKind, Request, Rule, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::{Backfill, PolicyKind, Settings, Sharing};
use crate::slot_cost::SlotCostTable;
use crate::tags::Head;
use crate::units::{AppId, Bytes, Depth, RequestId, SlotCost, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Outstanding,
}

/// One request; as large as a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct SfqEntry {
    position: u128,
    arrival: u64,
    cost: Bytes,
    enqueued_at: Time,
    links: Links,
    app: AppId,
    /// Outstanding: the slots that it occupies.
    granted: SlotCost,
    /// Queued: slots that were backfilled while it was the blocked head.
    passed_by: u32,
    /// Queued: its lane, which is its slot cost.
    lane: u8,
    op: OpKind,
    state: State,
    /// Queued: it has been the blocked head.
    blocked: bool,
}

const _: () = assert!(size_of::<Option<SfqEntry>>() == 64, "one cache line");

impl SfqEntry {
    /// A request that is charged, and about to be queued.
    fn new(request: &Request, enqueued_at: Time, arrival: u64, position: u128, lane: u8) -> Self {
        let Request { app, op, cost, .. } = *request;
        Self {
            position,
            arrival,
            cost,
            enqueued_at,
            links: Links::UNLINKED,
            app,
            granted: SlotCost::ONE,
            passed_by: 0,
            lane,
            op,
            state: State::Queued,
            blocked: false,
        }
    }
}

impl Node for SfqEntry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Queued for SfqEntry {
    fn app(&self) -> AppId {
        self.app
    }

    fn arrival(&self) -> u64 {
        self.arrival
    }

    fn position(&self) -> u128 {
        self.position
    }

    fn charged(&self) -> Bytes {
        self.cost
    }
}

/// The slots of the storage: no dispatch raises Σ L of the outstanding requests above D [vPFS+ §III-B].
#[derive(Debug)]
struct Slots {
    depth: Depth,
    /// May exceed `depth` after the depth was lowered; then nothing is dispatched until enough requests complete.
    used: u64,
}

impl Slots {
    fn new(depth: Depth) -> Self {
        Self { depth, used: 0 }
    }

    /// Sets the depth; returns whether it changed.
    fn set_depth(&mut self, depth: Depth) -> bool {
        core::mem::replace(&mut self.depth, depth) != depth
    }

    /// Slots that are not occupied.
    fn free(&self) -> u32 {
        u32::try_from(self.used).map_or(0, |used| self.depth.get().saturating_sub(used))
    }

    /// The slots that a request of `cost` occupies: at most the depth, otherwise it could never be dispatched.
    fn clamp(&self, cost: SlotCost) -> SlotCost {
        cost.clamp_to(self.depth)
    }

    fn occupy(&mut self, cost: SlotCost) {
        self.used += u64::from(cost.get());
    }

    fn release(&mut self, cost: SlotCost) {
        debug_assert!(self.used >= u64::from(cost.get()), "slots are released once");
        self.used -= u64::from(cost.get());
    }
}

/// The SFQ(D) and SFQ(D)+ scheduler for one storage server.
///
/// Applications have weight 1 until [`Scheduler::set_app`]. Operations are O(log n) in the number of flows, times
/// the few distinct slot costs where tags move; a queue is never walked.
#[derive(Debug)]
pub struct Sfq {
    /// With a lane for each slot cost,
    queue: FairQueue<SfqEntry>,
    /// which are these, ascending.
    lanes: Vec<SlotCost>,
    table: SlotCostTable,
    slots: Slots,
    backfill: Backfill,
    outstanding: usize,
    events: EventQueue,
}

impl Sfq {
    /// A scheduler for storage with `depth` slots that keeps at most `event_capacity` events between polls.
    ///
    /// [`SlotCostTable::uniform`] gives SFQ(D), any other table SFQ(D)+.
    pub fn new(depth: Depth, slot_costs: SlotCostTable, event_capacity: usize) -> Self {
        let lanes = slot_costs.distinct();
        Self {
            queue: FairQueue::new(lanes.len()),
            lanes,
            table: slot_costs,
            slots: Slots::new(depth),
            backfill: Backfill::default(),
            outstanding: 0,
            events: EventQueue::with_capacity(event_capacity),
        }
    }

    /// A scheduler with `settings`.
    pub(crate) fn of(settings: &Settings, event_capacity: usize) -> Self {
        let mut sfq = Self::new(settings.depth, slot_costs(settings), event_capacity);
        sfq.set_sharing(settings.sharing);
        sfq.set_backfill(settings.backfill);
        sfq
    }

    /// Changes the number of slots. Outstanding requests stay; while they use more than `depth`, nothing is dispatched.
    /// Queued requests that need more than `depth` will occupy `depth`. O(1).
    pub fn set_depth(&mut self, now: Time, depth: Depth) {
        if self.slots.set_depth(depth) {
            self.events.push(now, Event::DepthChanged { depth });
        }
    }

    /// Changes which requests may pass a blocked one from now on. O(1).
    pub fn set_backfill(&mut self, backfill: Backfill) {
        self.backfill = backfill;
    }

    /// Changes the scope of the shares, which is each server at first; see [`crate::dsfq`]. Tags stay. O(applications).
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.queue.set_sharing(sharing);
    }

    /// Changes the slot costs of queued and later requests. Tags stay, and outstanding requests keep their slots. O(n
    /// log n) in queued requests, unless nothing changes.
    pub fn set_slot_costs(&mut self, slot_costs: SlotCostTable) {
        if self.table == slot_costs {
            return;
        }
        self.lanes = slot_costs.distinct();
        self.table = slot_costs;
        self.queue.set_lanes(self.lanes.len());
        for id in self.in_state(State::Queued) {
            let SfqEntry { op, cost, .. } = *self.queue.requests.get(id);
            let lane = self.lane(op, cost);
            self.queue.requests.get_mut(id).lane = lane;
            self.queue.push(lane.into(), id);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a table has at most 2 * MAX_ROWS + 1 slot costs")]
    fn lane(&self, op: OpKind, cost: Bytes) -> u8 {
        let slot_cost = self.table.slot_cost(op, cost);
        self.lanes.iter().take_while(|lane| **lane < slot_cost).count() as u8
    }

    /// All requests in `state`, by arrival. O(n log n).
    fn in_state(&self, state: State) -> Vec<RequestId> {
        let entries = self.queue.requests.iter_ids().filter(|(_, entry)| entry.state == state);
        let mut ids: Vec<_> = entries.map(|(id, entry)| (entry.arrival(), id)).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    /// The queued request with the smallest start tag, and its unclamped slot cost, among those whose slot cost `fits`.
    fn first(&self, fits: impl Fn(SlotCost) -> bool) -> Option<(Head, SlotCost)> {
        let fitting = self.lanes.iter().enumerate().filter(|(_, slot_cost)| fits(**slot_cost));
        fitting.filter_map(|(lane, cost)| Some((self.queue.first(lane)?, *cost))).min_by_key(|(first, _)| *first)
    }

    /// Takes a queued request out of the queue.
    fn dequeue(&mut self, id: RequestId) {
        let lane = self.queue.requests.get(id).lane;
        self.queue.remove(lane.into(), id);
    }

    /// Charges a request to its flow and queues it.
    fn admit(&mut self, enqueued_at: Time, request: &Request) {
        let Request { id, app, op, cost, .. } = *request;
        let delay = match self.queue.ledger.is_local() {
            true => Bytes::ZERO,
            false => self.queue.delay(request, cost),
        };
        let (arrival, lane) = (self.queue.next_arrival(), self.lane(op, cost));
        let position = self.queue.charge(app, arrival, [cost, delay]);
        self.queue.requests.insert(id, SfqEntry::new(request, enqueued_at, arrival, position, lane));
        self.queue.push(lane.into(), id);
    }

    /// Counts a request that left the queue as outstanding; returns when it was enqueued.
    fn occupy(&mut self, id: RequestId, slot_cost: SlotCost) -> Time {
        self.slots.occupy(slot_cost);
        self.outstanding += 1;
        let entry = self.queue.requests.get_mut(id);
        entry.state = State::Outstanding;
        entry.granted = slot_cost;
        entry.enqueued_at
    }

    /// Dispatches `chosen`, which is either `head`, the request with the smallest tag, or backfilled while that one is
    /// blocked.
    fn dispatch(&mut self, now: Time, chosen: Head, slot_cost: SlotCost, head: Head) -> Dispatch {
        let Head { id, app, .. } = chosen;
        debug_assert!(slot_cost.get() <= self.slots.free(), "a dispatched request fits");
        self.dequeue(id);
        let enqueued_at = self.occupy(id, slot_cost);
        // A backfilled request has a larger tag, but must not carry v past the blocked head.
        self.queue.clock.advance(head.start);
        self.queue.settle(app);
        let backfilled = id != head.id;
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces: None, rule: Rule::Share }
    }

    /// `head` has the smallest tag but needs more slots than are free: dispatches the request with the smallest tag
    /// that fits, until others got as many slots as the head needs.
    ///
    /// [vPFS+ §III-C] stops when the promoted requests' slots "equal or exceed" those of the head. Deviation: they
    /// never exceed them, so the head waits for no more than what was outstanding and its own number of slots.
    ///
    /// Deviation: no flow gets further ahead than to the head's finish tag, unless [`Backfill::Paper`] is set.
    /// Otherwise, for each large request, a flow of small requests would get as many slots as that one needs, however
    /// small its weight is.
    fn backfill(&mut self, now: Time, head: Head, head_cost: SlotCost) -> Option<Dispatch> {
        let slots_free = self.slots.free();
        let blocked = self.queue.requests.get_mut(head.id);
        let room = slots_free.min(head_cost.get().saturating_sub(blocked.passed_by));
        if !core::mem::replace(&mut blocked.blocked, true) {
            let Head { id, app, .. } = head;
            self.events.push(now, Event::HeadBlocked { id, app, slot_cost: head_cost, slots_free });
        }
        let (chosen, slot_cost) = self.first(|cost| self.slots.clamp(cost).get() <= room)?;
        if self.backfill == Backfill::Bounded && chosen.start > self.queue.finish(head) {
            return None;
        }
        self.queue.requests.get_mut(head.id).passed_by += slot_cost.get();
        Some(self.dispatch(now, chosen, slot_cost, head))
    }

    fn end_if_idle(&mut self, now: Time) {
        self.queue.end_if_idle(now, self.outstanding, &mut self.events);
    }

    /// Ends an outstanding request, whose charge stays.
    #[inline]
    fn finish(&mut self, now: Time, id: RequestId) {
        let entry = self.queue.requests.remove(id);
        self.free(&entry);
        self.queue.ledger.complete(id);
        self.events.push(now, Event::Completed { id, app: entry.app, cost: entry.cost });
    }

    /// Frees what an outstanding request occupied.
    fn free(&mut self, entry: &SfqEntry) {
        assert!(entry.state == State::Outstanding, "only a dispatched request can be complete");
        self.slots.release(entry.granted);
        self.outstanding -= 1;
    }
}

impl Engine for Sfq {
    fn reconfigure(&mut self, now: Time, _before: &Settings, settings: &Settings) -> bool {
        let same = matches!(settings.kind, PolicyKind::SfqD | PolicyKind::SfqDPlus);
        if same {
            self.set_depth(now, settings.depth);
            self.set_slot_costs(slot_costs(settings));
            self.set_sharing(settings.sharing);
            self.set_backfill(settings.backfill);
        }
        same
    }

    fn hand_over(self: Box<Self>) -> Handover {
        let all = |state| self.in_state(state).into_iter().map(|id| self.request(id)).collect();
        Handover { outstanding: all(State::Outstanding), queued: all(State::Queued), events: self.events }
    }

    fn request(&self, id: RequestId) -> (Time, Request) {
        let SfqEntry { app, op, cost, enqueued_at, .. } = *self.queue.requests.get(id);
        (enqueued_at, Request::new(id, app, op, cost))
    }

    /// Outstanding requests are charged as if they had been dispatched here, even if they exceed the depth.
    fn take_over(&mut self, _now: Time, handover: Handover) {
        for (enqueued_at, request) in handover.outstanding {
            let id = request.id;
            self.admit(enqueued_at, &request);
            self.dequeue(id);
            self.occupy(id, self.slots.clamp(self.table.slot_cost(request.op, request.cost)));
        }
        for (enqueued_at, request) in handover.queued {
            self.admit(enqueued_at, &request);
        }
        self.events = handover.events;
    }

    fn shared(&mut self) -> Option<&mut dyn SharedService> {
        Some(self)
    }
}

/// Under SFQ(D) every request occupies one slot.
fn slot_costs(settings: &Settings) -> SlotCostTable {
    match settings.kind {
        PolicyKind::SfqDPlus => settings.slot_costs.clone(),
        _ => SlotCostTable::uniform(),
    }
}

impl Scheduler for Sfq {
    /// S = max(v, F of the flow's previous request + delay/φ), F = S + c/φ [vPFS+ §III-A, vPFS §III-B].
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        self.admit(arrived, request);
        let Request { id, app, cost, .. } = *request;
        self.events.push(now, Event::Enqueued { id, app, cost });
    }

    /// Dispatches the queued request with the smallest start tag, equal tags in order of arrival; while that one does
    /// not fit the free slots, backfills smaller ones [vPFS+ §III-C, Algorithm 1].
    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        let free = self.slots.free();
        if free == 0 {
            return None;
        }
        self.queue.pass_departures();
        let (head, cost) = self.first(|_| true)?;
        let cost = self.slots.clamp(cost);
        if cost.get() <= free { Some(self.dispatch(now, head, cost, head)) } else { self.backfill(now, head, cost) }
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.finish(now, id);
        self.end_if_idle(now);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.complete(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let entry = *self.queue.requests.get(id);
        if entry.state == State::Queued {
            self.dequeue(id);
        } else {
            self.free(&entry);
        }
        self.queue.requests.remove(id);
        let SfqEntry { app, op, cost, .. } = entry;
        let refund = self.queue.ledger.cancel(Change::new(id, app, op, [cost, Bytes::ZERO]));
        self.queue.correct(app, entry.arrival(), refund);
        self.events.push(now, Event::Cancelled { id, app, cost });
        self.end_if_idle(now);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let entry = self.queue.requests.get_mut(id);
        let estimated = core::mem::replace(&mut entry.cost, real);
        let (app, op, arrival) = (entry.app, entry.op, entry.arrival());
        let delta = self.queue.ledger.correct(Change::new(id, app, op, [estimated, real]));
        self.queue.correct(app, arrival, delta);
        self.events.push(now, Event::CostCorrected { id, app, estimated, real });
    }

    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        self.queue.set_app(app, policy);
        self.events.push(now, Event::WeightChanged { app, weight: policy.weight });
    }

    fn set_share(&mut self, _now: Time, share: ShareId, policy: Option<&SharePolicy>) {
        self.queue.set_share(share, policy);
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }
}

impl SharedService for Sfq {
    /// Delays the flow's next requests [vPFS §III-B1]; see [`crate::dsfq`].
    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        if self.queue.ledger.is_local() {
            return;
        }
        self.queue.hear(now, report, &mut self.events);
    }

    fn handle_strangers(&mut self, _now: Time, share: ShareId, _class: ServiceClass, bytes: i64) {
        if !self.queue.ledger.is_local() {
            self.queue.hear_of_strangers(share, bytes);
        }
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.queue.ledger.poll_report(now, &mut self.events)
    }

    fn report_all(&mut self) {
        self.queue.ledger.report_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::VirtualTime;
    use crate::units::Weight;

    /// Symptom: memory grows while an application enqueues and cancels requests behind a waiting one. Cause: each
    /// refund was deferred separately until that one leaves. Proof: the corrections are bounded by the queued requests,
    /// and all refunds arrive in the end.
    #[test]
    fn refunds_that_wait_do_not_pile_up() {
        let app = AppId(0);
        let mut sfq = Sfq::new(Depth::new(1).unwrap(), SlotCostTable::uniform(), 0);
        let enqueue =
            |sfq: &mut Sfq, id| sfq.enqueue(Time::ZERO, Request::new(RequestId(id), app, OpKind::Write, Bytes::mib(1)));
        (0..2).for_each(|id| enqueue(&mut sfq, id));
        assert!(sfq.poll_dispatch(Time::ZERO).is_some());
        for _ in 0..20_000 {
            enqueue(&mut sfq, 2);
            sfq.cancel(Time::ZERO, RequestId(2));
            assert!(sfq.queue.corrections_of(app) <= 2, "one request is queued");
        }
        sfq.complete(Time::ZERO, RequestId(0));
        assert!(sfq.poll_dispatch(Time::ZERO).is_some() && sfq.queue.corrections_of(app) == 0);
        enqueue(&mut sfq, 2);
        let start = sfq.queue.oldest(app).map(|head| head.start);
        assert_eq!(start, Some(VirtualTime::of(Bytes::mib(2), Weight::ONE)), "all is refunded");
    }
}
