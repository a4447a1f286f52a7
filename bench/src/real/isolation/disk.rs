//! Limited disks: the kernel limits everything that goes to them, its own write-back included.

use std::fs;
use std::path::Path;
use std::process::Command;

/// What a disk does in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Bytes.
    pub(super) bytes: u64,
    /// Accesses.
    pub(super) accesses: u64,
}

/// A mounted disk; it is gone when dropped.
#[derive(Debug)]
pub(super) struct Disk {
    disk: vpfs_e2e::Disk,
    speed: Speed,
}

/// The root group of the block I/O controller: only its limits hold for the kernel's own threads.
const CONTROLLER: &str = "/sys/fs/cgroup/blkio";
/// More than a run writes; the file is sparse.
const SIZE: u64 = 24 << 30;

impl Disk {
    /// Makes one in `dir`.
    pub(super) fn start(dir: &Path, name: &str, speed: Speed) -> Result<Self, String> {
        if !Path::new(CONTROLLER).join("blkio.throttle.write_bps_device").exists() {
            return Err(format!("{CONTROLLER} has no limits in its root group; this needs control groups v1 and root"));
        }
        let disk = Self { disk: vpfs_e2e::Disk::new(dir, name, SIZE, &["--direct-io=on"])?, speed };
        disk.limit(true)?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub(super) fn mount(&self) -> &Path {
        &self.disk.mount
    }

    /// Stores what the kernel still has in memory for it, without the limit, and gives the memory back.
    pub(super) fn settle(&self) -> Result<(), String> {
        self.limit(false)?;
        let synced = Command::new("sync").arg("--file-system").arg(self.mount()).status();
        if !synced.is_ok_and(|status| status.success()) {
            return Err(format!("{} cannot be synced", self.mount().display()));
        }
        fs::write("/proc/sys/vm/drop_caches", "1").map_err(|error| format!("drop_caches: {error}"))?;
        self.limit(true)
    }

    /// Bytes that it has stored so far.
    pub(super) fn stored(&self) -> u64 {
        const SECTOR: u64 = 512;
        let text = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.disk.number)).unwrap_or_default();
        text.split_whitespace().nth(6).and_then(|sectors| sectors.parse::<u64>().ok()).unwrap_or(0) * SECTOR
    }

    /// Limits it, or not.
    pub(super) fn limit(&self, is_on: bool) -> Result<(), String> {
        for way in ["read", "write"] {
            for (what, most) in [("bps", self.speed.bytes), ("iops", self.speed.accesses)] {
                let file = format!("{CONTROLLER}/blkio.throttle.{way}_{what}_device");
                let line = format!("{} {}", self.disk.number, if is_on { most } else { 0 });
                fs::write(&file, line).map_err(|error| format!("{file}: {error}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Another disk may get the number.
        if let Err(error) = self.limit(false) {
            eprintln!("{error}");
        }
    }
}
