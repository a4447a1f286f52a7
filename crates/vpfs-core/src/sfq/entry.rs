//! A request in use.

use crate::fair::Queued;
use crate::list::{Links, Node};
use crate::request::{OpKind, Request};
use crate::units::{AppId, Bytes, SlotCost, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Outstanding,
}

/// One request; as large as a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct SfqEntry {
    position: u128,
    arrival: u64,
    pub(super) cost: Bytes,
    pub(super) enqueued_at: Time,
    links: Links,
    pub(super) app: AppId,
    /// Outstanding: the slots that it occupies.
    pub(super) granted: SlotCost,
    /// Queued: slots that were backfilled while it was the blocked head.
    pub(super) passed_by: u32,
    /// Queued: its lane, which is its slot cost.
    pub(super) lane: u8,
    pub(super) op: OpKind,
    pub(super) state: State,
    /// Queued: it has been the blocked head.
    pub(super) blocked: bool,
}

const _: () = assert!(size_of::<Option<SfqEntry>>() == 64, "one cache line");

impl SfqEntry {
    /// A request that is charged, and about to be queued.
    pub(super) fn new(request: &Request, enqueued_at: Time, arrival: u64, position: u128, lane: u8) -> Self {
        let Request { app, op, cost, .. } = *request;
        Self {
            position,
            arrival,
            cost,
            enqueued_at,
            links: Links::UNLINKED,
            app,
            granted: SlotCost::ONE,
            passed_by: 0,
            lane,
            op,
            state: State::Queued,
            blocked: false,
        }
    }
}

impl Node for SfqEntry {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Queued for SfqEntry {
    fn app(&self) -> AppId {
        self.app
    }

    fn arrival(&self) -> u64 {
        self.arrival
    }

    fn position(&self) -> u128 {
        self.position
    }

    fn charged(&self) -> Bytes {
        self.cost
    }
}
