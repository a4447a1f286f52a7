//! Schedulers as the configuration describes them.

use vpfs_config::{AppEntry, Config};
use vpfs_core::Policy;
use vpfs_core::{AppId, Capped, Scheduler, Time};

/// What stands before each server: caps, and any policy behind them.
pub(crate) type ServerScheduler = Capped<Policy>;

/// Events are kept between two inputs only; more than this many of one input are counted, not kept.
const EVENTS: usize = 1024;

/// A scheduler with the configured policy that knows no application yet.
pub(crate) fn scheduler(config: &Config) -> ServerScheduler {
    // Kept even while the log does not want them: its level may change.
    Capped::new(Policy::new(&config.scheduler.policy, EVENTS), EVENTS)
}

/// Gives an application its weight, cap, target and order.
pub(crate) fn set_app(scheduler: &mut ServerScheduler, now: Time, app: AppId, entry: &AppEntry) {
    scheduler.set_weight(now, app, entry.weight);
    scheduler.set_target(now, app, entry.target);
    scheduler.set_latency(now, app, entry.latency);
    scheduler.set_order(now, app, vpfs_core::window::order_of(&entry.name));
    let cap = entry.cap.and_then(|cap| vpfs_core::Cap::new(cap.rate.0, cap.burst));
    scheduler.set_cap(now, app, cap);
}
