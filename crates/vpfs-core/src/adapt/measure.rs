//! How much time the storage took for an amount of work, and how precisely that is known.

/// Time and work summed over completions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure {
    pub(super) samples: u64,
    nanos: u128,
    work: u128,
    /// Sums of squares and products.
    nanos_squared: u128,
    nanos_work: u128,
    work_squared: u128,
}

/// One in parts of a million.
const ONE_PPM: u64 = 1_000_000;

impl Measure {
    /// Larger values are cut to this, so that no sum overflows.
    const VALUE_MAX: u64 = 1 << 36;
    /// With this many samples a measure is good enough, however much they differ.
    pub(super) const SAMPLES_MAX: u64 = 512;
    /// Fewer samples may agree by chance.
    const SAMPLES_MIN: u64 = 12;

    /// One completion: the time since the previous one, and the time expected for its class.
    pub(super) fn of(nanos: u64, work: u64) -> Self {
        let nanos = u128::from(nanos.min(Self::VALUE_MAX));
        let work = u128::from(work.clamp(1, Self::VALUE_MAX));
        Self {
            samples: 1,
            nanos,
            work,
            nanos_squared: nanos * nanos,
            nanos_work: nanos * work,
            work_squared: work * work,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.nanos += other.nanos;
        self.work += other.work;
        self.nanos_squared += other.nanos_squared;
        self.nanos_work += other.nanos_work;
        self.work_squared += other.work_squared;
    }

    /// The mean of `sum`, weighted by work.
    pub(super) fn mean_of(&self, sum: u128) -> u64 {
        u64::try_from(sum / self.work.max(1)).unwrap_or(u64::MAX >> 8).min(u64::MAX >> 8)
    }

    /// Time for each unit of work, in millionths; between 1 and 2⁴⁰.
    pub(super) fn slowness(&self) -> u64 {
        let slowness = self.nanos * u128::from(ONE_PPM) / self.work.max(1);
        u64::try_from(slowness).unwrap_or(u64::MAX).clamp(1, 1 << 40)
    }

    /// Whether the relative standard error of [`Measure::slowness`] is below `error_ppm`, or there are enough samples.
    ///
    /// For the ratio r = Σ nanos / Σ work it is the root of Σ (nanos − r · work)², relative to Σ nanos.
    pub(super) fn is_precise(&self, error_ppm: u32) -> bool {
        if self.samples >= Self::SAMPLES_MAX || self.samples < Self::SAMPLES_MIN {
            return self.samples >= Self::SAMPLES_MAX;
        }
        let ratio = ((self.nanos << 16) / self.work.max(1)).min(1 << 24);
        let expected = (((self.work_squared >> 16) * ratio) >> 16) * ratio;
        let spread = (self.nanos_squared + expected).saturating_sub((self.nanos_work >> 15) * ratio);
        let (one, error) = (u128::from(ONE_PPM), u128::from(error_ppm));
        spread * one / error * one / error <= self.nanos * self.nanos
    }

    /// Whether one is more than 1.5 times as slow as the other.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let (one, other) = (self.slowness(), other.slowness());
        one * 2 > other * 3 || other * 2 > one * 3
    }

    /// By how much `self` is faster than `other`, in parts per million of the other's throughput; at most 1000 times.
    pub(super) fn gain_ppm(&self, other: &Self) -> i64 {
        let ratio = (other.slowness() * ONE_PPM / self.slowness()).min(1000 * ONE_PPM);
        i64::try_from(ratio).unwrap_or(i64::MAX) - 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(samples: &[(u64, u64)]) -> Measure {
        let mut sum = Measure::default();
        samples.iter().for_each(|&(nanos, work)| sum.add(&Measure::of(nanos, work)));
        sum
    }

    #[test]
    fn precision_grows_with_samples_and_agreement() {
        let noisy = |n: usize| measure(&[(500_000, 1_000_000), (1_500_000, 1_000_000)].repeat(n));
        // Half of the mean as deviation: an error of 5 % after 100 samples.
        assert!(!noisy(45).is_precise(50_000) && noisy(55).is_precise(50_000));
        // Different sizes that each take the expected time are not noise.
        assert!(measure(&[(500_000, 1_000_000), (10_000_000, 20_000_000)].repeat(6)).is_precise(30_000));
        assert!(!measure(&[(500_000, 1_000_000)]).is_precise(30_000));
    }

    #[test]
    fn extremes_do_not_overflow() {
        for sample in [(u64::MAX, u64::MAX), (0, 0), (u64::MAX, 0), (0, u64::MAX)] {
            let mut sum = measure(&[sample; 511]);
            sum.is_precise(30_000);
            for _ in 0..100 {
                sum.add(&measure(&[sample; 512]));
            }
            assert!(!sum.differs(&sum) && sum.gain_ppm(&sum) == 0);
        }
        assert_eq!(measure(&[(0, 1)]).gain_ppm(&measure(&[(1 << 36, 1)])), 999_000_000);
    }
}
