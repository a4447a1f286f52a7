//! Decides which applications are bulk and at what rate they go, for one server or for all that share a decision.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::law::Law;
use crate::pace::{AppMeasure, Decision, Measure};
use crate::settings::Protection;

/// Bulk has this part of the largest footprint.
pub(super) const LARGE: f64 = 0.5;

/// Decides from what was measured.
#[derive(Debug)]
pub struct Decider {
    law: Box<Law>,
    protection: Protection,
}

impl Default for Decider {
    fn default() -> Self {
        Self::knowing(0.0, 0.0, Protection::default())
    }
}

impl Decider {
    /// One that goes on from a [`Decision::best`] and [`Decision::most`].
    pub fn knowing(best: f64, most: f64, protection: Protection) -> Self {
        Self { law: Box::new(Law::knowing(best, most)), protection }
    }

    /// Changes what interactive applications are worth.
    pub fn set_protection(&mut self, protection: Protection) {
        self.protection = protection;
    }

    /// Decides by what was measured since the last time. O(n log n) in applications.
    pub fn decide<K: Copy + Default + Into<u64> + Ord>(&mut self, measure: &Measure<K>) -> Decision<K> {
        // Bulk is who has much pending, and gets something. One that has much pending because others are served first
        // is not. Weights do not count here: they decide how much each gets.
        let largest = measure.apps.iter().max_by(|one, other| one.footprint.total_cmp(&other.footprint));
        let (largest, got) = largest.map_or((0.0, 0.0), |app| (app.footprint, app.got));
        let is_bulk = |app: &AppMeasure<K>| app.footprint >= largest * LARGE && app.got >= got * LARGE / 4.0;
        let mut tick = measure.by(|key| Some(key.into()));
        let mut kinds = measure.apps.iter().map(is_bulk);
        tick.apps.retain(|_| kinds.next() == Some(false));
        tick.apps.iter_mut().for_each(|app| app.weight *= self.protection.factor());
        let all = measure.apps.iter().filter(|app| is_bulk(app));
        let weight = all.clone().map(|app| app.weight).sum();
        let mut bulk: Vec<K> = all.map(|app| app.key).collect();
        bulk.sort_unstable();
        let pace = self.law.on_tick(&tick, weight);
        Decision { pace, wide: self.law.wide(), most: self.law.most(), best: self.law.best(), largest, bulk }
    }
}
