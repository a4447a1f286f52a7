//! Deadlines: the low level's queue, earliest deadline first, and which requests keep theirs [Two-level].

use core::time::Duration;

use crate::heap::{Heap, Item};
use crate::request::Target;
use crate::units::{Bytes, RequestId, Time};

/// A request by its deadline; equal ones in the order in which they entered the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    deadline: Time,
    arrival: u64,
    id: RequestId,
}

impl Item for Due {
    fn owner(&self) -> usize {
        self.id.index()
    }
}

/// O(log n) each.
#[derive(Debug)]
pub(super) struct DeadlineQueue {
    heap: Heap<Due>,
    arrivals: u64,
}

impl DeadlineQueue {
    pub(super) const fn new() -> Self {
        Self { heap: Heap::new(), arrivals: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(super) fn push(&mut self, id: RequestId, deadline: Time) {
        self.heap.set(Due { deadline, arrival: self.arrivals, id });
        self.arrivals += 1;
    }

    pub(super) fn remove(&mut self, id: RequestId) {
        self.heap.remove(id.index());
    }

    /// When the next request becomes overdue.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.heap.first().map(|due| due.deadline)
    }

    /// Takes the request with the earliest deadline: the overdue ones at once, others only if there is `room`.
    pub(super) fn pop(&mut self, now: Time, room: bool) -> Option<RequestId> {
        let &Due { deadline, id, .. } = self.heap.first()?;
        if !room && deadline > now {
            return None;
        }
        self.heap.remove(id.index());
        Some(id)
    }
}

// The profile of a class: a clock that decides which of its requests are within the promised rate [Two-level].
//
// The slides give every request the deadline D from when it enters the deadline queue. A class that exceeds its rate T
// then places its excess there on equal terms with classes that keep theirs. Deviation: the deadline counts from the
// class's profile clock, e = max(e, now) + c/T for each request, and a request that comes before e − slack counts as
// if it came then. Requests within T keep their deadline, and excess comes after them.
//
// The slack, which permits bursts, is a period P, but no more than D: only then can all deadlines be met whenever the
// sum of the rates is within the storage's capacity. (Up to a time t, class i may ask for T·(t − D + slack) ≤ T·t;
// with more slack, a class with a short deadline could ask for more at once than the storage has.)

#[derive(Clone, Copy, Debug)]
pub(super) struct TargetProfile {
    pub(super) target: Target,
    /// e: when everything charged so far would have been served, at T.
    clock: Time,
}

impl TargetProfile {
    /// A class with a new target, which continues from the clock of `before`.
    pub(super) fn new(target: Target, before: Option<Self>) -> Self {
        Self { target, clock: before.map_or(Time::ZERO, |before| before.clock) }
    }

    /// The deadline of a request that comes now, and whether it is later than D from now because the class exceeded T.
    pub(super) fn deadline(&self, now: Time, period_nanos: u64) -> (Time, bool) {
        let slack = self.target.deadline.min(Duration::from_nanos(period_nanos));
        let pushed = self.clock.since(now).saturating_sub(slack);
        (now + pushed + self.target.deadline, pushed > Duration::ZERO)
    }

    /// The same for a request that is charged.
    pub(super) fn charge(&mut self, now: Time, cost: Bytes, period_nanos: u64) -> (Time, bool) {
        let deadline = self.deadline(now, period_nanos);
        self.clock = self.clock.max(now) + self.span(cost);
        deadline
    }

    /// A charged request costs `real` instead of `charged`.
    pub(super) fn recharge(&mut self, charged: Bytes, real: Bytes) {
        let [before, after] = [charged, real].map(|cost| self.span(cost));
        let clock = (self.clock + after).since(Time::ZERO).saturating_sub(before);
        self.clock = Time::ZERO + clock;
    }

    /// c/T
    fn span(&self, cost: Bytes) -> Duration {
        let nanos = u128::from(cost.0) * 1_000_000_000 / u128::from(self.target.rate.0.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::total::Scope;

    const PERIOD: u64 = 200_000_000;

    /// 1 MB/s, so that 1 kB takes a millisecond.
    fn profile(deadline_ms: u64) -> TargetProfile {
        let deadline = Duration::from_millis(deadline_ms);
        TargetProfile::new(Target { rate: Bytes(1_000_000), scope: Scope::Server, deadline }, None)
    }

    fn charge(profile: &mut TargetProfile, now_ms: u64) -> u64 {
        let (deadline, _) = profile.charge(Time::from_millis(now_ms), Bytes(50_000), PERIOD);
        deadline.as_nanos() / 1_000_000
    }

    #[test]
    fn requests_within_the_rate_keep_their_deadline() {
        let mut profile = profile(100);
        for now in [0, 50, 100, 150, 200, 1000, 1000, 1000] {
            assert_eq!(charge(&mut profile, now), now + 100);
        }
    }

    #[test]
    fn excess_comes_at_the_rate_after_a_burst_of_the_slack() {
        // Of the deadline, and of the period where that is shorter.
        for (deadline, expected) in
            [(100, [100, 100, 100, 150, 200, 250, 300]), (300, [300, 300, 300, 300, 300, 350, 400])]
        {
            let mut profile = profile(deadline);
            assert_eq!(expected.map(|_| charge(&mut profile, 0)), expected);
        }
    }

    #[test]
    fn a_charge_is_refunded_in_full() {
        let mut profile = profile(100);
        assert_eq!([0; 3].map(|now| charge(&mut profile, now)), [100; 3]);
        profile.recharge(Bytes(50_000), Bytes::ZERO);
        assert_eq!(charge(&mut profile, 0), 100);
        profile.recharge(Bytes(50_000), Bytes(60_000));
        assert_eq!(charge(&mut profile, 0), 160);
    }
}
