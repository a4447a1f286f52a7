//! A device that becomes slower or faster.

use std::time::Duration;

use vpfs_core::Time;

use super::{Completion, Device, Io, IoId};

/// When the speed of a [`Changing`] device changes, and to what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeProfile {
    /// The change, counted from the start.
    pub at: Duration,
    /// The speed from then on, as a percentage of the speed before; not zero.
    pub percent: u32,
}

/// Another device whose time passes at another speed from some moment on: rates, limits and latencies all change.
#[derive(Debug)]
pub struct Changing<D: ?Sized> {
    profile: ChangeProfile,
    device: Box<D>,
}

impl<D: Device + ?Sized> Changing<D> {
    /// `device` with that change.
    pub fn new(profile: ChangeProfile, device: Box<D>) -> Self {
        Self { profile, device }
    }

    fn change(&self) -> Time {
        Time::ZERO + self.profile.at
    }

    /// The device's own time.
    fn own(&self, now: Time) -> Time {
        let change = self.change();
        if now <= change { now } else { change + scale(now.since(change), self.profile.percent, 100, false) }
    }

    /// The time at which the device's own time has reached `own`.
    fn real(&self, own: Time) -> Time {
        let change = self.change();
        if own <= change { own } else { change + scale(own.since(change), 100, self.profile.percent, true) }
    }
}

/// `time` times `by` / `per`.
fn scale(time: Duration, by: u32, per: u32, up: bool) -> Duration {
    let (nanos, per) = (time.as_nanos() * u128::from(by), u128::from(per.max(1)));
    let nanos = if up { nanos.div_ceil(per) } else { nanos / per };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl<D: Device + ?Sized> Device for Changing<D> {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.device.submit(self.own(now), io)
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        let Completion { id, at } = self.device.poll_completed(self.own(now))?;
        Some(Completion { id, at: self.real(at).min(now) })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.device.poll_timeout().map(|own| self.real(own))
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding()
    }

    fn occupy(&mut self, now: Time, work: Duration) {
        self.device.occupy(self.own(now), work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::device::{DeviceProfile, HddProfile, IoKind};

    /// Ten accesses of 15 ms each, one of which is under way at the change.
    fn times(percent: u32) -> Vec<u128> {
        let device = DeviceProfile::Hdd(HddProfile { bytes_per_second: 100 << 20, ..HddProfile::ONE_HEAD }).build();
        let mut device = Changing::new(ChangeProfile { at: Duration::from_millis(40), percent }, device);
        for object in 0..6 {
            device.submit(Time::ZERO, Io { kind: IoKind::Write, object, offset: 0, len: 1 << 20 });
        }
        let mut done = Vec::new();
        while let Some(at) = device.poll_timeout() {
            let completion = device.poll_completed(at).expect("it is done then");
            assert_eq!(completion.at, at);
            done.push(at.since(Time::ZERO).as_millis());
        }
        done
    }

    #[test]
    fn what_is_left_takes_longer_or_less() {
        assert_eq!(times(100), [15, 30, 45, 60, 75, 90]);
        assert_eq!(times(50), [15, 30, 50, 80, 110, 140]);
        assert_eq!(times(500), [15, 30, 41, 44, 47, 50]);
    }
}
