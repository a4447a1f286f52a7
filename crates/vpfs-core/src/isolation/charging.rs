//! Charges that change after a request was queued.

use super::{Entry, Isolation};
use crate::dsfq::Change;
use crate::request::Request;
use crate::settings::CostUnit;
use crate::units::{AppId, Bytes, RequestId, Time};

impl Isolation {
    /// Charges a request again when it is dispatched: much may have been learned about costs since it was enqueued,
    /// above all about a class that was unknown then.
    pub(super) fn update_charge(&mut self, now: Time, id: RequestId) {
        let entry = self.requests.get_mut(id);
        if entry.version == self.times.version() {
            return;
        }
        let Entry { request: Request { app, op, cost, objects, .. }, arrival, charged: from, .. } = *entry;
        if !self.times.is_known(op, cost) {
            return;
        }
        let service = Bytes(self.times.request_ns(op, cost, objects));
        let before = entry.service;
        if service.0.abs_diff(before.0) <= before.0 / 4 {
            return;
        }
        entry.service = service;
        self.meters[app.index()].on_correction(now, before.0, service.0);
        if self.cost_unit == CostUnit::Bytes {
            return;
        }
        let to = service;
        self.requests.get_mut(id).charged = to;
        let delta = self.ledger.correct(Change::reporting(id, app, op, [from, to], [Bytes::ZERO; 2]));
        self.correct(app, arrival, delta);
    }

    /// Charges a request for the time for which its client held it up, in proportion to its part of what is
    /// outstanding: others could not use that. Otherwise a flow that stalls again and again would keep the storage from
    /// the others for as long as they have had more service. O(log n).
    pub(super) fn charge_stall(&mut self, now: Time, id: RequestId) {
        let Entry { request: Request { app, op, .. }, arrival, service, charged: from, state, .. } =
            *self.requests.get(id);
        let held_ns = u128::from(now.nanos_since(state.outstanding().dispatched_at));
        let occupied_ns = held_ns * u128::from(service.0) / u128::from(self.in_flight.ns.max(1));
        if occupied_ns <= u128::from(service.0) {
            return;
        }
        let scaled = u128::from(from.0) * occupied_ns / u128::from(service.0.max(1));
        let to = Bytes(u64::try_from(scaled).unwrap_or(u64::MAX));
        let delta = self.ledger.correct(Change::reporting(id, app, op, [from, to], [Bytes::ZERO; 2]));
        self.correct(app, arrival, delta);
    }

    /// A request of `app` costs `delta` of service more (or less) than was charged.
    pub(super) fn correct(&mut self, app: AppId, arrival: u64, delta: i128) {
        self.queue.correct_entry(app, arrival, delta);
        let due = self.corrections.add(app, arrival, delta, self.oldest_arrival(app));
        self.bound_corrections(app);
        self.shift(app, due);
    }

    /// Keeps the number of deferred corrections in proportion to the queued requests. O(1) amortised over the
    /// corrections.
    fn bound_corrections(&mut self, app: AppId) {
        if self.corrections.are_many(app, self.meters[app.index()].queued as usize) {
            let queued = self.queue.arrivals(&mut self.requests, app);
            self.corrections.merge(app, &queued);
        }
    }

    /// The arrival number of the oldest queued request of `app`, or `u64::MAX` if none is queued.
    pub(super) fn oldest_arrival(&self, app: AppId) -> u64 {
        self.queue.oldest(app).map_or(u64::MAX, |head| head.arrival)
    }

    /// A request of `app` left the queue: applies the corrections that are due now.
    pub(super) fn settle(&mut self, app: AppId) {
        if !self.corrections.is_empty() {
            let due = self.corrections.take_due(app, self.oldest_arrival(app));
            self.bound_corrections(app);
            self.shift(app, due);
        }
    }

    pub(super) fn shift(&mut self, app: AppId, delta: i128) {
        let delta = self.ledger.pay(app, delta);
        self.queue.shift(&self.requests, &mut self.clock, app, delta);
    }
}
