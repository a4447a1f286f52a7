//! The files that the kernel knows of.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fuser::BackingId;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Result;

use crate::fd::path;
use crate::stored::Stored;

/// The number of the directory that is mounted.
pub(crate) const ROOT: u64 = 1;

/// A file: an `O_PATH` descriptor, which stays right when names change.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) fd: OwnedFd,
    pub(crate) kind: FileType,
    /// If it has regions.
    pub(crate) stored: Option<Arc<Stored>>,
    pub(crate) opens: Mutex<Opens>,
}

/// How a file is open: all who have it open share the kernel's way, or ours.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    /// What the kernel reads and writes by itself.
    pub(crate) backing: Weak<BackingId>,
    /// Whose requests come to us.
    pub(crate) ours: usize,
}

impl Inode {
    /// A path that leads to this file whatever its name is.
    pub(crate) fn path(&self) -> String {
        path(&self.fd)
    }
}

/// A poisoned lock is as good as any: what it protects is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them, by number, and by device and number in the source.
#[derive(Debug)]
pub(crate) struct Inodes {
    device: u64,
    table: Mutex<Table>,
    /// The most files that the kernel should know of, and who asks it to forget some.
    most: usize,
    full: SyncSender<()>,
}

#[derive(Debug, Default)]
struct Table {
    by_number: HashMap<u64, Known>,
    by_key: HashMap<(u64, u64), u64>,
}

#[derive(Debug)]
struct Known {
    inode: Arc<Inode>,
    /// How often the kernel was told of it.
    lookups: u64,
    key: (u64, u64),
    /// Where it was found last, to ask the kernel to forget it.
    found: (u64, OsString),
}

impl Inodes {
    /// With the directory that is mounted. With more than `most` files, `full` is told.
    pub(crate) fn new(root: OwnedFd, most: usize, full: SyncSender<()>) -> Result<Self> {
        let stat = fstat(&root)?;
        let inodes = Self { device: stat.st_dev, table: Mutex::default(), most, full };
        let key = (stat.st_dev, stat.st_ino);
        let root = Inode { number: ROOT, fd: root, kind: FileType::Directory, stored: None, opens: Mutex::default() };
        lock(&inodes.table).insert(Arc::new(root), key, (ROOT, OsString::new()));
        Ok(inodes)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        lock(&self.table).by_number.get(&number).map(|known| Arc::clone(&known.inode))
    }

    /// What is known of a file in the source.
    pub(crate) fn find(&self, stat: &Stat) -> Option<Arc<Inode>> {
        let table = lock(&self.table);
        let number = table.by_key.get(&(stat.st_dev, stat.st_ino))?;
        table.by_number.get(number).map(|known| Arc::clone(&known.inode))
    }

    /// Counts a lookup of the file that was found in `parent`; `load` finds out about its regions if it is new.
    pub(crate) fn look_up(
        &self,
        fd: OwnedFd,
        stat: &Stat,
        found: (u64, &OsStr),
        load: impl FnOnce(&OwnedFd) -> Result<Option<Arc<Stored>>>,
    ) -> Result<Arc<Inode>> {
        let key = (stat.st_dev, stat.st_ino);
        if let Some(inode) = lock(&self.table).again(key, found) {
            return Ok(inode);
        }
        let stored = load(&fd)?;
        let mut table = lock(&self.table);
        // Another thread may have been faster.
        if let Some(inode) = table.again(key, found) {
            return Ok(inode);
        }
        let (number, kind) = (self.number(key, &table), FileType::from_raw_mode(stat.st_mode));
        let inode = Arc::new(Inode { number, fd, kind, stored, opens: Mutex::default() });
        table.insert(Arc::clone(&inode), key, (found.0, found.1.to_owned()));
        if table.by_number.len() > self.most {
            // If it was told already, that is enough.
            let _ = self.full.try_send(());
        }
        Ok(inode)
    }

    /// The number in the source, which programs see; another one for other devices, and for what has the root's.
    fn number(&self, (device, ino): (u64, u64), table: &Table) -> u64 {
        let is_free = |number: &u64| *number > ROOT && !table.by_number.contains_key(number);
        let own = Some(ino).filter(|ino| device == self.device && is_free(ino));
        let mixed = ino ^ device.rotate_left(40) | 1 << 63;
        own.unwrap_or_else(|| (0..).map(|more| mixed.wrapping_add(more)).find(is_free).unwrap_or(mixed))
    }

    /// The kernel forgets so many lookups of a file.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        let mut table = lock(&self.table);
        let Some(known) = table.by_number.get_mut(&number) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && number != ROOT {
            let key = known.key;
            table.by_key.remove(&key);
            let forgotten = table.by_number.remove(&number);
            // Regions are removed with the last who knows of them, which takes its time.
            drop(table);
            drop(forgotten);
        }
    }

    /// Where files were found that are not open, as many as are to be forgotten.
    pub(crate) fn spare(&self) -> Vec<(u64, OsString)> {
        let table = lock(&self.table);
        let count = table.by_number.len().saturating_sub(self.most / 4 * 3);
        let files = table.by_number.values().filter(|known| known.inode.kind != FileType::Directory);
        let idle = files.filter(|known| Arc::strong_count(&known.inode) == 1);
        idle.take(count).map(|known| known.found.clone()).collect()
    }
}

impl Table {
    fn insert(&mut self, inode: Arc<Inode>, key: (u64, u64), found: (u64, OsString)) {
        self.by_key.insert(key, inode.number);
        self.by_number.insert(inode.number, Known { inode, lookups: 1, key, found });
    }

    fn again(&mut self, key: (u64, u64), (parent, name): (u64, &OsStr)) -> Option<Arc<Inode>> {
        let known = self.by_number.get_mut(self.by_key.get(&key)?)?;
        known.lookups += 1;
        if known.found.0 != parent || known.found.1 != name {
            known.found = (parent, name.to_owned());
        }
        Some(Arc::clone(&known.inode))
    }
}
