//! Start-time fair queueing [vPFS+ §III-A, vPFS §III-B]: the requests of a policy that shares by weight, and the queued
//! ones among them in the order of their start tags, found without a scan.
//!
//! S = max(v, F of the flow's previous request + delay/φ), F = S + c/φ.
//!
//! Each flow has a FIFO list in each *lane*, and each lane has a heap of its flows, keyed by their first requests. What
//! the lanes are for is the policy's: SFQ(D)+ has one for each slot cost, isolation one for interactive flows and one
//! for bulk. Inside a flow tags ascend, so the smallest tag of a lane is at the top of its heap, and the smallest of
//! all is the minimum of a few tops.

use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::corrections::Corrections;
use crate::dsfq::{Ledger, Standing};
use crate::event::{Event, EventQueue};
use crate::heap::Heap;
use crate::list::{List, Node};
use crate::request::{Request, ServiceReport};
use crate::settings::Sharing;
use crate::shares::{Advance, Shares};
use crate::table::Table;
use crate::tags::{Clock, FlowTags, Head};
use crate::units::{AppId, Bytes, RequestId, Time, VirtualTime};

/// A request as its queue sees it.
pub(crate) trait Queued: Node {
    fn app(&self) -> AppId;
    /// Counts up over all flows; breaks ties and orders requests by age.
    fn arrival(&self) -> u64;
    /// The service that its flow requested before it; see [`FlowTags`].
    fn position(&self) -> u128;
    /// What its flow is charged for it.
    fn charged(&self) -> Bytes;
}

#[derive(Clone, Debug)]
struct Flow {
    tags: FlowTags,
    /// How it advances.
    advance: Advance,
    queued: u32,
}

/// Calls are O(log n) in the number of flows, times the few lanes where tags move; a queue is never walked.
#[derive(Debug)]
pub(crate) struct FairQueue<E> {
    /// All in use, also those that have left the queue.
    pub(crate) requests: Table<E>,
    pub(crate) clock: Clock,
    pub(crate) ledger: Ledger,
    corrections: Corrections,
    /// By application.
    flows: Vec<Flow>,
    shares: Shares,
    /// By application and lane.
    lists: Vec<List>,
    /// By lane.
    heads: Vec<Heap<Head>>,
    len: usize,
    arrivals: u64,
}

impl<E: Queued> FairQueue<E> {
    /// Of those in a share, so many notice at once that others came or left.
    const STALE_AT_ONCE: usize = 8;

    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            requests: Table::new(),
            clock: Clock::default(),
            ledger: Ledger::new(Sharing::default()),
            corrections: Corrections::default(),
            flows: Vec::new(),
            shares: Shares::new(),
            lists: Vec::new(),
            heads: (0..lanes).map(|_| Heap::new()).collect(),
            len: 0,
            arrivals: 0,
        }
    }

    /// Requests queued.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Those of `app`.
    pub(crate) fn queued(&self, app: AppId) -> usize {
        self.flows.get(app.index()).map_or(0, |flow| flow.queued as usize)
    }

    /// The shares of all flows.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The number of the next request.
    pub(crate) fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals - 1
    }

    /// Changes the scope of the shares. Tags stay. O(applications).
    pub(crate) fn set_sharing(&mut self, sharing: Sharing) {
        if self.ledger.sharing() != sharing {
            self.ledger.set_sharing(sharing);
        }
    }

    /// By how much service elsewhere delays the start tag of a request that arrives, in the unit of its cost;
    /// `reported` is its cost as other servers are told [vPFS §III-B].
    pub(crate) fn delay(&mut self, request: &Request, reported: Bytes) -> Bytes {
        let (ledger, standing) = self.standing(request.app);
        ledger.arrive(request, reported, standing)
    }

    /// The accounts of service elsewhere, and where `app` stands.
    fn standing(&mut self, app: AppId) -> (&mut Ledger, Standing<'_>) {
        self.grow(app);
        let now = self.clock.now();
        self.shares.expire(now);
        let flow = &self.flows[app.index()];
        let lag = (flow.queued == 0).then(|| flow.tags.lag(now));
        (&mut self.ledger, Standing { lag, shares: &self.shares, now })
    }

    /// Charges a request to its flow: S = max(v, F of the flow's previous request + delay/φ). Returns its position.
    pub(crate) fn charge(&mut self, app: AppId, arrival: u64, [charged, delay]: [Bytes; 2]) -> u128 {
        self.grow(app);
        self.shares.admit(app, self.clock.now(), arrival, charged);
        self.refresh_share(app, false);
        self.refresh_stale();
        let flow = &mut self.flows[app.index()];
        flow.tags.delay(delay);
        if flow.queued == 0 {
            let start = flow.tags.finish().max(self.clock.now());
            flow.tags.anchor(flow.tags.end(), start);
        }
        flow.tags.append(charged)
    }

    /// Queues a charged request.
    pub(crate) fn push(&mut self, lane: usize, id: RequestId) {
        let app = self.requests.get(id).app();
        let list = self.list(app, lane);
        self.lists[list].push_back(self.requests.nodes(), id);
        if self.lists[list].first() == Some(id) {
            self.refresh_lane(app, lane);
        }
        self.flows[app.index()].queued += 1;
        self.len += 1;
    }

    /// Takes a request out of the queue, but not out of the table.
    pub(crate) fn remove(&mut self, lane: usize, id: RequestId) {
        let app = self.requests.get(id).app();
        self.shares.expire(self.clock.now());
        self.refresh_share(app, true);
        let list = self.list(app, lane);
        let was_first = self.lists[list].first() == Some(id);
        self.lists[list].remove(self.requests.nodes(), id);
        if was_first {
            self.refresh_lane(app, lane);
        }
        self.len -= 1;
        let flow = &mut self.flows[app.index()];
        flow.queued -= 1;
        if flow.queued == 0 {
            self.clock.note_finish(flow.tags.finish());
            self.shares.on_finish(app, flow.tags.finish());
        }
    }

    /// The queued request of a lane with the smallest start tag.
    pub(crate) fn first(&self, lane: usize) -> Option<Head> {
        self.heads[lane].first().copied()
    }

    /// The oldest queued request of `app`, which also has its smallest tag.
    pub(crate) fn oldest(&self, app: AppId) -> Option<Head> {
        let firsts = self.heads.iter().filter_map(|flows| flows.get(app.index()));
        firsts.min_by_key(|first| first.arrival).copied()
    }

    /// The queued requests of `app`, lane by lane. O(n).
    pub(crate) fn ids(&mut self, app: AppId) -> Vec<RequestId> {
        if app.index() >= self.flows.len() {
            return Vec::new();
        }
        let lists = self.list(app, 0)..self.list(app, self.heads.len());
        let nodes = self.requests.nodes();
        self.lists[lists].iter().flat_map(|list| list.ids(nodes).collect::<Vec<_>>()).collect()
    }

    /// The finish tag of a queued request, F = S + c/φ.
    pub(crate) fn finish(&self, head: Head) -> VirtualTime {
        let entry = self.requests.get(head.id);
        self.flows[head.app.index()].tags.tag(entry.position() + u128::from(entry.charged().0))
    }

    /// Whether the next request of `app` comes after virtual time by more than `most` of its service.
    pub(crate) fn is_ahead(&self, app: AppId, most: Bytes) -> bool {
        let Some(flow) = self.flows.get(app.index()) else { return false };
        let next = self.oldest(app).map_or(flow.tags.finish(), |head| head.start);
        next > self.clock.now() + flow.tags.span(most)
    }

    /// Moves the tags of `app` back if its oldest queued request, or its next one if none is queued, is ahead of
    /// virtual time by more than `most` of its service.
    pub(crate) fn limit_lead(&mut self, app: AppId, most: Bytes) {
        self.grow(app);
        let oldest = self.oldest(app);
        let tags = &mut self.flows[app.index()].tags;
        let most = self.clock.now() + tags.span(most);
        match oldest {
            Some(Head { start, id, .. }) if start > most => {
                tags.anchor(self.requests.get(id).position(), most);
                self.refresh(app);
            }
            Some(_) => {}
            None => tags.anchor(tags.end(), tags.finish().min(most)),
        }
    }

    /// A request of `app` costs `delta` of service more (or less) than was charged.
    pub(crate) fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.shares.correct(app, arrival, delta);
        let due = self.corrections.add(app, arrival, delta, self.oldest_arrival(app));
        self.bound_corrections(app);
        self.pay(app, due);
    }

    /// A request of `app` left the queue: applies the corrections that are due now.
    pub(crate) fn settle(&mut self, app: AppId) {
        let now = self.clock.now();
        if !self.shares.is_still(now) {
            self.shares.expire(now);
            self.refresh_stale();
        }
        if !self.corrections.is_empty() {
            let due = self.corrections.take_due(app, self.oldest_arrival(app));
            self.bound_corrections(app);
            self.pay(app, due);
        }
    }

    /// Keeps the number of deferred corrections in proportion to the queued requests. O(1) amortised over the
    /// corrections.
    fn bound_corrections(&mut self, app: AppId) {
        if self.corrections.are_many(app, self.queued(app)) {
            let ids = self.ids(app);
            let mut queued: Vec<u64> = ids.into_iter().map(|id| self.requests.get(id).arrival()).collect();
            queued.sort_unstable();
            self.corrections.merge(app, &queued);
        }
    }

    /// When the oldest queued request of `app` arrived; later than any if there is none.
    fn oldest_arrival(&self, app: AppId) -> u64 {
        self.oldest(app).map_or(u64::MAX, |first| first.arrival)
    }

    /// Moves the tags of `app` by `delta` of service; a refund first reduces what is pending.
    fn pay(&mut self, app: AppId, delta: i128) {
        let delta = self.ledger.pay(app, delta);
        self.shift(app, delta);
    }

    /// Moves the tags of all queued requests of `app`, and of those that it sends next, by `delta` of service.
    fn shift(&mut self, app: AppId, delta: i128) {
        if delta == 0 {
            return;
        }
        self.grow(app);
        let oldest = self.oldest(app);
        let (tags, now) = (&mut self.flows[app.index()].tags, self.clock.now());
        match oldest {
            Some(Head { start, id, .. }) => {
                tags.anchor(self.requests.get(id).position(), tags.moved(start, delta, now));
                self.refresh(app);
            }
            None => {
                tags.anchor(tags.end(), tags.moved(tags.finish(), delta, now));
                self.clock.note_finish(tags.finish());
                self.shares.on_finish(app, tags.finish());
            }
        }
    }

    /// Other servers gave `report.app` this much service: delays its next requests [vPFS §III-B1].
    pub(crate) fn hear(&mut self, now: Time, report: ServiceReport, events: &mut EventQueue) {
        let (ledger, standing) = self.standing(report.app);
        let refund = ledger.hear(now, report, standing, events);
        self.shift(report.app, refund);
    }

    /// Other servers gave this to members of `share` that have never been here.
    pub(crate) fn hear_of_strangers(&mut self, share: ShareId, bytes: i64) {
        self.shares.expire(self.clock.now());
        self.ledger.hear_of_strangers(&self.shares, share, bytes);
    }

    /// Sets the weight of a flow, and where it stands.
    pub(crate) fn set_app(&mut self, app: AppId, policy: &AppPolicy) {
        self.grow(app);
        self.shares.set(app, policy);
        if self.queued(app) > 0 {
            self.shares.on_arrival(app, self.clock.now());
        }
        self.refresh_share(app, true);
    }

    /// Sets the weight of a share, and where it stands.
    pub(crate) fn set_share(&mut self, share: ShareId, policy: Option<&SharePolicy>) {
        self.shares.set_share(share, policy);
    }

    /// Moves the requests of `app` in one lane to another one, in which it has none.
    pub(crate) fn move_flow(&mut self, app: AppId, from: usize, to: usize) {
        self.grow(app);
        let (from_list, to_list) = (self.list(app, from), self.list(app, to));
        self.lists.swap(from_list, to_list);
        if let Some(head) = self.heads[from].get(app.index()).copied() {
            self.heads[from].remove(app.index());
            self.heads[to].set(head);
        }
    }

    /// Takes all requests out of their lanes, of which there are as many as this from now on: push them again, in order
    /// of arrival. Tags stay.
    pub(crate) fn set_lanes(&mut self, lanes: usize) {
        self.heads = (0..lanes).map(|_| Heap::new()).collect();
        self.len = 0;
        self.lists.clear();
        self.lists.resize(self.flows.len() * lanes, List::EMPTY);
        self.flows.iter_mut().for_each(|flow| flow.queued = 0);
    }

    /// Nothing is queued; if nothing is outstanding either, ends the busy period.
    pub(crate) fn end_if_idle(&mut self, now: Time, outstanding: usize, events: &mut EventQueue) {
        if self.len == 0 && outstanding == 0 {
            self.clock.end_busy_period();
            events.push(now, Event::Idle);
        }
    }

    /// The number of deferred corrections of `app`.
    #[cfg(test)]
    pub(crate) fn corrections_of(&self, app: AppId) -> usize {
        self.corrections.count(app)
    }

    #[cfg(test)]
    pub(crate) fn capacities(&self) -> Vec<usize> {
        assert!(self.corrections.is_empty(), "corrections that wait are in a tree, without a capacity to look at");
        let own = [self.requests.capacity(), self.flows.capacity(), self.lists.capacity(), self.heads.capacity()];
        let heads = self.heads.iter().flat_map(Heap::capacities);
        own.into_iter().chain(heads).chain(self.shares.capacities()).chain(self.ledger.capacities()).collect()
    }

    fn grow(&mut self, app: AppId) {
        if app.index() >= self.flows.len() {
            self.flows.resize(app.index() + 1, Flow { tags: FlowTags::NEW, advance: Advance::NEW, queued: 0 });
            self.lists.resize(self.flows.len() * self.heads.len(), List::EMPTY);
        }
    }

    fn list(&self, app: AppId, lane: usize) -> usize {
        app.index() * self.heads.len() + lane
    }

    /// Brings the tags of the flow's queue up to date with its share. The tag of its oldest request moves, unless it
    /// became present with that, or `keeps_oldest`.
    fn refresh_share(&mut self, app: AppId, keeps_oldest: bool) {
        let before = self.flows[app.index()].advance;
        if before.version == self.shares.version() {
            return;
        }
        let (oldest, now) = (self.oldest(app), self.clock.now());
        let advance = self.shares.advance_of(app, now);
        let Flow { tags, advance: known, .. } = &mut self.flows[app.index()];
        *known = advance;
        let tag = oldest.map_or(tags.finish(), |head| tags.tag(self.requests.get(head.id).position()));
        let keeps = keeps_oldest || tag <= now;
        let moved = if keeps { tag } else { advance.moved(tag, &before) };
        if moved == tag && advance.share == before.share {
            return;
        }
        tags.anchor(oldest.map_or(tags.end(), |head| self.requests.get(head.id).position()), moved);
        tags.set_share(advance.share);
        match oldest {
            Some(_) => self.refresh(app),
            None => self.shares.move_finish(app, moved),
        }
    }

    /// Does that for some of the flows whose share has changed.
    fn refresh_stale(&mut self) {
        for _ in 0..Self::STALE_AT_ONCE {
            let Some(app) = self.shares.poll_stale() else { return };
            self.refresh_share(app, false);
        }
    }

    /// Flows that leave before the next request is due do so before it goes: others may be due sooner then. Call before
    /// looking for the next request. O(log n), amortised over arrivals.
    pub(crate) fn pass_departures(&mut self) {
        while let Some(finish) = self.shares.next_departure() {
            let first = self.heads.iter().filter_map(|heads| Some(heads.first()?.start)).min();
            if first.is_none_or(|start| start <= finish) {
                return;
            }
            self.clock.advance(finish.max(self.clock.now()));
            self.shares.expire(finish);
            self.refresh_stale();
        }
    }

    /// Recomputes the heap keys of a flow after its tags moved.
    fn refresh(&mut self, app: AppId) {
        (0..self.heads.len()).for_each(|lane| self.refresh_lane(app, lane));
    }

    fn refresh_lane(&mut self, app: AppId, lane: usize) {
        match self.lists[self.list(app, lane)].first() {
            Some(id) => {
                let entry = self.requests.get(id);
                let tag = self.flows[app.index()].tags.tag(entry.position());
                let start = tag.max(self.clock.now()).max(self.shares.entry_of(app, entry.arrival()));
                self.heads[lane].set(Head { start, arrival: entry.arrival(), app, id });
            }
            None => self.heads[lane].remove(app.index()),
        }
    }
}
