//! Finds depth and slot costs while the storage works, from completions alone, without a profile. Beyond the papers,
//! which profile the storage offline [vPFS+ §III-B].
//!
//! **What is compared.** Only periods count in which the depth holds requests back, because an idle storage reveals
//! nothing about its capacity. The time from one completion to the next, divided by what requests of that operation and
//! size took before, gives the slowness of the storage independently of the mix. It is measured at the depth, then at
//! several times the depth, then at the depth again. If more slots would gain more than a few percent, the depth grows,
//! otherwise it shrinks. A measurement lasts until its error is small. Steps become smaller as the search converges
//! (see [`search`]).
//!
//! **Rest.** Once the search has converged, most measurements are taken at the depth itself; about one in 50 is taken
//! at the larger depth. After a large change in speed or mix, comparisons are frequent again. If the measurements
//! before and after a comparison differ, the comparison is dropped, because something else has changed.
//!
//! **Slot costs** follow the time that requests take if the storage serves them one after another, as disks do. If it
//! serves many at once (flash), completions do not reveal how long each request took, and the costs stay as configured;
//! see [`demand::Demand::get_serial`].
//!
//! Memory and the time for each completion are constant; a new table of slot costs re-sorts the queue.

mod costs;
mod demand;
mod measure;
mod search;

use core::time::Duration;

use demand::{Class, Demand};
use measure::Measure;
use search::Search;

use crate::request::OpKind;
use crate::slot_cost::SlotCostTable;
use crate::units::{Bytes, Depth, SlotCost, Time};

/// A shorter measurement would see bursts, not throughput.
const MEASURE_MIN: Duration = Duration::from_millis(100);
/// After this many completions with nothing held back, the depth is checked.
const UNLIMITED_MAX: u32 = 64;

/// The steps of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// At the depth.
    Before,
    /// At several times the depth.
    Above,
    /// At the depth again.
    After,
}

/// The state of a scheduler after everything that may be dispatched has been.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) slots_used: u64,
    pub(crate) outstanding: usize,
    pub(crate) queued: usize,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) op: OpKind,
    pub(crate) size: Bytes,
    /// From the table, not clamped to a depth.
    pub(crate) slot_cost: SlotCost,
}

/// Finds depth and slot costs for one scheduler, which reports events to it and applies its decisions.
#[derive(Debug)]
pub(crate) struct Controller {
    search: Search,
    phase: Phase,
    /// Outstanding requests that were dispatched before this phase started, at another depth.
    left_over: usize,
    /// When the current measurement started.
    since: Time,
    /// Measurements at the depth before the next comparison.
    rests: u32,
    current: Measure,
    here: Measure,
    there: Measure,
    demand: Demand,
    /// The value of `demand` when the comparison started.
    expected: Demand,
    /// Work of the current measurement times the slot costs.
    slots_work: u128,
    /// Mean slot cost of a request, weighted by work, in sixteenths.
    usual: u64,
    last: Option<Time>,
    /// There were always enough requests outstanding since the last completion.
    busy: bool,
    /// Completions in this measurement that ended a time in which the storage was not busy.
    unlimited: u32,
    used_min: u64,
    used_max: u64,
    outstanding: usize,
    compared: bool,
    finds_slot_costs: bool,
}

impl Controller {
    /// Starts the search at `depth`, or at the largest depth that the search allows. Also finds slot costs if
    /// `finds_slot_costs`.
    pub(crate) fn new(depth: Depth, finds_slot_costs: bool) -> Self {
        Self {
            search: Search::from(depth),
            phase: Phase::Before,
            left_over: 0,
            since: Time::ZERO,
            rests: 0,
            current: Measure::default(),
            here: Measure::default(),
            there: Measure::default(),
            demand: Demand::new(),
            expected: Demand::new(),
            slots_work: 0,
            usual: 16,
            last: None,
            busy: false,
            unlimited: 0,
            used_min: u64::MAX,
            used_max: 0,
            outstanding: 0,
            compared: false,
            finds_slot_costs,
        }
    }

    /// The depth found so far.
    pub(crate) fn found(&self) -> Depth {
        Depth::new(self.search.depth()).unwrap_or(Depth::ONE)
    }

    /// The depth to use now: the one found, or a larger one for comparison.
    pub(crate) fn depth(&self) -> Depth {
        match self.phase {
            Phase::Before | Phase::After => self.found(),
            Phase::Above => Depth::new(self.search.reach(self.usual_slots())).unwrap_or(Depth::ONE),
        }
    }

    /// The new slot costs to use if `current` no longer fits. Call after each completion.
    pub(crate) fn poll_slot_costs(&mut self, current: &SlotCostTable) -> Option<SlotCostTable> {
        (core::mem::take(&mut self.compared) && self.finds_slot_costs).then(|| costs::fitting(&self.demand, current))?
    }

    /// Call when nothing more may be dispatched.
    pub(crate) fn on_drained(&mut self, load: Load) {
        let above = self.phase == Phase::Above && load.slots_used > u64::from(self.search.depth());
        self.busy &= load.queued > 0 || above;
        self.outstanding = load.outstanding;
        self.used_min = self.used_min.min(load.slots_used);
        self.used_max = self.used_max.max(load.slots_used);
    }

    /// An outstanding request was cancelled; the storage may still be working on it.
    pub(crate) fn on_cancelled(&mut self) {
        self.busy = false;
    }

    /// An outstanding request waits for its client, which says nothing about the storage: the time up to the next
    /// completion is not measured, and does not count as one in which the storage was not busy either.
    pub(crate) fn on_released(&mut self) {
        self.last = None;
    }

    /// Afterwards the scheduler applies [`Controller::depth`] and [`Controller::poll_slot_costs`].
    pub(crate) fn on_complete(&mut self, now: Time, done: Done) {
        let last = self.last.replace(now);
        let busy = core::mem::replace(&mut self.busy, true);
        let Some(last) = last else { return };
        if self.left_over > 0 {
            self.left_over -= 1;
            self.since = now;
        } else if busy {
            self.measure(u64::try_from(now.since(last).as_nanos()).unwrap_or(u64::MAX), done);
            if now.since(self.since) >= MEASURE_MIN && self.current.is_precise(self.search.error_ppm()) {
                self.end_measurement(now);
            }
        } else {
            self.unlimited += 1;
            if self.unlimited >= UNLIMITED_MAX {
                self.end_unlimited(now);
            }
        }
    }

    /// Completions in the current measurement: those measured, and those at a time when the storage was not busy.
    #[cfg(test)]
    pub(crate) fn measured(&self) -> (u64, u32) {
        (self.current.samples, self.unlimited)
    }

    fn measure(&mut self, nanos: u64, done: Done) {
        let class = Class::of(done.op, done.size);
        if self.phase != Phase::Above {
            self.demand.add(class, nanos);
        }
        if self.phase == Phase::Before && self.here.samples == 0 && self.expected.get(class).is_none() {
            self.expected = self.demand.clone();
        }
        if let Some(work) = self.expected.get(class) {
            self.current.add(&Measure::of(nanos, work));
            self.slots_work += u128::from(work) * u128::from(done.slot_cost.get());
        }
    }

    /// The depth holds nothing back: perhaps it is much too large.
    fn end_unlimited(&mut self, now: Time) {
        let steady = self.used_min >= self.used_max / 2;
        if self.phase == Phase::Before && steady {
            self.search.limit(u32::try_from(self.used_max).unwrap_or(u32::MAX));
        }
        self.restart(now);
    }

    fn end_measurement(&mut self, now: Time) {
        let usual_before = self.usual;
        let measured = core::mem::take(&mut self.current);
        self.usual = measured.mean_of(core::mem::take(&mut self.slots_work) * 16).max(16);
        self.unlimited = 0;
        self.since = now;
        match self.phase {
            Phase::Before => {
                let other_mix = self.usual > 2 * usual_before || usual_before > 2 * self.usual;
                if self.here.samples > 0 && (other_mix || self.here.differs(&measured)) {
                    self.search.hurry();
                    return self.restart(now);
                }
                self.here.add(&measured);
                match self.rests.checked_sub(1) {
                    Some(rests) => self.rests = rests,
                    None => self.enter(Phase::Above, now),
                }
            }
            Phase::Above => {
                self.there = measured;
                self.enter(Phase::After, now);
            }
            Phase::After => {
                self.compare(measured);
                self.restart(now);
            }
        }
    }

    /// The last measurement of a comparison.
    fn compare(&mut self, after: Measure) {
        if self.here.differs(&after) {
            self.search.hurry();
            return;
        }
        self.here.add(&after);
        self.search.step(self.there.gain_ppm(&self.here), self.usual_slots());
        self.compared = true;
    }

    /// Starts the next comparison.
    fn restart(&mut self, now: Time) {
        self.enter(Phase::Before, now);
        self.here = Measure::default();
        self.expected = self.demand.clone();
        self.rests = self.search.rests();
    }

    fn enter(&mut self, phase: Phase, now: Time) {
        self.phase = phase;
        self.left_over = self.outstanding;
        self.since = now;
        self.current = Measure::default();
        self.slots_work = 0;
        self.unlimited = 0;
        self.used_min = u64::MAX;
        self.used_max = 0;
    }

    fn usual_slots(&self) -> u32 {
        u32::try_from((self.usual + 8) / 16).unwrap_or(u32::MAX)
    }
}
