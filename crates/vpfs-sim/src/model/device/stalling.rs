//! A device that stands still now and then.

use std::collections::VecDeque;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use super::{Completion, Device, Io, IoId};

/// How a [`Stalling`] device stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallProfile {
    /// The mean time from the end of one standstill to the next.
    pub every: Duration,
    /// The mean length of one.
    pub length: Duration,
    /// Lengths of which few are much longer than the mean.
    pub heavy: bool,
}

/// Another device on storage that it has not for itself, which stands still for moments: nothing starts or finishes in
/// the meantime, and everything goes on afterwards as if there had been no such moment. Pauses and lengths are drawn
/// evenly from half to one and a half of their means; heavy lengths from a Pareto distribution with exponent 2, from
/// half their mean up to sixteen times that.
#[derive(Debug)]
pub struct Stalling<D: ?Sized> {
    profile: StallProfile,
    random: u64,
    /// The next standstill.
    next: Time,
    /// The sum of those that have begun, and the device's own time at the last one, before which it cannot be.
    stood: Duration,
    own: Time,
    done: VecDeque<Completion>,
    device: Box<D>,
}

impl<D: Device + ?Sized> Stalling<D> {
    /// `device` with standstills that follow from `seed`.
    pub fn new(profile: StallProfile, seed: u64, device: Box<D>) -> Self {
        let (stood, own, done) = (Duration::ZERO, Time::ZERO, VecDeque::new());
        let mut stalling = Self { profile, random: seed, next: Time::ZERO, stood, own, done, device };
        stalling.next = Time::ZERO + stalling.draw(profile.every);
        stalling
    }

    /// From half to one and a half of `mean`, never zero.
    fn draw(&mut self, mean: Duration) -> Duration {
        self.random = mix(self.random);
        let mean = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX / 2).max(2);
        Duration::from_nanos(mean / 2 + self.random % mean)
    }

    /// The length of a standstill.
    fn length(&mut self) -> Duration {
        if !self.profile.heavy {
            return self.draw(self.profile.length);
        }
        self.random = mix(self.random);
        let evenly = ((self.random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (self.profile.length / 2).mul_f64(evenly.sqrt().recip().min(32.0))
    }

    /// The device's own time.
    fn own(&self, now: Time) -> Time {
        Time::from_nanos(now.nanos_since(Time::ZERO + self.stood)).max(self.own)
    }

    /// Runs the device up to `now`.
    fn advance(&mut self, now: Time) {
        while self.next <= now {
            let own = self.own(self.next);
            self.take_done(own);
            let length = self.length();
            (self.own, self.stood) = (own, self.stood + length);
            self.next = self.next + length + self.draw(self.profile.every);
        }
        self.take_done(self.own(now));
    }

    fn take_done(&mut self, own: Time) {
        while let Some(Completion { id, at }) = self.device.poll_completed(own) {
            self.done.push_back(Completion { id, at: at + self.stood });
        }
    }
}

impl<D: Device + ?Sized> Device for Stalling<D> {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.advance(now);
        self.device.submit(self.own(now), io)
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        self.advance(now);
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        let first = self.done.front().map(|done| done.at);
        first.or_else(|| self.device.poll_timeout().map(|own| (own + self.stood).min(self.next)))
    }

    fn outstanding(&self) -> usize {
        self.done.len() + self.device.outstanding()
    }

    fn occupy(&mut self, now: Time, work: Duration) {
        self.advance(now);
        self.device.occupy(self.own(now), work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::device::{DeviceProfile, HddProfile, IoKind};

    const PROFILE: StallProfile =
        StallProfile { every: Duration::from_secs(1), length: Duration::from_millis(200), heavy: false };

    /// When each of 2,000 accesses of 1 MiB is done, one after another.
    fn times(seed: u64) -> Vec<Duration> {
        let device = DeviceProfile::Hdd(HddProfile { bytes_per_second: 100 << 20, ..HddProfile::ONE_HEAD }).build();
        let mut device = Stalling::new(PROFILE, seed, device);
        let mut now = Time::ZERO;
        let one = |index| {
            device.submit(now, Io { kind: IoKind::Write, object: 1, offset: index << 20, len: 1 << 20 });
            loop {
                now = device.poll_timeout().expect("one is outstanding");
                if let Some(done) = device.poll_completed(now) {
                    assert_eq!((done.at, device.outstanding()), (now, 0));
                    return now.since(Time::ZERO);
                }
            }
        };
        (0..2_000_u64).map(one).collect()
    }

    #[test]
    fn it_stands_still_as_often_and_as_long_as_it_should() {
        let times = times(1);
        let waits = times.windows(2).map(|pair| pair[1] - pair[0] - Duration::from_millis(10));
        let stalls: Vec<_> = waits.filter(|wait| *wait > Duration::from_millis(1)).collect();
        assert!((18..=22).contains(&stalls.len()), "{stalls:?}");
        assert!(stalls.iter().all(|stall| (100..=300).contains(&stall.as_millis())), "{stalls:?}");
        assert_eq!(*times.last().unwrap(), Duration::from_millis(20_005) + stalls.iter().sum::<Duration>());
    }

    #[test]
    fn it_depends_on_the_seed_alone() {
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }
}
