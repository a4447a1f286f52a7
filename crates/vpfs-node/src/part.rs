//! Which part of a total one server of a large cluster may give (docs/decisions/0008-peers.md).
//!
//! Within one group of servers, each may give all of a total that it has not heard others give. Over several groups
//! news is late by many ticks, in which each of many servers would give all of it. So here every server says what is
//! wanted of the total there, and takes a part of the rate R:
//!
//! part = F · R / n + (1 - F) · s · R · own / W
//!
//! - `own` is what this server wanted so long ago that all others know it, and W that and what all others want, as far
//!   as known. So a part is raised only when the others can have lowered theirs, and without the correction s parts add
//!   up to about R.
//! - F, between 1/8 and 1/2, is half of what nobody wants: requests that come now and then, at one server or another,
//!   need not wait until the others know of them.
//! - s corrects what that leaves unused: it grows up to 8/7 while less than R is known to be used, and shrinks, down to
//!   nothing, by as much as more was used.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_core::{Bytes, Policy, Time, TotalId};

/// What a part depends on besides what is wanted and used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The total in bytes per second.
    pub(crate) rate: u64,
    /// How many servers can be reached, this one included,
    pub(crate) reachable: u32,
    /// of how many.
    pub(crate) servers: u32,
    /// How long news takes from any server to any other.
    pub(crate) delay: Duration,
}

/// One total at one server.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    ticked_at: Time,
    /// Since the last tick, here and elsewhere.
    used_here: i64,
    used_elsewhere: i64,
    wanted_elsewhere: i64,
    /// What is said to be wanted here in each tick, the latest last; all others know the first.
    here: VecDeque<f64>,
    /// The same of all others, in the last ticks.
    elsewhere: VecDeque<f64>,
    /// What might have been used beyond what is known to be used; negative: what was used too much.
    unused: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticked {
    /// To report: what was given here since the last tick, and what is wanted in one.
    pub(crate) used: i64,
    pub(crate) wanted: u64,
    /// The part from now on, in bytes per second.
    part: u64,
    /// Nothing has been wanted here for so long that ticks have no effect.
    is_idle: bool,
}

impl Part {
    /// The time between ticks.
    pub(crate) const TICK: Duration = Duration::from_millis(100);
    /// What others want is the mean of this many ticks, as messages arrive when they do.
    const WINDOW: usize = 3;
    /// How much of what is wanted is what was wanted before the last tick: requests are lumps.
    const KEPT: f64 = 0.7;
    /// The least F.
    const FLOOR: f64 = 1.0 / 8.0;
    /// The greatest s; with it, a server that alone wants all of the total gets it.
    const CORRECTION_MAX: f64 = 1.0 / (1.0 - Self::FLOOR);
    /// How fast s corrects, in times of the delay of news. Below 2/π it would swing up.
    const SETTLING: f64 = 3.0;

    pub(crate) fn new(now: Time) -> Self {
        Self {
            ticked_at: now,
            used_here: 0,
            used_elsewhere: 0,
            wanted_elsewhere: 0,
            here: VecDeque::new(),
            elsewhere: VecDeque::new(),
            unused: 0.0,
        }
    }

    pub(crate) fn use_here(&mut self, bytes: i64) {
        self.used_here = self.used_here.saturating_add(bytes);
    }

    pub(crate) fn hear_used(&mut self, bytes: i64) {
        self.used_elsewhere = self.used_elsewhere.saturating_add(bytes);
    }

    pub(crate) fn hear_wanted(&mut self, bytes: i64) {
        self.wanted_elsewhere = self.wanted_elsewhere.saturating_add(bytes);
    }

    /// Ends a tick, while `waiting` waits here for this total. O(delay).
    pub(crate) fn tick(&mut self, now: Time, waiting: Bytes, terms: &Terms) -> Ticked {
        let elapsed = now.since(self.ticked_at).as_secs_f64();
        self.ticked_at = now;
        // The parts of a divided cluster together stay within the rate.
        let rate = terms.rate as f64 * f64::from(terms.reachable) / f64::from(terms.servers);
        let used = std::mem::take(&mut self.used_here);
        // What waits should go within the time after which it matters; and nobody can use more than all of it.
        let waiting = waiting.0 as f64 * elapsed / terms.delay.as_secs_f64();
        let wanted = (used.max(0) as f64 + waiting).min(rate * elapsed);
        let wanted_elsewhere = std::mem::take(&mut self.wanted_elsewhere).max(0) as f64;
        // A tick may be late; the first one is early.
        let tick = Self::TICK.as_secs_f64();
        let [wanted, wanted_elsewhere] = [wanted, wanted_elsewhere].map(|bytes| bytes * tick / elapsed.max(tick));
        let wanted = self.note(wanted, wanted_elsewhere, terms);
        self.correct(rate, rate * elapsed - used as f64, terms);
        let is_idle = self.here.iter().all(|wanted| *wanted == 0.0);
        Ticked { used, wanted, part: whole(self.part(rate, terms)), is_idle }
    }

    fn note(&mut self, wanted: f64, wanted_elsewhere: f64, terms: &Terms) -> u64 {
        let before = self.here.back().copied().unwrap_or(0.0);
        let wanted = whole(before * Self::KEPT + wanted * (1.0 - Self::KEPT));
        let kept = terms.delay.as_millis().div_ceil(Self::TICK.as_millis()) as usize + Self::WINDOW + 1;
        push(&mut self.here, wanted as f64, kept);
        push(&mut self.elsewhere, wanted_elsewhere, Self::WINDOW);
        wanted
    }

    /// Counts what was left of the rate here, and what others used of it.
    fn correct(&mut self, rate: f64, left: f64, terms: &Terms) {
        let settling = rate * Self::SETTLING * terms.delay.as_secs_f64();
        self.unused += left - std::mem::take(&mut self.used_elsewhere) as f64;
        self.unused = self.unused.clamp(-settling, settling * (Self::CORRECTION_MAX - 1.0));
    }

    fn part(&self, rate: f64, terms: &Terms) -> f64 {
        let correction = 1.0 + self.unused / (rate * Self::SETTLING * terms.delay.as_secs_f64());
        let own = self.here.front().copied().unwrap_or(0.0);
        let all = own + self.elsewhere.iter().sum::<f64>() / Self::WINDOW as f64;
        let by_demand = if all > 0.0 { correction * own / all } else { 0.0 };
        // A server that has just begun to listen does not know yet what others want.
        let unwanted = if own > 0.0 { 1.0 - all / (rate * Self::TICK.as_secs_f64()) } else { 0.0 };
        let evenly = (unwanted / 2.0).max(Self::FLOOR);
        rate * (evenly / f64::from(terms.reachable) + (1.0 - evenly) * by_demand)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rates and amounts are far below the limit, where it saturates")]
#[expect(clippy::cast_sign_loss, reason = "nothing is negative")]
const fn whole(bytes: f64) -> u64 {
    bytes as u64
}

/// Adds the latest of the last `kept` values; there was nothing before the first.
fn push(values: &mut VecDeque<f64>, latest: f64, kept: usize) {
    while values.len() < kept {
        values.push_front(0.0);
    }
    values.push_back(latest);
    values.drain(..values.len() - kept);
}

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

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.tick_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { rate: 40_000_000, reachable: 40, servers: 40, delay: Duration::from_millis(300) };
    /// What is used here and elsewhere in a tick.
    const USED: i64 = 100_000;

    /// The part after `ticks` ticks that are `late` times as long, and what is said to be wanted.
    fn after(ticks: u64, late: u64) -> Ticked {
        let mut part = Part::new(Time::ZERO);
        let times = i64::try_from(late).unwrap();
        let tick = |number: u64| {
            part.use_here(USED * times);
            part.hear_used(9 * USED * times);
            part.hear_wanted(9 * USED * times);
            part.tick(Time::from_millis(number * late * 100), Bytes::ZERO, &TERMS)
        };
        (1..=ticks).map(tick).last().unwrap()
    }

    /// A tenth of what is wanted is wanted here, and that is a quarter of all.
    #[test]
    fn a_part_is_what_is_wanted_here_and_some_of_what_is_not() {
        let Ticked { part, wanted, .. } = after(50, 1);
        assert!((99_000..=100_000).contains(&wanted), "{wanted}");
        let evenly = 0.375;
        let due = 40e6 * (evenly / 40.0 + (1.0 - evenly) * 0.1 * 8.0 / 7.0);
        assert!((part as f64 / due - 1.0).abs() < 0.02, "{part} instead of {due}");
    }

    #[test]
    fn a_late_tick_counts_for_its_time() {
        let ([in_time, late], [wanted, wanted_late]) =
            ([1, 7].map(|late| after(50, late).part), [1, 7].map(|late| after(50, late).wanted));
        assert!(in_time.abs_diff(late) < in_time / 100, "{in_time} {late}");
        assert!(wanted.abs_diff(wanted_late) < wanted / 100, "{wanted} {wanted_late}");
    }

    #[test]
    fn a_tick_at_once_is_no_division_by_zero() {
        let mut part = Part::new(Time::ZERO);
        part.use_here(USED);
        let ticked = part.tick(Time::ZERO, Bytes(1), &TERMS);
        assert_eq!((ticked.used, ticked.wanted, ticked.part), (USED, 0, 125_000), "the least part");
    }
}
