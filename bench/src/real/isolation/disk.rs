//! Limited disks: ext4 on loop devices, limited for everything, write-back by the kernel included.

use std::fs;
use std::path::{Path, PathBuf};
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
    /// Where it is mounted.
    pub(super) mount: PathBuf,
    device: String,
    /// `MAJOR:MINOR`.
    number: String,
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
        let (image, mount) = (dir.join(format!("{name}.img")), dir.join(name));
        let file = fs::File::create(&image).and_then(|file| file.set_len(SIZE));
        file.and_then(|()| fs::create_dir(&mount)).map_err(|error| format!("{}: {error}", image.display()))?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let device = run(Command::new("losetup").args(["--direct-io=on", "--show", "--find"]).arg(&image))?;
        let number = run(Command::new("lsblk").args(["--noheadings", "--nodeps", "--output", "MAJ:MIN", &device]));
        let disk = Self { mount, device, number: number.unwrap_or_default(), speed };
        run(Command::new("mount").arg(&disk.device).arg(&disk.mount))?;
        disk.limit(true)?;
        Ok(disk)
    }

    /// Stores what the kernel still has in memory for it, without the limit, and gives the memory back.
    pub(super) fn settle(&self) -> Result<(), String> {
        self.limit(false)?;
        run(Command::new("sync").arg("--file-system").arg(&self.mount))?;
        fs::write("/proc/sys/vm/drop_caches", "1").map_err(|error| format!("drop_caches: {error}"))?;
        self.limit(true)
    }

    /// Bytes that it has stored so far.
    pub(super) fn stored(&self) -> u64 {
        const SECTOR: u64 = 512;
        let text = fs::read_to_string(format!("/sys/dev/block/{}/stat", self.number)).unwrap_or_default();
        text.split_whitespace().nth(6).and_then(|sectors| sectors.parse::<u64>().ok()).unwrap_or(0) * SECTOR
    }

    /// Limits it, or not.
    pub(super) fn limit(&self, is_on: bool) -> Result<(), String> {
        for way in ["read", "write"] {
            for (what, most) in [("bps", self.speed.bytes), ("iops", self.speed.accesses)] {
                let file = format!("{CONTROLLER}/blkio.throttle.{way}_{what}_device");
                let line = format!("{} {}", self.number, if is_on { most } else { 0 });
                fs::write(&file, line).map_err(|error| format!("{file}: {error}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whatever fails here was not there.
        let _ = self.limit(false);
        let _ = run(Command::new("umount").arg(&self.mount));
        let _ = run(Command::new("losetup").args(["--detach", &self.device]));
    }
}

/// What a command prints.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
