//! What a node shows of its applications, where the answer is known.

use std::time::Duration;

use vpfs_core::{
    AppId, AppPolicy, Bytes, Cap, Depth, OpKind, PolicyKind, Rule, ServerId, Settings, SlotCostTable, Time, Weight,
};
use vpfs_node::{AppAccount, Arrival, Node, NodeSettings, RequestKey, Served, Situation, StorageTimes, WaitedFor};

use crate::Drained;

const LARGE: AppId = AppId(0);
const SMALL: AppId = AppId(1);
const OTHER: AppId = AppId(2);
const MS: Duration = Duration::from_millis(1);

/// Storage that serves one request after another: 9 ms for each of [`LARGE`], 1 ms for others, or longer while it is
/// slower.
struct Storage {
    node: Node<Waiting>,
    slower: u32,
    now: Time,
    out: Drained<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    app: AppId,
    arrived: Time,
}

impl Storage {
    fn new(policy: PolicyKind, depth: Depth) -> Self {
        let policy = Settings::new(policy, depth, SlotCostTable::uniform());
        let settings = NodeSettings { policy, metadata_cost: Bytes::kib(8), peers: None };
        let node = Node::new(Time::ZERO, ServerId(0), &settings);
        Self { node, slower: 1, now: Time::ZERO, out: Drained::default() }
    }

    fn enqueue(&mut self, app: AppId) -> RequestKey {
        let bytes = if app == LARGE { 9 << 16 } else { 1 << 16 };
        let waiting = Waiting { app, arrived: self.now };
        let key = self.node.enqueue(self.now, waiting, &Arrival::new(app, OpKind::Write, bytes));
        self.node.drain(self.now, &mut self.out);
        key
    }

    /// The request in the storage is served, and its application sends another one.
    fn serve(&mut self) {
        while self.out.dispatched.is_empty() {
            self.now = self.node.poll_timeout().expect("nothing is forgotten");
            self.node.handle_timeout(self.now);
            self.node.drain(self.now, &mut self.out);
        }
        let (Waiting { app, arrived }, key) = self.out.dispatched.remove(0);
        let began = self.now;
        self.now = self.now + self.slower * if app == LARGE { 9 * MS } else { MS };
        self.node.complete(self.now, key, &Served { bytes: 1, ..Served::new(OpKind::Write, arrived, began) });
        self.node.drain(self.now, &mut self.out);
        self.enqueue(app);
    }

    fn account(&mut self, app: AppId) -> AppAccount {
        let apps = self.node.snapshot(self.now).apps;
        apps.into_iter().find(|found| found.app == app).unwrap().account
    }
}

fn behind(waited: &WaitedFor, app: AppId) -> Duration {
    waited.apps.iter().find(|(found, _)| *found == app).map_or(Duration::ZERO, |(_, time)| *time)
}

fn times(account: &AppAccount, situation: Situation) -> StorageTimes {
    *account.in_storage.iter().find(|times| times.situation == situation).unwrap()
}

/// What is known from the construction: each large request takes 9 ms, each small one 1 ms, and the storage is never
/// idle. By turns of one request, as under `fifo` here, the large ones use nine tenths; by weight, which counts bytes
/// and so time here, each uses what it is entitled to.
#[test]
fn what_applications_use_and_are_entitled_to() {
    let cases = [
        (PolicyKind::Fifo, 1, [0.9, 0.1], [0.5, 0.5]),
        (PolicyKind::Fifo, 3, [0.9, 0.1], [0.25, 0.75]),
        (PolicyKind::SfqD, 1, [0.5, 0.5], [0.5, 0.5]),
        (PolicyKind::SfqD, 3, [0.25, 0.75], [0.25, 0.75]),
    ];
    for (policy, weight, used, entitled) in cases {
        let mut storage = Storage::new(policy, Depth::ONE);
        let weight = Weight::new(weight).unwrap();
        storage.node.set_app(Time::ZERO, SMALL, "small", &AppPolicy::weighted(weight));
        storage.node.set_app(Time::ZERO, OTHER, "other", &AppPolicy::default());
        // Of SFQ, the next request must be there when it is its turn; one at a time is the construction of `fifo`.
        let requests = if policy == PolicyKind::Fifo { 1 } else { 8 };
        (0..requests).for_each(|_| [LARGE, SMALL].into_iter().for_each(|app| _ = storage.enqueue(app)));
        (0..20_000).for_each(|_| storage.serve());
        let (now, snapshot) = (storage.now, storage.node.snapshot(storage.now));
        let part = |time: Duration| time.as_secs_f64() / now.since(Time::ZERO).as_secs_f64();
        for (app, used, entitled) in [(LARGE, used[0], entitled[0]), (SMALL, used[1], entitled[1]), (OTHER, 0.0, 0.0)] {
            let seen = snapshot.apps.iter().find(|seen| seen.app == app).unwrap();
            let found = [part(seen.used), part(seen.entitled)];
            let is_near = (found[0] - used).abs() < 0.02 && (found[1] - entitled).abs() < 0.002;
            assert!(is_near, "{policy:?} {weight:?} {app:?}: {found:?} instead of {used} and {entitled}");
        }
        let sum: Duration = snapshot.apps.iter().map(|seen| seen.used).sum();
        assert_eq!((sum, part(snapshot.busy)), (snapshot.busy, 1.0), "{policy:?}: it was never idle");
    }
}

/// A small request is served after each large one, and arrives just when one has begun.
#[test]
fn who_waits_for_whom() {
    let mut storage = Storage::new(PolicyKind::SfqD, Depth::ONE);
    for app in [LARGE, LARGE, LARGE, LARGE, SMALL] {
        storage.enqueue(app);
    }
    (0..4000).for_each(|_| storage.serve());
    let [large, small] = [LARGE, SMALL].map(|app| storage.account(app));
    let waited = small.write.waited.sum;
    assert!(small.write.requests > 300, "{}", small.write.requests);
    assert_eq!(behind(&small.behind, SMALL), Duration::ZERO, "it has one request at a time");
    assert!(behind(&small.behind, LARGE) >= waited, "the latest wait may not have ended: {small:?}");
    assert_eq!(small.last_wait.unwrap().behind, Some(LARGE));
    // It arrives with the end of a large one. Until it is dispatched, three large ones are, and a small one before and
    // after each of them.
    let [own, other] = [LARGE, SMALL].map(|app| behind(&large.behind, app).as_secs_f64());
    let (found, due) = (own / (own + other), 27.0 / 31.0);
    assert!((found - due).abs() < 0.002, "{found} instead of {due}");
}

/// A small request goes to the storage beside a large one, and comes back at once: what waits then waits for the large
/// one, although the small one was dispatched later.
#[test]
fn nobody_waits_for_who_has_left() {
    let mut storage = Storage::new(PolicyKind::SfqD, Depth::new(2).unwrap());
    storage.enqueue(LARGE);
    let small = storage.enqueue(SMALL);
    let waiting = [SMALL, SMALL].map(|_| storage.enqueue(OTHER));
    storage.node.complete(storage.now, small, &Served::new(OpKind::Write, storage.now, storage.now));
    storage.node.drain(storage.now, &mut storage.out);
    storage.node.cancel(storage.now, waiting[0]);
    storage.now = storage.now + 8 * MS;
    storage.node.drain(storage.now, &mut storage.out);
    let waited = storage.account(OTHER).last_wait.unwrap();
    assert_eq!((waited.behind, waited.time), (Some(LARGE), 8 * MS));
}

/// A job has ended, and another one gets its number.
#[test]
fn nothing_is_left_of_an_application_that_is_forgotten() {
    let mut storage = Storage::new(PolicyKind::SfqD, Depth::ONE);
    let key = storage.enqueue(LARGE);
    let small = storage.enqueue(SMALL);
    assert!(!storage.node.is_idle_for(LARGE));
    storage.now = storage.now + 9 * MS;
    for key in [key, small] {
        storage.node.complete(storage.now, key, &Served::new(OpKind::Write, storage.now, storage.now));
        storage.node.drain(storage.now, &mut storage.out);
    }
    assert_eq!(behind(&storage.account(SMALL).behind, LARGE), 9 * MS);
    assert!(storage.node.is_idle_for(LARGE));
    storage.node.forget_app(storage.now, LARGE);
    assert_eq!(storage.node.snapshot(storage.now).apps.len(), 1);
    let small = storage.account(SMALL);
    assert_eq!((behind(&small.behind, LARGE), small.behind.others), (Duration::ZERO, 9 * MS), "no time is lost");
    storage.out.dispatched.clear();
    storage.enqueue(LARGE);
    storage.serve();
    assert_eq!(storage.account(LARGE).write.requests, 1);
}

/// Under `fifo`, all wait inside the storage: a small request there for sixteen large ones, and a large one for fifteen
/// others and a small one.
#[test]
fn who_waits_for_whom_inside_the_storage() {
    let mut storage = Storage::new(PolicyKind::Fifo, Depth::ONE);
    storage.enqueue(SMALL);
    (0..3000).for_each(|_| storage.serve());
    let alone = storage.account(SMALL);
    (0..16).for_each(|_| _ = storage.enqueue(LARGE));
    (0..17 * 1000).for_each(|_| storage.serve());
    let [small, large] = [SMALL, LARGE].map(|app| storage.account(app));
    let [before, after] = [&alone, &small].map(|account| times(account, Situation::Alone));
    let quiet = before.quiet.unwrap();
    assert_eq!((quiet.time, quiet.own, before.behind), (MS, MS, Duration::ZERO), "alone, all is its own");
    assert_eq!(after.quiet, before.quiet);
    let beside = times(&small, Situation::Beside);
    let requests = u32::try_from(beside.requests).unwrap();
    assert_eq!((requests, beside.time - beside.behind, beside.slower), (1000, requests * MS, Duration::ZERO));
    let excess = beside.time - requests * quiet.time;
    assert_eq!(behind(&small.behind_in_storage, LARGE), excess, "all of it, as it has one request at a time");
    assert_eq!((small.waits, small.held), (<_>::default(), Duration::ZERO));
    let [own, other] = [LARGE, SMALL].map(|app| behind(&large.behind_in_storage, app).as_secs_f64());
    let (found, due) = (other / (own + other), 1.0 / (15.0 * 9.0 + 1.0));
    assert!((found - due).abs() < 0.002, "{found} instead of {due}");
}

/// Symptom: after a change from manage to observe, `vpfs why` and the log said that the storage was slow, and that
/// nobody waited for a neighbour. Cause: what requests took beside others while they were managed counted as the best.
#[test]
fn others_are_named_under_management_and_after_it_and_the_storage_never() {
    let depth = Depth::new(4).unwrap();
    for managed in [PolicyKind::SfqD, PolicyKind::Isolation] {
        let mut storage = Storage::new(managed, depth);
        storage.enqueue(SMALL);
        (0..3000).for_each(|_| storage.serve());
        (0..16).for_each(|_| _ = storage.enqueue(LARGE));
        let check = |storage: &mut Storage, what: &str| {
            let before = storage.account(SMALL);
            (0..8000).for_each(|_| storage.serve());
            let after = storage.account(SMALL);
            let [(time, requests), (time_before, requests_before)] =
                [&after, &before].map(|small| (small.write.waited.sum + small.write.served.sum, small.write.requests));
            let waited = |small: &AppAccount| behind(&small.behind, LARGE) + behind(&small.behind_in_storage, LARGE);
            let served = MS * u32::try_from(requests - requests_before).unwrap();
            let whole = (time - time_before).as_secs_f64();
            let found = (waited(&after) - waited(&before)).as_secs_f64() / whole;
            let due = 1.0 - served.as_secs_f64() / whole;
            assert!((found - due).abs() < 0.01, "{managed:?}, {what}: {found} of its time instead of {due}");
            assert!(after.in_storage.iter().all(|times| times.slower.is_zero()), "{managed:?}, {what}: {after:?}");
        };
        check(&mut storage, "managed");
        for (policy, depth, what) in [(PolicyKind::Fifo, Depth::ONE, "observed"), (managed, depth, "managed again")] {
            let policy = Settings::new(policy, depth, SlotCostTable::uniform());
            let settings = NodeSettings { policy, metadata_cost: Bytes::kib(8), peers: None };
            storage.node.reconfigure(storage.now, &settings);
            storage.node.drain(storage.now, &mut storage.out);
            check(&mut storage, what);
        }
        let mut observed = Storage::new(PolicyKind::Fifo, Depth::ONE);
        observed.enqueue(SMALL);
        (0..16).for_each(|_| _ = observed.enqueue(LARGE));
        check(&mut observed, "observed, never alone");
    }
}

#[test]
fn slower_storage_is_noticed_by_one_that_has_it_to_itself() {
    let mut storage = Storage::new(PolicyKind::Fifo, Depth::ONE);
    storage.enqueue(SMALL);
    let alone = |storage: &mut Storage| times(&storage.account(SMALL), Situation::Alone);
    (0..3000).for_each(|_| storage.serve());
    assert_eq!((alone(&mut storage).slower_since, alone(&mut storage).slower), (None, Duration::ZERO));
    storage.slower = 3;
    let began = storage.now;
    (0..3000).for_each(|_| storage.serve());
    let late = alone(&mut storage).slower_since.unwrap().nanos_since(began);
    assert!(late < 1_000_000_000, "{late}");
    let lost = alone(&mut storage).slower;
    assert!((4 * MS * 1000..=6 * MS * 1000).contains(&lost), "two thirds of nine seconds, without the first: {lost:?}");
    storage.slower = 1;
    (0..3000).for_each(|_| storage.serve());
    assert_eq!(alone(&mut storage).slower_since, None);
}

#[test]
fn a_cap_is_known_as_the_reason() {
    let mut storage = Storage::new(PolicyKind::SfqD, Depth::ONE);
    let policy = AppPolicy { cap: Cap::new(1 << 16, Bytes(1)), ..AppPolicy::default() };
    storage.node.set_app(Time::ZERO, SMALL, "small", &policy);
    storage.enqueue(SMALL);
    storage.serve();
    assert!(storage.out.dispatched.is_empty(), "a second has to pass");
    assert_eq!((storage.account(SMALL).last_wait, storage.account(SMALL).write.queued), (None, 1));
    storage.now = storage.node.poll_timeout().unwrap();
    storage.node.handle_timeout(storage.now);
    storage.node.drain(storage.now, &mut storage.out);
    let account = storage.account(SMALL);
    let wait = account.last_wait.unwrap();
    assert_eq!((wait.rule, wait.behind, account.held), (Rule::Cap, None, wait.time));
    assert!(wait.time > 900 * MS && account.behind == WaitedFor::default(), "{account:?}");
    assert_eq!(account.waits[Rule::Cap as usize], wait.time);
    assert_eq!(account.policy.cap, policy.cap);
}

#[test]
fn what_is_queued_and_outstanding_is_counted_by_kind() {
    let mut storage = Storage::new(PolicyKind::SfqD, Depth::ONE);
    let [first, second, third] = [SMALL; 3].map(|app| storage.enqueue(app));
    let counts = |storage: &mut Storage| {
        let write = storage.account(SMALL).write;
        (write.queued, write.outstanding, write.requests)
    };
    assert_eq!(counts(&mut storage), (2, 1, 0));
    storage.node.cancel(storage.now, second);
    assert_eq!(counts(&mut storage), (1, 1, 0));
    storage.node.release(storage.now, first);
    storage.node.drain(storage.now, &mut storage.out);
    assert_eq!(counts(&mut storage), (0, 1, 0), "a released request waits for its client");
    for key in [first, third] {
        storage.node.complete(storage.now, key, &Served::new(OpKind::Write, Time::ZERO, Time::ZERO));
    }
    assert_eq!(counts(&mut storage), (0, 0, 2));
    assert_eq!(storage.account(SMALL).activities()[0].requests, 0, "none of them reads");
}
