//! The guarantees of caps.

use proptest::prelude::*;
use vpfs_core::testing::{Op, Runner};
use vpfs_core::{
    AppId, AppPolicy, Bytes, Cap, Event, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler, Settings, Sfq,
    SlotCostTable, Time,
};

use crate::common;
use crate::common::{EVENTS, depth, dispatched, ops};

fn sfq() -> Sfq {
    Sfq::new(depth(14), SlotCostTable::default(), EVENTS)
}

fn policy() -> Policy {
    Policy::new(&Settings::new(PolicyKind::SfqDPlus, depth(14), SlotCostTable::default()), EVENTS)
}

fn cap(bytes_per_second: u64, burst: u64) -> Option<Cap> {
    Cap::new(bytes_per_second, Bytes(burst))
}

fn limited(cap: Option<Cap>) -> AppPolicy {
    AppPolicy { cap, ..AppPolicy::default() }
}

/// The released requests of application 0: time in nanoseconds and cost of each.
fn released(events: &[(Time, Event)]) -> Vec<(u64, u64)> {
    let released = |&(at, event): &(Time, Event)| match event {
        Event::Enqueued { app: AppId(0), cost, .. } => Some((at.as_nanos(), cost.0)),
        _ => None,
    };
    events.iter().filter_map(released).collect()
}

proptest! {
    /// Over any time t: at most rate · t + burst + one request.
    #[test]
    fn service_is_rate_times_time(
        rate in 1..2_000_000_000_u64,
        burst in 0..10_000_000_u64,
        requests in prop::collection::vec((0..3_000_000_u64, 0..3_000_000_u64), 1..60),
    ) {
        let mut capped = policy();
        capped.set_app(Time::ZERO, AppId(0), &limited(cap(rate, burst)));
        let (mut now, mut events) = (Time::ZERO, Vec::new());
        for (id, &(pause, cost)) in (0..).zip(&requests) {
            let arrival = Time::from_nanos(now.as_nanos() + pause);
            while let Some(at) = capped.poll_timeout().filter(|&at| at <= arrival) {
                capped.handle_timeout(at);
            }
            now = arrival;
            let request = Request::new(RequestId(id), AppId(0), OpKind::Write, Bytes(cost));
            capped.enqueue(now, request);
        }
        while let Some(at) = capped.poll_timeout() {
            capped.handle_timeout(at);
        }
        events.extend(std::iter::from_fn(|| capped.poll_event()));
        let released = released(&events);
        prop_assert_eq!(released.len(), requests.len());
        for from in 0..released.len() {
            let mut sum = 0;
            for to in from..released.len() {
                // Only the last request may lead into debt.
                let nanos = u128::from(released[to].0 - released[from].0);
                prop_assert!(sum * 1_000_000_000 <= nanos * u128::from(rate) + u128::from(burst) * 1_000_000_000);
                sum += u128::from(released[to].1);
            }
        }
    }

    /// While requests wait, the rate is met to the nanosecond, however small the steps are.
    #[test]
    fn a_backlogged_application_gets_its_rate(rate in 1_000_000..2_000_000_000_u64) {
        let mut capped = policy();
        capped.set_app(Time::ZERO, AppId(0), &limited(cap(rate, 10_000)));
        for id in 0..200 {
            let request = Request::new(RequestId(id), AppId(0), OpKind::Write, Bytes(10_000));
            capped.enqueue(Time::ZERO, request);
        }
        let mut last = Time::ZERO;
        while let Some(at) = capped.poll_timeout() {
            last = at;
            capped.handle_timeout(at);
        }
        let expected = (198 * 10_000_u128 * 1_000_000_000).div_ceil(u128::from(rate));
        prop_assert_eq!(u128::from(last.as_nanos()), expected);
    }

    /// Without caps nothing changes.
    #[test]
    fn without_caps_requests_pass(ops in ops(300)) {
        let mut plain = Runner::new(sfq());
        let mut capped = Runner::new(policy());
        prop_assert_eq!(dispatched(&mut plain, &ops), dispatched(&mut capped, &ops));
        prop_assert_eq!(plain.events, capped.events);
    }
}

/// A refund releases the next request at once; lifting a cap releases all.
#[test]
fn refunds_and_changes_release() {
    let mut runner = Runner::new(policy());
    runner.set_app(AppId(0), |policy| policy.cap = cap(1000, 0));
    let write = common::write(0, 10);
    assert_eq!(dispatched(&mut runner, &[write, write, write, write, common::DISPATCH]).len(), 1);
    assert_eq!((runner.scheduler.queued(), runner.scheduler.outstanding()), (3, 1));
    assert_eq!(dispatched(&mut runner, &[Op::Cancel { pick: 3 }, common::DISPATCH]).len(), 1);
    runner.set_app(AppId(0), |policy| policy.cap = None);
    assert_eq!(runner.apply(common::DISPATCH).len(), 2);
    assert_eq!(runner.scheduler.poll_timeout(), None);
}

/// A request's wait counts from its arrival, not from its release.
#[test]
fn a_held_request_keeps_its_time_of_arrival() {
    let mut runner = Runner::new(policy());
    runner.set_app(AppId(0), |policy| policy.cap = cap(1_000_000_000, 0));
    let write = common::write(0, 100);
    dispatched(&mut runner, &[write, write]);
    let arrival = runner.now;
    runner.now = runner.scheduler.poll_timeout().expect("a request is held");
    let dispatches = runner.apply(common::DISPATCH);
    assert_eq!(dispatches.len(), 2);
    assert_eq!(dispatches[1].enqueued_at, arrival);
    let held = runner.events.iter().filter(|(_, event)| matches!(event, Event::CapHeld { .. }));
    assert_eq!(held.count(), 1);
}
