//! What is kept over a restart: all that would have to be measured with bulk not limited, and who was bulk just then.
//!
//! The pace, the bounds, congestion and latencies are not kept: they are found within a second, from values that harm
//! nobody (docs/decisions/0003-isolation.md).

use super::calibration::Calibration;
use super::device_time::MIX_TIMES;
use super::meter::Kind;
use super::meter::Meter;
use super::{Isolation, meter};
use crate::learned::{LearnedCost, LearnedCosts};
use crate::units::{AppId, Time};

/// Storage that serves a hundred requests at once takes this time for each, relative to its device time.
const TOOK_MILLI_MAX: u64 = 100_000;
/// What is expected where that is not known: at saturation, bulk takes its device time.
const TOOK_MILLI: (u64, u64) = (1000, 1000);

impl Isolation {
    /// O(applications).
    pub(super) fn learned_costs(&self, now: Time) -> LearnedCosts {
        let (mix_ppm, mix_windows) = self.times.mix();
        // A flow that waits for another server has nothing here just now, but is still bulk.
        let idle_max = meter::idle_max(self.pace.usual_ns());
        let is_bulk = |(app, meter): &(AppId, &Meter)| self.kind(*app) == Kind::Bulk && !meter.was_away(now, idle_max);
        let flows = (0..).map(AppId).zip(&self.meters);
        LearnedCosts {
            costs: self.times.learned(),
            mix_ppm,
            mix_windows,
            bulk: self.last_bulk,
            confirmed: self.calibration.confirmed(),
            serial: self.was_serial,
            took_milli: self.drift.range(),
            interactive: now < self.standby_until,
            bulk_flows: flows.filter(is_bulk).take(LearnedCosts::MAX).map(|(app, _)| app).collect(),
        }
    }

    /// Call before the first request. What was measured offline and configured is not replaced; what cannot have been
    /// learned is ignored as a whole.
    pub(super) fn remember_costs(&mut self, now: Time, learned: &LearnedCosts) {
        if !is_credible(learned) {
            return;
        }
        self.times.remember(&learned.costs, learned.bulk);
        self.times.remember_mix(learned.mix_ppm, learned.mix_windows);
        self.last_bulk = learned.bulk;
        let longest_ns = u64::try_from(Calibration::LONGEST_LARGE.as_nanos()).unwrap_or(u64::MAX);
        self.pace.set_usual(self.last_bulk_ns().min(longest_ns));
        self.calibration.remember(learned.confirmed.map(|at| at.min(now)));
        self.was_serial = learned.serial;
        self.drift.remember(learned.took_milli.unwrap_or(TOOK_MILLI));
        if learned.interactive {
            // Bulk may be here first, and would fill the storage.
            self.standby_until = now + Self::STANDBY;
            self.protect_until = now + meter::idle_max(self.pace.usual_ns());
        }
        learned.bulk_flows.iter().for_each(|app| self.remember_bulk_flow(*app));
    }

    /// It has had no request yet. Otherwise it would count as interactive until its first window of control ends.
    pub(super) fn remember_bulk_flow(&mut self, app: AppId) {
        let usual_ns = self.pace.usual_ns();
        self.meter_mut(app).remember(usual_ns);
        self.set_kind(app, Kind::Bulk);
    }
}

/// A cost that is far too high would keep its flow waiting until the others have had as much time, so it must be one
/// that a calibration can have confirmed.
fn is_credible(learned: &LearnedCosts) -> bool {
    let LearnedCosts { costs, took_milli, bulk_flows, .. } = learned;
    let longest_ns = Calibration::LONGEST_LARGE.as_nanos();
    let is_short = |cost: &LearnedCost| u128::from(cost.cost_ns.max(cost.alone_ns)) <= longest_ns;
    costs.len().max(bulk_flows.len()) <= LearnedCosts::MAX
        && costs.iter().all(is_short)
        && took_milli.is_none_or(|(least, usual)| least <= usual && usual <= TOOK_MILLI_MAX)
        && (1_000_000 / MIX_TIMES..=1_000_000 * MIX_TIMES).contains(&learned.mix_ppm)
}
