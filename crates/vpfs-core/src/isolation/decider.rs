//! Decides which applications are bulk and at what rate they go, for one server or for all that share a decision.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::groups::Asking;
use super::law::Law;
use crate::constants::Constants;
use crate::pace::{AppMeasure, Decision, Measure, TriedRate};
use crate::settings::Protection;

/// More interactive applications count as one: of those that come and go, no two moments could be compared.
const APPS_MAX: usize = 16;

/// Decides from what was measured.
#[derive(Debug)]
pub struct Decider {
    c: Constants,
    law: Box<Law>,
    protection: Protection,
    /// By application: how much it asks for, and whether it was bulk last time.
    asking: BTreeMap<u64, (Asking, bool)>,
}

impl Decider {
    /// One that goes on from a [`Decision::best`] and [`Decision::most`].
    pub fn knowing(c: Constants, best: f64, most: f64, protection: Protection) -> Self {
        Self { c, law: Box::new(Law::knowing(c, best, most)), protection, asking: BTreeMap::new() }
    }

    /// Changes what interactive applications are worth.
    pub fn set_protection(&mut self, protection: Protection) {
        self.protection = protection;
    }

    /// What is known of rates, in order.
    pub fn tried_rates(&self) -> Vec<TriedRate<u64>> {
        self.law.tried_rates()
    }

    /// Decides by what was measured since the last time. O(n log n) in applications.
    pub fn decide<K: Copy + Default + Into<u64> + Ord>(&mut self, measure: &Measure<K>) -> Decision<K> {
        let apps = &measure.apps;
        // Bulk is who has much pending, and gets something by its weight: one that has much pending because others are
        // served first is not.
        let largest = apps.iter().max_by(|one, other| one.footprint.total_cmp(&other.footprint));
        let (largest, least) = largest.map_or((0.0, 0.0), |app| (app.footprint, app.got / app.weight / 8.0));
        // Or who always asks for more, and takes more than its weight's part with it. Beside a minimum, a quarter of it
        // is enough: who comes first can be decided only among what is queued.
        let [got, weights] = [|app: &AppMeasure<K>| app.got, |app: &AppMeasure<K>| app.weight]
            .map(|of| apps.iter().map(of).sum::<f64>());
        let mut before = core::mem::take(&mut self.asking);
        let mut kinds = Vec::with_capacity(apps.len());
        for app in apps {
            let (mut asking, was_bulk) = before.remove(&app.key.into()).unwrap_or_default();
            let part = app.got / app.weight / (got / weights).max(1e-9);
            asking.note(&self.c, [measure.seconds, app.clients], [app.waited, app.stored], part);
            // What is pending varies; who was bulk is not because of that something else.
            let large = if was_bulk { self.c.large / 2.0 } else { self.c.large };
            let has_much = app.footprint >= largest * large && app.got >= least * app.weight;
            let takes_more = asking.takes_more || measure.minima > 0.0 && part > 0.25 && asking.always_asks(&self.c);
            // Who asked for nothing stays what it was.
            let is_bulk = if app.waited > 0.0 { has_much || takes_more && app.footprint > 0.0 } else { was_bulk };
            self.asking.insert(app.key.into(), (asking, is_bulk));
            kinds.push(is_bulk);
        }
        let is_bulk = |at: usize| kinds[at];
        let mut tick = measure.by(|key| Some(key.into()));
        let mut at = 0..;
        tick.apps.retain(|_| at.next().is_some_and(|at| !is_bulk(at)));
        tick.apps.iter_mut().for_each(|app| app.weight *= self.protection.factor());
        if tick.apps.len() > APPS_MAX {
            tick.apps = Vec::from([AppMeasure::of_many(&tick.apps)]);
        }
        let all = apps.iter().enumerate().filter(|(at, _)| is_bulk(*at)).map(|(_, app)| app);
        let weight = all.map(|app| app.weight).sum();
        let [bulk, interactive] = [true, false].map(|kind| {
            let mut keys: Vec<K> =
                (0..).zip(apps).filter(|(at, _)| is_bulk(*at) == kind).map(|(_, app)| app.key).collect();
            keys.sort_unstable();
            keys
        });
        let pace = self.law.on_tick(&tick, weight);
        let [wide, most, best] = [self.law.wide(), self.law.most(), self.law.best()];
        Decision { pace, wide, most, best, largest, bulk, interactive }
    }
}
