//! A volume with limits on bytes and I/Os per second, regardless of the storage behind it.

use std::time::Duration;

use vpfs_core::Time;

use super::finishing::Finishing;
use super::units::transfer_time;
use super::{Completion, Device, Io, IoId};

/// Parameters of a [`Volume`].
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeProfile {
    /// Limit on bytes per second.
    pub bytes_per_second: u64,
    /// Limit on I/Os per second.
    pub ios_per_second: u64,
    /// Unused capacity of both limits is saved up, at most as much as they allow in this time.
    pub burst: Duration,
    /// A larger access counts as several I/Os: one for each part of this size, including a smaller one at the end.
    pub io_bytes: u64,
    /// Time that an admitted I/O takes in addition to its transfer.
    pub latency: Duration,
    /// Transfer rate of an admitted I/O, bytes per second.
    pub backing_bytes_per_second: u64,
}

impl VolumeProfile {
    /// A disk that the kernel limits to 15 MB/s and 300 I/Os per second (`io.max` of a control group), as used in
    /// trials with real OrangeFS servers: storage with the limits of a disk, on a machine without a spare disk.
    ///
    /// - Burst: 100 ms, the time slice of blk-throttle.
    /// - I/Os of 256 KiB: the flow buffer of an OrangeFS server, which is what it writes at once.
    /// - Latency 1 ms, backing 500 MB/s: **assumed**. A write of 8 KiB through such a server takes 1.2 ms if there is
    ///   no other load.
    pub const THROTTLED_DISK: Self = Self {
        bytes_per_second: 15_000_000,
        ios_per_second: 300,
        burst: Duration::from_millis(100),
        io_bytes: 256 << 10,
        latency: Duration::from_millis(1),
        backing_bytes_per_second: 500_000_000,
    };

    /// A general purpose cloud volume with its default limits: those of Amazon's gp3.
    ///
    /// - 125 MiB/s, 3,000 I/Os per second, and 256 KiB as the largest I/O, as stated by the vendor. (Theirs merges
    ///   small sequential accesses, this model does not.)
    /// - Backing: 1,000 MiB/s, the highest rate on sale when these limits were published.
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

/// Two token buckets, one for bytes and one for I/Os, in front of storage with unlimited parallelism.
///
/// An access is cut into I/Os. These are admitted one after the other in arrival order, those of one access before
/// those of the next, each as soon as both buckets have enough tokens for it. A small access therefore waits behind a
/// large one even if it needs few tokens itself, as in the queue of Linux's blk-throttle. An admitted I/O takes its
/// latency and transfer time, in parallel with all others. The access is done when its last I/O is.
///
/// A mix of sizes gets more than the costs of its parts alone suggest: large I/Os leave I/O tokens to small ones, and
/// small ones leave byte tokens to large ones.
///
/// As nothing overtakes, the finish time of an access is known when it is submitted. O(I/Os of the access).
#[derive(Debug)]
pub struct Volume {
    profile: VolumeProfile,
    bytes: Bucket,
    ios: Bucket,
    /// When the last I/O was or will be admitted.
    passed: Time,
    finishing: Finishing,
}

impl Volume {
    /// An idle volume with full buckets.
    pub fn new(profile: VolumeProfile) -> Self {
        let bytes = Bucket::full(profile.bytes_per_second, profile.burst);
        let ios = Bucket::full(profile.ios_per_second, profile.burst);
        Self { profile, bytes, ios, passed: Time::ZERO, finishing: Finishing::default() }
    }

    /// Queues one I/O and returns when it will be done.
    fn queue_io(&mut self, now: Time, len: u64) -> Time {
        // Once first in the queue, it starts to wait for tokens.
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

/// A token bucket, stored as the time at which it will be full (virtual scheduling in the generic cell rate algorithm,
/// ITU-T I.371).
///
/// It counts billionths of a token, of which `rate` arrive each nanosecond, and times are multiplied by `rate`. So
/// nothing is rounded, and rates are exact over runs of any length.
///
/// It holds at most the tokens that arrive during the burst or, if a waiting I/O needs more, as many as that one needs.
#[derive(Debug)]
struct Bucket {
    /// Tokens per second.
    rate: u128,
    /// Largest number of billionths that are saved up.
    burst: u128,
    /// When the bucket is full, unless tokens are taken; times `rate`.
    full_at: u128,
}

impl Bucket {
    fn full(per_second: u64, burst: Duration) -> Self {
        let rate = u128::from(per_second.max(1));
        Self { rate, burst: burst.as_nanos().saturating_mul(rate), full_at: 0 }
    }

    /// When `tokens` are available to an I/O that has been waiting since `since`.
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
