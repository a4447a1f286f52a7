//! Weighted proportional fairness of measured service: bulk goes at one rate, which stands where one percent more for
//! bulk would cost the others one percent, all weighted. This goes beyond the papers.
//!
//! - **Bulk** is an application that has much pending: at least half of the largest. The others are *interactive*, and
//!   their requests go at once.
//! - **The rate** of bulk, and how much of it may be in the storage, is all that is decided; `law` decides it from
//!   what was served and how long the others waited. Nothing is known of the storage, and nothing is learned about
//!   what requests cost.
//! - **Costs** are only relative, they divide that rate among bulk: an access costs 64 KiB and its bytes, metadata
//!   64 KiB per object.
//! - **Promises**: an application with a latency within a rate is interactive while it keeps to that rate, whatever it
//!   has pending [Two-level].
//! - **Minima** (`minima`) come before everything, and long writes of bulk go in **pieces** while others are
//!   there.
#![expect(clippy::cast_possible_truncation, reason = "what is too large for an integer becomes the largest one")]

mod decider;
mod gate;
mod groups;
mod law;
mod promise;
#[cfg(test)]
mod tests;

pub use decider::Decider;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Add, RangeInclusive};
use core::time::Duration;

use gate::{Bulk, Gate, Quickest};
use groups::Groups;
use promise::Promise;

use crate::app_policy::{AppPolicy, Minimum, ShareId, SharePolicy};
use crate::constants::Constants;
use crate::dsfq::{Change, SharedService};
use crate::engine::{Engine, Handover, Learned, Limits};
use crate::event::{Event, EventQueue, MissCause};
use crate::fair::{FairQueue, Queued};
use crate::list::{Links, Node};
use crate::member::Member;
use crate::minima::Minima;
use crate::pace::{AppMeasure, Decision, Measure, Pace, Pacing, SHARED_TICK, TriedRate};
use crate::prices::Prices;
use crate::request::{Dispatch, OpKind, Pieces, Request, Rule, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::{PolicyKind, Protection, Settings, Sharing};
use crate::tags::Head;
use crate::total::TotalKind;
use crate::totals::Totals;
use crate::units::{AppId, Bytes, RequestId, SlotCost, Time};

/// Bounds of the time of a piece of a long write, and the most pieces.
const PIECE_NS: RangeInclusive<f64> = 2e6..=20e6;
const PIECES_MAX: u32 = 64;
/// Fraction bits of weights.
const PART_BITS: u32 = 16;

const BULK: usize = 0;
const INTERACTIVE: usize = 1;

/// A request in use.
#[derive(Clone, Copy, Debug)]
struct Entry {
    request: Request,
    enqueued_at: Time,
    arrival: u64,
    /// The service that its flow requested before it.
    position: u128,
    /// What its flow is charged: its cost, or its bytes.
    charged: Bytes,
    state: State,
    links: Links,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Queued,
    Outstanding { since: Time, bulk: Option<Bulk> },
}

impl Node for Entry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Queued for Entry {
    fn app(&self) -> AppId {
        self.request.app
    }

    fn arrival(&self) -> u64 {
        self.arrival
    }

    fn position(&self) -> u128 {
        self.position
    }

    fn charged(&self) -> Bytes {
        self.charged
    }
}

/// A flow, and what it did in this tick.
#[derive(Clone, Debug, Default)]
struct Flow {
    bulk: bool,
    is_active: bool,
    /// Since when there was nothing pending, if there is nothing.
    seen: Time,
    /// How long there was nothing pending, the last time, in seconds.
    pause: f64,
    /// Bytes of its queued requests.
    queued: Bytes,
    pending: u32,
    /// The quickest of its requests in the storage, of late, in nanoseconds; 0 if unknown.
    quickest: f64,
    /// The most that were pending at a time, of late: as many clients as that are known.
    clients: f64,
    peak: u32,
    /// Cost of what is pending.
    cost: u64,
    /// Of the tick: integrals over time of `pending` and `cost`, up to `since`.
    waited: u128,
    costs: u128,
    since: Time,
    done: u32,
    longest_ns: u64,
    /// Sum of the times of arrival of what is pending.
    arrived: u128,
    /// `cost` as it was on average of late.
    footprint: f64,
    /// Cost that was served, in this tick and in a usual one of late.
    served: u64,
    got: f64,
    promise: Promise,
    /// It asked for more than its promised rate, of late.
    is_beyond: bool,
    beyond_at: Time,
}

impl Flow {
    /// Brings the integrals up to date.
    fn advance(&mut self, now: Time) {
        let ns = u128::from(now.nanos_since(self.since));
        self.waited += ns * u128::from(self.pending);
        self.costs += ns * u128::from(self.cost);
        self.since = now;
    }

    fn arrive(&mut self, now: Time, enqueued_at: Time, cost: u64) {
        self.advance(now);
        if self.pending == 0 && self.seen > Time::ZERO {
            let pause = now.since(self.seen).as_secs_f64();
            self.pause = pause.max(self.pause * 0.75);
        }
        self.pending += 1;
        self.peak = self.peak.max(self.pending);
        self.cost += cost;
        self.arrived += u128::from(enqueued_at.as_nanos());
    }

    /// For how long it is there without requests: as long as it usually pauses, if that is not long. After a long
    /// pause, its first request meets what bulk has filled the storage with; to prevent that, bulk would be slowed down
    /// for all of the pause.
    fn stays(&self, c: &Constants) -> f64 {
        let usual = if self.pause == 0.0 { 2.5 * c.absent } else { 1.5 * self.pause };
        if usual < 3.0 * c.absent { usual.max(c.absent) } else { c.absent }
    }

    fn leave(&mut self, now: Time, enqueued_at: Time, cost: u64) {
        self.advance(now);
        self.pending -= 1;
        self.cost = self.cost.saturating_sub(cost);
        self.arrived -= u128::from(enqueued_at.as_nanos());
        self.seen = now;
    }

    /// Ends a tick of `ns`. Returns the flow as it was in it, and its mean cost.
    fn end(&mut self, now: Time, ns: u64, late: f64) -> (Flow, f64) {
        self.advance(now);
        let tick = self.clone();
        let mean = self.costs as f64 / ns.max(1) as f64;
        self.footprint = if self.footprint == 0.0 { mean } else { self.footprint * 0.75 + mean * 0.25 };
        self.got = self.got * 0.95 + self.served as f64 * 0.05;
        self.clients = f64::from(self.peak).max(self.clients * 0.99);
        self.peak = self.pending;
        (self.waited, self.costs, self.done, self.longest_ns, self.served) = (0, 0, 0, 0, 0);
        self.quickest *= 1.005;
        self.promise.end_tick(now, tick.done, late);
        (tick, mean)
    }
}

/// The scheduler for one storage server; see the [module](self).
///
/// Operations are O(log n) in the number of flows; a tick, twenty times a second, is O(n) in those of the last half
/// second.
#[derive(Debug)]
pub struct Isolation {
    c: Constants,
    /// The cost of its requests is in bytes.
    queue: FairQueue<Entry>,
    minima: Minima,
    prices: Prices,
    protection: Protection,
    events: EventQueue,
    flows: Vec<Flow>,
    active: Vec<AppId>,
    groups: Groups,
    gate: Gate,
    /// Decides as long as no decisions come from outside.
    decider: Decider,
    is_shared: bool,
    /// For who decides outside.
    measured: Option<Measure<AppId>>,
    /// In force.
    decision: Decision<AppId>,
    outstanding: usize,
    tick_since: Time,
    /// When held bulk may go.
    due: Option<Time>,
    quickest: Quickest,
    /// The latest dispatch was for the sake of this one's minimum.
    preferred: Option<AppId>,
}

impl Isolation {
    /// No value that an earlier one learned counts as more than this.
    const LEARNED_MAX: u64 = 1 << 50;

    /// A scheduler that keeps at most `event_capacity` events between polls.
    pub fn new(c: Constants, event_capacity: usize) -> Self {
        Self {
            c,
            queue: FairQueue::new(2),
            minima: Minima::new(TotalKind::Minimum),
            prices: Prices::new(1, 1),
            protection: Protection::default(),
            events: EventQueue::with_capacity(event_capacity),
            flows: Vec::new(),
            active: Vec::new(),
            groups: Groups::default(),
            gate: Gate::new(c),
            decider: Decider::knowing(c, 0.0, 0.0, Protection::default()),
            is_shared: false,
            measured: None,
            decision: Decision::default(),
            outstanding: 0,
            tick_since: Time::ZERO,
            due: None,
            quickest: Quickest::default(),
            preferred: None,
        }
    }

    /// Creates the policy with these settings.
    pub(crate) fn of(settings: &Settings, event_capacity: usize) -> Self {
        let mut c = settings.constants;
        if settings.kind == PolicyKind::TwoLevel {
            // A deadline is for nineteen in twenty, trials included.
            c.late /= 4.0;
        }
        let mut policy = Self::new(c, event_capacity);
        if settings.kind == PolicyKind::TwoLevel {
            policy.minima = Minima::new(TotalKind::Target);
        }
        policy.queue.set_sharing(settings.sharing);
        policy.set_protection(settings.protection);
        policy
    }

    /// Changes the scope of the shares, initially each server by itself; see [`crate::dsfq`]. O(applications).
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.queue.set_sharing(sharing);
    }

    fn set_protection(&mut self, protection: Protection) {
        self.protection = protection;
        self.decider.set_protection(protection);
    }

    fn flow(&mut self, app: AppId) -> &mut Flow {
        if app.index() >= self.flows.len() {
            self.flows.resize_with(app.index() + 1, Flow::default);
        }
        &mut self.flows[app.index()]
    }

    fn lane(&self, app: AppId) -> usize {
        if self.flows[app.index()].bulk { BULK } else { INTERACTIVE }
    }

    /// Charges a request to its flow and queues it.
    fn admit(&mut self, now: Time, enqueued_at: Time, request: &Request) {
        let Request { id, app, .. } = *request;
        let (charged, cost) = (Bytes(self.c.cost(request)), self.c.cost(request));
        let delay = self.delay(request, charged);
        let arrival = self.queue.next_arrival();
        let position = self.queue.charge(app, arrival, [charged, delay]);
        let (state, links) = (State::Queued, Links::UNLINKED);
        self.queue
            .requests
            .insert(id, Entry { request: *request, enqueued_at, arrival, position, charged, state, links });
        if self.active.is_empty() {
            self.tick_since = now;
        }
        let tick_since = self.tick_since;
        let flow = self.flow(app);
        let is_new = !core::mem::replace(&mut flow.is_active, true);
        if is_new {
            (flow.since, flow.footprint, flow.bulk) = (tick_since.max(flow.since), 0.0, false);
        }
        flow.arrive(now, enqueued_at, cost);
        flow.queued += request.cost;
        if is_new {
            self.active.push(app);
        }
        let Flow { bulk, cost, .. } = self.flows[app.index()];
        let counts = cost as f64 * self.groups.factor(self.queue.shares(), app);
        if !bulk && counts >= self.decision.largest * self.c.large && !self.keeps_to_rate(app) {
            // Until the next tick: so that it does not fill the storage.
            self.set_bulk(now, app, true);
        }
        self.queue.push(self.lane(app), id);
        self.minima.on_queue(now, &mut self.queue, app);
    }

    /// The delay of a start tag because of service elsewhere, in the unit of charges [vPFS §III-B].
    fn delay(&mut self, request: &Request, charged: Bytes) -> Bytes {
        if self.queue.ledger.is_local() {
            return Bytes::ZERO;
        }
        let in_unit = |bytes: Bytes| {
            let scaled = u128::from(bytes.0) * u128::from(charged.0) / u128::from(request.cost.0.max(1));
            Bytes(u64::try_from(scaled).unwrap_or(u64::MAX))
        };
        let reported = request.cost;
        let request = Request { cost: charged, elsewhere: request.elsewhere.map(in_unit), ..*request };
        let share = self.queue.shares().share_of(request.app);
        self.prices.note((request.app, share), request.op.into(), charged, reported);
        self.queue.delay(&request, reported)
    }

    /// Takes a queued request out of the queue.
    fn dequeue(&mut self, id: RequestId) {
        let Request { app, cost, .. } = self.queue.requests.get(id).request;
        let queued = &mut self.flows[app.index()].queued;
        *queued = queued.saturating_sub(cost);
        self.queue.remove(self.lane(app), id);
    }

    fn tick_length(&self) -> Duration {
        if self.is_shared { SHARED_TICK } else { Duration::from_secs_f64(self.c.tick) }
    }

    /// If it is time, ends a tick, and decides what follows from it.
    fn tick(&mut self, now: Time) {
        if self.active.is_empty() || now.since(self.tick_since) < self.tick_length() {
            return;
        }
        let measure = self.measure(now);
        if self.is_shared {
            self.keep(measure);
            self.sort(now);
        } else {
            let decision = self.decider.decide(&measure);
            self.follow(now, decision);
        }
    }

    /// It has a promise within a rate, and keeps to that.
    fn keeps_to_rate(&self, app: AppId) -> bool {
        let Promise { latency, has_rate, .. } = self.flows[app.index()].promise;
        latency.is_some() && has_rate && !self.flows[app.index()].is_beyond
    }

    /// What was measured since the last time.
    fn measure(&mut self, now: Time) -> Measure<AppId> {
        let ns = now.nanos_since(self.tick_since);
        self.tick_since = now;
        self.gate.fill(now);
        let mut apps: Vec<(AppMeasure<AppId>, [f64; 2])> = Vec::with_capacity(self.active.len());
        let c = self.c;
        // Of those that keep to their rate, the ones with the shortest latency: the others would fill the storage
        // before these.
        for app in &self.active {
            let flow = &mut self.flows[app.index()];
            if flow.promise.has_rate && self.minima.has_had(now, *app) {
                (flow.is_beyond, flow.beyond_at) = (true, now);
            }
            flow.is_beyond &= now.since(flow.beyond_at).as_secs_f64() < c.absent;
        }
        let latency = |app: AppId| self.flows[app.index()].promise.latency;
        let keeping: Vec<AppId> = self.active.iter().copied().filter(|app| self.keeps_to_rate(*app)).collect();
        let shortest = keeping.iter().filter_map(|app| latency(*app)).min();
        let keeping: Vec<AppId> = keeping.into_iter().filter(|app| latency(*app) == shortest).collect();
        let (flows, shares) = (&mut self.flows, self.queue.shares());
        self.active.retain(|app| {
            let weight = shares.of(*app).scaled(PART_BITS) as f64 / f64::from(1u32 << PART_BITS);
            let flow = &mut flows[app.index()];
            let (tick, mean) = flow.end(now, ns, c.late);
            flow.is_active = flow.pending > 0 || now.since(flow.seen).as_secs_f64() < flow.stays(&c);
            if flow.is_active {
                let ages = u128::from(now.as_nanos()) * u128::from(flow.pending) - flow.arrived;
                // Of names that come and go, what is pending now counts.
                if flow.pending > 0 && shares.share_of(*app).is_some() {
                    flow.footprint = flow.footprint.max(flow.cost as f64);
                }
                let measured = AppMeasure {
                    key: *app,
                    // What is promised is enough.
                    weight: if keeping.contains(app) { 1e-6 } else { weight },
                    footprint: if keeping.contains(app) { 0.0 } else { flow.footprint },
                    got: flow.got,
                    done: f64::from(tick.done),
                    late: f64::from(tick.promise.late),
                    waited: tick.waited as f64 / 1e9,
                    stored: f64::from(tick.done) * tick.quickest / 1e9,
                    pending: f64::from(flow.pending),
                    age: ages as f64 / 1e9 / f64::from(flow.pending.max(1)),
                    longest: tick.longest_ns as f64 / 1e9,
                    clients: flow.clients,
                };
                apps.push((measured, [mean, tick.served as f64]));
            }
            flow.is_active
        });
        self.groups.end_tick(&c, shares, ns as f64 / 1e9, &apps);
        let mut apps: Vec<AppMeasure<AppId>> = apps.into_iter().map(|(app, _)| app).collect();
        for app in apps.iter_mut().filter(|app| app.footprint > 0.0) {
            app.footprint *= self.groups.factor(shares, app.key);
        }
        let most = apps.iter().map(|app| app.footprint).filter(|of| of.is_finite()).fold(1.0, f64::max);
        apps.iter_mut().for_each(|app| app.footprint = app.footprint.min(most));
        for app in &apps {
            let Flow { bulk, promise, .. } = &mut flows[app.key.index()];
            if let Some((latency, kept)) = promise.missed(now, *bulk) {
                let cause = if *bulk { MissCause::MoreThanItsShare } else { MissCause::BulkAtItsShare };
                self.events.push(now, Event::LatencyMissed { app: app.key, latency, kept, cause });
            }
        }
        let gate = &mut self.gate;
        let (served, lost, blocked) = (gate.served as f64, gate.lost as f64 / 1e9, gate.blocked as f64 / 1e9);
        let (full, usual) = (gate.full_ns as f64 / 1e9, gate.usual);
        (gate.served, gate.lost, gate.blocked, gate.full_ns) = (0, 0, 0, 0);
        let unwanted = (lost - blocked).max(0.0);
        gate.note_served(served, ns as f64 / 1e9);
        let minima = apps.iter().filter(|app| self.minima.is_for(&self.queue, app.key)).count() as f64;
        Measure { seconds: ns as f64 / 1e9, served, lost, blocked, unwanted, full, usual, minima, apps }
    }

    fn keep(&mut self, measure: Measure<AppId>) {
        match &mut self.measured {
            Some(kept) => kept.add(measure),
            kept => *kept = Some(measure),
        }
    }

    /// Makes bulk what was decided to be. Of an application that has just come, nothing is decided yet.
    fn sort(&mut self, now: Time) {
        for index in 0..self.active.len() {
            let app = self.active[index];
            let Decision { bulk, interactive, .. } = &self.decision;
            if bulk.binary_search(&app).is_ok() {
                self.set_bulk(now, app, true);
            } else if interactive.binary_search(&app).is_ok() {
                self.set_bulk(now, app, false);
            }
        }
    }

    fn set_bulk(&mut self, now: Time, app: AppId, bulk: bool) {
        let before = core::mem::replace(&mut self.flows[app.index()].bulk, bulk);
        if before != bulk {
            let lane = |bulk: bool| if bulk { BULK } else { INTERACTIVE };
            self.queue.move_flow(app, lane(before), lane(bulk));
            self.events.push(now, Event::KindChanged { app, bulk });
        }
    }

    fn next_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        self.due = None;
        self.queue.pass_departures();
        let (bulk, interactive) = (self.queue.first(BULK), self.queue.first(INTERACTIVE));
        let first = bulk.into_iter().chain(interactive).min()?;
        let owed = self.c.cost(&self.queue.requests.get(first.id).request);
        let preferred = self.minima.first(now, &mut self.queue);
        if !self.minima.owes(owed)
            && let Some(whose) = preferred
            && let Some(next) = self.queue.next_of(whose)
        {
            let Entry { request, charged, .. } = *self.queue.requests.get(next.id);
            // What fills the storage cannot be put in order any more.
            let held = self.c.cost(&request);
            if self.flows[next.app.index()].bulk && self.gate.is_full(now, held) {
                return interactive.map(|interactive| self.dispatch(now, interactive, first));
            }
            let taken = if next.id == first.id { 0 } else { self.c.cost(&request) };
            self.minima.on_preferred(&self.queue, whose, request.cost, taken);
            self.preferred = Some(next.app);
            let dispatch = self.dispatch(now, next, first);
            // What they got beyond their share is not owed to the others.
            match whose {
                Member::App(app) => self.queue.limit_lead(app, charged),
                Member::Share(share) => self.queue.limit_lead_of(share, next.app, charged),
            }
            return Some(dispatch);
        }
        let head = match interactive {
            Some(interactive) => interactive,
            None => {
                let head = bulk?;
                let request = self.queue.requests.get(head.id).request;
                let cost = self.c.cost(&request);
                let pieces = self.pieces(&request, true).map_or(1, |pieces| pieces.count);
                if let Err(due) = self.gate.may_go(now, cost / u64::from(pieces)) {
                    self.due = due;
                    return None;
                }
                head
            }
        };
        let cost = self.c.cost(&self.queue.requests.get(head.id).request);
        self.minima.on_shared(cost);
        let charged = self.queue.requests.get(head.id).charged;
        let dispatch = self.dispatch(now, head, first);
        if interactive.is_some() {
            // What goes at once is not owed to those that share by weight.
            self.queue.limit_lead(head.app, charged);
            let share = self.queue.shares().share_of(head.app);
            let above: Vec<ShareId> = self.queue.shares().above(share).map(|(share, _)| share).collect();
            above.into_iter().for_each(|share| self.queue.limit_lead_of(share, head.app, charged));
        }
        self.preferred = self.preferred.filter(|preferred| *preferred == head.app);
        Some(dispatch)
    }

    /// Dispatches `chosen`, while `first` has the smallest tag.
    fn dispatch(&mut self, now: Time, chosen: Head, first: Head) -> Dispatch {
        let Head { id, app, .. } = chosen;
        let bulk = self.flows[app.index()].bulk;
        self.dequeue(id);
        let Entry { request, enqueued_at, .. } = *self.queue.requests.get(id);
        self.minima.charge(now, &mut self.queue, app, request.cost);
        let rule = match (self.preferred, bulk && enqueued_at < now) {
            (Some(preferred), _) if preferred != app => Rule::Minimum,
            (_, true) if matches!(self.gate.pace, Pace::At(_)) => Rule::Pace,
            _ => Rule::Share,
        };
        let pieces = self.pieces(&request, bulk);
        self.occupy(now, id, pieces);
        self.queue.clock.advance(first.start.max(self.queue.clock.now()));
        self.queue.settle(app);
        let (slot_cost, backfilled) = (SlotCost::ONE, id != first.id);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces, rule }
    }

    /// Counts a request that left the queue as outstanding.
    fn occupy(&mut self, now: Time, id: RequestId, pieces: Option<Pieces>) {
        let entry = self.queue.requests.get_mut(id);
        let (app, cost) = (entry.request.app, self.c.cost(&entry.request));
        let alone = self.outstanding == 0 || self.gate.alone_ns == 0.0 && self.gate.requests == 0;
        let alone = alone && pieces.is_none();
        let held = cost / u64::from(pieces.map_or(1, |pieces| pieces.count));
        let bulk = self.flows[app.index()].bulk.then_some(Bulk { cost, held, alone });
        entry.state = State::Outstanding { since: now, bulk };
        if let Some(bulk) = bulk {
            self.gate.dispatch(bulk);
        }
        self.outstanding += 1;
    }

    /// While others are there, the data of a long bulk write passes at the pace as well: it takes until the next one
    /// may be dispatched, so no throughput is lost.
    fn pieces(&self, request: &Request, bulk: bool) -> Option<Pieces> {
        let rate = self.gate.rate().filter(|_| bulk && request.op == OpKind::Write)?;
        let quickest = self.quickest.ns().map_or(*PIECE_NS.end(), |ns| ns as f64 * self.c.piece);
        let least = self.gate.most.max(self.decision.most) * quickest.clamp(*PIECE_NS.start(), *PIECE_NS.end()) / 1e9;
        let size = (least as u64).max(request.piece?.0).max(1);
        let count = u32::try_from(request.cost.0 / size).unwrap_or(u32::MAX).min(PIECES_MAX);
        if count < 2 {
            return None;
        }
        let whole = i128::from(self.c.cost(request)) * (self.c.beta * 1e9) as i128 / rate;
        let whole =
            Duration::from_nanos(u64::try_from(whole).unwrap_or(u64::MAX)).min(Duration::from_secs_f64(self.c.spread));
        Some(Pieces { count, every: whole / count })
    }

    /// Frees what a request in the storage occupied; `complete` if the storage is done with it.
    fn free(&mut self, now: Time, id: RequestId, complete: bool) {
        let Entry { request, enqueued_at, state, .. } = *self.queue.requests.get(id);
        let State::Outstanding { since, bulk } = state else { panic!("only a dispatched request can be complete") };
        if let Some(bulk) = bulk {
            self.gate.leave(bulk, complete.then(|| now.nanos_since(since)));
        }
        self.outstanding -= 1;
        let flow = &mut self.flows[request.app.index()];
        flow.leave(now, enqueued_at, self.c.cost(&request));
        if complete {
            let took_ns = now.nanos_since(enqueued_at);
            flow.done += 1;
            let in_storage = now.nanos_since(since) as f64;
            flow.quickest = if flow.quickest == 0.0 { in_storage } else { flow.quickest.min(in_storage) };
            flow.served += self.c.cost(&request);
            flow.longest_ns = flow.longest_ns.max(took_ns);
            flow.promise.complete(Duration::from_nanos(took_ns), self.c.late);
            if !flow.bulk {
                self.quickest.add(now, took_ns);
            }
        }
    }

    fn end_if_idle(&mut self, now: Time) {
        self.queue.end_if_idle(now, self.outstanding, &mut self.events);
    }

    fn over(&mut self, now: Time, id: RequestId, complete: bool) {
        let Request { app, cost, .. } = self.queue.requests.get(id).request;
        self.free(now, id, complete);
        self.queue.requests.remove(id);
        self.queue.ledger.complete(id);
        self.events.push(now, Event::Completed { id, app, cost });
        self.tick(now);
        self.end_if_idle(now);
    }
}

impl Scheduler for Isolation {
    /// S = max(v, F of the flow's previous request + delay/φ), F = S + cost/φ.
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        self.tick(now);
        self.admit(now, arrived, request);
        let Request { id, app, cost, .. } = *request;
        self.events.push(now, Event::Enqueued { id, app, cost });
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        let dispatch = self.next_dispatch(now);
        if dispatch.is_none() {
            self.gate.is_empty = self.queue.first(BULK).is_none();
        }
        dispatch
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.over(now, id, true);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.over(now, id, false);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let Entry { request, enqueued_at, arrival, charged, state, .. } = *self.queue.requests.get(id);
        let Request { app, op, cost, .. } = request;
        match state {
            State::Queued => {
                self.dequeue(id);
                self.minima.on_queue(now, &mut self.queue, app);
                self.flows[app.index()].leave(now, enqueued_at, self.c.cost(&request));
            }
            State::Outstanding { .. } => {
                self.free(now, id, false);
                self.minima.recharge(now, &mut self.queue, app, [cost, Bytes::ZERO]);
            }
        }
        self.queue.requests.remove(id);
        let change = Change::reporting(id, app, op, [charged, Bytes::ZERO], [cost, Bytes::ZERO]);
        let refund = self.queue.ledger.cancel(change);
        self.queue.correct(app, arrival, refund);
        self.events.push(now, Event::Cancelled { id, app, cost });
        self.end_if_idle(now);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let entry = self.queue.requests.get_mut(id);
        let before = self.c.cost(&entry.request);
        let estimated = entry.request.correct(real);
        let after = self.c.cost(&entry.request);
        let queued = match &mut entry.state {
            State::Queued => true,
            State::Outstanding { bulk, .. } => {
                if let Some(bulk) = bulk {
                    bulk.cost = after;
                }
                false
            }
        };
        let Entry { request, arrival, charged: from, .. } = *entry;
        let Request { app, op, .. } = request;
        let flow = &mut self.flows[app.index()];
        flow.advance(now);
        flow.cost = flow.cost - before + after;
        if queued {
            flow.queued = flow.queued.saturating_sub(estimated) + real;
        } else {
            self.minima.recharge(now, &mut self.queue, app, [estimated, real]);
        }
        let to = Bytes(self.c.cost(&request));
        self.queue.requests.get_mut(id).charged = to;
        let delta = self.queue.ledger.correct(Change::reporting(id, app, op, [from, to], [estimated, real]));
        self.queue.correct(app, arrival, delta);
        self.events.push(now, Event::CostCorrected { id, app, estimated, real });
    }

    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        let is_elsewhere = self.queue.shares().share_of(app) != policy.share;
        self.queue.set_app(app, policy);
        if is_elsewhere && self.queue.queued(app) > 0 {
            self.minima.rebuild(now, &mut self.queue);
        }
        let AppPolicy { mut minimum, mut latency, target, .. } = *policy;
        if self.minima.kind() == TotalKind::Target {
            minimum = target.map(|target| Minimum { rate: target.rate, scope: target.scope });
            latency = target.map(|target| target.deadline);
        }
        self.flow(app).promise.set(latency, minimum.is_some());
        self.minima.set(now, &mut self.queue, app.into(), minimum);
        self.events.push(now, Event::WeightChanged { app, weight: policy.weight });
    }

    fn set_share(&mut self, now: Time, share: ShareId, policy: Option<&SharePolicy>) {
        let parent = self.queue.shares().policy_of(share).parent;
        self.queue.set_share(share, policy);
        if parent != policy.and_then(|policy| policy.parent) {
            self.minima.rebuild(now, &mut self.queue);
        }
        self.minima.set(now, &mut self.queue, share.into(), policy.and_then(|policy| policy.minimum));
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

    /// When bulk that is held back may be dispatched, the next minimum is due, or the next tick.
    fn poll_timeout(&self) -> Option<Time> {
        let tick = (!self.active.is_empty()).then(|| self.tick_since + self.tick_length());
        let due = self.due.map(|due| self.minima.next_due().map_or(due, |minimum| minimum.min(due)));
        [tick, due].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.tick(now);
    }
}

impl SharedService for Isolation {
    /// Delays the flow's next request [vPFS §III-B1]; see [`crate::dsfq`].
    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        if self.queue.ledger.is_local() {
            return;
        }
        let who = (Some(report.app), self.queue.shares().share_of(report.app));
        let bytes = self.prices.here(who, report.class, report.bytes);
        self.queue.hear(now, ServiceReport { bytes, ..report }, &mut self.events);
    }

    fn handle_strangers(&mut self, _now: Time, share: ShareId, class: ServiceClass, bytes: i64) {
        if !self.queue.ledger.is_local() {
            let bytes = self.prices.here((None, Some(share)), class, bytes);
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

impl Pacing for Isolation {
    fn set_shared(&mut self, now: Time, is_shared: bool) {
        if is_shared != self.is_shared {
            self.is_shared = is_shared;
            self.measured = None;
            if !self.active.is_empty() {
                self.measure(now);
            }
            self.decider = Decider::knowing(self.c, self.decision.best, self.decision.most, self.protection);
        }
    }

    fn end_tick(&mut self, now: Time) {
        if self.is_shared && !self.active.is_empty() && now > self.tick_since {
            let measure = self.measure(now);
            self.keep(measure);
        }
    }

    fn poll_measure(&mut self) -> Option<Measure<AppId>> {
        self.measured.take()
    }

    fn follow(&mut self, now: Time, decision: Decision<AppId>) {
        self.gate.set(now, decision.pace);
        self.gate.wide = decision.wide;
        self.decision = decision;
        self.sort(now);
    }
}

impl Engine for Isolation {
    fn limits(&self) -> Limits {
        Limits { pace: self.gate.rate().and_then(|rate| u64::try_from(rate).ok()), ..Limits::default() }
    }

    fn bulk(&self) -> &[AppId] {
        &self.decision.bulk
    }

    fn tried_rates(&self) -> Vec<TriedRate<AppId>> {
        let app = |key| u32::try_from(key).ok().map(AppId);
        self.decider.tried_rates().iter().map(|tried| tried.by(app)).collect()
    }

    fn reconfigure(&mut self, _now: Time, before: &Settings, settings: &Settings) -> bool {
        let same = settings.kind == before.kind;
        if same {
            self.set_sharing(settings.sharing);
            self.set_protection(settings.protection);
        }
        same
    }

    fn learned(&self, _now: Time) -> Option<Learned> {
        let Decision { best, most, .. } = self.decision;
        let Gate { usual, alone_ns, .. } = self.gate;
        let (best, most, usual, alone_ns) = (best as u64, most as u64, usual as u64, alone_ns as u64);
        (most > 0).then_some(Learned { best, most, usual, alone_ns })
    }

    fn remember(&mut self, _now: Time, learned: &Learned) {
        let Learned { best, most, usual, alone_ns } = *learned;
        let [best, most, usual, alone_ns] =
            [best, most, usual, alone_ns].map(|value| value.min(Self::LEARNED_MAX) as f64);
        self.decider = Decider::knowing(self.c, best, most, self.protection);
        (self.decision.best, self.decision.most) = (best, most);
        (self.gate.usual, self.gate.alone_ns, self.gate.most) = (usual, alone_ns, most);
    }

    fn shared(&mut self) -> Option<&mut dyn SharedService> {
        Some(self)
    }

    fn totals(&mut self) -> Option<&mut Totals> {
        Some(self.minima.totals())
    }

    fn pacing(&mut self) -> Option<&mut dyn Pacing> {
        Some(self)
    }

    fn waiting(&self, of: Member) -> Bytes {
        if !self.minima.is_waiting(of) {
            return Bytes::ZERO;
        }
        match of {
            Member::App(app) => self.flows[app.index()].queued,
            Member::Share(share) => {
                let apps = (0..).map(AppId).zip(&self.flows);
                let inside = apps.filter(|(app, _)| self.queue.shares().is_within(*app, share));
                inside.map(|(_, flow)| flow.queued).fold(Bytes::ZERO, Bytes::add)
            }
        }
    }

    fn hand_over(self: Box<Self>) -> Handover {
        let mut all: Vec<&Entry> = self.queue.requests.iter().collect();
        all.sort_unstable_by_key(|entry| entry.arrival);
        let of = |queued: bool| {
            let chosen = all.iter().filter(|entry| matches!(entry.state, State::Queued) == queued);
            chosen.map(|entry| (entry.enqueued_at, Request { elsewhere: None, ..entry.request })).collect()
        };
        Handover { outstanding: of(false), queued: of(true), events: self.events }
    }

    fn request(&self, id: RequestId) -> (Time, Request) {
        let Entry { request, enqueued_at, .. } = *self.queue.requests.get(id);
        (enqueued_at, request)
    }

    fn take_over(&mut self, now: Time, handover: Handover) {
        for (enqueued_at, request) in handover.outstanding {
            self.admit(now, enqueued_at, &request);
            self.dequeue(request.id);
            self.occupy(now, request.id, None);
        }
        for (enqueued_at, request) in handover.queued {
            self.admit(now, enqueued_at, &request);
        }
        self.events = handover.events;
    }
}
