//! The model of a server's storage, with its parameters.

use super::{
    Device, FileServer, FileServerProfile, Hdd, HddProfile, NoDevice, NullAio, NullAioProfile, Ssd, SsdProfile,
    Uniform, UniformProfile, Volume, VolumeProfile, WriteBack, WriteBackProfile,
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
            Self::Uniform(profile) => Box::new(Uniform::new(*profile)),
            Self::Volume(profile) => Box::new(Volume::new(profile.clone())),
            Self::NullAio(profile) => Box::new(NullAio::new(profile.clone())),
            Self::FileServer(profile, device) => Box::new(FileServer::new(profile.clone(), device.build())),
            Self::WriteBack(profile, device) => Box::new(WriteBack::new(profile.clone(), device.build())),
        }
    }
}
