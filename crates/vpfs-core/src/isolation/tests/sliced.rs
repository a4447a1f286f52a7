//! A disk whose limits are granted in time slices, as the kernel's `blkio.throttle` does, behind a journal.

use alloc::collections::BTreeSet;

use super::*;

/// The limits are granted for so long.
const SLICE_MS: u64 = 100;
const IOS: u32 = 60;
const BYTES: i64 = 6_000_000;

/// 60 MB/s and 600 I/Os a second, first come, first served. A small synchronous write is three I/Os (its data, and the
/// journal's two), a large one of 1 MiB five.
struct Sliced {
    scheduler: Isolation,
    now: Time,
    /// When the last request was admitted, and what is left of its slice.
    admitted_at: Time,
    ios: u32,
    bytes: i64,
    /// Requests that are in the storage, or come from a process that thinks, by when they end or come.
    in_it: BTreeSet<(Time, RequestId)>,
    coming: BTreeSet<(Time, RequestId)>,
    served: [u32; 2],
}

impl Sliced {
    fn new(apps: impl IntoIterator<Item = u32>) -> Self {
        let coming = apps.into_iter().map(|id| (Time::ZERO, RequestId(id))).collect();
        Self {
            scheduler: Isolation::new(64),
            now: Time::ZERO,
            admitted_at: Time::ZERO,
            ios: IOS,
            bytes: BYTES,
            in_it: BTreeSet::new(),
            coming,
            served: [0; 2],
        }
    }

    fn request(id: RequestId) -> Request {
        let (app, size) = if id.0 == 0 { (SMALL, Bytes::kib(4)) } else { (LARGE, Bytes::mib(1)) };
        Request { piece: Some(Bytes::kib(256)), ..Request::new(id, app, OpKind::Write, size) }
    }

    /// When a request ends that the storage gets now.
    fn admit(&mut self, id: RequestId) -> Time {
        let (ios, bytes, takes) = if id.0 == 0 { (3, 4 << 10, 4500) } else { (5, 1 << 20, 3000) };
        self.pass_to(self.admitted_at.max(self.now));
        while self.ios < ios || self.bytes <= 0 {
            self.pass_to(Time::from_millis((Self::slice(self.admitted_at) + 1) * SLICE_MS));
        }
        (self.ios, self.bytes) = (self.ios - ios, self.bytes - bytes);
        self.admitted_at + Duration::from_micros(takes)
    }

    fn slice(at: Time) -> u64 {
        at.nanos_since(Time::ZERO) / (SLICE_MS * 1_000_000)
    }

    /// A slice that has begun since then has the whole limits; bytes that a request took beyond them are missing.
    fn pass_to(&mut self, at: Time) {
        if Self::slice(at) > Self::slice(self.admitted_at) {
            (self.ios, self.bytes) = (IOS, self.bytes.min(0) + BYTES);
        }
        self.admitted_at = at;
    }

    /// The number of requests of both applications that are completed in each of `seconds`.
    fn run(&mut self, seconds: u64) -> [f64; 2] {
        let (before, until) = (self.served, self.now + Duration::from_secs(seconds));
        while self.now < until {
            while let Some(dispatch) = self.scheduler.poll_dispatch(self.now) {
                let ends = self.admit(dispatch.id);
                self.in_it.insert((ends, dispatch.id));
            }
            while self.scheduler.poll_event().is_some() {}
            let first = |of: &BTreeSet<(Time, RequestId)>| of.first().map(|&(at, _)| at);
            let (ends, comes) = (first(&self.in_it), first(&self.coming));
            let next = [ends, comes, self.scheduler.poll_timeout()].into_iter().flatten().min().unwrap();
            self.now = self.now.max(next);
            if ends == Some(next) {
                let (_, id) = self.in_it.pop_first().unwrap();
                self.scheduler.complete(self.now, id);
                let think = if id.0 == 0 { THINK } else { Duration::ZERO };
                self.coming.insert((self.now + think, id));
                self.served[usize::from(id.0 > 0)] += 1;
            } else if comes == Some(next) {
                let (_, id) = self.coming.pop_first().unwrap();
                self.scheduler.enqueue(self.now, Self::request(id));
            } else {
                self.scheduler.handle_timeout(self.now);
            }
        }
        [0, 1].map(|app| f64::from(self.served[app] - before[app]) / seconds as f64)
    }
}

/// Symptom: behind NFS on such a disk, writers of 1 MiB had 0.4 of it beside a small application that kept 0.88, where
/// a limit by hand leaves 0.81 and 0.84: a write seemed to take half as long again as it does. Cause: windows of a
/// tenth of a slice counted as much as those of a whole one.
#[test]
fn a_write_costs_what_it_takes_where_limits_are_granted_in_slices() {
    let small_alone = Sliced::new([0]).run(10)[0];
    let large_alone = Sliced::new(1..=8).run(10)[1];
    let mut both = Sliced::new(0..=8);
    both.run(5);
    let [small, large] = both.run(40);
    let cost_ms = both.scheduler.times.cost_ns(OpKind::Write, Bytes::mib(1)) / 1_000_000;
    let takes_ms = 1000.0 / large_alone;
    assert!((0.8..1.2).contains(&(cost_ms as f64 / takes_ms)), "{cost_ms} instead of {takes_ms} ms");
    let kept = [small / small_alone, large / large_alone];
    assert!(kept[0] >= 0.8 && kept[1] >= 0.6, "{kept:?} of {small_alone} and {large_alone} a second");
}
