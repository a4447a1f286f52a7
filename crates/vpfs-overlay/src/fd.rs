//! Descriptors: paths to them, locks, errors of closing, durable names.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fsync, openat};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

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

/// The most files that the kernel should know of: what it keeps of them takes about 1 KiB each in the source's file
/// system.
const INODES_MAX: usize = 1 << 18;

/// What root needs for a mount. With more, data would be written that its user may not write: CAP_SYS_RESOURCE is for
/// space that is reserved, and beyond quotas.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN // to mount, for the kernel's own reads and writes, for maps
    // To be the caller, whose groups /proc may show to few.
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SYS_PTRACE)
    // To look up names, and for region files.
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    // What callers with user 0 may do to files.
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP)
    // For ports of `[peers]`, `[metrics]` and such.
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Prepares the process for a mount: as many descriptors as there may be, modes exactly as programs ask for them, and
/// no more capabilities than it needs. To be called before there are threads, which would keep theirs.
///
/// # Errors
/// If capabilities cannot be dropped.
pub fn prepare_process() -> io::Result<()> {
    umask(Mode::empty());
    let wanted = INODES_MAX as u64 * 2;
    let limit = getrlimit(Resource::Nofile);
    // Root may have more than the limit that it was given.
    for most in [Some(wanted).max(limit.maximum), limit.maximum] {
        if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_ok() {
            break;
        }
    }
    if geteuid().is_root() {
        let permitted = capabilities(None)?.permitted & NEEDED;
        let inheritable = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: permitted, permitted, inheritable })?;
    }
    Ok(())
}

/// How many files the kernel should know of, each of which needs a descriptor.
pub(crate) fn inodes_max() -> usize {
    let half =
        getrlimit(Resource::Nofile).current.map_or(INODES_MAX, |most| usize::try_from(most / 2).unwrap_or(INODES_MAX));
    half.min(INODES_MAX)
}
