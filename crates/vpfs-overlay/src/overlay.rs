//! What each request does, with results instead of replies, and a record of requests, which never holds one up.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fuser::{BackingId, FileAttr, FopenFlags, INodeNo};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat, Timespec,
    Timestamps, Uid, XattrFlags, chmod, chownat, fallocate, fdatasync, fstat, fstatfs, fsync, ftruncate, getxattr,
    getxattr_query, linkat, listxattr, mkdirat, mknodat, openat, removexattr, renameat_with, seek, setxattr, statat,
    symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, Result, dup, pread, pwrite};
use vpfs_harl::{CsvLine, Op, REQUESTS_MAX, Request};
use vpfs_proxy::Turns;

use crate::inodes::{Inode, Inodes};
use crate::map::{Rule, is_reserved, rule};
use crate::shares::{Asker, Shares, Workers};
use crate::stored;
use crate::stored::{ATTRIBUTE, Class, InUse, Opened, Stored};
use crate::system::{Caller, Credentials, Rights, User, close, errno, lock, path};

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
    pub(crate) may_pass: AtomicBool,
}

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
        self.rights.see(caller, || attr_of(inode))
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

    pub(crate) fn backing(
        &self,
        handle: &mut Handle,
        open: impl FnOnce(&Inode) -> std::io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        let mut opens = lock(&handle.inode.opens);
        handle.backing = opens.backing.upgrade();
        let is_free = handle.backing.is_none() && opens.ours == 0;
        if is_free
            && self.may_pass.load(Relaxed)
            && matches!(handle.content, Content::Plain(_))
            && !is_privileged(&handle.inode)
            && is_local(&handle.inode)
        {
            // All programs that have the file open share it, so it must not give any of them more rights, such as to
            // reserved space.
            match self.rights.of_nobody(|| open(&handle.inode)) {
                Ok(new) => handle.backing = Some(Arc::new(new)),
                Err(error) => {
                    tracing::info!(%error, "the kernel cannot read and write this source by itself");
                    self.may_pass.store(false, Relaxed);
                }
            }
        }
        match &handle.backing {
            Some(backing) => opens.backing = Arc::downgrade(backing),
            None => opens.ours += 1,
        }
        handle.backing.clone()
    }

    pub(crate) fn recorded(&self, pid: u32, handle: &Handle) -> Recorded {
        let Some(file) = &handle.label else { return Recorded(None) };
        let start = self.options.recorder.as_ref().map_or(0, Recorder::now);
        Recorded(Some((Arc::clone(&self.options), Arc::clone(file), pid, start)))
    }

    /// Bypasses the page cache if requests are recorded, so that they are those of programs.
    pub(crate) fn how(&self, flags: i32, passes: bool) -> FopenFlags {
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        let cache = if self.options.recorder.is_some() && !passes { direct } else { FopenFlags::empty() };
        let is_read_only = flags.cast_unsigned() & OFlags::RWMODE.bits() == OFlags::RDONLY.bits();
        cache | if is_read_only { FopenFlags::FOPEN_NOFLUSH } else { FopenFlags::empty() }
    }

    pub(crate) fn set_attribute(
        &self,
        caller: Caller,
        inode: u64,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        if is_hidden(name.as_bytes()) {
            return Err(Errno::PERM);
        }
        let inode = self.inode(inode)?;
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        self.rights.of(caller, || setxattr(inode.path(), name, value, flags))
    }

    pub(crate) fn attribute(&self, caller: Caller, inode: u64, name: &OsStr) -> Result<Vec<u8>> {
        if is_hidden(name.as_bytes()) {
            return Err(Errno::NODATA);
        }
        let (inode, mut value) = (self.inode(inode)?, vec![0; ATTRIBUTE_MAX]);
        match self.rights.of(caller, || getxattr(inode.path(), name, &mut value[..])) {
            // The kernel takes "not supported" for an access list that denies all.
            Err(Errno::NOTSUP) if name.as_bytes().starts_with(b"system.posix_acl_") => Err(Errno::NODATA),
            size => {
                value.truncate(size?);
                Ok(value)
            }
        }
    }

    pub(crate) fn attribute_names(&self, caller: Caller, inode: u64) -> Result<Vec<u8>> {
        let (inode, mut list) = (self.inode(inode)?, vec![0; ATTRIBUTE_MAX]);
        let size = self.rights.of(caller, || listxattr(inode.path(), &mut list[..]))?;
        let names = list[..size].split_inclusive(|byte| *byte == 0);
        Ok(names.filter(|name| !is_hidden(name.strip_suffix(b"\0").unwrap_or(name))).flatten().copied().collect())
    }

    pub(crate) fn remove_attribute(&self, caller: Caller, inode: u64, name: &OsStr) -> Result<()> {
        if is_hidden(name.as_bytes()) {
            return Err(Errno::NODATA);
        }
        let inode = self.inode(inode)?;
        self.rights.of(caller, || removexattr(inode.path(), name))
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
/// Nor may it sync: writes are synced elsewhere, once.
fn flags_of(flags: i32) -> OFlags {
    let not_ours = OFlags::DIRECT | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::SYNC | OFlags::DSYNC;
    (OFlags::from_bits_retain(flags.cast_unsigned()) - not_ours) | OFlags::CLOEXEC
}

pub(crate) fn attr_of(inode: &Inode) -> Result<FileAttr> {
    let stat = fstat(&inode.fd)?;
    let (mut modified, mut changed) =
        ((stat.st_mtime, stat.st_mtime_nsec.cast_signed()), (stat.st_ctime, stat.st_ctime_nsec.cast_signed()));
    let (mut size, mut blocks) = (stat.st_size.cast_unsigned(), stat.st_blocks.cast_unsigned());
    if let Some(stored) = &inode.stored {
        let usage = stored.usage()?;
        (size, blocks) = (usage.size, usage.blocks);
        (modified, changed) = (modified.max(usage.modified), changed.max(usage.changed));
    }
    Ok(FileAttr {
        ino: INodeNo(inode.number),
        size,
        blocks,
        atime: time((stat.st_atime, stat.st_atime_nsec.cast_signed())),
        mtime: time(modified),
        ctime: time(changed),
        crtime: UNIX_EPOCH,
        kind: kind(inode.kind),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device(&stat),
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
        flags: 0,
    })
}

/// The kernel's and the C library's numbers of devices have the same lower half.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn device(stat: &Stat) -> u32 {
    stat.st_rdev as u32
}

/// What is neither known nor regular does not occur in file systems that we can mount over.
pub(crate) fn kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
        FileType::CharacterDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::RegularFile | FileType::Unknown => fuser::FileType::RegularFile,
    }
}

fn time((seconds, nanoseconds): (i64, i64)) -> SystemTime {
    let fraction = Duration::from_nanos(nanoseconds.unsigned_abs());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - whole + fraction } else { UNIX_EPOCH + whole + fraction }
}

/// The time of a request. Before 1970, fuser 0.18 subtracts the fraction of the second, too, instead of adding it.
pub(crate) fn timespec(time: SystemTime) -> Timespec {
    let (seconds, fraction) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        Err(before) => (-before.duration().as_secs().cast_signed(), before.duration().subsec_nanos()),
    };
    Timespec { tv_sec: seconds, tv_nsec: fraction.into() }
}

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

#[derive(Debug)]
pub(crate) struct Table<T> {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), open: Mutex::default() }
    }
}

impl<T> Table<T> {
    pub(crate) fn add(&self, open: T) -> u64 {
        let handle = self.next.fetch_add(1, Relaxed);
        lock(&self.open).insert(handle, Arc::new(open));
        handle
    }

    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>> {
        lock(&self.open).get(&handle).cloned().ok_or(Errno::BADF)
    }

    pub(crate) fn remove(&self, handle: u64) -> Option<Arc<T>> {
        lock(&self.open).remove(&handle)
    }
}

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) inode: Arc<Inode>,
    pub(crate) content: Content,
    /// The program that opened it, and its rights: what the kernel writes by itself is written with these.
    pub(crate) opened_by: Caller,
    pub(crate) rights: Option<Credentials>,
    pub(crate) backing: Option<Arc<BackingId>>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) opener: Option<Arc<Asker>>,
}

#[derive(Debug)]
pub(crate) enum Content {
    Plain(OwnedFd),
    Regions(Opened),
}

impl Content {
    pub(crate) fn read(&self, user: User, at: u64, size: usize) -> Result<Vec<u8>> {
        match self {
            Self::Regions(opened) => opened.read(at, size),
            Self::Plain(file) => user.run(|| read(file, at, size)),
        }
    }

    pub(crate) fn write(&self, user: User, at: u64, data: &[u8]) -> Result<usize> {
        match self {
            Self::Regions(opened) => opened.write(user, at, data),
            Self::Plain(file) => user.run(|| pwrite(file, data, at)),
        }
    }

    pub(crate) fn sync(&self, is_data_only: bool) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.sync(is_data_only),
            Self::Plain(file) if is_data_only => fdatasync(file),
            Self::Plain(file) => fsync(file),
        }
    }

    /// Closes it for one of those who have it open: network file systems write what is cached then, and say if they
    /// can't.
    pub(crate) fn flush(&self) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.flush(),
            Self::Plain(file) => close(dup(file)?),
        }
    }

    pub(crate) fn allocate(&self, user: User, mode: FallocateFlags, at: u64, size: u64) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.allocate(user, mode, at, size),
            Self::Plain(file) => user.run(|| fallocate(file, mode, at, size)),
        }
    }

    pub(crate) fn seek(&self, at: u64, is_data: bool) -> Result<u64> {
        match self {
            Self::Regions(opened) => opened.seek(at, is_data),
            Self::Plain(file) => seek(file, if is_data { SeekFrom::Data(at) } else { SeekFrom::Hole(at) }),
        }
    }

    pub(crate) fn truncate(&self, size: u64) -> Result<()> {
        match self {
            Self::Regions(opened) => opened.truncate(size),
            Self::Plain(file) => ftruncate(file, size),
        }
    }
}

fn read(file: &OwnedFd, at: u64, size: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::with_capacity(size);
    // Fewer bytes than asked for mean the end of the file to the kernel.
    while buffer.len() < size {
        let from = at + buffer.len() as u64;
        let mut rest = std::mem::take(&mut buffer);
        let read = pread(file, rustix::buffer::spare_capacity(&mut rest), from);
        buffer = rest;
        match read {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(size);
    Ok(buffer)
}

/// A request that is recorded when it is done, if there is a record: which file, which process, and when it began.
pub(crate) struct Recorded(Option<(Arc<Options>, Arc<str>, u32, u64)>);

impl Recorded {
    pub(crate) fn done(self, op: Op, offset: u64, size: usize) {
        let Some((options, file, pid, start)) = self.0 else { return };
        if let Some(recorder) = options.recorder.as_ref().filter(|_| size > 0) {
            recorder.add(&file, op, pid, (offset, size as u64), start);
        }
    }
}

/// Whether a file loses set-user-ID or set-group-ID when it is written, which the kernel leaves to us.
fn is_privileged(inode: &Inode) -> bool {
    fstat(&inode.fd).is_ok_and(|stat| stat.st_mode & 0o6000 != 0)
}

/// Whether the file is on a file system of this host. The kernel opens it a second time then. Other file systems may
/// refuse that: a server or another program decides, by the caller and by the mode that the file has by now.
fn is_local(inode: &Inode) -> bool {
    const BCACHEFS: u64 = 0xCA45_1A4E;
    const BTRFS: u64 = 0x9123_683E;
    const EXT4: u64 = 0xEF53;
    const F2FS: u64 = 0xF2F5_2010;
    const TMPFS: u64 = 0x0102_1994;
    const XFS: u64 = 0x5846_5342;
    const ZFS: u64 = 0x2FC1_2FC1;
    let kind = fstatfs(&inode.fd).ok().and_then(|status| u64::try_from(status.f_type).ok());
    matches!(kind, Some(BCACHEFS | BTRFS | EXT4 | F2FS | TMPFS | XFS | ZFS))
}

const ATTRIBUTE_MAX: usize = 64 << 10;

fn is_hidden(name: &[u8]) -> bool {
    name == ATTRIBUTE.as_bytes()
}

/// Requests that wait for the disk. What comes while there are so many is counted, not recorded.
const WAITING_MAX: usize = 1 << 16;

/// Records requests in a CSV file that `vpfs layout advise` reads.
#[derive(Debug)]
pub struct Recorder {
    sender: SyncSender<(Request, Arc<str>)>,
    begin: Instant,
    lost: Arc<AtomicU64>,
}

/// The thread that writes them; it ends when the recorder is dropped.
#[derive(Debug)]
pub struct Writer(JoinHandle<io::Result<()>>);

impl Recorder {
    /// Writes to a new file, at most as many requests as can be read again, 1.5 GB.
    ///
    /// # Errors
    /// If the file exists, or cannot be created.
    pub fn create(path: &Path) -> io::Result<(Self, Writer)> {
        let file = File::create_new(path)?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let lost = Arc::default();
        let counted = Arc::clone(&lost);
        let writer =
            std::thread::Builder::new().name("trace".into()).spawn(move || write(file, &receiver, &counted))?;
        Ok((Self { sender, begin: Instant::now(), lost }, Writer(writer)))
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn add(&self, file: &Arc<str>, op: Op, pid: u32, (offset, size): (u64, u64), start: u64) {
        let request = Request { rank: pid, op, offset, size, start, end: self.now() };
        if self.sender.try_send((request, Arc::clone(file))).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

impl Writer {
    /// Waits until all is written.
    ///
    /// # Errors
    /// The first one of writing.
    pub fn finish(self) -> io::Result<()> {
        self.0.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    }
}

/// Processes become ranks in the order of their first requests.
fn write(file: File, receiver: &Receiver<(Request, Arc<str>)>, lost: &AtomicU64) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    let (mut ranks, mut count) = (HashMap::new(), 0);
    writeln!(out, "{}", CsvLine::Header)?;
    for (mut request, file) in receiver {
        if count == REQUESTS_MAX {
            lost.fetch_add(1, Relaxed);
            continue;
        }
        count += 1;
        let next = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
        request.rank = *ranks.entry(request.rank).or_insert(next);
        writeln!(out, "{}", CsvLine::Request(&request, &file))?;
    }
    out.flush()?;
    match lost.load(Relaxed) {
        0 => tracing::info!(requests = count, "the trace is complete"),
        lost => tracing::warn!(requests = count, lost, "the trace is incomplete"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_those_that_were_asked_for() {
        let as_fuser_says = UNIX_EPOCH - Duration::new(2, 500);
        let asked = timespec(as_fuser_says);
        assert_eq!((asked.tv_sec, asked.tv_nsec), (-2, 500));
        assert_eq!(UNIX_EPOCH.duration_since(time((-2, 500))).unwrap(), Duration::new(1, 999_999_500));
        assert_eq!(time((5, 7)), UNIX_EPOCH + Duration::new(5, 7));
    }

    #[test]
    fn advise_reads_what_is_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.csv");
        let (recorder, writer) = Recorder::create(&path).unwrap();
        let file = Arc::from("/scratch/a, \"b\"");
        recorder.add(&file, Op::Write, 4711, (0, 512), recorder.now());
        recorder.add(&file, Op::Read, 12, (512, 7), recorder.now());
        recorder.add(&file, Op::Read, 4711, (0, 7), recorder.now());
        drop(recorder);
        writer.finish().unwrap();
        let mut reader = vpfs_harl::LogReader::default();
        let text = std::fs::read_to_string(&path).unwrap();
        text.lines().for_each(|line| reader.line(line.as_bytes()).unwrap());
        let log = reader.finish().unwrap();
        let seen: Vec<_> = log.files[&*file].iter().map(|r| (r.rank, r.op, r.offset, r.size)).collect();
        assert_eq!(seen, [(0, Op::Write, 0, 512), (1, Op::Read, 512, 7), (0, Op::Read, 0, 7)]);
        assert!(Recorder::create(&path).is_err(), "an older trace is kept");
    }
}
