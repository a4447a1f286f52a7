//! Descriptors: paths to them, locks, errors of closing, durable names.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fsync, openat};
use rustix::io::{Errno, Result};

/// A path that leads to what a descriptor stands for.
pub(crate) fn path(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Not every file system has locks; then a repair must know.
pub(crate) fn flocked(fd: &OwnedFd, alone: bool) -> Result<bool> {
    let how = if alone { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    match flock(fd, how) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        Ok(()) | Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Not every file system lets directories be synchronised; those order changes of names by themselves.
pub(crate) fn sync_directory(directory: &OwnedFd) -> Result<()> {
    let opened = openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    match fsync(opened) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(()),
        synced => synced,
    }
}

/// Unlike a drop, tells the error.
pub(crate) fn close(file: OwnedFd) -> Result<()> {
    nix::unistd::close(file).map_err(|error| Errno::from_raw_os_error(error as i32))
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_all(file: &File, mut buffer: &mut [u8], mut at: u64) -> Result<usize> {
    let whole = buffer.len();
    while !buffer.is_empty() {
        match rustix::io::pread(file, &mut *buffer, at) {
            Ok(0) => break,
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(whole - buffer.len())
}

/// What there is nothing of is no error.
pub(crate) fn absent<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(Some),
    }
}

/// The system's number of an error.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
