//! How one round of stripes lies over the servers, and which bytes of a request each server gets.

use std::ops::Range;

/// One round: every server of the first class gets that class's stripe, then every server of the second, and so on.
/// Rounds repeat from the start of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    spans: Vec<Span>,
    size: u64,
}

/// The servers of one class in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// Bytes of the round before the class.
    start: u64,
    /// Index of its first server among all.
    first: u32,
    servers: u32,
    stripe: u64,
}

/// Neighbouring servers of one class that get equally many bytes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The class.
    pub class: usize,
    /// The servers, counted over all classes.
    pub servers: Range<u32>,
    /// Bytes for each of them, not zero.
    pub bytes: u64,
}

/// A position in a class: servers before `server` have their whole stripe before it, and `server` has `partial` bytes.
#[derive(Clone, Copy)]
struct Place {
    server: u32,
    partial: u64,
}

impl Round {
    /// A round with `servers` and `stripes` of each class; a stripe of 0 leaves a class out. `None` if all are left
    /// out, or a round exceeds 2^62 bytes.
    pub fn new(servers: impl IntoIterator<Item = u32>, stripes: &[u64]) -> Option<Self> {
        let (mut start, mut first) = (0_u64, 0);
        let mut spans = Vec::with_capacity(stripes.len());
        for (servers, &stripe) in servers.into_iter().zip(stripes) {
            spans.push(Span { start, first, servers, stripe });
            start = stripe.checked_mul(u64::from(servers)).and_then(|size| start.checked_add(size))?;
            first += servers;
        }
        (1..=1 << 62).contains(&start).then_some(Self { spans, size: start })
    }

    /// Bytes after which the round repeats.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Calls `each` for all servers that hold bytes of the `size` bytes at `offset` of the region, at most five times
    /// for each class; the bytes of all servers add up to `size`. O(classes), no allocation. `offset + size` must fit
    /// 64 bits.
    pub fn parts(&self, offset: u64, size: u64, mut each: impl FnMut(Part)) {
        let end = offset + size;
        let rounds = end / self.size - offset / self.size;
        let (offset, end) = (offset % self.size, end % self.size);
        for (class, span) in self.spans.iter().enumerate().filter(|(_, span)| span.stripe > 0) {
            span.parts(rounds, span.place(offset), span.place(end), |servers, bytes| {
                let servers = servers.start.min(span.servers)..servers.end.min(span.servers);
                if bytes > 0 && !servers.is_empty() {
                    each(Part { class, servers: span.first + servers.start..span.first + servers.end, bytes });
                }
            });
        }
    }

    /// The bytes of the first `length` bytes of the region that the fullest server of each class holds. O(classes).
    pub fn held(&self, length: u64) -> Vec<u64> {
        let mut held = vec![0; self.spans.len()];
        self.parts(0, length, |part| held[part.class] = held[part.class].max(part.bytes));
        held
    }
}

impl Span {
    fn place(&self, in_round: u64) -> Place {
        let own = in_round.saturating_sub(self.start).min(self.stripe * u64::from(self.servers));
        // At most `servers`, so it fits.
        let server = u32::try_from(own / self.stripe).unwrap_or(self.servers);
        Place { server, partial: own % self.stripe }
    }

    /// The bytes from `from` to `to`, where `rounds` is how many more rounds `to` has behind it. A server has `rounds`
    /// stripes, and one more or less between the two places.
    fn parts(&self, rounds: u64, from: Place, to: Place, mut each: impl FnMut(Range<u32>, u64)) {
        let whole = rounds * self.stripe;
        let (low, high) = (from.server.min(to.server), from.server.max(to.server));
        each(0..low, whole);
        if from.server == to.server {
            each(low..low + 1, whole + to.partial - from.partial);
        } else if from.server < to.server {
            each(low..low + 1, whole + self.stripe - from.partial);
            each(low + 1..high, whole + self.stripe);
            each(high..high + 1, whole + to.partial);
        } else {
            // The end is in a later round, so `whole` is at least one stripe.
            each(low..low + 1, whole - self.stripe + to.partial);
            each(low + 1..high, whole - self.stripe);
            each(high..high + 1, whole - from.partial);
        }
        each(high + 1..self.servers.max(high + 1), whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of each server, strip by strip.
    fn by_walking(servers: &[u32], stripes: &[u64], offset: u64, size: u64) -> Vec<u64> {
        let strips: Vec<u64> =
            servers.iter().zip(stripes).flat_map(|(&n, &stripe)| (0..n).map(move |_| stripe)).collect();
        let mut bytes = vec![0; strips.len()];
        let mut start = 0;
        while start < offset + size {
            for (server, stripe) in strips.iter().enumerate() {
                let overlap = (start + stripe).min(offset + size).saturating_sub(start.max(offset));
                bytes[server] += overlap;
                start += stripe;
            }
        }
        bytes
    }

    fn by_parts(round: &Round, servers: &[u32], offset: u64, size: u64) -> Vec<u64> {
        let mut bytes = vec![0; servers.iter().sum::<u32>() as usize];
        round.parts(offset, size, |part| {
            for server in part.servers {
                assert_eq!(bytes[server as usize], 0, "server {server} twice");
                bytes[server as usize] = part.bytes;
            }
        });
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn bytes_of_each_server_equal_those_counted_strip_by_strip(
            classes in prop::collection::vec((1_u32..6, 0_u64..9), 1..4),
            unit in prop::sample::select(vec![1_u64, 3, 4096]),
            offset in 0_u64..2000,
            size in 1_u64..600,
            fine in 0_u64..4096,
        ) {
            let servers: Vec<u32> = classes.iter().map(|class| class.0).collect();
            let stripes: Vec<u64> = classes.iter().map(|class| class.1 * unit).collect();
            let (offset, size) = (offset * unit + fine % unit, size * unit + fine % 7 % unit);
            match Round::new(servers.iter().copied(), &stripes) {
                None => prop_assert!(stripes.iter().all(|&stripe| stripe == 0)),
                Some(round) => prop_assert_eq!(
                    by_parts(&round, &servers, offset, size),
                    by_walking(&servers, &stripes, offset, size)
                ),
            }
        }
    }

    #[test]
    fn one_round_gives_each_server_its_stripe() {
        let round = Round::new([6, 2], &[32 << 10, 160 << 10]).unwrap();
        assert_eq!(round.size(), 512 << 10);
        let mut expected = vec![32 << 10; 6];
        expected.extend([160 << 10; 2]);
        assert_eq!(by_parts(&round, &[6, 2], 512 << 10, 512 << 10), expected);
        assert_eq!(round.held(1 << 20), [64 << 10, 320 << 10]);
    }

    #[test]
    fn rounds_without_bytes_or_too_large_are_refused() {
        assert_eq!(Round::new([1, 2], &[0, 0]), None);
        assert_eq!(Round::new([2], &[u64::MAX]), None);
    }
}
