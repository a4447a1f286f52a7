//! The network between servers' proxies, as a scenario describes it.

use std::time::Duration;

use vpfs_core::{Bytes, Time};
use vpfs_node::coordination::CoordinationSettings;

/// The network between servers' proxies, for coordination messages only.
#[derive(Clone, Debug)]
pub struct PeerNetwork {
    /// From one server to another.
    pub latency: Duration,
    /// Work of a server's processor for each message that it sends or receives; its storage waits if its model is one
    /// of that processor's work.
    pub message_work: Duration,
    /// Bytes that carry a message, on both servers' links.
    pub message_overhead: Bytes,
    /// Timers and bounds of the coordination.
    pub settings: CoordinationSettings,
    /// Messages that do not arrive, in parts of a million.
    pub loss_ppm: u32,
    /// Messages that arrive twice, in parts of a million.
    pub duplicate_ppm: u32,
    /// Each message takes longer by a random time up to this, so that messages overtake each other.
    pub extra_delay: Duration,
    /// When servers do not hear of each other.
    pub partitions: Vec<Partition>,
    /// When proxies start anew.
    pub restarts: Vec<Restart>,
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
        }
    }
}

/// For some time no message passes between these servers and all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its begin.
    pub from: Duration,
    /// Its end.
    pub to: Duration,
    /// Those on one side.
    pub servers: Vec<u32>,
}

/// A server's proxy starts anew: it forgets what it knew, clients ask again for what was queued, and what is with the
/// server is no longer counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// When.
    pub at: Duration,
    /// Which.
    pub server: u32,
}

/// What messages cost the server that sends or receives them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) work: Duration,
    /// On its link.
    pub(crate) bytes: u64,
}

impl PeerNetwork {
    /// What so many messages of so many bytes together cost one of their ends.
    pub(crate) fn cost(&self, messages: u64, bytes: u64) -> Exchange {
        let count = u32::try_from(messages).unwrap_or(u32::MAX);
        Exchange { work: self.message_work * count, bytes: bytes + self.message_overhead.0 * messages }
    }

    pub(crate) fn separates(&self, now: Time, from: u32, to: u32) -> bool {
        let now = now.since(Time::ZERO);
        let holds = |partition: &&Partition| (partition.from..partition.to).contains(&now);
        let apart = |partition: &Partition| partition.servers.contains(&from) != partition.servers.contains(&to);
        self.partitions.iter().filter(holds).any(apart)
    }
}
