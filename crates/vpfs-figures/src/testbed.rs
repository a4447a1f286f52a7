//! The papers' clusters, each described once.

use vpfs_device::{DeviceProfile, HddProfile};
use vpfs_sim::ServerGroup;

/// The eight storage nodes of [vPFS §IV-A] and [vPFS+ §V-A]: one 500 GB 7200 rpm SAS disk each for data, EXT3 in data
/// journalling mode, gigabit Ethernet.
pub fn vpfs_servers() -> ServerGroup {
    ServerGroup::new(8, DeviceProfile::Hdd(HddProfile::SAS_7200))
}
