//! Work under the rights of the process that asks for it.

use std::fs;

use rustix::fs::{Gid, Uid};
use rustix::io::{Errno, Result};
use rustix::process::{geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Who asks.
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

    /// Works with the caller's user, group and supplementary groups, and without root's powers unless it is root.
    pub(crate) fn of<T>(&self, caller: Caller, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(own) = self.0.as_deref().filter(|_| (caller.uid, caller.gid) != (0, 0)) else { return work() };
        if caller.uid == u32::MAX || caller.gid == u32::MAX {
            return Err(Errno::OVERFLOW);
        }
        let _back = Switched::to(caller, own)?;
        work()
    }
}

/// Goes back when it is dropped. Only this thread is changed: the calls are the kernel's, not those of the C library.
struct Switched<'a>(&'a [Gid]);

impl<'a> Switched<'a> {
    fn to(caller: Caller, own: &'a [Gid]) -> Result<Self> {
        let groups = groups(caller.pid);
        let back = Self(own);
        set_thread_groups(&groups)?;
        set_thread_res_gid(None, Gid::from_raw(caller.gid), None)?;
        set_thread_res_uid(None, Uid::from_raw(caller.uid), None)?;
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

/// The supplementary groups of a thread, which the request does not have; none if it cannot be seen.
pub(crate) fn groups(pid: u32) -> Vec<Gid> {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Vec::new() };
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    let number = |word: &str| word.parse().ok().filter(|group| *group != u32::MAX).map(Gid::from_raw);
    groups.split_ascii_whitespace().filter_map(number).collect()
}
