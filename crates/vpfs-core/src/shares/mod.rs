//! The tree of shares: what part of the service is due to each flow, as one number that policies can use as its weight.
//!
//! A flow stands at the top or in a *share*, an inner node, which may be in another share. A node's weight counts among
//! its siblings that are *present*, so the *effective* weight of a flow is
//!
//! φ = w₀ · (w₁ / W₁) · (w₂ / W₂) · ...
//!
//! with its own weight and those of the shares that it is in, the one at the top first, and W the weights of all that
//! are present in the share where w stands. What somebody absent does not use thus goes to its siblings, and to others
//! only if there are none. Policies see nothing but φ.
//!
//! A flow is present while it has requests queued, and then until virtual time reaches its finish tag: a name that has
//! been served counts as long as a flow would have to wait before its next turn, so names that take turns get no more
//! than names that wait at the same time. A share is present while anything in it is.
//!
//! # How tags follow
//!
//! A tag says when its flow will have got what was due to it so far, so it is further away in virtual time while φ is
//! small, and comes nearer when siblings leave: otherwise a flow beside one that comes and goes would wait for what
//! nobody uses. In each share a *clock* counts what was due to a unit of weight in it, and a flow remembers how it
//! advanced from when ([`Advance`]). With both, its tags are right whenever they are looked at, after however many
//! changes. Those below a share in which something came or left are *stale* until then; whoever owns the tags takes a
//! bounded number of them after each arrival and departure ([`Shares::poll_stale`]), so that a share with thousands of
//! members costs no more than others. Of these, each also takes notice when a request of its own comes or goes.
//!
//! Arrivals and departures are O(depth), as is looking at a flow.

mod advance;

use alloc::vec::Vec;

pub(crate) use advance::{Advance, Share};

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::heap::{Heap, Item};
use crate::units::{AppId, Bytes, VirtualTime, Weight};

#[derive(Clone, Copy, Debug)]
struct Flow {
    weight: Weight,
    share: Option<ShareId>,
    /// Where it is among those present in its share.
    place: Option<u32>,
    first: First,
}

/// The request with which a flow became present.
#[derive(Clone, Copy, Debug)]
struct First {
    arrival: u64,
    cost: Bytes,
    /// In how many shares, each in the next, something became present with it.
    entered: usize,
    /// The tag from which it may start.
    start: VirtualTime,
}

/// Something in a share.
#[derive(Clone, Copy, Debug)]
enum Member {
    App(AppId),
    Share(ShareId),
}

#[derive(Clone, Debug)]
struct Node {
    policy: SharePolicy,
    /// What is present in it, and the sum of the weights.
    present: Vec<Member>,
    weights: u64,
    /// Where it is among those present in the share that it is in.
    place: u32,
    /// Those with places below this have not noticed the latest change.
    stale: usize,
    /// The largest finish tag of those that were.
    finish: VirtualTime,
    /// Where first requests of those that became present would end if they were those of one flow with the whole
    /// weight, and the longest of them since this was last behind virtual time.
    entry: VirtualTime,
    longest: VirtualTime,
    /// What a unit of weight in it was due, in virtual time, and the clock of what it is in when that was right.
    clock: u128,
    seen: u128,
}

impl Node {
    fn new(policy: SharePolicy) -> Self {
        const ZERO: VirtualTime = VirtualTime::ZERO;
        Self {
            policy,
            present: Vec::new(),
            weights: 0,
            place: 0,
            stale: 0,
            finish: ZERO,
            entry: ZERO,
            longest: ZERO,
            clock: 0,
            seen: 0,
        }
    }

    /// Its clock when that of what it is in is at `outer`.
    fn clock_at(&self, outer: u128) -> u128 {
        let passed = outer.saturating_sub(self.seen);
        let due =
            if self.weights > 0 { passed * u128::from(self.policy.weight.get()) / u128::from(self.weights) } else { 0 };
        self.clock + due
    }

    /// Something whose first request takes `length` becomes present in it; returns the tag from which it may start.
    fn enter(&mut self, now: VirtualTime, length: VirtualTime) -> VirtualTime {
        if self.entry <= now {
            (self.entry, self.longest) = (now, VirtualTime::ZERO);
        }
        let start = self.entry.saturating_sub(self.longest);
        self.entry = self.entry + length;
        self.longest = self.longest.max(length);
        start
    }
}

/// A flow without queued requests, present until `finish`.
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

/// The shares of all flows of one scheduler. O(depth + log n) in the flows that are in shares, O(1) for others.
#[derive(Debug)]
pub(crate) struct Shares {
    /// By application.
    flows: Vec<Flow>,
    nodes: Vec<Node>,
    lingering: Heap<Lingering>,
    /// Shares in which something is stale.
    stale: Vec<ShareId>,
    /// How often φ of a flow may have changed.
    version: u64,
    /// The virtual time of the latest arrival or departure.
    latest: VirtualTime,
}

impl Shares {
    /// A change by less than this part of the weights is noticed only by flows whose requests come and go. Among
    /// thousands of members, nothing else changes when one of them does.
    const NOTICED: u64 = 128;

    pub(crate) const fn new() -> Self {
        Self {
            flows: Vec::new(),
            nodes: Vec::new(),
            lingering: Heap::new(),
            stale: Vec::new(),
            version: 1,
            latest: VirtualTime::ZERO,
        }
    }

    /// While it is the same, so is φ of each flow.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Sets the weight of `app`, and where it stands. It is not present in a new share until [`Shares::on_arrival`].
    pub(crate) fn set(&mut self, app: AppId, &AppPolicy { weight, share, .. }: &AppPolicy) {
        if app.index() >= self.flows.len() {
            let first = First { arrival: u64::MAX, cost: Bytes::ZERO, entered: 0, start: VirtualTime::ZERO };
            let new = Flow { weight: Weight::ONE, share: None, place: None, first };
            self.flows.resize(app.index() + 1, new);
        }
        share.into_iter().for_each(|share| self.grow(share));
        let before = self.flows[app.index()];
        if before.place.is_some() && (before.weight, before.share) != (weight, share) {
            let finish = self.leave(app, self.latest);
            if before.share == share {
                self.flows[app.index()].weight = weight;
                self.enter(app, self.latest);
                finish.into_iter().for_each(|finish| self.lingering.set(Lingering { finish, app }));
            }
        }
        let flow = &mut self.flows[app.index()];
        (flow.weight, flow.share) = (weight, share);
        self.version += 1;
    }

    /// Sets the weight of a share, and where it stands; `None` if nothing stands in it any more, so that its number may
    /// be used again.
    pub(crate) fn set_share(&mut self, share: ShareId, policy: Option<&SharePolicy>) {
        self.grow(share);
        let policy = policy.copied().unwrap_or_default();
        policy.parent.into_iter().for_each(|parent| self.grow(parent));
        self.advance(Some(share), self.latest);
        let is_present = self.is_share_present(share);
        if is_present {
            self.exit(Member::Share(share), VirtualTime::ZERO);
        }
        let seen = self.advance(policy.parent, self.latest);
        let node = &mut self.nodes[share.index()];
        (node.policy, node.seen) = (policy, seen);
        if is_present {
            self.enter_as(Member::Share(share));
            self.on_stale(share);
            self.version += 1;
        } else {
            (node.entry, node.longest) = Default::default();
        }
    }

    /// φ of `app` now.
    pub(crate) fn of(&self, app: AppId) -> Share {
        let Some(&Flow { weight, share, place, .. }) = self.flows.get(app.index()) else { return Share::ONE };
        if share.is_none() { Share::whole(weight) } else { self.within(share, weight, place.is_some()) }
    }

    /// How `app` advances from virtual time `now` on, until when flows have left that do so by then. O(depth).
    pub(crate) fn advance_of(&self, app: AppId, now: VirtualTime) -> Advance {
        let (share, weight) = (self.of(app), self.weight(app));
        Advance { version: self.version, share, weight, now, clock: self.clock(self.share_of(app), now) }
    }

    fn clock(&self, share: Option<ShareId>, now: VirtualTime) -> u128 {
        let Some(share) = share else { return now.raw() << Advance::BITS };
        let node = &self.nodes[share.index()];
        node.clock_at(self.clock(node.policy.parent, now))
    }

    /// Sets all clocks from `share` to the top, before what is present there changes.
    fn advance(&mut self, share: Option<ShareId>, now: VirtualTime) -> u128 {
        let Some(share) = share else { return now.raw() << Advance::BITS };
        let outer = self.advance(self.nodes[share.index()].policy.parent, now);
        let node = &mut self.nodes[share.index()];
        (node.clock, node.seen) = (node.clock_at(outer), node.seen.max(outer));
        node.clock
    }

    /// φ of all in `share` together.
    fn of_share(&self, share: ShareId) -> Share {
        let Node { policy, present, .. } = &self.nodes[share.index()];
        self.within(policy.parent, policy.weight, !present.is_empty())
    }

    /// φ of something with this weight in `share`, as if it were present.
    fn within(&self, share: Option<ShareId>, weight: Weight, is_present: bool) -> Share {
        let (mut within, mut weight, mut is_present) = (Share::whole(weight), weight, is_present);
        for (share, policy) in self.above(share) {
            let node = &self.nodes[share.index()];
            let weights = node.weights + if is_present { 0 } else { u64::from(weight.get()) };
            (weight, is_present) = (policy.weight, !node.present.is_empty());
            within = within.within(weight, weights);
        }
        within
    }

    /// `share` and all that it is in.
    pub(crate) fn above(&self, share: Option<ShareId>) -> impl Iterator<Item = (ShareId, SharePolicy)> {
        let with_policy = |share: ShareId| (share, self.policy_of(share));
        let up = core::iter::successors(share.map(with_policy), move |(_, policy)| policy.parent.map(with_policy));
        up.take(SharePolicy::DEPTH_MAX)
    }

    /// Shares have numbers below this.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The weight of `app` among its siblings.
    pub(crate) fn weight(&self, app: AppId) -> Weight {
        self.flows.get(app.index()).map_or(Weight::ONE, |flow| flow.weight)
    }

    /// Where `app` stands.
    pub(crate) fn share_of(&self, app: AppId) -> Option<ShareId> {
        self.flows.get(app.index())?.share
    }

    /// The parameters of a share that an application or another share is in.
    pub(crate) fn policy_of(&self, share: ShareId) -> SharePolicy {
        self.nodes.get(share.index()).map_or_else(SharePolicy::default, |node| node.policy)
    }

    /// Whether `app` is present in its share.
    pub(crate) fn is_present(&self, app: AppId) -> bool {
        self.flows.get(app.index()).is_some_and(|flow| flow.place.is_some())
    }

    /// Whether anything is present in `share`.
    pub(crate) fn is_share_present(&self, share: ShareId) -> bool {
        self.nodes.get(share.index()).is_some_and(|node| !node.present.is_empty())
    }

    /// The weights present in `share`, never zero.
    pub(crate) fn weights_in(&self, share: ShareId) -> u64 {
        self.nodes.get(share.index()).map_or(1, |node| node.weights.max(1))
    }

    /// The service by which all in `share`, of which nothing is present, lag behind virtual time.
    pub(crate) fn lag_of(&self, share: ShareId, now: VirtualTime) -> Bytes {
        let Some(node) = self.nodes.get(share.index()) else { return Bytes::ZERO };
        self.of_share(share).service(now.saturating_sub(node.finish))
    }

    /// A request of `app` arrives at virtual time `now`, with this number and cost; returns the tag from which it may
    /// start.
    ///
    /// Those that become present in a share start one after another: if all started at `now`, a thousand new names
    /// would be a thousand requests ahead of everybody. The longest of their requests does not count, so that one with
    /// small requests need not wait until another that has just sent a large one is due again. The first in a share
    /// becomes present in the next one with that same request.
    pub(crate) fn admit(&mut self, app: AppId, now: VirtualTime, arrival: u64, cost: Bytes) -> VirtualTime {
        let entered = self.on_arrival(app, now);
        if entered == 0 {
            return now;
        }
        self.flows[app.index()].first = First { arrival, cost, entered, start: now };
        let mut start = now;
        let mut at = self.share_of(app);
        for _ in 0..entered {
            let Some(share) = at else { break };
            let length = self.of_share(share).time(cost.0.into());
            let node = &mut self.nodes[share.index()];
            start = start.max(node.enter(now, length));
            at = node.policy.parent;
        }
        self.flows[app.index()].first.start = start;
        start
    }

    /// When the next flow leaves that has nothing queued.
    pub(crate) fn next_departure(&self) -> Option<VirtualTime> {
        self.lingering.first().map(|first| first.finish)
    }

    /// Whether nothing leaves by virtual time `now`, and no flow has a change to notice.
    pub(crate) fn is_still(&self, now: VirtualTime) -> bool {
        self.stale.is_empty() && self.lingering.first().is_none_or(|first| first.finish > now)
    }

    /// A flow that may not have noticed that φ has changed. O(depth).
    pub(crate) fn poll_stale(&mut self) -> Option<AppId> {
        while let Some(share) = self.stale.last() {
            let node = &mut self.nodes[share.index()];
            node.stale = node.stale.min(node.present.len());
            let Some(next) = node.stale.checked_sub(1) else {
                self.stale.pop();
                continue;
            };
            node.stale = next;
            match node.present[next] {
                Member::App(app) => return Some(app),
                Member::Share(share) => self.on_stale(share),
            }
        }
        None
    }

    /// Something of this weight came to `share`, or left: all below it are stale, unless that is next to nothing there.
    fn on_change_by(&mut self, share: ShareId, weight: Weight) {
        if u64::from(weight.get()) * Self::NOTICED > self.nodes[share.index()].weights {
            self.on_stale(share);
        }
    }

    /// All below `share` are stale.
    fn on_stale(&mut self, share: ShareId) {
        let node = &mut self.nodes[share.index()];
        if node.stale == 0 {
            self.stale.push(share);
        }
        node.stale = node.present.len();
    }

    /// The tag before which the request of `app` with this number may not start: later than its own if others became
    /// present just before it.
    pub(crate) fn entry_of(&self, app: AppId, arrival: u64) -> VirtualTime {
        let first = self.flows.get(app.index()).map(|flow| flow.first).filter(|first| first.arrival == arrival);
        first.map_or(VirtualTime::ZERO, |first| first.start)
    }

    /// The request of `app` with this number costs `delta` more (or less) than was known when it arrived.
    pub(crate) fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        let Some(flow) = self.flows.get_mut(app.index()).filter(|flow| flow.first.arrival == arrival) else { return };
        let before = flow.first.cost;
        let real = u64::try_from(i128::from(before.0) + delta).unwrap_or(if delta < 0 { 0 } else { u64::MAX });
        flow.first.cost = Bytes(real);
        let (entered, mut at) = (flow.first.entered, flow.share);
        for _ in 0..entered {
            let Some(share) = at else { break };
            let [before, real] = [before.0, real].map(|cost| self.of_share(share).time(cost.into()));
            let node = &mut self.nodes[share.index()];
            node.entry = (node.entry + real).saturating_sub(before);
            at = node.policy.parent;
        }
    }

    /// A request of `app` arrived, or is queued while its share changes, at virtual time `now`. Returns in how many
    /// shares something became present with it.
    pub(crate) fn on_arrival(&mut self, app: AppId, now: VirtualTime) -> usize {
        self.expire(now);
        let Some(&Flow { share: Some(_), place, .. }) = self.flows.get(app.index()) else { return 0 };
        self.lingering.remove(app.index());
        if place.is_some() { 0 } else { self.enter(app, now) }
    }

    /// `app` has nothing queued, and its finish tag is or becomes `finish`.
    pub(crate) fn on_finish(&mut self, app: AppId, finish: VirtualTime) {
        if self.is_present(app) {
            self.lingering.set(Lingering { finish, app });
        }
    }

    /// The finish tag of `app` is now `finish`, if it has nothing queued.
    pub(crate) fn move_finish(&mut self, app: AppId, finish: VirtualTime) {
        if self.lingering.get(app.index()).is_some() {
            self.lingering.set(Lingering { finish, app });
        }
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> Vec<usize> {
        let own = [self.flows.capacity(), self.nodes.capacity()];
        own.into_iter().chain(self.lingering.capacities()).collect()
    }

    /// Virtual time is `now`: flows whose finish tag is not after it leave. Amortised over the arrivals.
    pub(crate) fn expire(&mut self, now: VirtualTime) {
        while let Some(&Lingering { app, finish }) = self.lingering.first().filter(|last| last.finish <= now) {
            self.leave(app, finish);
        }
    }

    /// `app`, which is present, is so no longer from virtual time `now` on; returns its finish tag if it had nothing
    /// queued.
    fn leave(&mut self, app: AppId, now: VirtualTime) -> Option<VirtualTime> {
        let finish = self.lingering.get(app.index()).map(|lingering| lingering.finish);
        self.lingering.remove(app.index());
        self.on_change(self.share_of(app), now);
        self.exit(Member::App(app), finish.unwrap_or_default());
        finish
    }

    /// `app` becomes present at virtual time `now`, and with it its share where that stands, and so on; returns in how
    /// many.
    fn enter(&mut self, app: AppId, now: VirtualTime) -> usize {
        self.on_change(self.share_of(app), now);
        self.enter_as(Member::App(app))
    }

    fn enter_as(&mut self, member: Member) -> usize {
        let mut member = member;
        for entered in 0..SharePolicy::DEPTH_MAX {
            let (weight, Some(share)) = self.standing(member) else { return entered };
            let node = &mut self.nodes[share.index()];
            let place = u32::try_from(node.present.len()).expect("as many as applications");
            node.present.push(member);
            node.weights += u64::from(weight.get());
            self.put(member, Some(place));
            if place > 0 {
                self.on_change_by(share, weight);
                return entered + 1;
            }
            member = Member::Share(share);
        }
        SharePolicy::DEPTH_MAX
    }

    /// The opposite of [`Shares::enter_as`], at a finish tag.
    fn exit(&mut self, member: Member, finish: VirtualTime) {
        let (mut member, mut finish) = (member, finish);
        for _ in 0..SharePolicy::DEPTH_MAX {
            let (weight, Some(share)) = self.standing(member) else { return };
            let place = self.put(member, None);
            let node = &mut self.nodes[share.index()];
            node.present.swap_remove(place as usize);
            node.weights -= u64::from(weight.get());
            finish = node.finish.max(finish);
            node.finish = finish;
            if let Some(moved) = node.present.get(place as usize).copied() {
                self.put(moved, Some(place));
            }
            if self.is_share_present(share) {
                return self.on_change_by(share, weight);
            }
            member = Member::Share(share);
        }
    }

    /// The weight of something, and what it is in.
    fn standing(&self, member: Member) -> (Weight, Option<ShareId>) {
        match member {
            Member::App(app) => (self.weight(app), self.share_of(app)),
            Member::Share(share) => {
                let SharePolicy { weight, parent, .. } = self.nodes[share.index()].policy;
                (weight, parent)
            }
        }
    }

    /// Sets the place of something among those present; returns the one that it had, or 0.
    fn put(&mut self, member: Member, place: Option<u32>) -> u32 {
        match member {
            Member::App(app) => core::mem::replace(&mut self.flows[app.index()].place, place).unwrap_or(0),
            Member::Share(share) => core::mem::replace(&mut self.nodes[share.index()].place, place.unwrap_or(0)),
        }
    }

    /// What is present in `share` changes at virtual time `now`, or at the latest change if that was later.
    fn on_change(&mut self, share: Option<ShareId>, now: VirtualTime) {
        self.version += 1;
        self.latest = self.latest.max(now);
        self.advance(share, self.latest);
    }

    fn grow(&mut self, share: ShareId) {
        if share.index() >= self.nodes.len() {
            self.nodes.resize(share.index() + 1, Node::new(SharePolicy::default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).unwrap()
    }

    fn member(share: u32, w: u32) -> AppPolicy {
        AppPolicy { share: Some(ShareId(share)), ..AppPolicy::weighted(weight(w)) }
    }

    fn at(bytes: u64) -> VirtualTime {
        VirtualTime::of(Bytes(bytes), Weight::ONE)
    }

    /// So many applications in one share.
    fn members(count: u32) -> Shares {
        let mut shares = Shares::new();
        (0..count).for_each(|app| shares.set(AppId(app), &member(0, 1)));
        shares
    }

    /// Share 0 of weight 6 at the top; in it share 1 of weight 2 with applications 0 and 1 of weights 1 and 3, and
    /// application 2 of weight 4.
    fn tree() -> Shares {
        let mut shares = Shares::new();
        shares.set_share(ShareId(0), Some(&SharePolicy { weight: weight(6), ..SharePolicy::default() }));
        shares.set_share(ShareId(1), Some(&SharePolicy { weight: weight(2), parent: Some(ShareId(0)), cap: None }));
        [(0, 1, 1), (1, 1, 3), (2, 0, 4)].iter().for_each(|&(app, share, w)| shares.set(AppId(app), &member(share, w)));
        shares
    }

    /// φ of an application, in thousandths.
    fn phi(shares: &Shares, app: u32) -> u64 {
        shares.of(AppId(app)).service(at(1000)).0
    }

    #[test]
    fn new_members_start_one_after_another() {
        let mut shares = members(5);
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
    fn new_shares_start_one_after_another_in_the_next_one() {
        let mut shares = Shares::new();
        (1..5).for_each(|share| {
            shares.set_share(ShareId(share), Some(&SharePolicy { parent: Some(ShareId(0)), ..SharePolicy::default() }));
        });
        (1..5).for_each(|app| shares.set(AppId(app), &member(app, 1)));
        shares.set(AppId(5), &member(4, 1));
        let mut admit = |app, cost| shares.admit(AppId(app), at(0), app.into(), Bytes(cost));
        assert_eq!((admit(1, 40), admit(2, 40), admit(3, 40)), (at(0), at(0), at(40)));
        assert_eq!(admit(4, 40), at(80));
        assert_eq!(admit(5, 40), at(0), "its share is present: in the next one nothing is new");
    }

    #[test]
    fn a_member_counts_until_virtual_time_reaches_its_finish_tag() {
        let mut shares = members(2);
        shares.on_arrival(AppId(0), at(0));
        shares.on_finish(AppId(0), at(100));
        shares.on_arrival(AppId(1), at(99));
        assert_eq!(shares.of(AppId(1)).time(10), at(20), "a half of the weight");
        shares.expire(at(100));
        assert_eq!(shares.of(AppId(1)).time(10), at(10));
        assert_eq!(shares.of(AppId(1)).service(at(10)), Bytes(10));
    }

    #[test]
    fn what_is_not_used_goes_to_siblings_first() {
        let mut shares = tree();
        (0..3).for_each(|app| _ = shares.on_arrival(AppId(app), at(0)));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [500, 1500, 4000], "6 · 2/6 · 1/4, · 3/4, and 6 · 4/6");
        shares.on_finish(AppId(1), at(10));
        shares.expire(at(10));
        assert_eq!([0, 2].map(|app| phi(&shares, app)), [2000, 4000], "its sibling has it");
        shares.on_finish(AppId(0), at(20));
        shares.expire(at(19));
        assert_eq!(phi(&shares, 2), 4000, "the share is present as long as something in it");
        shares.expire(at(20));
        assert_eq!(phi(&shares, 2), 6000);
        assert_eq!(phi(&shares, 1), 2000, "as if it were present");
    }

    #[test]
    fn weights_and_places_change_while_present() {
        let mut shares = tree();
        (0..3).for_each(|app| _ = shares.on_arrival(AppId(app), at(0)));
        shares.set(AppId(0), &member(1, 3));
        assert_eq!([0, 1].map(|app| phi(&shares, app)), [1000, 1000]);
        shares.set_share(ShareId(1), Some(&SharePolicy { weight: weight(8), parent: Some(ShareId(0)), cap: None }));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [2000, 2000, 2000]);
        let version = shares.version();
        shares.set_share(ShareId(1), Some(&SharePolicy { weight: weight(5), ..SharePolicy::default() }));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [2500, 2500, 6000]);
        let stale: BTreeSet<_> = core::iter::from_fn(|| shares.poll_stale()).collect();
        assert!(shares.version() > version && stale.len() == 3, "all notice: {stale:?}");
        shares.set(AppId(1), &AppPolicy::weighted(weight(7)));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [5000, 7000, 6000]);
        shares.on_finish(AppId(0), at(5));
        shares.set(AppId(0), &member(1, 9));
        shares.expire(at(5));
        assert!(!shares.is_share_present(ShareId(1)), "a change keeps what is left of its time");
    }

    #[test]
    fn a_share_lags_while_nothing_in_it_is_present() {
        let mut shares = tree();
        shares.on_arrival(AppId(0), at(0));
        shares.on_finish(AppId(0), at(100));
        shares.expire(at(300));
        assert_eq!(shares.lag_of(ShareId(0), at(300)), Bytes(1200), "of weight 6");
        shares.on_arrival(AppId(2), at(300));
        assert_eq!(shares.lag_of(ShareId(1), at(300)), Bytes(400), "6 · 2/6");
    }

    /// The deepest tree with the largest weights and most siblings that tags must hold.
    #[test]
    fn no_tree_makes_tags_overflow() {
        let mut shares = Shares::new();
        for share in 0..8 {
            let parent = (share > 0).then(|| ShareId(share - 1));
            let policy = SharePolicy { parent, ..SharePolicy::default() };
            shares.set_share(ShareId(share), Some(&policy));
            shares.set(AppId(share), &member(share, Weight::MAX));
            shares.on_arrival(AppId(share), at(0));
        }
        shares.set(AppId(8), &member(7, 1));
        shares.on_arrival(AppId(8), at(0));
        let time = shares.of(AppId(8)).time(u64::MAX.into());
        assert!(time > at(u64::MAX >> 1) && shares.of(AppId(8)).service(time).0 > u64::MAX / 2);
        assert!(phi(&shares, 0) == 999 || phi(&shares, 0) == 1000, "{}", phi(&shares, 0));
    }
}
