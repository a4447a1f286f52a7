//! Device parameters, each with the hardware it was taken from.

use std::time::Duration;

use super::{
    Device, FileServer, FileServerProfile, Hdd, NoDevice, NullAio, NullAioProfile, Ssd, Volume, VolumeProfile,
    WriteBack, WriteBackProfile,
};

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
    /// Limits on bytes and I/Os per second.
    Volume(VolumeProfile),
    /// No storage, only the server's own work.
    NullAio(NullAioProfile),
    /// A file server in front of a device.
    FileServer(FileServerProfile, Box<DeviceProfile>),
    /// A write-back cache in front of a device.
    WriteBack(WriteBackProfile, Box<DeviceProfile>),
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
            Self::Volume(profile) => Box::new(Volume::new(profile.clone())),
            Self::NullAio(profile) => Box::new(NullAio::new(profile.clone())),
            Self::FileServer(profile, device) => Box::new(FileServer::new(profile.clone(), device.build())),
            Self::WriteBack(profile, device) => Box::new(WriteBack::new(profile.clone(), device.build())),
        }
    }
}

/// A disk with one head.
///
/// An access that does not continue the one before it costs `seek_min + seek_span·√(distance/capacity)`, half a
/// rotation, and its transfer; one that does continue it costs the transfer only.
#[derive(Clone, Debug, PartialEq)]
pub struct HddProfile {
    /// Bytes from the first to the last track.
    pub capacity_bytes: u64,
    /// Cost of the shortest seek.
    pub seek_min: Duration,
    /// Additional cost of a seek over the whole disk, beyond `seek_min`.
    pub seek_span: Duration,
    /// Time of one rotation of the platter.
    pub rotation: Duration,
    /// Transfer rate once positioned, bytes per second.
    pub bytes_per_second: u64,
    /// Length of the command queue, in which the disk reorders accesses; further ones wait in arrival order.
    pub command_queue: usize,
    /// Bytes served in sequence, as accesses continue each other, before others get their turn.
    pub batch_bytes: u64,
    /// A command that has waited longer than this goes before all others.
    pub deadline: Duration,
    /// Accesses that are served in the elevator's order after such a command, before the next one.
    pub sweep_accesses: usize,
    /// Contiguous allocation unit; each unit of an object is at a different place on the disk.
    pub extent_bytes: u64,
}

impl HddProfile {
    /// A 500 GB 7200 rpm SAS disk below EXT3 in data-journalling mode [vPFS+ §V-A].
    ///
    /// - Seek: 8.5 ms mean over uniformly random pairs (√ has mean 8/15 there), 0.8 ms track to track: data sheet
    ///   values of this class of disk.
    /// - Transfer: 72 MB/s: eight such servers deliver 597 MB/s in total to IOR writes [vPFS+ §V-D], less a little for
    ///   the slower inner tracks; data journalling writes twice and so halves what the medium can do.
    /// - Queue: 16 commands. Together these give the paper's profile: saturation with 10 to 15 small accesses,
    ///   128 KiB as the largest small access, and 5 slots for 2 MiB [vPFS+ §III-B, Fig. 2 and 3].
    /// - Batches of 4 MiB: 16 flow buffers of 256 KiB, as the deadline scheduler of Linux has batches of 16 requests. A
    ///   large transfer that arrives in many chunks is served like one access.
    /// - Deadline: 500 ms and 16 requests, as the same scheduler has for reads. (Its 5 s for writes are meant for
    ///   write-back, which nobody waits for; here somebody waits for every write.)
    /// - Extents of 1 MiB: an aged file system, so that test files of a few megabytes see seeks over the whole disk.
    pub const SAS_7200: Self = Self {
        capacity_bytes: 500_000_000_000,
        seek_min: Duration::from_micros(800),
        seek_span: Duration::from_micros(14_400),
        rotation: Duration::from_nanos(8_333_333),
        bytes_per_second: 72_000_000,
        command_queue: 16,
        batch_bytes: 4 << 20,
        deadline: Duration::from_millis(500),
        sweep_accesses: 16,
        extent_bytes: 1 << 20,
    };

    /// The 250 GB 7200 rpm SATA II disk of the IOCO and HARL nodes [IOCO §2.2, §5.1], [HARL §IV-A].
    ///
    /// - Seek: 8.9 ms mean, 1 ms track to track: data sheet values of this class of disk.
    /// - Transfer: 60 MB/s, the mean over the tracks of disks of that size and generation (70 to 80 MB/s outside);
    ///   their EXT3 of that time journals metadata only.
    /// - Queue: 31 commands, as with native command queueing.
    /// - The rest is as in [`HddProfile::SAS_7200`].
    pub const SATA_7200: Self = Self {
        capacity_bytes: 250_000_000_000,
        seek_min: Duration::from_millis(1),
        seek_span: Duration::from_micros(14_800),
        bytes_per_second: 60_000_000,
        command_queue: 31,
        ..Self::SAS_7200
    };

    /// The simplest storage with a cost: one access at a time in arrival order, 5 ms for each access that does not
    /// continue the one before, and 60 MB/s.
    ///
    /// It is not hardware of a paper. Its results can be computed by hand, regardless of where files are and how much
    /// is outstanding. Use it to state requirements, and to see the effect of a policy without that of the disk's own
    /// scheduling.
    pub const ONE_HEAD: Self = Self {
        seek_min: Duration::from_millis(5),
        seek_span: Duration::ZERO,
        rotation: Duration::ZERO,
        bytes_per_second: 60_000_000,
        command_queue: 1,
        batch_bytes: 0,
        // With only one command to choose from, a deadline has no effect.
        deadline: Duration::ZERO,
        sweep_accesses: 0,
        ..Self::SAS_7200
    };
}

/// A flash device: channels in parallel, each serving one page group at a time in arrival order.
///
/// An access is cut at multiples of `stripe_bytes`; consecutive pieces lie on consecutive channels; the access is
/// done with its last piece. A piece costs a base time and its transfer, and writes cost more than reads.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdProfile {
    /// Independent channels.
    pub channels: usize,
    /// Bytes on one channel before the next one follows.
    pub stripe_bytes: u64,
    /// Fixed cost of reading a piece.
    pub read_base: Duration,
    /// Fixed cost of writing a piece.
    pub write_base: Duration,
    /// Transfer rate of one channel when reading, bytes per second.
    pub read_bytes_per_second: u64,
    /// Transfer rate of one channel when writing, bytes per second.
    pub write_bytes_per_second: u64,
}

impl SsdProfile {
    /// The PCI-E X4 100 GB flash card of [IOCO §2.2] and [HARL §IV-A].
    ///
    /// The papers give no rates. Cards of that kind and year read 740 MB/s and write 500 to 600 MB/s sequentially, with
    /// flash that takes 60 µs to read and 250 µs to program a page; eight channels at these rates match that.
    pub const PCIE_X4: Self = Self {
        channels: 8,
        stripe_bytes: 32 << 10,
        read_base: Duration::from_micros(60),
        write_base: Duration::from_micros(250),
        read_bytes_per_second: 115_000_000,
        write_bytes_per_second: 150_000_000,
    };
}
