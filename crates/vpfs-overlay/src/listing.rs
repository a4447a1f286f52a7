//! Reading directories.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom, seek, statat};
use rustix::io::Result;

use crate::names::is_reserved;

/// An entry of a directory, and where the next one is.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) ino: u64,
    pub(crate) next: u64,
    pub(crate) kind: FileType,
    pub(crate) name: OsString,
}

/// An open directory, and entries that were read and not asked for yet, the next one last.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) fd: OwnedFd,
    at: u64,
    ahead: Vec<Entry>,
}

impl Listing {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, at: 0, ahead: Vec::new() }
    }

    /// Passes entries from `at` on to `take`, until that is full.
    pub(crate) fn read(&mut self, at: u64, mut take: impl FnMut(&Entry) -> bool) -> Result<()> {
        if at != self.at || at == 0 {
            self.ahead.clear();
            self.at = seek(&self.fd, SeekFrom::Start(at))?;
        }
        loop {
            while let Some(entry) = self.ahead.last() {
                if !is_reserved(entry.name.as_bytes()) && take(entry) {
                    return Ok(());
                }
                self.at = entry.next;
                self.ahead.pop();
            }
            let mut buffer = [MaybeUninit::uninit(); 32 << 10];
            let mut entries = RawDir::new(&self.fd, &mut buffer);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
                let kind = match entry.file_type() {
                    // Programs believe what a directory says.
                    FileType::Unknown => statat(&self.fd, &name, AtFlags::SYMLINK_NOFOLLOW)
                        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                    kind => kind,
                };
                self.ahead.push(Entry { ino: entry.ino(), next: entry.next_entry_cookie(), kind, name });
                if entries.is_buffer_empty() {
                    break;
                }
            }
            if self.ahead.is_empty() {
                return Ok(());
            }
            self.ahead.reverse();
        }
    }
}
