//! How much bulk is in the storage, and how fast more may follow.

use core::time::Duration;

use crate::constants::Constants;
use crate::pace::Pace;
use crate::units::Time;

/// An outstanding request that was bulk when it was dispatched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    pub(super) cost: u64,
    /// As much of it is in the storage at a time: all, or a piece.
    pub(super) held: u64,
    /// Nothing else was in the storage, and it was sent at once.
    pub(super) alone: bool,
}

/// What bulk has in the storage, and how fast more may follow. Credit is cost times nanoseconds.
#[derive(Debug)]
pub(super) struct Gate {
    c: Constants,
    pub(super) pace: Pace,
    /// How many times the window is as large as it is at first.
    pub(super) wide: f64,
    credit: i128,
    filled: Time,
    /// What bulk requests occupy in the storage, and their number.
    held: u64,
    pub(super) requests: usize,
    /// The usual cost of such a request, and its time in the storage if it is alone there, 0 if unknown.
    pub(super) usual: f64,
    /// Sums of what requests cost and of its square, which fade.
    costs: [f64; 2],
    pub(super) alone_ns: f64,
    /// Cost per second that was completed of late, and the most of it.
    mean: f64,
    pub(super) most: f64,
    /// In this tick: cost that was completed; credit that was lost, and how much of it although bulk was queued.
    pub(super) served: u64,
    pub(super) lost: i128,
    pub(super) blocked: i128,
    /// In this tick: nanoseconds for which only the window held bulk, and since when it does.
    pub(super) full_ns: u64,
    full_since: Option<Time>,
    /// No bulk was queued when nothing more could be dispatched.
    pub(super) is_empty: bool,
}

impl Gate {
    pub(super) const fn new(c: Constants) -> Self {
        Self {
            c,
            pace: Pace::Free,
            wide: 1.0,
            credit: 0,
            filled: Time::ZERO,
            held: 0,
            requests: 0,
            usual: 0.0,
            costs: [0.0; 2],
            alone_ns: 0.0,
            mean: 0.0,
            most: 0.0,
            served: 0,
            lost: 0,
            blocked: 0,
            full_ns: 0,
            full_since: None,
            is_empty: true,
        }
    }

    pub(super) fn rate(&self) -> Option<i128> {
        match self.pace {
            Pace::At(rate) => Some((rate as i128).max(1)),
            Pace::First | Pace::Free => None,
        }
    }

    /// The most credit.
    fn most_credit(&self, rate: i128) -> i128 {
        self.usual as i128 / 2 * 1_000_000_000 + rate * (self.c.burst * 1e9) as i128
    }

    /// Ends a tick of `seconds`.
    pub(super) fn note_served(&mut self, served: f64, seconds: f64) {
        self.mean += (served / seconds.max(1e-9) - self.mean) * 0.2;
        self.most = (self.most * libm::exp2(-seconds / self.c.half / 4.0)).max(self.mean);
    }

    /// Credit grows at the rate; what is more than a moment of it is lost.
    pub(super) fn fill(&mut self, now: Time) {
        let Some(rate) = self.rate() else { return };
        let full = self.credit + i128::from(now.nanos_since(self.filled)) * rate;
        let most = self.most_credit(rate);
        let lost = (full - most).max(0);
        self.lost += lost;
        if !self.is_empty {
            self.blocked += lost;
        }
        (self.credit, self.filled) = (full - lost, now);
    }

    pub(super) fn set(&mut self, now: Time, pace: Pace) {
        if pace == self.pace {
            return;
        }
        self.fill(now);
        self.pace = pace;
        let (usual, most) = (self.usual as i128 * 1_000_000_000, self.most_credit(self.rate().unwrap_or(0)));
        (self.credit, self.filled) = (self.credit.clamp(-usual, most), now);
    }

    /// How many bulk requests of usual cost may be in the storage.
    fn window(&self) -> f64 {
        let seconds = self.alone_ns / 1e9;
        match self.pace {
            Pace::First => 2.0,
            Pace::Free => libm::ceil(3.0 * self.most * seconds / self.usual.max(1.0)).max(2.0),
            Pace::At(rate) => self.wide * libm::ceil(self.c.beta * rate * seconds / self.usual.max(1.0)).max(1.0),
        }
    }

    /// Whether nothing more of bulk may be in the storage.
    pub(super) fn is_full(&mut self, now: Time, held: u64) -> bool {
        if let Some(since) = self.full_since.take() {
            self.full_ns += now.nanos_since(since);
        }
        let usual = if self.usual > 0.0 { self.usual } else { held as f64 };
        let is_full = self.requests > 0 && (self.held + held) as f64 > self.window() * usual;
        if is_full {
            if self.is_empty {
                // What was lost until now was not wanted.
                self.fill(now);
            }
            if self.credit >= 0 {
                self.full_since = Some(now);
            }
        }
        is_full
    }

    /// When a request may go; `Err(None)` if only after another one is complete.
    pub(super) fn may_go(&mut self, now: Time, held: u64) -> Result<(), Option<Time>> {
        if self.is_full(now, held) {
            return Err(None);
        }
        self.fill(now);
        match self.rate() {
            Some(rate) if self.credit < 0 => {
                let ns = u64::try_from(-self.credit / rate).unwrap_or(u64::MAX).saturating_add(1000);
                Err(Some(now + Duration::from_nanos(ns)))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn dispatch(&mut self, bulk: Bulk) {
        if self.rate().is_some() {
            self.credit -= i128::from(bulk.cost) * 1_000_000_000;
        }
        self.held += bulk.held;
        self.requests += 1;
    }

    /// A request left the storage after `took_ns`, complete or not.
    pub(super) fn leave(&mut self, bulk: Bulk, took_ns: Option<u64>) {
        self.held -= bulk.held;
        self.requests -= 1;
        let Some(took_ns) = took_ns else { return };
        self.served += bulk.cost;
        let mean = |before: f64, now: f64| if before == 0.0 { now } else { before * 0.875 + now * 0.125 };
        // Of most of what is served: small requests among large ones are many and say nothing.
        let cost = bulk.cost as f64;
        self.costs = self.costs.map(|sum| sum * 0.875);
        self.costs = [self.costs[0] + cost, self.costs[1] + cost * cost];
        self.usual = self.costs[1] / self.costs[0];
        if bulk.alone {
            self.alone_ns = mean(self.alone_ns, took_ns as f64);
        }
    }
}

/// The least time that an interactive request took in the last ten to twenty seconds: the length of a piece of a long
/// write is derived from it.
#[derive(Debug, Default)]
pub(super) struct Quickest {
    latest_ns: Option<u64>,
    before_ns: Option<u64>,
    since: Time,
}

impl Quickest {
    const EVERY: Duration = Duration::from_secs(10);

    /// An interactive request took `took_ns` from enqueue to completion.
    pub(super) fn add(&mut self, now: Time, took_ns: u64) {
        if now.since(self.since) >= Self::EVERY {
            (self.before_ns, self.latest_ns, self.since) = (self.latest_ns, None, now);
        }
        self.latest_ns = Some(self.latest_ns.map_or(took_ns, |least| least.min(took_ns)));
    }

    pub(super) fn ns(&self) -> Option<u64> {
        [self.latest_ns, self.before_ns].into_iter().flatten().min()
    }
}
