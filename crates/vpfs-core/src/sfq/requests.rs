//! The requests in use, in a table indexed by their dense ids.

use alloc::vec::Vec;

use crate::list::{Links, Node};
use crate::request::{OpKind, Request};
use crate::units::{AppId, Bytes, RequestId, SlotCost, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Unused,
    Queued,
    Outstanding,
}

/// One request; as large as a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct SfqEntry {
    /// The sum of the costs of its flow's earlier requests, in bytes; see [`crate::tags::FlowTags`].
    pub(super) position: u128,
    /// Counts up over all flows; breaks ties and orders requests by age.
    pub(super) arrival: u64,
    pub(super) cost: Bytes,
    pub(super) enqueued_at: Time,
    links: Links,
    pub(super) app: AppId,
    /// Outstanding: the slots that it occupies.
    pub(super) granted: SlotCost,
    /// Queued: slots that were backfilled while it was the blocked head.
    pub(super) passed_by: u32,
    pub(super) class: u8,
    pub(super) op: OpKind,
    pub(super) state: State,
    /// Queued: it has been the blocked head.
    pub(super) blocked: bool,
}

const _: () = assert!(size_of::<SfqEntry>() == 64, "one cache line");

impl SfqEntry {
    const UNUSED: Self = Self {
        position: 0,
        arrival: 0,
        cost: Bytes::ZERO,
        enqueued_at: Time::ZERO,
        links: Links::UNLINKED,
        app: AppId(0),
        granted: SlotCost::ONE,
        passed_by: 0,
        class: 0,
        op: OpKind::Metadata,
        state: State::Unused,
        blocked: false,
    };

    /// A request that is about to be charged and queued.
    pub(super) fn new(request: &Request, enqueued_at: Time, arrival: u64) -> Self {
        let Request { app, op, cost, .. } = *request;
        Self { arrival, cost, enqueued_at, app, op, state: State::Queued, ..Self::UNUSED }
    }
}

impl Node for SfqEntry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests(Vec<SfqEntry>);

impl Requests {
    /// Panics if `id` is in use.
    pub(super) fn insert(&mut self, id: RequestId, entry: SfqEntry) {
        if id.index() >= self.0.len() {
            self.0.resize(id.index() + 1, SfqEntry::UNUSED);
        }
        let place = &mut self.0[id.index()];
        assert!(place.state == State::Unused, "request id {id} is in use");
        *place = entry;
    }

    /// Panics if `id` is not in use.
    pub(super) fn get(&self, id: RequestId) -> &SfqEntry {
        let entry = self.0.get(id.index()).filter(|entry| entry.state != State::Unused);
        entry.unwrap_or_else(|| panic!("request id {id} is not in use"))
    }

    /// Panics if `id` is not in use.
    pub(super) fn get_mut(&mut self, id: RequestId) -> &mut SfqEntry {
        let entry = self.0.get_mut(id.index()).filter(|entry| entry.state != State::Unused);
        entry.unwrap_or_else(|| panic!("request id {id} is not in use"))
    }

    /// Frees `id`, which must be in use; returns its entry.
    pub(super) fn remove(&mut self, id: RequestId) -> SfqEntry {
        core::mem::replace(self.get_mut(id), SfqEntry::UNUSED)
    }

    /// The table, for the lists threaded through it.
    pub(super) fn table(&mut self) -> &mut [SfqEntry] {
        &mut self.0
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// All requests in `state`, by arrival. O(n log n).
    pub(super) fn in_state(&self, state: State) -> Vec<RequestId> {
        let ids = (0_u32..).zip(&self.0).filter(|(_, entry)| entry.state == state);
        let mut ids: Vec<_> = ids.map(|(id, entry)| (entry.arrival, RequestId(id))).collect();
        ids.sort_unstable();
        ids.into_iter().map(|(_, id)| id).collect()
    }
}
