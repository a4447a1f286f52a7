//! The papers' clusters, each described once.

use std::time::Duration;

use vpfs_sim::model::device::{DeviceProfile, HddProfile, PageCacheProfile};
use vpfs_sim::{LinkProfile, ServerGroup};

/// The eight storage nodes of [vPFS §IV-A] and [vPFS+ §V-A]: one 500 GB 7200 rpm SAS disk each for data, EXT3 in data
/// journalling mode, gigabit Ethernet.
pub fn vpfs_servers() -> ServerGroup {
    ServerGroup::new(8, DeviceProfile::Hdd(HddProfile::SAS_7200))
}

/// Servers of [IOCO §5.1]: 7200 rpm SATA disks behind gigabit Ethernet, with PVFS2.
pub fn ioco_disks(count: u32) -> ServerGroup {
    let disk = Box::new(DeviceProfile::Hdd(HddProfile::SATA_7200));
    ServerGroup::new(count, DeviceProfile::PageCache(PageCacheProfile::LINUX_8_GB, disk))
}

/// The eight servers of [IOCO §2], with the same disks behind 4X InfiniBand.
pub fn ioco_disks_on_infiniband() -> ServerGroup {
    ServerGroup { link: LinkProfile::INFINIBAND_4X, ..ioco_disks(8) }
}

/// Servers of [IOCO §5.1] with PCI-E X4 flash behind 4X InfiniBand, with PVFS2.
pub fn ioco_flash(count: u32) -> ServerGroup {
    let device = DeviceProfile::PageCache(PageCacheProfile::LINUX_8_GB_FLASH, Box::new(DeviceProfile::ssd()));
    ServerGroup { link: LinkProfile::INFINIBAND_4X, ..ServerGroup::new(count, device) }
}

/// The spread of simultaneous requests on gigabit Ethernet, **assumed**: a dozen full frames of other traffic in front
/// of them at each of a few places, and the time slices of client processes: a third of a millisecond each for the
/// application, the process and the request. [IOCO §5.2] says only that delays are not uniform.
pub const ETHERNET_JITTER: Duration = Duration::from_micros(333);

/// The same on InfiniBand, **assumed**: client processes only.
pub const INFINIBAND_JITTER: Duration = Duration::from_micros(33);
