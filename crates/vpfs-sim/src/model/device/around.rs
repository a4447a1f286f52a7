//! Devices around another one, which change its speed, let it stand still, or share it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

use super::{Completion, Device, Io, IoId, Outstanding};

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

    fn real(&self, own: Time) -> Time {
        let change = self.change();
        if own <= change { own } else { change + scale(own.since(change), 100, self.profile.percent, true) }
    }
}

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

    fn length(&mut self) -> Duration {
        if !self.profile.heavy {
            return self.draw(self.profile.length);
        }
        self.random = mix(self.random);
        let evenly = ((self.random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
        (self.profile.length / 2).mul_f64(evenly.sqrt().recip().min(32.0))
    }

    fn own(&self, now: Time) -> Time {
        Time::from_nanos(now.nanos_since(Time::ZERO + self.stood)).max(self.own)
    }

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

/// A server's way to a device that other servers use as well, as with servers in virtual machines on one disk. Accesses
/// reach the device in the order in which the servers submit them.
///
/// A server polls at the device's next event, for whichever server that is. Events of a device that sorts its accesses
/// can move when another server submits one; a server then learns of a completion at its next poll, at the latest with
/// the event that it knew before.
#[derive(Debug)]
pub struct Shared<D: ?Sized> {
    server: usize,
    all: Arc<Mutex<Common<D>>>,
}

/// The device, and whom its accesses belong to.
#[derive(Debug)]
struct Common<D: ?Sized> {
    owners: Outstanding<(usize, IoId)>,
    servers: Vec<OfServer>,
    device: Box<D>,
}

#[derive(Debug, Default)]
struct OfServer {
    submitted: u64,
    outstanding: usize,
    done: VecDeque<Completion>,
}

impl<D: Device + ?Sized> Shared<D> {
    /// `device` as it appears to each of `servers` servers.
    pub fn between(servers: usize, device: Box<D>) -> Vec<Self> {
        let owned = (0..servers).map(|_| OfServer::default()).collect();
        let all = Arc::new(Mutex::new(Common { owners: Outstanding::default(), servers: owned, device }));
        (0..servers).map(|server| Self { server, all: Arc::clone(&all) }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Common<D>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device + ?Sized> Common<D> {
    fn collect(&mut self, now: Time) {
        while let Some(Completion { id, at }) = self.device.poll_completed(now) {
            let (server, id) = self.owners.remove(id).expect("an access completes once");
            self.servers[server].done.push_back(Completion { id, at });
        }
    }
}

impl<D: Device + ?Sized> Device for Shared<D> {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        let mut all = self.lock();
        all.collect(now);
        let id = all.device.submit(now, io);
        let own = &mut all.servers[self.server];
        let local = IoId(own.submitted);
        own.submitted += 1;
        own.outstanding += 1;
        all.owners.insert(id, (self.server, local));
        local
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        let mut all = self.lock();
        all.collect(now);
        let own = &mut all.servers[self.server];
        let done = own.done.pop_front()?;
        own.outstanding -= 1;
        Some(done)
    }

    fn poll_timeout(&self) -> Option<Time> {
        let all = self.lock();
        let own = &all.servers[self.server];
        if own.outstanding == 0 {
            return None;
        }
        own.done.front().map(|done| done.at).or_else(|| all.device.poll_timeout())
    }

    fn outstanding(&self) -> usize {
        self.lock().servers[self.server].outstanding
    }

    fn occupy(&mut self, now: Time, work: Duration) {
        self.lock().device.occupy(now, work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::device::{DeviceProfile, HddProfile, IoKind};

    /// Ten accesses of 15 ms each, one of which is under way at the change.
    fn times_at(percent: u32) -> Vec<u128> {
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
        assert_eq!(times_at(100), [15, 30, 45, 60, 75, 90]);
        assert_eq!(times_at(50), [15, 30, 50, 80, 110, 140]);
        assert_eq!(times_at(500), [15, 30, 41, 44, 47, 50]);
    }

    const PROFILE: StallProfile =
        StallProfile { every: Duration::from_secs(1), length: Duration::from_millis(200), heavy: false };

    /// When each of 2,000 accesses of 1 MiB is done, one after another.
    fn times_with(seed: u64) -> Vec<Duration> {
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
        let times = times_with(1);
        let waits = times.windows(2).map(|pair| pair[1] - pair[0] - Duration::from_millis(10));
        let stalls: Vec<_> = waits.filter(|wait| *wait > Duration::from_millis(1)).collect();
        assert!((18..=22).contains(&stalls.len()), "{stalls:?}");
        assert!(stalls.iter().all(|stall| (100..=300).contains(&stall.as_millis())), "{stalls:?}");
        assert_eq!(*times.last().unwrap(), Duration::from_millis(20_005) + stalls.iter().sum::<Duration>());
    }

    #[test]
    fn it_depends_on_the_seed_alone() {
        assert_eq!(times_with(1), times_with(1));
        assert_ne!(times_with(1), times_with(2));
    }

    /// When each of two servers' accesses of 1 MiB is done, submitted by turns at time zero.
    #[test]
    fn servers_wait_for_each_other() {
        let device = DeviceProfile::Hdd(HddProfile { bytes_per_second: 100 << 20, ..HddProfile::ONE_HEAD }).build();
        let mut servers = Shared::between(2, device);
        for index in 0..6_u64 {
            let io = Io { kind: IoKind::Write, object: index, offset: 0, len: 1 << 20 };
            let id = servers[usize::from(index % 2 == 1)].submit(Time::ZERO, io);
            assert_eq!(id, IoId(index / 2), "each server counts its own");
        }
        let mut done = [Vec::new(), Vec::new()];
        while let Some(at) = servers.iter().filter_map(Device::poll_timeout).min() {
            for (server, done) in servers.iter_mut().zip(&mut done) {
                done.extend(std::iter::from_fn(|| server.poll_completed(at)));
            }
        }
        let times = |done: &[Completion]| done.iter().map(|done| done.at.as_nanos() / 1_000_000).collect::<Vec<_>>();
        assert_eq!((times(&done[0]), times(&done[1])), (vec![15, 45, 75], vec![30, 60, 90]));
        assert!(servers.iter().all(|server| server.outstanding() == 0));
    }
}
