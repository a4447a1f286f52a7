//! A fixed number of scheduling decisions, for a tool that counts instructions: `cargo xtask instructions`.

use std::collections::VecDeque;
use std::hint::black_box;

use clap::Args;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Depth, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler, Settings, ShareId,
    SlotCostTable, Time,
};

/// Requests that are outstanding at a time, below the depth.
const OUTSTANDING: usize = 24;
const DEPTH: u32 = 32;

/// Make decisions of one policy, as a program to be examined.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The policy.
    policy: String,
    /// How many requests to enqueue, dispatch and complete.
    requests: u32,
    /// Applications, which send one after another.
    #[arg(long, default_value_t = 16)]
    flows: u32,
    /// Shares that they are in, in equal numbers; none if 0.
    #[arg(long, default_value_t = 0)]
    shares: u32,
    /// Requests that each of them has queued before the first one goes.
    #[arg(long, default_value_t = 0)]
    queued: u32,
}

/// Enqueues a request each 100 µs, dispatches what may go, and completes the oldest. If applications have requests
/// queued from the beginning, each completed one makes room for the next.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let kind = PolicyKind::ALL.into_iter().find(|kind| kind.name() == options.policy);
    let kind = kind.ok_or_else(|| format!("there is no policy {}", options.policy))?;
    let depth = Depth::new(DEPTH).ok_or("the depth is not zero")?;
    let mut scheduler = Policy::new(&Settings::new(kind, depth, SlotCostTable::default()), 0);
    for app in 0..if options.shares > 0 { options.flows } else { 0 } {
        let policy = AppPolicy { share: Some(ShareId(app % options.shares)), ..AppPolicy::default() };
        scheduler.set_app(Time::ZERO, AppId(app), &policy);
    }
    let (mut outstanding, mut free, mut ids) = (VecDeque::new(), Vec::new(), 0..);
    for app in (0..options.queued).flat_map(|_| 0..options.flows) {
        let Some(id) = ids.next() else { unreachable!("the range has no end") };
        scheduler.enqueue(Time::ZERO, Request::new(RequestId(id), AppId(app), OpKind::Write, Bytes::kib(4)));
    }
    for turn in 0..options.requests {
        let now = Time::from_nanos(u64::from(turn) * 100_000);
        let Some(id) = free.pop().or_else(|| ids.next()) else { unreachable!("the range has no end") };
        let size = Bytes::kib(if turn % 3 == 0 { 256 } else { 4 });
        scheduler.enqueue(now, Request::new(RequestId(id), AppId(turn % options.flows), OpKind::Write, size));
        let before = outstanding.len();
        while let Some(dispatch) = scheduler.poll_dispatch(now) {
            outstanding.push_back(black_box(dispatch).id);
        }
        // Large requests may take all slots.
        let is_full = outstanding.len() == before || outstanding.len() > OUTSTANDING;
        if is_full && let Some(id) = outstanding.pop_front() {
            scheduler.complete(now, id);
            free.push(id.0);
        }
        while black_box(scheduler.poll_event()).is_some() {}
    }
    Ok(())
}
