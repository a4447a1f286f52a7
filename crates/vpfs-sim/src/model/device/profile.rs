//! The model of a server's storage with its parameters, and names for the hardware of the papers and for other storage.

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
    ///
    /// # Errors
    /// There is no model of that name; the message lists the names.
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
