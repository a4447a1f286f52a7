//! What each request does, with results instead of replies.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Once};

use fuser::FileAttr;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid, chmod, chownat, fstat, ftruncate,
    getxattr_query, linkat, mkdirat, mknodat, openat, renameat_with, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, Result};
use vpfs_proxy::Turns;

use crate::attr;
use crate::caller::{Caller, Credentials, Rights};
use crate::class::Class;
use crate::fd::{errno, path};
use crate::handles::{Content, Handle, Table};
use crate::inodes::{Inode, Inodes};
use crate::listing::Listing;
use crate::names::{Rule, is_reserved, rule};
use crate::shares::Shares;
use crate::stored::{self, InUse, Opened, Stored};
use crate::trace::Recorder;
use crate::workers::Workers;

/// What the mount shows, and how.
#[derive(Debug, Default)]
pub struct Options {
    /// The directories of region files.
    pub classes: Vec<Class>,
    /// Which new files get regions.
    pub rules: Vec<Rule>,
    /// Takes down what programs read and write.
    pub recorder: Option<Recorder>,
    /// Where requests wait for their turn.
    pub turns: Option<Turns>,
}

/// A mounted source.
#[derive(Debug)]
pub(crate) struct Overlay {
    pub(crate) source: PathBuf,
    pub(crate) mountpoint: PathBuf,
    pub(crate) options: Arc<Options>,
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) in_use: InUse,
    pub(crate) rights: Rights,
    pub(crate) workers: Workers,
    pub(crate) handles: Table<Handle>,
    pub(crate) listings: Table<Mutex<Listing>>,
    pub(crate) shares: Option<Shares>,
    /// Whether the kernel may read and write by itself.
    pub(crate) may_pass: AtomicBool,
}

/// What `setattr` changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) times: Option<Timestamps>,
}

impl Overlay {
    pub(crate) fn inode(&self, number: u64) -> Result<Arc<Inode>> {
        self.inodes.get(number).ok_or(Errno::STALE)
    }

    /// Finds a name and counts it.
    pub(crate) fn look_up(&self, caller: Caller, parent: &Inode, name: &OsStr) -> Result<FileAttr> {
        if is_reserved(name.as_bytes()) {
            return Err(Errno::NOENT);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = self.rights.see(caller, || openat(&parent.fd, name, flags, Mode::empty()))?;
        Ok(self.counted(caller, (parent, name), fd)?.1)
    }

    fn counted(&self, caller: Caller, (parent, name): (&Inode, &OsStr), fd: OwnedFd) -> Result<(Arc<Inode>, FileAttr)> {
        let stat = self.rights.see(caller, || fstat(&fd))?;
        let load = |fd: &OwnedFd| match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.in_use.load(fd, &self.options.classes),
            _ => Ok(None),
        };
        let inode = self.inodes.look_up(fd, &stat, (parent, name), load)?;
        match self.attributes(caller, &inode) {
            Ok(attr) => Ok((inode, attr)),
            Err(error) => {
                self.inodes.forget(inode.number, 1);
                Err(error)
            }
        }
    }

    pub(crate) fn attributes(&self, caller: Caller, inode: &Inode) -> Result<FileAttr> {
        self.rights.see(caller, || attr::of(inode))
    }

    /// The rights with which data of an open file move: those of the program that asks or, if the kernel writes by
    /// itself, those of the program that opened it.
    pub(crate) fn user_rights(&self, caller: Option<Caller>, handle: &Handle) -> Result<Option<Credentials>> {
        let by = |caller: &Caller| (caller.uid, caller.gid);
        match caller.filter(|caller| by(caller) != by(&handle.opened_by)) {
            Some(other) => self.rights.look_up(other),
            None => Ok(handle.rights.clone()),
        }
    }

    pub(crate) fn change(
        &self,
        caller: Caller,
        inode: &Inode,
        open: Option<&Handle>,
        changes: &Changes,
    ) -> Result<FileAttr> {
        let path = inode.path();
        self.rights.of(caller, || {
            if changes.uid.is_some() || changes.gid.is_some() {
                let (uid, gid) = (changes.uid.map(Uid::from_raw), changes.gid.map(Gid::from_raw));
                chownat(&inode.fd, "", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
            }
            if let Some(mode) = changes.mode {
                chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
            }
            match (changes.size, open, &inode.stored) {
                (Some(size), Some(open), None) => open.content.truncate(size)?,
                (Some(size), None, stored) => {
                    let file = openat(CWD, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                    // Of a map it tells only whether the caller may.
                    stored.as_ref().map_or_else(|| ftruncate(file, size), |_| Ok(()))?;
                }
                _ => {}
            }
            match &changes.times {
                Some(times) => utimensat(CWD, &path, times, AtFlags::empty()),
                None => Ok(()),
            }
        })?;
        if let Some(stored) = &inode.stored {
            self.change_regions(caller, inode, stored, changes)?;
        }
        self.attributes(caller, inode)
    }

    /// The kernel has checked that the caller may, and the map has been changed.
    fn change_regions(&self, caller: Caller, inode: &Inode, stored: &Arc<Stored>, changes: &Changes) -> Result<()> {
        if changes.uid.is_some() || changes.gid.is_some() {
            let owner = fstat(&inode.fd)?;
            stored.give(Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid))?;
        }
        if let Some(size) = changes.size {
            Opened::new(Arc::clone(stored), &inode.fd)?.truncate(size)?;
            self.drop_privileges(caller, inode)?;
        }
        changes.times.as_ref().map_or(Ok(()), |times| stored.set_times(times))
    }

    /// A file that is changed loses set-user-ID and set-group-ID, which the kernel leaves to us
    /// (`FUSE_HANDLE_KILLPRIV_V2`). The source may do it, too; it cannot for a file of regions.
    pub(crate) fn drop_privileges(&self, caller: Caller, inode: &Inode) -> Result<()> {
        let mode = fstat(&inode.fd)?.st_mode;
        let lost = if mode & 0o010 == 0 { 0o4000 } else { 0o6000 };
        match caller.uid != 0 && mode & lost != 0 {
            true => self.rights.see(caller, || chmod(inode.path(), Mode::from_raw_mode(mode & 0o7777 & !lost))),
            false => Ok(()),
        }
    }

    pub(crate) fn open(&self, caller: Caller, inode: Arc<Inode>, flags: i32) -> Result<Handle> {
        // It was joined a moment ago, and the kernel still has the old name: it looks again.
        if inode.stored.is_some() && fstat(&inode.fd)?.st_nlink == 0 {
            return Err(Errno::STALE);
        }
        let flags = flags_of(flags) - OFlags::CREATE - OFlags::EXCL - OFlags::TRUNC;
        let rights = self.rights.look_up(caller)?;
        let file = self.rights.user(rights.as_ref()).run(|| openat(CWD, inode.path(), flags, Mode::empty()))?;
        self.handle(caller, rights, inode, file)
    }

    /// A handle of a file that the caller could open. Region files are opened by us; whether the caller may, the map
    /// said.
    fn handle(&self, caller: Caller, rights: Option<Credentials>, inode: Arc<Inode>, file: OwnedFd) -> Result<Handle> {
        let content = match &inode.stored {
            Some(stored) => Content::Regions(Opened::new(Arc::clone(stored), &inode.fd)?),
            None => Content::Plain(file),
        };
        let shown = |below| Arc::from(self.mountpoint.join(below).to_string_lossy());
        let label = self.options.recorder.as_ref().map(|_| shown(self.below(&inode)));
        let opener = self.shares.as_ref().map(|shares| shares.asker(caller, text(&self.below(&inode))));
        Ok(Handle { inode, content, opened_by: caller, rights, backing: None, label, opener })
    }

    /// The path of a file below the source; what it was if the file has been deleted, or is elsewhere by now.
    pub(crate) fn below(&self, inode: &Inode) -> PathBuf {
        let path = std::fs::read_link(inode.path()).unwrap_or_default();
        path.strip_prefix(&self.source).map_or(path.clone(), Path::to_owned)
    }

    pub(crate) fn list(&self, caller: Caller, inode: &Inode) -> Result<Listing> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = self.rights.of(caller, || openat(CWD, inode.path(), flags, Mode::empty()))?;
        Ok(Listing::new(fd))
    }

    /// The mode of something new. The umask counts unless the directory has an access list for new files.
    fn mode(&self, caller: Caller, parent: &Inode, (mode, umask): (u32, u32)) -> Mode {
        let list = self.rights.see(caller, || getxattr_query(parent.path(), "system.posix_acl_default"));
        let has_default = list.is_ok_and(|size| size > 0);
        Mode::from_raw_mode(mode & 0o7777 & if has_default { !0 } else { !umask })
    }

    pub(crate) fn create(
        &self,
        caller: Caller,
        parent: &Inode,
        name: &OsStr,
        (mode, umask): (u32, u32),
        flags: i32,
    ) -> Result<(Handle, FileAttr)> {
        refuse_reserved(name)?;
        let mode = self.mode(caller, parent, (mode, umask));
        let (flags, is_exclusive) = (flags_of(flags), flags_of(flags).contains(OFlags::EXCL));
        let rights = self.rights.look_up(caller)?;
        let user = self.rights.user(rights.as_ref());
        if let Some(rule) = self.rule(parent, name)? {
            let create = |work: &mut dyn FnMut() -> Result<()>| user.run(work);
            match stored::create(&parent.fd, name, &stored::new_map(rule)?, mode, create) {
                Err(Errno::EXIST) if !is_exclusive => {}
                created => return self.created((caller, rights.clone()), parent, name, created?),
            }
        }
        let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW;
        let file = user.run(|| openat(&parent.fd, name, flags, mode))?;
        self.created((caller, rights.clone()), parent, name, file)
    }

    fn created(
        &self,
        (caller, rights): (Caller, Option<Credentials>),
        parent: &Inode,
        name: &OsStr,
        file: OwnedFd,
    ) -> Result<(Handle, FileAttr)> {
        let open = || openat(CWD, path(&file), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let (inode, attr) = self.counted(caller, (parent, name), self.rights.see(caller, open)?)?;
        let number = inode.number;
        // The kernel is not told of it then.
        let handle = self.handle(caller, rights, inode, file).inspect_err(|_| self.inodes.forget(number, 1))?;
        Ok((handle, attr))
    }

    /// The rule for a new file; only root's mounts have any.
    fn rule(&self, parent: &Inode, name: &OsStr) -> Result<Option<&Rule>> {
        if self.options.rules.is_empty() {
            return Ok(None);
        }
        let directory = match std::fs::read_link(parent.path()) {
            // The kernel tells no longer path, and no rule can name it.
            Err(error) if errno(&error) == Errno::NAMETOOLONG => {
                static TOLD: Once = Once::new();
                let message = "files whose paths have more than 4,096 bytes get no regions; such paths are in use";
                TOLD.call_once(|| tracing::warn!("{message}"));
                return Ok(None);
            }
            directory => directory.map_err(|error| errno(&error))?,
        };
        let directory = directory.strip_prefix(&self.source).ok().and_then(|directory| directory.to_str());
        Ok(directory.zip(name.to_str()).and_then(|(directory, name)| rule(&self.options.rules, directory, name)))
    }

    pub(crate) fn mkdir(
        &self,
        caller: Caller,
        parent: &Inode,
        name: &OsStr,
        (mode, umask): (u32, u32),
    ) -> Result<FileAttr> {
        refuse_reserved(name)?;
        let mode = self.mode(caller, parent, (mode, umask));
        self.rights.of(caller, || mkdirat(&parent.fd, name, mode))?;
        self.look_up(caller, parent, name)
    }

    pub(crate) fn mknod(
        &self,
        caller: Caller,
        parent: &Inode,
        name: &OsStr,
        (mode, umask): (u32, u32),
        device: u32,
    ) -> Result<FileAttr> {
        refuse_reserved(name)?;
        let (kind, mode) = (FileType::from_raw_mode(mode), self.mode(caller, parent, (mode, umask)));
        self.rights.of(caller, || mknodat(&parent.fd, name, kind, mode, device.into()))?;
        self.look_up(caller, parent, name)
    }

    pub(crate) fn symlink(&self, caller: Caller, parent: &Inode, name: &OsStr, target: &OsStr) -> Result<FileAttr> {
        refuse_reserved(name)?;
        self.rights.of(caller, || symlinkat(target, &parent.fd, name))?;
        self.look_up(caller, parent, name)
    }

    pub(crate) fn link(&self, caller: Caller, inode: &Inode, parent: &Inode, name: &OsStr) -> Result<FileAttr> {
        refuse_reserved(name)?;
        self.rights.of(caller, || linkat(CWD, inode.path(), &parent.fd, name, AtFlags::SYMLINK_FOLLOW))?;
        self.look_up(caller, parent, name)
    }

    pub(crate) fn unlink(&self, caller: Caller, parent: &Inode, name: &OsStr, flags: AtFlags) -> Result<()> {
        refuse_reserved(name)?;
        let victim = self.victim(caller, parent, name)?;
        self.rights.of(caller, || unlinkat(&parent.fd, name, flags))?;
        self.inodes.removed(parent, name);
        victim.map_or(Ok(()), doom)
    }

    pub(crate) fn rename(
        &self,
        caller: Caller,
        (from, name): (&Inode, &OsStr),
        (to, new): (&Inode, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        refuse_reserved(name)?;
        refuse_reserved(new)?;
        let victim = self.victim(caller, to, new)?;
        self.rights.of(caller, || renameat_with(&from.fd, name, &to.fd, new, flags))?;
        self.inodes.renamed((from, name), (to, new), flags.contains(RenameFlags::EXCHANGE));
        victim.map_or(Ok(()), doom)
    }

    /// The map that may lose its last name, and its regions.
    fn victim(&self, caller: Caller, parent: &Inode, name: &OsStr) -> Result<Option<(OwnedFd, Arc<Stored>)>> {
        if self.options.classes.is_empty() {
            return Ok(None);
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match self.rights.see(caller, || openat(&parent.fd, name, flags, Mode::empty())) {
            Err(Errno::NOENT) => return Ok(None),
            fd => fd?,
        };
        let stat = fstat(&fd)?;
        let stored = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.in_use.load(&fd, &self.options.classes)?,
            _ => None,
        };
        Ok(stored.map(|stored| (fd, stored)))
    }
}

/// Removes region files, once nobody uses them, if the map has no name any more.
fn doom((map, stored): (OwnedFd, Arc<Stored>)) -> Result<()> {
    if fstat(map)?.st_nlink == 0 {
        stored.doom();
    }
    Ok(())
}

pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn refuse_reserved(name: &OsStr) -> Result<()> {
    if is_reserved(name.as_bytes()) { Err(Errno::PERM) } else { Ok(()) }
}

/// Flags of a program for our descriptor. Direct I/O would need aligned buffers of ours; the kernel bypasses its cache.
/// Who syncs what is written is not decided here, so that it happens once.
fn flags_of(flags: i32) -> OFlags {
    let not_ours = OFlags::DIRECT | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::SYNC | OFlags::DSYNC;
    (OFlags::from_bits_retain(flags.cast_unsigned()) - not_ours) | OFlags::CLOEXEC
}
