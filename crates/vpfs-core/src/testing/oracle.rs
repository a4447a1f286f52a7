//! SFQ(D)+ as the paper's text says it: one list, explicit tags, linear scans.
//!
//! Shares no code with [`crate::Sfq`] but the types. Equal to it, event for event, where tags are exact: when every cost
//! is a multiple of every weight (for example costs in multiples of 840 and weights up to 8).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::event::{Event, EventQueue};
use crate::request::{Dispatch, Request};
use crate::scheduler::{Capabilities, Scheduler};
use crate::slot_cost::SlotCostTable;
use crate::units::{AppId, Bytes, Depth, RequestId, SlotCost, Time, VirtualTime, Weight};

/// The slow, obvious SFQ(D)+.
#[derive(Debug)]
pub struct Oracle {
    depth: Depth,
    slot_costs: SlotCostTable,
    virtual_time: i128,
    arrivals: u64,
    flows: BTreeMap<AppId, Flow>,
    /// In order of arrival.
    queue: Vec<Entry>,
    outstanding: Vec<Entry>,
    events: EventQueue,
}

#[derive(Debug)]
struct Flow {
    weight: Weight,
    finish: i128,
    /// Arrival of a corrected request, and by how many bytes, while older requests are queued.
    corrections: Vec<(u64, i128)>,
}

#[derive(Clone, Debug)]
struct Entry {
    request: Request,
    enqueued_at: Time,
    arrival: u64,
    start: i128,
    slot_cost: SlotCost,
    passed_by: u32,
    blocked: bool,
}

impl Oracle {
    /// As [`crate::Sfq::new`].
    pub fn new(depth: Depth, slot_costs: SlotCostTable, event_capacity: usize) -> Self {
        Self {
            depth,
            slot_costs,
            virtual_time: 0,
            arrivals: 0,
            flows: BTreeMap::new(),
            queue: Vec::new(),
            outstanding: Vec::new(),
            events: EventQueue::with_capacity(event_capacity),
        }
    }

    /// As [`crate::Sfq::set_depth`].
    pub fn set_depth(&mut self, now: Time, depth: Depth) {
        if depth != self.depth {
            self.depth = depth;
            self.events.push(now, Event::DepthChanged { depth });
        }
    }

    /// As [`crate::Sfq::set_slot_costs`].
    pub fn set_slot_costs(&mut self, slot_costs: SlotCostTable) {
        if slot_costs != self.slot_costs {
            for entry in &mut self.queue {
                entry.slot_cost = slot_costs.slot_cost(entry.request.op, entry.request.cost);
            }
            self.slot_costs = slot_costs;
        }
    }

    /// Σ L of what is outstanding.
    pub fn slots_used(&self) -> u32 {
        self.outstanding.iter().map(|entry| entry.slot_cost.get()).sum()
    }

    fn flow(&mut self, app: AppId) -> &mut Flow {
        self.flows.entry(app).or_insert(Flow { weight: Weight::ONE, finish: 0, corrections: Vec::new() })
    }

    /// Where in the queue the smallest request that fits `slots` is.
    fn smallest(&self, slots: u32) -> Option<usize> {
        let fits = |entry: &&Entry| entry.slot_cost.clamp_to(self.depth).get() <= slots;
        let least = self.queue.iter().filter(fits).min_by_key(|entry| (entry.start, entry.arrival))?;
        self.queue.iter().position(|entry| entry.arrival == least.arrival)
    }

    fn dispatch(&mut self, now: Time, chosen: usize, head_start: i128, backfilled: bool) -> Dispatch {
        let mut entry = self.queue.remove(chosen);
        entry.slot_cost = entry.slot_cost.clamp_to(self.depth);
        self.virtual_time = self.virtual_time.max(entry.start.min(head_start));
        let Entry { request: Request { id, app, .. }, enqueued_at, slot_cost, .. } = entry;
        self.outstanding.push(entry);
        self.apply_corrections(app);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Dispatch { id, app, enqueued_at, slot_cost, backfilled }
    }

    fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.flow(app).corrections.push((arrival, delta));
        self.apply_corrections(app);
    }

    /// Moves a flow's tags by the corrections that no older request waits before, together, never below v.
    fn apply_corrections(&mut self, app: AppId) {
        let oldest = self.queue.iter().find(|entry| entry.request.app == app).cloned();
        let before = oldest.as_ref().map_or(u64::MAX, |entry| entry.arrival);
        let virtual_time = self.virtual_time;
        let flow = self.flow(app);
        let due: i128 = flow.corrections.extract_if(.., |(arrival, _)| *arrival < before).map(|(_, delta)| delta).sum();
        if due == 0 {
            return;
        }
        let smallest = oldest.map_or(flow.finish, |entry| entry.start);
        let shift = tag(due, flow.weight).max(virtual_time - smallest);
        flow.finish += shift;
        for entry in self.queue.iter_mut().filter(|entry| entry.request.app == app) {
            entry.start += shift;
        }
    }

    fn end_if_idle(&mut self, now: Time) {
        if self.queue.is_empty() && self.outstanding.is_empty() {
            let finish = self.flows.values().map(|flow| flow.finish).max();
            self.virtual_time = self.virtual_time.max(finish.unwrap_or(0));
            self.events.push(now, Event::Idle);
        }
    }

    fn remove(&mut self, id: RequestId) -> Entry {
        let found = |entry: &Entry| entry.request.id == id;
        if let Some(index) = self.queue.iter().position(found) {
            return self.queue.remove(index);
        }
        let index = self.outstanding.iter().position(found);
        self.outstanding.remove(index.unwrap_or_else(|| panic!("request id {id} is not in use")))
    }
}

impl Scheduler for Oracle {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "oracle",
            work_conserving: true,
            needs_peers: false,
            needs_deadlines: false,
            needs_layout: false,
        }
    }

    fn enqueue_held(&mut self, now: Time, arrived: Time, request: Request) {
        let Request { id, app, op, cost, .. } = request;
        let virtual_time = self.virtual_time;
        let flow = self.flow(app);
        let start = flow.finish.max(virtual_time);
        flow.finish = start + tag(i128::from(cost.0), flow.weight);
        self.queue.push(Entry {
            request,
            enqueued_at: arrived,
            arrival: self.arrivals,
            start,
            slot_cost: self.slot_costs.slot_cost(op, cost),
            passed_by: 0,
            blocked: false,
        });
        self.arrivals += 1;
        self.events.push(now, Event::Enqueued { id, app, cost });
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        let slots_free = self.depth.get().saturating_sub(self.slots_used());
        let head = self.smallest(u32::MAX)?;
        let Entry { start, slot_cost, request: Request { id, app, .. }, .. } = self.queue[head];
        let slot_cost = slot_cost.clamp_to(self.depth);
        if slots_free == 0 {
            return None;
        }
        if slot_cost.get() <= slots_free {
            return Some(self.dispatch(now, head, start, false));
        }
        if !self.queue[head].blocked {
            self.queue[head].blocked = true;
            self.events.push(now, Event::HeadBlocked { id, app, slot_cost, slots_free });
        }
        let allowed = slot_cost.get().saturating_sub(self.queue[head].passed_by);
        let chosen = self.smallest(slots_free.min(allowed))?;
        self.queue[head].passed_by += self.queue[chosen].slot_cost.clamp_to(self.depth).get();
        Some(self.dispatch(now, chosen, start, true))
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        let Request { app, cost, .. } = self.remove(id).request;
        self.events.push(now, Event::Completed { id, app, cost });
        self.end_if_idle(now);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let Entry { request: Request { app, cost, .. }, arrival, .. } = self.remove(id);
        self.correct(app, arrival, -i128::from(cost.0));
        self.events.push(now, Event::Cancelled { id, app, cost });
        self.end_if_idle(now);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let mut all = self.queue.iter_mut().chain(&mut self.outstanding);
        let entry = all.find(|entry| entry.request.id == id);
        let entry = entry.unwrap_or_else(|| panic!("request id {id} is not in use"));
        let (app, arrival, estimated) = (entry.request.app, entry.arrival, entry.request.cost);
        entry.request.cost = real;
        self.correct(app, arrival, i128::from(real.0) - i128::from(estimated.0));
        self.events.push(now, Event::CostCorrected { id, app, estimated, real });
    }

    fn set_weight(&mut self, now: Time, app: AppId, weight: Weight) {
        let flow = self.flow(app);
        let old = core::mem::replace(&mut flow.weight, weight);
        let rescale = |span: i128| span * i128::from(old.get()) / i128::from(weight.get());
        let mut queue = self.queue.iter_mut().filter(|entry| entry.request.app == app);
        if let Some(Entry { start: head, .. }) = queue.next() {
            for entry in queue {
                entry.start = *head + rescale(entry.start - *head);
            }
            let head = *head;
            let flow = self.flow(app);
            flow.finish = head + rescale(flow.finish - head);
        }
        self.events.push(now, Event::WeightChanged { app, weight });
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }
}

/// `bytes` of service as a difference of tags.
fn tag(bytes: i128, weight: Weight) -> i128 {
    (bytes << VirtualTime::FRACTION_BITS) / i128::from(weight.get())
}
