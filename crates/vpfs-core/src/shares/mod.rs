//! The tree of shares: what part of the service is due to each flow, and which flow is next.
//!
//! A flow stands at the top or in a *share*, an inner node, which may be in another share. A node's weight counts among
//! its siblings that are *present*, so the *effective* weight of a flow is
//!
//! φ = w₀ · (w₁ / W₁) · (w₂ / W₂) · ...
//!
//! with its own weight and those of the shares that it is in, the one at the top first, and W the weights of all that
//! are present in the share where w stands. What somebody absent does not use thus goes to its siblings, and to others
//! only if there are none. Policies see one order of flows, by virtual time.
//!
//! A flow is present while it has requests queued, and then until virtual time reaches its finish tag: a name that has
//! been served counts as long as a flow would have to wait before its next turn, so names that take turns get no more
//! than names that wait at the same time. A share is present while anything in it is.
//!
//! # Clocks
//!
//! Each share has a *clock* of what was due to a unit of weight in it, and tags of flows are by the clock of the share
//! that they are in: whatever comes or leaves anywhere, what was due before a request stays the same. What is first in
//! a share stands in the next one with its tag by the clock of that one, which is right until something comes to the
//! share or leaves it. So at the top, where the clock is virtual time, stands what is first of all ([`Shares::first`]).
//!
//! Changes are O(depth + log n) for each lane, whatever the number of members.

mod node;
mod order;

use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::member::Member;
use crate::units::{AppId, Bytes, VirtualTime, Weight};
pub(crate) use node::Share;
use node::{Fine, Node, coarse, fine};
pub(crate) use order::{Next, Order};

#[derive(Clone, Copy, Debug)]
struct Flow {
    weight: Weight,
    share: Option<ShareId>,
    is_present: bool,
    first: First,
}

impl Flow {
    const NEW: Self = Self {
        weight: Weight::ONE,
        share: None,
        is_present: false,
        first: First { arrival: u64::MAX, cost: Bytes::ZERO, entered: 0, beside: None, start: VirtualTime::ZERO },
    };
}

/// The request with which a flow became present.
#[derive(Clone, Copy, Debug)]
struct First {
    arrival: u64,
    cost: Bytes,
    /// In how many shares, each in the next, something became present with it.
    entered: usize,
    /// Where it stands until it goes: in the share in which the last of these became present, with the tag from which
    /// it may start there.
    beside: Option<ShareId>,
    start: VirtualTime,
}

/// The shares of all flows of one scheduler, and which flow is next in each of some *lanes*. O(depth + log n) for flows
/// that are in shares.
#[derive(Debug)]
pub(crate) struct Shares {
    /// By application.
    flows: Vec<Flow>,
    nodes: Vec<Node>,
    /// Flows in shares that are present without a request in a lane, by finish tag, then the lanes.
    orders: Vec<Order>,
    /// First requests that stand further out than the shares with minima that they are in: for each of these, what
    /// became present in it, by the start of its request by the clock of what the share is in. Some may have gone.
    entrants: Order,
    /// The virtual time of the latest arrival or departure.
    latest: VirtualTime,
}

/// The order of departures; lanes follow.
const DEPARTURES: usize = 0;

impl Shares {
    pub(crate) fn new(lanes: usize) -> Self {
        let orders = (0..=lanes).map(|_| Order::default()).collect();
        Self { flows: Vec::new(), nodes: Vec::new(), orders, entrants: Order::default(), latest: VirtualTime::ZERO }
    }

    /// Changes the number of lanes, which are empty then.
    pub(crate) fn set_lanes(&mut self, lanes: usize) {
        self.orders.truncate(1);
        self.orders.resize_with(lanes + 1, Order::default);
    }

    pub(crate) fn lanes(&self) -> usize {
        self.orders.len() - 1
    }

    /// Sets the weight of `app`, and where it stands. It is not present in a new share until [`Shares::on_arrival`],
    /// and in no lane until [`Shares::set_next`]. Virtual time is `now`.
    pub(crate) fn set(&mut self, now: VirtualTime, app: AppId, &AppPolicy { weight, share, .. }: &AppPolicy) {
        if app.index() >= self.flows.len() {
            self.flows.resize(app.index() + 1, Flow::NEW);
        }
        share.into_iter().for_each(|share| self.grow(share));
        let before = self.flows[app.index()];
        if before.share != share {
            (0..self.orders.len()).for_each(|order| self.remove(order, app));
            self.entrants.remove(app);
            self.flows[app.index()].first = Flow::NEW.first;
        }
        if before.is_present && (before.weight, before.share) != (weight, share) {
            self.leave(app, now);
            if before.share == share {
                self.flows[app.index()].weight = weight;
                self.enter(app, now);
                self.on_change_up(share);
            }
        }
        let flow = &mut self.flows[app.index()];
        (flow.weight, flow.share) = (weight, share);
    }

    /// Sets the weight of a share, and where it stands; `None` if nothing stands in it any more, so that its number may
    /// be used again. Virtual time is `now`.
    pub(crate) fn set_share(&mut self, now: VirtualTime, share: ShareId, policy: Option<&SharePolicy>) {
        self.grow(share);
        let policy = policy.copied().unwrap_or_default();
        policy.parent.into_iter().for_each(|parent| self.grow(parent));
        self.entrants.remove_share(share);
        self.prepare(Some(share), now);
        let Node { policy: before, present, .. } = self.nodes[share.index()];
        if present > 0 {
            for order in 0..self.orders.len() {
                if let Some(parent) = self.orders[order].remove_share(share) {
                    self.rise(order, parent);
                }
            }
            self.exit(before.weight, before.parent);
        }
        let seen = self.advance(policy.parent, self.latest);
        let node = &mut self.nodes[share.index()];
        // Starts of others are by the clock of what it was in.
        (node.policy, node.seen, node.entry) = (policy, seen, VirtualTime::ZERO);
        if present > 0 {
            self.enter_as(policy.weight, policy.parent);
            self.on_change_up(Some(share));
        } else {
            node.left = seen;
        }
    }

    /// φ of `app` now.
    pub(crate) fn of(&self, app: AppId) -> Share {
        let Some(&Flow { weight, share, is_present, .. }) = self.flows.get(app.index()) else { return Share::ONE };
        let (mut within, mut weight, mut is_present) = (Share::whole(weight), weight, is_present);
        for (share, policy) in self.above(share) {
            let node = &self.nodes[share.index()];
            let weights = match (is_present, node.present) {
                (true, _) => node.weights,
                (false, 0) => weight.get().into(),
                (false, _) => node.weights + u64::from(weight.get()),
            };
            (weight, is_present) = (policy.weight, node.present > 0);
            within = within.within(weight, weights);
        }
        within
    }

    /// The clock by which the tags of `app` are, at virtual time `now`. O(depth).
    pub(crate) fn clock_of(&self, app: AppId, now: VirtualTime) -> VirtualTime {
        match self.share_of(app) {
            None => now,
            share => coarse(self.clock(share, now)),
        }
    }

    /// The virtual time of a tag of `app`. O(depth).
    pub(crate) fn virtual_time(&self, app: AppId, tag: VirtualTime) -> VirtualTime {
        self.above(self.share_of(app)).fold(tag, |tag, (share, _)| self.nodes[share.index()].outer(tag))
    }

    fn clock(&self, share: Option<ShareId>, now: VirtualTime) -> Fine {
        let Some(share) = share else { return fine(now) };
        let node = &self.nodes[share.index()];
        node.clock_at(self.clock(node.policy.parent, now))
    }

    /// Sets all clocks from `share` to the top, before what is present there changes.
    fn advance(&mut self, share: Option<ShareId>, now: VirtualTime) -> Fine {
        let Some(share) = share else { return fine(now) };
        let outer = match self.nodes[share.index()].policy.parent {
            None => fine(now),
            parent => self.advance(parent, now),
        };
        let node = &mut self.nodes[share.index()];
        (node.clock, node.seen) = (node.clock_at(outer), node.seen.max(outer));
        node.clock
    }

    /// `share` and all that it is in.
    pub(crate) fn above(&self, share: Option<ShareId>) -> impl Iterator<Item = (ShareId, SharePolicy)> {
        let with_policy = |share: ShareId| (share, self.policy_of(share));
        let up = core::iter::successors(share.map(with_policy), move |(_, policy)| policy.parent.map(with_policy));
        up.take(SharePolicy::DEPTH_MAX)
    }

    /// Whether `app` is in `share`, or in a share in it.
    pub(crate) fn is_within(&self, app: AppId, share: ShareId) -> bool {
        self.above(self.share_of(app)).any(|(above, _)| above == share)
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
        self.flows.get(app.index()).is_some_and(|flow| flow.is_present)
    }

    /// Whether anything is present in `share`.
    pub(crate) fn is_share_present(&self, share: ShareId) -> bool {
        self.nodes.get(share.index()).is_some_and(|node| node.present > 0)
    }

    /// The weights present in `share`, never zero.
    pub(crate) fn weights_in(&self, share: ShareId) -> u64 {
        self.nodes.get(share.index()).map_or(1, |node| node.weights)
    }

    /// The service by which all in `share`, of which nothing is present, lag behind virtual time.
    pub(crate) fn lag_of(&self, share: ShareId, now: VirtualTime) -> Bytes {
        let Some(node) = self.nodes.get(share.index()) else { return Bytes::ZERO };
        let outer = self.clock(node.policy.parent, now);
        coarse(outer.saturating_sub(node.left)).service(node.policy.weight)
    }

    /// The first flow in a lane, with its tag in virtual time.
    pub(crate) fn first(&self, lane: usize) -> Option<&Next> {
        self.orders[lane + 1].first(None)
    }

    /// What is next of `app` in a lane.
    pub(crate) fn next(&self, lane: usize, app: AppId) -> Option<&Next> {
        self.orders[lane + 1].get(app)
    }

    /// The next request of `app` in a lane has this tag, by the clock of its share, and this number.
    pub(crate) fn set_next(&mut self, lane: usize, app: AppId, tag: VirtualTime, arrival: u64) {
        let (share, tag) = match self.flows.get(app.index()) {
            Some(Flow { first, .. }) if first.arrival == arrival => (first.beside, first.start),
            flow => (flow.and_then(|flow| flow.share), tag),
        };
        self.put(lane + 1, share, Next::new(tag, arrival, app, app.into()));
    }

    /// `app` has no request in a lane.
    pub(crate) fn remove_next(&mut self, lane: usize, app: AppId) {
        self.remove(lane + 1, app);
    }

    /// Sets what is next of something in `share`, and thus of `share` itself in the next one, and so on.
    fn put(&mut self, order: usize, share: Option<ShareId>, next: Next) {
        let (mut at, mut next) = (share, next);
        loop {
            let Some(has_changed) = self.orders[order].try_replace(at, &next) else {
                return self.put_elsewhere(order, at, &next);
            };
            let Some(share) = at.filter(|_| has_changed) else { return };
            let Some(first) = self.orders[order].first(at) else { return };
            let node = &self.nodes[share.index()];
            (next, at) = (first.of_share(share, node.outer(first.tag)), node.policy.parent);
        }
    }

    /// The same for what is nowhere so far, or with its first request further out.
    #[inline(never)]
    fn put_elsewhere(&mut self, order: usize, share: Option<ShareId>, next: &Next) {
        if self.orders[order].has(next) {
            self.remove(order, next.app);
        }
        if self.orders[order].insert(share, next)
            && let Some(share) = share
        {
            self.rise(order, share);
        }
    }

    #[inline(never)]
    fn remove(&mut self, order: usize, app: AppId) {
        if let Some(share) = self.orders[order].remove(app) {
            self.rise(order, share);
        }
    }

    /// What is first in `share`, or its tag by the clock of the next one, may have changed.
    fn rise(&mut self, order: usize, share: ShareId) {
        let mut at = Some(share);
        while let Some(share) = at {
            let node = &self.nodes[share.index()];
            if let Some(first) = self.orders[order].first(at) {
                return self.put(order, node.policy.parent, first.of_share(share, node.outer(first.tag)));
            }
            at = self.orders[order].remove_share(share);
        }
    }

    /// What is present in `share` has changed.
    #[inline(never)]
    fn on_change(&mut self, share: ShareId) {
        (0..self.orders.len()).for_each(|order| self.rise(order, share));
    }

    /// The same for all from `share` to the top.
    fn on_change_up(&mut self, share: Option<ShareId>) {
        let mut at = share;
        while let Some(share) = at {
            self.on_change(share);
            at = self.policy_of(share).parent;
        }
    }

    /// A request of `app`, which has none queued, arrives at virtual time `now`, with this number and cost. Returns
    /// what [`Shares::clock_of`] says then.
    ///
    /// The first requests of those that become present in a share start one after another: if all started at once, a
    /// thousand new names would be a thousand requests ahead of everybody. The longest of their requests does not
    /// count, so that one with small requests need not wait until another that has just sent a large one is due again.
    /// The first in a share becomes present in the next one with that same request. Tags count from the arrival all the
    /// same: who starts late is not present for longer than what it gets takes.
    pub(crate) fn admit(&mut self, app: AppId, now: VirtualTime, arrival: u64, cost: Bytes) -> VirtualTime {
        let entered = self.on_arrival(app, now);
        let clock = self.clock_of(app, now);
        if entered == 0 {
            return clock;
        }
        let (mut beside, mut start, mut within) = (self.share_of(app), clock, None);
        for _ in 0..entered {
            let Some(share) = beside else { break };
            let node = &mut self.nodes[share.index()];
            start = node.outer(start).max(node.enter(coarse(node.seen), cost));
            beside = node.policy.parent;
            if node.policy.minimum.is_some() {
                self.entrants
                    .set(Some(share), &Next::new(start, arrival, app, within.map_or(app.into(), Member::Share)));
            }
            within = Some(share);
        }
        self.flows[app.index()].first = First { arrival, cost, entered, beside, start };
        clock
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
            let node = &mut self.nodes[share.index()];
            let [before, real] = [before, Bytes(real)].map(|cost| VirtualTime::of(cost, node.policy.weight));
            node.entry = (node.entry + real).saturating_sub(before);
            at = node.policy.parent;
        }
    }

    /// When the next flow leaves that has nothing queued.
    pub(crate) fn next_departure(&self) -> Option<VirtualTime> {
        self.orders[DEPARTURES].first(None).map(|first| first.tag)
    }

    /// Flows that leave before the next request is due do so before it goes: others may be due sooner then. Call before
    /// looking for the next request; returns virtual time after that. Amortised over the arrivals.
    pub(crate) fn pass_departures(&mut self, now: VirtualTime) -> VirtualTime {
        let mut now = now;
        while let Some(finish) = self.next_departure() {
            let mut first = self.orders[1..].iter().filter_map(|lane| lane.first(None)).peekable();
            if first.peek().is_none() || first.any(|first| first.tag <= finish) {
                break;
            }
            now = now.max(finish);
            self.expire(finish);
        }
        now
    }

    /// A request of `app` arrived, or is queued while its share changes, at virtual time `now`. Returns in how many
    /// shares something became present with it.
    pub(crate) fn on_arrival(&mut self, app: AppId, now: VirtualTime) -> usize {
        self.expire(now);
        let Some(&Flow { share: Some(_), is_present, .. }) = self.flows.get(app.index()) else { return 0 };
        if !is_present {
            return self.enter(app, now);
        }
        self.remove(DEPARTURES, app);
        0
    }

    /// `app` has nothing queued, and its finish tag is or becomes `finish`, by the clock of its share.
    pub(crate) fn on_finish(&mut self, app: AppId, finish: VirtualTime) {
        if self.is_present(app) {
            self.put(DEPARTURES, self.share_of(app), Next::new(finish, app.0.into(), app, app.into()));
        }
    }

    /// Virtual time is `now`: flows whose finish tag is not after it leave. Amortised over the arrivals.
    #[inline]
    pub(crate) fn expire(&mut self, now: VirtualTime) {
        let now = now.max(self.latest);
        if self.next_departure().is_some_and(|finish| finish <= now) {
            self.expire_until(now);
        }
    }

    fn expire_until(&mut self, now: VirtualTime) {
        while let Some(&Next { tag, app, .. }) = self.orders[DEPARTURES].first(None).filter(|first| first.tag <= now) {
            // What this changes is told with the rest.
            self.orders[DEPARTURES].remove(app);
            self.leave(app, tag);
        }
    }

    /// `app`, which is present, is so no longer from virtual time `now` on.
    fn leave(&mut self, app: AppId, now: VirtualTime) {
        let Flow { weight, share, .. } = self.flows[app.index()];
        self.prepare(share, now);
        self.flows[app.index()].is_present = false;
        self.exit(weight, share);
    }

    /// `app` becomes present at virtual time `now`, and with it its share where that stands, and so on; returns in how
    /// many.
    fn enter(&mut self, app: AppId, now: VirtualTime) -> usize {
        let Flow { weight, share, .. } = self.flows[app.index()];
        self.prepare(share, now);
        self.flows[app.index()].is_present = true;
        self.enter_as(weight, share)
    }

    /// What is present in `share` is about to change at virtual time `now`, or at the latest change if that was later.
    fn prepare(&mut self, share: Option<ShareId>, now: VirtualTime) {
        self.latest = self.latest.max(now);
        self.advance(share, self.latest);
    }

    /// Something of this weight becomes present in `share`.
    fn enter_as(&mut self, weight: Weight, share: Option<ShareId>) -> usize {
        let (mut weight, mut at) = (weight, share);
        for entered in 0..SharePolicy::DEPTH_MAX {
            let Some(share) = at else { return entered };
            let node = &mut self.nodes[share.index()];
            node.present += 1;
            if node.present > 1 {
                node.weights += u64::from(weight.get());
                self.on_change(share);
                return entered + 1;
            }
            node.weights = weight.get().into();
            (weight, at) = (node.policy.weight, node.policy.parent);
        }
        SharePolicy::DEPTH_MAX
    }

    /// The opposite of [`Shares::enter_as`].
    fn exit(&mut self, weight: Weight, share: Option<ShareId>) {
        let (mut weight, mut at) = (weight, share);
        for _ in 0..SharePolicy::DEPTH_MAX {
            let Some(share) = at else { return };
            let node = &mut self.nodes[share.index()];
            node.present -= 1;
            if node.present > 0 {
                node.weights -= u64::from(weight.get());
                return self.on_change(share);
            }
            node.left = node.seen;
            (weight, at) = (node.policy.weight, node.policy.parent);
            self.rise(DEPARTURES, share);
        }
    }

    fn grow(&mut self, share: ShareId) {
        if share.index() >= self.nodes.len() {
            self.nodes.resize(share.index() + 1, Node::NEW);
        }
    }
}

// Shares to which a rate is promised: who is first in one of them, and that what it got for that is owed to nobody.

impl Shares {
    /// The first flow among those in `share`, and its lane, where the share has a minimum; with its tag by the clock of
    /// what the share is in.
    pub(crate) fn first_in(&mut self, share: ShareId) -> Option<(usize, Next)> {
        let inside = |order: &Order| order.first(Some(share)).copied();
        let inside = self.orders[1..].iter().enumerate().filter_map(|(lane, order)| Some((lane, inside(order)?)));
        let inside = inside.min_by_key(|(_, first)| *first);
        let inside = inside.map(|(lane, mut first)| {
            first.tag = self.nodes[share.index()].outer(first.tag);
            (lane, first)
        });
        let entrant = self.first_entrant(share);
        inside.into_iter().chain(entrant).min_by_key(|(_, next)| *next)
    }

    /// The same among first requests that stand further out.
    fn first_entrant(&mut self, share: ShareId) -> Option<(usize, Next)> {
        while let Some(&next) = self.entrants.first(Some(share)) {
            let is_in = |lane: &usize| self.next(*lane, next.app).is_some_and(|queued| queued.arrival == next.arrival);
            let lane = (0..self.lanes()).find(is_in);
            if let Some(lane) = lane.filter(|_| self.flows[next.app.index()].first.arrival == next.arrival) {
                return Some((lane, next));
            }
            match next.share() {
                Some(share) => self.entrants.remove_share(share),
                None => self.entrants.remove(next.app),
            };
        }
        None
    }

    /// What was got by those in `share` beyond its part is not owed to others outside, except `most` of its service:
    /// its clock goes on, as if it had been due to it. `app` is in it, and its next request has this tag by the clock
    /// of its own share, if nothing is queued there. Virtual time is `now`.
    pub(crate) fn limit_lead(
        &mut self,
        share: ShareId,
        now: VirtualTime,
        (app, next): (AppId, VirtualTime),
        most: Bytes,
    ) {
        self.prepare(Some(share), now);
        let queued = self.orders[1..].iter().filter_map(|order| Some(order.first(Some(share))?.tag)).min();
        let next = queued.unwrap_or_else(|| {
            let below = self.above(self.share_of(app)).take_while(|(above, _)| *above != share);
            below.fold(next, |tag, (share, _)| self.nodes[share.index()].outer(tag))
        });
        let node = &mut self.nodes[share.index()];
        node.entry = node.entry.min(coarse(node.seen) + VirtualTime::of(most, node.policy.weight));
        let clock = fine(next.saturating_sub(VirtualTime::of_ratio(most.0.into(), node.weights)));
        if clock > node.clock {
            node.clock = clock;
            self.on_change(share);
        }
    }
}

#[cfg(test)]
mod tests {
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
        let mut shares = Shares::new(1);
        (0..count).for_each(|app| shares.set(at(0), AppId(app), &member(0, 1)));
        shares
    }

    /// Share 0 of weight 6 at the top; in it share 1 of weight 2 with applications 0 and 1 of weights 1 and 3, and
    /// application 2 of weight 4.
    fn tree() -> Shares {
        let mut shares = Shares::new(1);
        shares.set_share(at(0), ShareId(0), Some(&SharePolicy { weight: weight(6), ..SharePolicy::default() }));
        shares.set_share(
            at(0),
            ShareId(1),
            Some(&SharePolicy { weight: weight(2), parent: Some(ShareId(0)), ..SharePolicy::NEW }),
        );
        [(0, 1, 1), (1, 1, 3), (2, 0, 4)]
            .iter()
            .for_each(|&(app, share, w)| shares.set(at(0), AppId(app), &member(share, w)));
        shares
    }

    /// φ of an application, in thousandths.
    fn phi(shares: &Shares, app: u32) -> u64 {
        (shares.of(AppId(app)).scaled(32) * 1000 + (1 << 31)) >> 32
    }

    /// Nothing of `app` is queued, and its finish tag is there in virtual time if nothing changes before.
    fn finish(shares: &mut Shares, app: AppId, finish: u64) {
        shares.on_finish(app, shares.clock_of(app, at(finish)));
    }

    /// The virtual time at which a request that arrives now may start.
    fn start(shares: &mut Shares, app: u32, now: u64, cost: u64) -> VirtualTime {
        let app = AppId(app);
        let was_present = shares.is_present(app);
        shares.admit(app, at(now), app.0.into(), Bytes(cost));
        let clock = shares.clock_of(app, at(now));
        if was_present || shares.share_of(app).is_none() {
            return shares.virtual_time(app, clock);
        }
        shares.set_next(0, app, clock, app.0.into());
        shares.next(0, app).unwrap().tag
    }

    #[test]
    fn new_members_start_one_after_another() {
        let mut shares = members(5);
        let mut admit = |app, now, cost| start(&mut shares, app, now, cost);
        assert_eq!(admit(0, 50, 100), at(50));
        assert_eq!(admit(1, 60, 40), at(60), "the longest does not count");
        assert_eq!(admit(2, 60, 40), at(90), "after the first 40");
        assert_eq!(admit(0, 60, 100), at(60), "it is present: its own tags apply");
        shares.correct(AppId(1), 1, -30);
        shares.correct(AppId(1), 7, -30);
        let mut admit = |app, now, cost| start(&mut shares, app, now, cost);
        assert_eq!(admit(3, 60, 40), at(100), "10 and 40");
        assert_eq!(admit(4, 900, 40), at(900), "later");
        assert_eq!(admit(5, 60, 40), at(60), "no group");
    }

    #[test]
    fn new_shares_start_one_after_another_in_the_next_one() {
        let mut shares = Shares::new(1);
        (1..5).for_each(|share| {
            shares.set_share(
                at(0),
                ShareId(share),
                Some(&SharePolicy { parent: Some(ShareId(0)), ..SharePolicy::default() }),
            );
        });
        (1..5).for_each(|app| shares.set(at(0), AppId(app), &member(app, 1)));
        shares.set(at(0), AppId(5), &member(4, 1));
        let mut admit = |app, cost| start(&mut shares, app, 0, cost);
        assert_eq!((admit(1, 40), admit(2, 40), admit(3, 40)), (at(0), at(0), at(40)));
        assert_eq!(admit(4, 40), at(80));
        assert_eq!(admit(5, 40), at(0), "its share is present: in the next one nothing is new");
    }

    #[test]
    fn a_member_counts_until_virtual_time_reaches_its_finish_tag() {
        let mut shares = members(2);
        shares.on_arrival(AppId(0), at(0));
        finish(&mut shares, AppId(0), 100);
        shares.on_arrival(AppId(1), at(99));
        assert_eq!(shares.of(AppId(1)).time(10), at(20), "a half of the weight");
        shares.expire(at(100));
        assert_eq!(shares.of(AppId(1)).time(10), at(20), "what was left takes twice as long beside another");
        shares.expire(at(101));
        assert_eq!(shares.of(AppId(1)).time(10), at(10));
    }

    #[test]
    fn what_is_not_used_goes_to_siblings_first() {
        let mut shares = tree();
        (0..3).for_each(|app| _ = shares.on_arrival(AppId(app), at(0)));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [500, 1500, 4000], "6 · 2/6 · 1/4, · 3/4, and 6 · 4/6");
        finish(&mut shares, AppId(1), 10);
        shares.expire(at(10));
        assert_eq!([0, 2].map(|app| phi(&shares, app)), [2000, 4000], "its sibling has it");
        finish(&mut shares, AppId(0), 20);
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
        shares.set(at(0), AppId(0), &member(1, 3));
        assert_eq!([0, 1].map(|app| phi(&shares, app)), [1000, 1000]);
        shares.set_share(
            at(0),
            ShareId(1),
            Some(&SharePolicy { weight: weight(8), parent: Some(ShareId(0)), ..SharePolicy::NEW }),
        );
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [2000, 2000, 2000]);
        shares.set_share(at(0), ShareId(1), Some(&SharePolicy { weight: weight(5), ..SharePolicy::default() }));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [2500, 2500, 6000]);
        shares.set(at(0), AppId(1), &AppPolicy::weighted(weight(7)));
        assert_eq!([0, 1, 2].map(|app| phi(&shares, app)), [5000, 7000, 6000]);
    }

    #[test]
    fn a_share_lags_while_nothing_in_it_is_present() {
        let mut shares = tree();
        shares.on_arrival(AppId(0), at(0));
        finish(&mut shares, AppId(0), 100);
        shares.expire(at(300));
        assert_eq!(shares.lag_of(ShareId(0), at(300)), Bytes(1200), "of weight 6");
        shares.on_arrival(AppId(2), at(300));
        assert_eq!(shares.lag_of(ShareId(1), at(300)), Bytes(1200), "of what was due to it alone");
    }

    /// The deepest tree with the largest weights and most siblings that tags must hold.
    #[test]
    fn no_tree_makes_tags_overflow() {
        let mut shares = Shares::new(1);
        for share in 0..8 {
            let parent = (share > 0).then(|| ShareId(share - 1));
            let policy = SharePolicy { parent, ..SharePolicy::default() };
            shares.set_share(at(0), ShareId(share), Some(&policy));
            shares.set(at(0), AppId(share), &member(share, Weight::MAX));
            shares.on_arrival(AppId(share), at(0));
        }
        shares.set(at(0), AppId(8), &member(7, 1));
        shares.on_arrival(AppId(8), at(0));
        let time = shares.of(AppId(8)).time(u64::MAX.into());
        assert!(time > at(u64::MAX >> 1));
        assert!(phi(&shares, 0) == 999 || phi(&shares, 0) == 1000, "{}", phi(&shares, 0));
    }
}
