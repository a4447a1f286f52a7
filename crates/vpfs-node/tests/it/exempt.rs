//! Applications whose requests pass at once.

use std::time::Duration;

use vpfs_core::{AppId, AppPolicy, Bytes, Cap, Depth, OpKind, PolicyKind, ServerId, Settings, SlotCostTable, Time};
use vpfs_node::{Activity, Arrival, Node, NodeSettings, RequestKey, Served};

use crate::drain;

const ORDINARY: AppId = AppId(0);
const BACKUP: AppId = AppId(1);
const MS: Duration = Duration::from_millis(1);

/// One request at a time, except the backup's.
fn node() -> Node<()> {
    with_apps(empty())
}

fn empty() -> Node<()> {
    let policy = Settings::new(PolicyKind::SfqD, Depth::ONE, SlotCostTable::uniform());
    Node::new(Time::ZERO, ServerId(0), &NodeSettings { policy, metadata_cost: Bytes::kib(8), peers: None })
}

fn with_apps(mut node: Node<()>) -> Node<()> {
    node.set_app(Time::ZERO, ORDINARY, "ordinary", &AppPolicy::default());
    node.set_app(Time::ZERO, BACKUP, "backup", &AppPolicy { exempt: true, ..AppPolicy::default() });
    node
}

/// Enqueues a request, and drains.
fn send(node: &mut Node<()>, now: Time, app: AppId) -> (RequestKey, Vec<RequestKey>) {
    let key = node.enqueue(now, (), &Arrival::new(app, OpKind::Write, 1 << 20));
    (key, dispatched(node, now))
}

fn dispatched(node: &mut Node<()>, now: Time) -> Vec<RequestKey> {
    drain(node, now).dispatched.into_iter().map(|((), key)| key).collect()
}

fn writes(node: &mut Node<()>, now: Time, app: AppId) -> Activity {
    node.snapshot(now).apps.into_iter().find(|found| found.app == app).unwrap().account.write
}

#[test]
fn their_requests_pass_all_others_and_are_counted() {
    let mut node = node();
    let (first, passed) = send(&mut node, Time::ZERO, ORDINARY);
    assert_eq!(passed, [first]);
    assert_eq!(send(&mut node, Time::ZERO, ORDINARY).1, [], "the depth is one");
    let mut now = Time::ZERO;
    for _ in 0..20 {
        let (key, passed) = send(&mut node, now, BACKUP);
        assert_eq!(passed, [key]);
        assert_eq!(writes(&mut node, now, BACKUP).outstanding, 1);
        let since = now;
        now = now + MS;
        node.correct_cost(now, key, 7);
        node.complete(now, key, &Served { bytes: 7, ..Served::new(OpKind::Write, since, since) });
        assert_eq!(dispatched(&mut node, now), [], "it had no slot that others could take");
    }
    let Activity { queued, outstanding, requests, bytes, waited, served, .. } = writes(&mut node, now, BACKUP);
    assert_eq!((queued, outstanding, requests, bytes), (0, 0, 20, 140));
    assert_eq!((waited.sum, served.sum), (Duration::ZERO, 20 * MS));
    node.complete(now, first, &Served { bytes: 1, ..Served::new(OpKind::Write, Time::ZERO, Time::ZERO) });
    assert_eq!(dispatched(&mut node, now).len(), 1);
}

/// As when a connection ends before, or while, its request is in the storage, or its client stalls.
#[test]
fn they_end_in_every_way() {
    let mut node = node();
    let before = node.enqueue(Time::ZERO, (), &Arrival::new(BACKUP, OpKind::Write, 1));
    node.cancel(Time::ZERO, before);
    assert_eq!(dispatched(&mut node, Time::ZERO), []);
    let (inside, _) = send(&mut node, Time::ZERO, BACKUP);
    node.cancel(Time::ZERO, inside);
    let (stalled, _) = send(&mut node, Time::ZERO, BACKUP);
    assert_eq!(node.release(Time::ZERO, stalled), BACKUP);
    node.complete(Time::ZERO + MS, stalled, &Served::new(OpKind::Write, Time::ZERO, Time::ZERO));
    let Activity { queued, outstanding, .. } = writes(&mut node, Time::ZERO + MS, BACKUP);
    assert_eq!((queued, outstanding, node.is_idle()), (0, 0, true));
}

/// A reload makes an application exempt, or ordinary again, while it has requests.
#[test]
fn what_counts_is_how_a_request_arrived() {
    let mut node = node();
    let (ordinary, _) = send(&mut node, Time::ZERO, ORDINARY);
    let (exempt, _) = send(&mut node, Time::ZERO, BACKUP);
    node.set_app(Time::ZERO, ORDINARY, "ordinary", &AppPolicy { exempt: true, ..AppPolicy::default() });
    node.set_app(Time::ZERO, BACKUP, "backup", &AppPolicy::default());
    for key in [ordinary, exempt] {
        node.complete(Time::ZERO + MS, key, &Served::new(OpKind::Write, Time::ZERO, Time::ZERO));
    }
    assert!(node.is_idle());
    let (first, passed) = send(&mut node, Time::ZERO + MS, BACKUP);
    assert_eq!(passed, [first]);
    assert_eq!(send(&mut node, Time::ZERO + MS, BACKUP).1, []);
}

/// A simulator dispatches as the daemon does.
#[test]
fn without_accounts_the_same_requests_pass() {
    let [mut with, mut without] = [node(), with_apps(empty().without_accounts())];
    let run = |node: &mut Node<()>| {
        let sent = [ORDINARY, ORDINARY, BACKUP, ORDINARY, BACKUP].map(|app| send(node, Time::ZERO, app));
        let now = Time::ZERO + MS;
        node.complete(now, sent[0].0, &Served { bytes: 1, ..Served::new(OpKind::Write, Time::ZERO, Time::ZERO) });
        node.cancel(now, sent[3].0);
        node.release(now, sent[2].0);
        (sent.map(|(_, passed)| passed), dispatched(node, now), node.queued(), node.outstanding())
    };
    assert_eq!(run(&mut with), run(&mut without));
    assert_eq!((with.snapshot(Time::ZERO + MS).apps.len(), without.snapshot(Time::ZERO + MS).apps.len()), (2, 0));
}

/// Symptom: what waited stayed with the application that it was enqueued for, whatever the rules said meanwhile. See
/// [`Node::reassign`].
#[test]
fn what_waits_can_be_given_to_another_application() {
    let mut node = node();
    let (first, _) = send(&mut node, Time::ZERO, ORDINARY);
    let now = Time::ZERO + MS;
    let waiting: Vec<_> = (0..3).map(|_| send(&mut node, Time::ZERO, ORDINARY).0).collect();
    let capped = AppPolicy { cap: Cap::new(1, Bytes(1)), ..AppPolicy::default() };
    node.set_app(now, AppId(2), "capped", &capped);
    assert_eq!(node.waiting().map(|(key, ..)| key).collect::<Vec<_>>(), waiting, "in order of arrival");
    node.reassign(now, first, BACKUP);
    node.reassign(now, waiting[0], ORDINARY);
    assert_eq!(dispatched(&mut node, now), [], "nothing changes for what was dispatched, or belongs there already");
    for key in [waiting[1], waiting[2]] {
        node.reassign(now, key, AppId(2));
    }
    assert_eq!(dispatched(&mut node, now), []);
    let queued = |node: &mut Node<()>| [ORDINARY, BACKUP, AppId(2)].map(|app| writes(node, now, app).queued);
    assert_eq!(queued(&mut node), [1, 0, 2]);
    node.reassign(now, waiting[2], BACKUP);
    assert_eq!(dispatched(&mut node, now), [waiting[2]], "exempt: it passes at once");
    node.reassign(now, waiting[1], ORDINARY);
    assert_eq!((queued(&mut node), dispatched(&mut node, now)), ([2, 0, 0], vec![]));
    node.cancel(now, waiting[0]);
    node.reassign(now, waiting[0], BACKUP);
    node.complete(now, first, &Served::new(OpKind::Write, Time::ZERO, Time::ZERO));
    assert_eq!(dispatched(&mut node, now), [waiting[1]]);
    let waited = writes(&mut node, now, ORDINARY);
    assert_eq!((waited.queued, waited.outstanding), (0, 1));
}
