//! Whether what both get is steady, on a disk that serves one request after another.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::Isolation;
use crate::request::{OpKind, Request};
use crate::scheduler::Scheduler;
use crate::units::{AppId, Bytes, RequestId, Time};

const SMALL: AppId = AppId(0);
const LARGE: AppId = AppId(1);
const THINK: Duration = Duration::from_millis(2);

/// A small application that waits for each 4 KiB and thinks, beside twelve writers of 1 MiB, before a disk of 5 ms and 60 MB/s.
struct Disk {
    scheduler: Isolation,
    now: Time,
    in_it: VecDeque<RequestId>,
    done_at: Option<Time>,
    /// When requests come that are not there yet.
    coming: BTreeMap<Time, RequestId>,
    served: [u32; 2],
}

fn request(id: RequestId) -> Request {
    let (app, size) = if id.index() == 0 { (SMALL, Bytes::kib(4)) } else { (LARGE, Bytes::mib(1)) };
    Request::new(id, app, OpKind::Write, size)
}

impl Disk {
    fn new(scheduler: Isolation) -> Self {
        let mut disk = Self {
            scheduler,
            now: Time::ZERO,
            in_it: VecDeque::new(),
            done_at: None,
            coming: BTreeMap::new(),
            served: [0; 2],
        };
        (0..13).for_each(|id| disk.scheduler.enqueue(Time::ZERO, request(RequestId(id))));
        disk
    }

    fn dispatch(&mut self) {
        while let Some(dispatch) = self.scheduler.poll_dispatch(self.now) {
            self.in_it.push_back(dispatch.id);
        }
        while self.scheduler.poll_event().is_some() {}
        if self.done_at.is_none()
            && let Some(&first) = self.in_it.front()
        {
            let nanos = 5_000_000 + request(first).cost.0 * 1000 / 60;
            self.done_at = Some(self.now + Duration::from_nanos(nanos));
        }
    }

    /// Requests of both that are complete in the next so many seconds.
    fn run(&mut self, seconds: u64) -> [u32; 2] {
        let (before, until) = (self.served, self.now + Duration::from_secs(seconds));
        loop {
            self.dispatch();
            let timer = self.scheduler.poll_timeout();
            let comes = self.coming.keys().next().copied();
            let next = [self.done_at, timer, comes].into_iter().flatten().min().unwrap();
            if next > until {
                self.now = until;
                return [0, 1].map(|app| self.served[app] - before[app]);
            }
            self.now = self.now.max(next);
            if self.done_at == Some(next) {
                self.complete();
            } else if comes == Some(next) {
                let (_, id) = self.coming.pop_first().unwrap();
                self.scheduler.enqueue(self.now, request(id));
            } else {
                self.scheduler.handle_timeout(self.now);
            }
        }
    }

    fn complete(&mut self) {
        self.done_at = None;
        let id = self.in_it.pop_front().unwrap();
        self.scheduler.complete(self.now, id);
        self.served[request(id).app.index()] += 1;
        match request(id).app {
            SMALL => _ = self.coming.insert(self.now + THINK, id),
            _ => self.scheduler.enqueue(self.now, request(id)),
        }
    }
}

fn assert_near(name: &str, found: [u32; 2], usual: [u32; 2]) {
    for (found, usual) in found.into_iter().zip(usual) {
        assert!(found * 5 >= usual * 4, "{name}: {found} where {usual} are usual");
    }
}

/// What both get in the long run.
fn usual() -> [u32; 2] {
    let mut disk = Disk::new(Isolation::new(64));
    disk.run(60);
    disk.run(20).map(|served| served / 2)
}

#[test]
fn what_both_get_does_not_swing() {
    let mut disk = Disk::new(Isolation::new(64));
    disk.run(30);
    let usual = usual();
    for _ in 0..10 {
        assert_near("ten seconds of many", disk.run(10), usual);
    }
}
