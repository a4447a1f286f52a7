//! A file of regions in its directories, without FUSE.

mod create;
mod opened;

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Stat, Timestamps, Uid, chownat, getxattr, openat, statat, unlinkat, utimensat,
};
use rustix::io::{Errno, Result};

pub(crate) use create::{create, new_id, new_map};
pub use opened::Opened;

use crate::class::Class;
use crate::fd::{absent, path};
use crate::map::{RegionMap, TEXT_MAX};

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
    /// The regions of a file, if it has a map.
    pub(crate) fn load(&self, fd: &impl AsFd, classes: &[Class]) -> Result<Option<Arc<Stored>>> {
        Ok(Stored::load(fd, classes)?.map(|stored| self.share(stored)))
    }

    fn share(&self, new: Stored) -> Arc<Stored> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.each(|directory, name| chownat(directory, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW))
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
    let read = file
        .map_err(std::io::Error::from)
        .and_then(|file| File::from(file).take(TEXT_MAX as u64).read_to_string(&mut text));
    read.map_err(|error| format!("cannot read the region map: {error}"))?;
    RegionMap::parse(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
