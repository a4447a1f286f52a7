//! Shares: applications that share one weight, and trees of shares.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use vpfs_core::testing::Random;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Cap, Deadlines, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler, Settings,
    ShareId, SharePolicy, SlotCostTable, Time, Weight,
};

use crate::common::{depth, weight};

/// The application with a name and a weight of its own; all others are members of a group of weight 1.
const NAMED: AppId = AppId(0);
const NAMED_WEIGHT: u32 = 4;
/// The policies that have weights.
const WEIGHTED: [PolicyKind; 4] = [PolicyKind::Isolation, PolicyKind::SfqD, PolicyKind::SfqDPlus, PolicyKind::TwoLevel];

fn member(number: u32) -> AppId {
    AppId(NAMED.0 + 1 + number)
}

/// A disk that serves one request after another, and what its applications got.
struct Disk {
    scheduler: Policy,
    now: Time,
    /// By request id.
    requests: BTreeMap<RequestId, (AppId, Bytes)>,
    in_it: VecDeque<RequestId>,
    done_at: Option<Time>,
    served: BTreeMap<AppId, u64>,
}

impl Disk {
    fn new(kind: PolicyKind) -> Self {
        let mut settings = Settings::new(kind, depth(8), SlotCostTable::default());
        // Paced deadlines share by the isolation engine.
        settings.two_level.deadlines = Deadlines::Paper;
        let mut scheduler = Policy::new(&settings, 0);
        scheduler.set_app(Time::ZERO, NAMED, &AppPolicy::weighted(weight(NAMED_WEIGHT)));
        Self {
            scheduler,
            now: Time::ZERO,
            requests: BTreeMap::new(),
            in_it: VecDeque::new(),
            done_at: None,
            served: BTreeMap::new(),
        }
    }

    fn join(&mut self, members: u32, share: Option<ShareId>) {
        let policy = AppPolicy { share, ..AppPolicy::weighted(Weight::ONE) };
        (0..members).for_each(|number| self.scheduler.set_app(self.now, member(number), &policy));
    }

    fn send(&mut self, id: RequestId, app: AppId, size: Bytes) {
        self.requests.insert(id, (app, size));
        self.scheduler.enqueue(self.now, Request::new(id, app, OpKind::Write, size));
    }

    /// Sends `count` requests.
    fn start(&mut self, count: u32, app: AppId, size: Bytes) {
        let first = u32::try_from(self.requests.len()).expect("few");
        (first..first + count).for_each(|id| self.send(RequestId(id), app, size));
    }

    /// Runs for some seconds. `next` gives the application of the request that takes the place of a completed one of
    /// the same size.
    fn run(&mut self, seconds: u64, mut next: impl FnMut(AppId) -> AppId) {
        let until = self.now + Duration::from_secs(seconds);
        self.served.clear();
        while self.now < until {
            while let Some(dispatch) = self.scheduler.poll_dispatch(self.now) {
                self.in_it.push_back(dispatch.id);
            }
            if let (None, Some(first)) = (self.done_at, self.in_it.front()) {
                let (_, size) = self.requests[first];
                self.done_at = Some(self.now + Duration::from_nanos(100_000 + size.0 * 5));
            }
            let timer = self.scheduler.poll_timeout();
            self.now = self.now.max([self.done_at, timer].into_iter().flatten().min().expect("always busy"));
            if self.done_at.is_none_or(|at| at > self.now) {
                self.scheduler.handle_timeout(self.now);
                continue;
            }
            self.done_at = None;
            let id = self.in_it.pop_front().expect("it is done");
            let (app, size) = self.requests[&id];
            self.scheduler.complete(self.now, id);
            *self.served.entry(app).or_default() += size.0;
            self.send(id, next(app), size);
        }
    }

    /// The service of the named application, relative to that of all others.
    fn ratio(&self) -> f64 {
        let named = self.served[&NAMED];
        named as f64 / (self.served.values().sum::<u64>() - named) as f64
    }
}

/// The ratio while the named application and 20 others always have requests queued.
fn twenty(kind: PolicyKind, share: Option<ShareId>) -> (f64, Disk) {
    let mut disk = Disk::new(kind);
    disk.join(20, share);
    disk.start(40, NAMED, Bytes::mib(1));
    (0..20).for_each(|number| disk.start(4, member(number), Bytes::mib(1)));
    disk.run(10, |app| app);
    disk.run(60, |app| app);
    (disk.ratio(), disk)
}

#[track_caller]
fn assert_near(got: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((got / wanted - 1.0).abs() <= tolerance, "{what}: {got:.3} instead of {wanted:.3}");
}

/// Symptom: 20 addresses or claimed uids turned 4:1 into 1:5. Cause: each had a weight of its own.
#[test]
fn twenty_members_of_a_group_have_one_weight() {
    for kind in WEIGHTED {
        let (together, disk) = twenty(kind, Some(ShareId(0)));
        assert_near(together, 4.0, 0.05, kind.name());
        let members = disk.served.values().sum::<u64>() - disk.served[&NAMED];
        for number in 0..20 {
            let own = disk.served[&member(number)] as f64;
            assert_near(own, members as f64 / 20.0, 0.1, "a member is as good as any other");
        }
        let (each, _) = twenty(kind, None);
        assert!(each < 0.3, "without a group: {each}");
    }
}

/// Every request of the group is under another of many names.
///
/// Symptom: 1,000 names got the whole disk for five seconds, and under `isolation` half of it for a minute. Cause: each
/// new name started at virtual time, and was interactive at first; and a group was no bulk flow unless it had half as
/// much pending as the largest, however much it took.
#[test]
fn names_that_take_turns_have_one_weight() {
    for kind in WEIGHTED {
        for (names, at_once) in [(100, 1), (100, 3), (100, 40), (1000, 8), (1000, 40), (10_000, 40), (10_000, 100)] {
            if kind == PolicyKind::Isolation && at_once < 8 {
                // Weights hold for those that have enough pending to fill the storage.
                continue;
            }
            let mut disk = Disk::new(kind);
            disk.join(names, Some(ShareId(0)));
            disk.start(40, NAMED, Bytes::mib(1));
            (0..at_once).for_each(|number| disk.start(1, member(number), Bytes::mib(1)));
            let mut last = at_once;
            let mut next = |app| {
                if app == NAMED {
                    return app;
                }
                last += 1;
                member(last % names)
            };
            let mut ratio = |seconds| {
                disk.run(seconds, &mut next);
                disk.ratio()
            };
            // A group with one request at a time may get less than its share, but not more.
            let (first, _, last) = (ratio(5), ratio(25), ratio(60));
            println!("{}, {names} names, {at_once} at once: {first:.2}, later {last:.2}", kind.name());
            assert!(first > 0.7 && last > 3.8, "{}, {names} names: {first:.3}, later {last:.3}", kind.name());
        }
    }
}

/// A member that waits for each of its small requests keeps its speed beside a bulk member of the same group.
#[test]
fn an_interactive_member_is_protected_from_a_bulk_one() {
    let small = |share| {
        let mut disk = Disk::new(PolicyKind::Isolation);
        disk.join(2, share);
        disk.start(1, member(0), Bytes::kib(4));
        disk.start(40, member(1), Bytes::mib(1));
        disk.run(10, |app| app);
        disk.run(30, |app| app);
        disk.served[&member(0)] as f64
    };
    // The rates that are found differ, but not by an order of magnitude as without protection.
    assert_near(small(Some(ShareId(0))), small(None), 0.4, "as without a group");
}

/// As after a reload of the configuration: members that have requests queued join a group, and leave it.
#[test]
fn groups_change_while_requests_are_queued() {
    for kind in WEIGHTED {
        let (_, mut disk) = twenty(kind, None);
        disk.join(20, Some(ShareId(0)));
        disk.run(10, |app| app);
        disk.run(60, |app| app);
        assert_near(disk.ratio(), 4.0, 0.05, kind.name());
        disk.join(20, None);
        disk.run(10, |app| app);
        disk.run(60, |app| app);
        // Under isolation those that take less than their part go first, and each of these is near it.
        assert!(disk.ratio() < 0.22, "{}: {}", kind.name(), disk.ratio());
        disk.join(20, Some(ShareId(1)));
        disk.run(10, |app| app);
        disk.run(60, |app| app);
        assert_near(disk.ratio(), 4.0, 0.05, kind.name());
    }
}

/// A new policy gets the groups, too.
#[test]
fn groups_survive_a_change_of_the_policy() {
    let (_, mut disk) = twenty(PolicyKind::Fifo, Some(ShareId(0)));
    let settings = Settings::new(PolicyKind::SfqDPlus, depth(8), SlotCostTable::default());
    disk.scheduler.reconfigure(disk.now, &settings);
    disk.run(10, |app| app);
    disk.run(60, |app| app);
    assert_near(disk.ratio(), 4.0, 0.05, "after the change");
}

// Trees of shares against recursive water-filling: what is due to each application by weights and demands.

fn id(app: usize) -> AppId {
    AppId(u32::try_from(app).expect("few"))
}

#[expect(clippy::cast_possible_truncation, reason = "a part of what is served in a phase")]
fn bytes(bytes: f64) -> u64 {
    bytes as u64
}

/// What an application does in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Activity {
    Idle,
    /// Always has requests queued.
    Greedy,
    /// Asks for this part of the storage.
    Asks(f64),
}

/// An application, or a share with what is in it.
#[derive(Debug)]
enum Tree {
    App { app: AppId, weight: u32 },
    Share { share: ShareId, weight: u32, inside: Vec<Tree> },
}

impl Tree {
    fn weight(&self) -> u32 {
        let (Self::App { weight, .. } | Self::Share { weight, .. }) = self;
        *weight
    }
}

/// Siblings; `[apps, shares]` are the numbers given so far.
fn siblings(random: &mut Random, levels: u32, numbers: &mut [u32; 2]) -> Vec<Tree> {
    let count = if levels == 4 { 2 + random.below(3) } else { 1 + random.below(3) };
    let one = |random: &mut Random, numbers: &mut [u32; 2]| {
        let is_share = levels > 0 && random.below(3) > 0 && numbers[0] < 12;
        let most = if random.below(4) == 0 { 1000 } else { 8 };
        let weight = 1 + random.below(most);
        let number = &mut numbers[usize::from(is_share)];
        *number += 1;
        let number = *number - 1;
        if is_share {
            Tree::Share { share: ShareId(number), weight, inside: siblings(random, levels - 1, numbers) }
        } else {
            Tree::App { app: AppId(number), weight }
        }
    };
    (0..count).map(|_| one(random, numbers)).collect()
}

/// The part of the storage that each application can use, at most.
fn demand(tree: &Tree, active: &[Activity]) -> f64 {
    match tree {
        Tree::App { app, .. } => match active[app.index()] {
            Activity::Idle => 0.0,
            Activity::Greedy => f64::INFINITY,
            Activity::Asks(part) => part,
        },
        Tree::Share { inside, .. } => inside.iter().map(|tree| demand(tree, active)).sum(),
    }
}

/// Gives `part` of the storage to these siblings: to each as much as it asks for, but no more than its weight allows
/// while others want more.
fn fill(siblings: &[Tree], part: f64, active: &[Activity], due: &mut [f64]) {
    let mut left = part;
    let mut wanting: Vec<(&Tree, f64)> = siblings.iter().map(|tree| (tree, demand(tree, active))).collect();
    wanting.retain(|(_, demand)| *demand > 0.0);
    loop {
        let weights: f64 = wanting.iter().map(|(tree, _)| f64::from(tree.weight())).sum();
        let fair = |tree: &Tree| left * f64::from(tree.weight()) / weights;
        let content = wanting.iter().position(|(tree, demand)| *demand <= fair(tree));
        let Some(content) = content else {
            wanting.iter().for_each(|(tree, _)| give(tree, fair(tree), active, due));
            return;
        };
        let (tree, demand) = wanting.swap_remove(content);
        give(tree, demand, active, due);
        left -= demand;
    }
}

fn give(tree: &Tree, part: f64, active: &[Activity], due: &mut [f64]) {
    match tree {
        Tree::App { app, .. } => due[app.index()] = part,
        Tree::Share { inside, .. } => fill(inside, part, active, due),
    }
}

fn due(tree: &[Tree], active: &[Activity]) -> Vec<f64> {
    let mut due = vec![0.0; active.len()];
    fill(tree, 1.0, active, &mut due);
    due
}

/// Storage that serves one byte in a nanosecond, one request after another.
struct Storage {
    scheduler: Policy,
    now: u64,
    free: Vec<RequestId>,
    next_id: u32,
    served: Vec<u64>,
}

impl Storage {
    fn new(kind: PolicyKind, tree: &[Tree], apps: usize) -> Self {
        let mut settings = Settings::new(kind, depth(1), SlotCostTable::uniform());
        settings.two_level.deadlines = Deadlines::Paper;
        let mut storage =
            Self { scheduler: Policy::new(&settings, 0), now: 0, free: Vec::new(), next_id: 0, served: vec![0; apps] };
        storage.set(tree, None);
        storage
    }

    fn set(&mut self, siblings: &[Tree], parent: Option<ShareId>) {
        let at = Time::from_nanos(self.now);
        for tree in siblings {
            let weight = weight(tree.weight());
            match tree {
                Tree::App { app, .. } => {
                    self.scheduler.set_app(at, *app, &AppPolicy { share: parent, ..AppPolicy::weighted(weight) });
                }
                Tree::Share { share, inside, .. } => {
                    self.scheduler.set_share(at, *share, Some(&SharePolicy { weight, parent, ..SharePolicy::NEW }));
                    self.set(inside, Some(*share));
                }
            }
        }
    }

    fn send(&mut self, app: AppId, cost: u64) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.next_id += 1;
            RequestId(self.next_id - 1)
        });
        let request = Request::new(id, app, OpKind::Write, Bytes(cost));
        self.scheduler.enqueue(Time::from_nanos(self.now), request);
    }

    /// Serves for `length` with requests of these costs; greedy applications replace each of their requests, others
    /// send one in each `every`. Returns what each got.
    fn run(&mut self, active: &[Activity], costs: &[u64], length: u64, every: u64) -> Vec<u64> {
        let end = self.now + length;
        self.served.fill(0);
        let asking: Vec<usize> = (0..active.len()).filter(|app| matches!(active[*app], Activity::Asks(_))).collect();
        // They do not all come at the same time.
        let mut next: Vec<u64> = asking.iter().map(|app| self.now + every / 17 * (*app as u64 % 17)).collect();
        while self.now < end {
            for (index, &app) in asking.iter().enumerate() {
                while next[index] <= self.now {
                    self.send(id(app), costs[app]);
                    next[index] += every;
                }
            }
            let Some(dispatch) = self.scheduler.poll_dispatch(Time::from_nanos(self.now)) else {
                self.now = next.iter().copied().min().unwrap_or(end).max(self.now);
                continue;
            };
            let app = dispatch.app;
            let took = costs[app.index()].max(1);
            self.now += took;
            self.scheduler.complete(Time::from_nanos(self.now), dispatch.id);
            self.free.push(dispatch.id);
            self.served[app.index()] += took;
            if active[app.index()] == Activity::Greedy {
                self.send(app, took);
            }
        }
        self.served.clone()
    }
}

/// What applications do next. Those that ask for a part ask for less than would be due to them if they were greedy.
fn activities(random: &mut Random, tree: &[Tree], apps: usize, asking: bool) -> Vec<Activity> {
    let mut active: Vec<Activity> =
        (0..apps).map(|_| if random.below(3) == 0 { Activity::Idle } else { Activity::Greedy }).collect();
    active[random.below(id(apps).0) as usize] = Activity::Greedy;
    let greedy = due(tree, &active);
    for app in (0..apps).filter(|app| greedy[*app] > 0.0 && greedy[*app] < 1.0) {
        if asking && random.below(3) == 0 {
            active[app] = Activity::Asks(greedy[app] * f64::from(1 + random.below(7)) / 10.0);
        }
    }
    active
}

/// The largest deviation from what is due, over all applications and some phases with different activities.
fn deviation(kind: PolicyKind, seed: u64, requests: u64, asking: bool) -> f64 {
    // So long that what is asked for is exact in bytes.
    const LENGTH: u64 = 1 << 58;
    let random = &mut Random::new(seed);
    let mut numbers = [0; 2];
    let tree = siblings(random, 4, &mut numbers);
    let apps = numbers[0] as usize;
    let mut storage = Storage::new(kind, &tree, apps);
    let mut worst: f64 = 0.0;
    for _ in 0..2 {
        let active = activities(random, &tree, apps, asking);
        let due = due(&tree, &active);
        let costs: Vec<u64> = due.iter().map(|part| bytes(part * LENGTH as f64) / requests).collect();
        for app in (0..apps).filter(|app| active[*app] == Activity::Greedy) {
            (0..2).for_each(|_| storage.send(id(app), costs[app]));
        }
        storage.run(&active, &costs, LENGTH / 8, LENGTH / requests);
        let got = storage.run(&active, &costs, LENGTH, LENGTH / requests);
        for (app, due) in due.iter().enumerate().filter(|(_, due)| **due > 0.0) {
            let error = got[app] as f64 / LENGTH as f64 / due - 1.0;
            worst = worst.max(error.abs());
        }
        // Whatever is still queued is served before the next phase.
        storage.run(&vec![Activity::Idle; apps], &costs, LENGTH / 4, LENGTH);
    }
    worst
}

/// In each of these trees, everybody gets what is due within 1 %.
fn assert_within_one_percent(kind: PolicyKind, seeds: Range<u64>, asking: bool) {
    let all = seeds.map(|seed| (seed, deviation(kind, seed, 400, asking)));
    let beyond: Vec<_> = all.filter(|(_, worst)| *worst > 0.01).collect();
    assert!(beyond.is_empty(), "{}: seeds and deviations: {beyond:?}", kind.name());
}

#[test]
fn trees_of_applications_that_come_and_go() {
    assert_within_one_percent(PolicyKind::SfqD, 0..200, false);
}

/// Others get what these leave, those beside them first, although they come and go with each of their requests.
///
/// Symptom: 33 times of what was due, or nothing. Cause: a tag that was given beside somebody who then left stayed.
///
/// Symptom: beside a share of which three ask for little, somebody gets 16 % less. Cause: those start one after
/// another, and each counted from the start of its first request on as if it had come only then, so they were present
/// for longer than what they got takes.
///
/// Symptom: 1 to 2 % less in one tree in a thousand. Cause: only some noticed at once that others came or left.
#[test]
fn trees_with_applications_that_ask_for_little() {
    assert_within_one_percent(PolicyKind::SfqD, 5_000..5_300, true);
}

#[test]
#[ignore = "a long simulation; hundreds of each kind are in the fast tier"]
fn ten_thousand_trees() {
    assert_within_one_percent(PolicyKind::SfqD, 0..5_000, false);
    assert_within_one_percent(PolicyKind::SfqD, 5_000..10_000, true);
}

#[test]
fn other_policies_that_share_by_weight_only() {
    for kind in [PolicyKind::SfqDPlus, PolicyKind::TwoLevel] {
        assert_within_one_percent(kind, 10_000..10_100, true);
    }
}

/// MB/s that applications 0 to 3 get in ten seconds of storage without a limit, where they have four requests of 1 MB
/// each all the time. 0 and 1 are in a share of a share with 2, which has this cap; the cap of 0 is 10 MB/s.
fn capped(cap: Option<u64>, change: Option<u64>) -> [u64; 4] {
    const MB: u64 = 1_000_000;
    let settings = Settings::new(PolicyKind::Fifo, depth(1), SlotCostTable::uniform());
    let mut scheduler = Policy::new(&settings, 0);
    let cap_of = |mb: u64| Cap::new(mb * MB, Bytes(MB));
    let outer = |mb: Option<u64>| SharePolicy { cap: mb.and_then(cap_of), ..SharePolicy::default() };
    let inner = SharePolicy { parent: Some(ShareId(0)), ..SharePolicy::default() };
    scheduler.set_share(Time::ZERO, ShareId(0), Some(&outer(cap)));
    scheduler.set_share(Time::ZERO, ShareId(1), Some(&inner));
    for (app, share, cap) in [(0, Some(1), cap_of(10)), (1, Some(1), None), (2, Some(0), None), (3, None, cap_of(50))] {
        let policy = AppPolicy { share: share.map(ShareId), cap, ..AppPolicy::default() };
        scheduler.set_app(Time::ZERO, AppId(app), &policy);
    }
    let send = |scheduler: &mut Policy, now, id: RequestId| {
        scheduler.enqueue(now, Request::new(id, AppId(id.0 % 4), OpKind::Write, Bytes(MB)));
    };
    (0..16).for_each(|id| send(&mut scheduler, Time::ZERO, RequestId(id)));
    let mut served = [0; 4];
    for ms in 0..10_000 {
        let now = Time::from_millis(ms);
        if ms == 5_000 && change.is_some() {
            served = [0; 4];
            scheduler.set_share(now, ShareId(0), Some(&outer(change)));
        }
        scheduler.handle_timeout(now);
        let gone: Vec<RequestId> =
            std::iter::from_fn(|| scheduler.poll_dispatch(now).map(|dispatch| dispatch.id)).collect();
        for id in gone {
            scheduler.complete(now, id);
            served[(id.0 % 4) as usize] += 1;
            send(&mut scheduler, now, id);
        }
    }
    served.map(|requests| requests / if change.is_some() { 5 } else { 10 })
}

#[test]
fn a_cap_of_a_share_limits_all_in_it_and_they_divide_it_by_weight() {
    let near = |got: [u64; 4], wanted: [u64; 4]| {
        assert!(got.iter().zip(&wanted).all(|(got, wanted)| got.abs_diff(*wanted) <= 1), "{got:?}, not {wanted:?}");
    };
    near(capped(Some(100), None), [10, 40, 50, 50]);
    near(capped(Some(20), None), [5, 5, 10, 50]);
    near(capped(Some(20), Some(100)), [10, 40, 50, 50]);
}
