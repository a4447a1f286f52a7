//! Pass-through: every request is dispatched at once, in arrival order, however many are outstanding.
//!
//! The baseline that the other policies are measured against: what clients would see without vpfs.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use crate::app_policy::AppPolicy;
use crate::engine::{Engine, Handover};
use crate::event::{Event, EventQueue};
use crate::request::{Dispatch, Request, Rule};
use crate::scheduler::Scheduler;
use crate::settings::{PolicyKind, Settings};
use crate::table::Table;
use crate::units::{AppId, Bytes, RequestId, SlotCost, Time};

/// A scheduler without a limit and without shares. Weights are accepted and ignored.
///
/// O(1), except that cancelling a *queued* request walks the queue, which is empty after every drain.
#[derive(Debug)]
pub struct Fifo {
    requests: Table<FifoEntry>,
    queue: VecDeque<RequestId>,
    outstanding: usize,
    events: EventQueue,
}

#[derive(Clone, Copy, Debug)]
struct FifoEntry {
    request: Request,
    enqueued_at: Time,
    outstanding: bool,
}

impl Fifo {
    /// A scheduler that keeps at most `event_capacity` events between polls.
    pub fn new(event_capacity: usize) -> Self {
        let events = EventQueue::with_capacity(event_capacity);
        Self { requests: Table::new(), queue: VecDeque::new(), outstanding: 0, events }
    }

    /// Forgets `id`; returns its application and cost.
    fn remove(&mut self, id: RequestId) -> (AppId, Bytes) {
        let FifoEntry { request, outstanding, .. } = self.requests.remove(id);
        if outstanding {
            self.outstanding -= 1;
        } else {
            self.queue.retain(|&queued| queued != id);
        }
        (request.app, request.cost)
    }

    fn end_if_idle(&mut self, now: Time) {
        if self.queue.is_empty() && self.outstanding == 0 {
            self.events.push(now, Event::Idle);
        }
    }
}

impl Engine for Fifo {
    fn reconfigure(&mut self, _now: Time, _before: &Settings, settings: &Settings) -> bool {
        settings.kind == PolicyKind::Fifo
    }

    fn hand_over(self: Box<Self>) -> Handover {
        let Self { requests, queue, events, .. } = *self;
        let with_time = |entry: &FifoEntry| (entry.enqueued_at, entry.request);
        let outstanding = requests.iter().filter(|entry| entry.outstanding).map(with_time).collect();
        let queued = queue.iter().map(|&id| with_time(requests.get(id))).collect();
        Handover { outstanding, queued, events }
    }

    fn request(&self, id: RequestId) -> (Time, Request) {
        let FifoEntry { request, enqueued_at, .. } = *self.requests.get(id);
        (enqueued_at, request)
    }

    fn take_over(&mut self, _now: Time, handover: Handover) {
        let Handover { outstanding, queued, events } = handover;
        self.events = events;
        self.outstanding = outstanding.len();
        self.queue.extend(queued.iter().map(|(_, request)| request.id));
        for (enqueued_at, request) in outstanding {
            self.requests.insert(request.id, FifoEntry { request, enqueued_at, outstanding: true });
        }
        for (enqueued_at, request) in queued {
            self.requests.insert(request.id, FifoEntry { request, enqueued_at, outstanding: false });
        }
    }
}

impl Scheduler for Fifo {
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        let Request { id, app, cost, .. } = *request;
        self.requests.insert(id, FifoEntry { request: *request, enqueued_at: arrived, outstanding: false });
        self.queue.push_back(id);
        self.events.push(now, Event::Enqueued { id, app, cost });
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        let id = self.queue.pop_front()?;
        self.outstanding += 1;
        let entry = self.requests.get_mut(id);
        entry.outstanding = true;
        let FifoEntry { request: Request { app, .. }, enqueued_at, .. } = *entry;
        let (slot_cost, backfilled) = (SlotCost::ONE, false);
        self.events.push(now, Event::Dispatched { id, app, slot_cost, enqueued_at, backfilled });
        Some(Dispatch { id, app, enqueued_at, slot_cost, backfilled, pieces: None, rule: Rule::Share })
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        assert!(self.requests.get(id).outstanding, "only a dispatched request can be complete");
        let (app, cost) = self.remove(id);
        self.events.push(now, Event::Completed { id, app, cost });
        self.end_if_idle(now);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        let (app, cost) = self.remove(id);
        self.events.push(now, Event::Cancelled { id, app, cost });
        self.end_if_idle(now);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        let request = &mut self.requests.get_mut(id).request;
        let app = request.app;
        let estimated = request.correct(real);
        self.events.push(now, Event::CostCorrected { id, app, estimated, real });
    }

    fn set_app(&mut self, now: Time, app: AppId, &AppPolicy { weight, .. }: &AppPolicy) {
        self.events.push(now, Event::WeightChanged { app, weight });
    }

    fn queued(&self) -> usize {
        self.queue.len()
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.events.poll()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::request::OpKind;

    #[test]
    fn everything_goes_at_once_in_order_of_arrival() {
        let mut fifo = Fifo::new(0);
        for id in [3, 0, 2, 1] {
            let (app, op, cost) = (AppId(id % 2), OpKind::Write, Bytes::mib(1));
            fifo.enqueue(Time::ZERO, Request::new(RequestId(id), app, op, cost));
        }
        fifo.cancel(Time::ZERO, RequestId(2));
        let order: Vec<_> =
            core::iter::from_fn(|| fifo.poll_dispatch(Time::ZERO)).map(|dispatch| dispatch.id.0).collect();
        assert_eq!(order, [3, 0, 1]);
        assert_eq!((fifo.queued(), fifo.outstanding()), (0, 3));
    }
}
