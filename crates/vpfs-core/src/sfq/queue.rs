//! The queued requests, found by start tag without a scan.
//!
//! Each flow has one FIFO list for each slot cost (a *lane*). Each slot cost has a heap of the flows with such
//! requests, keyed by their first one. Inside a flow tags ascend, so the smallest tag of a slot cost is at the top of
//! its heap, and the smallest of all is the minimum of a few tops.

use alloc::vec::Vec;

use super::requests::{Requests, SfqEntry, State};
use crate::app_policy::{AppPolicy, GroupId};
use crate::dsfq::Standing;
use crate::heap::Heap;
use crate::list::List;
use crate::shares::Shares;
use crate::slot_cost::SlotCostTable;
use crate::tags::{Clock, FlowTags, Head};
use crate::units::{AppId, Bytes, RequestId, SlotCost, VirtualTime};

/// The flows that have requests of one slot cost.
#[derive(Debug)]
struct Class {
    slot_cost: SlotCost,
    flows: Heap<Head>,
}

#[derive(Clone, Debug)]
struct Flow {
    tags: FlowTags,
    queued: u32,
}

#[derive(Debug)]
pub(super) struct Queue {
    table: SlotCostTable,
    /// By ascending slot cost.
    classes: Vec<Class>,
    /// By application.
    flows: Vec<Flow>,
    shares: Shares,
    /// By application and class.
    lanes: Vec<List>,
    len: usize,
}

impl Queue {
    pub(super) fn new(table: SlotCostTable) -> Self {
        Self { classes: classes_of(&table), table, flows: Vec::new(), shares: Shares::new(), lanes: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn table(&self) -> &SlotCostTable {
        &self.table
    }

    /// Where `app` stands, in accounts of service elsewhere.
    pub(super) fn standing(&mut self, app: AppId, clock: &Clock) -> Standing {
        self.grow(app);
        let flow = &self.flows[app.index()];
        let lag = (flow.queued == 0).then(|| flow.tags.lag(clock.now()));
        Standing { lag, member: self.shares.membership(app, clock.now()) }
    }

    /// The number of members of `group` that are present.
    pub(super) fn present(&mut self, group: GroupId, clock: &Clock) -> u32 {
        self.shares.present(group, clock.now())
    }

    /// Charges `entry` to its flow: S = max(v, F of the previous one + delay/φ).
    pub(super) fn charge(&mut self, requests: &Requests, entry: &mut SfqEntry, delay: Bytes, clock: &Clock) {
        self.grow(entry.app);
        let earliest = self.shares.admit(entry.app, clock.now(), entry.arrival, entry.cost);
        self.refresh_share(requests, entry.app);
        let flow = &mut self.flows[entry.app.index()];
        flow.tags.delay(delay);
        if flow.queued == 0 {
            let start = flow.tags.finish().max(earliest);
            flow.tags.anchor(flow.tags.end(), start);
        }
        entry.position = flow.tags.append(entry.cost);
    }

    /// Adds a charged request to its lane.
    pub(super) fn push(&mut self, requests: &mut Requests, id: RequestId) {
        let entry = requests.get(id);
        let class = self.class_of(entry);
        let app = entry.app;
        requests.get_mut(id).class = class;
        let class = usize::from(class);
        let lane = self.lane(app, class);
        self.lanes[lane].push_back(requests.table(), id);
        if self.lanes[lane].first() == Some(id) {
            self.refresh_class(requests, app, class);
        }
        self.flows[app.index()].queued += 1;
        self.len += 1;
    }

    /// Takes a queued request out of its lane.
    pub(super) fn remove(&mut self, requests: &mut Requests, clock: &mut Clock, id: RequestId) {
        let SfqEntry { app, class, .. } = *requests.get(id);
        self.shares.expire(clock.now());
        self.refresh_share(requests, app);
        let class = usize::from(class);
        let lane = self.lane(app, class);
        let was_first = self.lanes[lane].first() == Some(id);
        self.lanes[lane].remove(requests.table(), id);
        if was_first {
            self.refresh_class(requests, app, class);
        }
        self.len -= 1;
        let flow = &mut self.flows[app.index()];
        flow.queued -= 1;
        if flow.queued == 0 {
            clock.note_finish(flow.tags.finish());
            self.shares.on_finish(app, flow.tags.finish());
        }
    }

    /// The request with the smallest start tag, and its unclamped slot cost, among those whose slot cost `fits`.
    pub(super) fn first(&self, fits: impl Fn(SlotCost) -> bool) -> Option<(Head, SlotCost)> {
        let fitting = self.classes.iter().filter(|class| fits(class.slot_cost));
        fitting.filter_map(|class| Some((*class.flows.first()?, class.slot_cost))).min_by_key(|(first, _)| *first)
    }

    /// The finish tag of a queued request, F = S + c/φ.
    pub(super) fn finish(&self, requests: &Requests, first: Head) -> VirtualTime {
        first.start + self.flows[first.app.index()].tags.span(requests.get(first.id).cost)
    }

    /// A request costs `delta` more (or less) than was charged; for the start of other members of its group.
    pub(super) fn correct_entry(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.shares.correct(app, arrival, delta);
    }

    /// Moves the tags of all queued and future requests of `app` by `delta` bytes of service.
    pub(super) fn shift(&mut self, requests: &Requests, clock: &mut Clock, app: AppId, delta: i128) {
        if delta == 0 {
            return;
        }
        self.grow(app);
        let oldest = self.oldest(app);
        let tags = &mut self.flows[app.index()].tags;
        match oldest {
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

    /// Sets the weight and the group of a flow.
    pub(super) fn set_app(&mut self, requests: &Requests, clock: &Clock, app: AppId, policy: &AppPolicy) {
        self.grow(app);
        self.shares.set(app, policy);
        if self.queued(app) > 0 {
            self.shares.on_arrival(app, clock.now());
        }
        self.refresh_share(requests, app);
    }

    /// Recomputes the tags of the flow's queue from its head if its share has changed.
    fn refresh_share(&mut self, requests: &Requests, app: AppId) {
        let share = self.shares.of(app);
        if self.flows[app.index()].tags.share() == share {
            return;
        }
        let oldest = self.oldest(app);
        let tags = &mut self.flows[app.index()].tags;
        match oldest {
            Some(Head { start, id, .. }) => tags.anchor(requests.get(id).position, start),
            None => tags.anchor(tags.end(), tags.finish()),
        }
        tags.set_share(share);
        self.refresh(requests, app);
    }

    /// Sorts all queued requests into the lanes of `table`; tags stay. O(n log n) in queued requests.
    pub(super) fn set_table(&mut self, requests: &mut Requests, table: SlotCostTable) {
        self.classes = classes_of(&table);
        self.table = table;
        self.len = 0;
        self.lanes.clear();
        self.lanes.resize(self.flows.len() * self.classes.len(), List::EMPTY);
        for flow in &mut self.flows {
            flow.queued = 0;
        }
        for id in requests.in_state(State::Queued) {
            self.push(requests, id);
        }
    }

    #[cfg(test)]
    pub(super) fn capacities(&self) -> Vec<usize> {
        let own = [self.classes.capacity(), self.flows.capacity(), self.lanes.capacity()];
        own.into_iter()
            .chain(self.shares.capacities())
            .chain(self.classes.iter().flat_map(|class| class.flows.capacities()))
            .collect()
    }

    fn grow(&mut self, app: AppId) {
        if app.index() >= self.flows.len() {
            self.flows.resize(app.index() + 1, Flow { tags: FlowTags::NEW, queued: 0 });
            self.lanes.resize(self.flows.len() * self.classes.len(), List::EMPTY);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a table has at most 2 * MAX_ROWS + 1 slot costs")]
    fn class_of(&self, entry: &SfqEntry) -> u8 {
        let cost = self.table.slot_cost(entry.op, entry.cost);
        self.classes.iter().take_while(|class| class.slot_cost < cost).count() as u8
    }

    fn lane(&self, app: AppId, class: usize) -> usize {
        app.index() * self.classes.len() + class
    }

    /// The oldest queued request of `app`, which also has its smallest tag.
    pub(super) fn oldest(&self, app: AppId) -> Option<Head> {
        let firsts = self.classes.iter().filter_map(|class| class.flows.get(app.index()));
        firsts.min_by_key(|first| first.arrival).copied()
    }

    /// The number of queued requests of `app`.
    pub(super) fn queued(&self, app: AppId) -> usize {
        self.flows.get(app.index()).map_or(0, |flow| flow.queued as usize)
    }

    /// The arrival numbers of the queued requests of `app`, ascending. O(n log n).
    pub(super) fn arrivals(&self, requests: &mut Requests, app: AppId) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.queued(app));
        for class in 0..self.classes.len() {
            let table = requests.table();
            let ids: Vec<_> = self.lanes[self.lane(app, class)].ids(table).collect();
            all.extend(ids.into_iter().map(|id| table[id.index()].arrival));
        }
        all.sort_unstable();
        all
    }

    /// Recomputes the heap keys of a flow after its tags moved. O(classes · log flows).
    fn refresh(&mut self, requests: &Requests, app: AppId) {
        for class in 0..self.classes.len() {
            self.refresh_class(requests, app, class);
        }
    }

    fn refresh_class(&mut self, requests: &Requests, app: AppId, class: usize) {
        let lane = self.lane(app, class);
        let flows = &mut self.classes[class].flows;
        match self.lanes[lane].first() {
            Some(id) => {
                let entry = requests.get(id);
                let start = self.flows[app.index()].tags.tag(entry.position);
                flows.set(Head { start, arrival: entry.arrival, app, id });
            }
            None => flows.remove(app.index()),
        }
    }
}

fn classes_of(table: &SlotCostTable) -> Vec<Class> {
    table.distinct().into_iter().map(|slot_cost| Class { slot_cost, flows: Heap::new() }).collect()
}
