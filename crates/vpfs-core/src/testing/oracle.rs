//! SFQ(D)+ and DSFQ literally as in the papers: one list, explicit tags, linear scans.
//!
//! Service elsewhere is kept as a full history of what was heard and what became of it; every value derived from that
//! is summed up again when it is needed.
//!
//! Shares no code with [`crate::Sfq`] but the types. Equal to it, event for event, where tags are exact: when every
//! cost is a multiple of every weight (for example costs in multiples of 840 and weights up to 8).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, ShareId};
use crate::dsfq::{SharedService, pending_max};
use crate::event::{Event, EventQueue};
use crate::request::{Dispatch, Request, Rule, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::{Backfill, Sharing, SharingMode};
use crate::slot_cost::SlotCostTable;
use crate::units::{AppId, Bytes, Depth, RequestId, SlotCost, Time, VirtualTime, Weight};

/// The slow, obvious SFQ(D)+.
#[derive(Debug)]
pub struct Oracle {
    depth: Depth,
    slot_costs: SlotCostTable,
    virtual_time: i128,
    /// The largest finish tag of a flow at the time its queue became empty.
    latest_finish: i128,
    arrivals: u64,
    flows: BTreeMap<AppId, Flow>,
    /// In order of arrival.
    queue: Vec<OracleEntry>,
    outstanding: Vec<OracleEntry>,
    sharing: Sharing,
    backfill: Backfill,
    /// All changes since the last report, oldest first.
    unreported: Vec<Change>,
    /// The classes whose unreported changes are being drained.
    reporting: Vec<ServiceClass>,
    events: EventQueue,
}

#[derive(Debug)]
struct Flow {
    weight: Weight,
    finish: i128,
    /// The arrival of a corrected request and the bytes to correct, deferred while older requests are queued.
    corrections: Vec<(u64, i128)>,
    /// Everything about service elsewhere, oldest first.
    notes: Vec<Note>,
}

/// A change in service elsewhere, in bytes.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// Another server reported it, or a request revealed its other parts.
    Heard(i128),
    /// It moved the flow's tags.
    Charged(i128),
    /// It passed while the flow advanced to virtual time, where it would start anyway.
    Absorbed(i128),
    /// It exceeded the limit of what may be pending.
    Waived(i128),
    /// A refund cancelled it while it was pending.
    Repaid(i128),
    /// A refund moved the tags back by this much.
    TakenBack(i128),
    /// The flow lagged behind virtual time and advanced to it: earlier moves of its tags make no difference any more.
    CaughtUp,
}

impl Flow {
    /// Service elsewhere that is still pending.
    fn waiting(&self) -> i128 {
        let waits = |note: &Note| match *note {
            Note::Heard(bytes) => bytes,
            Note::Charged(bytes) | Note::Absorbed(bytes) | Note::Waived(bytes) | Note::Repaid(bytes) => -bytes,
            Note::TakenBack(_) | Note::CaughtUp => 0,
        };
        self.notes.iter().map(waits).sum()
    }

    /// By how much service elsewhere the flow's tags are later than without it.
    fn charged(&self) -> i128 {
        let recent = self.notes.rsplit(|note| matches!(note, Note::CaughtUp)).next().unwrap_or_default();
        let moved = |note: &Note| match *note {
            Note::Charged(bytes) => bytes,
            Note::TakenBack(bytes) => -bytes,
            _ => 0,
        };
        recent.iter().map(moved).sum()
    }

    /// `bytes` of a refund reduce what is pending; returns the rest of them.
    fn repay(&mut self, bytes: i128) -> i128 {
        let repaid = self.waiting().min(bytes);
        self.notes.push(Note::Repaid(repaid));
        bytes - repaid
    }

    /// Drops what exceeds the limit of pending service; returns how much.
    fn waive_excess(&mut self, most: Bytes) -> i128 {
        let excess = (self.waiting() - i128::from(most.0)).max(0);
        self.notes.push(Note::Waived(excess));
        excess
    }
}

/// A change to report to other servers.
#[derive(Clone, Copy, Debug)]
struct Change {
    app: AppId,
    class: ServiceClass,
    bytes: i128,
    operations: i128,
}

#[derive(Clone, Debug)]
struct OracleEntry {
    request: Request,
    enqueued_at: Time,
    arrival: u64,
    start: i128,
    /// It was reported to other servers, so they must learn of corrections.
    counted: bool,
    /// Its cost on arrival, and the refundable part of the cost of its other parts.
    at_arrival: (i128, i128),
    slot_cost: SlotCost,
    passed_by: u32,
    blocked: bool,
}

impl Oracle {
    /// See [`crate::Sfq::new`].
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

    /// See [`crate::Sfq::set_depth`].
    pub fn set_depth(&mut self, now: Time, depth: Depth) {
        if depth != self.depth {
            self.depth = depth;
            self.events.push(now, Event::DepthChanged { depth });
        }
    }

    /// See [`crate::Sfq::set_sharing`]; call before the first request.
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// See [`crate::Sfq::set_backfill`].
    pub fn set_backfill(&mut self, backfill: Backfill) {
        self.backfill = backfill;
    }

    /// See [`crate::Sfq::set_slot_costs`].
    pub fn set_slot_costs(&mut self, slot_costs: SlotCostTable) {
        if slot_costs != self.slot_costs {
            for entry in &mut self.queue {
                entry.slot_cost = slot_costs.slot_cost(entry.request.op, entry.request.cost);
            }
            self.slot_costs = slot_costs;
        }
    }

    /// Σ L of the outstanding requests.
    pub fn slots_used(&self) -> u32 {
        self.outstanding.iter().map(|entry| entry.slot_cost.get()).sum()
    }

    fn flow(&mut self, app: AppId) -> &mut Flow {
        let new = Flow { weight: Weight::ONE, finish: 0, corrections: Vec::new(), notes: Vec::new() };
        self.flows.entry(app).or_insert(new)
    }

    /// The index in the queue of the request with the smallest tag that fits `slots`.
    fn smallest(&self, slots: u32) -> Option<usize> {
        let fits = |entry: &&OracleEntry| entry.slot_cost.clamp_to(self.depth).get() <= slots;
        let least = self.queue.iter().filter(fits).min_by_key(|entry| (entry.start, entry.arrival))?;
        self.queue.iter().position(|entry| entry.arrival == least.arrival)
    }

    fn dispatch(&mut self, now: Time, chosen: usize, head_start: i128, backfilled: bool) -> Dispatch {
        let mut entry = self.queue.remove(chosen);
        self.note_finish(entry.request.app);
        entry.slot_cost = entry.slot_cost.clamp_to(self.depth);
        self.virtual_time = self.virtual_time.max(entry.start.min(head_start));
        let OracleEntry { request: Request { id, app, .. }, enqueued_at, slot_cost, .. } = entry;
        self.outstanding.push(entry);
        self.apply_corrections(app);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces: None, rule: Rule::Share }
    }

    fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.flow(app).corrections.push((arrival, delta));
        self.apply_corrections(app);
    }

    /// Moves a flow's tags by the sum of the corrections for which no older request is queued, never below v.
    fn apply_corrections(&mut self, app: AppId) {
        let before = self.oldest(app).map_or(u64::MAX, |entry| entry.arrival);
        let flow = self.flow(app);
        let due: i128 = flow.corrections.extract_if(.., |(arrival, _)| *arrival < before).map(|(_, delta)| delta).sum();
        let due = if due < 0 { -flow.repay(-due) } else { due };
        self.shift(app, due);
    }

    fn oldest(&self, app: AppId) -> Option<&OracleEntry> {
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

    /// The largest delay before a request of `cost`, if there is one.
    fn room(&self, cost: Bytes) -> Option<i128> {
        let share = i128::from(self.sharing.min_local_share_ppm);
        let whole = 1_000_000 * i128::from(self.sharing.servers);
        (i128::from(cost.0) * (whole - share)).checked_div(share)
    }

    /// The service that brings a flow with nothing queued up to v; less than a byte counts as none.
    fn lag(&mut self, app: AppId) -> i128 {
        if self.oldest(app).is_some() {
            return 0;
        }
        let virtual_time = self.virtual_time;
        let flow = self.flow(app);
        ((virtual_time - flow.finish).max(0) * i128::from(flow.weight.get())) >> VirtualTime::FRACTION_BITS
    }

    /// Service elsewhere costs `delta` more (or less) than was known; returns how far to move tags.
    fn charge_elsewhere(&mut self, app: AppId, delta: i128) -> i128 {
        let flow = self.flow(app);
        if delta >= 0 {
            flow.notes.extend([Note::Heard(delta), Note::Charged(delta)]);
            return delta;
        }
        let left = flow.repay(-delta);
        let taken_back = flow.charged().min(left);
        flow.notes.push(Note::TakenBack(taken_back));
        -taken_back
    }

    /// S of a request that arrives now, and the refundable part of the cost of its other parts.
    ///
    /// The service that the flow requested elsewhere since its previous request delays this one: S = F + delay/φ. But
    /// no flow starts before v, and none is delayed by more than the guard allows from where it would start otherwise.
    fn start(&mut self, request: &Request) -> (i128, i128) {
        let Request { app, cost, .. } = *request;
        let told = if self.sharing.mode == SharingMode::Layout { request.elsewhere } else { None };
        let (lag, room, virtual_time) = (self.lag(app), self.room(cost), self.virtual_time);
        let most = pending_max(&self.sharing);
        let flow = self.flow(app);
        let older = flow.waiting();
        flow.notes.push(Note::Heard(told.map_or(0, |told| told.0.into())));
        let owed = flow.waiting();
        let undelayed = flow.finish + tag(lag, flow.weight);
        let delayed = (flow.finish + tag(owed, flow.weight)).max(undelayed);
        let delayed = room.map_or(delayed, |room| delayed.min(undelayed + tag(room, flow.weight)));
        if lag > 0 {
            flow.notes.push(Note::CaughtUp);
        }
        let absorbed = owed.min(lag);
        flow.notes.extend([Note::Absorbed(absorbed), Note::Charged(service(delayed - undelayed, flow.weight))]);
        let waived = flow.waive_excess(most);
        // The service that has been pending longest is absorbed first, and the latest is waived first. The cost that
        // this request reveals is the latest.
        let refundable = (owed - waived - older.max(absorbed)).max(0);
        (delayed.max(virtual_time), refundable)
    }

    fn count(&mut self, app: AppId, class: ServiceClass, bytes: i128, operations: i128) {
        self.unreported.push(Change { app, class, bytes, operations });
    }

    /// The unreported service of an application: bytes and operations.
    fn unreported_of(&self, app: AppId, class: ServiceClass) -> (i128, i128) {
        let own = self.unreported.iter().filter(|change| (change.app, change.class) == (app, class));
        own.fold((0, 0), |sums, change| (sums.0 + change.bytes, sums.1 + change.operations))
    }

    /// The applications with unreported service, those that changed first at the front.
    fn unreported_apps(&self, class: ServiceClass) -> Vec<AppId> {
        let mut apps = Vec::new();
        for change in self.unreported.iter().filter(|change| change.class == class) {
            if !apps.contains(&change.app) {
                apps.push(change.app);
            }
        }
        apps
    }

    /// The amount that counts against the threshold of a class: bytes for data, operations for metadata.
    fn unreported_size(&self, class: ServiceClass) -> u128 {
        let size = |app| match class {
            ServiceClass::Data => self.unreported_of(app, class).0.unsigned_abs(),
            ServiceClass::Metadata => self.unreported_of(app, class).1.unsigned_abs(),
        };
        self.unreported_apps(class).into_iter().map(size).sum()
    }

    /// Takes the next amount of a class that is not zero, starting with the applications that changed last.
    fn take_report(&mut self, class: ServiceClass) -> Option<ServiceReport> {
        while let Some(app) = self.unreported_apps(class).pop() {
            let (bytes, _) = self.unreported_of(app, class);
            self.unreported.retain(|change| (change.app, change.class) != (app, class));
            if let Some(bytes) = i64::try_from(bytes).ok().filter(|&bytes| bytes != 0) {
                return Some(ServiceReport { app, class, bytes });
            }
        }
        None
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

    fn remove(&mut self, id: RequestId) -> OracleEntry {
        let found = |entry: &OracleEntry| entry.request.id == id;
        if let Some(index) = self.queue.iter().position(found) {
            let entry = self.queue.remove(index);
            self.note_finish(entry.request.app);
            return entry;
        }
        let index = self.outstanding.iter().position(found);
        self.outstanding.remove(index.unwrap_or_else(|| panic!("request id {id} is not in use")))
    }
}

impl OracleEntry {
    /// The cost of the other parts if this one costs `cost`.
    fn elsewhere_at(&self, cost: Bytes) -> i128 {
        let (own, elsewhere) = self.at_arrival;
        if own == 0 { elsewhere } else { elsewhere * i128::from(cost.0) / own }
    }
}

impl Scheduler for Oracle {
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { id, app, op, cost, .. } = *request;
        let counted = match self.sharing.mode {
            SharingMode::Local => false,
            SharingMode::Threshold => true,
            SharingMode::Layout => request.elsewhere.is_none(),
        };
        if counted {
            self.count(app, op.into(), cost.0.into(), request.objects.get().into());
        }
        let (start, refundable) = self.start(request);
        let flow = self.flow(app);
        flow.finish = start + tag(i128::from(cost.0), flow.weight);
        self.queue.push(OracleEntry {
            request: *request,
            enqueued_at: arrived,
            arrival: self.arrivals,
            start,
            counted,
            at_arrival: (cost.0.into(), refundable),
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
        let OracleEntry { start, slot_cost, request: Request { id, app, .. }, .. } = self.queue[head];
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
        let OracleEntry { request: Request { app, op, cost, objects, .. }, arrival, counted, .. } = entry;
        if counted {
            self.count(app, op.into(), -i128::from(cost.0), -i128::from(objects.get()));
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

    fn set_app(&mut self, now: Time, app: AppId, &AppPolicy { weight, .. }: &AppPolicy) {
        let flow = self.flow(app);
        let old = core::mem::replace(&mut flow.weight, weight);
        let rescale = |span: i128| span * i128::from(old.get()) / i128::from(weight.get());
        let mut queue = self.queue.iter_mut().filter(|entry| entry.request.app == app);
        if let Some(OracleEntry { start: head, .. }) = queue.next() {
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

/// The service that moves a flow's tags by `span`.
fn service(span: i128, weight: Weight) -> i128 {
    (span * i128::from(weight.get())) >> VirtualTime::FRACTION_BITS
}

impl SharedService for Oracle {
    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        if self.sharing.mode == SharingMode::Local {
            return;
        }
        let ServiceReport { app, class, bytes } = report;
        let (lag, most) = (self.lag(app), pending_max(&self.sharing));
        let flow = self.flow(app);
        if bytes > 0 {
            flow.notes.push(Note::Heard(bytes.into()));
            flow.waive_excess(most);
        } else {
            let moved = self.charge_elsewhere(app, bytes.into());
            // A flow that lags behind v starts there, wherever its tags are.
            self.shift(app, if lag > 0 { 0 } else { moved });
        }
        let pending = Bytes(u64::try_from(self.flow(app).waiting()).unwrap_or(0));
        self.events.push(now, Event::PeerService { app, class, bytes, pending });
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        let Sharing { broadcast_threshold, metadata_threshold, .. } = self.sharing;
        for (class, threshold) in
            [(ServiceClass::Data, broadcast_threshold.0.into()), (ServiceClass::Metadata, metadata_threshold.into())]
        {
            if self.unreported_size(class) >= threshold || self.reporting.contains(&class) {
                self.reporting.push(class);
                if let Some(report) = self.take_report(class) {
                    let ServiceReport { app, class, bytes } = report;
                    self.events.push(now, Event::Reported { app, class, bytes });
                    return Some(report);
                }
                self.reporting.retain(|reporting| *reporting != class);
            }
        }
        None
    }

    fn report_all(&mut self) {
        self.reporting.extend([ServiceClass::Data, ServiceClass::Metadata]);
    }

    /// It has no groups.
    fn handle_strangers(&mut self, _now: Time, _share: ShareId, _class: ServiceClass, _bytes: i64) {}
}
