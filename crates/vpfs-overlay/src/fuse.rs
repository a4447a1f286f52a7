//! A mount: requests of the kernel, and replies; mounting, and coming to an end.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, MountOption, Notifier, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, Session, SessionACL, SessionUnmounter, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, copy_file_range, fstat,
    fstatvfs, fsync, openat, readlinkat, statfs,
};
use rustix::io::{Errno, Result};
use rustix::mount::{UnmountFlags, unmount};
use vpfs_core::OpKind;
use vpfs_harl::Op;

use crate::inodes::{Inode, Inodes};
use crate::overlay;
use crate::overlay::{Changes, Content, Entry, Options, Overlay, Table, text};
use crate::repair::claim;
use crate::shares::{Asked, Asker, Shares, THREADS, Workers};
use crate::stored::{Class, InUse};
use crate::system::{Caller, Rights, inodes_max, lock, path};

/// How long the kernel believes attributes and names, which others may change in the source.
const BELIEVED: Duration = Duration::from_secs(1);

const SEEK_DATA: i32 = 3;

const SEEK_HOLE: i32 = 4;

/// The most bytes that one request copies: its reply has 32 bits.
const COPY_MAX: u64 = 1 << 30;

/// What is good for us and the kernel may have.
const WANTED: [InitFlags; 7] = [
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_DONT_MASK,
    // Else the kernel asks for security.capability before each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_POSIX_ACL,
];

fn error(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

fn empty(reply: ReplyEmpty, result: Result<()>) {
    match result {
        Ok(()) => reply.ok(),
        Err(why) => reply.error(error(why)),
    }
}

fn entry(reply: ReplyEntry, result: Result<FileAttr>) {
    match result {
        Ok(attr) => reply.entry(&BELIEVED, &attr, Generation(0)),
        Err(why) => reply.error(error(why)),
    }
}

fn attributes(reply: ReplyAttr, result: Result<FileAttr>) {
    match result {
        Ok(attr) => reply.attr(&BELIEVED, &attr),
        Err(why) => reply.error(error(why)),
    }
}

fn written(reply: ReplyWrite, result: Result<usize>) {
    match result.map(u32::try_from) {
        Ok(Ok(size)) => reply.written(size),
        Ok(Err(_)) => reply.error(fuser::Errno::EIO),
        Err(why) => reply.error(error(why)),
    }
}

fn data(reply: ReplyData, result: Result<Vec<u8>>) {
    match result {
        Ok(data) => reply.data(&data),
        Err(why) => reply.error(error(why)),
    }
}

/// A value, its size, or that it does not fit.
fn value(reply: ReplyXattr, size: u32, result: Result<Vec<u8>>) {
    match result {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() <= size as usize => reply.data(&value),
        Ok(_) => reply.error(fuser::Errno::ERANGE),
        Err(why) => reply.error(error(why)),
    }
}

fn time(time: Option<TimeOrNow>) -> Timespec {
    match time {
        Some(TimeOrNow::SpecificTime(time)) => overlay::timespec(time),
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    }
}

/// The overlay, whose requests never take the last thread that reads them: any of them may wait for a slow file system.
pub(crate) struct Fuse(pub(crate) Arc<Overlay>);

impl Fuse {
    /// Serves a request that nobody has to wait for.
    fn serve(&self, data: &[u8], work: impl FnOnce(&Overlay, &[u8]) + Send + 'static) {
        let overlay = Arc::clone(&self.0);
        self.0.workers.serve(data, move |data| work(&overlay, data));
    }

    fn metadata(
        &self,
        request: &Request,
        ino: INodeNo,
        data: &[u8],
        work: impl FnOnce(Result<&Overlay>, &[u8]) + Send + 'static,
    ) {
        let asker = |shares: &Shares| {
            let file = self.0.inode(ino.0).map(|inode| text(&self.0.below(&inode))).unwrap_or_default();
            Some(shares.asker(Caller::from(request), file))
        };
        let asked = Asked { op: OpKind::Metadata, bytes: 0, thread: request.pid(), data, is_divisible: false };
        self.in_turn(asked, asker, |overlay, data| {
            work(overlay, data);
            0
        });
    }

    /// Serves a request about an open file in the turn of the program that opened it; `work` returns the bytes moved.
    fn of_handle(
        &self,
        fh: FileHandle,
        asked: Asked,
        work: impl FnOnce(Result<&Overlay>, &[u8]) -> u64 + Send + 'static,
    ) {
        let opener = |_: &Shares| self.0.handles.get(fh.0).ok()?.opener.clone();
        self.in_turn(asked, opener, work);
    }

    /// Serves a request that changes no data of an open file as [`Fuse::of_handle`] does.
    fn about_handle(&self, request: &Request, fh: FileHandle, work: impl FnOnce(Result<&Overlay>) + Send + 'static) {
        let asked = Asked { op: OpKind::Metadata, bytes: 0, thread: request.pid(), data: &[], is_divisible: false };
        self.of_handle(fh, asked, |overlay, _| {
            work(overlay);
            0
        });
    }

    /// `work` gets an error if the request is not to be served.
    fn in_turn(
        &self,
        asked: Asked,
        asker: impl FnOnce(&Shares) -> Option<Arc<Asker>>,
        work: impl FnOnce(Result<&Overlay>, &[u8]) -> u64 + Send + 'static,
    ) {
        let overlay = Arc::clone(&self.0);
        let work = move |goes_on: Result<()>, data: &[u8]| work(goes_on.map(|()| &*overlay), data);
        // A handle that does not exist is refused at once.
        match self.0.shares.as_ref().and_then(|shares| Some((shares, asker(shares)?))) {
            Some((shares, asker)) => shares.serve(&self.0.workers, &asker, asked, work),
            None => self.0.workers.serve(asked.data, |data| {
                work(Ok(()), data);
            }),
        }
    }

    fn named(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        reply: ReplyEntry,
        make: impl FnOnce(&Overlay, &Inode, &OsStr) -> Result<FileAttr> + Send + 'static,
    ) {
        self.metadata(request, parent, name.as_bytes(), move |overlay, name| {
            let made = |overlay: &Overlay| make(overlay, &*overlay.inode(parent.0)?, OsStr::from_bytes(name));
            entry(reply, overlay.and_then(made));
        });
    }

    fn removed(&self, request: &Request, parent: INodeNo, name: &OsStr, flags: AtFlags, reply: ReplyEmpty) {
        let caller = Caller::from(request);
        self.metadata(request, parent, name.as_bytes(), move |overlay, name| {
            let unlink =
                |overlay: &Overlay| overlay.unlink(caller, &*overlay.inode(parent.0)?, OsStr::from_bytes(name), flags);
            empty(reply, overlay.and_then(unlink));
        });
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        for flag in WANTED {
            let _ = config.add_capabilities(flag);
        }
        // Where requests take turns, those that wait here must not fill the kernel's own queue, in which all are equal.
        let _ = config.set_max_background(if self.0.shares.is_some() { u16::MAX } else { 64 });
        let can_pass =
            config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok() && config.set_max_stack_depth(1).is_ok();
        self.0.may_pass.fetch_and(can_pass, Relaxed);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let caller = Caller::from(request);
        self.named(request, (parent, name), reply, move |overlay, parent, name| overlay.look_up(caller, parent, name));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.0.inodes.forget(ino.0, lookups);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let caller = Caller::from(request);
        self.metadata(request, ino, &[], move |overlay, _| {
            attributes(reply, overlay.and_then(|overlay| overlay.attributes(caller, &*overlay.inode(ino.0)?)));
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let has_times = atime.is_some() || mtime.is_some();
        let times = has_times.then(|| Timestamps { last_access: time(atime), last_modification: time(mtime) });
        let (caller, changes) = (Caller::from(request), Changes { mode, uid, gid, size, times });
        self.metadata(request, ino, &[], move |overlay, _| {
            let change = |overlay: &Overlay| {
                let open = fh.and_then(|fh| overlay.handles.get(fh.0).ok());
                overlay.change(caller, &*overlay.inode(ino.0)?, open.as_deref(), &changes)
            };
            attributes(reply, overlay.and_then(change));
        });
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let caller = Caller::from(request);
        self.metadata(request, ino, &[], move |overlay, _| {
            let read = |overlay: &Overlay| {
                let inode = overlay.inode(ino.0)?;
                Ok(overlay.rights.see(caller, || readlinkat(&inode.fd, "", Vec::new()))?.into_bytes())
            };
            data(reply, overlay.and_then(read));
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let caller = Caller::from(request);
        self.named(request, (parent, name), reply, move |overlay, parent, name| {
            overlay.mknod(caller, parent, name, (mode, umask), rdev)
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let caller = Caller::from(request);
        self.named(request, (parent, name), reply, move |overlay, parent, name| {
            overlay.mkdir(caller, parent, name, (mode, umask))
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.removed(request, parent, name, AtFlags::empty(), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.removed(request, parent, name, AtFlags::REMOVEDIR, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, target) = (Caller::from(request), target.to_owned());
        self.named(request, (parent, name), reply, move |overlay, parent, name| {
            overlay.symlink(caller, parent, name, target.as_os_str())
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        self.metadata(request, newparent, newname.as_bytes(), move |overlay, new| {
            let rename = |overlay: &Overlay| {
                let (from, to) = (overlay.inode(parent.0)?, overlay.inode(newparent.0)?);
                overlay.rename(caller, (&from, &name), (&to, OsStr::from_bytes(new)), flags)
            };
            empty(reply, overlay.and_then(rename));
        });
    }

    fn link(&self, request: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let caller = Caller::from(request);
        self.named(request, (newparent, newname), reply, move |overlay, parent, name| {
            overlay.link(caller, &*overlay.inode(ino.0)?, parent, name)
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let caller = Caller::from(request);
        self.metadata(request, ino, &[], move |overlay, _| {
            let open =
                |overlay: &'_ Overlay| overlay.inode(ino.0).and_then(|inode| overlay.open(caller, inode, flags.0));
            let (overlay, mut handle) = match overlay.and_then(|overlay| Ok((overlay, open(overlay)?))) {
                Ok(opened) => opened,
                Err(why) => return reply.error(error(why)),
            };
            let backing = overlay.backing(&mut handle, |inode| reply.open_backing(&inode.fd));
            let fh = FileHandle(overlay.handles.add(handle));
            match backing {
                Some(backing) => reply.opened_passthrough(fh, overlay.how(flags.0, true), &backing),
                None => reply.opened(fh, overlay.how(flags.0, false)),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let caller = Caller::from(request);
        self.metadata(request, parent, name.as_bytes(), move |overlay, name| {
            let create = |overlay: &Overlay| {
                let (parent, name) = (overlay.inode(parent.0)?, OsStr::from_bytes(name));
                overlay.create(caller, &parent, name, (mode, umask), flags)
            };
            let (overlay, (mut handle, attr)) = match overlay.and_then(|overlay| Ok((overlay, create(overlay)?))) {
                Ok(created) => created,
                Err(why) => return reply.error(error(why)),
            };
            let backing = overlay.backing(&mut handle, |inode| reply.open_backing(&inode.fd));
            let (fh, first) = (FileHandle(overlay.handles.add(handle)), Generation(0));
            match backing {
                Some(backing) => {
                    reply.created_passthrough(&BELIEVED, &attr, first, fh, overlay.how(flags, true), &backing)
                }
                None => reply.created(&BELIEVED, &attr, first, fh, overlay.how(flags, false)),
            }
        });
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let caller = Caller::from(request);
        let asked = Asked { op: OpKind::Read, bytes: size.into(), thread: caller.pid, data: &[], is_divisible: false };
        self.of_handle(fh, asked, move |overlay, _| {
            let read = overlay.and_then(|overlay| {
                let handle = overlay.handles.get(fh.0)?;
                let recorded = overlay.recorded(caller.pid, &handle);
                let rights = overlay.user_rights(Some(caller), &handle)?;
                let user = overlay.rights.user(rights.as_ref());
                let read = handle.content.read(user, offset, size as usize)?;
                recorded.done(Op::Read, offset, read.len());
                Ok(read)
            });
            let moved = read.as_ref().map_or(0, |read| read.len() as u64);
            data(reply, read);
            moved
        });
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (caller, is_privileged) =
            (Caller::from(request), write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID));
        // The kernel asks for that itself if it has the pages.
        let has_pages = self.0.options.recorder.is_none();
        let is_synced = !has_pages && flags.0.cast_unsigned() & OFlags::DSYNC.bits() != 0;
        // What the kernel writes back by itself has no thread that waits, and would be lost.
        let is_programs = !write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let asked = Asked {
            op: OpKind::Write,
            bytes: data.len() as u64,
            thread: if is_programs { caller.pid } else { 0 },
            data,
            is_divisible: is_programs,
        };
        self.of_handle(fh, asked, move |overlay, data| {
            let done = overlay.and_then(|overlay| {
                let handle = overlay.handles.get(fh.0)?;
                let recorded = overlay.recorded(caller.pid, &handle);
                if is_privileged {
                    overlay.drop_privileges(caller, &handle.inode)?;
                }
                let rights = overlay.user_rights(Some(caller).filter(|_| is_programs), &handle)?;
                let done = handle.content.write(overlay.rights.user(rights.as_ref()), offset, data)?;
                if is_synced {
                    handle.content.sync(true)?;
                }
                recorded.done(Op::Write, offset, done);
                Ok(done)
            });
            let moved = done.map_or(0, |done| done as u64);
            written(reply, done);
            moved
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, fh: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.serve(&[], move |overlay, _| {
            empty(reply, overlay.handles.get(fh.0).and_then(|handle| handle.content.flush()))
        });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(&[], move |overlay, _| {
            if let Some(handle) = overlay.handles.remove(fh.0).filter(|handle| handle.backing.is_none()) {
                lock(&handle.inode.opens).ours -= 1;
            }
            reply.ok();
        });
    }

    fn fsync(&self, request: &Request, _: INodeNo, fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.about_handle(request, fh, move |overlay| {
            empty(reply, overlay.and_then(|overlay| overlay.handles.get(fh.0)?.content.sync(datasync)));
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let caller = Caller::from(request);
        self.metadata(request, ino, &[], move |overlay, _| {
            let list =
                |overlay: &Overlay| Ok(overlay.listings.add(overlay.list(caller, &*overlay.inode(ino.0)?)?.into()));
            match overlay.and_then(list) {
                Ok(listing) => reply.opened(FileHandle(listing), FopenFlags::empty()),
                Err(why) => reply.error(error(why)),
            }
        });
    }

    fn readdir(&self, request: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        self.metadata(request, ino, &[], move |overlay, _| {
            let read = |overlay: &Overlay| {
                let take =
                    |entry: &Entry| reply.add(INodeNo(entry.ino), entry.next, overlay::kind(entry.kind), &entry.name);
                lock(&*overlay.listings.get(fh.0)?).read(offset, take)
            };
            match overlay.and_then(read) {
                Ok(()) => reply.ok(),
                Err(why) => reply.error(error(why)),
            }
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.listings.remove(fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, fh: FileHandle, _: bool, reply: ReplyEmpty) {
        self.metadata(request, ino, &[], move |overlay, _| {
            empty(reply, overlay.and_then(|overlay| fsync(&lock(&*overlay.listings.get(fh.0)?).fd)));
        });
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(&[], move |overlay, _| match overlay.inode(ino.0).and_then(|inode| fstatvfs(&inode.fd)) {
            Ok(all) => {
                let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
                let (block, name, fragment) = (number(all.f_bsize), number(all.f_namemax), number(all.f_frsize));
                reply.statfs(all.f_blocks, all.f_bfree, all.f_bavail, all.f_files, all.f_ffree, block, name, fragment);
            }
            Err(why) => reply.error(error(why)),
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (caller, name) = (Caller::from(request), name.to_owned());
        self.metadata(request, ino, value, move |overlay, value| {
            empty(reply, overlay.and_then(|overlay| overlay.set_attribute(caller, ino.0, &name, value, flags)));
        });
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let caller = Caller::from(request);
        self.metadata(request, ino, name.as_bytes(), move |overlay, name| {
            let name = OsStr::from_bytes(name);
            value(reply, size, overlay.and_then(|overlay| overlay.attribute(caller, ino.0, name)));
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let caller = Caller::from(request);
        self.metadata(request, ino, &[], move |overlay, _| {
            value(reply, size, overlay.and_then(|overlay| overlay.attribute_names(caller, ino.0)));
        });
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let caller = Caller::from(request);
        self.metadata(request, ino, name.as_bytes(), move |overlay, name| {
            let name = OsStr::from_bytes(name);
            empty(reply, overlay.and_then(|overlay| overlay.remove_attribute(caller, ino.0, name)));
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let (caller, mode) = (Caller::from(request), FallocateFlags::from_bits_retain(mode.cast_unsigned()));
        self.about_handle(request, fh, move |overlay| {
            let allocate = |overlay: &Overlay| {
                let handle = overlay.handles.get(fh.0)?;
                overlay.drop_privileges(caller, &handle.inode)?;
                let rights = overlay.user_rights(Some(caller), &handle)?;
                handle.content.allocate(overlay.rights.user(rights.as_ref()), mode, offset, length)
            };
            empty(reply, overlay.and_then(allocate));
        });
    }

    fn lseek(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        self.serve(&[], move |overlay, _| {
            let place = match (u64::try_from(offset), whence) {
                (Err(_), _) => Err(Errno::NXIO),
                (Ok(at), SEEK_DATA | SEEK_HOLE) => {
                    overlay.handles.get(fh.0).and_then(|handle| handle.content.seek(at, whence == SEEK_DATA))
                }
                _ => Err(Errno::INVAL),
            };
            match place.map(i64::try_from) {
                Ok(Ok(place)) => reply.offset(place),
                Ok(Err(_)) => reply.error(fuser::Errno::EOVERFLOW),
                Err(why) => reply.error(error(why)),
            }
        });
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        // Programs ask whether a file is a terminal.
        reply.error(fuser::Errno::ENOTTY);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        _: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (caller, len) = (Caller::from(request), len.min(COPY_MAX));
        let asked = Asked { op: OpKind::Write, bytes: len, thread: request.pid(), data: &[], is_divisible: false };
        self.of_handle(fh_out, asked, move |overlay, _| {
            let copied = overlay.and_then(|overlay| {
                let (from, to) = (overlay.handles.get(fh_in.0)?, overlay.handles.get(fh_out.0)?);
                overlay.drop_privileges(caller, &to.inode)?;
                let rights = overlay.user_rights(Some(caller), &to)?;
                let user = overlay.rights.user(rights.as_ref());
                user.run(|| copy((&from.content, offset_in), (&to.content, offset_out), len))
            });
            written(reply, copied);
            copied.map_or(0, |copied| copied as u64)
        });
    }
}

fn copy((from, mut at): (&Content, u64), (to, mut to_at): (&Content, u64), size: u64) -> Result<usize> {
    match (from, to) {
        (Content::Plain(from), Content::Plain(to)) => {
            let size = usize::try_from(size).map_err(|_| Errno::INVAL)?;
            copy_file_range(from, Some(&mut at), to, Some(&mut to_at), size)
        }
        // Then the kernel copies by reading and writing.
        _ => Err(Errno::OPNOTSUPP),
    }
}

const NAME: &str = "vpfs:";

/// Why nothing was mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Something could not be opened or mounted.
    #[error("cannot {what} {}: {why}", path.display())]
    Io {
        /// A verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The overlay would show itself.
    #[error("{} lies in {}; mount it elsewhere, or over the source itself", mountpoint.display(), source_directory.display())]
    Inside {
        /// Where to mount.
        mountpoint: PathBuf,
        /// What to show.
        source_directory: PathBuf,
    },
    /// Descriptors cannot be opened by path.
    #[error("/proc does not show the open files of this process ({0}), which a mount needs; mount -t proc proc /proc")]
    NoProc(io::Error),
    /// A mount hides another one.
    #[error("{} is a mount of vpfs already; unmount it first", .0.display())]
    Twice(PathBuf),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MountError {
    let path = path.to_owned();
    move |why| MountError::Io { what, path, why }
}

/// A mount that serves requests.
#[derive(Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    unmounter: SessionUnmounter,
    /// Ends when nothing is mounted any more.
    session: JoinHandle<io::Result<()>>,
}

impl Mounted {
    /// Shows `source` at `mountpoint`. A dead mount of an earlier process there is taken away first. The process should
    /// have been prepared ([`prepare_process`](crate::prepare_process)).
    ///
    /// # Errors
    /// If something cannot be opened or mounted, or the mount point lies in the source.
    pub fn new(
        source: &Path,
        mountpoint: &Path,
        options: Options,
        on_end: impl FnOnce() + Send + 'static,
    ) -> std::result::Result<Self, MountError> {
        see_proc().map_err(|error| MountError::NoProc(error.into()))?;
        heal(mountpoint)?;
        let source = source.canonicalize().map_err(failed("open", source))?;
        let mountpoint = mountpoint.canonicalize().map_err(failed("open", mountpoint))?;
        if mountpoint.starts_with(&source) && mountpoint != source {
            return Err(MountError::Inside { mountpoint, source_directory: source });
        }
        if is_mounted(&mountpoint) {
            return Err(MountError::Twice(mountpoint));
        }
        options.classes.iter().try_for_each(|class| take(&source, class))?;
        let most = inodes_max();
        let (full, is_full) = sync_channel(1);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            openat(CWD, &source, flags, Mode::empty()).map_err(io::Error::from).map_err(failed("open", &source))?;
        let inodes = Inodes::new(root, most, full).map_err(io::Error::from).map_err(failed("look at", &source))?;
        let inodes = Arc::new(inodes);
        let rights = Rights::new();
        let config = config(&source, &rights);
        let may_pass = rights.are_roots() && options.recorder.is_none() && options.turns.is_none();
        let shares = options.turns.clone().map(Shares::new);
        let overlay = Overlay {
            source,
            mountpoint: mountpoint.clone(),
            options: Arc::new(options),
            inodes: Arc::clone(&inodes),
            in_use: InUse::default(),
            may_pass: AtomicBool::new(may_pass),
            rights,
            workers: Workers::default(),
            handles: Table::default(),
            listings: Table::default(),
            shares,
        };
        let mut session =
            Session::new(Fuse(Arc::new(overlay)), &mountpoint, &config).map_err(failed("mount at", &mountpoint))?;
        let (unmounter, notifier) = (session.unmount_callable(), session.notifier());
        let inodes = Arc::downgrade(&inodes);
        std::thread::spawn(move || forget(&is_full, &inodes, &notifier));
        let session = std::thread::spawn(move || {
            let ended = session.run();
            on_end();
            ended
        });
        Ok(Self { mountpoint, unmounter, session })
    }

    /// Takes the mount away. Files that are open still work, and the session ends when the last of them is closed.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn unmount(&mut self) -> io::Result<()> {
        match self.unmounter.unmount() {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                Ok(unmount(&self.mountpoint, UnmountFlags::DETACH)?)
            }
            unmounted => unmounted,
        }
    }

    /// Waits until nothing is mounted any more.
    ///
    /// # Errors
    /// If the session ended for another reason.
    pub fn end(self) -> io::Result<()> {
        let ended = self.session.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        match ended {
            // Linux 6.18 may tell threads that wait for requests so when the last file is closed, instead of ENODEV.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted && !is_mounted(&self.mountpoint) => Ok(()),
            ended => ended,
        }
    }
}

fn take(source: &Path, class: &Class) -> std::result::Result<(), MountError> {
    let path = &class.path;
    claim(source, class).map_err(failed("use the class directory", path))?;
    match class.lock(false).map_err(io::Error::from).map_err(failed("lock", path))? {
        true => Ok(()),
        false => Err(failed("use the class directory", path)(io::Error::other("it is being repaired"))),
    }
}

fn config(source: &Path, rights: &Rights) -> Config {
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.acl = if rights.are_roots() { SessionACL::All } else { SessionACL::Owner };
    config.mount_options = vec![
        MountOption::FSName(format!("{NAME}{}", source.to_string_lossy().replace([',', '\\'], "_"))),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config
}

/// Files are opened by the paths of descriptors there; without them, nothing would be found.
fn see_proc() -> rustix::io::Result<()> {
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let again = openat(CWD, path(&root), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let (root, again) = (fstat(root)?, fstat(again)?);
    if (root.st_dev, root.st_ino) == (again.st_dev, again.st_ino) { Ok(()) } else { Err(Errno::NOENT) }
}

fn heal(mountpoint: &Path) -> std::result::Result<(), MountError> {
    // Attributes of its root may still be believed.
    while statfs(mountpoint).err() == Some(Errno::NOTCONN) {
        tracing::warn!(mountpoint = %mountpoint.display(), "taking away the mount of a daemon that was killed");
        unmount(mountpoint, UnmountFlags::DETACH).map_err(io::Error::from).map_err(failed("unmount", mountpoint))?;
    }
    Ok(())
}

fn is_mounted(mountpoint: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    // Blanks and such are written as octal numbers there; a mount point that has any is not found.
    let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.any(|words| words[0].starts_with(NAME) && words.get(1).is_some_and(|at| Path::new(at) == mountpoint))
}

/// Asks the kernel to forget files when it is told that there are too many, until the mount ends. Not in a thread that
/// serves requests, for which the kernel may wait meanwhile.
fn forget(is_full: &Receiver<()>, inodes: &Weak<Inodes>, notifier: &Notifier) {
    while let Ok(()) = is_full.recv() {
        let Some(spare) = inodes.upgrade().map(|inodes| inodes.spare()) else { return };
        for (parent, name) in spare {
            // What is in use, or has another name by now, stays.
            let _ = notifier.inval_entry(INodeNo(parent), &name);
        }
    }
}
