//! One of the policies, changeable while it runs. A daemon holds a [`Capped`](crate::Capped)`<Policy>` for each server.
//!
//! Nothing is dropped when settings change. Depth, slot costs and the step between SFQ(D) and SFQ(D)+ keep every tag.
//! A change between FIFO, the fair policies, Two-level and IOCO hands the requests over: outstanding ones stay outstanding, occupy
//! slots of the new policy and are charged to their flows; queued ones follow in order of arrival; weights, targets and
//! orders are kept. What the flows had received before is forgotten, as at the start.

use alloc::vec::Vec;

use crate::event::{Event, EventQueue};
use crate::fifo::Fifo;
use crate::request::{Dispatch, Request, ServiceReport, Target};
use crate::scheduler::{Capabilities, Scheduler};
use crate::settings::{PolicyKind, Settings};
use crate::sfq::Sfq;
use crate::slot_cost::SlotCostTable;
use crate::two_level::TwoLevel;
use crate::units::{AppId, Bytes, RequestId, Time, Weight};
use crate::window::Ioco;

/// A scheduler whose policy and settings can change at any time.
#[derive(Debug)]
pub struct Policy {
    base: Base,
    settings: Settings,
    /// By application; for the next policy.
    apps: Vec<AppSettings>,
}

/// What was set for one application.
#[derive(Clone, Copy, Debug, Default)]
struct AppSettings {
    weight: Option<Weight>,
    target: Option<Target>,
    order: Option<u16>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each server, and it never moves")]
enum Base {
    Fifo(Fifo),
    Sfq(Sfq),
    Ioco(Ioco),
    TwoLevel(TwoLevel),
}

/// The requests that one policy gives to the next, each with the time at which it was enqueued.
pub(crate) struct Handover {
    pub(crate) outstanding: Vec<(Time, Request)>,
    /// In order of arrival.
    pub(crate) queued: Vec<(Time, Request)>,
    pub(crate) events: EventQueue,
}

impl Policy {
    /// A policy that keeps at most `event_capacity` events between polls.
    pub fn new(settings: &Settings, event_capacity: usize) -> Self {
        Self { base: Base::new(settings, event_capacity), settings: settings.clone(), apps: Vec::new() }
    }

    /// What is in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes to other settings; see the [module](self) for what is kept. Drain dispatches afterwards, as after any
    /// input. O(n log n) in requests in use if the policy or a slot cost changes, else O(1).
    pub fn reconfigure(&mut self, now: Time, settings: &Settings) {
        self.settings = settings.clone();
        match (&mut self.base, settings.kind) {
            (Base::Fifo(_), PolicyKind::Fifo) => {}
            (Base::Sfq(sfq), PolicyKind::SfqD | PolicyKind::SfqDPlus) => {
                sfq.set_depth(now, settings.depth);
                sfq.set_slot_costs(settings.effective_slot_costs());
                sfq.set_sharing(settings.sharing);
            }
            // With other windows every queued request gets another place.
            (Base::Ioco(ioco), PolicyKind::Ioco) if ioco.settings() == settings.ioco => {
                ioco.set_depth(now, settings.depth);
            }
            (Base::TwoLevel(two_level), PolicyKind::TwoLevel) => {
                two_level.configure(now, settings.two_level, settings.depth);
            }
            _ => self.replace(now, Base::new(settings, 0)),
        }
    }

    /// Moves all requests to `next`, which has none and keeps no events yet.
    fn replace(&mut self, now: Time, mut next: Base) {
        for (app, settings) in (0..).map(AppId).zip(&self.apps) {
            settings.apply(now, app, next.as_mut());
        }
        let handover = match core::mem::replace(&mut self.base, next) {
            Base::Fifo(fifo) => fifo.hand_over(),
            Base::Sfq(sfq) => sfq.hand_over(),
            Base::Ioco(ioco) => ioco.hand_over(),
            Base::TwoLevel(two_level) => two_level.hand_over(),
        };
        match &mut self.base {
            Base::Fifo(fifo) => fifo.take_over(handover),
            Base::Sfq(sfq) => sfq.take_over(handover),
            Base::Ioco(ioco) => ioco.take_over(handover),
            Base::TwoLevel(two_level) => two_level.take_over(now, handover),
        }
    }

    fn app_mut(&mut self, app: AppId) -> &mut AppSettings {
        if app.index() >= self.apps.len() {
            self.apps.resize(app.index() + 1, AppSettings::default());
        }
        &mut self.apps[app.index()]
    }
}

impl AppSettings {
    /// Sets what was set for `app` in `scheduler`, which is new.
    fn apply(&self, now: Time, app: AppId, scheduler: &mut dyn Scheduler) {
        if let Some(weight) = self.weight {
            scheduler.set_weight(now, app, weight);
        }
        if let Some(order) = self.order {
            scheduler.set_order(now, app, order);
        }
        scheduler.set_target(now, app, self.target);
    }
}

impl Settings {
    fn effective_slot_costs(&self) -> SlotCostTable {
        match self.kind {
            PolicyKind::SfqDPlus => self.slot_costs.clone(),
            PolicyKind::Fifo | PolicyKind::SfqD | PolicyKind::TwoLevel | PolicyKind::Ioco => SlotCostTable::uniform(),
        }
    }
}

impl Base {
    fn new(settings: &Settings, event_capacity: usize) -> Self {
        match settings.kind {
            PolicyKind::Fifo => Self::Fifo(Fifo::new(event_capacity)),
            PolicyKind::TwoLevel => Self::TwoLevel(TwoLevel::new(settings.two_level, settings.depth, event_capacity)),
            PolicyKind::Ioco => Self::Ioco(Ioco::new(settings.ioco, settings.depth, event_capacity)),
            PolicyKind::SfqD | PolicyKind::SfqDPlus => {
                let mut sfq = Sfq::new(settings.depth, settings.effective_slot_costs(), event_capacity);
                sfq.set_sharing(settings.sharing);
                Self::Sfq(sfq)
            }
        }
    }

    fn as_ref(&self) -> &dyn Scheduler {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Sfq(sfq) => sfq,
            Self::Ioco(ioco) => ioco,
            Self::TwoLevel(two_level) => two_level,
        }
    }

    fn as_mut(&mut self) -> &mut dyn Scheduler {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Sfq(sfq) => sfq,
            Self::Ioco(ioco) => ioco,
            Self::TwoLevel(two_level) => two_level,
        }
    }
}

impl Scheduler for Policy {
    fn capabilities(&self) -> Capabilities {
        self.base.as_ref().capabilities()
    }

    fn enqueue_held(&mut self, now: Time, arrived: Time, request: Request) {
        self.base.as_mut().enqueue_held(now, arrived, request);
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        self.base.as_mut().poll_dispatch(now)
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.base.as_mut().complete(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        self.base.as_mut().cancel(now, id);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        self.base.as_mut().correct_cost(now, id, real);
    }

    fn set_weight(&mut self, now: Time, app: AppId, weight: Weight) {
        self.app_mut(app).weight = Some(weight);
        self.base.as_mut().set_weight(now, app, weight);
    }

    fn set_target(&mut self, now: Time, app: AppId, target: Option<Target>) {
        self.app_mut(app).target = target;
        self.base.as_mut().set_target(now, app, target);
    }

    fn set_order(&mut self, now: Time, app: AppId, order: u16) {
        self.app_mut(app).order = Some(order);
        self.base.as_mut().set_order(now, app, order);
    }

    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        self.base.as_mut().handle_peer(now, report);
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.base.as_mut().poll_report(now)
    }

    fn queued(&self) -> usize {
        self.base.as_ref().queued()
    }

    fn outstanding(&self) -> usize {
        self.base.as_ref().outstanding()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.base.as_mut().poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.base.as_ref().poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.base.as_mut().handle_timeout(now);
    }
}
