//! Minimum rates under `isolation`, on a disk of 60 MB/s that serves one request after another.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vpfs_core::total::Reach;
use vpfs_core::{
    AppId, AppPolicy, Bytes, Depth, Minimum, OpKind, Policy, PolicyKind, Request, RequestId, Scheduler, Scope,
    ServiceClass, Settings, ShareId, SharePolicy, SlotCostTable, Time, TotalId, TotalKind, Weight,
};

const MB: u64 = 1_000_000;

/// An application whose processes each wait for a request and then think.
#[derive(Clone, Copy)]
struct App {
    weight: u32,
    /// MB/s.
    minimum: u64,
    share: Option<ShareId>,
    processes: u32,
    kib: u64,
    think: Duration,
}

const BUSY: App = App { weight: 1, minimum: 0, share: None, processes: 8, kib: 256, think: Duration::ZERO };

/// A minimum of MB/s at one server; 0 for none.
fn minimum(rate: u64) -> Option<Minimum> {
    (rate > 0).then_some(Minimum { rate: Bytes(rate * MB), scope: Scope::Server })
}

fn id_of(app: usize) -> AppId {
    AppId(u32::try_from(app).expect("few applications"))
}

struct Disk {
    scheduler: Policy,
    apps: Vec<App>,
    now: Time,
    in_it: VecDeque<RequestId>,
    done_at: Option<Time>,
    coming: BTreeMap<(Time, RequestId), ()>,
    served: Vec<u64>,
}

impl Disk {
    fn new(apps: &[App]) -> Self {
        let mut disk = Self {
            scheduler: Policy::new(&Settings::new(PolicyKind::Isolation, Depth::ONE, SlotCostTable::default()), 64),
            apps: apps.to_vec(),
            now: Time::ZERO,
            in_it: VecDeque::new(),
            done_at: None,
            coming: BTreeMap::new(),
            served: vec![0; apps.len()],
        };
        (0..apps.len()).for_each(|app| disk.set(app, apps[app]));
        for app in 0..apps.len() {
            disk.start(app);
        }
        disk
    }

    /// Changes the weight and the minimum of an application.
    fn set(&mut self, app: usize, to: App) {
        self.apps[app] = to;
        let policy = AppPolicy {
            minimum: minimum(to.minimum),
            share: to.share,
            ..AppPolicy::weighted(Weight::new(to.weight).expect("a weight"))
        };
        self.scheduler.set_app(self.now, id_of(app), &policy);
    }

    /// Gives shares their minima in MB/s; each is in the one with the second number, if there is one.
    fn with_shares(mut self, shares: &[(u64, Option<u32>)]) -> Self {
        for (share, (rate, parent)) in (0..).zip(shares) {
            let policy = SharePolicy { minimum: minimum(*rate), parent: parent.map(ShareId), ..SharePolicy::NEW };
            self.scheduler.set_share(self.now, ShareId(share), Some(&policy));
        }
        self
    }

    fn start(&mut self, app: usize) {
        for process in 0..self.apps[app].processes {
            self.coming.insert((self.now, RequestId(id_of(app).0 * 100 + process)), ());
        }
    }

    fn app_of(id: RequestId) -> usize {
        (id.0 / 100) as usize
    }

    fn request(&self, id: RequestId) -> Request {
        let app = Self::app_of(id);
        Request::new(id, id_of(app), OpKind::Write, Bytes::kib(self.apps[app].kib))
    }

    fn dispatch(&mut self) {
        while let Some(dispatch) = self.scheduler.poll_dispatch(self.now) {
            self.in_it.push_back(dispatch.id);
        }
        while self.scheduler.poll_event().is_some() {}
        if self.done_at.is_none()
            && let Some(&first) = self.in_it.front()
        {
            self.done_at = Some(self.now + Duration::from_nanos(self.request(first).cost.0 * 1000 / 60));
        }
    }

    fn complete(&mut self) {
        let id = self.in_it.pop_front().expect("a request");
        self.done_at = None;
        let app = Self::app_of(id);
        self.served[app] += self.request(id).cost.0;
        self.scheduler.complete(self.now, id);
        if self.apps[app].processes > 0 {
            self.coming.insert((self.now + self.apps[app].think, id), ());
        }
    }

    /// Runs for `seconds`; returns what each application got, in MB/s.
    fn run(&mut self, seconds: u64) -> Vec<f64> {
        let (before, until) = (self.served.clone(), self.now + Duration::from_secs(seconds));
        loop {
            self.dispatch();
            let comes = self.coming.keys().next().copied();
            let next = [self.done_at, self.scheduler.poll_timeout(), comes.map(|(at, _)| at)];
            let next = next.into_iter().flatten().min().unwrap_or(until);
            if next >= until {
                self.now = until;
                let got = self.served.iter().zip(&before).map(|(now, before)| (now - before) as f64);
                return got.map(|bytes| bytes / MB as f64 / seconds as f64).collect();
            }
            self.now = self.now.max(next);
            if self.done_at == Some(next) {
                self.complete();
            } else if let Some((at, id)) = comes.filter(|(at, _)| *at == next) {
                self.coming.remove(&(at, id));
                self.scheduler.enqueue(self.now, self.request(id));
            } else {
                self.scheduler.handle_timeout(self.now);
            }
        }
    }
}

fn assert_near(got: f64, expected: f64, percent: f64) {
    assert!((got - expected).abs() <= expected * percent / 100.0, "{got:.2} instead of {expected:.2} MB/s");
}

#[test]
fn a_minimum_above_the_share_is_kept_and_the_others_keep_their_proportions() {
    let others = [App { weight: 6, ..BUSY }, App { weight: 3, ..BUSY }];
    let mut without = Disk::new(&[BUSY, others[0], others[1]]);
    without.run(10);
    assert_near(without.run(20)[0], 6.0, 5.0);

    let mut disk = Disk::new(&[App { minimum: 24, ..BUSY }, others[0], others[1]]);
    disk.run(10);
    let got = disk.run(20);
    assert_near(got[0], 24.0, 3.0);
    assert_near(got[1], 24.0, 5.0);
    assert_near(got[2], 12.0, 5.0);
}

#[test]
fn what_it_does_not_ask_for_goes_to_the_others() {
    // 64 KiB in some 10 ms.
    let idle = App { minimum: 40, processes: 1, kib: 64, think: Duration::from_millis(10), ..BUSY };
    let mut disk = Disk::new(&[idle, App { weight: 9, ..BUSY }]);
    disk.run(10);
    let got = disk.run(20);
    assert!((3.0..=6.5).contains(&got[0]), "{got:?}");
    assert!(got[0] + got[1] > 50.0, "{got:?}");
}

#[test]
fn service_is_not_saved_up_during_a_pause() {
    let away = App { processes: 0, minimum: 24, ..BUSY };
    let mut disk = Disk::new(&[away, App { weight: 9, ..BUSY }]);
    disk.run(30);
    disk.set(0, App { processes: 8, ..away });
    disk.start(0);
    let got = disk.run(3);
    assert!(got[0] < 24.0 * 1.1, "{got:?}");
    assert!(got[0] > 24.0 * 0.9, "{got:?}");
}

#[test]
fn minima_beyond_the_storage_are_kept_in_proportion_and_stop_nobody() {
    let apps = [App { minimum: 120, ..BUSY }, App { minimum: 60, ..BUSY }, BUSY];
    let mut disk = Disk::new(&apps);
    disk.run(10);
    let got = disk.run(20);
    assert_near(got[0] / got[1], 2.0, 10.0);
    assert!(got[2] > 60.0 * 0.03, "a twentieth of the time is for others: {got:?}");
    assert!(got.iter().sum::<f64>() > 59.0, "{got:?}");
}

#[test]
fn a_bulk_application_keeps_its_minimum_beside_interactive_ones() {
    let interactive = App { weight: 20, processes: 1, kib: 4, think: Duration::from_millis(1), ..BUSY };
    let mut disk = Disk::new(&[App { minimum: 30, kib: 1024, ..BUSY }, interactive]);
    disk.run(10);
    let got = disk.run(20);
    assert!(got[0] > 30.0 * 0.97, "{got:?}");
    assert!(got[1] > 0.1, "{got:?}");
}

#[test]
fn service_at_other_servers_counts_and_is_told() {
    let mut disk = Disk::new(&[BUSY, App { weight: 9, ..BUSY }]);
    let minimum = Some(Minimum { rate: Bytes(24 * MB), scope: Scope::Total });
    disk.scheduler.set_reach(Time::ZERO, Reach { reachable: 2, servers: 2 });
    disk.scheduler.set_app(Time::ZERO, AppId(0), &AppPolicy { minimum, ..AppPolicy::default() });
    disk.run(10);
    assert_near(disk.run(10)[0], 24.0, 5.0);
    let mut told = 0;
    let id = TotalId { of: AppId(0).into(), kind: TotalKind::Minimum, class: ServiceClass::Data };
    while let Some((total, bytes)) = disk.scheduler.poll_total() {
        assert_eq!(total, id);
        told += bytes;
    }
    assert!(told > 0);
    // Elsewhere it gets all of its minimum, so here it keeps its even part and its share.
    let mut here = 0.0;
    for _ in 0..10 {
        disk.scheduler.totals(id.kind, id.class).unwrap().hear(disk.now, id.of, 24_000_000);
        here += disk.run(1)[0] / 10.0;
    }
    assert!((11.0..=14.0).contains(&here), "{here}");
}

/// Each request of the other application takes 70 ms.
#[test]
fn waiting_for_large_requests_of_others_costs_nothing() {
    let app = App { minimum: 40, processes: 16, ..BUSY };
    let mut disk = Disk::new(&[app, App { weight: 9, processes: 32, kib: 4096, ..BUSY }]);
    let minimum = Some(Minimum { rate: Bytes(40 * MB), scope: Scope::Total });
    disk.scheduler.set_reach(Time::ZERO, Reach { reachable: 4, servers: 4 });
    disk.scheduler.set_app(Time::ZERO, AppId(0), &AppPolicy { minimum, ..AppPolicy::default() });
    disk.run(5);
    assert_near(disk.run(20)[0], 40.0, 5.0);
}

/// An application in share `share`.
fn inside(share: u32, app: App) -> App {
    App { share: Some(ShareId(share)), ..app }
}

/// What they get after some time to learn, on average over a longer one.
fn got(mut disk: Disk) -> Vec<f64> {
    disk.run(10);
    disk.run(20)
}

#[test]
fn the_minimum_of_a_share_is_for_all_in_it_by_weight() {
    let apps = [inside(0, App { weight: 3, ..BUSY }), inside(0, BUSY), App { weight: 9, ..BUSY }];
    let got = got(Disk::new(&apps).with_shares(&[(24, None)]));
    assert_near(got[0], 18.0, 5.0);
    assert_near(got[1], 6.0, 5.0);
    assert_near(got[2], 36.0, 5.0);
}

#[test]
fn the_minimum_of_a_share_below_its_part_changes_nothing() {
    let apps = [inside(0, App { weight: 3, ..BUSY }), inside(0, BUSY), BUSY];
    let got = got(Disk::new(&apps).with_shares(&[(10, None)]));
    assert_near(got[0], 22.5, 5.0);
    assert_near(got[1], 7.5, 5.0);
    assert_near(got[2], 30.0, 5.0);
}

/// Each gets the greater of its own minimum and its part of the share's.
#[test]
fn what_a_member_gets_for_its_minimum_counts_for_its_share() {
    for (own, due) in [(20, [20.0, 10.0]), (5, [15.0, 15.0])] {
        let apps = [inside(0, App { minimum: own, ..BUSY }), inside(0, BUSY), App { weight: 9, ..BUSY }];
        let got = got(Disk::new(&apps).with_shares(&[(30, None)]));
        assert_near(got[0], due[0], 5.0);
        assert_near(got[1], due[1], 5.0);
        assert_near(got[2], 30.0, 5.0);
    }
}

#[test]
fn a_member_keeps_its_minimum_when_others_have_that_of_the_share() {
    let apps = [inside(0, App { minimum: 10, ..BUSY }), inside(0, App { weight: 99, ..BUSY }), BUSY];
    let got = got(Disk::new(&apps).with_shares(&[(40, None)]));
    assert_near(got[0], 10.0, 5.0);
    assert_near(got[1], 30.0, 5.0);
}

#[test]
fn who_asks_for_little_leaves_it_to_those_beside_it() {
    let idle = App { processes: 1, kib: 64, think: Duration::from_millis(20), ..BUSY };
    let apps = [inside(1, idle), inside(1, BUSY), inside(0, App { processes: 0, ..BUSY }), App { weight: 30, ..BUSY }];
    let got = got(Disk::new(&apps).with_shares(&[(40, None), (20, Some(0))]));
    assert_near(got[0] + got[1], 40.0, 7.0);
    assert!(got[0] > 1.2, "{got:?}");
}

/// Each of their requests is a first one, which waits for its start outside of their share.
#[test]
fn a_share_of_many_that_come_and_go_keeps_its_minimum() {
    let guest = App { processes: 1, think: Duration::from_millis(500), ..BUSY };
    let mut apps = vec![inside(0, guest); 80];
    apps.push(App { weight: 30, ..BUSY });
    let mut disk = Disk::new(&apps).with_shares(&[(30, None)]);
    disk.run(10);
    let got = disk.run(20);
    assert_near(got[..80].iter().sum(), 30.0, 5.0);
    // Nor do they wait for what they got beyond their share when that has no minimum any more.
    disk.set(80, BUSY);
    let mut disk = disk.with_shares(&[(0, None)]);
    let got = disk.run(5);
    assert_near(got[..80].iter().sum(), 30.0, 10.0);
}

/// As `memory.min` of cgroups: what a share gets bounds what those in it get.
#[test]
fn minima_in_shares_beyond_the_storage_follow_the_tree() {
    let apps = [inside(0, App { minimum: 60, ..BUSY }), inside(0, App { minimum: 20, ..BUSY }), inside(1, BUSY), BUSY];
    let got = got(Disk::new(&apps).with_shares(&[(80, None), (80, None)]));
    assert_near((got[0] + got[1]) / got[2], 1.0, 10.0);
    assert_near(got[0] / got[1], 3.0, 10.0);
    assert!(got[3] > 60.0 * 0.03, "{got:?}");
}

#[test]
fn a_share_that_had_a_minimum_is_not_held_back_afterwards() {
    let apps = [inside(0, BUSY), inside(0, App { weight: 2, ..BUSY }), App { weight: 2, ..BUSY }];
    let mut disk = Disk::new(&apps).with_shares(&[(40, None)]);
    assert_near(disk.run(60)[..2].iter().sum(), 40.0, 5.0);
    let mut disk = disk.with_shares(&[(0, None)]);
    disk.run(1);
    let got = disk.run(5);
    assert_near(got[0] + got[1], 20.0, 8.0);
    assert_near(got[1] / got[0], 2.0, 10.0);
}

/// Places and minima change while requests wait.
#[test]
fn minima_move_with_who_has_them() {
    let apps = [inside(0, App { minimum: 20, ..BUSY }), inside(1, BUSY), App { weight: 9, ..BUSY }];
    let mut disk = Disk::new(&apps).with_shares(&[(30, None), (0, None)]);
    disk.run(10);
    assert_near(disk.run(20)[0], 30.0, 5.0);
    disk.set(0, inside(1, App { minimum: 20, ..BUSY }));
    disk.run(1);
    assert_near(disk.run(20)[0], 20.0, 5.0);
    let mut disk = disk.with_shares(&[(30, None), (40, None)]);
    disk.run(1);
    let got = disk.run(20);
    assert_near(got[0] + got[1], 40.0, 5.0);
    let mut disk = disk.with_shares(&[(30, None), (0, Some(0))]);
    disk.run(1);
    let got = disk.run(20);
    assert_near(got[0] + got[1], 30.0, 5.0);
}
