//! Histograms of times, coarser than those of accounts: each bucket is a series.

use vpfs_node::Histogram;

/// The upper ends of buckets, as powers of two of microseconds: from 128 µs, which flash may take, to half a minute, by
/// factors of four.
const ENDS: [usize; 10] = [7, 9, 11, 13, 15, 17, 19, 21, 23, 25];

/// Upper ends in seconds with the counts of each bucket, and the count of all.
pub(super) fn buckets(histogram: &Histogram) -> (Vec<(f64, u64)>, u64) {
    let mut buckets = Vec::with_capacity(ENDS.len() + 1);
    let mut start = 0;
    for end in ENDS {
        // Those of `counts[i]` took less than 2^(i + 1) µs.
        buckets.push(((1_u64 << end) as f64 / 1e6, histogram.counts[start..end].iter().sum()));
        start = end;
    }
    buckets.push((f64::INFINITY, histogram.counts[start..].iter().sum()));
    (buckets, histogram.counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_counted_in_one_bucket() {
        let mut histogram = Histogram::default();
        // Below 128 µs, from there, the longest.
        (histogram.counts[6], histogram.counts[7], histogram.counts[31]) = (1, 2, 3);
        let (buckets, count) = buckets(&histogram);
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).copied().collect();
        assert_eq!((filled, count), (vec![(0.000_128, 1), (0.000_512, 2), (f64::INFINITY, 3)], 6));
    }
}
