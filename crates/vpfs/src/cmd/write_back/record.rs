//! The kernel's settings of a disk, which are given back.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::device::Device;

/// The settings that change, in the order in which they are given back. The kernel keeps `max_bytes` as the first.
const SETTINGS: [&str; 2] = ["max_ratio_fine", "strict_limit"];
/// All of what the kernel may have for all disks, in `max_ratio_fine`.
const ALL: &str = "1000000";

/// The settings of a disk as they were before any process of this host changed them. The last process that has a record
/// of a disk puts them back when it drops it; after a crash of that, the next one does.
#[derive(Debug)]
pub(super) struct Record {
    device: Device,
    path: PathBuf,
    /// Locked, shared by all processes that limit the disk.
    file: File,
}

impl Record {
    /// Notes the settings in `dir`, if nobody has.
    pub(super) fn keep(dir: &Path, device: &Device) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(device.to_string());
        loop {
            let file = File::options().read(true).append(true).create(true).open(&path)?;
            // Only who has it alone writes it or removes it.
            if file.try_lock().is_ok() {
                if file.metadata()?.len() == 0 {
                    let values = SETTINGS.map(|name| fs::read_to_string(device.setting(name)));
                    let [most, strict] = values.map(|value| value.map(|text| text.trim().to_owned()));
                    io::Write::write_all(&mut &file, format!("{} {}\n", most?, strict?).as_bytes())?;
                }
                file.unlock()?;
            }
            file.lock_shared()?;
            // Another process may have removed it meanwhile.
            let ours = file.metadata()?;
            if ours.len() > 0 && fs::metadata(&path).is_ok_and(|found| found.ino() == ours.ino()) {
                return Ok(Self { device: device.clone(), path, file });
            }
        }
    }

    /// Limits the disk.
    pub(super) fn limit(&self, bytes: u64) -> io::Result<()> {
        // Without the first, the second is no limit until all of the kernel's memory for writes is used.
        fs::write(self.device.setting("strict_limit"), "1")?;
        match fs::write(self.device.setting("max_bytes"), bytes.to_string()) {
            // So much is more than the kernel would hold for all disks.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                fs::write(self.device.setting("max_ratio_fine"), ALL)
            }
            result => result,
        }
    }

    /// Puts the settings back unless another process has a record of them.
    fn restore(&self) -> io::Result<()> {
        // Each lets go before it tries to have it alone, so that of several that end together one succeeds.
        self.file.unlock()?;
        match self.file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        let text = fs::read_to_string(&self.path)?;
        for (name, value) in SETTINGS.iter().zip(text.split_whitespace()) {
            fs::write(self.device.setting(name), value)?;
        }
        fs::remove_file(&self.path)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        match self.restore() {
            // Another process has put them back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(device = %self.device, %error, "the kernel's settings cannot be put back"),
            Ok(()) => {}
        }
    }
}
