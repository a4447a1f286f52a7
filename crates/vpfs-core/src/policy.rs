//! One of the policies, changeable while it runs. A daemon holds a [`Capped`](crate::Capped)`<Policy>` for each server.
//!
//! | policy | work-conserving | needs peers | needs deadlines | needs layout |
//! |---|---|---|---|---|
//! | fifo | yes | no | no | no |
//! | sfq-d | yes | no | no | no |
//! | sfq-d, threshold | yes | yes | no | no |
//! | sfq-d, layout | yes | yes | no | yes |
//! | sfq-d-plus | yes | no | no | no |
//! | sfq-d-plus, threshold | yes | yes | no | no |
//! | sfq-d-plus, layout | yes | yes | no | yes |
//! | two-level | yes | no | yes | no |
//! | ioco | yes | no | no | no |
//! | isolation | no | no | no | no |
//! | isolation, threshold | no | yes | no | no |
//! | isolation, layout | no | yes | no | yes |
//!
//! With caps none of them conserves work.
//!
//! Nothing is dropped when settings change. Depth, slot costs and the step between SFQ(D) and SFQ(D)+ keep every tag.
//! A change between FIFO, the fair policies, Two-level and IOCO hands the requests over: outstanding ones stay
//! outstanding, occupy slots of the new policy and are charged to their flows; queued ones follow in order of arrival;
//! weights, targets and orders are kept. What the flows had received before is forgotten, as at the start. The fair
//! policies do not keep when a request was issued, nor what it costs elsewhere once it is charged: after them, its time
//! of arrival counts, and its layout is not known.
//!
//! Metadata can be given a queue of its own and be brought back; requests stay in the queue they are in.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::event::{Event, EventQueue};
use crate::fifo::Fifo;
use crate::isolation::Isolation;
use crate::request::{Dispatch, Request, ServiceReport, Target};
use crate::scheduler::{Capabilities, Scheduler};
use crate::settings::{PolicyKind, Settings};
use crate::sfq::Sfq;
use crate::slot_cost::SlotCostTable;
use crate::split::Split;
use crate::two_level::TwoLevel;
use crate::units::{AppId, Bytes, Depth, RequestId, Time, Weight};
use crate::window::Ioco;

/// A scheduler whose policy and settings can change at any time.
#[derive(Debug)]
pub struct Policy {
    queues: Split<Base>,
    settings: Settings,
    event_capacity: usize,
    /// By application; for the next policy.
    apps: Vec<AppSettings>,
}

/// What was set for one application.
#[derive(Clone, Copy, Debug, Default)]
struct AppSettings {
    weight: Option<Weight>,
    target: Option<Target>,
    latency: Option<Duration>,
    order: Option<u16>,
}

#[derive(Debug)]
enum Base {
    Fifo(Fifo),
    Sfq(Sfq),
    Ioco(Ioco),
    TwoLevel(TwoLevel),
    // It has the tables of what it learned in it.
    Isolation(Box<Isolation>),
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
        let queues = Split::new(Base::new(settings, event_capacity));
        let mut policy = Self { queues, settings: settings.clone(), event_capacity, apps: Vec::new() };
        policy.open_or_close(Time::ZERO);
        policy
    }

    /// What is in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The depth that was found from completions, see [`Sfq::depth_found`]; `None` for policies that find none.
    pub fn depth_found(&self) -> Option<Depth> {
        self.queues.data().adaptive()?.depth_found()
    }

    /// The slot costs that go with [`Policy::depth_found`].
    pub fn slot_costs_found(&self) -> Option<&SlotCostTable> {
        Some(self.queues.data().adaptive()?.slot_costs())
    }

    /// Changes to other settings; see the [module](self) for what is kept. Drain dispatches afterwards, as after any
    /// input. O(n log n) in requests in use if the policy or a slot cost changes, else O(1).
    pub fn reconfigure(&mut self, now: Time, settings: &Settings) {
        let before = core::mem::replace(&mut self.settings, settings.clone());
        self.queues.data_mut().reconfigure(now, &before, settings, &self.apps);
        self.open_or_close(now);
        if let Some(metadata) = self.queues.metadata_mut() {
            metadata.reconfigure(now, &before.of_metadata(), &self.settings.of_metadata(), &self.apps);
        }
    }

    /// Gives metadata a queue of its own, or none, as the settings say.
    fn open_or_close(&mut self, now: Time) {
        if self.settings.metadata_depth.is_some() {
            self.queues.open(|| {
                let mut base = Base::new(&self.settings.of_metadata(), self.event_capacity);
                apply(&self.apps, now, base.as_mut());
                base
            });
        } else {
            self.queues.close();
        }
    }

    fn app_mut(&mut self, app: AppId) -> &mut AppSettings {
        if app.index() >= self.apps.len() {
            self.apps.resize(app.index() + 1, AppSettings::default());
        }
        &mut self.apps[app.index()]
    }
}

/// Sets what was set for applications in `scheduler`, which is new.
fn apply(apps: &[AppSettings], now: Time, scheduler: &mut dyn Scheduler) {
    for (app, settings) in (0..).map(AppId).zip(apps) {
        if let Some(weight) = settings.weight {
            scheduler.set_weight(now, app, weight);
        }
        if let Some(order) = settings.order {
            scheduler.set_order(now, app, order);
        }
        scheduler.set_target(now, app, settings.target);
        scheduler.set_latency(now, app, settings.latency);
    }
}

impl Settings {
    /// The same for a queue of metadata, whose depth is not looked for.
    fn of_metadata(&self) -> Self {
        Self { depth: self.metadata_depth.unwrap_or(self.depth), adaptive: false, ..self.clone() }
    }

    /// Where a search for depth and slot costs begins, if there is one.
    fn origin(&self) -> Option<(Depth, SlotCostTable)> {
        self.adaptive.then(|| (self.depth, self.effective_slot_costs()))
    }

    /// Gives `sfq` depth and slot costs as they are set; from there on, they may be found.
    fn set_slots(&self, now: Time, sfq: &mut Sfq) {
        sfq.stop_adapting();
        sfq.set_depth(now, self.depth);
        sfq.set_slot_costs(self.effective_slot_costs());
        if self.adaptive {
            sfq.adapt();
        }
    }

    fn effective_slot_costs(&self) -> SlotCostTable {
        match self.kind {
            PolicyKind::SfqDPlus => self.slot_costs.clone(),
            PolicyKind::Fifo | PolicyKind::SfqD | PolicyKind::TwoLevel | PolicyKind::Ioco | PolicyKind::Isolation => {
                SlotCostTable::uniform()
            }
        }
    }
}

impl Base {
    fn new(settings: &Settings, event_capacity: usize) -> Self {
        match settings.kind {
            PolicyKind::Fifo => Self::Fifo(Fifo::new(event_capacity)),
            PolicyKind::TwoLevel => Self::TwoLevel(TwoLevel::new(settings.two_level, settings.depth, event_capacity)),
            PolicyKind::Ioco => Self::Ioco(Ioco::new(settings.ioco, settings.depth, event_capacity)),
            PolicyKind::Isolation => {
                let mut isolation = Isolation::new(event_capacity);
                isolation.set_cost_unit(settings.cost_unit);
                isolation.set_sharing(settings.sharing);
                isolation.set_device_times(&settings.device_times);
                Self::Isolation(Box::new(isolation))
            }
            PolicyKind::SfqD | PolicyKind::SfqDPlus => {
                let mut sfq = Sfq::new(settings.depth, settings.effective_slot_costs(), event_capacity);
                sfq.set_sharing(settings.sharing);
                sfq.set_backfill(settings.backfill);
                settings.set_slots(Time::ZERO, &mut sfq);
                Self::Sfq(sfq)
            }
        }
    }

    /// The scheduler that finds its depth, if this one does.
    fn adaptive(&self) -> Option<&Sfq> {
        match self {
            Self::Sfq(sfq) => sfq.depth_found().map(|_| sfq),
            Self::Fifo(_) | Self::Ioco(_) | Self::TwoLevel(_) | Self::Isolation(_) => None,
        }
    }

    /// Changes to other settings, and to another policy if they say so.
    fn reconfigure(&mut self, now: Time, before: &Settings, settings: &Settings, apps: &[AppSettings]) {
        match (&mut *self, settings.kind) {
            (Self::Fifo(_), PolicyKind::Fifo) => {}
            (Self::Sfq(sfq), PolicyKind::SfqD | PolicyKind::SfqDPlus) => {
                // What was found is kept while the search would begin where it began.
                if !settings.adaptive || settings.origin() != before.origin() {
                    settings.set_slots(now, sfq);
                }
                sfq.set_sharing(settings.sharing);
                sfq.set_backfill(settings.backfill);
            }
            (Self::Isolation(isolation), PolicyKind::Isolation) if isolation.cost_unit() == settings.cost_unit => {
                isolation.set_sharing(settings.sharing);
                // What was learned is kept while it would begin where it began.
                if settings.device_times != before.device_times {
                    isolation.set_device_times(&settings.device_times);
                }
            }
            // With other windows every queued request gets another place.
            (Self::Ioco(ioco), PolicyKind::Ioco) if ioco.settings() == settings.ioco => {
                ioco.set_depth(now, settings.depth);
            }
            (Self::TwoLevel(two_level), PolicyKind::TwoLevel) => {
                two_level.configure(now, settings.two_level, settings.depth);
            }
            _ => {
                let mut next = Self::new(settings, 0);
                apply(apps, now, next.as_mut());
                self.replace(now, next);
            }
        }
    }

    /// Moves all requests to `next`, which has none and keeps no events yet.
    fn replace(&mut self, now: Time, next: Self) {
        let handover = match core::mem::replace(self, next) {
            Self::Fifo(fifo) => fifo.hand_over(),
            Self::Sfq(sfq) => sfq.hand_over(),
            Self::Ioco(ioco) => ioco.hand_over(),
            Self::TwoLevel(two_level) => two_level.hand_over(),
            Self::Isolation(isolation) => isolation.hand_over(),
        };
        match self {
            Self::Fifo(fifo) => fifo.take_over(handover),
            Self::Sfq(sfq) => sfq.take_over(handover),
            Self::Ioco(ioco) => ioco.take_over(handover),
            Self::TwoLevel(two_level) => two_level.take_over(now, handover),
            Self::Isolation(isolation) => isolation.take_over(now, handover),
        }
    }
}

impl AsRef<dyn Scheduler> for Base {
    fn as_ref(&self) -> &(dyn Scheduler + 'static) {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Sfq(sfq) => sfq,
            Self::Ioco(ioco) => ioco,
            Self::TwoLevel(two_level) => two_level,
            Self::Isolation(isolation) => isolation.as_ref(),
        }
    }
}

impl AsMut<dyn Scheduler> for Base {
    fn as_mut(&mut self) -> &mut (dyn Scheduler + 'static) {
        match self {
            Self::Fifo(fifo) => fifo,
            Self::Sfq(sfq) => sfq,
            Self::Ioco(ioco) => ioco,
            Self::TwoLevel(two_level) => two_level,
            Self::Isolation(isolation) => isolation.as_mut(),
        }
    }
}

impl Scheduler for Policy {
    fn capabilities(&self) -> Capabilities {
        self.queues.capabilities()
    }

    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        self.queues.enqueue_held(now, arrived, request);
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        self.queues.poll_dispatch(now)
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.queues.complete(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        self.queues.cancel(now, id);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        self.queues.correct_cost(now, id, real);
    }

    fn set_weight(&mut self, now: Time, app: AppId, weight: Weight) {
        self.app_mut(app).weight = Some(weight);
        self.queues.set_weight(now, app, weight);
    }

    fn set_target(&mut self, now: Time, app: AppId, target: Option<Target>) {
        self.app_mut(app).target = target;
        self.queues.set_target(now, app, target);
    }

    fn set_latency(&mut self, now: Time, app: AppId, latency: Option<Duration>) {
        self.app_mut(app).latency = latency;
        self.queues.set_latency(now, app, latency);
    }

    fn set_order(&mut self, now: Time, app: AppId, order: u16) {
        self.app_mut(app).order = Some(order);
        self.queues.set_order(now, app, order);
    }

    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        self.queues.handle_peer(now, report);
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.queues.poll_report(now)
    }

    fn queued(&self) -> usize {
        self.queues.queued()
    }

    fn outstanding(&self) -> usize {
        self.queues.outstanding()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.queues.poll_event()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.queues.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.queues.handle_timeout(now);
    }
}
