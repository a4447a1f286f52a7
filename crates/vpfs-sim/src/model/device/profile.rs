//! The model of a server's storage, with its parameters.

use super::{
    ChangeProfile, Changing, Device, Hdd, HddProfile, NoDevice, NullAio, NullAioProfile, PageCache, PageCacheProfile,
    Ssd, SsdProfile, Uniform, UniformProfile, Volume, VolumeProfile,
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
