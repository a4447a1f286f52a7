//! The queued requests: a list for each flow, and two heaps over the flows by the start tags of their heads, one for
//! interactive flows and one for bulk.

use alloc::vec::Vec;

use super::Entry;
use crate::app_policy::{AppPolicy, GroupId};
use crate::dsfq::Standing;
use crate::heap::Heap;
use crate::list::List;
use crate::request::Request;
use crate::shares::Shares;
use crate::table::Table;
use crate::tags::{Clock, FlowTags, Head};
use crate::units::{AppId, Bytes, RequestId, VirtualTime};

/// The classification of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// It asks for less than its share.
    #[default]
    Interactive,
    /// It takes all it can get.
    Bulk,
}

#[derive(Clone, Debug)]
struct Flow {
    tags: FlowTags,
    list: List,
    /// The cost of all that is queued.
    cost: Bytes,
    head: Option<Head>,
    kind: Kind,
}

#[derive(Debug)]
pub(super) struct Queue {
    /// By application.
    flows: Vec<Flow>,
    shares: Shares,
    interactive: Heap<Head>,
    bulk: Heap<Head>,
    len: usize,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { flows: Vec::new(), shares: Shares::new(), interactive: Heap::new(), bulk: Heap::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The queued request with the smallest start tag of all flows of a kind.
    pub(super) fn first(&self, kind: Kind) -> Option<Head> {
        match kind {
            Kind::Interactive => self.interactive.first(),
            Kind::Bulk => self.bulk.first(),
        }
        .copied()
    }

    /// Where `app` stands, in accounts of service elsewhere.
    pub(super) fn standing(&mut self, app: AppId, clock: &Clock) -> Standing {
        let flow = self.flow_mut(app);
        let lag = flow.head.is_none().then(|| flow.tags.lag(clock.now()));
        Standing { lag, member: self.shares.membership(app, clock.now()) }
    }

    /// The number of members of `group` that are present.
    pub(super) fn present(&mut self, group: GroupId, clock: &Clock) -> u32 {
        self.shares.present(group, clock.now())
    }

    /// The shares of all flows.
    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Whether the next request of `app` comes after virtual time by more than `most` of its service.
    pub(super) fn is_ahead(&self, app: AppId, clock: &Clock, most: Bytes) -> bool {
        let Some(flow) = self.flows.get(app.index()) else { return false };
        let next = flow.head.map_or(flow.tags.finish(), |head| head.start);
        next > clock.now() + flow.tags.span(most)
    }

    /// The oldest queued request of `app`.
    pub(super) fn oldest(&self, app: AppId) -> Option<Head> {
        self.flows.get(app.index())?.head
    }

    /// The cost of the queued requests of `app`.
    pub(super) fn cost(&self, app: AppId) -> Bytes {
        self.flows.get(app.index()).map_or(Bytes::ZERO, |flow| flow.cost)
    }

    /// A queued request costs `real` instead of `estimated`.
    pub(super) fn correct_cost(&mut self, app: AppId, [estimated, real]: [Bytes; 2]) {
        let cost = &mut self.flow_mut(app).cost;
        *cost = cost.saturating_sub(estimated) + real;
    }

    /// The arrival numbers of the queued requests of `app`, ascending. O(n).
    pub(super) fn arrivals(&self, requests: &mut Table<Entry>, app: AppId) -> Vec<u64> {
        let Some(flow) = self.flows.get(app.index()) else { return Vec::new() };
        let ids: Vec<_> = flow.list.ids(requests.nodes()).collect();
        ids.into_iter().map(|id| requests.get(id).arrival).collect()
    }

    /// Charges a request to its flow, S = max(v, F of the flow's previous request + delay/φ). Returns its position.
    pub(super) fn charge(
        &mut self,
        requests: &Table<Entry>,
        (app, arrival): (AppId, u64),
        [service, delay]: [Bytes; 2],
        clock: &Clock,
    ) -> u128 {
        let earliest = self.shares.admit(app, clock.now(), arrival, service);
        self.refresh_share(requests, app);
        let flow = self.flow_mut(app);
        flow.tags.delay(delay);
        if flow.head.is_none() {
            let start = flow.tags.finish().max(earliest);
            flow.tags.anchor(flow.tags.end(), start);
        }
        flow.tags.append(service)
    }

    /// Adds a charged request to its flow.
    pub(super) fn push(&mut self, requests: &mut Table<Entry>, id: RequestId) {
        let Request { app, cost, .. } = requests.get(id).request;
        self.len += 1;
        let flow = self.flow_mut(app);
        flow.cost += cost;
        flow.list.push_back(requests.nodes(), id);
        if flow.head.is_none() {
            self.refresh(requests, app);
        }
    }

    /// Removes a queued request from its flow.
    pub(super) fn remove(&mut self, requests: &mut Table<Entry>, clock: &mut Clock, id: RequestId) {
        let Request { app, cost, .. } = requests.get(id).request;
        self.len -= 1;
        self.shares.expire(clock.now());
        self.refresh_share(requests, app);
        let flow = &mut self.flows[app.index()];
        flow.list.remove(requests.nodes(), id);
        flow.cost = flow.cost.saturating_sub(cost);
        if flow.list.first().is_none() {
            clock.note_finish(flow.tags.finish());
            self.shares.on_finish(app, flow.tags.finish());
        }
        let flow = &mut self.flows[app.index()];
        if flow.head.is_some_and(|head| head.id == id) {
            self.refresh(requests, app);
        }
    }

    /// The finish tag of a queued request: S + c/φ.
    pub(super) fn finish(&self, requests: &Table<Entry>, head: Head) -> VirtualTime {
        let entry = requests.get(head.id);
        self.flows[head.app.index()].tags.tag(entry.position + u128::from(entry.charged.0))
    }

    /// A request costs `delta` more (or less) than was charged; for the start of other members of its group.
    pub(super) fn correct_entry(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.shares.correct(app, arrival, delta);
    }

    /// Moves the tags of all queued requests of `app`, and of those that it sends next, by `delta` of service.
    pub(super) fn shift(&mut self, requests: &Table<Entry>, clock: &mut Clock, app: AppId, delta: i128) {
        if delta == 0 {
            return;
        }
        self.flow_mut(app);
        let flow = &mut self.flows[app.index()];
        let tags = &mut flow.tags;
        match flow.head {
            Some(Head { start, id, .. }) => {
                tags.anchor(requests.get(id).position, tags.moved(start, delta, clock.now()));
                self.refresh(requests, app);
            }
            None => {
                tags.anchor(tags.end(), tags.moved(tags.finish(), delta, clock.now()));
                clock.note_finish(tags.finish());
                self.shares.on_finish(app, tags.finish());
            }
        }
    }

    /// Moves the tags of `app` back if its oldest queued request, or its next one if none is queued, is ahead of
    /// virtual time by more than `most` of its service.
    pub(super) fn limit_lead(&mut self, requests: &Table<Entry>, clock: &Clock, app: AppId, most: Bytes) {
        let tags = &mut self.flow_mut(app).tags;
        let most = clock.now() + tags.span(most);
        match self.oldest(app) {
            Some(head) if head.start > most => {
                self.flow_mut(app).tags.anchor(requests.get(head.id).position, most);
                self.refresh(requests, app);
            }
            Some(_) => {}
            None => {
                let tags = &mut self.flow_mut(app).tags;
                tags.anchor(tags.end(), tags.finish().min(most));
            }
        }
    }

    /// Sets the weight and the group of a flow.
    pub(super) fn set_app(&mut self, requests: &Table<Entry>, clock: &Clock, app: AppId, policy: &AppPolicy) {
        self.shares.set(app, policy);
        if self.oldest(app).is_some() {
            self.shares.on_arrival(app, clock.now());
        }
        self.refresh_share(requests, app);
    }

    /// Recomputes the tags of the flow's queue from its head if its share has changed.
    fn refresh_share(&mut self, requests: &Table<Entry>, app: AppId) {
        let share = self.shares.of(app);
        let flow = self.flow_mut(app);
        if flow.tags.share() == share {
            return;
        }
        match flow.head {
            Some(Head { start, id, .. }) => flow.tags.anchor(requests.get(id).position, start),
            None => flow.tags.anchor(flow.tags.end(), flow.tags.finish()),
        }
        flow.tags.set_share(share);
        self.refresh(requests, app);
    }

    pub(super) fn kind(&self, app: AppId) -> Kind {
        self.flows.get(app.index()).map_or(Kind::default(), |flow| flow.kind)
    }

    /// Changes the classification of `app`.
    pub(super) fn set_kind(&mut self, app: AppId, kind: Kind) {
        let flow = self.flow_mut(app);
        if core::mem::replace(&mut flow.kind, kind) != kind
            && let Some(head) = flow.head
        {
            self.put(app, Some(head));
        }
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> Vec<usize> {
        let heaps = [self.interactive.capacities(), self.bulk.capacities()];
        heaps.into_iter().flatten().chain([self.flows.capacity()]).chain(self.shares.capacities()).collect()
    }

    fn flow_mut(&mut self, app: AppId) -> &mut Flow {
        if app.index() >= self.flows.len() {
            let new =
                Flow { tags: FlowTags::NEW, list: List::EMPTY, cost: Bytes::ZERO, head: None, kind: Kind::default() };
            self.flows.resize(app.index() + 1, new);
        }
        &mut self.flows[app.index()]
    }

    /// Recomputes the head of a flow.
    fn refresh(&mut self, requests: &Table<Entry>, app: AppId) {
        let flow = &mut self.flows[app.index()];
        flow.head = flow.list.first().map(|id| {
            let entry = requests.get(id);
            Head { start: flow.tags.tag(entry.position), arrival: entry.arrival, app, id }
        });
        let head = flow.head;
        self.put(app, head);
    }

    /// Puts a flow into the heap of its kind.
    fn put(&mut self, app: AppId, head: Option<Head>) {
        let (own, other) = match self.flows[app.index()].kind {
            Kind::Interactive => (&mut self.interactive, &mut self.bulk),
            Kind::Bulk => (&mut self.bulk, &mut self.interactive),
        };
        other.remove(app.index());
        match head {
            Some(head) => own.set(head),
            None => own.remove(app.index()),
        }
    }
}
