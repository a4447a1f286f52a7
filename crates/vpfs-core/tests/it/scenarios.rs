//! Single situations of SFQ(D) and SFQ(D)+, step by step.

use vpfs_core::testing::{Op, Runner};
use vpfs_core::{AppId, Bytes, Dispatch, Event, OpKind, Request, RequestId, Scheduler, Sfq, SlotCostTable, Time};

use crate::common::{DISPATCH, EVENTS, depth, dispatched, weight};

const LARGE: Bytes = Bytes::mib(2);
const SMALL: Bytes = Bytes::kib(64);

fn sfq_d(slots: u32) -> Runner<Sfq> {
    Runner::new(Sfq::new(depth(slots), SlotCostTable::uniform(), EVENTS))
}

fn sfq_d_plus(slots: u32) -> Runner<Sfq> {
    Runner::new(Sfq::new(depth(slots), SlotCostTable::default(), EVENTS))
}

fn enqueue(app: u32, cost: Bytes) -> Op {
    Op::Enqueue { app: AppId(app), op: OpKind::Write, cost }
}

/// Completes the oldest outstanding request of `app`.
fn complete(runner: &mut Runner<Sfq>, app: u32) {
    let index = runner.outstanding.iter().position(|(request, _)| request.app == AppId(app));
    let pick = u32::try_from(index.expect("one is outstanding")).expect("few");
    runner.apply(Op::Complete { pick });
}

/// Serves `count` requests one after the other; returns their applications.
fn serve(runner: &mut Runner<Sfq>, count: usize) -> Vec<u32> {
    let mut apps = Vec::new();
    for _ in 0..count {
        apps.extend(runner.apply(DISPATCH).iter().map(|dispatch| dispatch.app.0));
        runner.apply(Op::Complete { pick: 0 });
    }
    apps
}

fn apps(dispatches: &[Dispatch]) -> Vec<u32> {
    dispatches.iter().map(|dispatch| dispatch.app.0).collect()
}

#[test]
fn an_idle_application_has_no_credit_when_it_returns() {
    let mut runner = sfq_d(1);
    dispatched(&mut runner, &[enqueue(1, SMALL), DISPATCH, Op::Complete { pick: 0 }]);
    dispatched(&mut runner, &[enqueue(0, SMALL); 8]);
    assert_eq!(serve(&mut runner, 4), [0; 4]);
    // It is served in turn, not four times at once to catch up.
    dispatched(&mut runner, &[enqueue(1, SMALL); 4]);
    assert_eq!(serve(&mut runner, 8), [1, 0, 1, 0, 1, 0, 1, 0]);
}

#[test]
fn a_new_weight_applies_to_queued_requests() {
    let mut runner = sfq_d(1);
    dispatched(&mut runner, &[[enqueue(0, SMALL), enqueue(1, SMALL)]; 8].concat());
    assert_eq!(serve(&mut runner, 4), [0, 1, 0, 1]);
    runner.apply(Op::SetWeight { app: AppId(1), weight: weight(3) });
    let served = serve(&mut runner, 8);
    assert_eq!(served.iter().filter(|&&app| app == 1).count(), 6, "{served:?}");
}

/// The paper's storage: 14 slots, 5 for 2 MiB [vPFS+ §V-A].
#[test]
fn small_requests_pass_a_blocked_large_one_until_its_slots_are_used() {
    let mut runner = sfq_d_plus(14);
    dispatched(&mut runner, &[enqueue(0, LARGE); 3]);
    assert_eq!(apps(&runner.apply(DISPATCH)), [0, 0]);
    // The first 32 of these have smaller tags than the waiting third large one: they do not pass it, they precede it.
    dispatched(&mut runner, &[enqueue(1, SMALL); 80]);
    for _ in 0..80 {
        runner.apply(DISPATCH);
        if runner.outstanding.iter().any(|(request, _)| request.app == AppId(1)) {
            complete(&mut runner, 1);
        }
    }
    let dispatches = |runner: &Runner<Sfq>, wanted: bool| {
        let small = runner.events.iter().filter_map(|&(_, event)| match event {
            Event::Dispatched { app: AppId(1), backfilled, .. } => Some(backfilled),
            _ => None,
        });
        small.filter(|&backfilled| backfilled == wanted).count()
    };
    assert_eq!(dispatches(&runner, false), 32);
    assert_eq!(dispatches(&runner, true), 5, "as many slots as the large request needs");
    complete(&mut runner, 0);
    let next = runner.apply(DISPATCH);
    assert_eq!(next[0].app, AppId(0));
    assert!(!next[0].backfilled && next[0].slot_cost.get() == 5);
    assert_eq!(runner.events.iter().filter(|(_, event)| matches!(event, Event::HeadBlocked { .. })).count(), 1);
}

#[test]
fn after_the_depth_was_lowered_nothing_goes_until_it_fits() {
    let mut runner = sfq_d_plus(10);
    dispatched(&mut runner, &[enqueue(0, LARGE), enqueue(0, LARGE), DISPATCH, enqueue(0, LARGE)]);
    runner.apply(Op::SetDepth { depth: depth(3) });
    assert_eq!(runner.apply(DISPATCH), []);
    complete(&mut runner, 0);
    assert_eq!(runner.apply(DISPATCH), [], "5 of 3 slots are in use");
    complete(&mut runner, 0);
    let next = runner.apply(DISPATCH);
    assert_eq!(next[0].slot_cost.get(), 3, "all there are");
}

/// Symptom: an application that queues and cancels large requests comes first every time.
/// Cause: a refund that moves the flow's older requests as well.
#[test]
fn cancelling_gives_no_priority() {
    let order = |cancel: bool| {
        let mut runner = sfq_d(1);
        dispatched(&mut runner, &[[enqueue(0, SMALL), enqueue(1, SMALL)]; 20].concat());
        let mut order = Vec::new();
        for _ in 0..20 {
            if cancel {
                runner.apply(enqueue(1, Bytes::mib(64)));
                let newest = u32::try_from(runner.queued.len() - 1).expect("few");
                runner.apply(Op::Cancel { pick: newest });
            }
            order.extend(serve(&mut runner, 1));
        }
        order
    };
    assert_eq!(order(true), order(false));
}

/// A read that asks for more than there is pays for what it got.
#[test]
fn short_reads_pay_for_the_bytes_that_they_got() {
    let mut runner = sfq_d(1);
    let mut served = [0, 0];
    dispatched(&mut runner, &[[enqueue(0, LARGE), enqueue(1, SMALL)]; 2].concat());
    for _ in 0..100 {
        let [dispatch] = runner.apply(DISPATCH)[..] else { panic!("one at a time") };
        if dispatch.app == AppId(0) {
            let index = runner.queued.len();
            runner.apply(Op::CorrectCost { pick: u32::try_from(index).expect("few"), real: SMALL });
        }
        served[dispatch.app.index()] += 1;
        runner.apply(Op::Complete { pick: 0 });
        runner.apply(enqueue(dispatch.app.0, if dispatch.app == AppId(0) { LARGE } else { SMALL }));
    }
    // While a read is in progress its estimate counts, which costs it a turn now and then.
    assert!(served[0] >= 45, "{served:?}");
}

#[test]
#[should_panic(expected = "request id 7 is not in use")]
fn completing_an_unknown_request_panics() {
    sfq_d(1).scheduler.complete(Time::ZERO, RequestId(7));
}

#[test]
#[should_panic(expected = "request id 7 is in use")]
fn enqueuing_an_id_in_use_panics() {
    let mut scheduler = sfq_d(1).scheduler;
    let request = Request::new(RequestId(7), AppId(0), OpKind::Read, SMALL);
    scheduler.enqueue(Time::ZERO, request);
    scheduler.enqueue(Time::ZERO, request);
}

#[test]
#[should_panic(expected = "only a dispatched request can be complete")]
fn completing_a_queued_request_panics() {
    let mut scheduler = sfq_d(1).scheduler;
    let request = Request::new(RequestId(0), AppId(0), OpKind::Read, SMALL);
    scheduler.enqueue(Time::ZERO, request);
    scheduler.complete(Time::ZERO, request.id);
}
