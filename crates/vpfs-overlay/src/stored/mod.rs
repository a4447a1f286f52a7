//! A file of regions in its directories, without FUSE.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW, Uid,
    XattrFlags, fallocate, fchown, fdatasync, flock, fsetxattr, fstat, fsync, ftruncate, getxattr, openat, renameat,
    renameat_with, seek, statat, unlinkat, utimensat,
};
use rustix::io::{Errno, Result};

use crate::inodes::path;
use crate::map::{RegionMap, TEXT_MAX};
use crate::names::{Rule, unfinished};

/// What tells maps from other files. Only root can set it.
pub const ATTRIBUTE: &str = "trusted.vpfs.regions";

/// A class of servers: a directory, whose file system spreads what lies in it over them.
#[derive(Debug)]
pub struct Class {
    /// Its name in maps.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    pub(crate) directory: Arc<OwnedFd>,
}

impl Class {
    /// Opens the directory.
    ///
    /// # Errors
    /// If it is none.
    pub fn open(name: String, path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = Arc::new(openat(CWD, path, flags, Mode::empty())?);
        Ok(Self { name, path: path.to_owned(), directory })
    }

    /// Locks the directory until the class is dropped: mounts share it, mending does not. False if others have it.
    pub(crate) fn lock(&self, alone: bool) -> Result<bool> {
        lock(&self.directory, alone)
    }
}

/// A map, and the directories of its classes.
#[derive(Debug)]
pub struct Stored {
    map: RegionMap,
    directories: Vec<Arc<OwnedFd>>,
    is_doomed: AtomicBool,
}

/// Not every file system has locks; then whoever mends must know.
fn lock(fd: &OwnedFd, alone: bool) -> Result<bool> {
    let how = if alone { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared };
    match flock(fd, how) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        Ok(()) | Err(Errno::NOSYS | Errno::NOTSUP | Errno::INVAL | Errno::NOLCK) => Ok(true),
        Err(error) => Err(error),
    }
}

/// What region files say about the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) size: u64,
    /// Of 512 bytes.
    pub(crate) blocks: u64,
    /// The latest, in seconds and nanoseconds; long ago if there is none.
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

/// Whether a file has a map instead of data.
pub(crate) fn is_map(fd: &impl AsFd) -> bool {
    let path = path(&fd.as_fd());
    getxattr(path, ATTRIBUTE, &mut [0_u8; 16][..]).is_ok()
}

impl Stored {
    /// The regions of a file, if it has a map.
    ///
    /// # Errors
    /// If the map is damaged or has a class that is not in `classes`, which the log says.
    pub fn load(fd: &impl AsFd, classes: &[Class]) -> Result<Option<Self>> {
        if !is_map(fd) {
            return Ok(None);
        }
        let map = read_map(fd).map_err(|error| {
            tracing::error!(file = ?std::fs::read_link(path(&fd.as_fd())), "{error}; `vpfs layout check` says more");
            Errno::IO
        })?;
        Self::of(map, classes).map(Some)
    }

    pub(crate) fn of(map: RegionMap, classes: &[Class]) -> Result<Self> {
        let directory = |name: &String| {
            let class = classes.iter().find(|class| class.name == *name);
            let found = class.map(|class| Arc::clone(&class.directory));
            found.ok_or_else(|| {
                tracing::error!("a file has regions in class {name:?}, whose directory is not configured");
                Errno::IO
            })
        };
        let directories = map.classes().iter().map(directory).collect::<Result<_>>()?;
        Ok(Self { map, directories, is_doomed: AtomicBool::new(false) })
    }

    /// The map.
    pub fn map(&self) -> &RegionMap {
        &self.map
    }

    /// The region files are removed when nobody uses them any more.
    pub(crate) fn doom(&self) {
        self.is_doomed.store(true, Relaxed);
    }

    fn place(&self, file: usize) -> (&OwnedFd, &str) {
        let file = &self.map.files()[file];
        (&self.directories[file.class], &file.name)
    }

    pub(crate) fn stat(&self, file: usize) -> Result<Option<Stat>> {
        let (directory, name) = self.place(file);
        absent(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Asks all region files.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let mut usage = Usage { size: 0, blocks: 0, modified: (i64::MIN, 0), changed: (i64::MIN, 0) };
        for file in 0..self.map.files().len() {
            let Some(stat) = self.stat(file)? else { continue };
            usage.size = usage.size.max(self.map.end(file, stat.st_size.cast_unsigned()));
            usage.blocks += stat.st_blocks.cast_unsigned();
            usage.modified = usage.modified.max((stat.st_mtime, stat.st_mtime_nsec.cast_signed()));
            usage.changed = usage.changed.max((stat.st_ctime, stat.st_ctime_nsec.cast_signed()));
        }
        Ok(usage)
    }

    /// Region files that exist get the owner, as far as the file system has owners.
    pub(crate) fn give(&self, owner: Uid, group: Gid) -> Result<()> {
        self.each(|directory, name| rustix::fs::chownat(directory, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Region files that exist get these times.
    pub(crate) fn set_times(&self, times: &Timestamps) -> Result<()> {
        self.each(|directory, name| utimensat(directory, name, times, AtFlags::SYMLINK_NOFOLLOW))
    }

    /// Removes all region files.
    pub(crate) fn remove(&self) -> Result<()> {
        self.each(|directory, name| unlinkat(directory, name, AtFlags::empty()))
    }

    fn each(&self, work: impl Fn(&OwnedFd, &str) -> Result<()>) -> Result<()> {
        (0..self.map.files().len()).try_for_each(|file| {
            let (directory, name) = self.place(file);
            absent(work(directory, name)).map(|_| ())
        })
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if self.is_doomed.load(Relaxed)
            && let Err(error) = self.remove()
        {
            tracing::warn!(id = self.map.id(), %error, "region files of a deleted file are left; `vpfs layout check` removes them");
        }
    }
}

/// Reads a map through any descriptor of it.
pub(crate) fn read_map(fd: &impl AsFd) -> std::result::Result<RegionMap, String> {
    let file = openat(CWD, path(&fd.as_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = String::new();
    let read = file.map_err(std::io::Error::from).and_then(|file| {
        File::from(file).take(TEXT_MAX as u64).read_to_string(&mut text)
    });
    read.map_err(|error| format!("cannot read the region map: {error}"))?;
    RegionMap::parse(&text).map_err(|error| error.to_string())
}

/// A new map for a rule.
pub(crate) fn new_map(rule: &Rule) -> Result<RegionMap> {
    RegionMap::new(new_id()?, rule.classes.clone(), rule.table.clone()).map_err(|_| Errno::INVAL)
}

/// 32 hexadecimal digits that nobody else has.
pub(crate) fn new_id() -> Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Gives a new file of regions its name, durably: it exists with its whole map or not at all. Steps that are checked
/// for the caller's rights go through `rights`.
///
/// # Errors
/// If there is such a file, among others.
pub(crate) fn create(
    directory: &OwnedFd,
    name: &OsStr,
    map: &RegionMap,
    mode: Mode,
    rights: impl Fn(&mut dyn FnMut() -> Result<()>) -> Result<()>,
) -> Result<OwnedFd> {
    let new = unfinished(map.id());
    let mut created = None;
    rights(&mut || {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        created = Some(openat(directory, &new, flags, mode)?);
        Ok(())
    })?;
    let file = File::from(created.ok_or(Errno::IO)?);
    let finish = || -> Result<()> {
        (&file).write_all(map.to_string().as_bytes()).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        fsetxattr(&file, ATTRIBUTE, b"1", XattrFlags::CREATE)?;
        fsync(&file)?;
        rights(&mut || rename_to_new(directory, new.as_ref(), name))?;
        sync_directory(directory)
    };
    if let Err(error) = finish() {
        let _ = unlinkat(directory, &new, AtFlags::empty());
        return Err(error);
    }
    Ok(file.into())
}

/// Renames within a directory, but never over a file, as far as the file system can guarantee that.
fn rename_to_new(directory: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<()> {
    match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => renameat(directory, from, directory, to),
            found => found.and(Err(Errno::EXIST)),
        },
        renamed => renamed,
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

fn absent<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(Some),
    }
}

/// A file of regions while somebody reads or writes it.
#[derive(Debug)]
pub struct Opened {
    stored: Arc<Stored>,
    /// The map itself.
    fd: OwnedFd,
    files: Vec<OnceLock<File>>,
}

impl Opened {
    /// Opens nothing yet but the map, through any descriptor of it, and keeps it from being replaced on this host.
    ///
    /// # Errors
    /// If that cannot be opened, or is being replaced.
    pub fn new(stored: Arc<Stored>, fd: &impl AsFd) -> Result<Self> {
        let fd = openat(CWD, path(&fd.as_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        if !lock(&fd, false)? {
            return Err(Errno::BUSY);
        }
        let files = stored.map.files().iter().map(|_| OnceLock::new()).collect();
        Ok(Self { stored, fd, files })
    }

    /// Whether nobody else has it open, and nobody will.
    pub(crate) fn lock_alone(&self) -> Result<bool> {
        lock(&self.fd, true)
    }

    /// A region file, or none if it does not exist and is not to be created.
    fn file(&self, number: usize, create: bool) -> Result<Option<&File>> {
        if let Some(file) = self.files[number].get() {
            return Ok(Some(file));
        }
        let (directory, name) = self.stored.place(number);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match absent(openat(directory, name, flags, Mode::empty()))? {
            None if !create => return Ok(None),
            None => {
                let file = openat(directory, name, flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR)?;
                let owner = fstat(&self.fd)?;
                let (user, group) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
                match fchown(&file, Some(user), Some(group)) {
                    // Where there are no owners, space is not counted for them either.
                    Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS) | Ok(()) => {}
                    failed => failed?,
                }
                file
            }
            Some(file) => file,
        };
        Ok(Some(self.files[number].get_or_init(|| opened.into())))
    }

    /// Reads up to `size` bytes; fewer only at the end of the file.
    ///
    /// # Errors
    /// Those of the region files.
    pub fn read(&self, at: u64, size: usize) -> Result<Vec<u8>> {
        let mut buffer = vec![0; size];
        if self.fill(at, &mut buffer)? {
            return Ok(buffer);
        }
        // Holes, or the end. What is written meanwhile may count for the size, so it is read again.
        let left = self.stored.usage()?.size.saturating_sub(at);
        buffer.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        buffer.fill(0);
        self.fill(at, &mut buffer)?;
        Ok(buffer)
    }

    /// Whether there was data for all of the buffer; where there was none, it is as before.
    fn fill(&self, at: u64, mut buffer: &mut [u8]) -> Result<bool> {
        let mut is_full = true;
        for piece in self.stored.map.pieces(at..at.saturating_add(buffer.len() as u64)) {
            let (part, rest) = buffer.split_at_mut(usize::try_from(piece.size).map_err(|_| Errno::INVAL)?);
            let read = self.file(piece.file, false)?.map_or(Ok(0), |file| read_all(file, part, piece.at))?;
            is_full &= read == part.len();
            buffer = rest;
        }
        Ok(is_full)
    }

    /// Writes all of it, or as much as there is space for.
    ///
    /// # Errors
    /// Those of the region file that the first byte belongs to.
    pub fn write(&self, at: u64, mut data: &[u8]) -> Result<usize> {
        let whole = data.len();
        for piece in self.stored.map.pieces(at..at.saturating_add(whole as u64)) {
            let (part, rest) = data.split_at(usize::try_from(piece.size).map_err(|_| Errno::INVAL)?);
            let file = self.file(piece.file, true)?.ok_or(Errno::IO);
            let written = file.and_then(|file| file.write_all_at(part, piece.at).map_err(|error| errno(&error)));
            if let Err(error) = written {
                let done = whole - data.len();
                return if done > 0 { Ok(done) } else { Err(error) };
            }
            data = rest;
        }
        Ok(whole)
    }

    /// Sets the size. The end goes first, so that a crash leaves a size in between.
    ///
    /// # Errors
    /// Those of the region files.
    pub fn truncate(&self, size: u64) -> Result<()> {
        let map = &self.stored.map;
        let resize = |number, size| self.file(number, true)?.map_or(Ok(()), |file| ftruncate(file, size));
        for number in (0..map.files().len()).rev() {
            let has = self.stored.stat(number)?.map_or(0, |stat| stat.st_size.cast_unsigned());
            if has > map.share(number, size) {
                resize(number, map.share(number, size))?;
            }
        }
        // Only the last byte says where the end is.
        if let Some(last) = map.pieces(size.saturating_sub(1)..size).next() {
            let has = self.stored.stat(last.file)?.map_or(0, |stat| stat.st_size.cast_unsigned());
            if has < last.at + 1 {
                resize(last.file, last.at + 1)?;
            }
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let omit = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
        rustix::fs::futimens(&self.fd, &Timestamps { last_access: omit, last_modification: now })
    }

    /// Reserves or frees space.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for what would move data, and those of the region files.
    pub fn allocate(&self, mode: FallocateFlags, at: u64, size: u64) -> Result<()> {
        if mode.intersects(FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE) {
            return Err(Errno::OPNOTSUPP);
        }
        let is_hole = mode.contains(FallocateFlags::PUNCH_HOLE);
        let (map, end) = (&self.stored.map, at.saturating_add(size));
        (0..map.files().len()).try_for_each(|number| {
            // What lies between two bytes of the file is one piece of each region file.
            let (first, last) = (map.share(number, at), map.share(number, end));
            let file = if first < last { self.file(number, !is_hole)? } else { None };
            file.map_or(Ok(()), |file| fallocate(file, mode, first, last - first))
        })
    }

    /// The next data, or hole, at or after `at`.
    ///
    /// # Errors
    /// `ENXIO` if there is none before the end.
    pub fn seek(&self, at: u64, is_data: bool) -> Result<u64> {
        let (map, size) = (&self.stored.map, self.stored.usage()?.size);
        if at >= size {
            return Err(Errno::NXIO);
        }
        let mut next = if is_data { None } else { Some(size) };
        for number in 0..map.files().len() {
            let first = map.share(number, at);
            let found = match self.file(number, false)? {
                Some(file) if is_data => seek(file, SeekFrom::Data(first)),
                Some(file) => seek(file, SeekFrom::Hole(first)),
                None => Err(Errno::NXIO),
            };
            let place = match found {
                // Nothing from there on: a hole until the end of the region, if there is anything of it.
                Err(Errno::NXIO) if is_data => continue,
                Err(Errno::NXIO) => first,
                found => found?,
            };
            if place < map.share(number, 1 << 62) {
                let place = map.end(number, place + 1) - 1;
                next = Some(next.map_or(place, |next: u64| next.min(place)));
            }
        }
        next.filter(|next| !is_data || *next < size).ok_or(Errno::NXIO)
    }

    /// Waits until all that was written by anybody is on storage: region files, their names, and the map.
    ///
    /// # Errors
    /// The first one.
    pub fn sync(&self, is_data_only: bool) -> Result<()> {
        let files = self.stored.map.files();
        for number in 0..files.len() {
            match self.file(number, false)? {
                Some(file) if is_data_only => fdatasync(file)?,
                Some(file) => fsync(file)?,
                None => {}
            }
        }
        self.stored.directories.iter().try_for_each(|directory| sync_directory(directory))?;
        fsync(&self.fd)
    }
}

fn read_all(file: &File, mut buffer: &mut [u8], mut at: u64) -> Result<usize> {
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

pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
