//! A file system on a disk of its own: ext4 on a loop device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// It is mounted until it is dropped.
#[derive(Debug)]
pub struct Disk {
    /// Where.
    pub mount: PathBuf,
    /// As the kernel names the device, `MAJOR:MINOR`.
    pub number: String,
    device: String,
}

impl Disk {
    /// Makes one of so many bytes in a directory; `options` are further ones of losetup. An error if this user or
    /// machine cannot.
    pub fn new(dir: &Path, name: &str, bytes: u64, options: &[&str]) -> Result<Self, String> {
        let (image, mount) = (dir.join(format!("{name}.img")), dir.join(name));
        let file = fs::File::create(&image).and_then(|file| file.set_len(bytes));
        file.and_then(|()| fs::create_dir(&mount)).map_err(|error| format!("{}: {error}", image.display()))?;
        printed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let device = printed(Command::new("losetup").args(options).args(["--show", "--find"]).arg(&image))?;
        let mut disk = Self { mount, number: String::new(), device };
        let name = disk.device.trim_start_matches("/dev/");
        let number = fs::read_to_string(format!("/sys/class/block/{name}/dev"));
        number.map_err(|error| format!("{name}: {error}"))?.trim().clone_into(&mut disk.number);
        printed(Command::new("mount").arg(&disk.device).arg(&disk.mount))?;
        Ok(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may not have been mounted. What still uses it, such as a server that is just being killed, ends it.
        let _ = printed(Command::new("umount").arg("--lazy").arg(&self.mount));
        let _ = printed(Command::new("losetup").args(["--detach", &self.device]));
    }
}

/// What a command prints, or what it complains about.
fn printed(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
