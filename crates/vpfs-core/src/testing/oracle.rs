//! SFQ(D)+ and DSFQ as the papers' text says it: one list, explicit tags, linear scans.
//!
//! Shares no code with [`crate::Sfq`] but the types. Equal to it, event for event, where tags are exact: when every cost
//! is a multiple of every weight (for example costs in multiples of 840 and weights up to 8).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::dsfq::PENDING_MAX;
use crate::event::{Event, EventQueue};
use crate::request::{Dispatch, Request, ServiceClass, ServiceReport};
use crate::scheduler::{Capabilities, Scheduler};
use crate::settings::{Backfill, Sharing, SharingMode};
use crate::slot_cost::SlotCostTable;
use crate::units::{AppId, Bytes, Depth, RequestId, SlotCost, Time, VirtualTime, Weight};

/// The slow, obvious SFQ(D)+.
#[derive(Debug)]
pub struct Oracle {
    depth: Depth,
    slot_costs: SlotCostTable,
    virtual_time: i128,
    /// The largest finish tag that a flow had without queued requests.
    latest_finish: i128,
    arrivals: u64,
    flows: BTreeMap<AppId, Flow>,
    /// In order of arrival.
    queue: Vec<Entry>,
    outstanding: Vec<Entry>,
    sharing: Sharing,
    backfill: Backfill,
    /// Bytes and operations by flow and class that are not reported, those that changed first at the front.
    unreported: Vec<(AppId, ServiceClass, i128, i128)>,
    /// The classes of which all that is unreported is being drained.
    reporting: Vec<ServiceClass>,
    events: EventQueue,
}

#[derive(Debug)]
struct Flow {
    weight: Weight,
    finish: i128,
    /// Arrival of a corrected request, and by how many bytes, while older requests are queued.
    corrections: Vec<(u64, i128)>,
    /// Service elsewhere that did not move the flow's tags yet.
    pending: i128,
    /// What moved them, since the flow last lay behind virtual time.
    charged: i128,
}

#[derive(Clone, Debug)]
struct Entry {
    request: Request,
    enqueued_at: Time,
    arrival: u64,
    start: i128,
    /// Told to other servers, so that they must hear of corrections.
    counted: bool,
    /// Cost here and elsewhere as charged at arrival.
    charged: (i128, i128),
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
            latest_finish: 0,
            arrivals: 0,
            flows: BTreeMap::new(),
            queue: Vec::new(),
            outstanding: Vec::new(),
            sharing: Sharing::default(),
            backfill: Backfill::default(),
            unreported: Vec::new(),
            reporting: Vec::new(),
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

    /// As [`crate::Sfq::set_sharing`], before the first request.
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// As [`crate::Sfq::set_backfill`].
    pub fn set_backfill(&mut self, backfill: Backfill) {
        self.backfill = backfill;
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
        let new = Flow { weight: Weight::ONE, finish: 0, corrections: Vec::new(), pending: 0, charged: 0 };
        self.flows.entry(app).or_insert(new)
    }

    /// Where in the queue the smallest request that fits `slots` is.
    fn smallest(&self, slots: u32) -> Option<usize> {
        let fits = |entry: &&Entry| entry.slot_cost.clamp_to(self.depth).get() <= slots;
        let least = self.queue.iter().filter(fits).min_by_key(|entry| (entry.start, entry.arrival))?;
        self.queue.iter().position(|entry| entry.arrival == least.arrival)
    }

    fn dispatch(&mut self, now: Time, chosen: usize, head_start: i128, backfilled: bool) -> Dispatch {
        let mut entry = self.queue.remove(chosen);
        self.note_finish(entry.request.app);
        entry.slot_cost = entry.slot_cost.clamp_to(self.depth);
        self.virtual_time = self.virtual_time.max(entry.start.min(head_start));
        let Entry { request: Request { id, app, .. }, enqueued_at, slot_cost, .. } = entry;
        self.outstanding.push(entry);
        self.apply_corrections(app);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces: None }
    }

    fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.flow(app).corrections.push((arrival, delta));
        self.apply_corrections(app);
    }

    /// Moves a flow's tags by the corrections that no older request waits before, together, never below v.
    fn apply_corrections(&mut self, app: AppId) {
        let before = self.oldest(app).map_or(u64::MAX, |entry| entry.arrival);
        let flow = self.flow(app);
        let due: i128 = flow.corrections.extract_if(.., |(arrival, _)| *arrival < before).map(|(_, delta)| delta).sum();
        let paid = flow.pending.min(-due).max(0);
        flow.pending -= paid;
        self.shift(app, due + paid);
    }

    fn oldest(&self, app: AppId) -> Option<&Entry> {
        self.queue.iter().find(|entry| entry.request.app == app)
    }

    /// Moves a flow's tags by `bytes` of service, never below v.
    fn shift(&mut self, app: AppId, bytes: i128) {
        if bytes == 0 {
            return;
        }
        let (start, virtual_time) = (self.oldest(app).map(|entry| entry.start), self.virtual_time);
        let flow = self.flow(app);
        let shift = tag(bytes, flow.weight).max(virtual_time - start.unwrap_or(flow.finish));
        flow.finish += shift;
        for entry in self.queue.iter_mut().filter(|entry| entry.request.app == app) {
            entry.start += shift;
        }
        self.note_finish(app);
    }

    /// The largest delay before a request of `cost`.
    fn room(&self, cost: Bytes) -> i128 {
        let share = i128::from(self.sharing.min_local_share_ppm);
        let whole = 1_000_000 * i128::from(self.sharing.servers);
        if share == 0 { i128::MAX } else { i128::from(cost.0) * (whole - share) / share }
    }

    /// `delta` more (or less) service elsewhere: pays what is pending, then gives back what was charged; what tags move by.
    fn charge_elsewhere(&mut self, app: AppId, delta: i128) -> i128 {
        let flow = self.flow(app);
        let paid = flow.pending.min(-delta).max(0);
        flow.pending -= paid;
        let moved = (delta + paid).max(-flow.charged);
        flow.charged += moved;
        moved
    }

    /// What a request costs elsewhere as far as that is charged, how far the flow goes to v unnoticed, and the delay after
    /// that.
    fn charge(&mut self, request: &Request) -> [i128; 3] {
        let Request { app, cost, .. } = *request;
        let told = if self.sharing.mode == SharingMode::Layout { request.elsewhere } else { None };
        let told = told.map_or(0, |told| i128::from(told.0));
        let (alone, room, virtual_time) = (self.oldest(app).is_none(), self.room(cost), self.virtual_time);
        let flow = self.flow(app);
        let (due, mut unnoticed) = (told + core::mem::take(&mut flow.pending), 0);
        if alone {
            let behind = (virtual_time - flow.finish).max(0) * i128::from(flow.weight.get());
            let behind = behind >> VirtualTime::FRACTION_BITS;
            if behind > 0 {
                flow.charged = 0;
            }
            unnoticed = due.min(behind);
        }
        let told_unnoticed = (told + unnoticed - due).max(0);
        let delay = (due - unnoticed).min(room);
        flow.charged += delay;
        let beyond = due - unnoticed - delay;
        let kept = beyond.min(i128::from(PENDING_MAX.0) - flow.pending);
        flow.pending += kept;
        [told - told_unnoticed - (beyond - kept), unnoticed, delay]
    }

    fn count(&mut self, app: AppId, class: ServiceClass, bytes: i128, operations: i128) {
        match self.unreported.iter_mut().find(|amount| (amount.0, amount.1) == (app, class)) {
            Some(amount) => (amount.2, amount.3) = (amount.2 + bytes, amount.3 + operations),
            None => self.unreported.push((app, class, bytes, operations)),
        }
    }

    fn end_if_idle(&mut self, now: Time) {
        if self.queue.is_empty() && self.outstanding.is_empty() {
            self.virtual_time = self.virtual_time.max(self.latest_finish);
            self.events.push(now, Event::Idle);
        }
    }

    fn note_finish(&mut self, app: AppId) {
        if self.oldest(app).is_none() {
            self.latest_finish = self.latest_finish.max(self.flow(app).finish);
        }
    }

    fn remove(&mut self, id: RequestId) -> Entry {
        let found = |entry: &Entry| entry.request.id == id;
        if let Some(index) = self.queue.iter().position(found) {
            let entry = self.queue.remove(index);
            self.note_finish(entry.request.app);
            return entry;
        }
        let index = self.outstanding.iter().position(found);
        self.outstanding.remove(index.unwrap_or_else(|| panic!("request id {id} is not in use")))
    }
}

impl Entry {
    /// What the other parts cost if this one costs `cost`.
    fn elsewhere_at(&self, cost: Bytes) -> i128 {
        let (own, elsewhere) = self.charged;
        if own == 0 { elsewhere } else { elsewhere * i128::from(cost.0) / own }
    }
}

impl Scheduler for Oracle {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "oracle",
            work_conserving: true,
            needs_peers: self.sharing.mode != SharingMode::Local,
            needs_deadlines: false,
            needs_layout: self.sharing.mode == SharingMode::Layout,
        }
    }

    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { id, app, op, cost, .. } = *request;
        let virtual_time = self.virtual_time;
        let counted = match self.sharing.mode {
            SharingMode::Local => false,
            SharingMode::Threshold => true,
            SharingMode::Layout => request.elsewhere.is_none(),
        };
        if counted {
            self.count(app, op.into(), cost.0.into(), 1);
        }
        let [elsewhere, unnoticed, delay] = self.charge(request);
        let flow = self.flow(app);
        let start = (flow.finish + tag(unnoticed + delay, flow.weight)).max(virtual_time);
        flow.finish = start + tag(i128::from(cost.0), flow.weight);
        self.queue.push(Entry {
            request: *request,
            enqueued_at: arrived,
            arrival: self.arrivals,
            start,
            counted,
            charged: (cost.0.into(), elsewhere),
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
        let head_finish = start + tag(self.queue[head].request.cost.0.into(), self.flow(app).weight);
        if self.backfill == Backfill::Bounded && self.queue[chosen].start > head_finish {
            return None;
        }
        self.queue[head].passed_by += self.queue[chosen].slot_cost.clamp_to(self.depth).get();
        Some(self.dispatch(now, chosen, start, true))
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        let Request { app, cost, .. } = self.remove(id).request;
        self.events.push(now, Event::Completed { id, app, cost });
        self.end_if_idle(now);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let entry = self.remove(id);
        let Entry { request: Request { app, op, cost, .. }, arrival, counted, .. } = entry;
        if counted {
            self.count(app, op.into(), -i128::from(cost.0), -1);
        }
        let elsewhere = self.charge_elsewhere(app, -entry.elsewhere_at(cost));
        self.correct(app, arrival, elsewhere - i128::from(cost.0));
        self.events.push(now, Event::Cancelled { id, app, cost });
        self.end_if_idle(now);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let mut all = self.queue.iter_mut().chain(&mut self.outstanding);
        let entry = all.find(|entry| entry.request.id == id);
        let entry = entry.unwrap_or_else(|| panic!("request id {id} is not in use"));
        let Request { app, op, cost: estimated, .. } = entry.request;
        entry.request.cost = real;
        let (arrival, counted) = (entry.arrival, entry.counted);
        let own = i128::from(real.0) - i128::from(estimated.0);
        let elsewhere = entry.elsewhere_at(real) - entry.elsewhere_at(estimated);
        if counted {
            self.count(app, op.into(), own, 0);
        }
        let delta = own + self.charge_elsewhere(app, elsewhere);
        self.correct(app, arrival, delta);
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

    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        if self.sharing.mode == SharingMode::Local {
            return;
        }
        let ServiceReport { app, class, bytes } = report;
        let virtual_time = self.virtual_time;
        let queued = self.oldest(app).is_some();
        let flow = self.flow(app);
        flow.pending = (flow.pending + i128::from(bytes.max(0))).min(PENDING_MAX.0.into());
        // Less than a byte counts as no distance to v.
        let behind = (virtual_time - flow.finish) * i128::from(flow.weight.get());
        let behind = behind >> VirtualTime::FRACTION_BITS;
        let refund = self.charge_elsewhere(app, bytes.min(0).into());
        if queued || behind <= 0 {
            self.shift(app, refund);
        }
        let pending = Bytes(u64::try_from(self.flow(app).pending).unwrap_or(0));
        self.events.push(now, Event::PeerService { app, class, bytes, pending });
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        let Sharing { broadcast_threshold, metadata_threshold, .. } = self.sharing;
        for (class, threshold) in
            [(ServiceClass::Data, broadcast_threshold.0.into()), (ServiceClass::Metadata, metadata_threshold.into())]
        {
            let of_class = |amount: &&(AppId, ServiceClass, i128, i128)| amount.1 == class;
            let size = |amount: &(AppId, ServiceClass, i128, i128)| match class {
                ServiceClass::Data => amount.2.unsigned_abs(),
                ServiceClass::Metadata => amount.3.unsigned_abs(),
            };
            let sum: u128 = self.unreported.iter().filter(of_class).map(size).sum();
            if sum >= threshold || self.reporting.contains(&class) {
                self.reporting.push(class);
                while let Some(last) = self.unreported.iter().rposition(|amount| amount.1 == class) {
                    let (app, class, bytes, _) = self.unreported.remove(last);
                    if let Some(bytes) = i64::try_from(bytes).ok().filter(|&bytes| bytes != 0) {
                        self.events.push(now, Event::Reported { app, class, bytes });
                        return Some(ServiceReport { app, class, bytes });
                    }
                }
                self.reporting.retain(|reporting| *reporting != class);
            }
        }
        None
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
