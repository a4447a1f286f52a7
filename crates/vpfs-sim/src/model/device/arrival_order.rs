//! Storage in which nothing overtakes: the finish time of an access is known when it is submitted.

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use super::{Completion, Device, Finishing, Io, IoId, IoKind, transfer_time};

/// The rest of a [`Device`] whose field `finishing` knows when each access is done.
macro_rules! as_finishing {
    () => {
        fn poll_completed(&mut self, now: Time) -> Option<Completion> {
            self.finishing.poll_completed(now)
        }

        fn poll_timeout(&self) -> Option<Time> {
            self.finishing.poll_timeout()
        }

        fn outstanding(&self) -> usize {
            self.finishing.len()
        }
    };
}

/// A device as fast as memory: every access is done when it is submitted.
#[derive(Debug, Default)]
pub struct NoDevice {
    submitted: u64,
    done: VecDeque<Completion>,
}

impl Device for NoDevice {
    fn submit(&mut self, now: Time, _io: Io) -> IoId {
        let id = IoId(self.submitted);
        self.submitted += 1;
        self.done.push_back(Completion { id, at: now });
        id
    }

    fn poll_completed(&mut self, _now: Time) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.done.front().map(|completion| completion.at)
    }

    fn outstanding(&self) -> usize {
        self.done.len()
    }
}

/// The cost of an access to a server without storage.
#[derive(Clone, Debug, PartialEq)]
pub struct NullAioProfile {
    /// Work for each access, whatever its size.
    pub per_access: Duration,
    /// Bytes per second that the server moves between network and memory.
    pub bytes_per_second: u64,
}

impl NullAioProfile {
    /// One of twelve Xen virtual machines on a host, whose PVFS2 server uses its NULL-AIO method, which discards data
    /// [vPFS §IV-D].
    ///
    /// - Bytes: 6.4 MB/s, as 96 such servers deliver 612 MB/s in total if nothing is sent for coordination [vPFS Table
    ///   2]. The paper does not say what limits them; a host's share of 76 MB/s is below its gigabit link, so the limit
    ///   is attributed to the hosts' network virtualization.
    /// - Work for each access: 100 µs, assumed; 0.3 % of the time that an access of 256 KiB takes.
    pub const XEN_GUEST: Self = Self { per_access: Duration::from_micros(100), bytes_per_second: 6_400_000 };
}

/// NULL-AIO: what is written is discarded, and only the server's own work remains, one access after the other in
/// arrival order.
#[derive(Debug)]
pub struct NullAio {
    profile: NullAioProfile,
    free_from: Time,
    finishing: Finishing,
}

impl NullAio {
    /// An idle server.
    pub fn new(profile: NullAioProfile) -> Self {
        Self { profile, free_from: Time::ZERO, finishing: Finishing::default() }
    }
}

impl Device for NullAio {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        let cost = self.profile.per_access + transfer_time(io.len, self.profile.bytes_per_second);
        self.free_from = self.free_from.max(now) + cost;
        self.finishing.submit(self.free_from)
    }

    as_finishing!();

    fn occupy(&mut self, now: Time, work: Duration) {
        self.free_from = self.free_from.max(now) + work;
    }
}

/// A flash device: channels in parallel, each serving one page group at a time in arrival order.
///
/// An access is cut at multiples of `stripe_bytes`; consecutive pieces lie on consecutive channels; the access is
/// done with its last piece. A piece costs a base time and its transfer, and writes cost more than reads.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdProfile {
    /// Independent channels.
    pub channels: usize,
    /// Bytes on one channel before the next one follows.
    pub stripe_bytes: u64,
    /// Fixed cost of reading a piece.
    pub read_base: Duration,
    /// Fixed cost of writing a piece.
    pub write_base: Duration,
    /// Transfer rate of one channel when reading, bytes per second.
    pub read_bytes_per_second: u64,
    /// Transfer rate of one channel when writing, bytes per second.
    pub write_bytes_per_second: u64,
}

impl SsdProfile {
    /// The PCI-E X4 100 GB flash card of [IOCO §2.2] and [HARL §IV-A].
    ///
    /// The papers give no rates. Cards of that kind and year read 740 MB/s and write 500 to 600 MB/s sequentially, with
    /// flash that takes 60 µs to read and 250 µs to program a page; eight channels at these rates match that.
    pub const PCIE_X4: Self = Self {
        channels: 8,
        stripe_bytes: 32 << 10,
        read_base: Duration::from_micros(60),
        write_base: Duration::from_micros(250),
        read_bytes_per_second: 115_000_000,
        write_bytes_per_second: 150_000_000,
    };
}

/// Channels in parallel, each in arrival order.
///
/// The finish time of each piece is known when it is submitted, because nothing overtakes in arrival order. The state
/// is therefore one "free from" time for each channel and the finish times of outstanding accesses.
#[derive(Debug)]
pub struct Ssd {
    profile: SsdProfile,
    free_from: Vec<Time>,
    finishing: Finishing,
}

impl Ssd {
    /// An idle device.
    pub fn new(profile: SsdProfile) -> Self {
        let channels = profile.channels.max(1);
        Self { profile, free_from: vec![Time::ZERO; channels], finishing: Finishing::default() }
    }

    fn queue_piece(&mut self, now: Time, channel: usize, kind: IoKind, len: u64) -> Time {
        let begin = self.free_from[channel].max(now);
        let until = begin + self.piece_cost(kind, len);
        self.free_from[channel] = until;
        until
    }

    fn piece_cost(&self, kind: IoKind, len: u64) -> Duration {
        let (base, rate) = match kind {
            IoKind::Read => (self.profile.read_base, self.profile.read_bytes_per_second),
            IoKind::Write | IoKind::StableWrite => (self.profile.write_base, self.profile.write_bytes_per_second),
        };
        base + transfer_time(len, rate)
    }

    /// The channel of stripe number `stripe` of `object`: round robin, starting at a channel that depends on the
    /// object.
    fn channel(&self, object: u64, stripe: u64) -> usize {
        let channel = mix(object).wrapping_add(stripe) % self.free_from.len() as u64;
        usize::try_from(channel).expect("below the number of channels")
    }
}

impl Device for Ssd {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        let stripe = self.profile.stripe_bytes.max(1);
        let end = io.offset.saturating_add(io.len);
        let mut begin = io.offset;
        let mut until = now;
        loop {
            let piece_end = ((begin / stripe).saturating_add(1)).saturating_mul(stripe).min(end);
            let channel = self.channel(io.object, begin / stripe);
            until = until.max(self.queue_piece(now, channel, io.kind, piece_end - begin));
            begin = piece_end;
            if begin >= end {
                break;
            }
        }
        self.finishing.submit(until)
    }

    as_finishing!();
}

/// Times of reads or of writes [HARL §III-D, Table I].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniformAccess {
    /// The shortest start-up time.
    pub startup_min: Duration,
    /// The longest start-up time; if it is less than the shortest one, that one is taken.
    pub startup_max: Duration,
    /// Bytes per second after the start-up.
    pub bytes_per_second: u64,
}

/// One access at a time in arrival order: a start-up time drawn evenly from a range, then bytes at a constant rate,
/// wherever the access before it was. Reads and writes have their own times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniformProfile {
    /// Times of reads.
    pub read: UniformAccess,
    /// Times of writes.
    pub write: UniformAccess,
}

impl UniformAccess {
    const fn micros(startup_min: u64, startup_max: u64, bytes_per_second: u64) -> Self {
        Self {
            startup_min: Duration::from_micros(startup_min),
            startup_max: Duration::from_micros(startup_max),
            bytes_per_second,
        }
    }

    /// The time of one access of `len` bytes, with a start-up time selected by `lot`.
    fn time(&self, len: u64, lot: u64) -> Duration {
        let span = u64::try_from(self.startup_max.saturating_sub(self.startup_min).as_nanos()).unwrap_or(u64::MAX);
        let extra = Duration::from_nanos(lot % span.saturating_add(1));
        self.startup_min.saturating_add(extra).saturating_add(transfer_time(len, self.bytes_per_second))
    }
}

impl UniformProfile {
    /// The disk of the HARL servers, **assumed**: the paper prints no parameters. With these and [`Self::HARL_FLASH`],
    /// behind links of 8.9 ns for a byte, its cost model gives the stripes that it reports. 40 ns for a byte.
    pub const HARL_DISK: Self = {
        let both = UniformAccess::micros(300, 1200, 25_000_000);
        Self { read: both, write: both }
    };

    /// The flash of the HARL servers, **assumed** as [`Self::HARL_DISK`]: 7.5 ns for a byte read, 9.3 ns for one
    /// written.
    pub const HARL_FLASH: Self =
        Self { read: UniformAccess::micros(50, 100, 133_333_333), write: UniformAccess::micros(80, 200, 107_526_882) };
}

/// Storage with a random start-up time for each access.
#[derive(Debug)]
pub struct Uniform {
    profile: UniformProfile,
    free_from: Time,
    submitted: u64,
    finishing: Finishing,
}

impl Uniform {
    /// An idle device.
    pub fn new(profile: UniformProfile) -> Self {
        Self { profile, free_from: Time::ZERO, submitted: 0, finishing: Finishing::default() }
    }
}

impl Device for Uniform {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        // The object depends on the seed of the run, so other seeds draw other times.
        let lot = mix(mix(mix(io.object) ^ io.offset) ^ self.submitted);
        self.submitted += 1;
        let access = match io.kind {
            IoKind::Read => &self.profile.read,
            IoKind::Write | IoKind::StableWrite => &self.profile.write,
        };
        self.free_from = self.free_from.max(now) + access.time(io.len, lot);
        self.finishing.submit(self.free_from)
    }

    as_finishing!();
}

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

    as_finishing!();
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

    fn take(&mut self, now: Time, tokens: u64) {
        let need = u128::from(tokens) * NANOS;
        let beyond_burst = need.saturating_sub(self.burst);
        self.full_at = self.full_at.max(self.scaled(now).saturating_sub(beyond_burst)).saturating_add(need);
    }

    fn scaled(&self, time: Time) -> u128 {
        u128::from(time.as_nanos()) * self.rate
    }
}

/// The kinds of metadata operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is named after its operation")]
pub enum MetadataOp {
    LookUp,
    GetAttr,
    ReadDir,
    SetAttr,
    /// Creates an object (a file's metadata, a directory, a datafile).
    Create,
    Remove,
    /// Adds a name to a directory or removes one.
    ChangeEntry,
}

/// The service times of a metadata server, named after operations, see [`MetadataOp`].
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is named after its operation")]
pub struct MetadataProfile {
    /// Operations served in parallel.
    pub parallel: usize,
    pub look_up: Duration,
    pub get_attr: Duration,
    pub read_dir: Duration,
    pub set_attr: Duration,
    pub create: Duration,
    pub remove: Duration,
    pub change_entry: Duration,
}

impl MetadataProfile {
    /// A PVFS2 2.8 metadata server: Berkeley DB on EXT3 on a 7200 rpm disk [vPFS+ §V-A].
    ///
    /// The papers give no service times, so all of these are **assumed**, by order of magnitude:
    ///
    /// - One operation at a time: one thread of the server works on its databases.
    /// - Reads: thousands a second, from the database's cache.
    /// - Updates: hundreds a second. Each is forced to the disk, about half a rotation (4.2 ms) in a sequential
    ///   journal; the server forces several waiting updates at once, which halves that. Attributes are forced less
    ///   often.
    pub const PVFS2_BDB: Self = Self {
        parallel: 1,
        look_up: Duration::from_micros(150),
        get_attr: Duration::from_micros(150),
        read_dir: Duration::from_micros(300),
        set_attr: Duration::from_millis(1),
        create: Duration::from_millis(2),
        remove: Duration::from_millis(2),
        change_entry: Duration::from_millis(2),
    };

    /// The service time of an operation of this kind.
    pub fn service_time(&self, op: MetadataOp) -> Duration {
        match op {
            MetadataOp::LookUp => self.look_up,
            MetadataOp::GetAttr => self.get_attr,
            MetadataOp::ReadDir => self.read_dir,
            MetadataOp::SetAttr => self.set_attr,
            MetadataOp::Create => self.create,
            MetadataOp::Remove => self.remove,
            MetadataOp::ChangeEntry => self.change_entry,
        }
    }
}

/// A metadata server's store as a state machine, driven like a [`Device`].
///
/// Operations are served in arrival order by [`MetadataProfile::parallel`] threads.
#[derive(Debug)]
pub struct MetadataServer {
    profile: MetadataProfile,
    free_from: Vec<Time>,
    finishing: Finishing,
}

impl MetadataServer {
    /// An idle server.
    pub fn new(profile: MetadataProfile) -> Self {
        let threads = profile.parallel.max(1);
        Self { profile, free_from: vec![Time::ZERO; threads], finishing: Finishing::default() }
    }

    /// Submits an operation; callers limit what they submit. O(threads + log n).
    pub fn submit(&mut self, now: Time, op: MetadataOp) -> IoId {
        let thread = self.free_from.iter_mut().min().expect("there is at least one thread");
        *thread = (*thread).max(now) + self.profile.service_time(op);
        self.finishing.submit(*thread)
    }

    /// The next finished operation in order of completion time, `None` when no more have finished by `now`.
    pub fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.finishing.poll_completed(now)
    }

    /// When to call [`MetadataServer::poll_completed`] next, `None` while the server is idle.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.finishing.poll_timeout()
    }

    /// Operations submitted and not yet yielded by [`MetadataServer::poll_completed`].
    pub fn outstanding(&self) -> usize {
        self.finishing.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(profile: UniformProfile, kind: IoKind, len: u64, count: u64) -> Vec<Duration> {
        let mut device = Uniform::new(profile);
        for number in 0..count {
            device.submit(Time::ZERO, Io { kind, object: 7, offset: number * len, len });
        }
        let mut before = Time::ZERO;
        std::iter::from_fn(|| device.poll_timeout().and_then(|at| device.poll_completed(at)))
            .map(|done| done.at.since(std::mem::replace(&mut before, done.at)))
            .collect()
    }

    #[test]
    fn start_up_times_fill_their_range_evenly() {
        let times = times(UniformProfile::HARL_DISK, IoKind::Read, 25_000, 10_000);
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!((1300..1310).contains(&least.as_micros()) && (2190..=2200).contains(&most.as_micros()));
        let mean = times.iter().sum::<Duration>() / 10_000;
        assert!((1740..1760).contains(&mean.as_micros()), "{mean:?}");
    }

    #[test]
    fn writes_have_their_own_times() {
        let fixed = |micros, rate| UniformAccess::micros(micros, micros, rate);
        let profile = UniformProfile { read: fixed(100, 1_000_000), write: fixed(200, 2_000_000) };
        assert_eq!(times(profile, IoKind::Read, 1000, 2), [Duration::from_micros(1100); 2]);
        assert_eq!(times(profile, IoKind::Write, 1000, 1), [Duration::from_micros(700)]);
    }
}
