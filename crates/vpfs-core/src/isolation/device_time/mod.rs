//! The device time of requests, learned from completions.
//!
//! cost(op, size) is the part of the storage's time that a request takes at saturation. Where the storage serves many
//! requests at once, this is the capacity that the request uses up, not how long it is outstanding. Initially it is
//! linear in size ([`Prior`]). It is corrected by a factor for each operation and size class, so that costs of unseen
//! sizes are extrapolated from those of seen ones. Metadata has one class, and its cost is that of one object.
//!
//! **Learning.** Over a window in which the storage was saturated, the costs of what it completed add up to the time
//! that passed, Σ n_k·cost_k = t. If one flow had the storage for itself, at the depth it wants, and sent requests
//! of one class, the window reveals the cost of that class. Otherwise it reveals how far all costs are off together
//! (`scale`): flows in a steady state are complete in a steady proportion, from which nothing else follows, and with
//! less depth than alone parallel storage is less efficient, which is nobody's cost in particular. A mix of several
//! flows' reads and writes, which may have limits of their own, reveals nothing beside what is known.
//! Over any other window the sum cannot exceed the time either. So costs that are too high are noticed without
//! saturation; that is also how the costs of a mix that the storage serves better than its parts are found.

use alloc::vec::Vec;
use core::time::Duration;

use super::class::{CLASSES, Class, SIZES, extent};
use crate::learned::LearnedCost;
use crate::request::OpKind;
use crate::settings::DeviceTime;
use crate::units::{Bytes, Objects};

/// One, in the fixed-point format of factors.
const ONE: u64 = 1 << 20;
/// Factors range from a millionth to a million times the prior.
const FACTOR_MAX: u64 = ONE << 20;
/// A mix takes at most this many times as long as its parts, or that part of it.
pub(super) const MIX_TIMES: u64 = 16;
/// No request costs more than a minute of device time.
const COST_MAX_NS: u64 = 60_000_000_000;

/// The guess before anything is known: a constant for the access, and one for each byte.
#[derive(Clone, Copy, Debug)]
struct Prior;

impl Prior {
    /// Between a seek of a disk and an access to flash.
    const ACCESS_NS: u64 = 1_000_000;
    /// 100 MB/s.
    const NS_PER_BYTE: u64 = 10;

    fn cost_ns(op: OpKind, size: Bytes) -> u64 {
        match op {
            OpKind::Metadata => Self::ACCESS_NS,
            OpKind::Read | OpKind::Write => {
                Self::ACCESS_NS + size.0.min(COST_MAX_NS / Self::NS_PER_BYTE) * Self::NS_PER_BYTE
            }
        }
    }
}

/// The ratio of the cost of a class to the prior.
#[derive(Clone, Copy, Debug)]
struct Factor {
    value: u64,
    /// Whether the class has its own factor. Otherwise that of the nearest class that has one applies.
    is_set: bool,
    /// Windows that revealed the cost of this class alone; the first ones move the factor further.
    windows: u32,
    /// Those of them in which hardly any interactive request was served.
    clean: u32,
    /// What was completed in a window in the mean, as device time of the prior; 0 if unknown.
    work_ns: u64,
}

impl Factor {
    const UNKNOWN: Self = Self { value: ONE, is_set: false, windows: 0, clean: 0, work_ns: 0 };
    /// After this number of windows the cost is known.
    const ENOUGH: u32 = 3;
    /// Further ones are not counted.
    const WINDOWS_MAX: u32 = 8;

    /// The part of the error that a window with `work_ns` corrects after `windows` earlier ones, in units of 2⁻²⁰: an
    /// eighth or more if it has as much work as they have in the mean. Takes note of that window.
    ///
    /// The cost is the time of all windows over the work of all of them, so a window counts by its work. Storage may
    /// complete requests in groups, as behind a journal or a limit by time slices: one window then has the wait for a
    /// group, and the next one the group. Either of them alone is far off, in opposite directions.
    fn weigh(&mut self, windows: u32, work_ns: u64) -> i128 {
        let before = u64::from(windows.min(Self::WINDOWS_MAX - 1));
        let usual_ns = if self.work_ns == 0 { work_ns } else { self.work_ns };
        let all_ns = usual_ns.saturating_mul(before).saturating_add(work_ns).max(1);
        self.work_ns = all_ns / (before + 1);
        i128::from(ONE) * i128::from(work_ns) / i128::from(all_ns)
    }
}

/// The part of an error that a window corrects after `windows` earlier ones, in units of 2⁻²⁰; at least an eighth.
fn step(windows: u32) -> i128 {
    i128::from(ONE) / i128::from(windows.min(7) + 1)
}

/// The current costs.
#[derive(Clone, Debug)]
pub(super) struct DeviceTimes {
    factors: [Factor; CLASSES],
    /// How much slower (or faster) the storage serves a mix of known classes than each class alone. The ratios between
    /// their costs do not change, so shares do not depend on which class is seen alone from time to time.
    scale: u64,
    /// Increases whenever costs may have changed.
    version: u32,
    /// Windows that revealed the common error of several classes.
    mixed: u32,
    /// Consecutive windows in which costs were too low by more than a factor of two; negative if they were too high.
    surprises: i32,
    /// How long a request of each class takes if nothing else is outstanding; 0 if unknown.
    alone_ns: [u64; CLASSES],
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) op: OpKind,
    pub(super) size: Bytes,
    /// For metadata.
    pub(super) objects: Objects,
    class: Class,
    /// By the current costs.
    pub(super) cost_ns: u64,
    /// It was dispatched as bulk.
    pub(super) bulk: bool,
    /// The storage serves requests one after another.
    pub(super) serial: bool,
    /// `cost_ns`; on serial storage, the time that such a request takes alone, if that is longer.
    pub(super) served_ns: u64,
}

impl Done {
    /// The same request on so many objects.
    pub(super) fn of(self, objects: Objects) -> Self {
        let cost_ns = of_all(self.cost_ns, objects);
        Self { objects, cost_ns, served_ns: self.served_ns.max(cost_ns), ..self }
    }
}

/// The device time of objects that take `one_ns` each.
fn of_all(one_ns: u64, objects: Objects) -> u64 {
    one_ns.saturating_mul(objects.get().into()).min(COST_MAX_NS)
}

/// The device time completed in a window, by class.
#[derive(Clone, Debug)]
pub(super) struct Completed {
    /// Of bulk flows.
    bulk: [u64; CLASSES],
    /// Of all others.
    others: [u64; CLASSES],
    /// The time for which the others may have occupied the storage alone.
    others_served_ns: u64,
}

impl Default for Completed {
    fn default() -> Self {
        Self { bulk: [0; CLASSES], others: [0; CLASSES], others_served_ns: 0 }
    }
}

impl Completed {
    pub(super) fn add(&mut self, Done { class, cost_ns, bulk, served_ns, .. }: Done) {
        let by_class = if bulk { &mut self.bulk } else { &mut self.others };
        let of_class = &mut by_class[class.0];
        *of_class = of_class.saturating_add(cost_ns);
        if !bulk {
            self.others_served_ns = self.others_served_ns.saturating_add(served_ns);
        }
    }

    /// The time for which interactive requests may have occupied the storage alone.
    pub(super) fn others_served(&self) -> Duration {
        Duration::from_nanos(self.others_served_ns)
    }
}

fn sum(parts: &[u64; CLASSES], chosen: impl Fn(usize) -> bool) -> u64 {
    let chosen = parts.iter().enumerate().filter(|(class, _)| chosen(*class));
    chosen.fold(0, |sum, (_, part)| sum.saturating_add(*part))
}

/// The result of a window of saturation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// Costs were right within an eighth.
    Confirmation,
    /// They were not.
    Surprise,
}

impl DeviceTimes {
    pub(super) const fn new() -> Self {
        Self {
            factors: [Factor::UNKNOWN; CLASSES],
            scale: ONE,
            version: 0,
            mixed: 0,
            surprises: 0,
            alone_ns: [0; CLASSES],
        }
    }

    /// Costs that are `numerator / denominator` times the prior and considered known, to test wrong initial costs.
    #[cfg(test)]
    pub(super) fn scaled(numerator: u64, denominator: u64) -> Self {
        let value = ONE * numerator / denominator;
        let factor = Factor { value, is_set: true, windows: 8, clean: 8, ..Factor::UNKNOWN };
        Self { factors: [factor; CLASSES], mixed: 8, ..Self::new() }
    }

    /// Changes whenever costs may have changed.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Costs that are `times` times the prior and not known, for tests.
    #[cfg(test)]
    pub(super) fn guessed(times: u64) -> Self {
        Self { factors: [Factor { value: ONE * times, is_set: true, ..Factor::UNKNOWN }; CLASSES], ..Self::new() }
    }

    /// [`Self::cost_ns`] of a request on so many objects.
    pub(super) fn request_ns(&self, op: OpKind, size: Bytes, objects: Objects) -> u64 {
        self.extent_ns(op, extent(op, size, objects))
    }

    /// [`Self::cost_ns`] of all objects of a request of this extent.
    pub(super) fn extent_ns(&self, op: OpKind, extent: Bytes) -> u64 {
        let objects = if op == OpKind::Metadata { Objects::new(extent.0) } else { Objects::ONE };
        of_all(self.cost_ns(op, extent), objects)
    }

    /// The device time of a request on one object in nanoseconds, at least one. O(size classes).
    pub(super) fn cost_ns(&self, op: OpKind, size: Bytes) -> u64 {
        self.cost_in_class_ns(Class::of(op, size), op, size)
    }

    fn cost_in_class_ns(&self, class: Class, op: OpKind, size: Bytes) -> u64 {
        let own = self.factors[class.0];
        let factor = if own.is_set { own } else { self.nearest(class) };
        let cost = u128::from(Prior::cost_ns(op, size)) * u128::from(factor.value) / u128::from(ONE);
        let cost = if self.scale == ONE { cost } else { cost * u128::from(self.scale) / u128::from(ONE) };
        u64::try_from(cost).unwrap_or(COST_MAX_NS).clamp(1, COST_MAX_NS)
    }

    /// Sets the measured cost of a class.
    pub(super) fn set(&mut self, DeviceTime { op, size, time }: DeviceTime) {
        let nanos = time.as_nanos().clamp(1, u128::from(COST_MAX_NS));
        let value = nanos * u128::from(ONE) / u128::from(Prior::cost_ns(op, size));
        let value = u64::try_from(value).unwrap_or(FACTOR_MAX).clamp(1, FACTOR_MAX);
        self.factors[Class::of(op, size).0] =
            Factor { value, is_set: true, windows: Factor::ENOUGH, clean: Factor::ENOUGH, work_ns: 0 };
        self.version = self.version.wrapping_add(1);
    }

    /// What is known of each class.
    pub(super) fn learned(&self) -> Vec<LearnedCost> {
        let of = |class: usize| {
            let Factor { value, is_set, windows, clean, .. } = self.factors[class];
            let (op, size) = Class(class).usual();
            let cost_ns = u128::from(Prior::cost_ns(op, size)) * u128::from(value) / u128::from(ONE);
            let cost_ns = if is_set { u64::try_from(cost_ns).unwrap_or(COST_MAX_NS).clamp(1, COST_MAX_NS) } else { 0 };
            LearnedCost { op, size, cost_ns, windows, clean, alone_ns: self.alone_ns[class] }
        };
        (0..CLASSES).map(of).filter(|learned| learned.cost_ns > 0 || learned.alone_ns > 0).collect()
    }

    /// Continues from what was known before a restart, except for classes whose cost is set. The storage may be another
    /// one now: such a cost is a guess again after surprises, and is not proven until one more window confirms it. A
    /// cost of a class that is not the latest of bulk (`bulk`) is a guess, as no window may ever reveal it.
    pub(super) fn remember(&mut self, learned: &[LearnedCost], bulk: Option<(OpKind, Bytes)>) {
        let bulk = bulk.map(|(op, size)| Class::of(op, size));
        for &LearnedCost { op, size, cost_ns, windows, clean, alone_ns } in learned {
            let class = Class::of(op, size);
            self.alone_ns[class.0] = alone_ns;
            if cost_ns > 0 && !self.factors[class.0].is_set {
                self.set(DeviceTime { op, size, time: Duration::from_nanos(cost_ns) });
                let most = if bulk == Some(class) { Factor::ENOUGH } else { Factor::ENOUGH - 1 };
                let factor = &mut self.factors[class.0];
                (factor.windows, factor.clean) = (windows.min(most), clean.min(Factor::ENOUGH - 1));
            }
        }
    }

    /// How much longer a mix takes, in parts per million, and the number of windows that showed it.
    pub(super) fn mix(&self) -> (u64, u32) {
        (self.scale * 1_000_000 / ONE, self.mixed)
    }

    /// The same, before a restart.
    pub(super) fn remember_mix(&mut self, ppm: u64, windows: u32) {
        self.scale = ppm * ONE / 1_000_000;
        self.mixed = windows.min(Factor::WINDOWS_MAX);
    }

    /// Describes a completed request on one object by the current costs; `serial` if the storage serves requests one
    /// after another.
    pub(super) fn done(&self, op: OpKind, size: Bytes, bulk: bool, serial: bool) -> Done {
        let class = Class::of(op, size);
        let cost_ns = self.cost_in_class_ns(class, op, size);
        let alone_ns = if serial { self.alone_ns[class.0] } else { 0 };
        Done { op, size, objects: Objects::ONE, class, cost_ns, bulk, serial, served_ns: cost_ns.max(alone_ns) }
    }

    /// A request `took` this time while nothing else was outstanding, so it keeps others waiting for no longer. Of
    /// several objects, each takes less than one alone.
    pub(super) fn note_alone(&mut self, done: Done, took: Duration) {
        if done.objects != Objects::ONE {
            return;
        }
        let alone_ns = &mut self.alone_ns[done.class.0];
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(COST_MAX_NS).min(COST_MAX_NS);
        // Another request may have been dispatched and completed meanwhile, or the storage did internal work.
        *alone_ns = match *alone_ns {
            0 => took_ns,
            alone_ns => took_ns.min((alone_ns * 15 + took_ns.min(2 * alone_ns)) / 16),
        };
    }

    fn nearest(&self, class: Class) -> Factor {
        let known = class.neighbours().map(|class| self.factors[class]).find(|factor| factor.is_set);
        known.unwrap_or(Factor::UNKNOWN)
    }

    /// Whether enough windows of saturation revealed the cost of this class alone.
    pub(super) fn is_known(&self, class: Class) -> bool {
        self.factors[class.0].windows >= Factor::ENOUGH
    }

    /// The same, but beside interactive requests a window reveals too little: their own costs are not known exactly.
    pub(super) fn is_proven(&self, class: Class) -> bool {
        self.factors[class.0].clean >= Factor::ENOUGH
    }

    /// One window that is off by a factor of two may be chance. If the next one is off in the same direction, known
    /// costs are doubtful, and windows correct more of the error again.
    fn note_surprise(&mut self, expected: u64, actual: u64, pure: bool) {
        self.surprises = match (actual / 2 > expected, expected / 2 > actual) {
            (true, _) => self.surprises.max(0) + 1,
            (_, true) => self.surprises.min(0) - 1,
            _ => 0,
        };
        if self.surprises.abs() >= 2 {
            self.mixed /= 2;
            if pure {
                self.factors.iter_mut().for_each(|factor| {
                    factor.windows /= 2;
                    factor.clean /= 2;
                });
            }
        }
    }

    /// The storage became slower or faster: known costs become guesses, and must be learned again.
    pub(super) fn forget(&mut self) {
        self.factors.iter_mut().for_each(|factor| {
            factor.windows = factor.windows.min(Factor::ENOUGH / 2);
            factor.clean = factor.clean.min(Factor::ENOUGH / 2);
        });
        self.alone_ns = [0; CLASSES];
    }

    /// The storage was saturated for `elapsed` and completed this work; `alone` if all of its bulk was of one flow.
    ///
    /// Only costs of bulk are learned: an interactive request that arrives whenever a bulk request completes is
    /// completed as often as that one, so nothing reveals its own cost. Returns `None` if no bulk was completed.
    pub(super) fn learn(&mut self, completed: &Completed, elapsed: Duration, alone: bool) -> Option<Lesson> {
        let expected = sum(&completed.bulk, |_| true);
        if expected == 0 {
            return None;
        }
        let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let actual = elapsed.saturating_sub(completed.others_served_ns).max(elapsed / 4);
        let pure = alone && completed.bulk.iter().filter(|part| **part > 0).count() == 1;
        self.settle(&completed.bulk);
        let expected = if pure { self.unscaled(expected) } else { expected };
        self.note_surprise(expected, actual, pure);
        let clean = completed.others_served_ns <= elapsed / 8;
        match pure {
            true => self.learn_one(&completed.bulk, expected, actual, clean),
            false => self.learn_mix(&completed.bulk, expected, actual, alone),
        }
        let off = actual.abs_diff(expected) > expected / 8;
        Some(if off { Lesson::Surprise } else { Lesson::Confirmation })
    }

    /// A cost without the correction for mixes (`scale`).
    fn unscaled(&self, cost_ns: u64) -> u64 {
        let cost = u128::from(cost_ns) * u128::from(ONE) / u128::from(self.scale);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// All bulk was of one class, so the window reveals the cost of that class.
    fn learn_one(&mut self, parts: &[u64; CLASSES], expected: u64, actual: u64, clean: bool) {
        let Some(class) = parts.iter().position(|part| *part > 0) else { return };
        let Factor { value, windows, clean: before, .. } = self.factors[class];
        let work_ns = u128::from(expected) * u128::from(ONE) / u128::from(value);
        let work_ns = u64::try_from(work_ns).unwrap_or(u64::MAX);
        let step = self.factors[class].weigh(if clean { before } else { windows }, work_ns);
        self.correct(class, expected, actual, step);
        // A cost that was off by more than one window may correct is not known yet.
        if (expected / 4..=expected.saturating_mul(4)).contains(&actual) {
            self.factors[class].windows = (windows + 1).min(Factor::WINDOWS_MAX);
            self.factors[class].clean = (before + u32::from(clean)).min(Factor::WINDOWS_MAX);
        }
        self.scale = (self.scale * 3 + ONE) / 4;
        self.raise_guesses(class);
    }

    /// A request of half the size costs at least half as much. Only costs of bulk are learned: without this lower
    /// bound, an early guess that is too low could keep a flow from ever being classified as bulk.
    fn raise_guesses(&mut self, class: usize) {
        let Some(size) = Class(class).data_size() else { return };
        let known = u128::from(Prior::cost_ns(OpKind::Write, size)) * u128::from(self.factors[class].value);
        for smaller in class / SIZES * SIZES..class {
            let factor = &mut self.factors[smaller];
            let Some(small) = Class(smaller).data_size().filter(|_| factor.is_set) else { continue };
            if factor.windows < Factor::ENOUGH {
                let prior = u128::from(Prior::cost_ns(OpKind::Write, small));
                let least = known * u128::from(small.0) / u128::from(size.0) / prior;
                factor.value = factor.value.max(u64::try_from(least).unwrap_or(FACTOR_MAX).min(FACTOR_MAX));
            }
        }
    }

    /// A mix of classes reveals only their common error; unknown classes explain it. But reads and writes may have
    /// limits of their own, and beside others (not `alone`) a flow has less depth, and waits for other servers. If the
    /// cost of one operation had to explain all that, it would seem more and more expensive, and get less and less; nor
    /// is it a cost of the others. So nothing is learned from that, but that costs are too high (see [`Self::limit`]).
    fn learn_mix(&mut self, parts: &[u64; CLASSES], expected: u64, actual: u64, alone: bool) {
        let known = self.known();
        let occurs = |op: usize| (op * SIZES..(op + 1) * SIZES).any(|class| parts[class] > 0);
        let is_partly_known = (0..CLASSES).any(|class| parts[class] > 0 && known[class]);
        if !alone && occurs(0) && occurs(1) && is_partly_known {
            return;
        }
        let step = step(self.mixed);
        self.mixed = (self.mixed + 1).min(Factor::WINDOWS_MAX);
        self.correct_all(parts, expected, actual, step);
    }

    /// Corrects the classes that occur, and keeps known ratios between their costs: only the unknown classes are
    /// corrected if they can explain the error, otherwise all classes together.
    fn correct_all(&mut self, parts: &[u64; CLASSES], expected: u64, actual: u64, step: i128) {
        let occurs = |class: &usize| parts[*class] > 0;
        let known = self.known();
        let known_ns = sum(parts, |class| known[class]);
        if known_ns == expected {
            self.scale = corrected(self.scale, expected, actual, step).clamp(ONE / MIX_TIMES, ONE * MIX_TIMES);
        } else if known_ns < expected.min(actual) {
            let unknown = |class: &usize| occurs(class) && !known[*class];
            let (expected, actual) = (expected - known_ns, actual - known_ns);
            (0..CLASSES).filter(unknown).for_each(|class| self.correct(class, expected, actual, step));
        } else {
            (0..CLASSES).filter(occurs).for_each(|class| self.correct(class, expected, actual, step));
        }
    }

    fn known(&self) -> [bool; CLASSES] {
        self.factors.map(|factor| factor.windows >= Factor::ENOUGH)
    }

    /// The storage completed this work in `elapsed`, saturated or not. If the work costs more than that, costs are too
    /// high; guesses are corrected first.
    pub(super) fn limit(&mut self, completed: &Completed, elapsed: Duration) {
        let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let mut parts = completed.bulk;
        parts.iter_mut().zip(&completed.others).for_each(|(part, other)| *part = part.saturating_add(*other));
        let expected = sum(&parts, |_| true);
        if expected / 16 * 15 <= elapsed {
            return;
        }
        self.settle(&parts);
        self.correct_all(&parts, expected, elapsed, i128::from(ONE));
    }

    /// Interactive requests cannot have cost more than `elapsed`. If they did, guessed costs are lowered.
    pub(super) fn limit_guesses(&mut self, completed: &Completed, elapsed: Duration) {
        let elapsed = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.settle(&completed.others);
        let guessed = self.factors.map(|factor| factor.windows < Factor::ENOUGH);
        let expected = sum(&completed.others, |class| guessed[class]);
        for (class, guessed) in guessed.into_iter().enumerate() {
            if expected > elapsed && guessed && completed.others[class] > 0 {
                self.correct(class, expected, elapsed, i128::from(ONE));
            }
        }
    }

    /// Gives each class that occurs its own factor before any factor is corrected.
    fn settle(&mut self, parts: &[u64; CLASSES]) {
        self.version = self.version.wrapping_add(1);
        let nearest: [Factor; CLASSES] = core::array::from_fn(|class| self.nearest(Class(class)));
        for (class, nearest) in nearest.into_iter().enumerate() {
            let factor = &mut self.factors[class];
            if parts[class] > 0 && !factor.is_set {
                (factor.value, factor.is_set) = (nearest.value, true);
            }
        }
    }

    fn correct(&mut self, class: usize, expected: u64, actual: u64, step: i128) {
        let value = &mut self.factors[class].value;
        *value = corrected(*value, expected, actual, step);
    }
}

/// Corrects a factor for work that took `actual` instead of `expected`: by the part `step` of the error, to no less
/// than a quarter and no more than four times its value.
fn corrected(factor: u64, expected: u64, actual: u64, step: i128) -> u64 {
    let one = i128::from(ONE);
    let off = (i128::from(actual) - i128::from(expected)) * one / i128::from(expected.max(1));
    let moved = (one + off.min(3 * one) * step / one).max(one / 4);
    let value = i128::from(factor) * moved / one;
    u64::try_from(value).unwrap_or(FACTOR_MAX).clamp(1, FACTOR_MAX)
}

#[cfg(test)]
mod tests;
