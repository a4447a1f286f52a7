//! Replacing this policy by another one, or its settings, while requests are in use.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Add;
use core::time::Duration;

use super::{Entry, Isolation};
use crate::dsfq::SharedService;
use crate::engine::{Engine, Handover};
use crate::learned::Learned;
use crate::limits::Limits;
use crate::member::Member;
use crate::minima::Minima;
use crate::request::Request;
use crate::settings::{PolicyKind, Settings};
use crate::total::TotalKind;
use crate::totals::Totals;
use crate::units::{AppId, Bytes, RequestId, Time};

impl Isolation {
    /// Creates the policy with these settings.
    pub(crate) fn of(settings: &Settings, event_capacity: usize) -> Self {
        let kind = if settings.kind == PolicyKind::TwoLevel { TotalKind::Target } else { TotalKind::Minimum };
        let minima = Minima::new(kind);
        let mut isolation = Self { cost_unit: settings.cost_unit, minima, ..Self::new(event_capacity) };
        isolation.set_sharing(settings.sharing);
        isolation.set_device_times(&settings.device_times);
        isolation
    }
}

impl Engine for Isolation {
    fn limits(&self) -> Limits {
        let window = Duration::from_nanos(self.bound.window_ns());
        Limits { window: Some(window), pace_ppm: Some(self.pace.rate_ppm()), ..Limits::default() }
    }

    fn reconfigure(&mut self, _now: Time, before: &Settings, settings: &Settings) -> bool {
        let same = settings.kind == before.kind
            && settings.two_level.deadlines == before.two_level.deadlines
            && settings.cost_unit == self.cost_unit;
        if same {
            self.set_sharing(settings.sharing);
            // What was learned is kept unless its starting point has changed.
            if settings.device_times != before.device_times {
                self.set_device_times(&settings.device_times);
            }
        }
        same
    }

    fn learned(&self, now: Time) -> Option<Learned> {
        Some(Learned::Isolation(self.learned_costs(now)))
    }

    fn remember(&mut self, now: Time, learned: &Learned) {
        if let Learned::Isolation(costs) = learned {
            self.remember_costs(now, costs);
        }
    }

    fn remember_bulk(&mut self, app: AppId) {
        self.remember_bulk_flow(app);
    }

    fn shared(&mut self) -> Option<&mut dyn SharedService> {
        Some(self)
    }

    fn totals(&mut self) -> Option<&mut Totals> {
        Some(self.minima.totals())
    }

    fn waiting(&self, of: Member) -> Bytes {
        if !self.minima.is_waiting(of) {
            return Bytes::ZERO;
        }
        match of {
            Member::App(app) => self.meters[app.index()].queued_cost,
            Member::Share(share) => {
                let apps = (0..).map(AppId).zip(&self.meters);
                let inside = apps.filter(|(app, _)| self.queue.shares().is_within(*app, share));
                inside.map(|(_, meter)| meter.queued_cost).fold(Bytes::ZERO, Bytes::add)
            }
        }
    }

    fn hand_over(self: Box<Self>) -> Handover {
        let mut all: Vec<&Entry> = self.queue.requests.iter().collect();
        all.sort_unstable_by_key(|entry| entry.arrival);
        let of = |queued: bool| {
            let chosen = all.iter().filter(|entry| entry.state.is_queued() == queued);
            chosen.map(|entry| (entry.enqueued_at, Request { elsewhere: None, ..entry.request })).collect()
        };
        Handover { outstanding: of(false), queued: of(true), events: self.events }
    }

    fn request(&self, id: RequestId) -> (Time, Request) {
        let Entry { request, enqueued_at, .. } = *self.queue.requests.get(id);
        (enqueued_at, request)
    }

    fn take_over(&mut self, now: Time, handover: Handover) {
        for (enqueued_at, request) in handover.outstanding {
            self.admit(now, enqueued_at, &request);
            self.dequeue(request.id);
            self.occupy(now, request.id, None);
        }
        for (enqueued_at, request) in handover.queued {
            self.admit(now, enqueued_at, &request);
        }
        self.events = handover.events;
    }
}
