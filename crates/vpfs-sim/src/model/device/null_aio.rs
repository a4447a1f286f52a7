//! Storage that discards what is written; only the server's own work remains.

use std::time::Duration;

use vpfs_core::Time;

use super::finishing::Finishing;
use super::units::transfer_time;
use super::{Completion, Device, Io, IoId};

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

/// NULL-AIO: no disk, one access after the other in arrival order.
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

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.finishing.poll_completed(now)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.finishing.poll_timeout()
    }

    fn outstanding(&self) -> usize {
        self.finishing.len()
    }

    fn occupy(&mut self, now: Time, work: Duration) {
        self.free_from = self.free_from.max(now) + work;
    }
}
