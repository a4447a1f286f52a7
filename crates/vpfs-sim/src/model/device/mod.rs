//! Storage device models, which make contention on an embedded or simulated server realistic and repeatable.
//!
//! A [`Device`] is a state machine without clock, thread or I/O. Give it accesses with [`Device::submit`], take
//! finished ones with [`Device::poll_completed`], and ask [`Device::poll_timeout`] when to poll again. Equal inputs
//! give equal outputs, so that a simulator can drive a model as well as the embedded servers, which do so in real time.
//!
//! A model decides *when* an access is done; it never sees the bytes themselves. [`DeviceProfile`] selects a model and
//! its parameters; [`DeviceProfile::NAMED`] has the hardware of the papers and some others. [`MetadataServer`] is the
//! same for metadata operations, which have no bytes.

mod by_name;
mod changing;
mod finishing;
mod hdd;
mod kept;
mod metadata;
mod neighbours;
mod none;
mod null_aio;
mod outstanding;
mod page_cache;
mod pages;
mod profile;
mod shared;
mod ssd;
mod stalling;
mod uniform;
mod units;
mod volume;

use std::time::Duration;

use vpfs_core::Time;

pub use by_name::UnknownDevice;
pub use changing::{ChangeProfile, Changing};
pub use hdd::{Hdd, HddProfile};
pub use metadata::{MetadataOp, MetadataProfile, MetadataServer};
pub use none::NoDevice;
pub use null_aio::{NullAio, NullAioProfile};
pub use outstanding::Outstanding;
pub use page_cache::{PageCache, PageCacheProfile};
pub use profile::DeviceProfile;
pub use shared::Shared;
pub use ssd::{Ssd, SsdProfile};
pub use stalling::{StallProfile, Stalling};
pub use uniform::{Uniform, UniformAccess, UniformProfile};
pub use units::transfer_time;
pub use volume::{Volume, VolumeProfile};

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoKind {
    /// Device to memory.
    Read,
    /// Memory to device; complete when the medium has the data, unless there is a [`PageCache`] in front of it.
    Write,
    /// The same, complete when the medium has the data in any case: a stable write of NFS, or a write and its fsync.
    StableWrite,
}

/// One access: `len` bytes from byte `offset` of the stream `object`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Read or write.
    pub kind: IoKind,
    /// The byte stream, identified by the handle of its datafile (or any other number that is stable for the stream).
    pub object: u64,
    /// First byte inside the stream.
    pub offset: u64,
    /// Bytes to move; an access of zero bytes moves nothing but still costs a positioning.
    pub len: u64,
}

/// A device's id for a submitted access: 0, 1, 2, ... in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// A finished access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id that [`Device::submit`] returned for it.
    pub id: IoId,
    /// When it finished; never later than the `now` of the poll that yielded it.
    pub at: Time,
}

/// A storage device as a state machine.
///
/// `now` must never go back. The device works on its own time line: a waiting access starts at the instant when its
/// predecessor finished, not at the next poll, so a late poll delays the report but not the device.
pub trait Device: Send {
    /// Submits an access. The queue is unbounded; callers limit what they submit.
    fn submit(&mut self, now: Time, io: Io) -> IoId;

    /// The next finished access in order of completion time, `None` when no more have finished by `now`.
    /// Drain after each `submit` and at each timeout.
    fn poll_completed(&mut self, now: Time) -> Option<Completion>;

    /// When to call [`Device::poll_completed`] next, `None` while nothing is outstanding. Either an access finishes
    /// then, or the device can compute its next step.
    fn poll_timeout(&self) -> Option<Time>;

    /// Accesses submitted and not yet yielded by `poll_completed`.
    fn outstanding(&self) -> usize;

    /// The server's processor is busy with other work for this long. Accesses submitted later wait for it if the model
    /// includes the server's own work; disks and flash ignore it.
    fn occupy(&mut self, _now: Time, _work: Duration) {}
}
