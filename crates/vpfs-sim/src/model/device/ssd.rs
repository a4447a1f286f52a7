//! Flash: parallel channels, with writes more expensive than reads.

use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use super::finishing::Finishing;
use super::units::transfer_time;
use super::{Completion, Device, Io, IoId, IoKind};

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

    /// Queues one piece on its channel and returns when it will be done.
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
