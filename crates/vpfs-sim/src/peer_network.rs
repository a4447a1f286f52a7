//! The network between servers' proxies, as a scenario describes it.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use vpfs_core::hash::mix;
use vpfs_core::{Bytes, Time};
use vpfs_node::coordination::CoordinationSettings;

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
