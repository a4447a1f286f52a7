//! Storage as HARL models it: a random start-up time, and then bytes at a constant rate.

use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use super::finishing::Finishing;
use super::units::transfer_time;
use super::{Completion, Device, Io, IoId, IoKind};

/// Times of reads or of writes [HARL §III-D, Table I].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniformAccess {
    /// The shortest start-up time.
    pub startup_min: Duration,
    /// The longest start-up time; if it is less than the shortest one, that one is taken.
    pub startup_max: Duration,
    /// Bytes per second after the start-up.
    pub bytes_per_second: u64,
}

/// One access at a time in arrival order: a start-up time drawn evenly from a range, then bytes at a constant rate,
/// wherever the access before it was. Reads and writes have their own times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniformProfile {
    /// Times of reads.
    pub read: UniformAccess,
    /// Times of writes.
    pub write: UniformAccess,
}

impl UniformAccess {
    const fn micros(startup_min: u64, startup_max: u64, bytes_per_second: u64) -> Self {
        Self {
            startup_min: Duration::from_micros(startup_min),
            startup_max: Duration::from_micros(startup_max),
            bytes_per_second,
        }
    }

    /// The time of one access of `len` bytes, with a start-up time selected by `lot`.
    fn time(&self, len: u64, lot: u64) -> Duration {
        let span = u64::try_from(self.startup_max.saturating_sub(self.startup_min).as_nanos()).unwrap_or(u64::MAX);
        let extra = Duration::from_nanos(lot % span.saturating_add(1));
        self.startup_min.saturating_add(extra).saturating_add(transfer_time(len, self.bytes_per_second))
    }
}

impl UniformProfile {
    /// The disk of the HARL servers, **assumed**: the paper prints no parameters. With these and [`Self::HARL_FLASH`],
    /// behind links of 8.9 ns for a byte, its cost model gives the stripes that it reports. 40 ns for a byte.
    pub const HARL_DISK: Self = {
        let both = UniformAccess::micros(300, 1200, 25_000_000);
        Self { read: both, write: both }
    };

    /// The flash of the HARL servers, **assumed** as [`Self::HARL_DISK`]: 7.5 ns for a byte read, 9.3 ns for one
    /// written.
    pub const HARL_FLASH: Self =
        Self { read: UniformAccess::micros(50, 100, 133_333_333), write: UniformAccess::micros(80, 200, 107_526_882) };
}

/// Storage with a random start-up time for each access.
#[derive(Debug)]
pub struct Uniform {
    profile: UniformProfile,
    free_from: Time,
    submitted: u64,
    finishing: Finishing,
}

impl Uniform {
    /// An idle device.
    pub fn new(profile: UniformProfile) -> Self {
        Self { profile, free_from: Time::ZERO, submitted: 0, finishing: Finishing::default() }
    }
}

impl Device for Uniform {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        // The object depends on the seed of the run, so other seeds draw other times.
        let lot = mix(mix(mix(io.object) ^ io.offset) ^ self.submitted);
        self.submitted += 1;
        let access = match io.kind {
            IoKind::Read => &self.profile.read,
            IoKind::Write | IoKind::StableWrite => &self.profile.write,
        };
        self.free_from = self.free_from.max(now) + access.time(io.len, lot);
        self.finishing.submit(self.free_from)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn times(profile: UniformProfile, kind: IoKind, len: u64, count: u64) -> Vec<Duration> {
        let mut device = Uniform::new(profile);
        for number in 0..count {
            device.submit(Time::ZERO, Io { kind, object: 7, offset: number * len, len });
        }
        let mut before = Time::ZERO;
        std::iter::from_fn(|| device.poll_timeout().and_then(|at| device.poll_completed(at)))
            .map(|done| done.at.since(std::mem::replace(&mut before, done.at)))
            .collect()
    }

    #[test]
    fn start_up_times_fill_their_range_evenly() {
        let times = times(UniformProfile::HARL_DISK, IoKind::Read, 25_000, 10_000);
        let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        assert!((1300..1310).contains(&least.as_micros()) && (2190..=2200).contains(&most.as_micros()));
        let mean = times.iter().sum::<Duration>() / 10_000;
        assert!((1740..1760).contains(&mean.as_micros()), "{mean:?}");
    }

    #[test]
    fn writes_have_their_own_times() {
        let fixed = |micros, rate| UniformAccess::micros(micros, micros, rate);
        let profile = UniformProfile { read: fixed(100, 1_000_000), write: fixed(200, 2_000_000) };
        assert_eq!(times(profile, IoKind::Read, 1000, 2), [Duration::from_micros(1100); 2]);
        assert_eq!(times(profile, IoKind::Write, 1000, 1), [Duration::from_micros(700)]);
    }
}
