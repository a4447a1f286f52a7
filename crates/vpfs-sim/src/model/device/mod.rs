//! Storage device models, which make contention on an embedded or simulated server realistic and repeatable.
//!
//! A [`Device`] is a state machine without clock, thread or I/O. Give it accesses with [`Device::submit`], take
//! finished ones with [`Device::poll_completed`], and ask [`Device::poll_timeout`] when to poll again. Equal inputs
//! give equal outputs, so that a simulator can drive a model as well as the embedded servers, which do so in real time.
//!
//! A model decides *when* an access is done; it never sees the bytes themselves. [`DeviceProfile`] selects a model and
//! its parameters; [`DeviceProfile::NAMED`] has the hardware of the papers and some others. [`MetadataServer`] is the
//! same for metadata operations, which have no bytes.

mod around;
mod arrival_order;
mod hdd;
mod page_cache;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::Hasher;
use std::time::Duration;

use vpfs_core::Time;
use vpfs_core::hash::mix;

pub use around::{ChangeProfile, Changing, Shared, StallProfile, Stalling};
pub use arrival_order::{
    MetadataOp, MetadataProfile, MetadataServer, NoDevice, NullAio, NullAioProfile, Ssd, SsdProfile, Uniform,
    UniformAccess, UniformProfile, Volume, VolumeProfile,
};
pub use hdd::{Hdd, HddProfile};
pub use page_cache::{PageCache, PageCacheProfile};

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

fn end_of(io: &Io) -> u64 {
    io.offset.saturating_add(io.len)
}

/// Time to move `len` bytes at `rate` bytes per second, rounded down to a nanosecond.
pub fn transfer_time(len: u64, rate: u64) -> Duration {
    let exact = || u64::try_from(u128::from(len) * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX);
    // Nearly every product fits, and divisions of 128 bits cost several times those of 64.
    Duration::from_nanos(len.checked_mul(1_000_000_000).map_or_else(exact, |nanos| nanos / rate.max(1)))
}

/// Numbers accesses whose finish time is known, and yields them when they finish; equal times in order of submission.
#[derive(Debug, Default)]
struct Finishing {
    submitted: u64,
    times: BinaryHeap<Reverse<(Time, IoId)>>,
}

impl Finishing {
    /// The id of the next access, for one whose finish time is not known yet; see [`Finishing::finish`].
    fn next_id(&mut self) -> IoId {
        let id = IoId(self.submitted);
        self.submitted += 1;
        id
    }

    fn finish(&mut self, at: Time, id: IoId) {
        self.times.push(Reverse((at, id)));
    }

    fn submit(&mut self, at: Time) -> IoId {
        let id = self.next_id();
        self.finish(at, id);
        id
    }

    fn poll_completed(&mut self, now: Time) -> Option<Completion> {
        let &Reverse((at, id)) = self.times.peek().filter(|next| next.0.0 <= now)?;
        self.times.pop();
        Some(Completion { id, at })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.times.peek().map(|next| next.0.0)
    }

    fn len(&self) -> usize {
        self.times.len()
    }
}

/// Something for each outstanding access, by its id. O(1), with a place for each id from the oldest one to the newest:
/// small where no access is passed by many others.
#[derive(Clone, Debug)]
pub struct Outstanding<T> {
    oldest: u64,
    places: VecDeque<Option<T>>,
    len: usize,
}

impl<T> Default for Outstanding<T> {
    fn default() -> Self {
        Self { oldest: 0, places: VecDeque::new(), len: 0 }
    }
}

impl<T> Outstanding<T> {
    /// Adds an access that is newer than all before.
    pub fn insert(&mut self, id: IoId, value: T) {
        if self.places.is_empty() {
            self.oldest = id.0;
        }
        let index = self.index(id).filter(|index| *index >= self.places.len()).expect("ids ascend");
        self.places.resize_with(index, || None);
        self.places.push_back(Some(value));
        self.len += 1;
    }

    /// Takes an access out.
    pub fn remove(&mut self, id: IoId) -> Option<T> {
        let removed = self.index(id).and_then(|index| self.places.get_mut(index)?.take())?;
        self.len -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.oldest += 1;
        }
        Some(removed)
    }

    /// What belongs to an access.
    pub fn get(&self, id: IoId) -> Option<&T> {
        self.places.get(self.index(id)?)?.as_ref()
    }

    fn oldest(&self) -> Option<&T> {
        self.places.front()?.as_ref()
    }

    fn get_mut(&mut self, id: IoId) -> Option<&mut T> {
        let index = self.index(id)?;
        self.places.get_mut(index)?.as_mut()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn index(&self, id: IoId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.oldest)?).ok()
    }
}

/// Fast, and no protection from those who choose places that collide: models serve simulations and tests.
#[derive(Debug, Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The storage model of a server.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum DeviceProfile {
    /// As fast as memory.
    #[default]
    None,
    /// One moving head.
    Hdd(HddProfile),
    /// Flash with parallel channels.
    Ssd(SsdProfile),
    /// A random start-up time, then a constant rate.
    Uniform(UniformProfile),
    /// Limits on bytes and I/Os per second.
    Volume(VolumeProfile),
    /// No storage, only the server's own work.
    NullAio(NullAioProfile),
    /// A file server's page cache in front of a device.
    PageCache(PageCacheProfile, Box<DeviceProfile>),
    /// A device whose speed changes.
    Changing(ChangeProfile, Box<DeviceProfile>),
}

impl DeviceProfile {
    /// The disk of the vPFS+ storage nodes, see [`HddProfile::SAS_7200`].
    pub const fn hdd() -> Self {
        Self::Hdd(HddProfile::SAS_7200)
    }

    /// The flash card of the IOCO and HARL servers, see [`SsdProfile::PCIE_X4`].
    pub const fn ssd() -> Self {
        Self::Ssd(SsdProfile::PCIE_X4)
    }

    /// A new idle device of this kind.
    pub fn build(&self) -> Box<dyn Device> {
        match self {
            Self::None => Box::new(NoDevice::default()),
            Self::Hdd(profile) => Box::new(Hdd::new(profile.clone())),
            Self::Ssd(profile) => Box::new(Ssd::new(profile.clone())),
            Self::Uniform(profile) => Box::new(Uniform::new(*profile)),
            Self::Volume(profile) => Box::new(Volume::new(profile.clone())),
            Self::NullAio(profile) => Box::new(NullAio::new(profile.clone())),
            Self::PageCache(profile, device) => Box::new(PageCache::new(profile.clone(), device.build())),
            Self::Changing(profile, device) => Box::new(Changing::new(*profile, device.build())),
        }
    }
}

/// No device model has this name; the message lists the existing ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no device model {name:?}; the models are {}", names().join(", "))]
pub struct UnknownDevice {
    /// The name requested.
    pub name: String,
}

fn names() -> Vec<&'static str> {
    DeviceProfile::NAMED.iter().map(|(name, _)| *name).collect()
}

impl DeviceProfile {
    /// All names with their meaning: one set of parameters for each description of hardware.
    pub const NAMED: [(&str, &str); 15] = [
        ("none", "as fast as memory"),
        ("hdd", "the disk of a vPFS or vPFS+ data server, without cache, as in their profiling [vPFS+ §III-B]"),
        ("ssd", "flash of the IOCO and HARL nodes: PCI-E X4, 100 GB [IOCO §2.2], [HARL §IV-A]"),
        ("vpfs-server", "`hdd` behind the page cache of its server: stalls while it flushes [vPFS §IV-A, §IV-C2]"),
        (
            "two-level-server",
            "the server of the Two-level evaluation, `hdd` as well: about 50 MB/s for IOR [Two-level]",
        ),
        ("ioco-hdd", "disk of the IOCO and HARL nodes: 7200 rpm SATA II, 250 GB [IOCO §2.2], [HARL §IV-A]"),
        ("ioco-ssd", "another name for `ssd`"),
        ("ioco-hdd-server", "`ioco-hdd` behind the page cache of its PVFS2 server [IOCO §5.1]"),
        ("ioco-ssd-server", "`ioco-ssd` behind the same, without read-ahead"),
        ("harl-disk", "disk of a HARL server in that paper's own terms, parameters assumed [HARL §III-D]"),
        ("harl-flash", "the same for flash"),
        ("null-aio", "one of 96 virtual servers that discard data [vPFS §IV-D]"),
        ("volume", "a general purpose cloud volume: 125 MiB and 3,000 I/Os per second"),
        (
            "throttled-disk",
            "a disk that the kernel limits to 15 MB and 300 I/Os per second, for trials with real servers",
        ),
        ("one-head", "the simplest disk: one access at a time in arrival order, 5 ms to position, 60 MB/s"),
    ];

    /// The device model of that name, see [`DeviceProfile::NAMED`].
    pub fn by_name(name: &str) -> Result<Self, UnknownDevice> {
        Ok(match name {
            "none" => Self::None,
            "hdd" | "two-level-server" => Self::Hdd(HddProfile::SAS_7200),
            "ssd" | "ioco-ssd" => Self::Ssd(SsdProfile::PCIE_X4),
            "vpfs-server" => Self::PageCache(PageCacheProfile::LINUX_24_GB, Box::new(Self::hdd())),
            "ioco-hdd" => Self::Hdd(HddProfile::SATA_7200),
            "ioco-hdd-server" => {
                Self::PageCache(PageCacheProfile::LINUX_8_GB, Box::new(Self::Hdd(HddProfile::SATA_7200)))
            }
            "ioco-ssd-server" => Self::PageCache(PageCacheProfile::LINUX_8_GB_FLASH, Box::new(Self::ssd())),
            "harl-disk" => Self::Uniform(UniformProfile::HARL_DISK),
            "harl-flash" => Self::Uniform(UniformProfile::HARL_FLASH),
            "null-aio" => Self::NullAio(NullAioProfile::XEN_GUEST),
            "volume" => Self::Volume(VolumeProfile::CLOUD),
            "throttled-disk" => Self::Volume(VolumeProfile::THROTTLED_DISK),
            "one-head" => Self::Hdd(HddProfile::ONE_HEAD),
            _ => return Err(UnknownDevice { name: name.to_owned() }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_freed_in_any_order() {
        let mut outstanding = Outstanding::default();
        for id in [3, 4, 6, 7] {
            outstanding.insert(IoId(id), id);
        }
        let removed = [4, 4, 5, 9, 0, 3].map(|id| outstanding.remove(IoId(id)));
        assert_eq!(removed, [Some(4), None, None, None, None, Some(3)]);
        assert_eq!((outstanding.places.len(), outstanding.len()), (2, 2), "it begins with the oldest");
        assert_eq!([6, 7, 8].map(|id| outstanding.get(IoId(id)).copied()), [Some(6), Some(7), None]);
        outstanding.remove(IoId(6));
        outstanding.remove(IoId(7));
        outstanding.insert(IoId(100), 100);
        assert_eq!((outstanding.places.len(), outstanding.is_empty()), (1, false), "earlier ids have no place");
    }

    #[test]
    fn every_listed_name_is_known() {
        for name in names() {
            assert!(DeviceProfile::by_name(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = DeviceProfile::by_name("floppy").expect_err("is unknown").to_string();
        assert!(error.contains("\"floppy\"") && error.contains("hdd, ssd, vpfs-server"), "{error}");
    }
}
