//! Storage device models: what makes contention on an embedded or simulated server real and repeatable.
//!
//! A [`Device`] is a state machine without clock, thread or I/O. Give it accesses with [`Device::submit`], take finished
//! ones with [`Device::poll_completed`], and ask [`Device::poll_timeout`] when to look again. Equal inputs give
//! equal outputs, so a simulator drives one as well as the embedded servers do in real time.
//!
//! A model decides *when* an access is done; it never sees the bytes themselves. [`DeviceProfile`] says which model with which
//! parameters; [`DeviceProfile::NAMED`] has the hardware of the papers and some besides. [`MetadataServer`] is the same for metadata
//! operations, which have no bytes.

mod by_name;
mod dirty;
mod file_server;
mod finishing;
mod hdd;
mod measure;
mod metadata;
mod none;
mod null_aio;
mod profile;
mod ssd;
mod units;
mod volume;
mod write_back;

use std::time::Duration;

use vpfs_core::Time;

pub use by_name::UnknownDevice;
pub use file_server::{FileServer, FileServerProfile};
pub use hdd::Hdd;
pub use measure::measure;
pub use metadata::{MetadataOp, MetadataProfile, MetadataServer};
pub use none::NoDevice;
pub use null_aio::{NullAio, NullAioProfile};
pub use profile::{DeviceProfile, HddProfile, SsdProfile};
pub use ssd::Ssd;
pub use volume::{Volume, VolumeProfile};
pub use write_back::{WriteBack, WriteBackProfile};

/// Whether an access takes bytes from the device or puts them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoKind {
    /// Device to memory.
    Read,
    /// Memory to device; complete when the medium has it, unless a [`WriteBack`] cache stands before it.
    Write,
}

/// One access: `len` bytes from byte `offset` of the stream `object`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Read or write.
    pub kind: IoKind,
    /// The bytestream, by the handle of its datafile (any number that is stable for the stream).
    pub object: u64,
    /// First byte inside the stream.
    pub offset: u64,
    /// Bytes to move; zero is an access that moves nothing but still costs a positioning.
    pub len: u64,
}

/// A device's name for a submitted access: 0, 1, 2, ... in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// A finished access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What [`Device::submit`] returned for it.
    pub id: IoId,
    /// When it finished, never later than the `now` of the poll that yielded it.
    pub at: Time,
}

/// A storage device as a state machine.
///
/// `now` must never go back. The device works on its own time line: an access that waits starts at the instant its
/// predecessor finished, not when somebody polled, so a late poll delays the news and not the device.
pub trait Device: Send {
    /// Takes an access; the queue has no bound of its own, callers bound what they submit.
    fn submit(&mut self, now: Time, io: Io) -> IoId;

    /// The next finished access in order of completion time, `None` when no more have finished by `now`.
    /// Drain after each `submit` and at each timeout.
    fn poll_completed(&mut self, now: Time) -> Option<Completion>;

    /// When to call [`Device::poll_completed`] next, `None` while nothing is outstanding. An access finishes then, or the
    /// device can tell more.
    fn poll_timeout(&self) -> Option<Time>;

    /// Accesses submitted and not yet yielded by `poll_completed`.
    fn outstanding(&self) -> usize;

    /// The server's processor is busy for so long with what is no access. Accesses submitted later wait for it if the
    /// model is one of the server's own work; disks and flash do not.
    fn occupy(&mut self, _now: Time, _work: Duration) {}
}
