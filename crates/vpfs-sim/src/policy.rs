//! Schedulers as a scenario wants them.

use std::time::Duration;

use vpfs_core::window::order_of;
use vpfs_core::{AppId, Cap, Capped, Policy, PolicyKind, Scheduler, SharingMode, Target, Time, Weight};

use crate::scenario::{App, PolicySpec};

/// Events a scheduler keeps until they are read, which is after every input.
const EVENTS_KEPT: usize = 256;

/// What a scheduler is told of an application.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    weight: Weight,
    cap: Option<Cap>,
    target: Option<Target>,
    latency: Option<Duration>,
    order: u16,
}

impl Promise {
    pub(crate) fn of(app: &App) -> Self {
        let order = app.order.unwrap_or_else(|| order_of(&app.name));
        Self { weight: app.weight, cap: app.cap, target: app.target, latency: app.latency, order }
    }
}

/// A new scheduler that knows all applications.
pub(crate) fn build(now: Time, policy: &PolicySpec, promises: &[Promise]) -> Capped<Policy> {
    let mut scheduler = Capped::new(Policy::new(&policy.settings, EVENTS_KEPT), EVENTS_KEPT);
    for (app, promise) in (0..).map(AppId).zip(promises) {
        scheduler.set_weight(now, app, promise.weight);
        scheduler.set_target(now, app, promise.target);
        scheduler.set_latency(now, app, promise.latency);
        scheduler.set_order(now, app, promise.order);
        if promise.cap.is_some() {
            scheduler.set_cap(now, app, promise.cap);
        }
    }
    scheduler
}

/// Whether servers must hear of each other.
pub(crate) fn needs_peers(policy: &PolicySpec) -> bool {
    use PolicyKind::{Isolation, SfqD, SfqDPlus};
    let shares = matches!(policy.settings.kind, SfqD | SfqDPlus | Isolation);
    shares && policy.settings.sharing.mode != SharingMode::Local
}

/// Whether the policy promises never to use more slots than its depth.
pub(crate) fn has_slots(kind: PolicyKind) -> bool {
    matches!(kind, PolicyKind::SfqD | PolicyKind::SfqDPlus | PolicyKind::Ioco)
}
