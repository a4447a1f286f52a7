//! Network links: data in order of arrival, each direction separately.

use std::time::Duration;

use vpfs_core::Time;

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

/// One direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    profile: LinkProfile,
    free_from: Time,
    /// Carried or reserved.
    bytes: u64,
}

/// When the data of a transfer is on a link.
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
