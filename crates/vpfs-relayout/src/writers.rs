//! Who has a file open for writing on this host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Processes of this host, as far as the caller may look at them, that have the file open for writing: "name (pid)".
/// O(open files of all processes).
pub(crate) fn of(device: u64, inode: u64) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbered = processes.flatten().filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok());
    let writing = numbered.filter(|process| has_open(&process.path(), device, inode));
    writing
        .map(|process| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("{} ({})", name.trim(), process.file_name().to_string_lossy())
        })
        .collect()
}

fn has_open(process: &Path, device: u64, inode: u64) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| {
        let same = fs::metadata(file.path()).is_ok_and(|data| (data.dev(), data.ino()) == (device, inode));
        same && is_writable(&process.join("fdinfo").join(file.file_name()))
    })
}

/// The access mode is in the last two bits of the octal flags: 1 to write, 2 to read and write.
fn is_writable(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| matches!(flags & 3, 1 | 2))
}
