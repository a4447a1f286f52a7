//! Charges that change after a request was queued.

use super::class::Class;
use super::{Entry, Isolation};
use crate::dsfq::Change;
use crate::request::Request;
use crate::settings::CostUnit;
use crate::units::{Bytes, RequestId, Time};

impl Isolation {
    /// Charges a request again when it is dispatched: much may have been learned about costs since it was enqueued,
    /// above all about a class that was unknown then.
    pub(super) fn update_charge(&mut self, now: Time, id: RequestId) {
        let entry = self.queue.requests.get_mut(id);
        if entry.version == self.times.version() {
            return;
        }
        let Entry { request, arrival, charged: from, .. } = *entry;
        let Request { app, op, cost, objects, .. } = request;
        if !self.times.is_known(Class::of_request(&request)) {
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
        self.queue.requests.get_mut(id).charged = to;
        let delta = self.queue.ledger.correct(Change::reporting(id, app, op, [from, to], [Bytes::ZERO; 2]));
        self.queue.correct(app, arrival, delta);
    }

    /// Charges a request for the time for which its client held it up, in proportion to its part of what is
    /// outstanding: others could not use that. Otherwise a flow that stalls again and again would keep the storage from
    /// the others for as long as they have had more service. O(log n).
    pub(super) fn charge_stall(&mut self, now: Time, id: RequestId) {
        let Entry { request: Request { app, op, .. }, arrival, service, charged: from, state, .. } =
            *self.queue.requests.get(id);
        let held_ns = u128::from(now.nanos_since(state.outstanding().dispatched_at));
        let occupied_ns = held_ns * u128::from(service.0) / u128::from(self.in_flight.ns.max(1));
        if occupied_ns <= u128::from(service.0) {
            return;
        }
        let scaled = u128::from(from.0) * occupied_ns / u128::from(service.0.max(1));
        let to = Bytes(u64::try_from(scaled).unwrap_or(u64::MAX));
        let delta = self.queue.ledger.correct(Change::reporting(id, app, op, [from, to], [Bytes::ZERO; 2]));
        self.queue.correct(app, arrival, delta);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::request::OpKind;
    use crate::scheduler::Scheduler;
    use crate::settings::DeviceTime;
    use crate::units::{AppId, Objects};

    #[test]
    fn what_waited_is_charged_by_what_was_learned_meanwhile() {
        let (id, size, objects) = (RequestId(0), Bytes::mib(1), Objects::new(1000));
        for (op, extent) in [(OpKind::Write, size), (OpKind::Metadata, Bytes(1000))] {
            let mut scheduler = Isolation::new(64);
            scheduler.enqueue(Time::ZERO, Request { objects, ..Request::new(id, AppId(0), op, size) });
            let time = Duration::from_millis(20) / if op == OpKind::Metadata { 1000 } else { 1 };
            scheduler.set_device_times(&[DeviceTime { op, size: extent, time }]);
            scheduler.poll_dispatch(Time::ZERO);
            let charged_us = scheduler.queue.requests.get(id).charged.0 / 1000;
            assert!((19_999..=20_000).contains(&charged_us), "{op:?}: {charged_us} us");
        }
    }
}
