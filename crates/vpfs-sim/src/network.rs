//! Links, which carry data in order of arrival, each direction separately; and the network between servers' proxies, as
//! a scenario describes it.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use vpfs_core::hash::mix;
use vpfs_core::{Bytes, Time};
use vpfs_node::coordination::CoordinationSettings;

use crate::model::device;

/// How fast a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LinkProfile {
    /// Payload in each direction.
    pub bytes_per_second: u64,
    /// Latency of the first byte from one end to the other.
    pub latency: Duration,
}

impl LinkProfile {
    /// Gigabit Ethernet: 117 MB/s of payload with 1500-byte frames (1448 of 1538 bytes on the wire), and 50 µs through
    /// a switch.
    pub const GIGABIT: Self = Self { bytes_per_second: 117_000_000, latency: Duration::from_micros(50) };

    /// 4X InfiniBand: 1 GB/s of data (10 Gbit/s with 8 of 10 bits for data), and 5 µs from one program to another.
    pub const INFINIBAND_4X: Self = Self { bytes_per_second: 1_000_000_000, latency: Duration::from_micros(5) };

    /// Effectively unlimited: 1 TB/s and no latency.
    pub const IDEAL: Self = Self { bytes_per_second: 1_000_000_000_000, latency: Duration::ZERO };

    /// How long `bytes` occupy the link, rounded down to a nanosecond.
    pub fn transfer_time(&self, bytes: u64) -> Duration {
        device::transfer_time(bytes, self.bytes_per_second)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Link {
    profile: LinkProfile,
    free_from: Time,
    /// Carried or reserved.
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: Time,
    pub(crate) end: Time,
}

impl Link {
    pub(crate) fn new(profile: LinkProfile) -> Self {
        Self { profile, free_from: Time::ZERO, bytes: 0 }
    }

    /// Sends `bytes` after everything reserved before, not before `earliest`.
    pub(crate) fn reserve(&mut self, earliest: Time, bytes: u64) -> Span {
        let begin = self.free_from.max(earliest);
        let end = begin + self.profile.transfer_time(bytes);
        self.free_from = end;
        self.bytes += bytes;
        Span { begin, end }
    }

    /// How long the link was in use until `now`; later reservations do not count.
    pub(crate) fn busy(&self, now: Time) -> Duration {
        let promised = self.free_from.since(now);
        self.profile.transfer_time(self.bytes).saturating_sub(promised).min(now.since(Time::ZERO))
    }
}

/// Sends `bytes` over one link and immediately on over the next: the slower one determines the time, and each is
/// occupied only for its own transfer time.
///
/// Data that waits for one link does not block the other link, so each carries its reservations in order, and the
/// transfer is complete when both are done.
pub(crate) fn reserve_both(first: Option<&mut Link>, second: &mut Link, earliest: Time, bytes: u64) -> Span {
    let received = second.reserve(earliest, bytes);
    let Some(first) = first else { return received };
    let sent = first.reserve(earliest, bytes);
    Span { begin: received.begin.max(sent.begin), end: received.end.max(sent.end) }
}

/// The network between servers' proxies, for coordination messages only.
#[derive(Clone, Debug)]
pub struct PeerNetwork {
    /// From one server to another.
    pub latency: Duration,
    /// Processor time of a server for each message that it sends or receives; its storage waits if it is modelled as
    /// processor work.
    pub message_work: Duration,
    /// Extra bytes for each message, on both servers' links.
    pub message_overhead: Bytes,
    /// Timers and bounds of the coordination.
    pub settings: CoordinationSettings,
    /// Messages that are lost, in parts per million.
    pub loss_ppm: u32,
    /// Messages that arrive twice, in parts per million.
    pub duplicate_ppm: u32,
    /// Each message takes longer by a random time up to this, so that messages overtake each other.
    pub extra_delay: Duration,
    /// Periods in which groups of servers do not hear of each other.
    pub partitions: Vec<Partition>,
    /// Restarts of proxies.
    pub restarts: Vec<Restart>,
    /// As many again, of random servers at random times until the end of the scenario, which must have one.
    pub random_restarts: u32,
}

impl Default for PeerNetwork {
    /// 100 µs, no work, and everything arrives once.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(100),
            message_work: Duration::ZERO,
            message_overhead: Bytes::ZERO,
            settings: CoordinationSettings::default(),
            loss_ppm: 0,
            duplicate_ppm: 0,
            extra_delay: Duration::ZERO,
            partitions: Vec::new(),
            restarts: Vec::new(),
            random_restarts: 0,
        }
    }
}

/// A period in which no message passes between these servers and all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its start.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// The servers on one side, in order.
    pub servers: Vec<u32>,
}

/// A server's proxy restarts: of its state it keeps only what its policy has learned, clients repeat requests that were
/// queued, and requests already at the server are no longer counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When it restarts.
    pub at: Duration,
    /// The server.
    pub server: u32,
}

/// The cost of messages to the server that sends or receives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) work: Duration,
    /// On its link.
    pub(crate) bytes: u64,
}

impl PeerNetwork {
    /// The cost of `messages` messages with `bytes` in total to one of their ends.
    pub(crate) fn cost(&self, messages: u64, bytes: u64) -> Exchange {
        let count = u32::try_from(messages).unwrap_or(u32::MAX);
        Exchange { work: self.message_work * count, bytes: bytes + self.message_overhead.0 * messages }
    }

    /// All restarts with these servers and this end.
    pub(crate) fn all_restarts(&self, seed: u64, servers: u32, end: Duration) -> Vec<Restart> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mix(mix(seed)));
        let end = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        let drawn = (0..self.random_restarts).map(|_| Restart {
            at: Duration::from_nanos(random.random_range(0..=end)),
            server: random.random_range(0..servers),
        });
        self.restarts.iter().copied().chain(drawn).collect()
    }

    pub(crate) fn separates(&self, now: Time, from: u32, to: u32) -> bool {
        let now = now.since(Time::ZERO);
        let holds = |partition: &&Partition| (partition.from..partition.to).contains(&now);
        let is_in = |partition: &Partition, server| partition.servers.binary_search(&server).is_ok();
        let apart = |partition: &Partition| is_in(partition, from) != is_in(partition, to);
        self.partitions.iter().filter(holds).any(apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: LinkProfile = LinkProfile { bytes_per_second: 1_000_000, latency: Duration::ZERO };

    fn span(begin_ms: u64, end_ms: u64) -> Span {
        Span { begin: Time::from_millis(begin_ms), end: Time::from_millis(end_ms) }
    }

    #[test]
    fn transfers_queue() {
        let mut link = Link::new(MEGABYTE);
        assert_eq!(link.reserve(Time::ZERO, 2_000), span(0, 2));
        assert_eq!(link.reserve(Time::from_millis(1), 3_000), span(2, 5));
        assert_eq!(link.busy(Time::from_millis(3)), Duration::from_millis(3), "the rest is to come");
        assert_eq!(link.reserve(Time::from_millis(9), 1_000), span(9, 10));
        assert_eq!(link.busy(Time::from_millis(10)), Duration::from_millis(6));
    }

    #[test]
    fn the_slower_link_decides() {
        let double = LinkProfile { bytes_per_second: 2_000_000, ..MEGABYTE };
        let (mut slow, mut fast) = (Link::new(MEGABYTE), Link::new(double));
        assert_eq!(reserve_both(Some(&mut slow), &mut fast, Time::ZERO, 4_000), span(0, 4));
        assert_eq!(fast.reserve(Time::ZERO, 2_000), span(2, 3));
    }

    /// Once, a link waited for data that another link was to send much later, and blocked everything behind it.
    #[test]
    fn a_transfer_that_waits_for_one_link_does_not_block_another() {
        let (mut busy, mut idle, mut server) = (Link::new(MEGABYTE), Link::new(MEGABYTE), Link::new(MEGABYTE));
        busy.reserve(Time::ZERO, 90_000);
        assert_eq!(reserve_both(Some(&mut busy), &mut server, Time::ZERO, 1_000), span(90, 91));
        assert_eq!(reserve_both(Some(&mut idle), &mut server, Time::ZERO, 1_000), span(1, 2));
    }
}
