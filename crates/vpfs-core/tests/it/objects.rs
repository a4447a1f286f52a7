//! Metadata requests on several objects: they cost as much as so many requests on one.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Objects, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler, ServiceReport,
    Settings, SharedService, Sharing, SharingMode, SlotCostTable, Time,
};

use crate::common::{EVENTS, depth};

const ONE: Bytes = Bytes::kib(10);
/// Requests of each application at once.
const CONCURRENCY: u32 = 16;

fn scheduler(kind: PolicyKind, slots: u32) -> Policy {
    Policy::new(&Settings::new(kind, depth(slots), SlotCostTable::default()), EVENTS)
}

fn request(id: u32, app: u32, objects: Objects) -> Request {
    Request { objects, ..Request::new(RequestId(id), AppId(app), OpKind::Metadata, objects.cost(ONE)) }
}

/// A server that works on one object after the other, each for 50 us, and two applications that keep it busy, with
/// `objects` in each request. Returns the objects of each that were served in the second half of `run`.
fn served(kind: PolicyKind, objects: [u32; 2], run: Duration) -> [u32; 2] {
    let mut scheduler = scheduler(kind, 4);
    let objects = objects.map(|count| Objects::new(count.into()));
    let app_of = |id: RequestId| if id.0 < CONCURRENCY { 0 } else { 1_u32 };
    let (mut now, end) = (Time::ZERO, Time::ZERO + run);
    let (mut in_it, mut idle_at) = (BTreeMap::new(), now);
    let mut served = [0; 2];
    for id in 0..2 * CONCURRENCY {
        let app = app_of(RequestId(id));
        scheduler.enqueue(now, request(id, app, objects[app as usize]));
    }
    while now < end {
        while let Some(dispatch) = scheduler.poll_dispatch(now) {
            let count = objects[dispatch.app.index()].get();
            idle_at = idle_at.max(now) + Duration::from_micros(50) * count;
            in_it.insert(idle_at, dispatch.id);
        }
        while scheduler.poll_event().is_some() {}
        let next = in_it.first_key_value().map(|(at, _)| *at);
        let timer = scheduler.poll_timeout();
        now = next.into_iter().chain(timer).min().unwrap_or(end).max(now);
        if timer.is_some_and(|at| at <= now) {
            scheduler.handle_timeout(now);
        } else if let Some((_, id)) = in_it.pop_first() {
            let app = app_of(id);
            scheduler.complete(now, id);
            served[app as usize] += if now > Time::ZERO + run / 2 { objects[app as usize].get() } else { 0 };
            scheduler.enqueue(now, request(id.0, app, objects[app as usize]));
        }
    }
    served
}

/// Symptom: an application that asked for the attributes of 2,000 files at once left nearly nothing to one that asked
/// for those of one file at a time. Cause: both requests cost the same.
#[test]
fn shares_hold_whatever_the_number_of_objects_of_a_request() {
    for kind in [PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::Isolation] {
        let [one, many] = served(kind, [1, 200], Duration::from_secs(20));
        assert!((9 * many..=11 * many).contains(&(10 * one)), "{kind:?}: {one} and {many}");
    }
}

proptest! {
    /// However many objects there are, each policy dispatches the request at once if nothing else is in the storage.
    #[test]
    fn no_request_needs_more_than_there_is(count: u32, slots in 1..20_u32, corrected: u32) {
        for kind in PolicyKind::ALL {
            let mut scheduler = scheduler(kind, slots);
            for id in 0..3 {
                scheduler.enqueue(Time::ZERO, request(id, 0, Objects::new(count.into())));
                let dispatch = scheduler.poll_dispatch(Time::ZERO);
                prop_assert_eq!(dispatch.map(|dispatch| dispatch.id), Some(RequestId(id)));
                scheduler.correct_cost(Time::ZERO, RequestId(id), Objects::new(corrected.into()).cost(ONE));
                scheduler.complete(Time::ZERO, RequestId(id));
            }
        }
    }
}

/// Servers report to each other after a number of objects, and report what they cost.
#[test]
fn reports_count_objects() {
    let sharing = Sharing { mode: SharingMode::Threshold, metadata_threshold: 100, ..Sharing::default() };
    let settings = Settings { sharing, ..Settings::new(PolicyKind::SfqD, depth(4), SlotCostTable::default()) };
    let mut scheduler = Policy::new(&settings, EVENTS);
    scheduler.set_app(Time::ZERO, AppId(0), &AppPolicy::default());
    scheduler.enqueue(Time::ZERO, request(0, 0, Objects::new(60)));
    assert_eq!(scheduler.poll_report(Time::ZERO), None);
    scheduler.enqueue(Time::ZERO, request(1, 0, Objects::new(40)));
    let report = scheduler.poll_report(Time::ZERO);
    assert_eq!(report.map(|ServiceReport { bytes, .. }| bytes), Some(100 * 10_240));
    scheduler.cancel(Time::ZERO, RequestId(1));
    scheduler.enqueue(Time::ZERO, request(2, 0, Objects::new(40)));
    assert_eq!(scheduler.poll_report(Time::ZERO), None, "the cancelled ones are taken back");
}
