//! A limit on what clients leave to a server to store later, where nothing on its host limits that
//! (docs/decisions/0004-write-back.md).
//!
//! **Law.** A write may be left unstored if its application has left no more than what is free of the limit, so that
//! one that comes later finds room. The limit is what the server stores in an eighth of a second. What was left counts
//! less and less: after a second, e times less. So an application alone may go on to leave a sixteenth of what the
//! server stores, and everything beyond waits until it is stored.
//!
//! **What it is not.** It does not know what the server has stored by itself, and need not: it decides only when a
//! server is asked to store, and clients learn from the server when that has happened. So neither COMMITs, connections
//! that end nor restarts of the server matter here.

use std::collections::BTreeMap;

use vpfs_core::{AppId, Bytes, Time, UnstoredLimit};

use crate::RequestKey;

/// The limit as long as little was stored: a server that stores less than 64 MB/s is rare, and with less, an
/// application that writes 4 KiB at a time would have to wait.
const LEAST: Bytes = Bytes::mib(8);
/// How often what was left counts an eighth less.
const STEP_NS: u64 = 1_000_000_000 / PARTS;
const PARTS: u64 = 8;
/// After so many steps nothing counts.
const FORGOTTEN: u64 = 64 * PARTS;

/// What clients leave to one server. **Bounds**: an entry for each application that left something in the last minute,
/// and for each write in progress that may be left.
#[derive(Debug)]
pub struct Unstored {
    /// The limit, unless it follows the server.
    fixed: Option<Bytes>,
    limit: UnstoredLimit,
    /// What counts for each application, and for all.
    left: BTreeMap<AppId, u64>,
    total: u64,
    /// Writes in progress that are counted there.
    in_progress: BTreeMap<RequestKey, (AppId, u64)>,
    /// Bytes that the server has stored in the latest second, as it says.
    stored: u64,
    step: u64,
}

impl Unstored {
    /// Nothing was left so far. The limit is `fixed`, or found.
    pub fn new(fixed: Option<Bytes>) -> Self {
        let (left, in_progress) = Default::default();
        Self { fixed, limit: UnstoredLimit::default(), left, total: 0, in_progress, stored: 0, step: 0 }
    }

    /// Whether a write that goes to the server now may be left unstored; if not, ask the server to store it.
    pub fn may_leave(&mut self, now: Time, request: RequestKey, app: AppId, bytes: u64) -> bool {
        self.advance(now);
        let limit = self.fixed.unwrap_or_else(|| self.limit.get().max(LEAST));
        let own = self.left.get(&app).copied().unwrap_or(0);
        if own.saturating_add(self.total).saturating_add(bytes) > limit.0 {
            return false;
        }
        self.left.insert(app, own + bytes);
        self.total += bytes;
        self.in_progress.insert(request, (app, bytes));
        true
    }

    /// A request ended, whatever it was, after which `stored` bytes more are on stable storage, as the server says.
    pub fn ended(&mut self, now: Time, request: RequestKey, stored: u64) {
        self.advance(now);
        self.stored += stored;
        if let Some((app, bytes)) = self.in_progress.remove(&request)
            && stored > 0
            && let Some(left) = self.left.get_mut(&app)
        {
            let bytes = bytes.min(*left);
            *left -= bytes;
            self.total -= bytes;
        }
    }

    fn advance(&mut self, now: Time) {
        let step = now.as_nanos() / STEP_NS;
        let steps = step.saturating_sub(self.step);
        if steps == 0 {
            return;
        }
        if step / PARTS > self.step / PARTS {
            self.limit.observe(std::mem::take(&mut self.stored));
        }
        self.step = step;
        for left in self.left.values_mut() {
            (0..steps.min(FORGOTTEN)).for_each(|_| *left -= left.div_ceil(PARTS));
        }
        self.left.retain(|_, left| *left > 0);
        self.total = self.left.values().sum();
    }
}

#[cfg(test)]
mod tests {
    use vpfs_core::OpKind;

    use super::*;
    use crate::requests::Requests;

    const MIB: u64 = 1 << 20;
    const BULK: AppId = AppId(0);
    const SMALL: AppId = AppId(1);

    /// A server that stores so many bytes a second, and its clients.
    struct Site {
        unstored: Unstored,
        requests: Requests<()>,
        now: Time,
        speed: u64,
    }

    impl Site {
        fn new(fixed: Option<Bytes>, speed: u64) -> Self {
            Self { unstored: Unstored::new(fixed), requests: Requests::new(), now: Time::from_millis(1000), speed }
        }

        fn write(&mut self, app: AppId, bytes: u64) -> (RequestKey, bool) {
            let request = self.requests.insert(self.now, (), app, OpKind::Write);
            (request, self.unstored.may_leave(self.now, request, app, bytes))
        }

        fn pass(&mut self, millis: u64) {
            self.now = Time::from_nanos(self.now.as_nanos() + millis * 1_000_000);
        }

        /// Its application writes with one call at a time, and `think` milliseconds before each, until `seconds` have
        /// passed. Returns the bytes that were left and those that were stored.
        fn writes(&mut self, app: AppId, bytes: u64, think: u64, seconds: u64) -> [u64; 2] {
            let (until, mut moved) = (self.now.as_nanos() + seconds * 1_000_000_000, [0; 2]);
            while self.now.as_nanos() < until {
                let (request, is_left) = self.write(app, bytes);
                self.pass(think + if is_left { 0 } else { bytes * 1000 / self.speed });
                self.unstored.ended(self.now, request, if is_left { 0 } else { bytes });
                moved[usize::from(!is_left)] += bytes;
            }
            moved
        }
    }

    #[test]
    fn what_is_left_does_not_exceed_the_limit_whoever_leaves_it() {
        let mut site = Site::new(Some(Bytes::mib(16)), 1);
        let left = |site: &mut Site, app: u32| (0..99).filter(|_| site.write(AppId(app), MIB).1).count();
        assert_eq!(left(&mut site, 0), 8, "half of it, so that others find room");
        assert_eq!(left(&mut site, 1), 4);
        let others: usize = (2..50).map(|app| left(&mut site, app)).sum();
        assert!(others <= 4, "{others}");
        assert_eq!(left(&mut site, 0), 0);
    }

    #[test]
    fn a_server_that_stores_at_once_is_not_asked_to() {
        let mut site = Site::new(Some(Bytes::mib(4)), 1);
        for _ in 0..1000 {
            let (request, is_left) = site.write(BULK, MIB);
            assert!(is_left);
            site.unstored.ended(site.now, request, MIB);
        }
        assert_eq!((site.unstored.total, site.unstored.in_progress.len()), (0, 0));
    }

    #[test]
    fn most_of_bulk_is_stored_and_a_sixteenth_of_what_the_server_can_is_left() {
        let mut site = Site::new(None, 240_000_000);
        site.writes(BULK, MIB, 0, 5);
        let [left, stored] = site.writes(BULK, MIB, 0, 20);
        let share = left as f64 / 20.0 / 240e6;
        assert!((0.05..0.07).contains(&share), "{share}");
        assert!(stored as f64 > 0.97 * 20.0 * 240e6, "{stored}");
    }

    #[test]
    fn small_writes_do_not_wait_for_the_disk_before_or_beside_bulk() {
        let mut site = Site::new(None, 60_000_000);
        assert_eq!(site.writes(SMALL, 4096, 2, 5)[1], 0);
        let (mut left, mut all) = (0, 0);
        for _ in 0..5000 {
            // Bulk takes all that it gets.
            while site.write(BULK, MIB).1 {}
            let (request, is_left) = site.write(SMALL, 4096);
            site.pass(2);
            site.unstored.ended(site.now, request, 0);
            (left, all) = (left + u32::from(is_left), all + 1);
        }
        assert_eq!(left, all);
    }

    /// A connection or a server that ends has said nothing, so what it had counts for as long as anything else.
    #[test]
    fn what_ends_without_an_answer_is_forgotten_with_the_rest() {
        let mut site = Site::new(Some(Bytes::mib(4)), 1);
        let (request, _) = site.write(BULK, 2 * MIB);
        site.unstored.ended(site.now, request, 0);
        assert_eq!(site.unstored.total, 2 * MIB);
        assert!(!site.write(BULK, MIB).1);
        site.pass(1000);
        assert!(site.unstored.in_progress.is_empty() && site.write(BULK, MIB).1);
        site.pass(100_000);
        site.unstored.advance(site.now);
        assert!(site.unstored.left.is_empty());
    }

    #[test]
    fn the_limit_follows_what_the_server_says_that_it_has_stored() {
        let mut site = Site::new(None, 800_000_000);
        site.writes(BULK, MIB, 0, 5);
        assert!(site.unstored.limit.get() > Bytes(90_000_000), "{:?}", site.unstored.limit.get());
        let left = (0..99).filter(|_| site.write(SMALL, MIB).1).count();
        assert!((20..40).contains(&left), "about a third of 95: {left}");
    }
}
