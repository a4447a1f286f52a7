//! The control loop, at most ten times a second: which flows are bulk, how much bulk may be outstanding, and at what
//! rate it is dispatched.

use core::time::Duration;

use super::Isolation;
use super::calibration::Bulk;
use super::class::Class;
use super::meter::{Kind, Meter};
use crate::event::{Event, MissCause};
use crate::request::Request;
use crate::settings::CostUnit;
use crate::units::{AppId, Bytes, Time};

/// The minimum length of a control window.
const WINDOW_MIN: Duration = Duration::from_millis(100);
/// The excess of a flow that would have taken more, in thousandths of what is tolerable, whatever its latency.
const BACKLOGGED: i64 = 3000;
/// A flow whose costs could not be learned while it ran alone runs alone again after this time, then after twice that,
/// and so on: it gets more than its share then, which the others get back only later.
const SOLO_EVERY: Duration = Duration::from_secs(10);
const SOLO_DOUBLINGS: u32 = 8;
/// Consecutive windows in which bulk is dispatched more slowly than its pace allows, until its bound is raised.
const OVERDUE_WINDOWS: u32 = 3;
/// Consecutive windows in which a flow meets no criterion for bulk, until it is interactive again.
const MODEST_WINDOWS: u32 = 3;

/// All flows of a control window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    flows: usize,
    weights: u64,
    /// Its length in nanoseconds.
    whole: u64,
    /// Its time as it was divided among them.
    divided: u64,
    /// The storage was nearly saturated, if costs are right.
    is_busy: bool,
    /// The largest footprint.
    largest: u64,
    /// The largest usual request, in device time.
    usual: u64,
}

impl Crowd {
    /// Whether `used_ns` is more than is due to this part of all weights, in requests that are not small.
    pub(super) fn is_more_than_share(&self, used_ns: u64, part: u64, usual_ns: u64) -> bool {
        let share = u128::from(self.divided) * u128::from(part) / u128::from(self.weights.max(1));
        self.is_busy && usual_ns * 4 >= self.usual && u128::from(used_ns) * 4 > share * 5
    }
}

impl Isolation {
    /// Ends a control window if it is long enough: classifies flows and adjusts the pace and the bounds of bulk.
    pub(super) fn control(&mut self, now: Time) {
        let elapsed = now.since(self.window_since);
        if elapsed < WINDOW_MIN {
            return;
        }
        self.window_since = now;
        if self.active.is_empty() {
            return;
        }
        let used: u64 = self.active.iter().map(|app| self.meters[app.index()].used_ns).sum();
        let whole = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        for index in 0..self.active.len() {
            self.meters[self.active[index].index()].end_window(now, elapsed);
        }
        self.end_window_of_shares();
        let weights = self.active.iter().map(|app| self.meters[app.index()].part).sum::<u64>();
        let largest = self.active.iter().map(|app| self.meters[app.index()].footprint_ns).max();
        let usual = self.active.iter().map(|app| self.meters[app.index()].usual_ns).max().unwrap_or(0);
        // If the sum exceeds the time that passed, costs are wrong, and flows are not classified by them, unless all
        // are wrong by one factor: when storage has stood still for a moment, costs are too high for seconds.
        let is_one_class = self.is_one_class();
        let most = if is_one_class { u64::MAX } else { whole / 10 * 11 };
        let is_busy = (whole / 5 * 4..=most).contains(&used) && self.active.len() > 1;
        let divided = if is_one_class { used } else { whole.min(used) };
        self.bound.set_least(usual);
        let flows = self.active.len();
        let crowd = Crowd { flows, weights, whole, divided, is_busy, largest: largest.unwrap_or(0), usual };
        self.judge_shares(&crowd);
        let shortest = self.shortest_deadline();
        for index in 0..self.active.len() {
            let app = self.active[index];
            let judged = self.judge(now, app, &crowd);
            let kind = self.kind_by_promise(app, judged, shortest);
            if kind != self.kind(app) {
                self.events.push(now, Event::KindChanged { app, bulk: kind == Kind::Bulk });
            }
            self.set_kind(app, kind);
        }
        self.report_missed(now);
        let excess = self.excess(now);
        self.limit_window();
        let bulk = || self.active.iter().filter(|app| self.kind(**app) == Kind::Bulk);
        let bulk_weights: u64 = bulk().map(|app| self.meters[app.index()].part).sum();
        // If there are several, each runs alone for a moment instead, see below.
        let one_is_bulk = bulk().count() == 1;
        // Without bulk, its share is not zero but unknown: the next bulk request comes before the next window ends.
        if bulk_weights > 0 {
            let floor_ppm = u128::from(bulk_weights) * 1_000_000 / u128::from(weights);
            let due = u64::try_from(floor_ppm).expect("bulk is a part of all");
            self.pace.set_floor(now, self.floor_ppm(due));
        }
        self.pace.set_measures_best(self.measures_best());
        if bulk_weights > 0 && self.is_protecting(now) {
            self.control_bulk_bound(now, excess);
            let visible = self.congestion.is_visible() && self.pace.measures_best();
            if self.pace.control(now, excess, visible) {
                self.settle_latency(now);
            }
        }
        if bulk_weights > 0 && self.is_protecting(now) || one_is_bulk && self.is_on_standby(now) {
            self.consider_calibration(now);
        }
        self.consider_solo(now);
        self.forget_inactive(now);
    }

    /// Whether all flows send data in requests of one class, so that the cost of these changes no share.
    fn is_one_class(&self) -> bool {
        let class = |app: &AppId| self.meters[app.index()].last;
        let first = self.active.first().and_then(class);
        first.is_some() && self.active.iter().all(|app| class(app) == first)
    }

    /// Whether nothing was completed for as long as a window takes: the first completion after that would end it.
    pub(super) fn was_idle(&self, now: Time) -> bool {
        now.since(self.window_since) >= 2 * WINDOW_MIN
    }

    /// Lets bulk run without limit for a moment if its cost is unknown or doubtful.
    fn consider_calibration(&mut self, now: Time) {
        let cost_ns = self.last_bulk_ns();
        let unknown = self.last_bulk.is_some_and(|(op, extent)| !self.times.is_known(Class::of(op, extent)));
        let late = self.overdue >= 4 * OVERDUE_WINDOWS;
        let bulk = self.last_bulk.map(|(op, extent)| Bulk { op, extent, cost_ns });
        // Costs learned before the storage was known to be serial include time of other flows.
        let otherwise = self.congestion.is_serial() && !self.was_serial;
        let needed = unknown || late || otherwise || self.drift.has_drifted();
        self.calibration.consider(now, needed, !self.congestion.is_visible(), bulk);
    }

    /// The assumed cost of a usual bulk request.
    pub(super) fn last_bulk_ns(&self) -> u64 {
        self.last_bulk.map_or(0, |(op, extent)| self.times.extent_ns(op, extent))
    }

    /// Reports why a promised latency cannot be kept. A temporary miss is not reported while the pace can still be
    /// lowered.
    fn report_missed(&mut self, now: Time) {
        let at_floor = self.pace.is_at_floor();
        for index in 0..self.active.len() {
            let app = self.active[index];
            let cause = match self.kind(app) {
                Kind::Bulk => MissCause::MoreThanItsShare,
                Kind::Interactive if at_floor => MissCause::BulkAtItsShare,
                Kind::Interactive => continue,
            };
            if let Some((latency, kept)) = self.meters[app.index()].missed(now) {
                self.events.push(now, Event::LatencyMissed { app, latency, kept, cause });
            }
        }
    }

    /// Storage serves by what is outstanding, and only requests that are queued can be ordered. So if several flows are
    /// bulk, and what they have pending is not what is due to them, no more may be outstanding than leaves half of what
    /// each has queued while they have the storage by weight.
    fn limit_window(&mut self) {
        let bulk = || {
            self.active.iter().filter(|app| self.kind(**app) == Kind::Bulk).map(|app| (*app, &self.meters[app.index()]))
        };
        let parts: u128 = bulk().map(|(_, meter)| u128::from(meter.part)).sum();
        let of_all = |pending_ns: u64, meter: &Meter| u128::from(pending_ns) * parts / u128::from(meter.part.max(1));
        let all: u128 = bulk().map(|(_, meter)| u128::from(meter.steady_ns)).sum();
        // A flow that has nothing queued now and then has nothing to be ordered.
        let ordered = || bulk().filter(|(_, meter)| meter.backlogged);
        let is_due_otherwise = |(app, meter): (AppId, &Meter)| {
            let has_less = of_all(meter.steady_ns, meter) * 100 < all * 95;
            has_less || self.minima.has(&self.queue, app) || self.is_ahead_elsewhere(app)
        };
        let least = ordered().map(|(_, meter)| of_all(meter.footprint_ns, meter)).min().unwrap_or(0);
        let limit =
            if ordered().any(is_due_otherwise) { u64::try_from(least / 2).unwrap_or(u64::MAX) } else { u64::MAX };
        let contended = bulk().count() > 1;
        self.bound.set_limit(if contended { limit } else { u64::MAX });
        self.contended = contended;
    }

    /// Whether other servers gave a flow more than its share already.
    fn is_ahead_elsewhere(&self, app: AppId) -> bool {
        let most = Bytes(4 * self.meters[app.index()].usual_ns);
        !self.queue.ledger.is_local() && self.queue.is_ahead(app, most)
    }

    /// Lets a bulk flow run alone for a moment if there are others and its costs are not known.
    fn consider_solo(&mut self, now: Time) {
        if let Some((app, lasted)) = self.calibration.take_ended_solo()
            && self.cost_unit == CostUnit::DeviceTime
        {
            // Its charges may be wrong, but it cannot have used more than the time for which it ran alone.
            let most = Bytes(u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX));
            self.queue.limit_lead(app, most);
        }
        if self.is_expecting(now) {
            return self.calibration.end_solo(now);
        }
        let is_queued = |app: &&AppId| self.kind(**app) == Kind::Bulk && self.queue.oldest(**app).is_some();
        let goes_alone = |app: &&AppId| self.calibration.solo() == Some(**app);
        if self.active.iter().filter(|app| is_queued(app) || goes_alone(app)).count() < 2 {
            return self.calibration.end_solo(now);
        }
        let oldest = |app: &AppId| Some(self.queue.requests.get(self.queue.oldest(*app)?.id).request);
        // While all send requests of one class, its cost changes no share: to have tried twice is enough.
        let queued = || self.active.iter().filter(is_queued);
        let mut classes = queued().filter_map(oldest).map(|request| Class::of_request(&request));
        let first = classes.next();
        let is_enough = classes.all(|class| Some(class) == first)
            && queued().map(|app| self.meters[app.index()].solos).sum::<u32>() > 1;
        let unknown = |app: &AppId| {
            let request = oldest(app).filter(|_| !is_enough)?;
            let Request { op, cost, objects, .. } = request;
            let is_new = !self.times.is_proven(Class::of_request(&request));
            let due = is_new && now >= self.meters[app.index()].alone_again;
            due.then(|| (*app, self.times.request_ns(op, cost, objects)))
        };
        let next = self.active.iter().filter(is_queued).find_map(unknown);
        if let Some((app, cost_ns)) = next
            && !self.calibration.is_running()
        {
            let meter = &mut self.meters[app.index()];
            meter.alone_again = now + SOLO_EVERY * (1 << meter.solos.min(SOLO_DOUBLINGS));
            meter.solos += 1;
            self.calibration.begin_solo(now, app, cost_ns);
        }
    }

    /// Allows more outstanding bulk if bulk does not get its share otherwise or if no interactive flow suffers, and
    /// less if one suffers or the bound is not needed.
    fn control_bulk_bound(&mut self, now: Time, excess: Option<i64>) {
        let held = core::mem::take(&mut self.bulk_bound_held);
        let hurts = excess.is_some_and(|excess| excess > 1000);
        if !self.pace.measures_best() {
            // Deadlines tell directly whether more may be outstanding.
            self.overdue = 0;
            if hurts || held && excess == Some(0) {
                self.bound.adjust_bulk(!hurts, self.pace.usual_ns());
            }
            return;
        }
        let overdue = held && self.pace.is_overdue(now);
        self.overdue = if overdue { self.overdue + 1 } else { 0 };
        if self.overdue >= OVERDUE_WINDOWS && (self.pace.is_at_floor() || excess.is_some_and(|excess| excess < 700)) {
            self.bound.adjust_bulk(true, self.pace.usual_ns());
        } else if !overdue && (hurts || !held) {
            self.bound.adjust_bulk(false, self.pace.usual_ns());
        }
    }

    /// More bulk than usual is outstanding: latency counts again when that is complete.
    pub(super) fn settle_latency(&mut self, now: Time) {
        self.measure_from = now + Duration::from_nanos(self.in_flight.ns);
        self.active.iter().for_each(|app| self.meters[app.index()].restart_latency(self.measure_from));
    }

    /// Classifies a flow at the end of a window.
    ///
    /// Storage that serves requests in any order serves each flow in proportion to its outstanding work. So a flow is
    /// bulk if it has the most work pending, or at least half as much; if it has enough pending to fill the storage; if
    /// it always has many requests pending; if it takes, or could take, more than its share in requests that are not
    /// small; or if other servers have given it more than its share. Of a share in which as much work is pending
    /// together, the largest members are bulk.
    fn judge(&mut self, now: Time, app: AppId, crowd: &Crowd) -> Kind {
        let window_ns = self.bound.window_ns();
        let is_waiting = self.meters[app.index()].take_waiting(now).as_nanos() * 2 > u128::from(crowd.whole);
        let greedy = self.is_greedy(app, is_waiting, crowd);
        let meter = &self.meters[app.index()];
        // A flow that is alone and sometimes leaves the storage idle has shown nothing.
        let dominant = meter.footprint_ns * 2 >= crowd.largest && (crowd.flows > 1 || meter.backlogged);
        let filling = meter.footprint_ns >= window_ns.max(4 * meter.usual_ns) && is_waiting;
        let deep = meter.is_deep();
        // Protected here, it would get even more.
        let ahead = self.is_ahead_elsewhere(app);
        let bulk = dominant || filling || greedy || deep || ahead || self.is_large_in_heavy_share(app);
        let kind = self.kind(app);
        let meter = &mut self.meters[app.index()];
        meter.modest = if bulk { 0 } else { meter.modest + 1 };
        match kind {
            Kind::Interactive if bulk => Kind::Bulk,
            Kind::Bulk if meter.modest >= MODEST_WINDOWS => {
                meter.was_greedy = false;
                Kind::Interactive
            }
            _ => kind,
        }
    }

    /// Whether a flow whose requests are not small takes more than its share, has wanted more than it gets ever since
    /// it did, or always has a request pending whose cost is not known.
    fn is_greedy(&mut self, app: AppId, is_waiting: bool, crowd: &Crowd) -> bool {
        let meter = &mut self.meters[app.index()];
        let used_ns = core::mem::take(&mut meter.used_ns);
        if meter.usual_ns * 4 < crowd.usual {
            return false;
        }
        // As bulk it gets no more than its share, so only what it would take shows whether it has become modest.
        let still = meter.was_greedy && (is_waiting || meter.backlogged);
        let unproven = meter.last.is_some_and(|class| !self.times.is_proven(class));
        let takes_more = crowd.is_more_than_share(used_ns, meter.part, meter.usual_ns) || still;
        meter.was_greedy |= takes_more;
        takes_more || unproven && meter.backlogged && crowd.flows > 1
    }

    /// The largest excess of latency of all interactive flows; see [`Meter::excess`].
    fn excess(&mut self, now: Time) -> Option<i64> {
        let bulk = self.pace.take_issued();
        let at_floor = self.pace.is_at_floor();
        let tolerance_ppm = if self.congestion.is_serial() { self.pace.floor_ppm() } else { 1_000_000 };
        let mut worst = None;
        for index in 0..self.active.len() {
            let app = self.active[index];
            if self.kind(app) == Kind::Interactive {
                let meter = &mut self.meters[app.index()];
                let excess = meter.excess(now, bulk, at_floor, tolerance_ppm);
                // A flow that would have taken more is entitled to its whole share, whatever its latency.
                let is_entitled = meter.backlogged && meter.deadline().is_none();
                worst = worst.max(if is_entitled { Some(BACKLOGGED) } else { excess });
            } else {
                self.meters[app.index()].restart_latency(now);
            }
        }
        worst
    }

    /// Starts a window with the flows that have requests pending or are expected to send some soon.
    fn forget_inactive(&mut self, now: Time) {
        let meters = &mut self.meters;
        let mut protect_until = now;
        self.active.retain(|&app| {
            let meter = &mut meters[app.index()];
            if meter.kind == Kind::Interactive {
                protect_until = protect_until.max(meter.expected_until());
            }
            meter.active = meter.queued + meter.outstanding > 0 || now < meter.expected_until();
            meter.active
        });
        self.protect_until = protect_until;
    }
}
