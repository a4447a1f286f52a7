//! Which request is dispatched next, and what holds the others back.

use core::time::Duration;

use super::bound::Bound;
use super::calibration::Calibration;
use super::class::Class;
use super::learning::Load;
use super::meter::Kind;
use super::{Entry, InFlight, Isolation, Protection};
use crate::member::Member;
use crate::request::{Dispatch, OpKind, Pieces, Request};
use crate::tags::Head;
use crate::units::{Bytes, RequestId, Time};

/// Why the next request is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The bound on outstanding work is reached.
    Bound,
    /// The bound on outstanding bulk beside interactive requests is reached.
    BulkBound,
    /// Another flow goes alone for a moment, to show what its requests cost. All are in the storage, or the next one
    /// is expected by that time.
    Solo(Option<Time>),
    /// Bulk goes at a limited rate, until then.
    Pace(Time),
}

/// Why a request is dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// By its tag, and the pace of its kind.
    Share,
    /// Its application got less than its minimum.
    Minimum,
}

/// The bound on outstanding bulk after an interactive flow was active; one request is always allowed.
const STANDBY_NS: u64 = 20_000_000;

/// The longest time for which the storage waits for the next request of a flow that goes alone.
const SOLO_IDLE_MAX: Duration = Duration::from_millis(10);

/// A piece of a long write takes at least this many times as long as the quickest interactive request, because it may
/// need a seek, too.
const PIECE_TIMES: u64 = 6;
/// Limits on the length of a piece; the upper one is used while the quickest request is not known.
const PIECE_NS_LEAST: u64 = 2_000_000;
const PIECE_NS_MOST: u64 = 20_000_000;
const PIECES_MAX: u32 = 64;
/// The maximum time over which pieces are spread: the client and its later requests wait for the last one.
const SPREAD_MAX_NS: u64 = 8_000_000_000;

impl Isolation {
    /// Dispatches the next request, if one may be dispatched; see [`Scheduler::poll_dispatch`].
    pub(super) fn next_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        self.held = None;
        self.queue.pass_departures();
        let Some((whose, preferred)) = self.preferred(now) else { return self.next_by_share(now) };
        let first = self.first()?;
        if self.minima.owes(self.queue.requests.get(first.id).service.0)
            && let Some(dispatch) = self.next_by_share(now)
        {
            return Some(dispatch);
        }
        self.next_by_minimum(now, (whose, preferred), first)
    }

    /// The queued request with the smallest start tag.
    fn first(&self) -> Option<Head> {
        let (bulk, interactive) = (self.queue.first(Kind::Bulk.lane()), self.queue.first(Kind::Interactive.lane()));
        bulk.into_iter().chain(interactive).min()
    }

    /// The request that comes before all others for the sake of a minimum, and whose that is, unless a flow goes alone
    /// for a moment.
    fn preferred(&mut self, now: Time) -> Option<(Member, Head)> {
        let whose = self.minima.first(now, &mut self.queue)?;
        let next = self.queue.next_of(whose).filter(|_| self.calibration.solo().is_none())?;
        Some((whose, next))
    }

    /// Dispatches a request that is preferred to `first`, which has the smallest tag. Neither the pace of bulk nor its
    /// bound applies. If the storage is full, no other bulk goes, and interactive requests only as far as shares allow.
    fn next_by_minimum(&mut self, now: Time, (whose, preferred): (Member, Head), first: Head) -> Option<Dispatch> {
        let Entry { request, service: Bytes(cost_ns), charged, .. } = *self.queue.requests.get(preferred.id);
        let has_room = match self.kind(preferred.app) {
            Kind::Interactive => self.has_room(preferred),
            Kind::Bulk => self.in_flight.bulk == 0 || self.in_flight.ns + cost_ns <= self.window_ns(),
        };
        if !has_room {
            self.held = Some(Hold::Bound);
            let interactive = self.queue.first(Kind::Interactive.lane())?;
            let passing = interactive.start <= self.queue.finish(preferred);
            return (passing && self.has_room(interactive))
                .then(|| self.dispatch(now, interactive, first, Turn::Share));
        }
        let taken_ns = if preferred.id == first.id { 0 } else { cost_ns };
        self.minima.on_preferred(&self.queue, whose, request.cost, taken_ns);
        let dispatch = self.dispatch(now, preferred, first, Turn::Minimum);
        // What they got beyond their share is not owed to the others.
        match whose {
            Member::App(app) => self.queue.limit_lead(app, charged),
            Member::Share(share) => self.queue.limit_lead_of(share, preferred.app, charged),
        }
        Some(dispatch)
    }

    /// Dispatches the next request by tags, kinds and pace.
    fn next_by_share(&mut self, now: Time) -> Option<Dispatch> {
        let (bulk, interactive) = (self.queue.first(Kind::Bulk.lane()), self.queue.first(Kind::Interactive.lane()));
        let Some(bulk) = bulk.filter(|bulk| interactive.is_none_or(|interactive| *bulk < interactive)) else {
            let head = interactive?;
            if !self.has_room(head) {
                self.held = Some(Hold::Bound);
                self.reasons.on_hold(now, Hold::Bound, self.calibration.solo());
                return None;
            }
            return Some(self.dispatch(now, head, head, Turn::Share));
        };
        let hold = match self.turn(now, bulk).and_then(|chosen| self.may_go(now, chosen).map(|()| chosen)) {
            Ok(chosen) => return Some(self.dispatch(now, chosen, bulk, Turn::Share)),
            Err(hold) => hold,
        };
        self.held = Some(hold);
        self.reasons.on_hold(now, hold, self.calibration.solo());
        // Interactive requests pass bulk that is held back; if the storage is full, only as far as shares allow. It is
        // not full while it waits for the next piece of a write, nor known to be so while that is measured.
        let full = hold == Hold::Bound && self.in_flight.in_pieces == 0 && !self.calibration.is_running();
        let passing = interactive.filter(|interactive| !full || interactive.start <= self.queue.finish(bulk))?;
        self.has_room(passing).then(|| self.dispatch(now, passing, bulk, Turn::Share))
    }

    /// The bulk request whose turn it is: that with the smallest tag, unless a flow goes alone for a moment. That flow
    /// may have all its requests in the storage, or send the next one only when one is complete.
    fn turn(&mut self, now: Time, first: Head) -> Result<Head, Hold> {
        let Some(app) = self.calibration.solo() else { return Ok(first) };
        let meter = &self.meters[app.index()];
        let expected = meter.idle_since().map(|since| since + meter.usual_idle().min(SOLO_IDLE_MAX));
        match self.queue.oldest(app) {
            Some(oldest) => Ok(oldest),
            None if expected.is_none_or(|expected| now < expected) => Err(Hold::Solo(expected)),
            None => {
                self.calibration.end_solo(now);
                Ok(first)
            }
        }
    }

    /// Whether an interactive request may be dispatched. Outstanding bulk does not count.
    fn has_room(&self, head: Head) -> bool {
        let InFlight { ns, bulk_ns, bulk, requests, .. } = self.in_flight;
        requests == bulk || ns - bulk_ns + self.queue.requests.get(head.id).service.0 <= self.bound.window_ns()
    }

    /// Whether a bulk request may be dispatched. The bounds always allow one, but its pace applies.
    fn may_go(&mut self, now: Time, head: Head) -> Result<(), Hold> {
        let protection = self.protection(now, head.app);
        if self.in_flight.bulk > 0 {
            let cost_ns = self.queue.requests.get(head.id).service.0;
            let window_ns = self.window_ns();
            let bulk_bound_ns = match protection {
                Protection::Active => self.bound.bulk_ns(),
                Protection::Standby => STANDBY_NS,
                Protection::None => u64::MAX,
            };
            if self.in_flight.bulk_ns + cost_ns > bulk_bound_ns {
                return Err(Hold::BulkBound);
            }
            if self.in_flight.ns + cost_ns > window_ns {
                return Err(Hold::Bound);
            }
        }
        self.pace.set_standby(now, protection == Protection::Standby);
        let request = self.queue.requests.get(head.id).request;
        if !self.is_limited(protection, &request) {
            return Ok(());
        }
        if protection == Protection::Active && self.pace.on_protecting(now) {
            self.settle_latency(now);
            self.congestion.settle(now, false);
            self.active.iter().for_each(|app| self.meters[app.index()].forget_best());
        }
        self.pace.try_issue(now).map_err(|due| Hold::Pace(self.recheck_at(now, protection, due)))
    }

    /// How much may be in the storage beside a bulk request, in device time.
    fn window_ns(&self) -> u64 {
        let moment_ns = Calibration::IN_FLIGHT_NS.max(2 * self.pace.usual_ns());
        match (self.calibration.is_running(), self.calibration.solo()) {
            (false, _) => self.bound.window_ns(),
            (true, None) => self.bound.window_ns().min(moment_ns),
            // There is nothing to order, and less than it would have alone does not show what it costs.
            (true, Some(_)) => moment_ns.max(Bound::START_NS),
        }
    }

    /// Whether bulk like this goes at a limited rate.
    pub(super) fn is_limited(&self, protection: Protection, request: &Request) -> bool {
        match protection {
            Protection::None => false,
            // A guess may be far too high.
            Protection::Standby => self.times.is_known(Class::of_request(request)),
            Protection::Active => true,
        }
    }

    /// When to check again whether bulk may be dispatched: at `due`, or sooner if protection ends before.
    fn recheck_at(&self, now: Time, protection: Protection, due: Time) -> Time {
        let ends = protection == Protection::Active && self.interactive_pending == 0 && self.protect_until > now;
        if ends { due.min(self.protect_until) } else { due }
    }

    /// While bulk is restricted, the data of a long bulk write is sent in pieces, so that requests of other flows get
    /// in between. The write takes until the next one may be dispatched, so no throughput is lost.
    pub(super) fn pieces(&self, now: Time, id: RequestId, turn: Turn) -> Option<Pieces> {
        let Entry { request: Request { app, op, cost, piece, .. }, service: Bytes(cost_ns), .. } =
            *self.queue.requests.get(id);
        let smallest = piece?;
        let is_bulk = self.kind(app) == Kind::Bulk;
        if !is_bulk
            || op != OpKind::Write
            || cost_ns < 2 * PIECE_NS_LEAST
            || self.protection(now, app) == Protection::None
        {
            return None;
        }
        let piece_ns =
            self.quickest.ns().map_or(PIECE_NS_MOST, |ns| (ns * PIECE_TIMES).clamp(PIECE_NS_LEAST, PIECE_NS_MOST));
        let count = (cost_ns / piece_ns).min(cost.0 / smallest.0.max(1));
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(PIECES_MAX);
        if count < 2 {
            return None;
        }
        let rate_ppm = match turn {
            Turn::Share => u128::from(self.pace.rate_ppm().clamp(1, 1_000_000)),
            Turn::Minimum => 1_000_000,
        };
        let whole_ns = u64::try_from(u128::from(cost_ns) * 900_000 / rate_ppm).unwrap_or(u64::MAX);
        Some(Pieces { count, every: Duration::from_nanos(whole_ns.min(SPREAD_MAX_NS) / u64::from(count)) })
    }

    /// Nothing more may be dispatched: reports to learning and to the bound what holds requests back.
    pub(super) fn on_drained(&mut self, now: Time) {
        let protected = self.is_protecting(now) || self.is_on_standby(now) && self.is_for_others();
        let solo = self.calibration.solo().is_some();
        let full = self.held == Some(Hold::Bound);
        // As much as allowed is outstanding, or all that bulk asks for.
        let saturated = full || matches!(self.held, Some(Hold::Solo(_))) || self.queue.len() == 0;
        let usual = (solo || self.bound.is_usual()) && self.calibration.is_settled(now);
        let load = Load {
            unlimited: !protected && usual && saturated,
            bulk_flows: self.in_flight.bulk_flows,
            contended: self.contended && full && !solo,
        };
        self.learning.on_drained(now, load);
        self.bound.on_drained(now, !protected && !solo && full && self.in_flight.bulk > 0);
        self.bulk_bound_held |= self.held == Some(Hold::BulkBound);
    }
}
