//! A file of regions in its directories, without FUSE.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags, chownat, fallocate, fchown, fdatasync, fsetxattr, fstat, fsync, ftruncate, futimens,
    getxattr, openat, renameat, renameat_with, seek, statat, unlinkat, utimensat,
};
use rustix::io::{Errno, Result, dup};

use crate::map::{RegionMap, Rule, TEXT_MAX, unfinished};
use crate::system::{User, absent, close, errno, flocked, lock, path, read_all, sync_directory};

/// What tells maps from other files. Only root can set it.
pub const ATTRIBUTE: &str = "trusted.vpfs.regions";

/// A map, and the directories of its classes.
#[derive(Debug)]
pub struct Stored {
    map: RegionMap,
    directories: Vec<Arc<OwnedFd>>,
    is_doomed: AtomicBool,
}

/// Region files in use, by the id of their map: names that are not known to be of one file share them all
/// the same, and the last user removes them.
#[derive(Debug, Default)]
pub(crate) struct InUse(Mutex<HashMap<String, Weak<Stored>>>);

impl InUse {
    pub(crate) fn load(&self, fd: &impl AsFd, classes: &[Class]) -> Result<Option<Arc<Stored>>> {
        Ok(Stored::load(fd, classes)?.map(|stored| self.share(stored)))
    }

    fn share(&self, new: Stored) -> Arc<Stored> {
        let mut all = lock(&self.0);
        if let Some(known) = all.get(new.map.id()).and_then(Weak::upgrade).filter(|known| known.map == new.map) {
            return known;
        }
        if all.len() == all.capacity() {
            all.retain(|_, stored| stored.strong_count() > 0);
        }
        let new = Arc::new(new);
        all.insert(new.map.id().to_owned(), Arc::downgrade(&new));
        new
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) size: u64,
    /// Of 512 bytes.
    pub(crate) blocks: u64,
    /// The latest, in seconds and nanoseconds; long ago if there is none.
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

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

    pub(crate) fn give(&self, owner: Uid, group: Gid) -> Result<()> {
        self.each(|directory, name| chownat(directory, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW))
    }

    pub(crate) fn set_times(&self, times: &Timestamps) -> Result<()> {
        self.each(|directory, name| utimensat(directory, name, times, AtFlags::SYMLINK_NOFOLLOW))
    }

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

pub(crate) fn read_map(fd: &impl AsFd) -> std::result::Result<RegionMap, String> {
    let file = openat(CWD, path(&fd.as_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut text = String::new();
    let read = file
        .map_err(std::io::Error::from)
        .and_then(|file| File::from(file).take(TEXT_MAX as u64).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read the region map: {error}"))?;
    RegionMap::parse(&text).map_err(|error| error.to_string())
}

pub(crate) fn new_map(rule: &Rule) -> Result<RegionMap> {
    RegionMap::new(new_id()?, rule.classes.clone(), rule.table.clone()).map_err(|_| Errno::INVAL)
}

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
        (&file).write_all(map.to_string().as_bytes()).map_err(|error| errno(&error))?;
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

/// Requests of fewer bytes are not worth a thread, which takes some 30 microseconds, and more region files than that
/// have too few bytes each.
const BYTES_MIN: usize = if cfg!(test) { 256 } else { 64 << 10 };

const THREADS_MAX: usize = 16;

/// A file of regions while somebody reads or writes it.
#[derive(Debug)]
pub struct Opened {
    stored: Arc<Stored>,
    /// The map itself.
    fd: OwnedFd,
    files: Vec<OnceLock<File>>,
    /// Names may not be on the disk yet: those of files that were opened since they were synced.
    has_new_names: AtomicBool,
}

impl Opened {
    /// Opens nothing yet but the map, through any descriptor of it, and keeps it from being replaced on this host.
    ///
    /// # Errors
    /// If that cannot be opened, or is being replaced.
    pub fn new(stored: Arc<Stored>, fd: &impl AsFd) -> Result<Self> {
        let fd = openat(CWD, path(&fd.as_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        if !flocked(&fd, false)? {
            return Err(Errno::BUSY);
        }
        let files = stored.map.files().iter().map(|_| OnceLock::new()).collect();
        Ok(Self { stored, fd, files, has_new_names: true.into() })
    }

    pub(crate) fn lock_alone(&self) -> Result<bool> {
        flocked(&self.fd, true)
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
        self.has_new_names.store(true, SeqCst);
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
        let (whole, mut parts) = (buffer.len(), Vec::new());
        for piece in self.stored.map.pieces(at..at.saturating_add(whole as u64)) {
            let (part, rest) = buffer.split_at_mut(usize::try_from(piece.size).map_err(|_| Errno::INVAL)?);
            add(&mut parts, piece.file, (piece.at, part));
            buffer = rest;
        }
        let read = at_once(parts, whole, |(number, parts)| -> Result<bool> {
            let Some(file) = self.file(number, false)? else { return Ok(false) };
            parts
                .into_iter()
                .try_fold(true, |is_full, (at, part)| Ok(is_full & (read_all(file, part, at)? == part.len())))
        });
        read.into_iter().try_fold(true, |is_full, one| Ok(is_full & one?))
    }

    /// Writes all of it for a user, or as much as there is space for.
    ///
    /// # Errors
    /// Those of the region file that the first byte belongs to.
    pub(crate) fn write(&self, user: User, at: u64, mut data: &[u8]) -> Result<usize> {
        let (whole, mut parts) = (data.len(), Vec::new());
        for piece in self.stored.map.pieces(at..at.saturating_add(whole as u64)) {
            let (part, rest) = data.split_at(usize::try_from(piece.size).map_err(|_| Errno::INVAL)?);
            add(&mut parts, piece.file, (piece.at, whole - data.len(), part));
            data = rest;
        }
        let written = at_once(parts, whole, |(number, parts)| {
            let first = parts.first().map_or(0, |(_, from, _)| *from);
            let file = self.file(number, true).and_then(|file| file.ok_or(Errno::IO)).map_err(|why| (first, why))?;
            let mut parts = parts.into_iter();
            let write = |part, at| user.run(|| file.write_all_at(part, at).map_err(|why| errno(&why)));
            parts.try_for_each(|(at, from, part)| write(part, at).map_err(|why| (from, why)))
        });
        // What lies before the first failure is all written.
        match written.into_iter().filter_map(std::result::Result::err).min_by_key(|(from, _)| *from) {
            None => Ok(whole),
            Some((0, why)) => Err(why),
            Some((from, _)) => Ok(from),
        }
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
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        futimens(&self.fd, &Timestamps { last_access: omit, last_modification: now })
    }

    /// Reserves or frees space for a user.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for what would move data, and those of the region files.
    pub(crate) fn allocate(&self, user: User, mode: FallocateFlags, at: u64, size: u64) -> Result<()> {
        if mode.intersects(FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE) {
            return Err(Errno::OPNOTSUPP);
        }
        let is_hole = mode.contains(FallocateFlags::PUNCH_HOLE);
        let (map, end) = (&self.stored.map, at.saturating_add(size));
        (0..map.files().len()).try_for_each(|number| {
            // What lies between two bytes of the file is one piece of each region file.
            let (first, last) = (map.share(number, at), map.share(number, end));
            let file = if first < last { self.file(number, !is_hole)? } else { None };
            file.map_or(Ok(()), |file| user.run(|| fallocate(file, mode, first, last - first)))
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

    pub(crate) fn flush(&self) -> Result<()> {
        self.files.iter().filter_map(OnceLock::get).try_for_each(|file| close(dup(file)?))
    }

    /// Waits until all that was written by anybody is on storage: region files, their names, and the map.
    ///
    /// # Errors
    /// The first one.
    pub fn sync(&self, is_data_only: bool) -> Result<()> {
        let numbers = (0..self.files.len()).collect();
        let synced = at_once(numbers, usize::MAX, |number| match self.file(number, false)? {
            Some(file) if is_data_only => fdatasync(file),
            Some(file) => fsync(file),
            None => Ok(()),
        });
        synced.into_iter().collect::<Result<()>>()?;
        let has_new_names = self.has_new_names.swap(false, SeqCst);
        if !has_new_names && is_data_only {
            return Ok(());
        }
        let synced = self.sync_names(has_new_names);
        self.has_new_names.fetch_or(has_new_names && synced.is_err(), SeqCst);
        synced
    }

    fn sync_names(&self, are_new: bool) -> Result<()> {
        if are_new {
            self.stored.directories.iter().try_for_each(|directory| sync_directory(directory))?;
        }
        fsync(&self.fd)
    }
}

fn add<T>(parts: &mut Vec<(usize, Vec<T>)>, file: usize, part: T) {
    match parts.iter_mut().find(|(known, _)| *known == file) {
        Some((_, parts)) => parts.push(part),
        None => parts.push((file, vec![part])),
    }
}

/// Works on several region files, at the same time if that is worth threads: they lie on different servers.
fn at_once<T: Send, R: Send>(files: Vec<T>, bytes: usize, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if !(2..=THREADS_MAX).contains(&files.len()) || bytes < BYTES_MIN {
        return files.into_iter().map(work).collect();
    }
    thread::scope(|scope| {
        let work = &work;
        let mut files = files.into_iter();
        let here = files.next();
        let others: Vec<_> = files.map(|file| scope.spawn(move || work(file))).collect();
        let here = here.map(work);
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        here.into_iter().chain(others).collect()
    })
}

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

    /// Locks the directory until the class is dropped: mounts share it, repairs do not. False if others have it.
    pub(crate) fn lock(&self, alone: bool) -> Result<bool> {
        flocked(&self.directory, alone)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;
    use vpfs_harl::{RegionStripeTable, Row};

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, usize),
        Append(usize),
        Truncate(u64),
        Punch(u64, u64),
        Allocate(u64, u64, bool),
        Read(u64, usize),
        Reopen,
    }

    fn step() -> impl Strategy<Value = Step> {
        let (at, size) = (0_u64..2000, 1_usize..700);
        prop_oneof![
            4 => (at.clone(), size.clone()).prop_map(|(at, size)| Step::Write(at, size)),
            1 => size.clone().prop_map(Step::Append),
            1 => at.clone().prop_map(Step::Truncate),
            1 => (at.clone(), 1_u64..900).prop_map(|(at, size)| Step::Punch(at, size)),
            1 => (at.clone(), 1_u64..900, any::<bool>()).prop_map(|(at, size, keep)| Step::Allocate(at, size, keep)),
            4 => (at, size).prop_map(|(at, size)| Step::Read(at, size)),
            1 => Just(Step::Reopen),
        ]
    }

    struct Place {
        _folder: TempDir,
        stored: Arc<Stored>,
        map: File,
    }

    fn place(regions: &[(u64, [u64; 2])]) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let classes = ["disk", "flash"].map(|name| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            Class::open(name.into(), &folder.path().join(name)).unwrap()
        });
        let mut begin = 0;
        let rows = regions.iter().map(|(length, stripes)| {
            begin += length;
            Row { bytes: begin - length..begin, stripes: stripes.to_vec() }
        });
        let table = RegionStripeTable::new(rows);
        let map = RegionMap::new(new_id().unwrap(), vec!["disk".into(), "flash".into()], table).unwrap();
        let stored = Arc::new(Stored::of(map, &classes).unwrap());
        let map = File::create(folder.path().join("map")).unwrap();
        Place { _folder: folder, stored, map }
    }

    fn opened(place: &Place) -> Opened {
        Opened::new(Arc::clone(&place.stored), &place.map).unwrap()
    }

    fn clear(flat: &mut [u8], at: u64, size: u64) {
        let end = flat.len().min(usize::try_from(at + size).unwrap());
        flat[usize::try_from(at).unwrap().min(end)..end].fill(0);
    }

    fn run(step: &Step, number: u8, file: &Opened, flat: &mut Vec<u8>) {
        match *step {
            Step::Write(at, size) => write(file, flat, at, &vec![number; size]),
            Step::Append(size) => write(file, flat, flat.len() as u64, &vec![number; size]),
            Step::Truncate(size) => {
                file.truncate(size).unwrap();
                flat.resize(usize::try_from(size).unwrap(), 0);
            }
            Step::Punch(at, size) => {
                file.allocate(User::OURSELVES, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, size)
                    .unwrap();
                clear(flat, at, size);
            }
            Step::Allocate(at, size, keep) => {
                let mode = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
                file.allocate(User::OURSELVES, mode, at, size).unwrap();
                let end = usize::try_from(at + size).unwrap();
                flat.resize(if keep { flat.len() } else { flat.len().max(end) }, 0);
            }
            Step::Read(at, size) => {
                let from = flat.len().min(usize::try_from(at).unwrap());
                assert_eq!(file.read(at, size).unwrap(), flat[from..flat.len().min(from + size)]);
            }
            Step::Reopen => {}
        }
    }

    fn write(file: &Opened, flat: &mut Vec<u8>, at: u64, data: &[u8]) {
        assert_eq!(file.write(User::OURSELVES, at, data).unwrap(), data.len());
        let at = usize::try_from(at).unwrap();
        flat.resize(flat.len().max(at + data.len()), 0);
        flat[at..at + data.len()].copy_from_slice(data);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_file_of_regions_is_a_flat_array(
            regions in prop::collection::vec((1_u64..500, (0_u64..90, 0_u64..90).prop_filter("used", |(h, s)| h + s > 0)), 1..5),
            steps in prop::collection::vec(step(), 1..30),
        ) {
            let regions: Vec<_> = regions.into_iter().map(|(length, (h, s))| (length, [h, s])).collect();
            let place = place(&regions);
            let (mut file, mut flat) = (opened(&place), Vec::new());
            for (step, number) in steps.iter().zip(1..) {
                if matches!(step, Step::Reopen) {
                    file = opened(&place);
                }
                run(step, number, &file, &mut flat);
                prop_assert_eq!(place.stored.usage().unwrap().size, flat.len() as u64, "after {:?}", step);
            }
            prop_assert_eq!(file.read(0, flat.len() + 99).unwrap(), &flat[..]);
            file.sync(false).unwrap();
            // Data is never in what is called a hole.
            let mut at = 0;
            while let Ok(hole) = file.seek(at, false) {
                let data = file.seek(hole, true).unwrap_or(flat.len() as u64);
                let is_empty = flat[usize::try_from(hole).unwrap()..usize::try_from(data).unwrap()].iter().all(|byte| *byte == 0);
                prop_assert!(hole >= at && data >= hole && is_empty);
                if data == flat.len() as u64 || data == hole { break }
                at = data;
            }
        }
    }

    #[test]
    fn holes_are_found_where_they_are() {
        // Blocks of 4 KiB: what is smaller may count as data.
        let place = place(&[(1 << 20, [65536, 65536]), (1 << 20, [0, 4096])]);
        let file = opened(&place);
        assert_eq!(file.seek(0, true), Err(Errno::NXIO), "it is empty");
        file.write(User::OURSELVES, 1_500_000, b"x").unwrap();
        let data = file.seek(0, true).unwrap();
        assert!((1 << 20..=1_500_000).contains(&data), "{data}");
        assert_eq!((file.seek(0, false), file.seek(1_500_000, false)), (Ok(0), Ok(1_500_001)));
        assert_eq!(file.seek(1_500_001, false), Err(Errno::NXIO));
        file.write(User::OURSELVES, 200_000, &[1; 65536]).unwrap();
        let first = file.seek(0, true).unwrap();
        assert!((196_608..=200_000).contains(&first), "{first}");
    }

    #[test]
    fn deleted_files_leave_nothing_once_they_are_closed() {
        let place = place(&[(100, [10, 10])]);
        let file = opened(&place);
        file.write(User::OURSELVES, 0, &[1; 100]).unwrap();
        let count = |place: &Place| (0..2).filter(|number| place.stored.stat(*number).unwrap().is_some()).count();
        place.stored.doom();
        assert_eq!((file.read(0, 200).unwrap().len(), count(&place)), (100, 2));
        let folder = place._folder;
        drop((file, place.stored));
        assert_eq!(std::fs::read_dir(folder.path().join("disk")).unwrap().count(), 0);
    }

    #[test]
    fn region_files_have_the_owner_and_nobody_else_may_read_them() {
        let place = place(&[(100, [0, 10])]);
        opened(&place).write(User::OURSELVES, 0, b"x").unwrap();
        let (stat, map) = (place.stored.stat(0).unwrap().unwrap(), fstat(&place.map).unwrap());
        assert_eq!((stat.st_mode & 0o777, stat.st_uid, stat.st_gid), (0o600, map.st_uid, map.st_gid));
    }
}
