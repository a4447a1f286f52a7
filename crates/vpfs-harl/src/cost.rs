//! How long requests take under given stripes.

use std::ops::Range;

use crate::cluster::Cluster;
use crate::trace::Op;

/// Equal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// What they do.
    pub op: Op,
    /// The bytes of each.
    pub size: u64,
    /// Their offset from the start of the region, modulo the round or not.
    pub offset: u64,
    /// How many they are.
    pub count: u64,
}

/// Predicted times of a set of requests, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// The sum of the times that each request takes alone: the paper's cost [HARL §III-D, eq. 7 and 8].
    pub alone: u128,
    /// The time for which the busiest device, or direction of a link, is busy.
    pub busiest: u128,
}

impl Time {
    /// The time from the first request to the last if `outstanding_milli` thousandths are outstanding at once, at least
    /// 1000: `(alone + (c - 1) · busiest) / c`. For one request at a time this is `alone`, and for many it is what the
    /// busiest device or link needs. Added: the paper knows only `alone`, and so cannot see that a server that a
    /// request leaves idle serves another one, nor that each part takes a start-up from its server.
    pub fn with(self, outstanding_milli: u64) -> u128 {
        let outstanding = u128::from(outstanding_milli.max(1000));
        let scaled = self.alone.saturating_mul(1000);
        scaled.saturating_add(self.busiest.saturating_mul(outstanding - 1000)) / outstanding
    }
}

/// Predicts times on the servers of a cluster. Keeps memory between calls.
#[derive(Debug)]
pub struct Pricing<'a> {
    cluster: &'a Cluster,
    /// Busy time of each server's device and of its link in each direction, as differences to the server before.
    device: Vec<u128>,
    sending: Vec<u128>,
    receiving: Vec<u128>,
}

impl<'a> Pricing<'a> {
    /// Prices for a cluster.
    pub fn new(cluster: &'a Cluster) -> Self {
        let servers = cluster.servers() as usize + 1;
        Self { cluster, device: vec![0; servers], sending: vec![0; servers], receiving: vec![0; servers] }
    }

    /// The time that one request takes alone, in picoseconds: network, expected largest start-up and largest transfer,
    /// each of the server where it is largest. O(classes). [HARL §III-D, eq. 1 to 8], for any number of classes.
    ///
    /// # Panics
    /// If the round has other classes than the cluster.
    pub fn request(&mut self, round: &Round, op: Op, offset: u64, size: u64) -> u64 {
        let group = Group { op, size, offset, count: 0 };
        self.group(round, &group)
    }

    /// The time of all groups, or `None` as soon as it is clear that `alone` is above `alone_max`. O(groups · classes +
    /// servers).
    ///
    /// # Panics
    /// If the round has other classes than the cluster.
    pub fn time(&mut self, round: &Round, groups: &[Group], alone_max: u128) -> Option<Time> {
        let Self { device, sending, receiving, .. } = self;
        [device, sending, receiving].into_iter().for_each(|busy| busy.fill(0));
        let mut alone = 0_u128;
        for group in groups {
            alone += u128::from(self.group(round, group)) * u128::from(group.count);
            if alone > alone_max {
                return None;
            }
        }
        let busiest = [&self.device, &self.sending, &self.receiving].map(|busy| largest_sum(busy));
        Some(Time { alone, busiest: busiest.into_iter().max().unwrap_or(0) })
    }

    fn group(&mut self, round: &Round, group: &Group) -> u64 {
        const CLASSES: usize = Cluster::CLASSES_MAX;
        let (mut touched, mut largest) = ([0_u32; CLASSES], [0_u64; CLASSES]);
        let count = u128::from(group.count);
        let Self { cluster, device, sending, receiving } = self;
        let link = if group.op == Op::Read { sending } else { receiving };
        let access = |class: usize| match group.op {
            Op::Read => &cluster.classes()[class].read,
            Op::Write => &cluster.classes()[class].write,
        };
        round.parts(group.offset, group.size, |part| {
            touched[part.class] += part.servers.end - part.servers.start;
            largest[part.class] = largest[part.class].max(part.bytes);
            let access = access(part.class);
            let (from, to) = (part.servers.start as usize, part.servers.end as usize);
            let busy = count * u128::from(access.mean_startup() + access.transfer(part.bytes));
            device[from] = device[from].wrapping_add(busy);
            device[to] = device[to].wrapping_sub(busy);
            let busy = count * u128::from(cluster.network(part.bytes));
            link[from] = link[from].wrapping_add(busy);
            link[to] = link[to].wrapping_sub(busy);
        });
        let (mut network, mut startup, mut transfer) = (0, 0, 0);
        for class in 0..cluster.classes().len() {
            network = network.max(cluster.network(largest[class]));
            if group.op == Op::Write && access(class).is_gathered() {
                continue;
            }
            startup = startup.max(access(class).largest_startup(touched[class]));
            transfer = transfer.max(access(class).transfer(largest[class]));
        }
        network + startup + transfer
    }
}

fn largest_sum(differences: &[u128]) -> u128 {
    let mut sum = 0_u128;
    let sums = differences.iter().map(|difference| {
        sum = sum.wrapping_add(*difference);
        sum
    });
    sums.max().unwrap_or(0)
}

// How one round of stripes lies over the servers, and which bytes of a request each server gets.

/// One round: every server of the first class gets that class's stripe, then every server of the second, and so on.
/// Rounds repeat from the start of the region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    spans: Vec<Span>,
    size: u64,
}

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

    /// A round over the servers of a cluster, as [`Round::new`].
    pub fn over(cluster: &Cluster, stripes: &[u64]) -> Option<Self> {
        Self::new(cluster.classes().iter().map(|class| class.servers), stripes)
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
pub(crate) mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::cluster::{Access, ServerClass};

    fn access(min_us: u64, max_us: u64, picos_per_byte: u64) -> Access {
        let micros = Duration::from_micros;
        Access::new(micros(min_us), micros(max_us), 1_000_000_000_000 / picos_per_byte).unwrap()
    }

    /// Hardware that fits the paper's statements: it prints no parameters, so these are chosen so that all stripes that
    /// it reports come out.
    pub(crate) fn paper(disks: u32, flash: u32) -> Cluster {
        let disk = access(300, 1200, 40_000);
        let classes = vec![
            ServerClass { name: "disk".into(), servers: disks, read: disk, write: disk, free: None },
            ServerClass {
                name: "flash".into(),
                servers: flash,
                read: access(50, 100, 7_500),
                write: access(80, 200, 9_300),
                free: None,
            },
        ];
        Cluster::new(classes, 112_359_551).unwrap()
    }

    #[test]
    fn a_request_takes_the_largest_of_each_part() {
        let cluster = paper(6, 2);
        let round = Round::new([6, 2], &[32 << 10, 160 << 10]).unwrap();
        let mut pricing = Pricing::new(&cluster);
        // 160 KiB at 8.9 ns, six of 0.3 to 1.2 ms, and 32 KiB at 40 ns, which is more than 160 KiB at 7.5 ns.
        let startup = 300_000_000 + 900_000_000 * 6 / 7;
        let expected = (160 << 10) * 8_900 + startup + (32 << 10) * 40_000;
        assert_eq!(pricing.request(&round, Op::Read, 0, 512 << 10), expected);
    }

    #[test]
    fn servers_that_share_the_work_are_busy_for_less() {
        let cluster = paper(6, 2);
        let mut pricing = Pricing::new(&cluster);
        let flash_only = Round::new([6, 2], &[0, 1 << 20]).unwrap();
        let request = |offset: u64| Group { op: Op::Read, size: 1 << 20, offset: offset << 20, count: 1 };
        let one = pricing.time(&flash_only, &[request(0)], u128::MAX).unwrap();
        let spread = pricing.time(&flash_only, &[request(0), request(1)], u128::MAX).unwrap();
        let same = pricing.time(&flash_only, &[request(0), request(2)], u128::MAX).unwrap();
        assert_eq!((spread.alone, same.alone), (2 * one.alone, 2 * one.alone));
        assert_eq!((spread.busiest, same.busiest), (one.busiest, 2 * one.busiest));
        assert_eq!(same.with(1000), same.alone);
        assert_eq!(same.with(2000), (same.alone + same.busiest) / 2);
        assert_eq!(pricing.time(&flash_only, &[request(0)], one.alone - 1), None);
    }

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
