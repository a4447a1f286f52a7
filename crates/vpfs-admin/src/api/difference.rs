//! What an application did between two moments, and sums of that: an [`App`] in which counters count only that, and
//! everything else is as at the end.

use super::{App, Behind, Storage, Waits, Work};

impl App {
    /// What it did since `before`, when its counters were those, or since their beginning.
    #[must_use]
    pub fn since(&self, before: Option<&Self>) -> Self {
        let mut since = self.clone();
        if let Some(before) = before {
            since.count(before, -1.0);
        }
        since
    }

    /// Adds what it did at another server, or before.
    pub fn add(&mut self, other: &Self) {
        self.count(other, 1.0);
        self.read.add_present(&other.read);
        self.write.add_present(&other.write);
        self.metadata.add_present(&other.metadata);
    }

    /// Adds what it did earlier at the same server. Of the best that requests saw in the storage, the better remains.
    pub fn add_earlier(&mut self, earlier: &Self) {
        self.count(earlier, 1.0);
        for found in &mut self.in_storage {
            let before = earlier.in_storage.iter().find(|before| found.is_like(before));
            let best = before.filter(|before| before.quiet_seconds.is_some_and(|best| !found.is_better(best)));
            if let Some(best) = best {
                found.quiet_seconds = best.quiet_seconds;
            }
        }
    }

    /// Leaves out what is zero, and of requests in the storage all kinds that are of no use for those that were there.
    pub fn shorten(&mut self) {
        self.behind.retain(|behind| behind.seconds > 0.0);
        self.behind_in_storage.retain(|behind| behind.seconds > 0.0);
        let seen: Vec<(String, u64)> = (self.in_storage.iter().filter(|kind| kind.requests > 0))
            .map(|kind| (kind.op.clone(), kind.size_bytes))
            .collect();
        self.in_storage.retain(|kind| seen.iter().any(|(op, size)| (op, *size) == (&kind.op, kind.size_bytes)));
    }

    /// Whether it had requests.
    pub fn is_active(&self) -> bool {
        let Work { requests, queued, outstanding, .. } = self.work();
        requests + queued + outstanding > 0
    }

    /// Its reads, writes and metadata requests together.
    pub fn work(&self) -> Work {
        let mut work = self.read;
        work.add(&self.write);
        work.add(&self.metadata);
        work
    }

    /// Adds `sign` times the counters of `other`.
    fn count(&mut self, other: &Self, sign: f64) {
        self.used_seconds += sign * other.used_seconds;
        self.entitled_seconds += sign * other.entitled_seconds;
        self.released_requests = counted(self.released_requests, other.released_requests, sign);
        self.held_seconds += sign * other.held_seconds;
        self.waits.count(&other.waits, sign);
        count_behind(&mut self.behind, &other.behind, sign);
        count_behind(&mut self.behind_in_storage, &other.behind_in_storage, sign);
        count_storage(&mut self.in_storage, &other.in_storage, sign);
        self.read.count(&other.read, sign);
        self.write.count(&other.write, sign);
        self.metadata.count(&other.metadata, sign);
    }
}

fn counted(count: u64, other: u64, sign: f64) -> u64 {
    if sign < 0.0 { count.saturating_sub(other) } else { count + other }
}

impl Work {
    /// Adds that of others.
    pub fn add(&mut self, other: &Self) {
        self.count(other, 1.0);
        self.add_present(other);
    }

    /// The sum of their times from arrival to the end.
    pub fn seconds(&self) -> f64 {
        self.wait_seconds + self.storage_seconds
    }

    /// The mean of a sum of times, over those that ended; `None` if none did.
    pub fn mean(&self, seconds: f64) -> Option<f64> {
        (self.requests > 0).then(|| seconds / self.requests as f64)
    }

    fn add_present(&mut self, other: &Self) {
        self.queued += other.queued;
        self.outstanding += other.outstanding;
    }

    fn count(&mut self, other: &Self, sign: f64) {
        self.requests = counted(self.requests, other.requests, sign);
        self.failed = counted(self.failed, other.failed, sign);
        self.late = counted(self.late, other.late, sign);
        self.bytes = counted(self.bytes, other.bytes, sign);
        self.wait_seconds += sign * other.wait_seconds;
        self.storage_seconds += sign * other.storage_seconds;
    }
}

impl Storage {
    fn is_better(&self, best: f64) -> bool {
        self.quiet_seconds.is_some_and(|found| found <= best)
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.op, self.size_bytes, &self.situation) == (&other.op, other.size_bytes, &other.situation)
    }
}

impl Waits {
    fn count(&mut self, other: &Self, sign: f64) {
        self.share_seconds += sign * other.share_seconds;
        self.cap_seconds += sign * other.cap_seconds;
        self.pace_seconds += sign * other.pace_seconds;
        self.cost_seconds += sign * other.cost_seconds;
        self.minimum_seconds += sign * other.minimum_seconds;
    }
}

/// An application that lost its place meanwhile is among the others; so no difference is below zero.
fn count_behind(behind: &mut Vec<Behind>, others: &[Behind], sign: f64) {
    for other in others {
        match behind.iter_mut().find(|found| found.app == other.app) {
            Some(found) => found.seconds = (found.seconds + sign * other.seconds).max(0.0),
            None if sign > 0.0 => behind.push(other.clone()),
            None => {}
        }
    }
}

fn count_storage(storage: &mut Vec<Storage>, others: &[Storage], sign: f64) {
    for other in others {
        let alike = |found: &&mut Storage| found.is_like(other);
        match storage.iter_mut().find(alike) {
            // It lost its place and came back: its counters began anew.
            Some(found) if sign < 0.0 && found.requests < other.requests => {}
            Some(found) => {
                found.requests = counted(found.requests, other.requests, sign);
                found.seconds += sign * other.seconds;
                found.own_seconds += sign * other.own_seconds;
                found.lost_to_processor_seconds += sign * other.lost_to_processor_seconds;
                found.lost_to_storage_seconds += sign * other.lost_to_storage_seconds;
            }
            None if sign > 0.0 => storage.push(other.clone()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::api::Status;
    use crate::testing;

    #[test]
    fn a_difference_and_what_was_before_are_the_whole() {
        let status = Status::from(&testing::status(&["climate", "uid:7"]));
        let before = &status.servers[0].apps[0];
        let mut now = before.clone();
        now.add(before);
        let since = now.since(Some(before));
        let gauges = before.since(Some(before));
        assert_eq!((since.read.requests, since.read.queued), (before.read.requests, 2 * before.read.queued));
        assert_eq!((&since.behind, &since.in_storage, since.waits), (&before.behind, &before.in_storage, before.waits));
        assert_eq!((gauges.read.bytes, gauges.entitled_seconds, gauges.weight), (0, 0.0, before.weight));
        assert_eq!(gauges.in_storage[0].quiet_seconds, before.in_storage[0].quiet_seconds, "it is as at the end");
        assert_eq!(now.since(None), now);
    }
}
