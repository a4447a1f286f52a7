//! Which rate of bulk is worth most to all.
//!
//! At a rate r bulk is served x(r), and application a makes calls at the speed N/(Z + L(r)): N clients, Z the time that
//! they think, L the mean wait for a call. The law stands at the r with the greatest
//!
//! U(r) = W ln x(r) − Σ w ln(Z + L(r)),  W: the sum of the weights of bulk, w: that of an interactive application.
//!
//! There, one percent more for bulk would cost the others one percent, all weighted. What they would have alone is a
//! constant in U, so no baseline is needed, nor any capacity or target.
//!
//! Time is divided into *slots*. The *curve* keeps what was seen at each rate, as sums that fade. A *trial* looks at a
//! rate near the best one, slot by slot, until it is better or worse by some standard errors. A *look* at half of what
//! bulk gets finds out whether the storage owes what it took long ago.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::f64::consts::LN_2;

use crate::constants::Constants;
use crate::pace::{AppMeasure, Measure, Pace, TriedRate};

/// What was measured of bulk and of the interactive applications, in a tick or in a slot.
type Slot = Measure<u64>;
type AppSlot = AppMeasure<u64>;

/// The longest wait, also of those that have not ended.
fn longest(slot: &Slot) -> f64 {
    slot.apps.iter().map(|of| of.longest.max(of.age)).fold(0.0, f64::max)
}

fn waits(slot: &Slot) -> Vec<Wait> {
    let wait = |of: &AppSlot| {
        // If nothing is complete, a wait is at least as long as it has been.
        let waited = if of.done == 0.0 { of.waited.max(of.age) } else { of.waited };
        Wait { app: of.key, waited, done: of.done, late: of.late }
    };
    slot.apps.iter().map(wait).collect()
}

/// Sums of an application's waits at a rate.
#[derive(Clone, Copy, Debug)]
struct Wait {
    app: u64,
    waited: f64,
    done: f64,
    late: f64,
}

impl Wait {
    /// What U loses where a promise is broken: so much that no such rate is stood on if there are others.
    fn broken(&self, c: &Constants) -> f64 {
        if self.done > 0.0 { c.broken * (self.late / self.done - c.late).max(0.0) } else { 0.0 }
    }

    fn mean(&self) -> f64 {
        if self.done > 0.0 { self.waited / self.done } else { self.waited }
    }
}

/// What was seen at a rate.
#[derive(Clone, Debug, Default)]
struct Point {
    seconds: f64,
    served: f64,
    waits: Vec<Wait>,
}

impl Point {
    fn service(&self) -> f64 {
        self.served / self.seconds
    }

    fn add(&mut self, seconds: f64, served: f64, waits: &[Wait]) {
        self.seconds += seconds;
        self.served += served * seconds;
        self.waits.retain(|of| waits.iter().any(|new| new.app == of.app));
        for new in waits {
            match self.waits.iter_mut().find(|of| of.app == new.app) {
                Some(of) => {
                    of.waited += new.waited;
                    of.done += new.done;
                    of.late += new.late;
                }
                None => self.waits.push(*new),
            }
        }
    }
}

/// How long an application's clients think between two calls: the sum of that time, and of calls.
#[derive(Clone, Copy, Debug)]
struct Think {
    app: u64,
    seconds: f64,
    calls: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No bulk, or nobody else.
    Free,
    First,
    /// At the best rate.
    Cruise,
    /// At another one.
    Trial,
    /// The storage works off what it got at a higher rate, before the next one.
    Drain,
    /// With another window, at the best rate.
    Window,
    /// At half of what bulk is served.
    Look,
}

/// The state of the law; see the [module](self).
#[derive(Debug)]
pub(super) struct Law {
    c: Constants,
    /// By rate, a number on the grid.
    curve: BTreeMap<i32, Point>,
    /// The best rate is what an earlier law found.
    known: bool,
    phase: Phase,
    rate: i32,
    best: i32,
    /// Of the next trial.
    step: i32,
    up: bool,
    /// The direction of the latest trial with success.
    momentum: Option<bool>,
    /// Directions without success at this step.
    refused: u32,
    /// Slots until the next trial.
    countdown: f64,
    trial_slots: u32,
    /// The rate is new: the next look may still change what is known of it.
    confirm: bool,
    drained: f64,
    surprises: i32,
    /// What bulk takes, if that is less than its rate.
    wanted: Option<i32>,
    /// The variance of U over a second, and from how many looks that is known.
    noise: f64,
    looks: f64,
    longest: f64,
    len: f64,
    think: Vec<Think>,
    /// The most that bulk was served, as cost per second.
    most: f64,
    /// What it was served on average in the time in which the storage settles: in a single slot, that may be nothing.
    recent: f64,
    share: f64,
    /// Half of all weights: what is decided does not depend on their scale.
    norm: f64,
    /// How many times the window is as large as `BETA` says, and was before a trial.
    wide: f64,
    old_wide: f64,
    wider_slots: u32,
    /// The next trial of another window, how long it is to the one after that, and whether that is of a wider one.
    wide_at: f64,
    wide_rest: f64,
    is_wider: bool,
    /// It is tried because bulk does not reach its rate.
    cannot: bool,
    /// Seconds since the start; no look before, and how long to the next one.
    at: f64,
    look_at: f64,
    look_rest: f64,
    looked: f64,
    /// The least mean wait of each application that a look has shown.
    least: Vec<Wait>,
    /// Of a look, or of a larger window.
    pool: Point,
    /// The lowest rate that turned out to be too high, until when it is not tried, and for how long that was.
    ceiling: i32,
    ceiling_until: f64,
    ban: f64,
    slot: Slot,
}

impl Law {
    pub(super) fn new(c: Constants) -> Self {
        Self {
            c,
            curve: BTreeMap::new(),
            known: false,
            phase: Phase::Free,
            rate: 0,
            best: 0,
            step: 1,
            up: true,
            momentum: None,
            refused: 0,
            countdown: 0.0,
            trial_slots: 0,
            confirm: false,
            drained: 0.0,
            surprises: 0,
            wanted: None,
            noise: c.noise,
            looks: 0.0,
            longest: 0.0,
            len: c.slot,
            think: Vec::new(),
            most: 0.0,
            recent: 0.0,
            share: 0.5,
            norm: 1.0,
            wide: 1.0,
            old_wide: 1.0,
            wider_slots: 0,
            wide_at: 0.0,
            wide_rest: c.retry,
            is_wider: false,
            cannot: false,
            at: 0.0,
            look_at: 0.0,
            look_rest: c.retry,
            looked: 0.0,
            least: Vec::new(),
            pool: Point::default(),
            ceiling: i32::MAX,
            ceiling_until: 0.0,
            ban: c.retry,
            slot: Slot::default(),
        }
    }

    /// A law that knows at what rate bulk went best, and the most that it was served, both 0 if unknown.
    pub(super) fn knowing(c: Constants, best: f64, most: f64) -> Self {
        let mut law = Self { most, ..Self::new(c) };
        if best > 0.0 {
            law.best = law.number(best);
            law.known = true;
        }
        law
    }

    /// The best rate, 0 if unknown.
    pub(super) fn best(&self) -> f64 {
        if self.best > 0 { self.of_rate(self.best) } else { 0.0 }
    }

    /// The most that bulk was served of late, as cost per second.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// How many times the window is as large as `BETA` says.
    pub(super) fn wide(&self) -> f64 {
        self.wide
    }

    /// The largest step of a trial, in rates of the grid: by 41 %.
    fn step_max(&self) -> i32 {
        (self.c.grid / 2.0) as i32
    }

    /// A rate that was seen for less than this is unknown, in seconds.
    fn unknown(&self) -> f64 {
        self.c.slot / 8.0
    }

    fn of_rate(&self, rate: i32) -> f64 {
        1000.0 * libm::exp2(f64::from(rate) / self.c.grid)
    }

    fn number(&self, rate: f64) -> i32 {
        libm::round(libm::log2((rate / 1000.0).max(1.0)) * self.c.grid) as i32
    }

    fn pace(&self) -> Pace {
        match self.phase {
            Phase::Free => Pace::Free,
            Phase::First => Pace::First,
            Phase::Cruise | Phase::Trial | Phase::Window | Phase::Look => Pace::At(self.of_rate(self.rate)),
            // What is owed is paid by what bulk does not get: at the rate itself there may be nothing left to pay with.
            Phase::Drain => Pace::At(self.of_rate(self.rate) / 2.0),
        }
    }

    /// Looks at what was measured. Returns the pace until the next tick.
    /// `tick` has the interactive applications only, and bulk has the weight `bulk`.
    pub(super) fn on_tick(&mut self, tick: &Measure<u64>, bulk: f64) -> Pace {
        self.slot.apps.retain(|of| tick.apps.iter().any(|new| new.key == of.key));
        self.slot.add(tick.clone());
        self.at += tick.seconds;
        self.recent += (tick.served / tick.seconds.max(1e-9) - self.recent) * (tick.seconds / self.c.settle).min(1.0);
        if self.slot.seconds >= self.c.slot * 0.9 && self.phase != Phase::Drain {
            let fade = libm::exp2(-tick.seconds / self.c.half / 4.0);
            self.most = (self.most * fade).max(self.slot.served / self.slot.seconds);
        }
        let others: f64 = tick.apps.iter().map(|of| of.weight).sum();
        if bulk == 0.0 || others == 0.0 {
            if self.slot.seconds >= self.c.slot || self.phase != Phase::Free {
                self.slot = Slot::default();
            }
            if matches!(self.phase, Phase::Trial | Phase::Window) {
                // Nothing says that the larger window is worth it.
                self.wide = self.old_wide;
            }
            if self.phase == Phase::Look {
                self.look_later();
            }
            (self.phase, self.len) = (Phase::Free, self.c.slot);
            return self.pace();
        }
        self.share = bulk / (bulk + others);
        self.norm = f64::midpoint(bulk, others);
        let gain = bulk / self.norm;
        if self.phase == Phase::Free {
            self.slot = Slot::default();
            (self.surprises, self.longest, self.len) = (0, 0.0, self.c.slot);
            if self.known || !self.curve.is_empty() {
                self.known = false;
                self.cruise();
                self.drain();
            } else if self.most > 0.0 {
                self.start();
                // What bulk had alone is not far above what is best.
                self.step /= 2;
            } else {
                self.phase = Phase::First;
            }
            return self.pace();
        }
        if self.phase == Phase::First {
            // A few requests, so that it says something.
            let enough = if self.slot.seconds < self.c.slot_max { 4.0 * self.slot.usual } else { 0.0 };
            if self.slot.seconds >= self.c.slot * 0.99 && self.slot.served > enough {
                self.most = self.most.max(self.slot.served / self.slot.seconds);
                self.start();
                self.slot = Slot::default();
            }
            return self.pace();
        }
        let is_over = self.slot.seconds >= self.len * 0.99
            && (self.slot.seconds >= self.c.slot_max
                || self.slot.apps.iter().any(asks) && self.slot.apps.iter().all(|of| of.done >= of.pending));
        if is_over || self.is_clearly_worse(tick.seconds, gain) {
            let slot = core::mem::take(&mut self.slot);
            self.on_slot(&slot, gain);
        }
        self.pace()
    }

    /// Whether a trial upwards need not go on until the end of the slot.
    fn is_clearly_worse(&self, tick: f64, gain: f64) -> bool {
        let slot = &self.slot;
        if self.phase != Phase::Trial || self.rate < self.best || slot.seconds < (tick * 1.5).max(1.5 * self.longest) {
            return false;
        }
        let better = self.against(slot, gain, (self.service(slot), &waits(slot)), self.curve.get(&self.best));
        better.is_some_and(|better| better < -2.0 * self.c.z * libm::sqrt(self.noise / slot.seconds))
    }

    /// What bulk was served per second: its rate, less what it could not use of it. What was completed is less exact,
    /// but it counts if it is less by more than a request: then the storage has only accepted the rest.
    fn service(&self, slot: &Slot) -> f64 {
        let sent = self.of_rate(self.rate) - slot.lost / slot.seconds;
        sent.min((slot.served + slot.usual) / slot.seconds).max(1.0)
    }

    /// What is known of rates, in order; nothing if bulk is not paced.
    pub(super) fn tried_rates(&self) -> Vec<TriedRate<u64>> {
        let paced = !matches!(self.phase, Phase::Free | Phase::First);
        let Some(best) = self.curve.get(&self.best).filter(|_| paced) else { return Vec::new() };
        let tried = |(rate, point): (&i32, &Point)| {
            let speed =
                |of: &Wait| Some((of.app, self.cycle(of.app, &best.waits)? / self.cycle(of.app, &point.waits)?));
            let bulk = point.service() / best.service().max(1.0);
            TriedRate { rate: self.of_rate(*rate), bulk, speeds: point.waits.iter().filter_map(speed).collect() }
        };
        self.curve.iter().map(tried).collect()
    }

    /// The mean time from one call to the next.
    fn cycle(&self, app: u64, waits: &[Wait]) -> Option<f64> {
        let wait = waits.iter().find(|wait| wait.app == app)?;
        let think = self.think.iter().find(|think| think.app == app);
        let think = think.map_or(0.0, |think| think.seconds / think.calls.max(1.0));
        Some((think + wait.mean()).max(1e-6))
    }

    /// The weighted sum of ln(Z + L). An application that has not been seen with these waits does not count.
    fn harm(&self, slot: &Slot, waits: &[Wait]) -> f64 {
        let harm = |of: &AppSlot| Some(of.weight / self.norm * ln(self.cycle(of.key, waits)?));
        slot.apps.iter().filter_map(harm).sum::<f64>() + waits.iter().map(|wait| wait.broken(&self.c)).sum::<f64>()
    }

    /// How much better a slot is than what was seen before, as a difference of U; `None` if nothing was.
    ///
    /// U is the logarithm of a mean speed over time, and a slot is a part of that time: what it loses is at most all of
    /// it, while the logarithm of a single long wait has no bound.
    fn against(&self, slot: &Slot, gain: f64, (service, waits): (f64, &[Wait]), known: Option<&Point>) -> Option<f64> {
        let known = known.filter(|known| known.seconds > self.unknown() && sees_all(known, slot))?;
        let one = |of: &AppSlot| {
            if !asks(of) {
                return None;
            }
            let speed = self.cycle(of.key, &known.waits)? / self.cycle(of.key, waits)?;
            Some(of.weight / self.norm * if speed < 1.0 { speed - 1.0 } else { ln(speed) })
        };
        let broken = |waits: &[Wait]| waits.iter().map(|wait| wait.broken(&self.c)).sum::<f64>();
        let kept = broken(&known.waits) - broken(waits);
        let gained = gain * ln(service.max(1.0) / known.service().max(1.0));
        Some(gained + slot.apps.iter().filter_map(one).sum::<f64>() + kept)
    }

    /// U of all known rates: service and harm are made to rise with the rate, as they must. Rates at which somebody
    /// who is there now has not been seen are unknown.
    fn utilities(&self, slot: &Slot, gain: f64) -> Vec<(i32, f64)> {
        let known = self.curve.iter().filter(|(_, point)| point.seconds > self.unknown() && sees_all(point, slot));
        let known: Vec<(i32, &Point)> = known.map(|(rate, point)| (*rate, point)).collect();
        let harms = rising(known.iter().map(|(_, point)| (point.seconds, self.harm(slot, &point.waits))));
        let services = rising(known.iter().map(|(_, point)| (point.seconds, point.service())));
        let all = known.iter().zip(services.iter().zip(harms));
        all.map(|((rate, _), (service, harm))| (*rate, gain * ln(service.max(1.0)) - harm)).collect()
    }

    fn forget(&mut self) {
        self.curve.clear();
        self.surprises = 0;
    }

    fn fade(&mut self, by: f64) {
        let unknown = self.unknown();
        self.curve.retain(|_, point| {
            point.seconds *= by;
            point.served *= by;
            for wait in &mut point.waits {
                (wait.waited, wait.done, wait.late) = (wait.waited * by, wait.done * by, wait.late * by);
            }
            point.seconds > unknown
        });
    }

    fn note_think(&mut self, slot: &Slot) {
        let fade = libm::exp2(-slot.seconds / self.c.half);
        self.think.retain(|think| slot.apps.iter().any(|of| of.key == think.app));
        for of in &slot.apps {
            let seconds = (of.clients * slot.seconds - of.waited).max(0.0);
            match self.think.iter_mut().find(|think| think.app == of.key) {
                Some(think) => {
                    think.seconds = think.seconds * fade + seconds;
                    think.calls = think.calls * fade + of.done;
                }
                None => self.think.push(Think { app: of.key, seconds, calls: of.done }),
            }
        }
    }

    fn on_slot(&mut self, slot: &Slot, gain: f64) {
        let waits = waits(slot);
        if self.phase == Phase::Drain {
            self.on_drained(slot, gain, &waits);
            return;
        }
        self.note_think(slot);
        let longest = longest(slot);
        self.longest = longest.max(self.longest * libm::exp2(-slot.seconds / self.c.half));
        self.set_length();
        self.fade(libm::exp2(-slot.seconds / self.c.half));
        self.note_least(slot);
        let service = self.service(slot);
        match self.phase {
            Phase::Look => return self.on_look(slot, gain, service, &waits),
            Phase::Window => return self.on_window(slot, gain, service, &waits),
            Phase::Free | Phase::First | Phase::Cruise | Phase::Trial | Phase::Drain => {}
        }
        let before = self.utilities(slot, gain);
        let is_up = self.rate > self.best;
        let off = self.against(slot, gain, (service, &waits), self.curve.get(&self.rate));
        if let Some(off) = off {
            self.compare(slot, off, is_up);
        }
        // At the first or second look, a slot that is clearly worse than a lower rate replaces the first impression:
        // the storage may have had something saved up.
        let lower = if is_up {
            Some(self.best)
        } else if self.confirm {
            highest(before.iter().filter(|of| of.0 < self.rate))
        } else {
            None
        };
        let lower = lower.and_then(|rate| self.against(slot, gain, (service, &waits), self.curve.get(&rate)));
        let clearly = lower.is_some_and(|better| better < -2.0 * self.c.z * libm::sqrt(self.noise / slot.seconds));
        if clearly {
            self.surprises = 0;
        }
        let news = self.surprises.abs() >= 2;
        let point = self.curve.entry(self.rate).or_default();
        if clearly {
            *point = Point::default();
        }
        point.add(slot.seconds, service, &waits);
        let rate = self.of_rate(self.rate);
        let is_blocked = rate - slot.blocked / slot.seconds < self.c.follow * rate;
        if self.phase == Phase::Trial && is_up && is_blocked && self.wide < self.c.widest.min(self.old_wide * 4.0) {
            // A higher rate needs a larger window.
            self.wide *= 2.0;
            self.curve.remove(&self.rate);
            return;
        }
        if self.is_worth_a_look(slot, gain) {
            let served = self.curve.get(&self.best).map_or(0.0, Point::service);
            self.rate = (self.number(served).min(self.best) - self.c.grid as i32).max(0);
            (self.looked, self.phase, self.pool) = (0.0, Phase::Look, Point::default());
            return;
        }
        let cannot = !is_up && is_blocked;
        if cannot && self.wide < self.c.widest {
            // More of bulk in the storage, before there is said to be no such rate.
            self.try_window(self.wide * 2.0);
            self.cannot = true;
            return;
        }
        if cannot || news && off.is_some_and(|off| off < 0.0) {
            if !cannot {
                self.ban();
            }
            self.retreat(&before, service);
            return;
        }
        if news {
            self.forget();
            self.curve.entry(self.rate).or_default().add(slot.seconds, service, &waits);
            self.search();
            self.next();
            return;
        }
        let may_try = self.phase == Phase::Cruise && self.at >= self.wide_at && !self.confirm && self.surprises == 0;
        if may_try && self.curve.get(&self.best).is_some_and(|best| best.seconds >= 2.0 * slot.seconds) {
            self.is_wider = !self.is_wider;
            if self.is_wider && self.wide < self.c.widest && slot.full > slot.seconds * 0.05 {
                self.try_window(self.wide * 2.0);
                return;
            }
            if !self.is_wider && self.wide > 1.0 {
                self.try_window(self.wide / 2.0);
                return;
            }
        }
        let all = self.utilities(slot, gain);
        if self.phase == Phase::Trial {
            self.on_trial(&all, gain, clearly);
            return;
        }
        self.confirm = false;
        let idle = slot.unwanted / slot.seconds / rate;
        // A rate that bulk does not use says nothing about rates near it: the next one to try is what bulk takes.
        self.wanted = (idle > 1.0 - self.c.follow).then(|| self.number(rate * (1.0 - idle)) + 1);
        if self.surprises != 0 {
            self.countdown = self.countdown.max(2.0);
        }
        self.up &= self.wanted.is_none();
        self.stand_at_top(&all);
    }

    fn set_length(&mut self) {
        self.len = self.c.slot.max(self.c.longest * self.longest).min(self.c.slot_max);
    }

    /// What looks show bounds what further ones could win.
    fn note_least(&mut self, slot: &Slot) {
        let may_begin = self.phase == Phase::Look;
        self.least.retain(|least| slot.apps.iter().any(|of| of.key == least.app));
        for of in slot.apps.iter().filter(|of| of.done >= 4.0) {
            let mean = of.waited / of.done;
            match self.least.iter_mut().find(|least| least.app == of.key) {
                Some(least) => least.waited = mean.min(least.waited * libm::exp2(slot.seconds / self.c.half / 10.0)),
                None if may_begin => self.least.push(Wait { app: of.key, waited: mean, done: 1.0, late: 0.0 }),
                None => {}
            }
        }
    }

    /// Whether half of bulk's rate is less than what the others could win by shorter waits.
    fn is_worth_a_look(&self, slot: &Slot, gain: f64) -> bool {
        let Some(best) = self.curve.get(&self.best).filter(|best| best.seconds >= self.c.settle / 3.0) else {
            return false;
        };
        let shortest = |of: &AppSlot| {
            let known = self.least.iter().find(|least| least.app == of.key);
            known.copied().unwrap_or(Wait { app: of.key, waited: 0.0, done: 1.0, late: 0.0 })
        };
        let shortest: Vec<Wait> = slot.apps.iter().map(shortest).collect();
        let could_win = self.harm(slot, &best.waits) - self.harm(slot, &shortest);
        self.phase == Phase::Cruise && self.at >= self.look_at && could_win > gain * LN_2 + self.c.margin
    }

    /// Half the rate, for as long as the storage may need to work off what it has: it is better than the best one, or
    /// not at all.
    fn on_look(&mut self, slot: &Slot, gain: f64, service: f64, waits: &[Wait]) {
        self.looked += slot.seconds;
        // As long as it gets better, the storage still has something of before to do.
        let better = self.against(slot, gain, (service, waits), Some(&self.pool));
        if better.is_none_or(|better| better > self.c.z * libm::sqrt(self.noise / slot.seconds)) {
            self.pool = Point::default();
        }
        self.pool.add(slot.seconds, service, waits);
        let gained = self.against(slot, gain, (self.pool.service(), &self.pool.waits), self.curve.get(&self.best));
        let (gained, error) = (gained.unwrap_or(0.0) - self.c.margin, libm::sqrt(self.noise / self.pool.seconds));
        let is_sure = gained > 2.0 * self.c.z * error && self.pool.seconds > slot.seconds * 1.01;
        if is_sure || self.looked >= self.c.settle && gained > self.c.z * error {
            self.forget();
            self.ban();
            self.best = self.rate;
            (self.look_rest, self.look_at) = (self.c.retry, self.at + self.c.retry);
            self.search();
            (self.phase, self.countdown) = (Phase::Cruise, 1.0);
        } else if self.looked < self.c.settle {
            self.len = self.c.slot.max(self.longest.min(self.c.settle - self.looked)).min(self.c.slot_max);
        } else {
            self.look_later();
            self.cruise();
        }
    }

    /// A look showed nothing.
    fn look_later(&mut self) {
        self.look_rest *= 2.0;
        self.look_at = self.at + self.look_rest;
    }

    fn try_window(&mut self, wide: f64) {
        (self.old_wide, self.wide) = (self.wide, wide);
        (self.wider_slots, self.phase, self.pool) = (0, Phase::Window, Point::default());
        self.cannot = false;
    }

    /// Another window at the same rate: kept if it is worth it.
    fn on_window(&mut self, slot: &Slot, gain: f64, service: f64, waits: &[Wait]) {
        self.wider_slots += 1;
        if self.wider_slots < 2 {
            return;
        }
        self.pool.add(slot.seconds, service, waits);
        let gained = self.against(slot, gain, (service, waits), self.curve.get(&self.best)).unwrap_or(0.0);
        if gained > self.c.z * libm::sqrt(self.noise / slot.seconds) + 2.0 * self.c.margin {
            // What was seen from here on was seen with the other one.
            self.curve.retain(|rate, _| *rate < self.best);
            self.curve.insert(self.best, core::mem::take(&mut self.pool));
            (self.wide_rest, self.wide_at) = (self.c.retry, self.at);
            self.cruise();
        } else {
            self.wide = self.old_wide;
            self.wide_rest = (self.wide_rest * 2.0).min(8.0 * self.c.retry);
            self.wide_at = self.at + self.wide_rest;
            if self.cannot {
                self.most = service.max(self.recent);
                self.forget();
                self.start();
                self.drain();
            } else {
                self.cruise();
            }
        }
    }

    /// The best rate was too high: for a time, nothing as high is tried.
    fn ban(&mut self) {
        let again = self.ceiling < i32::MAX && self.best <= self.ceiling + 1;
        self.ban = if again { (self.ban * 2.0).min(8.0 * self.c.retry) } else { self.c.retry };
        (self.ceiling, self.ceiling_until) = (self.best, self.at + self.ban);
    }

    /// The storage is done with what it got before if nobody waits longer than at the best rate; if that is not known,
    /// if waits do not get shorter any more.
    fn on_drained(&mut self, slot: &Slot, gain: f64, waits: &[Wait]) {
        self.drained += slot.seconds;
        // Only waits count: bulk goes at half of the rate.
        let than = |known: &Point| self.against(slot, gain, (known.service(), waits), Some(known));
        let error = (self.c.z * libm::sqrt(2.0 * self.noise / slot.seconds)).min(0.3);
        let done = match self.curve.get(&self.best).and_then(than) {
            Some(better) => better >= -error,
            None => than(&self.pool).is_some_and(|better| better <= error),
        };
        // While nothing is complete, waits only grow.
        let moves = slot.apps.iter().all(|of| of.done > 0.0 || !asks(of));
        self.pool = Point::default();
        if moves {
            self.pool.add(slot.seconds, 1.0, waits);
        }
        if !(done && moves) && self.drained < self.c.settle {
            return;
        }
        // Where nothing is complete, the storage may also stand still for another reason.
        let is_first = self.at >= self.ceiling_until;
        if !done && (moves || is_first) && self.rate == self.best && self.rate > self.c.grid as i32 {
            // Not even at half of it: it was seen while memory took more than the storage can do.
            if is_first {
                self.ban();
            }
            self.best -= self.c.grid as i32;
            self.curve.retain(|rate, _| *rate <= self.best);
            self.rate = self.best;
            self.search();
            self.countdown = 1.0;
            self.drain();
            return;
        }
        if self.rate == self.best {
            self.next();
        } else {
            (self.phase, self.trial_slots) = (Phase::Trial, 0);
        }
        self.set_length();
    }

    /// U was `off` what was known of this rate.
    fn compare(&mut self, slot: &Slot, off: f64, is_up: bool) {
        let seen = self.curve.get(&self.rate).map_or(self.unknown(), |point| point.seconds);
        let seconds = 1.0 / slot.seconds + 1.0 / seen;
        let deviation = libm::sqrt(self.noise * seconds);
        if self.rate == self.best && off.abs() > 2.0 * self.c.z * deviation && off.abs() > self.c.news {
            self.surprises = if off > 0.0 { self.surprises.max(0) + 1 } else { self.surprises.min(0) - 1 };
        } else if self.rate == self.best {
            self.surprises = 0;
        }
        if !is_up {
            self.looks = (self.looks + 1.0).min(16.0);
            self.noise += (off * off / seconds - self.noise) / (self.looks + 2.0);
            self.noise = self.noise.clamp(1e-4, 1.0);
        }
    }

    /// The least step that is worth enough for bulk to be told from noise in a trial of some seconds.
    fn least_step(&self, gain: f64) -> i32 {
        let told = self.c.z * libm::sqrt(self.noise / 2.0) / (gain * LN_2 / self.c.grid);
        1 << libm::round(libm::log2(told.clamp(1.0, f64::from(self.step_max())))) as i32
    }

    fn error(&self, rate: i32) -> f64 {
        let seen = |rate: i32| self.curve.get(&rate).map_or(self.unknown(), |point| point.seconds.max(self.unknown()));
        libm::sqrt(self.noise * (1.0 / seen(rate) + 1.0 / seen(self.best)))
    }

    /// The best rate is too high: back to what is known of lower ones, or else to a share of what bulk gets now.
    fn retreat(&mut self, all: &[(i32, f64)], service: f64) {
        let best = highest(all.iter().filter(|of| of.0 < self.rate));
        self.curve.retain(|rate, _| *rate < self.rate);
        self.surprises = 0;
        if let Some(best) = best {
            (self.best, self.rate, self.up) = (best, best, false);
            (self.step, self.refused, self.countdown) = (1, 0, 2.0);
        } else {
            self.most = service.max(self.recent);
            self.forget();
            self.start();
        }
        self.drain();
    }

    fn on_trial(&mut self, all: &[(i32, f64)], gain: f64, clearly: bool) {
        self.trial_slots += 1;
        let (Some(best), Some(here)) = (find(all, self.best), find(all, self.rate)) else {
            self.best = self.rate;
            self.next();
            return;
        };
        let up = self.rate > self.best;
        let error = self.error(self.rate);
        // Of two equal rates, the lower one is better.
        let better = if up { here - best - self.c.margin } else { here - best + self.c.margin };
        let yes = better > self.c.z * error;
        let no = clearly || better < -2.0 * self.c.z * error || better <= -self.c.z * error && self.trial_slots >= 2;
        let last = f64::from(self.trial_slots) >= self.c.trial_max || error < self.c.margin;
        if yes || last && better > 0.0 {
            self.best = self.rate;
            if self.momentum == Some(self.up) {
                self.step = (self.step * 2).min(self.reach());
            }
            self.momentum = Some(self.up);
            self.refused = 0;
            (self.countdown, self.confirm) = (2.0, true);
            self.next();
        } else if no || last {
            self.up = !self.up;
            self.refused += 1;
            self.countdown = 0.0;
            if self.refused >= 2 {
                (self.refused, self.momentum) = (0, None);
                if self.step > self.least_step(gain) {
                    self.step /= 2;
                }
            }
            if self.step <= self.least_step(gain) {
                self.countdown = self.c.rest;
            }
            self.rate = self.best;
            if up {
                self.wide = self.old_wide;
                self.drain();
            } else {
                self.next();
            }
        }
    }

    fn stand_at_top(&mut self, all: &[(i32, f64)]) {
        let own = find(all, self.best).unwrap_or(f64::NEG_INFINITY);
        let better = all.iter().filter(|of| of.1 > own + self.c.margin + self.c.z * self.error(of.0));
        let top = better.fold(None, |top: Option<(i32, f64)>, of| match top {
            Some(top) if top.1 >= of.1 => Some(top),
            _ => Some(*of),
        });
        if let Some((rate, _)) = top {
            let down = rate < self.best;
            (self.best, self.rate) = (rate, rate);
            (self.refused, self.up) = (0, !down);
            self.step = (self.step / 2).max(1);
            self.countdown = 2.0;
            if down {
                self.drain();
                return;
            }
        }
        self.next();
    }

    /// Nothing counts until the storage has worked off what it got at a higher rate.
    fn drain(&mut self) {
        self.phase = Phase::Drain;
        (self.pool, self.drained) = (Point::default(), 0.0);
        self.len = 0.0;
    }

    /// The next slot: at the best rate, or a trial near it.
    fn next(&mut self) {
        self.countdown -= 1.0;
        (self.rate, self.phase) = (self.best, Phase::Cruise);
        if self.countdown > 0.0 || !self.curve.contains_key(&self.best) {
            return;
        }
        // Far above what bulk ever got, rates say nothing.
        let most = self.number(self.most) + 3 * self.step_max();
        let most = if self.at < self.ceiling_until { most.min(self.ceiling - 1) } else { most }.max(self.best);
        self.up &= self.best < most;
        let down = self.best - self.step;
        self.rate = match self.up {
            true => self.best.saturating_add(self.step).min(most),
            false => self.wanted.map_or(down, |wanted| wanted.min(down)).max(0),
        };
        (self.trial_slots, self.old_wide) = (0, self.wide);
        if self.up {
            self.phase = Phase::Trial;
        } else {
            self.drain();
        }
    }

    fn cruise(&mut self) {
        (self.phase, self.rate, self.countdown) = (Phase::Cruise, self.best, 2.0);
    }

    /// The largest step upwards: below a rate that turned out too high, half of the way to it.
    fn reach(&self) -> i32 {
        let below = if self.at < self.ceiling_until { self.ceiling - self.best } else { 0 };
        (below / 2).max(self.step_max())
    }

    fn search(&mut self) {
        (self.step, self.up, self.refused, self.momentum) = (self.reach(), true, 0, None);
        (self.countdown, self.trial_slots) = (0.0, 0);
    }

    /// From bulk's share of what it was served.
    fn start(&mut self) {
        self.best = self.number(self.most * libm::sqrt(self.share).min(0.8));
        self.rate = self.best;
        self.search();
        (self.phase, self.countdown, self.len) = (Phase::Cruise, 1.0, self.c.slot);
    }
}

/// Whether it had requests: if not, nothing is known of its waits.
fn asks(of: &AppSlot) -> bool {
    of.waited > 0.0 || of.done > 0.0
}

/// Whether all that are there now were seen there.
fn sees_all(point: &Point, slot: &Slot) -> bool {
    slot.apps.iter().all(|of| point.waits.iter().any(|wait| wait.app == of.key))
}

fn ln(value: f64) -> f64 {
    libm::log(value)
}

/// The rate with the greatest utility.
fn highest<'a>(all: impl Iterator<Item = &'a (i32, f64)>) -> Option<i32> {
    all.max_by(|one, other| one.1.total_cmp(&other.1)).map(|of| of.0)
}

fn find(all: &[(i32, f64)], rate: i32) -> Option<f64> {
    all.iter().find(|of| of.0 == rate).map(|of| of.1)
}

/// The rising sequence nearest to weighted values: pool adjacent violators. O(n).
fn rising(values: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (weight, value) in values {
        blocks.push((weight, value, 1));
        while let [.., left, right] = blocks.as_mut_slice()
            && left.1 > right.1
        {
            left.1 = (left.0 * left.1 + right.0 * right.1) / (left.0 + right.0);
            (left.0, left.2) = (left.0 + right.0, left.2 + right.2);
            blocks.pop();
        }
    }
    blocks.iter().flat_map(|(_, value, count)| core::iter::repeat_n(*value, *count)).collect()
}
