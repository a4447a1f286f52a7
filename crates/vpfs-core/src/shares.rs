//! The weight of each flow, which is its own or a part of one that a group of applications shares.
//!
//! A group's weight is divided among its *present* members. A member is present while it has requests queued, and then
//! until virtual time reaches its finish tag: a name that has been served counts as long as a flow would have to wait
//! before its next turn, so names that take turns get no more than names that wait at the same time.

use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, GroupId};
use crate::heap::{Heap, Item};
use crate::units::{AppId, Bytes, VirtualTime, Weight};

/// A flow's φ: a weight divided among some flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    weight: Weight,
    /// Never zero.
    among: u32,
}

impl Share {
    pub(crate) const ONE: Self = Self::whole(Weight::ONE);

    pub(crate) const fn whole(weight: Weight) -> Self {
        Self { weight, among: 1 }
    }

    /// The virtual time that `bytes` of service take, bytes/φ.
    pub(crate) fn time(self, bytes: u128) -> VirtualTime {
        VirtualTime::of_total(bytes * u128::from(self.among), self.weight)
    }

    /// The service in a virtual time, rounded down.
    pub(crate) fn service(self, time: VirtualTime) -> Bytes {
        Bytes(time.service(self.weight).0 / u64::from(self.among))
    }
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    weight: Weight,
    group: Option<GroupId>,
    is_present: bool,
    /// The arrival number and the cost of the request with which it became present.
    first: (u64, Bytes),
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// The number of members present.
    present: u32,
    /// The largest finish tag of a member whose queue became empty.
    finish: VirtualTime,
    /// Where first requests of members that became present would end if they were those of one flow with the whole
    /// weight, and the longest of them since this was last behind virtual time.
    entry: VirtualTime,
    longest: VirtualTime,
}

/// A flow as a member of its group, in accounts of service elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) group: GroupId,
    /// The flow itself is present.
    pub(crate) is_present: bool,
    /// The number of members present.
    pub(crate) present: u32,
    /// The service by which the whole group lags behind virtual time; zero while a member is present.
    pub(crate) lag: Bytes,
}

/// A member without queued requests, present until `finish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Lingering {
    finish: VirtualTime,
    app: AppId,
}

impl Item for Lingering {
    fn owner(&self) -> usize {
        self.app.index()
    }
}

/// The shares of all flows of one scheduler. O(log n) in the members of groups, O(1) for other flows.
#[derive(Debug)]
pub(crate) struct Shares {
    /// By application.
    flows: Vec<Flow>,
    groups: Vec<Option<Group>>,
    lingering: Heap<Lingering>,
}

impl Shares {
    pub(crate) const fn new() -> Self {
        Self { flows: Vec::new(), groups: Vec::new(), lingering: Heap::new() }
    }

    /// Sets the weight and the group of `app`. It is not present in a new group until [`Shares::on_arrival`].
    pub(crate) fn set(&mut self, app: AppId, &AppPolicy { weight, group, .. }: &AppPolicy) {
        if app.index() >= self.flows.len() {
            let new = Flow { weight: Weight::ONE, group: None, is_present: false, first: (u64::MAX, Bytes::ZERO) };
            self.flows.resize(app.index() + 1, new);
        }
        let before = self.flows[app.index()];
        self.flows[app.index()] = Flow { weight, group, ..before };
        const ZERO: VirtualTime = VirtualTime::ZERO;
        if let Some(group) = group {
            if group.index() >= self.groups.len() {
                self.groups.resize(group.index() + 1, None);
            }
            let new = Group { present: 0, finish: ZERO, entry: ZERO, longest: ZERO };
            self.groups[group.index()].get_or_insert(new);
        }
        if before.group != group && before.is_present {
            self.leave(app, before.group);
        }
    }

    /// The share of `app` now.
    pub(crate) fn of(&self, app: AppId) -> Share {
        let Some(flow) = self.flows.get(app.index()) else { return Share::ONE };
        let among = self.group(app).map_or(1, |group| group.present.max(1));
        Share { weight: flow.weight, among }
    }

    /// The weight of `app`, or of its group.
    pub(crate) fn weight(&self, app: AppId) -> Weight {
        self.flows.get(app.index()).map_or(Weight::ONE, |flow| flow.weight)
    }

    /// The group of `app`.
    pub(crate) fn group_of(&self, app: AppId) -> Option<GroupId> {
        self.flows.get(app.index())?.group
    }

    /// `app` as a member of its group at virtual time `now`, if it has one.
    pub(crate) fn membership(&mut self, app: AppId, now: VirtualTime) -> Option<Membership> {
        self.expire(now);
        let &Flow { weight, group: Some(group), is_present, .. } = self.flows.get(app.index())? else { return None };
        let Group { present, finish, .. } = *self.group(app)?;
        let lag = if present > 0 { Bytes::ZERO } else { now.saturating_sub(finish).service(weight) };
        Some(Membership { group, is_present, present, lag })
    }

    /// The number of members of `group` that are present at virtual time `now`.
    pub(crate) fn present(&mut self, group: GroupId, now: VirtualTime) -> u32 {
        self.expire(now);
        self.groups.get(group.index()).copied().flatten().map_or(0, |group| group.present)
    }

    /// A request of `app` arrives at virtual time `now`, with this number and cost; returns the tag from which it may
    /// start.
    ///
    /// Members that become present start one after another: if all started at `now`, a thousand new names would be a
    /// thousand requests ahead of everybody. The longest of their requests does not count, so that a member with small
    /// requests need not wait until one that has just sent a large one is due again.
    pub(crate) fn admit(&mut self, app: AppId, now: VirtualTime, arrival: u64, cost: Bytes) -> VirtualTime {
        let was_present = self.is_present(app, now);
        self.on_arrival(app, now);
        let Some(flow) = self.flows.get_mut(app.index()).filter(|_| !was_present) else { return now };
        let group = flow.group.and_then(|group| self.groups.get_mut(group.index())?.as_mut());
        let Some(group) = group else { return now };
        flow.first = (arrival, cost);
        if group.entry <= now {
            (group.entry, group.longest) = (now, VirtualTime::ZERO);
        }
        let length = VirtualTime::of(cost, flow.weight);
        let start = group.entry.saturating_sub(group.longest).max(now);
        group.entry = group.entry + length;
        group.longest = group.longest.max(length);
        start
    }

    /// The request of `app` with this number costs `delta` more (or less) than was known when it arrived.
    pub(crate) fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        let Some(flow) = self.flows.get_mut(app.index()).filter(|flow| flow.first.0 == arrival) else { return };
        let group = flow.group.and_then(|group| self.groups.get_mut(group.index())?.as_mut());
        let Some(group) = group else { return };
        let before = flow.first.1;
        let real = u64::try_from(i128::from(before.0) + delta).unwrap_or(if delta < 0 { 0 } else { u64::MAX });
        flow.first.1 = Bytes(real);
        let [before, real] = [before, Bytes(real)].map(|cost| VirtualTime::of(cost, flow.weight));
        group.entry = (group.entry + real).saturating_sub(before);
    }

    fn is_present(&mut self, app: AppId, now: VirtualTime) -> bool {
        self.expire(now);
        self.flows.get(app.index()).is_some_and(|flow| flow.is_present)
    }

    /// A request of `app` arrived, or is queued while its group changes, at virtual time `now`.
    pub(crate) fn on_arrival(&mut self, app: AppId, now: VirtualTime) {
        self.expire(now);
        let Some(Flow { group: group @ Some(_), is_present, .. }) = self.flows.get_mut(app.index()) else { return };
        let (group, was_present) = (*group, core::mem::replace(is_present, true));
        self.lingering.remove(app.index());
        if !was_present {
            self.count(group, |present| present + 1);
        }
    }

    /// `app` has nothing queued, and its finish tag is or becomes `finish`.
    pub(crate) fn on_finish(&mut self, app: AppId, finish: VirtualTime) {
        let Some(&Flow { group: Some(group), is_present: true, .. }) = self.flows.get(app.index()) else { return };
        self.lingering.set(Lingering { finish, app });
        if let Some(Some(group)) = self.groups.get_mut(group.index()) {
            group.finish = group.finish.max(finish);
        }
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> Vec<usize> {
        let own = [self.flows.capacity(), self.groups.capacity()];
        own.into_iter().chain(self.lingering.capacities()).collect()
    }

    /// Virtual time is `now`: members whose finish tag is not after it leave. Amortised over the arrivals.
    pub(crate) fn expire(&mut self, now: VirtualTime) {
        while let Some(&Lingering { app, .. }) = self.lingering.first().filter(|last| last.finish <= now) {
            self.leave(app, self.group_of(app));
        }
    }

    fn leave(&mut self, app: AppId, group: Option<GroupId>) {
        self.lingering.remove(app.index());
        self.flows[app.index()].is_present = false;
        self.count(group, |present| present - 1);
    }

    fn group(&self, app: AppId) -> Option<&Group> {
        self.groups.get(self.group_of(app)?.index())?.as_ref()
    }

    fn count(&mut self, group: Option<GroupId>, change: impl FnOnce(u32) -> u32) {
        if let Some(Some(group)) = group.and_then(|group| self.groups.get_mut(group.index())) {
            group.present = change(group.present);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: AppPolicy = AppPolicy {
        weight: Weight::ONE,
        group: Some(GroupId(0)),
        cap: None,
        target: None,
        minimum: None,
        latency: None,
        order: None,
    };

    fn at(bytes: u64) -> VirtualTime {
        VirtualTime::of(Bytes(bytes), Weight::ONE)
    }

    fn pair() -> Shares {
        let mut shares = Shares::new();
        (0..2).for_each(|app| shares.set(AppId(app), &GROUP));
        shares
    }

    #[test]
    fn new_members_start_one_after_another() {
        let mut shares = Shares::new();
        (0..5).for_each(|app| shares.set(AppId(app), &GROUP));
        let mut admit = |app, now, cost| shares.admit(AppId(app), at(now), app.into(), Bytes(cost));
        assert_eq!(admit(0, 50, 100), at(50));
        assert_eq!(admit(1, 60, 40), at(60), "the longest does not count");
        assert_eq!(admit(2, 60, 40), at(90), "after the first 40");
        assert_eq!(admit(0, 60, 100), at(60), "it is present: its own tags apply");
        shares.correct(AppId(1), 1, -30);
        shares.correct(AppId(1), 7, -30);
        let mut admit = |app, now, cost| shares.admit(AppId(app), at(now), app.into(), Bytes(cost));
        assert_eq!(admit(3, 60, 40), at(100), "10 and 40");
        assert_eq!(admit(4, 900, 40), at(900), "later");
        assert_eq!(admit(5, 60, 40), at(60), "no group");
    }

    #[test]
    fn a_member_counts_until_virtual_time_reaches_its_finish_tag() {
        let mut shares = pair();
        shares.on_arrival(AppId(0), at(0));
        shares.on_finish(AppId(0), at(100));
        shares.on_arrival(AppId(1), at(99));
        assert_eq!(shares.of(AppId(1)).time(10), at(20), "a half of the weight");
        shares.expire(at(100));
        assert_eq!(shares.of(AppId(1)).time(10), at(10));
        assert_eq!(shares.of(AppId(1)).service(at(10)), Bytes(10));
    }

    #[test]
    fn a_group_lags_while_no_member_is_present() {
        let mut shares = pair();
        shares.on_arrival(AppId(0), at(0));
        let mut member = |app, now| {
            let Membership { is_present, present, lag, .. } = shares.membership(AppId(app), at(now))?;
            Some((is_present, present, lag))
        };
        assert_eq!(member(0, 50), Some((true, 1, Bytes::ZERO)));
        assert_eq!(member(1, 50), Some((false, 1, Bytes::ZERO)));
        assert_eq!(member(2, 50), None, "no group");
        shares.on_finish(AppId(0), at(100));
        let lag = shares.membership(AppId(1), at(300)).map(|member| (member.present, member.lag));
        assert_eq!(lag, Some((0, Bytes(200))));
        assert_eq!(shares.present(GroupId(0), at(300)), 0);
    }
}
