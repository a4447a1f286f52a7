//! Start-time fair queueing [vPFS+ §III-A, vPFS §III-B]: the requests of a policy that shares by weight, and the queued
//! ones among them in the order of their start tags, found without a scan.
//!
//! S = max(v, F of the flow's previous request + delay/φ), F = S + c/φ.
//!
//! Each flow has a FIFO list in each *lane*, and the first request of each is in the order of that lane. What the lanes
//! are for is the policy's: SFQ(D)+ has one for each slot cost, isolation one for interactive flows and one for bulk.
//! Inside a flow tags ascend, so the smallest tag of a lane is first in its order, and the smallest of all is the
//! minimum of a few. The tags of a flow are by the clock of the share that it is in, see [`Shares`].

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, ShareId, SharePolicy};
use crate::dsfq::{Ledger, Standing};
use crate::event::{Event, EventQueue};
use crate::list::{List, Node};
use crate::member::Member;
use crate::request::{Request, ServiceReport};
use crate::settings::Sharing;
use crate::shares::{Next, Shares};
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
    len: usize,
    arrivals: u64,
}

impl<E: Queued> FairQueue<E> {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            requests: Table::new(),
            clock: Clock::default(),
            ledger: Ledger::new(Sharing::default()),
            corrections: Corrections::default(),
            flows: Vec::new(),
            shares: Shares::new(lanes),
            lists: Vec::new(),
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
        let lag = (flow.queued == 0).then(|| flow.tags.lag(self.shares.clock_of(app, now)));
        (&mut self.ledger, Standing { lag, shares: &self.shares, now })
    }

    /// Charges a request to its flow: S = max(v, F of the flow's previous request + delay/φ). Returns its position.
    pub(crate) fn charge(&mut self, app: AppId, arrival: u64, [charged, delay]: [Bytes; 2]) -> u128 {
        self.grow(app);
        let now = self.clock.now();
        let Flow { tags, queued } = &mut self.flows[app.index()];
        tags.delay(delay);
        // An application with something queued is present.
        if *queued > 0 {
            self.shares.expire(now);
        } else {
            let clock = self.shares.admit(app, now, arrival, charged);
            tags.anchor(tags.end(), tags.finish().max(clock));
        }
        tags.append(charged)
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
            self.note_finish(app);
        }
    }

    /// `app` has nothing queued.
    fn note_finish(&mut self, app: AppId) {
        let finish = self.flows[app.index()].tags.finish();
        match self.shares.is_present(app) {
            true => self.shares.on_finish(app, finish),
            false => self.clock.note_finish(self.shares.virtual_time(app, finish)),
        }
    }

    /// The queued request of a lane with the smallest start tag.
    pub(crate) fn first(&self, lane: usize) -> Option<Head> {
        let next = self.shares.first(lane)?;
        Some(self.head(lane, next))
    }

    fn head(&self, lane: usize, &Next { tag, arrival, app, .. }: &Next) -> Head {
        let id = self.lists[self.list(app, lane)].first().expect("in the order of a lane is who has something queued");
        Head { start: tag, arrival, app, id }
    }

    /// The oldest queued request of `app`, which also has its smallest tag.
    pub(crate) fn oldest(&self, app: AppId) -> Option<Head> {
        let firsts = (0..self.shares.lanes()).filter_map(|lane| Some((lane, self.shares.next(lane, app)?)));
        firsts.min_by_key(|(_, first)| first.arrival).map(|(lane, first)| self.head(lane, first))
    }

    /// The queued request that is next of an application, or of a share with a minimum: there, of who is first in it.
    pub(crate) fn next_of(&mut self, member: Member) -> Option<Head> {
        match member {
            Member::App(app) => self.oldest(app),
            Member::Share(share) => self.shares.first_in(share).map(|(lane, first)| self.head(lane, &first)),
        }
    }

    /// The position of its oldest queued request, or of the next that arrives.
    fn next_position(&self, app: AppId) -> u128 {
        let end = || self.flows[app.index()].tags.end();
        self.oldest(app).map_or_else(end, |head| self.requests.get(head.id).position())
    }

    /// The queued requests of `app`, lane by lane. O(n).
    pub(crate) fn ids(&mut self, app: AppId) -> Vec<RequestId> {
        if app.index() >= self.flows.len() {
            return Vec::new();
        }
        let lists = self.list(app, 0)..self.list(app, self.shares.lanes());
        let nodes = self.requests.nodes();
        self.lists[lists].iter().flat_map(|list| list.ids(nodes).collect::<Vec<_>>()).collect()
    }

    /// The finish tag of a queued request, F = S + c/φ.
    pub(crate) fn finish(&self, head: Head) -> VirtualTime {
        let entry = self.requests.get(head.id);
        let finish = self.flows[head.app.index()].tags.tag(entry.position() + u128::from(entry.charged().0));
        self.shares.virtual_time(head.app, finish)
    }

    /// Moves the tags of `app` back if its oldest queued request, or its next one if none is queued, is ahead of
    /// virtual time by more than `most` of its service.
    pub(crate) fn limit_lead(&mut self, app: AppId, most: Bytes) {
        self.grow(app);
        let (position, clock) = (self.next_position(app), self.shares.clock_of(app, self.clock.now()));
        let tags = &mut self.flows[app.index()].tags;
        let most = clock + tags.span(most);
        if tags.tag(position) > most {
            tags.anchor(position, most);
            self.refresh(app);
        }
    }

    /// The same for all in `share`, of which `app` was served: they stay as they stand to each other.
    pub(crate) fn limit_lead_of(&mut self, share: ShareId, app: AppId, most: Bytes) {
        let next = self.flows[app.index()].tags.tag(self.next_position(app));
        self.shares.limit_lead(share, self.clock.now(), (app, next), most);
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
        self.shares.expire(self.clock.now());
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
        let (position, clock) = (self.next_position(app), self.shares.clock_of(app, self.clock.now()));
        let Flow { tags, queued } = &mut self.flows[app.index()];
        tags.anchor(position, tags.moved(tags.tag(position), delta, clock));
        if *queued > 0 { self.refresh(app) } else { self.note_finish(app) }
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

    /// Sets the weight of a flow, and where it stands. Its next request is due when it was, and later ones as its new
    /// weight says.
    pub(crate) fn set_app(&mut self, app: AppId, policy: &AppPolicy) {
        self.grow(app);
        let place = |shares: &Shares| (shares.share_of(app), shares.weight(app));
        let (before, position) = (place(&self.shares), self.next_position(app));
        let due = self.shares.virtual_time(app, self.flows[app.index()].tags.tag(position));
        self.shares.set(self.clock.now(), app, policy);
        if self.queued(app) > 0 {
            self.shares.on_arrival(app, self.clock.now());
        }
        if before == place(&self.shares) {
            return;
        }
        let Flow { tags, queued } = &mut self.flows[app.index()];
        tags.anchor(position, self.shares.clock_of(app, due));
        tags.set_weight(policy.weight);
        if *queued > 0 { self.refresh(app) } else { self.note_finish(app) }
    }

    /// Sets the weight of a share, and where it stands.
    pub(crate) fn set_share(&mut self, share: ShareId, policy: Option<&SharePolicy>) {
        self.shares.set_share(self.clock.now(), share, policy);
    }

    /// Moves the requests of `app` in one lane to another one, in which it has none.
    pub(crate) fn move_flow(&mut self, app: AppId, from: usize, to: usize) {
        self.grow(app);
        let (from_list, to_list) = (self.list(app, from), self.list(app, to));
        self.lists.swap(from_list, to_list);
        self.refresh(app);
    }

    /// Takes all requests out of their lanes, of which there are as many as this from now on: push them again, in order
    /// of arrival. Tags stay.
    pub(crate) fn set_lanes(&mut self, lanes: usize) {
        self.shares.set_lanes(lanes);
        self.len = 0;
        self.lists.clear();
        self.lists.resize(self.flows.len() * lanes, List::EMPTY);
        self.flows.iter_mut().for_each(|flow| flow.queued = 0);
    }

    /// Nothing is queued; if nothing is outstanding either, ends the busy period.
    pub(crate) fn end_if_idle(&mut self, now: Time, outstanding: usize, events: &mut EventQueue) {
        if self.len == 0 && outstanding == 0 {
            while let Some(finish) = self.shares.next_departure() {
                self.clock.note_finish(finish);
                self.shares.expire(finish);
            }
            self.clock.end_busy_period();
            events.push(now, Event::Idle);
        }
    }

    /// The number of deferred corrections of `app`.
    #[cfg(test)]
    pub(crate) fn corrections_of(&self, app: AppId) -> usize {
        self.corrections.count(app)
    }

    fn grow(&mut self, app: AppId) {
        if app.index() >= self.flows.len() {
            self.flows.resize(app.index() + 1, Flow { tags: FlowTags::NEW, queued: 0 });
            self.lists.resize(self.flows.len() * self.shares.lanes(), List::EMPTY);
        }
    }

    fn list(&self, app: AppId, lane: usize) -> usize {
        app.index() * self.shares.lanes() + lane
    }

    /// Call before looking for the next request, see [`Shares::pass_departures`].
    pub(crate) fn pass_departures(&mut self) {
        self.clock.advance(self.shares.pass_departures(self.clock.now()));
    }

    /// Recomputes where a flow stands in its lanes after its tags moved.
    fn refresh(&mut self, app: AppId) {
        (0..self.shares.lanes()).for_each(|lane| self.refresh_lane(app, lane));
    }

    fn refresh_lane(&mut self, app: AppId, lane: usize) {
        let Some(id) = self.lists[self.list(app, lane)].first() else { return self.shares.remove_next(lane, app) };
        let (entry, tags) = (self.requests.get(id), &self.flows[app.index()].tags);
        let (arrival, tag) = (entry.arrival(), tags.tag(entry.position()));
        self.shares.set_next(lane, app, tag, arrival);
    }
}

// Cost corrections that are deferred until older requests of their flow have left the queue.
//
// A start tag depends on the service that its flow requested earlier, so a correction moves only requests that arrived
// *after* the corrected one. If it moved the whole flow, an application could queue and cancel a large request
// repeatedly, and so keep its head at virtual time, ahead of all other applications.
//
// Therefore a correction takes effect when neither its request nor an older one of the flow is queued; then it moves
// the whole remaining queue. As only the head of a flow competes, requests are dispatched in the order of exact tags;
// only the choice of backfilled requests may differ until then.
//
// Corrections between the same two queued requests of a flow take effect together, so they can be merged at once. That
// is done when a flow has more than twice as many corrections as queued requests. So the number of corrections is
// bounded by the number of queued requests, however many requests are enqueued and cancelled behind a waiting one.

/// Deferred corrections by flow. Flows without corrections are not listed.
#[derive(Debug, Default)]
struct Corrections(BTreeMap<AppId, Waiting>);

/// By arrival number of the corrected request, or of a queued one with no queued request in between: the bytes that it
/// costs more (or less) than was charged.
type Waiting = BTreeMap<u64, i128>;

impl Corrections {
    /// The request of `app` with number `arrival` costs `delta` bytes more (or less) than was charged, and `oldest` is
    /// the oldest queued request of `app`. Returns by how much to move the tags of `app` now.
    fn add(&mut self, app: AppId, arrival: u64, delta: i128, oldest: u64) -> i128 {
        if oldest <= arrival {
            *self.0.entry(app).or_default().entry(arrival).or_default() += delta;
            return 0;
        }
        delta + self.take_due(app, oldest)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the corrections of `app` whose requests arrived before `oldest`, its oldest queued one, and returns
    /// their sum.
    fn take_due(&mut self, app: AppId, oldest: u64) -> i128 {
        let Some(waiting) = self.0.get_mut(&app) else { return 0 };
        let mut sum = 0;
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() < oldest) {
            sum += first.remove();
        }
        if waiting.is_empty() {
            self.0.remove(&app);
        }
        sum
    }

    /// Whether `app`, which has `queued` requests queued, has so many corrections that [`Corrections::merge`] at least
    /// halves them. O(log n) in flows with corrections.
    fn are_many(&self, app: AppId, queued: usize) -> bool {
        self.count(app) > 2 * queued
    }

    /// Leaves at most one correction of `app` for each of its queued requests, whose arrival numbers are given in
    /// ascending order. Corrections that are due must have been taken. Does not change when each correction takes
    /// effect.
    fn merge(&mut self, app: AppId, queued: &[u64]) {
        let Some(waiting) = self.0.get_mut(&app) else { return };
        for (arrival, delta) in core::mem::take(waiting) {
            let older = queued.partition_point(|&other| other <= arrival);
            let waits_for = older.checked_sub(1).expect("corrections that are due were taken");
            *waiting.entry(queued[waits_for]).or_default() += delta;
        }
    }

    /// The number of deferred corrections of `app`.
    fn count(&self, app: AppId) -> usize {
        self.0.get(&app).map_or(0, BTreeMap::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const APP: AppId = AppId(3);

    #[test]
    fn corrections_between_the_same_two_requests_become_one() {
        let mut corrections = Corrections::default();
        for (arrival, delta) in [(10, 1), (11, 20), (14, 300), (15, 4000), (19, 50_000)] {
            assert_eq!(corrections.add(APP, arrival, delta, 10), 0);
        }
        corrections.merge(APP, &[10, 15, 18]);
        assert_eq!(corrections.count(APP), 3);
        assert_eq!(corrections.take_due(APP, 15), 321);
        assert_eq!(corrections.take_due(APP, 18), 4000);
        assert_eq!(corrections.take_due(APP, u64::MAX), 50_000);
        assert!(corrections.is_empty());
    }

    proptest! {
        /// Merging at any time does not change which sum is due when, whichever requests are queued and leave.
        #[test]
        fn merging_changes_no_sum(steps in prop::collection::vec((0..4_u8, any::<u8>(), -100..100_i128), 1..200)) {
            let (mut merged, mut kept) = (Corrections::default(), Corrections::default());
            let mut queued = Vec::new();
            for (arrival, (step, pick, delta)) in (0..).zip(steps) {
                let place = usize::from(pick) % queued.len().max(1);
                let corrected = match step {
                    0 => {
                        queued.push(arrival);
                        continue;
                    }
                    // A request that leaves the queue is corrected, or not.
                    1 | 2 if !queued.is_empty() => queued.remove(place),
                    // A request that arrived and left in the meantime.
                    _ => arrival,
                };
                let delta = if step == 1 { 0 } else { delta };
                let oldest = queued.first().copied().unwrap_or(u64::MAX);
                let due = kept.add(APP, corrected, delta, oldest) + kept.take_due(APP, oldest);
                prop_assert_eq!(merged.add(APP, corrected, delta, oldest) + merged.take_due(APP, oldest), due);
                merged.merge(APP, &queued);
                prop_assert!(merged.count(APP) <= queued.len());
            }
        }
    }
}
