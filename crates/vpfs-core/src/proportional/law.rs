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
//! rate near the best one, slot by slot, until it is better or worse by some standard errors.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::units::AppId;

/// The window of bulk over the rate times the time of a request that is alone: one is always allowed.
pub(super) const BETA: f64 = 0.9;
/// The least and the longest slot, in seconds.
const SLOT: f64 = 0.25;
const SLOT_MAX: f64 = 1.0;
/// A slot is as long as this many of the longest waits, and has this many interactive requests, if the above allows.
const LONGEST: f64 = 3.0;
const SAMPLES: f64 = 48.0;
/// After this many seconds, half of what was seen is forgotten.
const HALF: f64 = 6.0;
/// Rates for each doubling.
const GRID: f64 = 8.0;
/// The largest step of a trial, in rates of the grid.
const STEP_MAX: i32 = 4;
/// Slots from one trial to the next: at first, and after many were in vain.
const REST: f64 = 6.0;
const REST_MAX: f64 = 16.0;
/// The most slots of a trial.
const TRIAL_MAX: u32 = 8;
/// The longest time that the storage is given to work off what it got at a higher rate, in seconds.
const DRAIN_MAX: f64 = 4.0;
/// How often it is asked whether it has.
const DRAIN_SLOT: f64 = 0.1;
/// Standard errors from which on another rate is better, or worse.
const Z_YES: f64 = 1.5;
const Z_NO: f64 = 3.0;
/// A difference of U that means that things have changed, if it is there twice in a row.
const NEWS: f64 = 0.4;
/// A difference of U that does not matter.
const MARGIN: f64 = 0.01;
/// Bulk that gets less than this part of its rate cannot follow it.
const FOLLOW: f64 = 0.8;
/// Seconds of a rate below which it counts as unknown.
const FADED: f64 = 0.03;
/// The most interactive applications that count.
const APPS_MAX: usize = 16;

/// At what rate bulk goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// No limit: nobody is there to be protected, or no bulk.
    Free,
    /// Two requests in the storage, to see what bulk can get.
    First,
    /// Cost per second.
    At(f64),
}

/// What an application did in a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppTick {
    pub(super) app: AppId,
    pub(super) weight: f64,
    pub(super) bulk: bool,
    /// Requests completed.
    pub(super) done: f64,
    /// The integral of pending requests over time, in seconds.
    pub(super) waited: f64,
    /// Requests pending at its end, and how old they are on average, in seconds.
    pub(super) pending: f64,
    pub(super) age: f64,
    /// The longest wait that ended, in seconds.
    pub(super) longest: f64,
    /// Clients known.
    pub(super) clients: f64,
}

/// What was measured since the tick before.
#[derive(Clone, Debug)]
pub(super) struct Tick {
    pub(super) seconds: f64,
    /// Cost of bulk that was completed.
    pub(super) served: f64,
    /// Cost that the pace allowed and bulk did not use; how much of it although it had requests queued.
    pub(super) lost: f64,
    pub(super) blocked: f64,
    /// Who is there.
    pub(super) apps: Vec<AppTick>,
}

/// The sums of some ticks.
#[derive(Clone, Debug, Default)]
struct Slot {
    seconds: f64,
    served: f64,
    lost: f64,
    blocked: f64,
    /// The interactive ones.
    apps: Vec<AppSlot>,
}

#[derive(Clone, Copy, Debug)]
struct AppSlot {
    app: AppId,
    weight: f64,
    done: f64,
    waited: f64,
    age: f64,
    longest: f64,
    clients: f64,
}

impl Slot {
    fn add(&mut self, tick: &Tick) {
        self.seconds += tick.seconds;
        self.served += tick.served;
        self.lost += tick.lost;
        self.blocked += tick.blocked;
        let apps = &mut self.apps;
        apps.retain(|of| tick.apps.iter().any(|new| new.app == of.app && !new.bulk));
        for new in tick.apps.iter().filter(|new| !new.bulk) {
            let AppTick { app, weight, done, waited, longest, clients, .. } = *new;
            let age = if new.pending > 0.0 { new.age } else { 0.0 };
            let new = AppSlot { app, weight, done, waited, age, longest, clients };
            if let Some(of) = apps.iter_mut().find(|of| of.app == app) {
                let (done, waited) = (of.done + done, of.waited + waited);
                *of = AppSlot { done, waited, longest: of.longest.max(longest), ..new };
            } else if apps.len() < APPS_MAX {
                apps.push(new);
            }
        }
    }

    /// The longest wait, also of those that have not ended.
    fn longest(&self) -> f64 {
        self.apps.iter().map(|of| of.longest.max(of.age)).fold(0.0, f64::max)
    }

    fn waits(&self) -> Vec<Wait> {
        let wait = |of: &AppSlot| {
            // If nothing is complete, a wait is at least as long as it has been.
            let waited = if of.done == 0.0 { of.waited.max(of.age) } else { of.waited };
            Wait { app: of.app, waited, done: of.done }
        };
        self.apps.iter().map(wait).collect()
    }
}

/// Sums of an application's waits at a rate.
#[derive(Clone, Copy, Debug)]
struct Wait {
    app: AppId,
    waited: f64,
    done: f64,
}

impl Wait {
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
    fn add(&mut self, seconds: f64, served: f64, waits: &[Wait]) {
        self.seconds += seconds;
        self.served += served * seconds;
        self.waits.retain(|of| waits.iter().any(|new| new.app == of.app));
        for new in waits {
            match self.waits.iter_mut().find(|of| of.app == new.app) {
                Some(of) => (of.waited, of.done) = (of.waited + new.waited, of.done + new.done),
                None => self.waits.push(*new),
            }
        }
    }
}

/// How long an application's clients think between two calls: the sum of that time, and of calls.
#[derive(Clone, Copy, Debug)]
struct Think {
    app: AppId,
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
}

/// The state of the law; see the [module](self).
#[derive(Debug)]
pub(super) struct Law {
    /// By rate, a number on the grid.
    curve: BTreeMap<i32, Point>,
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
    /// Slots until the next trial, and its value after a trial in vain.
    countdown: f64,
    rest: f64,
    trial_slots: u32,
    /// The rate is new: the next look may still change what is known of it.
    confirm: bool,
    drained: f64,
    drain_before: Option<f64>,
    surprises: i32,
    /// The variance of U over a second.
    noise: f64,
    longest: f64,
    len: f64,
    think: Vec<Think>,
    /// The most that bulk was served, as cost per second.
    most: f64,
    share: f64,
    slot: Slot,
}

impl Law {
    pub(super) fn new() -> Self {
        Self {
            curve: BTreeMap::new(),
            phase: Phase::Free,
            rate: 0,
            best: 0,
            step: 1,
            up: true,
            momentum: None,
            refused: 0,
            countdown: 0.0,
            rest: REST,
            trial_slots: 0,
            confirm: false,
            drained: 0.0,
            drain_before: None,
            surprises: 0,
            noise: 0.0025,
            longest: 0.0,
            len: SLOT,
            think: Vec::new(),
            most: 0.0,
            share: 0.5,
            slot: Slot::default(),
        }
    }

    /// The most that bulk was served of late, as cost per second.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    fn of_rate(rate: i32) -> f64 {
        1000.0 * libm::exp2(f64::from(rate) / GRID)
    }

    fn number(rate: f64) -> i32 {
        libm::round(libm::log2((rate / 1000.0).max(1.0)) * GRID) as i32
    }

    fn pace(&self) -> Pace {
        match self.phase {
            Phase::Free => Pace::Free,
            Phase::First => Pace::First,
            Phase::Cruise | Phase::Trial => Pace::At(Self::of_rate(self.rate)),
            // What is owed is paid by what bulk does not get: at the rate itself there may be nothing left to pay with.
            Phase::Drain => Pace::At(Self::of_rate(self.rate) / 2.0),
        }
    }

    /// Looks at what was measured. Returns the pace until the next tick.
    pub(super) fn on_tick(&mut self, tick: &Tick) -> Pace {
        self.slot.add(tick);
        if self.slot.seconds >= SLOT * 0.9 && self.phase != Phase::Drain {
            let fade = libm::exp2(-tick.seconds / 20.0);
            self.most = (self.most * fade).max(self.slot.served / self.slot.seconds);
        }
        let bulk: f64 = tick.apps.iter().filter(|of| of.bulk).map(|of| of.weight).sum();
        let others: f64 = tick.apps.iter().filter(|of| !of.bulk).map(|of| of.weight).sum();
        if bulk == 0.0 || others == 0.0 {
            if self.slot.seconds >= SLOT || self.phase != Phase::Free {
                self.slot = Slot::default();
            }
            (self.phase, self.len) = (Phase::Free, SLOT);
            return self.pace();
        }
        self.share = bulk / (bulk + others);
        if self.phase == Phase::Free {
            self.slot = Slot::default();
            (self.surprises, self.longest, self.len) = (0, 0.0, SLOT);
            if !self.curve.is_empty() {
                self.cruise();
                self.drain();
            } else if self.most > 0.0 {
                self.start();
            } else {
                self.phase = Phase::First;
            }
            return self.pace();
        }
        if self.phase == Phase::First {
            if self.slot.seconds >= SLOT * 0.99 && self.slot.served > 0.0 {
                self.most = self.most.max(self.slot.served / self.slot.seconds);
                self.start();
                self.slot = Slot::default();
            }
            return self.pace();
        }
        if self.slot.seconds >= self.len * 0.99 || self.is_clearly_worse(tick.seconds, bulk) {
            let slot = core::mem::take(&mut self.slot);
            self.on_slot(&slot, bulk);
        }
        self.pace()
    }

    /// Whether a trial upwards need not go on until the end of the slot.
    fn is_clearly_worse(&self, tick: f64, bulk: f64) -> bool {
        let slot = &self.slot;
        if self.phase != Phase::Trial || self.rate < self.best || slot.seconds < (tick * 1.5).max(1.5 * self.longest) {
            return false;
        }
        let Some(best) = find(&self.utilities(slot, bulk), self.best) else { return false };
        let now = bulk * ln(self.service(slot)) - self.harm(slot, &slot.waits());
        now < best - Z_NO * libm::sqrt(self.noise / slot.seconds)
    }

    /// What bulk was served per second: its rate, less what it could not use of it.
    fn service(&self, slot: &Slot) -> f64 {
        (Self::of_rate(self.rate) - slot.lost / slot.seconds).max(1.0)
    }

    /// The weighted sum of ln(Z + L). Who has not been seen with these waits does not count.
    fn harm(&self, slot: &Slot, waits: &[Wait]) -> f64 {
        let harm = |of: &AppSlot| {
            let wait = waits.iter().find(|wait| wait.app == of.app)?;
            let think = self.think.iter().find(|think| think.app == of.app);
            let think = think.map_or(0.0, |think| think.seconds / think.calls.max(1.0));
            Some(of.weight * ln((think + wait.mean()).max(1e-6)))
        };
        slot.apps.iter().filter_map(harm).sum()
    }

    /// U of all known rates: service and harm are made to rise with the rate, as they must. Rates at which somebody
    /// who is there now has not been seen are unknown.
    fn utilities(&self, slot: &Slot, bulk: f64) -> Vec<(i32, f64)> {
        let known = self.curve.iter().filter(|(_, point)| point.seconds > FADED && sees_all(point, slot));
        let known: Vec<(i32, &Point)> = known.map(|(rate, point)| (*rate, point)).collect();
        let harms = rising(known.iter().map(|(_, point)| (point.seconds, self.harm(slot, &point.waits))));
        let services = rising(known.iter().map(|(_, point)| (point.seconds, point.served / point.seconds)));
        let all = known.iter().zip(services.iter().zip(harms));
        all.map(|((rate, _), (service, harm))| (*rate, bulk * ln(service.max(1.0)) - harm)).collect()
    }

    fn forget(&mut self) {
        self.curve.clear();
        self.surprises = 0;
    }

    fn fade(&mut self, by: f64) {
        self.curve.retain(|_, point| {
            point.seconds *= by;
            point.served *= by;
            point.waits.iter_mut().for_each(|wait| (wait.waited, wait.done) = (wait.waited * by, wait.done * by));
            point.seconds > FADED
        });
    }

    fn note_think(&mut self, slot: &Slot) {
        let fade = libm::exp2(-slot.seconds / HALF);
        self.think.retain(|think| slot.apps.iter().any(|of| of.app == think.app));
        for of in &slot.apps {
            let seconds = (of.clients * slot.seconds - of.waited).max(0.0);
            match self.think.iter_mut().find(|think| think.app == of.app) {
                Some(think) => {
                    think.seconds = think.seconds * fade + seconds;
                    think.calls = think.calls * fade + of.done;
                }
                None => self.think.push(Think { app: of.app, seconds, calls: of.done }),
            }
        }
    }

    fn on_slot(&mut self, slot: &Slot, bulk: f64) {
        let waits = slot.waits();
        if self.phase == Phase::Drain {
            self.on_drained(slot, &waits);
            return;
        }
        self.note_think(slot);
        let longest = slot.longest();
        let done: f64 = slot.apps.iter().map(|of| of.done).sum();
        self.longest = longest.max(self.longest * 0.7);
        self.len = SLOT.max(LONGEST * self.longest).max(SAMPLES * slot.seconds / done.max(1.0)).min(SLOT_MAX);
        self.fade(libm::exp2(-slot.seconds / HALF));
        let service = self.service(slot);
        let utility = bulk * ln(service) - self.harm(slot, &waits);
        let before = self.utilities(slot, bulk);
        let is_up = self.rate > self.best;
        let known = find(&before, self.rate);
        if let Some(known) = known {
            self.compare(slot, utility - known, is_up);
        }
        // At the first or second look, a slot that is clearly worse than a lower rate replaces the first impression:
        // the storage may have had something saved up.
        let lower = if is_up {
            find(&before, self.best)
        } else if self.confirm {
            before.iter().filter(|of| of.0 < self.rate).map(|of| of.1).reduce(f64::max)
        } else {
            None
        };
        let clearly = lower.is_some_and(|lower| utility < lower - Z_NO * libm::sqrt(self.noise / slot.seconds));
        if clearly {
            self.surprises = 0;
        }
        let news = self.surprises.abs() >= 2;
        let point = self.curve.entry(self.rate).or_default();
        if clearly {
            *point = Point::default();
        }
        point.add(slot.seconds, service, &waits);
        // Bulk cannot follow, or it has become much worse: as at the start, from a share of what it gets now.
        let rate = Self::of_rate(self.rate);
        let cannot = !is_up && rate - slot.blocked / slot.seconds < FOLLOW * rate;
        let idle = (slot.lost - slot.blocked) / slot.seconds / rate;
        if cannot || news && utility < known.unwrap_or(utility) {
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
        let all = self.utilities(slot, bulk);
        if self.phase == Phase::Trial {
            self.on_trial(&all, clearly);
            return;
        }
        self.confirm = false;
        if self.surprises != 0 || idle > 0.5 {
            self.countdown = self.countdown.max(2.0);
        }
        if idle > 1.0 - FOLLOW {
            self.up = true;
        }
        self.stand_at_top(&all);
    }

    /// The storage is done with what it got before if nobody waits longer than at the best rate; if that is not known,
    /// if waits do not get shorter any more.
    fn on_drained(&mut self, slot: &Slot, waits: &[Wait]) {
        self.drained += slot.seconds;
        let harm = self.harm(slot, waits);
        let error = Z_YES * libm::sqrt(2.0 * self.noise / slot.seconds);
        let known = self.curve.get(&self.best).filter(|point| sees_all(point, slot));
        let done = match known {
            Some(point) => harm <= self.harm(slot, &point.waits) + error,
            None => self.drain_before.is_some_and(|before| harm >= before - error),
        };
        // While nothing is complete, waits only grow.
        let moves = slot.apps.iter().all(|of| of.done > 0.0);
        self.drain_before = moves.then_some(harm);
        let done = done && moves;
        if !done && self.drained < DRAIN_MAX {
            return;
        }
        if self.rate == self.best {
            self.next();
        } else {
            (self.phase, self.trial_slots) = (Phase::Trial, 0);
        }
        self.len = SLOT.max(LONGEST * self.longest).min(SLOT_MAX);
    }

    /// U was `off` what was known of this rate.
    fn compare(&mut self, slot: &Slot, off: f64, is_up: bool) {
        let seen = self.curve.get(&self.rate).map_or(FADED, |point| point.seconds);
        let deviation = libm::sqrt(self.noise * (1.0 / slot.seconds + 1.0 / seen));
        if self.rate == self.best && off.abs() > Z_NO * deviation && off.abs() > NEWS {
            self.surprises = if off > 0.0 { self.surprises.max(0) + 1 } else { self.surprises.min(0) - 1 };
        } else if !is_up {
            if self.rate == self.best {
                self.surprises = 0;
            }
            let z = (off / deviation).clamp(-2.0, 2.0);
            self.noise = (self.noise * (1.0 + (z * z - 0.9) / 16.0)).clamp(1e-4, 1e-2);
        }
    }

    fn error(&self, rate: i32) -> f64 {
        let seen = |rate: i32| self.curve.get(&rate).map_or(FADED, |point| point.seconds.max(FADED));
        libm::sqrt(self.noise * (1.0 / seen(rate) + 1.0 / seen(self.best)))
    }

    /// The best rate is too high: back to what is known of lower ones, or else to a share of what bulk gets now.
    fn retreat(&mut self, all: &[(i32, f64)], service: f64) {
        let lower = all.iter().filter(|of| of.0 < self.rate);
        let best = lower.max_by(|a, b| a.1.total_cmp(&b.1)).map(|of| of.0);
        self.curve.retain(|rate, _| *rate < self.rate);
        self.surprises = 0;
        if let Some(best) = best {
            (self.best, self.rate, self.up) = (best, best, false);
            (self.step, self.refused, self.countdown) = (1, 0, 2.0);
        } else {
            self.most = service;
            self.forget();
            self.start();
        }
        self.drain();
    }

    fn on_trial(&mut self, all: &[(i32, f64)], clearly: bool) {
        self.trial_slots += 1;
        let (Some(best), Some(here)) = (find(all, self.best), find(all, self.rate)) else {
            self.best = self.rate;
            self.next();
            return;
        };
        let up = self.rate > self.best;
        let error = self.error(self.rate);
        // Of two equal rates, the lower one is better.
        let better = if up { here - best - MARGIN } else { here - best + MARGIN };
        let yes = better > Z_YES * error;
        let no = clearly || better < -Z_NO * error || better <= -Z_YES * error && self.trial_slots >= 2;
        let last = self.trial_slots >= TRIAL_MAX || error < MARGIN;
        if yes || last && better > 0.0 {
            self.best = self.rate;
            if self.momentum == Some(self.up) {
                self.step = (self.step * 2).min(STEP_MAX);
            }
            self.momentum = Some(self.up);
            (self.refused, self.rest) = (0, REST);
            (self.countdown, self.confirm) = (2.0, true);
            self.next();
        } else if no || last {
            self.up = !self.up;
            self.refused += 1;
            self.countdown = 0.0;
            if self.refused >= 2 {
                (self.refused, self.momentum) = (0, None);
                if self.step > 1 {
                    self.step /= 2;
                } else {
                    self.rest = (self.rest * 1.5).min(REST_MAX);
                }
            }
            if self.step == 1 {
                self.countdown = self.rest;
            }
            self.rate = self.best;
            if up {
                self.drain();
            } else {
                self.next();
            }
        }
    }

    fn stand_at_top(&mut self, all: &[(i32, f64)]) {
        let own = find(all, self.best).unwrap_or(f64::NEG_INFINITY);
        let better = all.iter().filter(|of| of.1 > own + MARGIN + Z_YES * self.error(of.0));
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
        (self.drain_before, self.drained) = (None, 0.0);
        self.len = DRAIN_SLOT;
    }

    /// The next slot: at the best rate, or a trial near it.
    fn next(&mut self) {
        self.countdown -= 1.0;
        (self.rate, self.phase) = (self.best, Phase::Cruise);
        if self.countdown <= 0.0 && self.curve.contains_key(&self.best) {
            self.rate = (self.best + if self.up { self.step } else { -self.step }).max(0);
            self.trial_slots = 0;
            if self.up {
                self.phase = Phase::Trial;
            } else {
                self.drain();
            }
        }
    }

    fn cruise(&mut self) {
        (self.phase, self.rate, self.countdown, self.rest) = (Phase::Cruise, self.best, 2.0, REST);
    }

    fn search(&mut self) {
        (self.step, self.up, self.refused, self.rest) = (STEP_MAX, true, 0, REST);
        (self.countdown, self.trial_slots) = (0.0, 0);
    }

    /// From bulk's share of what it was served.
    fn start(&mut self) {
        self.best = Self::number(self.most * self.share);
        self.rate = self.best;
        self.search();
        (self.phase, self.countdown, self.len) = (Phase::Cruise, 1.0, SLOT);
    }
}

/// Whether all that are there now were seen there.
fn sees_all(point: &Point, slot: &Slot) -> bool {
    slot.apps.iter().all(|of| point.waits.iter().any(|wait| wait.app == of.app))
}

fn ln(value: f64) -> f64 {
    libm::log(value)
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
