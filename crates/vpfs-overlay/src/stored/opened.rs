//! Reading and writing a file of regions.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;

use rustix::fs::{
    CWD, FallocateFlags, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, fallocate,
    fchown, fdatasync, fstat, fsync, ftruncate, futimens, openat, seek,
};
use rustix::io::{Errno, Result, dup};

use super::Stored;
use crate::caller::User;
use crate::fd::{absent, close, errno, flocked, path, read_all, sync_directory};

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

    /// Whether nobody else has it open, and nobody will.
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

    /// Closes all region files that are open for one of those who use them.
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

/// Adds a part to those of its region file.
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
