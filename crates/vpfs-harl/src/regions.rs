//! Divides a file into regions of similar requests [HARL §III-C, Algorithm 1].

use std::ops::Range;

use crate::trace::{Request, Trace};

/// The chunk of the fixed-size division, which bounds the number of regions.
pub const CHUNK: u64 = 64 << 20;

/// A part of a file whose requests are similar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its bytes in the file. The first region starts at 0, and each ends where the next one starts.
    pub bytes: Range<u64>,
    /// Its requests in [`Trace::requests`]: those that begin in it.
    pub requests: Range<usize>,
    /// The mean size of its requests.
    pub mean_size: u64,
}

/// How sensitive the division is, in parts per million.
#[derive(Clone, Copy)]
struct Threshold {
    /// Change of the coefficient of variation (CV), relative to the previous one.
    relative: u128,
    /// From a CV of zero, the smallest CV that is a change.
    from_zero: u128,
}

/// Divides the file of `trace` where the CV of sizes changes by 100 %, or by more if that gives more regions than
/// chunks of `chunk` bytes would. Empty for an empty trace. O(requests) for each threshold tried, at most 70 of them.
///
/// [HARL §III-C, Algorithm 1]. Two departures: a region ends *before* the request that breaks it (the paper's listing
/// keeps that request in the old region, and so spoils its mean), and while the CV is zero, it changes when it exceeds
/// 0.01 %, raised together with the threshold (the listing divides by zero).
pub fn divide(trace: &Trace, chunk: u64) -> Vec<Region> {
    let most = usize::try_from(trace.extent().div_ceil(chunk.max(1))).unwrap_or(usize::MAX).max(1);
    let mut threshold = Threshold { relative: 1_000_000, from_zero: 100 };
    loop {
        let starts = starts(trace.requests(), threshold, most);
        if starts.len() <= most {
            return regions(trace, &starts);
        }
        threshold = threshold.raised();
    }
}

impl Threshold {
    /// The change from zero becomes less sensitive first: mixed sizes start with such a change, whereas the relative
    /// change is what notices another mix.
    fn raised(self) -> Self {
        if self.from_zero < 1_000_000 {
            return Self { from_zero: self.from_zero * 4, ..self };
        }
        Self { relative: self.relative * 2, from_zero: self.from_zero * 2 }
    }

    fn is_exceeded(self, previous: u128, new: u128) -> bool {
        if previous == 0 {
            new > self.from_zero
        } else {
            new.abs_diff(previous) * 1_000_000 >= self.relative * previous
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    count: u128,
    size: u128,
    squares: u128,
}

impl Sums {
    fn with(self, size: u64) -> Self {
        let size = u128::from(size);
        Self { count: self.count + 1, size: self.size + size, squares: self.squares + size * size }
    }

    /// Standard deviation / mean, in parts per million. At most 2^24 requests of 2^36 bytes, so products fit 120 bits.
    fn variation(self) -> u128 {
        (self.count * self.squares - self.size * self.size).isqrt() * 1_000_000 / self.size.max(1)
    }
}

/// The first request of each region; stops when there are more than `most`.
fn starts(requests: &[Request], threshold: Threshold, most: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    let (mut sums, mut variation) = (Sums::default(), 0);
    for (index, request) in requests.iter().enumerate() {
        let new = sums.with(request.size);
        if sums.count == 0 || threshold.is_exceeded(variation, new.variation()) && moved(requests, &starts, index) {
            starts.push(index);
            if starts.len() > most {
                break;
            }
            (sums, variation) = (Sums::default().with(request.size), 0);
        } else {
            (sums, variation) = (new, new.variation());
        }
    }
    starts
}

/// Whether the request begins after the region; one at the same offset cannot lie in another region.
fn moved(requests: &[Request], starts: &[usize], index: usize) -> bool {
    starts.last().is_none_or(|&start| requests[index].offset > requests[start].offset)
        && requests[index].offset > requests[index - 1].offset
}

fn regions(trace: &Trace, starts: &[usize]) -> Vec<Region> {
    let requests = trace.requests();
    let begin = |index: usize| if index == 0 { 0 } else { requests[starts[index]].offset };
    let region = |index: usize| {
        let last = index + 1 == starts.len();
        let own = starts[index]..if last { requests.len() } else { starts[index + 1] };
        let size: u64 = requests[own.clone()].iter().fold(0, |sum, request| sum.saturating_add(request.size));
        Region {
            bytes: begin(index)..if last { trace.extent() } else { begin(index + 1) },
            mean_size: size / own.len() as u64,
            requests: own,
        }
    };
    (0..starts.len()).map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::trace::Op;

    /// Requests one after another.
    fn trace(sizes: impl IntoIterator<Item = u64>) -> Trace {
        let mut offset = 0;
        let request = |size| {
            offset += size;
            Request { rank: 0, op: Op::Read, offset: offset - size, size, start: 0, end: 0 }
        };
        Trace::new(sizes.into_iter().map(request).collect()).unwrap()
    }

    fn runs(sizes: &[(usize, u64)]) -> Trace {
        trace(sizes.iter().flat_map(|&(count, size)| std::iter::repeat_n(size, count)))
    }

    #[test]
    fn a_region_ends_before_the_first_request_of_another_size() {
        let trace = runs(&[(1000, 512 << 10), (400, 1 << 20), (1000, 64 << 10)]);
        let regions = divide(&trace, CHUNK);
        let found: Vec<_> = regions.iter().map(|region| (region.requests.clone(), region.mean_size)).collect();
        assert_eq!(found, [(0..1000, 512 << 10), (1000..1400, 1 << 20), (1400..2400, 64 << 10)]);
        assert_eq!(regions[1].bytes, 1000 * (512 << 10)..1000 * (512 << 10) + 400 * (1 << 20));
    }

    #[test]
    fn mixed_sizes_do_not_give_more_regions_than_chunks() {
        let alternating = |index: u64| if index.is_multiple_of(2) { 64 << 10 } else { 512 << 10 };
        let trace = trace((0..4000).map(alternating));
        assert!(divide(&trace, CHUNK).len() <= 18);
        assert_eq!(divide(&trace, u64::MAX).len(), 1);
    }

    #[test]
    fn small_differences_are_no_change() {
        let trace = trace((0..5000).map(|index| (1 << 20) + index % 2));
        assert_eq!(divide(&trace, CHUNK).len(), 1);
        assert_eq!(divide(&Trace::default(), CHUNK), []);
    }

    proptest! {
        #[test]
        fn regions_cover_all_requests_and_bytes_in_order(
            requests in prop::collection::vec((0_u64..1 << 30, 1_u64..1 << 22), 1..200),
            chunk in 1_u64..1 << 28,
        ) {
            let requests = requests.into_iter().map(|(offset, size)| {
                Request { rank: 0, op: Op::Write, offset, size, start: 0, end: 0 }
            });
            let trace = Trace::new(requests.collect()).unwrap();
            let regions = divide(&trace, chunk);
            prop_assert!(regions.len() as u64 <= trace.extent().div_ceil(chunk).max(1));
            let (mut byte, mut index) = (0, 0);
            for region in &regions {
                prop_assert_eq!((region.bytes.start, region.requests.start), (byte, index));
                prop_assert!(region.bytes.end > byte && region.requests.end > index);
                prop_assert!(trace.requests()[region.requests.clone()].iter().all(|r| region.bytes.contains(&r.offset)));
                (byte, index) = (region.bytes.end, region.requests.end);
            }
            prop_assert_eq!((byte, index), (trace.extent(), trace.requests().len()));
        }
    }
}
