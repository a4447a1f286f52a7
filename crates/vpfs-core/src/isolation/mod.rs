//! Isolation: an application that asks for less than its share is hardly affected by the others, and those that ask for
//! more share the rest by weight. This goes beyond the papers, whose policies decide which request is *next* but do not
//! control the requests that are already *in* the storage.
//!
//! - **Shares of device time** (`device_time`): SFQ tags grow by the device time of each request, the part of the
//!   storage's time that it takes, which is learned from completions.
//! - **A bound on outstanding device time** (`bound`), as small as throughput allows, and smaller for bulk while an
//!   interactive flow is protected. One bulk request may always be outstanding.
//! - **Pacing** (`pace`): a flow is *interactive* while it asks for less than its share, and *bulk* while it takes all
//!   it can get. While an interactive flow is active or expected back soon, bulk is dispatched at a limited rate. The
//!   latency of interactive flows determines that rate, but it is never below bulk's share by weight. So the time for
//!   which the storage waits for an interactive flow is bounded by that flow's share. For two seconds after an
//!   interactive flow was active, bulk is limited to nine tenths of the time; flows that have been away for longer do
//!   not restrict it.
//! - **Minima** (`minima`): an application or a share that got less than its minimum rate comes first, whatever its
//!   part and its kind; bulk then does not keep to its pace.
//! - **Pieces** (`dispatching`): while bulk is restricted, the data of long bulk writes is sent in pieces.
//!
//! Where all requests share one head, interactive flows thus get what they are entitled to by weight. Where storage
//! serves requests in parallel or has several kinds of limits (volumes with limits on bytes and on I/Os per second),
//! they get nearly what they would get alone.

mod bound;
mod calibration;
mod charging;
mod class;
mod congestion;
mod control;
mod device_time;
mod dispatching;
mod drift;
mod exchange;
mod in_flight;
mod learning;
mod memory;
mod meter;
mod pace;
mod promises;
mod reasons;
mod share_use;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use bound::Bound;
use calibration::{Calibration, Outcome};
use class::{Class, extent};
use congestion::Congestion;
use device_time::{DeviceTimes, Done};
use dispatching::{Hold, Turn};
use drift::Drift;
use in_flight::InFlight;
use learning::Learning;
use meter::{Kind, Meter};
use pace::Pace;
use reasons::Reasons;
use share_use::ShareUse;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::dsfq::{Change, SharedService};
use crate::event::{Event, EventQueue};
use crate::fair::{FairQueue, Queued};
use crate::list::{Links, Node};
use crate::minima::Minima;
use crate::prices::Prices;
use crate::quickest::Quickest;
use crate::request::{Dispatch, OpKind, Pieces, Request, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::{CostUnit, DeviceTime, Sharing};
use crate::tags::Head;
use crate::total::TotalKind;
use crate::units::{AppId, Bytes, RequestId, SlotCost, Time};

/// A request in use.
#[derive(Clone, Copy, Debug)]
struct Entry {
    request: Request,
    enqueued_at: Time,
    arrival: u64,
    /// The service that its flow requested before it.
    position: u128,
    /// Its device time, which counts while it is queued or outstanding; one nanosecond is one unit of service.
    service: Bytes,
    /// What its flow is charged: `service`, or its bytes.
    charged: Bytes,
    /// The version of the costs with which it was enqueued.
    version: u32,
    state: State,
    links: Links,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Queued,
    Outstanding(Outstanding),
}

/// How far bulk is restricted for the sake of interactive flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    None,
    /// An interactive flow was active recently and may come back: bulk leaves it some room.
    Standby,
    /// An interactive flow is active or expected soon: bulk is paced.
    Active,
}

/// An outstanding request.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// The kind of its flow when it was dispatched.
    kind: Kind,
    /// Nothing else was outstanding when it was dispatched.
    alone: bool,
    /// Bulk was paced at the floor when it was dispatched.
    at_floor: bool,
    dispatched_at: Time,
    /// The device time of it and of all requests that were outstanding before it, or the time over which its pieces are
    /// spread, if that is longer.
    due_ns: u64,
    /// How its data is divided, if it is sent in pieces.
    pieces: Option<Pieces>,
}

impl State {
    fn is_queued(self) -> bool {
        matches!(self, Self::Queued)
    }

    /// Panics if it is queued.
    fn outstanding(self) -> Outstanding {
        let Self::Outstanding(outstanding) = self else { panic!("only a dispatched request can be complete") };
        outstanding
    }
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

/// The scheduler for one storage server; see the [module](self).
///
/// Operations are O(log n) in the number of flows; the end of a control window, at most ten times a second, is O(n) in
/// the flows that were active in it.
#[derive(Debug)]
pub struct Isolation {
    /// With a lane for each [`Kind`]. The cost of its requests is device time, in nanoseconds, or bytes.
    queue: FairQueue<Entry>,
    minima: Minima,
    prices: Prices,
    cost_unit: CostUnit,
    events: EventQueue,
    in_flight: InFlight,
    times: Box<DeviceTimes>,
    learning: Box<Learning>,
    bound: Box<Bound>,
    pace: Pace,
    /// By application.
    meters: Vec<Meter>,
    /// The applications that were active in this control window.
    active: Vec<AppId>,
    share_uses: Vec<ShareUse>,
    window_since: Time,
    /// Until then an interactive flow is expected to send requests.
    protect_until: Time,
    /// Until then an interactive flow that was active recently may come back.
    standby_until: Time,
    /// That flow. If it has become bulk, it is not restricted for its own sake.
    standby_for: Option<AppId>,
    /// Interactive requests queued or outstanding.
    interactive_pending: usize,
    /// What held a request back at the last poll.
    held: Option<Hold>,
    reasons: Reasons,
    /// The latest bulk request of usual cost that was dispatched, with its extent.
    last_bulk: Option<(OpKind, Bytes)>,
    /// More than one flow was bulk in the last window of control.
    contended: bool,
    /// In this window of control, bulk was held back by its bound.
    bulk_bound_held: bool,
    /// Consecutive control windows in which that bound held bulk back although its pace allowed more.
    overdue: u32,
    /// Latency is measured for requests enqueued from then on. Before, more bulk than usual was outstanding.
    measure_from: Time,
    calibration: Calibration,
    drift: Drift,
    congestion: Congestion,
    /// At the end of the latest calibration, the storage was known to serve requests one after another.
    was_serial: bool,
    quickest: Quickest,
}

impl Isolation {
    /// For this long after it was active, an interactive flow may come back and must not find the storage full.
    const STANDBY: Duration = Duration::from_secs(2);
    /// Where thresholds are configured in bytes, 10 ns of service stand for a byte.
    const NS_PER_BYTE: u64 = 10;

    /// A scheduler that keeps at most `event_capacity` events between polls.
    pub fn new(event_capacity: usize) -> Self {
        Self {
            queue: FairQueue::new(Kind::LANES),
            minima: Minima::new(TotalKind::Minimum),
            prices: Prices::new(Self::NS_PER_BYTE, 1),
            cost_unit: CostUnit::default(),
            events: EventQueue::with_capacity(event_capacity),
            in_flight: InFlight::default(),
            times: Box::new(DeviceTimes::new()),
            learning: Box::new(Learning::new()),
            bound: Box::new(Bound::new()),
            pace: Pace::new(),
            meters: Vec::new(),
            active: Vec::new(),
            share_uses: Vec::new(),
            window_since: Time::ZERO,
            protect_until: Time::ZERO,
            standby_until: Time::ZERO,
            standby_for: None,
            interactive_pending: 0,
            held: None,
            reasons: Reasons::default(),
            last_bulk: None,
            contended: false,
            bulk_bound_held: false,
            overdue: 0,
            measure_from: Time::ZERO,
            calibration: Calibration::default(),
            drift: Drift::default(),
            congestion: Congestion::default(),
            was_serial: false,
            quickest: Quickest::default(),
        }
    }

    /// What a flow is charged for a request of size `bytes` and device time `service`.
    fn charge(&self, service: Bytes, bytes: Bytes) -> Bytes {
        match self.cost_unit {
            CostUnit::DeviceTime => service,
            CostUnit::Bytes => bytes,
        }
    }

    /// Changes the scope of the shares, initially each server by itself; see [`crate::dsfq`]. Tags do not change.
    /// O(applications).
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.queue.set_sharing(sharing);
    }

    /// Replaces what is known about these classes by measured costs, from which learning continues. O(rows).
    pub fn set_device_times(&mut self, measured: &[DeviceTime]) {
        measured.iter().for_each(|row| self.times.set(*row));
        (self.drift, self.congestion) = (Drift::default(), Congestion::default());
        self.bound.reset_bulk();
        self.pace.set_usual(self.last_bulk_ns());
    }

    /// Charges a request to its flow and queues it.
    fn admit(&mut self, now: Time, enqueued_at: Time, request: &Request) {
        let Request { id, app, op, cost, objects, .. } = *request;
        let service = Bytes(self.times.request_ns(op, cost, objects));
        let charged = self.charge(service, cost);
        let delay = self.delay(request, charged);
        let arrival = self.queue.next_arrival();
        let position = self.queue.charge(app, arrival, [charged, delay]);
        let entry = Entry {
            request: *request,
            enqueued_at,
            arrival,
            position,
            service,
            charged,
            version: self.times.version(),
            state: State::Queued,
            links: Links::UNLINKED,
        };
        self.queue.requests.insert(id, entry);
        self.queue.push(self.kind(app).lane(), id);
        self.minima.on_queue(now, &mut self.queue, app);
        self.note_arrival(now, request, service);
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

    fn note_arrival(&mut self, now: Time, request: &Request, service: Bytes) {
        let Request { app, op, cost, .. } = *request;
        let idle_max = meter::idle_max(self.pace.usual_ns());
        if self.meter_mut(app).was_away(now, idle_max) {
            // Its earlier behaviour is no indication of what it does now.
            self.set_kind(app, if self.is_in_heavy_share(app) { Kind::Bulk } else { Kind::Interactive });
        }
        let meter = self.meter_mut(app);
        meter.on_arrival(now, service.0);
        meter.queued_cost += cost;
        if op != OpKind::Metadata {
            meter.last = Some(Class::of_request(request));
        }
        let newly_active = !core::mem::replace(&mut meter.active, true);
        if newly_active {
            self.active.push(app);
            if self.meters[app.index()].deadline().is_some() {
                // The first bulk beside it must not measure what a deadline tells.
                self.pace.set_measures_best(self.measures_best());
            }
        }
        if self.kind(app) == Kind::Interactive {
            self.interactive_pending += 1;
            self.expect(now, app);
        }
    }

    /// An interactive flow was active, and is expected to be active again.
    fn expect(&mut self, now: Time, app: AppId) {
        (self.standby_until, self.standby_for) = (now + Self::STANDBY, Some(app));
        let idle_max = meter::idle_max(self.pace.usual_ns());
        self.protect_until = self.protect_until.max(self.meters[app.index()].expect(now, idle_max));
    }

    /// Whether interactive flows are protected from bulk now. A calibration without limits suspends that.
    fn is_protecting(&self, now: Time) -> bool {
        (!self.calibration.is_running() || self.calibration.solo().is_some()) && self.is_expecting(now)
    }

    /// How far bulk of `app` is restricted.
    fn protection(&self, now: Time, app: AppId) -> Protection {
        if self.is_protecting(now) {
            Protection::Active
        } else if self.is_on_standby(now) && self.standby_for != Some(app) {
            Protection::Standby
        } else {
            Protection::None
        }
    }

    /// Whether an interactive flow was active recently, and no calibration is running.
    fn is_on_standby(&self, now: Time) -> bool {
        now < self.standby_until && !self.calibration.is_running()
    }

    /// Whether any active flow is restricted by standby for another one. A flow that starts with metadata asks for
    /// little at first; later it must not be restricted for its own sake.
    fn is_for_others(&self) -> bool {
        self.active.iter().any(|app| self.standby_for != Some(*app))
    }

    /// Whether an interactive flow has requests pending or is expected to send some.
    fn is_expecting(&self, now: Time) -> bool {
        self.interactive_pending > 0 || now < self.protect_until
    }

    fn meter_mut(&mut self, app: AppId) -> &mut Meter {
        if app.index() >= self.meters.len() {
            self.meters.resize_with(app.index() + 1, Meter::new);
        }
        &mut self.meters[app.index()]
    }

    fn kind(&self, app: AppId) -> Kind {
        self.meters.get(app.index()).map_or(Kind::default(), |meter| meter.kind)
    }

    /// Takes a queued request out of the queue.
    fn dequeue(&mut self, id: RequestId) {
        let Request { app, cost, .. } = self.queue.requests.get(id).request;
        let queued_cost = &mut self.meters[app.index()].queued_cost;
        *queued_cost = queued_cost.saturating_sub(cost);
        self.queue.remove(self.kind(app).lane(), id);
    }

    /// Changes the kind of a flow and of its pending requests.
    fn set_kind(&mut self, app: AppId, kind: Kind) {
        let before = core::mem::replace(&mut self.meter_mut(app).kind, kind);
        if before == kind {
            return;
        }
        self.queue.move_flow(app, before.lane(), kind.lane());
        let meter = &self.meters[app.index()];
        let pending = (meter.queued + meter.outstanding) as usize;
        match kind {
            Kind::Interactive => self.interactive_pending += pending,
            Kind::Bulk => self.interactive_pending -= pending,
        }
    }

    /// Dispatches `chosen`, while `head` has the smallest tag.
    fn dispatch(&mut self, now: Time, chosen: Head, head: Head, why: Turn) -> Dispatch {
        let Head { id, app, .. } = chosen;
        self.dequeue(id);
        self.update_charge(now, id);
        let cost = self.queue.requests.get(id).request.cost;
        self.minima.charge(now, &mut self.queue, app, cost);
        if why == Turn::Share {
            self.minima.on_shared(self.queue.requests.get(id).service.0);
        }
        let waits_since = self.queue.requests.get(id).enqueued_at;
        let rule = self.reasons.of(now, waits_since, app, self.kind(app));
        self.reasons.on_dispatch(app, why);
        let pieces = self.pieces(now, id, why);
        let enqueued_at = self.occupy(now, id, pieces);
        self.queue.clock.advance(head.start.max(self.queue.clock.now()));
        self.queue.settle(app);
        let (slot_cost, backfilled) = (SlotCost::ONE, id != head.id);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces, rule }
    }

    /// A request is complete or cancelled.
    fn forget_pending(&mut self, now: Time, app: AppId, cost_ns: u64) {
        self.meters[app.index()].on_over(now, cost_ns);
        if self.kind(app) == Kind::Interactive {
            self.interactive_pending -= 1;
        }
    }

    /// Learns about costs from a completed request, which `was` outstanding at a cost of `cost_ns`.
    fn learn_from(&mut self, now: Time, was: &Outstanding, cost_ns: u64, done: Done) {
        if !done.bulk && was.alone && self.in_flight.requests == 0 {
            self.times.note_alone(done, now.since(was.dispatched_at));
        }
        let learned = self.learning.on_complete(now, done, self.in_flight.ns, &mut self.times);
        if done.bulk && !self.calibration.is_running() && self.is_protecting(now) {
            self.drift.on_complete(now, was.dispatched_at, was.due_ns);
            if self.pace.is_usual(done.cost_ns) {
                self.notice_congestion(now, was, cost_ns);
            }
        }
        if let Some(outcome) = self.calibration.on_window(now, learned, &self.times) {
            if outcome != Outcome::Nothing {
                self.events.push(now, Event::CostsMeasured { changed: outcome == Outcome::Changed });
                self.overdue = 0;
                self.drift.settle(now, outcome == Outcome::Changed);
            }
            self.was_serial = self.congestion.is_serial();
            self.congestion.settle(now, outcome == Outcome::Changed);
            if outcome == Outcome::Changed {
                self.times.forget();
                self.bound.reset_bulk();
                self.pace.set_usual(self.last_bulk_ns());
            }
            self.pace.probe(now);
            self.settle_latency(now);
            self.active.iter().for_each(|app| self.meters[app.index()].forget_best());
        }
    }

    /// Slows bulk down if a bulk request waited inside the storage. Of a request sent in pieces, only the last piece
    /// counts.
    fn notice_congestion(&mut self, now: Time, was: &Outstanding, cost_ns: u64) {
        let took_ns = now.nanos_since(was.dispatched_at);
        let last_piece = was.pieces.and_then(|pieces| {
            // The driver may have sent it whole.
            let took_ns = took_ns.checked_sub(pieces.paused_ns())?;
            Some((took_ns, cost_ns / u64::from(pieces.count.max(1))))
        });
        let (took_ns, due_ns) = last_piece.unwrap_or((took_ns, was.due_ns));
        if let Some(waited) = self.congestion.on_complete(was.dispatched_at, took_ns, due_ns, was.at_floor)
            && self.pace.measures_best()
        {
            self.pace.on_congestion(now, waited);
        }
    }

    fn end_if_idle(&mut self, now: Time) {
        self.queue.end_if_idle(now, self.in_flight.requests, &mut self.events);
    }
}

impl Scheduler for Isolation {
    /// S = max(v, F of the flow's previous request + delay/φ), F = S + device time (or bytes)/φ.
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        if self.queue.len() == 0 && self.in_flight.requests == 0 && self.was_idle(now) {
            // Flows are not judged by a window in which for the most part nobody asked for anything.
            self.control(now);
        }
        self.admit(now, arrived, request);
        let Request { id, app, cost, .. } = *request;
        self.events.push(now, Event::Enqueued { id, app, cost });
    }

    /// Dispatches the queued request with the smallest start tag, as far as the bounds and the pace of bulk allow.
    /// Interactive requests pass bulk that is held back.
    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        let dispatch = self.next_dispatch(now);
        if dispatch.is_none() {
            self.on_drained(now);
        }
        dispatch
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        let Entry { request, enqueued_at, service: Bytes(cost_ns), state, .. } = *self.queue.requests.get(id);
        let Request { app, op, cost, objects, .. } = request;
        let was = state.outstanding();
        self.queue.requests.remove(id);
        self.free(now, app, &was, cost_ns);
        self.queue.ledger.complete(id);
        self.events.push(now, Event::Completed { id, app, cost });
        let took = (enqueued_at >= self.measure_from).then(|| now.since(enqueued_at));
        self.meters[app.index()].on_complete(took, cost_ns);
        if self.kind(app) == Kind::Interactive {
            self.expect(now, app);
            self.quickest.add(now, now.nanos_since(enqueued_at));
        }
        // Uses the costs known now, as the charged cost may already be known to be wrong.
        let is_bulk = was.kind == Kind::Bulk;
        let done = self.times.done(op, extent(op, cost, objects), is_bulk, self.congestion.is_serial()).of(objects);
        self.learn_from(now, &was, cost_ns, done);
        if let Some(window) = self.bound.on_complete(now, done, &self.times) {
            self.events.push(now, Event::WindowChanged { window });
        }
        self.control(now);
        self.end_if_idle(now);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.charge_stall(now, id);
        let Entry { request: Request { app, cost, .. }, service, state, .. } = *self.queue.requests.get(id);
        self.queue.requests.remove(id);
        self.free(now, app, &state.outstanding(), service.0);
        self.queue.ledger.complete(id);
        self.events.push(now, Event::Completed { id, app, cost });
        self.learning.restart();
        if self.calibration.solo() == Some(app) {
            // It shows nothing, and meanwhile the others wait for its client.
            self.calibration.end_solo(now);
        }
        self.end_if_idle(now);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let Entry { request: Request { app, op, cost, .. }, arrival, service, charged, state, .. } =
            *self.queue.requests.get(id);
        match state {
            State::Queued => {
                self.dequeue(id);
                self.minima.on_queue(now, &mut self.queue, app);
                self.meters[app.index()].on_dequeued(now);
                self.forget_pending(now, app, service.0);
            }
            State::Outstanding(was) => {
                self.free(now, app, &was, service.0);
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

    /// An outstanding request counts with the device time it was dispatched with; only its charge changes.
    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let entry = self.queue.requests.get_mut(id);
        let estimated = entry.request.correct(real);
        let Entry { request: Request { app, op, objects, .. }, arrival, service, charged: from, state, .. } = *entry;
        let takes = Bytes(self.times.request_ns(op, real, objects));
        if state.is_queued() {
            entry.service = takes;
            let queued_cost = &mut self.meters[app.index()].queued_cost;
            *queued_cost = queued_cost.saturating_sub(estimated) + real;
            self.meters[app.index()].on_correction(now, service.0, takes.0);
        } else {
            self.minima.recharge(now, &mut self.queue, app, [estimated, real]);
        }
        let to = self.charge(takes, real);
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
        self.set_promise(now, app, policy);
        self.events.push(now, Event::WeightChanged { app, weight: policy.weight });
    }

    fn set_share(&mut self, now: Time, share: ShareId, policy: Option<&SharePolicy>) {
        let parent = self.queue.shares().policy_of(share).parent;
        self.queue.set_share(share, policy);
        if parent != policy.and_then(|policy| policy.parent) {
            self.minima.rebuild(now, &mut self.queue);
        }
        let minimum = policy.and_then(|policy| policy.minimum);
        let minimum = minimum.filter(|_| self.minima.kind() == TotalKind::Minimum);
        self.minima.set(now, &mut self.queue, share.into(), minimum);
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn outstanding(&self) -> usize {
        self.in_flight.requests
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }

    /// When bulk that is held back may be dispatched, or the next minimum is due.
    fn poll_timeout(&self) -> Option<Time> {
        match self.held? {
            Hold::Pace(due) => Some(self.minima.next_due().map_or(due, |minimum| minimum.min(due))),
            Hold::Solo(expected) => expected,
            // A request is outstanding then, and its completion comes first.
            Hold::Bound | Hold::BulkBound => None,
        }
    }
}

impl SharedService for Isolation {
    /// Delays the flow's next request [vPFS §III-B1]; see [`crate::dsfq`].
    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        if self.queue.ledger.is_local() {
            return;
        }
        let who = (Some(report.app), self.queue.shares().share_of(report.app));
        let bytes = self.prices.here(who, report.class, report.bytes, self.cost_unit);
        let report = ServiceReport { bytes, ..report };
        self.queue.hear(now, report, &mut self.events);
    }

    fn handle_strangers(&mut self, _now: Time, share: ShareId, class: ServiceClass, bytes: i64) {
        if !self.queue.ledger.is_local() {
            let bytes = self.prices.here((None, Some(share)), class, bytes, self.cost_unit);
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
