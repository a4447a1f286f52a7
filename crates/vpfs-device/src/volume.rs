//! A volume with limits: so many bytes and so many I/Os a second, whatever is behind.

use std::time::Duration;

use vpfs_core::Time;

use super::finishing::Finishing;
use super::units::transfer_time;
use super::{Completion, Device, Io, IoId};

/// Parameters of a [`Volume`].
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeProfile {
    /// Bytes that may pass in a second.
    pub bytes_per_second: u64,
    /// I/Os that may pass in a second.
    pub ios_per_second: u64,
    /// Both limits save up what was not used, at most what they allow in so long.
    pub burst: Duration,
    /// A larger access is several I/Os: as many as it has parts of this size, a smaller one at the end included.
    pub io_bytes: u64,
    /// What an I/O takes once it may pass, besides its transfer.
    pub latency: Duration,
    /// Transfer rate of an I/O that may pass, bytes per second.
    pub backing_bytes_per_second: u64,
}

impl VolumeProfile {
    /// A disk that the kernel limits to 15 MB/s and 300 I/Os a second (`io.max` of a control group), as trials with real OrangeFS
    /// servers use it: storage with the limits of a disk on a machine that has none to spare.
    ///
    /// - Burst: 100 ms, the slice in which blk-throttle counts.
    /// - I/Os of 256 KiB: the flow buffer of an OrangeFS server, what it writes at once.
    /// - Latency 1 ms, backing 500 MB/s: **assumed**. A write of 8 KiB through such a server takes 1.2 ms if nobody else asks.
    pub const THROTTLED_DISK: Self = Self {
        bytes_per_second: 15_000_000,
        ios_per_second: 300,
        burst: Duration::from_millis(100),
        io_bytes: 256 << 10,
        latency: Duration::from_millis(1),
        backing_bytes_per_second: 500_000_000,
    };

    /// A general purpose volume of a cloud, as one gets it without paying for more: the limits of Amazon's gp3.
    ///
    /// - 125 MiB/s, 3,000 I/Os a second, and 256 KiB as the largest I/O: what the vendor states. (Theirs merges small accesses in
    ///   sequence, this one does not.)
    /// - Backing: 1,000 MiB/s, the most that could be bought when these limits were published.
    /// - Latency 0.7 ms, burst 100 ms: **assumed**. The vendor promises less than 10 ms, and states no burst.
    pub const CLOUD: Self = Self {
        bytes_per_second: 125 << 20,
        ios_per_second: 3_000,
        burst: Duration::from_millis(100),
        io_bytes: 256 << 10,
        latency: Duration::from_micros(700),
        backing_bytes_per_second: 1_000 << 20,
    };
}

/// Two token buckets, one of bytes and one of I/Os, in front of storage that does everything at once.
///
/// An access is cut into I/Os. They pass one after the other in arrival order, those of one access before those of the next, each as
/// soon as both buckets have enough for it; so a small access waits behind a large one although it would need little itself,
/// as in the queue of Linux's blk-throttle. An I/O that has passed takes latency and transfer, beside all others. The access is done with
/// the last of them.
///
/// What a mix gets is more than the costs of its parts alone suggest: I/Os that are large leave I/Os to the small ones, which
/// leave bytes to them.
///
/// As nothing overtakes, the end of an access is known when it is submitted. O(I/Os of the access).
#[derive(Debug)]
pub struct Volume {
    profile: VolumeProfile,
    bytes: Bucket,
    ios: Bucket,
    /// When the last I/O passed, or will.
    passed: Time,
    finishing: Finishing,
}

impl Volume {
    /// An idle volume, its buckets full.
    pub fn new(profile: VolumeProfile) -> Self {
        let bytes = Bucket::full(profile.bytes_per_second, profile.burst);
        let ios = Bucket::full(profile.ios_per_second, profile.burst);
        Self { profile, bytes, ios, passed: Time::ZERO, finishing: Finishing::default() }
    }

    /// Queues one I/O and returns when it will be done.
    fn queue_io(&mut self, now: Time, len: u64) -> Time {
        // First in the queue, it begins to wait for tokens.
        let first = self.passed.max(now);
        self.passed = first.max(self.bytes.enough_at(first, len)).max(self.ios.enough_at(first, 1));
        self.bytes.take(self.passed, len);
        self.ios.take(self.passed, 1);
        self.passed + self.profile.latency + transfer_time(len, self.profile.backing_bytes_per_second)
    }
}

impl Device for Volume {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        let (mut left, mut until) = (io.len, now);
        loop {
            let len = left.min(self.profile.io_bytes.max(1));
            until = until.max(self.queue_io(now, len));
            left -= len;
            if left == 0 {
                break;
            }
        }
        self.finishing.submit(until)
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.finishing.poll_completed(now)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.finishing.poll_timeout()
    }

    fn outstanding(&self) -> usize {
        self.finishing.len()
    }
}

const NANOS: u128 = 1_000_000_000;

/// A token bucket, as the time at which it is full (the virtual scheduling of the generic cell rate algorithm, ITU-T I.371).
///
/// It counts billionths of a token, of which `rate` come in each nanosecond, and times are multiplied by `rate`. So
/// nothing is rounded, and a rate holds exactly however long a run is.
///
/// It holds at most what comes during the burst; for one who waits and needs more, what that one needs.
#[derive(Debug)]
struct Bucket {
    /// Tokens a second.
    rate: u128,
    /// Most billionths that are saved up.
    burst: u128,
    /// When nothing more fits in, unless somebody takes some; times `rate`.
    full_at: u128,
}

impl Bucket {
    fn full(per_second: u64, burst: Duration) -> Self {
        let rate = u128::from(per_second.max(1));
        Self { rate, burst: burst.as_nanos().saturating_mul(rate), full_at: 0 }
    }

    /// When there are `tokens` for one who waits since `since`.
    fn enough_at(&self, since: Time, tokens: u64) -> Time {
        let full_at = self.full_at.max(self.scaled(since));
        let enough = full_at.saturating_add(u128::from(tokens) * NANOS).saturating_sub(self.burst);
        Time::from_nanos(u64::try_from(enough.div_ceil(self.rate)).unwrap_or(u64::MAX))
    }

    /// Takes `tokens`, not before [`Bucket::enough_at`].
    fn take(&mut self, now: Time, tokens: u64) {
        let need = u128::from(tokens) * NANOS;
        let beyond_burst = need.saturating_sub(self.burst);
        self.full_at = self.full_at.max(self.scaled(now).saturating_sub(beyond_burst)).saturating_add(need);
    }

    fn scaled(&self, time: Time) -> u128 {
        u128::from(time.as_nanos()) * self.rate
    }
}
