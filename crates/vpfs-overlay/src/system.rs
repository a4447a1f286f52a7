//! The system below: descriptors, and work under the rights of the process that asks for it.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use nix::unistd;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, flock, fsync, openat};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, geteuid, getgroups, getrlimit, setrlimit, umask};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

pub(crate) fn path(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A poisoned lock is as good as any: what it protects is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

pub(crate) fn close(file: OwnedFd) -> Result<()> {
    nix::unistd::close(file).map_err(|error| Errno::from_raw_os_error(error as i32))
}

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

pub(crate) fn absent<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(Some),
    }
}

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

pub(crate) fn inodes_max() -> usize {
    let half =
        getrlimit(Resource::Nofile).current.map_or(INODES_MAX, |most| usize::try_from(most / 2).unwrap_or(INODES_MAX));
    half.min(INODES_MAX)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Of the thread that asks; 0 if it is not in our namespace.
    pub(crate) pid: u32,
}

impl From<&fuser::Request> for Caller {
    fn from(request: &fuser::Request) -> Self {
        Self { uid: request.uid(), gid: request.gid(), pid: request.pid() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    uid: Uid,
    gid: Gid,
    groups: Arc<[Gid]>,
}

/// Our own supplementary groups, if we are root; others work with the rights they have.
#[derive(Debug)]
pub(crate) struct Rights(Option<Vec<Gid>>);

impl Rights {
    pub(crate) fn new() -> Self {
        Self(geteuid().is_root().then(|| getgroups().unwrap_or_default()))
    }

    pub(crate) fn are_roots(&self) -> bool {
        self.0.is_some()
    }

    /// The caller's user, group and supplementary groups; nothing if they are ours.
    pub(crate) fn look_up(&self, caller: Caller) -> Result<Option<Credentials>> {
        let Caller { uid, gid, pid } = caller;
        if self.0.is_none() || (uid, gid) == (0, 0) {
            return Ok(None);
        }
        if uid == u32::MAX || gid == u32::MAX {
            return Err(Errno::OVERFLOW);
        }
        Ok(Some(Credentials { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), groups: groups(pid).into() }))
    }

    pub(crate) fn user<'a>(&'a self, credentials: Option<&'a Credentials>) -> User<'a> {
        User(self.0.as_deref().zip(credentials))
    }

    /// Works with the caller's user, group and supplementary groups, and without root's powers unless it is root.
    pub(crate) fn of<T>(&self, caller: Caller, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.user(self.look_up(caller)?.as_ref()).run(work)
    }

    /// Looks at something with our rights, and with the caller's where these do not suffice: servers may give root
    /// none.
    pub(crate) fn see<T>(&self, caller: Caller, look: impl Fn() -> Result<T>) -> Result<T> {
        match look() {
            Err(Errno::ACCESS | Errno::PERM) if self.are_roots() => self.of(caller, look),
            seen => seen,
        }
    }

    /// Works as root for all but files, for which it has nobody's rights.
    pub(crate) fn of_nobody<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(own) = self.0.as_deref() else { return work() };
        let _back = Nobody::new(own);
        work()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct User<'a>(Option<(&'a [Gid], &'a Credentials)>);

impl User<'_> {
    #[cfg(test)]
    pub(crate) const OURSELVES: Self = Self(None);

    pub(crate) fn run<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some((own, credentials)) = self.0 else { return work() };
        let _back = Switched::to(credentials, own)?;
        work()
    }
}

/// Goes back when it is dropped. Only this thread is changed: the calls are the kernel's, not those of the C library.
struct Switched<'a>(&'a [Gid]);

impl<'a> Switched<'a> {
    fn to(credentials: &Credentials, own: &'a [Gid]) -> Result<Self> {
        let Credentials { uid, gid, groups } = credentials;
        let back = Self(own);
        set_thread_groups(groups)?;
        set_thread_res_gid(None, *gid, None)?;
        set_thread_res_uid(None, *uid, None)?;
        Ok(back)
    }
}

impl Drop for Switched<'_> {
    fn drop(&mut self) {
        let user = set_thread_res_uid(None, Uid::ROOT, None);
        let group = set_thread_res_gid(None, Gid::ROOT, None);
        if user.and(group).and_then(|()| set_thread_groups(self.0)).is_err() {
            // Nothing may go on with the rights of somebody else.
            std::process::abort();
        }
    }
}

const NOBODY: u32 = 65534;

/// Goes back when it is dropped, as [`Switched`] does; unlike that, it leaves powers that have nothing to do with
/// files.
struct Nobody<'a>(&'a [Gid]);

impl<'a> Nobody<'a> {
    fn new(own: &'a [Gid]) -> Self {
        let back = Self(own);
        let is_done = set_thread_groups(&[]).is_ok() && set_file_ids(NOBODY);
        if !is_done {
            std::process::abort();
        }
        back
    }
}

impl Drop for Nobody<'_> {
    fn drop(&mut self) {
        if !set_file_ids(0) || set_thread_groups(self.0).is_err() {
            std::process::abort();
        }
    }
}

/// Whether it worked: these calls only say what was before.
fn set_file_ids(id: u32) -> bool {
    let (uid, gid) = (unistd::Uid::from_raw(id), unistd::Gid::from_raw(id));
    unistd::setfsgid(gid);
    unistd::setfsuid(uid);
    unistd::setfsgid(gid) == gid && unistd::setfsuid(uid) == uid
}

/// The supplementary groups of a thread, which the request does not have; none if it cannot be seen.
pub(crate) fn groups(pid: u32) -> Vec<Gid> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Vec::new() };
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    let number = |word: &str| word.parse().ok().filter(|group| *group != u32::MAX).map(Gid::from_raw);
    groups.split_ascii_whitespace().filter_map(number).collect()
}
