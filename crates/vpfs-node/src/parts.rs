//! The parts of all totals at one server of a large cluster.

use std::collections::BTreeMap;

use vpfs_core::{Policy, Time, TotalId};

use crate::part::{Part, Terms, Ticked};

/// Those that are wanted here. O(log n) for each input, O(n) for each tick.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: BTreeMap<TotalId, Part>,
    /// The next tick, while anything is wanted.
    tick_at: Option<Time>,
}

impl Parts {
    /// There is, or was just now, something to give of this total.
    pub(crate) fn want(&mut self, now: Time, total: TotalId) -> &mut Part {
        self.tick_at.get_or_insert(now + Part::TICK);
        self.parts.entry(total).or_insert_with(|| Part::new(now))
    }

    /// That of a total, to which others told what they gave or wanted. While nothing is wanted here, that does not
    /// matter.
    pub(crate) fn get_mut(&mut self, total: TotalId) -> Option<&mut Part> {
        self.parts.get_mut(&total)
    }

    /// Whether a tick is due, and so [`Parts::tick`].
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.tick_at.is_some_and(|at| at <= now)
    }

    /// Sets all parts anew; returns what to report. `terms` are those of a total, if there still is one.
    pub(crate) fn tick(
        &mut self,
        now: Time,
        terms: impl Fn(TotalId) -> Option<Terms>,
        scheduler: &mut Policy,
    ) -> Vec<(TotalId, Ticked)> {
        let mut all = Vec::with_capacity(self.parts.len());
        self.parts.retain(|total, part| {
            let Some(terms) = terms(*total) else { return false };
            let ticked = part.tick(now, scheduler.waiting(*total), &terms);
            if let Some(totals) = scheduler.totals(total.kind, total.class) {
                totals.set_part(now, total.of, Some(ticked.part));
            }
            all.push((*total, ticked));
            !ticked.is_idle
        });
        self.tick_at = (!self.parts.is_empty()).then(|| now + Part::TICK);
        all
    }

    /// When to call [`Parts::tick`].
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.tick_at
    }
}
