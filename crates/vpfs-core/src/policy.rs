//! One of the policies, exchangeable at runtime. A daemon holds a [`Capped`](crate::Capped)`<Policy>` for each server.
//!
//! Nothing is dropped when settings change. Changes of depth or slot costs, and between SFQ(D) and SFQ(D)+, keep every
//! tag. A change between FIFO, the fair policies, Two-level and IOCO hands the requests over: outstanding ones stay
//! outstanding, occupy slots of the new policy and are charged to their flows; queued ones follow in order of arrival;
//! weights, targets and orders are kept. Earlier service is forgotten, as after a start. The fair policies do not keep
//! the time at which a request was issued, nor its cost elsewhere once that is charged; the next policy then uses the
//! time of arrival and does not know the layout.
//!
//! Metadata can be given its own queue and lose it again; requests stay in the queue they are in.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::app_policy::{AppPolicy, GroupId};
use crate::engine::Engine;
use crate::event::Event;
use crate::learned::Learned;
use crate::limits::Limits;
use crate::request::{Dispatch, Request, ServiceClass, ServiceReport};
use crate::scheduler::Scheduler;
use crate::settings::Settings;
use crate::slot_cost::SlotCostTable;
use crate::split::Split;
use crate::total::{Reach, TotalKind};
use crate::total_id::TotalId;
use crate::units::{AppId, Bytes, Depth, RequestId, Time};

/// A scheduler whose policy and settings can change at any time.
#[derive(Debug)]
pub struct Policy {
    queues: Split,
    settings: Settings,
    event_capacity: usize,
    /// By application, as far as they were set; kept for the next policy.
    apps: Vec<Option<AppPolicy>>,
    reach: Reach,
}

impl Policy {
    /// A policy that keeps at most `event_capacity` events between polls.
    pub fn new(settings: &Settings, event_capacity: usize) -> Self {
        let queues = Split::new(settings.engine(event_capacity));
        let mut policy =
            Self { queues, settings: settings.clone(), event_capacity, apps: Vec::new(), reach: Reach::ALONE };
        policy.open_or_close(Time::ZERO);
        policy
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The depth that was found from completions, see [`Sfq::depth_found`](crate::Sfq::depth_found); `None` for
    /// policies that find none.
    pub fn depth_found(&self) -> Option<Depth> {
        Some(self.queues.data().slots_found()?.0)
    }

    /// The slot costs that go with [`Policy::depth_found`].
    pub fn slot_costs_found(&self) -> Option<&SlotCostTable> {
        Some(self.queues.data().slots_found()?.1)
    }

    /// What the policy has learned and would have to learn again after a restart; `None` if nothing. O(applications).
    pub fn learned(&self, now: Time) -> Option<Learned> {
        self.queues.data().learned(now)
    }

    /// Continues from what an earlier policy had learned, as far as it is of the same kind. Call before the first
    /// request.
    pub fn remember(&mut self, now: Time, learned: &Learned) {
        self.queues.data_mut().remember(now, learned);
    }

    /// What limits the work in the storage now.
    pub fn limits(&self) -> Limits {
        self.queues.data().limits()
    }

    /// `app`, which has had no request yet, was one of [`LearnedCosts::bulk_flows`](crate::LearnedCosts::bulk_flows).
    pub fn remember_bulk(&mut self, app: AppId) {
        self.queues.data_mut().remember_bulk(app);
    }

    /// Changes to other settings; see the [module](self) for what is kept. Drain dispatches afterwards, as after any
    /// input. O(n log n) in requests in use if the policy or a slot cost changes, otherwise O(1).
    pub fn reconfigure(&mut self, now: Time, settings: &Settings) {
        let before = core::mem::replace(&mut self.settings, settings.clone());
        reconfigure(self.queues.data_mut(), now, &before, settings, (&self.apps, self.reach));
        self.open_or_close(now);
        if let Some(metadata) = self.queues.metadata_mut() {
            reconfigure(metadata, now, &before.of_metadata(), &self.settings.of_metadata(), (&self.apps, self.reach));
        }
    }

    /// Opens or closes the separate queue of metadata, as the settings require.
    fn open_or_close(&mut self, now: Time) {
        if self.settings.metadata_depth.is_some() {
            self.queues.open(|| {
                let mut engine = self.settings.of_metadata().engine(self.event_capacity);
                apply((&self.apps, self.reach), now, engine.as_mut());
                engine
            });
        } else {
            self.queues.close();
        }
    }
}

/// Sets the parameters of applications, and the reach, at `scheduler`, which is new.
fn apply((apps, reach): (&[Option<AppPolicy>], Reach), now: Time, scheduler: &mut dyn Engine) {
    scheduler.set_reach(now, reach);
    for (app, policy) in (0..).map(AppId).zip(apps) {
        if let Some(policy) = policy {
            scheduler.set_app(now, app, policy);
        }
    }
}

impl Settings {
    /// The settings for a queue of metadata, whose depth is not adaptive.
    fn of_metadata(&self) -> Self {
        Self { depth: self.metadata_depth.unwrap_or(self.depth), adaptive: false, ..self.clone() }
    }
}

/// Changes `engine` to other settings, or replaces it if they require another engine.
fn reconfigure(
    engine: &mut Box<dyn Engine>,
    now: Time,
    before: &Settings,
    settings: &Settings,
    apps: (&[Option<AppPolicy>], Reach),
) {
    if engine.reconfigure(now, before, settings) {
        return;
    }
    let mut next = settings.engine(0);
    apply(apps, now, next.as_mut());
    let handover = core::mem::replace(engine, next).hand_over();
    engine.take_over(now, handover);
}

impl Scheduler for Policy {
    fn enqueue_held(&mut self, now: Time, arrived: Time, request: &Request) {
        self.queues.enqueue_held(now, arrived, request);
    }

    fn poll_dispatch(&mut self, now: Time) -> Option<Dispatch> {
        self.queues.poll_dispatch(now)
    }

    fn complete(&mut self, now: Time, id: RequestId) {
        self.queues.complete(now, id);
    }

    fn release(&mut self, now: Time, id: RequestId) {
        self.queues.release(now, id);
    }

    fn cancel(&mut self, now: Time, id: RequestId) {
        self.queues.cancel(now, id);
    }

    fn correct_cost(&mut self, now: Time, id: RequestId, real: Bytes) {
        self.queues.correct_cost(now, id, real);
    }

    fn set_app(&mut self, now: Time, app: AppId, policy: &AppPolicy) {
        if app.index() >= self.apps.len() {
            self.apps.resize(app.index() + 1, None);
        }
        self.apps[app.index()] = Some(*policy);
        self.queues.set_app(now, app, policy);
    }

    fn handle_peer(&mut self, now: Time, report: ServiceReport) {
        self.queues.handle_peer(now, report);
    }

    fn handle_strangers(&mut self, now: Time, group: GroupId, class: ServiceClass, bytes: i64) {
        self.queues.handle_strangers(now, group, class, bytes);
    }

    fn poll_report(&mut self, now: Time) -> Option<ServiceReport> {
        self.queues.poll_report(now)
    }

    fn report_all(&mut self) {
        self.queues.report_all();
    }

    fn set_reach(&mut self, now: Time, reach: Reach) {
        self.reach = reach;
        self.queues.set_reach(now, reach);
    }

    fn handle_total(&mut self, now: Time, kind: TotalKind, report: ServiceReport) {
        self.queues.handle_total(now, kind, report);
    }

    fn poll_total(&mut self, now: Time) -> Option<(TotalKind, ServiceReport)> {
        self.queues.poll_total(now)
    }

    fn set_part(&mut self, now: Time, total: TotalId, part: Option<u64>) {
        self.queues.set_part(now, total, part);
    }

    fn waiting(&self, total: TotalId) -> Bytes {
        self.queues.waiting(total)
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
