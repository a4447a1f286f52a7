//! One device under several servers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vpfs_core::Time;

use super::outstanding::Outstanding;
use super::{Completion, Device, Io, IoId};

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
    /// The server of each outstanding access, and its id there.
    owners: Outstanding<(usize, IoId)>,
    /// By server.
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
    /// Hands what is done to those that it belongs to.
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
