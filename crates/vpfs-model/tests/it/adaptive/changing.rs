//! Devices that change while they run.

use std::time::Duration;

use vpfs_core::Time;
use vpfs_model::device::{Completion, Device, Io, IoId};

/// From `at` on, one nanosecond outside corresponds to `faster / slower` nanoseconds of the device's own time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) at: Time,
    pub(crate) faster: u32,
    pub(crate) slower: u32,
}

/// Runs `inner` on a separate time line, which is as fast as the clock until `change`.
pub(crate) struct Scaled {
    inner: Box<dyn Device>,
    change: Change,
}

impl Scaled {
    pub(crate) fn new(inner: Box<dyn Device>, change: Change) -> Self {
        Self { inner, change }
    }

    fn inside(&self, outside: Time) -> Time {
        let Change { at, faster, slower } = self.change;
        outside.min(at) + outside.since(at) * faster / slower
    }

    /// The first instant whose [`Scaled::inside`] is not before `inside`.
    fn outside(&self, inside: Time) -> Time {
        let Change { at, faster, slower } = self.change;
        let later = inside.since(at);
        let stretched = (later.as_nanos() * u128::from(slower)).div_ceil(u128::from(faster));
        inside.min(at) + Duration::from_nanos(u64::try_from(stretched).expect("a test does not run for centuries"))
    }
}

impl Device for Scaled {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        self.inner.submit(self.inside(now), io)
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        let Completion { id, at } = self.inner.poll_completed(self.inside(now))?;
        Some(Completion { id, at: self.outside(at) })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.inner.poll_timeout().map(|at| self.outside(at))
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}

/// Two devices: accesses submitted from `at` on go to the second.
pub(crate) struct Replaced {
    devices: [Box<dyn Device>; 2],
    at: Time,
}

impl Replaced {
    pub(crate) fn new(first: Box<dyn Device>, at: Time, second: Box<dyn Device>) -> Self {
        Self { devices: [first, second], at }
    }
}

impl Device for Replaced {
    fn submit(&mut self, now: Time, io: Io) -> IoId {
        let which = usize::from(now >= self.at);
        IoId(2 * self.devices[which].submit(now, io).0 + which as u64)
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        (0..).zip(&mut self.devices).find_map(|(which, device)| {
            let Completion { id, at } = device.poll_completed(now)?;
            Some(Completion { id: IoId(2 * id.0 + which), at })
        })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.devices.iter().filter_map(|device| device.poll_timeout()).min()
    }

    fn outstanding(&self) -> usize {
        self.devices.iter().map(|device| device.outstanding()).sum()
    }
}
