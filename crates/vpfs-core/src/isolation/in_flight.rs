//! The requests that the storage has.

use super::class::extent;
use super::meter::Kind;
use super::{Entry, Isolation, Outstanding, Protection, State};
use crate::request::{Pieces, Request};
use crate::units::{AppId, Bytes, RequestId, Time};

/// The outstanding requests: device times and counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight {
    pub(super) ns: u64,
    pub(super) bulk_ns: u64,
    pub(super) bulk: usize,
    /// The number of flows with outstanding bulk requests.
    pub(super) bulk_flows: usize,
    /// Bulk writes that are sent in pieces.
    pub(super) in_pieces: usize,
    pub(super) requests: usize,
}

impl Isolation {
    /// Counts a request that left the queue as outstanding; returns when it was enqueued.
    pub(super) fn occupy(&mut self, now: Time, id: RequestId, pieces: Option<Pieces>) -> Time {
        let alone = self.in_flight.requests == 0;
        let Entry { request, enqueued_at, service: Bytes(cost_ns), .. } = *self.queue.requests.get(id);
        let Request { app, op, cost, objects, .. } = request;
        let protection = self.protection(now, app);
        let at_floor = protection == Protection::Active && self.pace.is_at_floor();
        self.in_flight.ns += cost_ns;
        self.in_flight.requests += 1;
        let kind = self.kind(app);
        let due_ns = self.in_flight.ns.max(pieces.map_or(0, Pieces::whole_ns));
        self.queue.requests.get_mut(id).state =
            State::Outstanding(Outstanding { kind, alone, at_floor, dispatched_at: now, due_ns, pieces });
        if kind == Kind::Bulk {
            self.in_flight.bulk_ns += cost_ns;
            self.in_flight.bulk += 1;
            self.in_flight.in_pieces += usize::from(pieces.is_some());
            let of_flow = &mut self.meters[app.index()].bulk_outstanding;
            *of_flow += 1;
            self.in_flight.bulk_flows += usize::from(*of_flow == 1);
            self.pace.on_issue(now, cost_ns, self.is_limited(protection, &request));
            if self.pace.is_usual(cost_ns) {
                self.last_bulk = Some((op, extent(op, cost, objects)));
            }
        }
        self.meters[app.index()].on_dispatch(now);
        enqueued_at
    }

    /// Frees what an outstanding request occupied.
    pub(super) fn free(&mut self, now: Time, app: AppId, was: &Outstanding, cost_ns: u64) {
        self.in_flight.ns -= cost_ns;
        self.in_flight.requests -= 1;
        if was.kind == Kind::Bulk {
            self.in_flight.bulk_ns -= cost_ns;
            self.in_flight.bulk -= 1;
            self.in_flight.in_pieces -= usize::from(was.pieces.is_some());
            let of_flow = &mut self.meters[app.index()].bulk_outstanding;
            *of_flow -= 1;
            self.in_flight.bulk_flows -= usize::from(*of_flow == 0);
        }
        self.meters[app.index()].outstanding -= 1;
        self.forget_pending(now, app, cost_ns);
    }
}
