//! Names and attributes of the whole cluster, in memory, with every change appended to a log if there is one.
//!
//! The servers of one embedded cluster share it behind one lock instead of sending server-to-server messages. Calls are
//! short and never wait; waiting (for storage, or for the log to reach its file) happens after the lock is released.

mod entries;
mod handles;
mod journal;
mod object;
mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use vpfs_wire::pvfs2::request::RequestBody;
use vpfs_wire::pvfs2::{Attr, Errno, Handle, KeyVal, Text};

use crate::fsconfig::FsConfig;
pub(crate) use entries::Entries;
use handles::Handles;
pub(crate) use handles::Pool;
pub(crate) use journal::Journal;
pub(crate) use object::{FileLayout, Kind, Object, datafiles, single_distdir};
pub(crate) use record::Record;

/// All objects of a file system.
#[derive(Debug)]
pub(crate) struct Namespace {
    objects: BTreeMap<Handle, Object>,
    /// Limit on the number of `objects`.
    objects_max: usize,
    handles: Handles,
    journal: Option<Arc<Journal>>,
}

impl Namespace {
    /// An empty root directory.
    pub(crate) fn new(config: &FsConfig, objects_max: usize, now: u64) -> Self {
        let handles = Handles::new(config);
        let mut namespace = Self { objects: BTreeMap::new(), objects_max, handles, journal: None };
        let (root, dirdata) = (Handle(config.root_handle), Handle(config.root_handle + 1));
        let attr = Attr { perms: 0o777, ..Attr::default() };
        namespace.insert_directory(
            root,
            dirdata,
            Object::new(&attr, Kind::Directory { dirdata, hint: None }, now),
            now,
        );
        namespace
    }

    /// From now on every change is logged.
    pub(crate) fn log_to(&mut self, journal: Arc<Journal>) {
        self.journal = Some(journal);
    }

    /// Number of objects of `server`, and how many more the cluster can hold.
    pub(crate) fn usage(&self, server: usize) -> (usize, usize) {
        (self.handles.used(server), self.objects_max.saturating_sub(self.objects.len()))
    }

    pub(crate) fn get(&self, handle: Handle) -> Result<&Object, Errno> {
        self.objects.get(&handle).ok_or(Errno::ENOENT)
    }

    /// Objects from `first` on, in ascending order of handles.
    pub(crate) fn objects_from(&self, first: Handle) -> impl Iterator<Item = (Handle, &Object)> {
        self.objects.range(first..).map(|(handle, object)| (*handle, object))
    }

    /// An unused handle of `server`; ENOSPC if no more objects or handles are available.
    pub(crate) fn allocate(&mut self, server: usize, pool: Pool) -> Result<Handle, Errno> {
        if self.objects.len() >= self.objects_max {
            return Err(Errno::ENOSPC);
        }
        self.handles.allocate(server, pool, |handle| self.objects.contains_key(&handle))
    }

    /// Adds an object; its handle must be unused.
    pub(crate) fn insert(&mut self, handle: Handle, object: Object, now: u64) {
        self.log(now, || record::put(handle, &object));
        self.put(handle, object);
    }

    fn put(&mut self, handle: Handle, object: Object) {
        if self.objects.insert(handle, object).is_none() {
            self.handles.count_up(handle);
        }
    }

    fn take(&mut self, handle: Handle) -> Option<Object> {
        let object = self.objects.remove(&handle)?;
        self.handles.count_down(handle);
        Some(object)
    }

    /// Adds a directory and the object for its entries.
    pub(crate) fn insert_directory(&mut self, handle: Handle, dirdata: Handle, directory: Object, now: u64) {
        let attr = Attr { owner: directory.owner, group: directory.group, perms: 0o777, ..Attr::default() };
        let kind = Kind::Dirdata { directory: handle, entries: Entries::default() };
        self.insert(handle, directory, now);
        self.insert(dirdata, Object::new(&attr, kind, now), now);
    }

    /// Changes an object in place, except for its entries and extended attributes.
    pub(crate) fn change<R>(
        &mut self,
        handle: Handle,
        now: u64,
        change: impl FnOnce(&mut Object) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let object = self.objects.get_mut(&handle).ok_or(Errno::ENOENT)?;
        let result = change(object)?;
        let put = record::put(handle, object);
        self.log(now, || put);
        Ok(result)
    }

    /// Removes an object together with the objects that only servers know about: a directory's dirdata object, which
    /// must be empty, and the datafiles that a stuffed file does not use yet.
    pub(crate) fn remove(&mut self, handle: Handle, now: u64) -> Result<Object, Errno> {
        let hidden = match &self.get(handle)?.kind {
            Kind::Directory { dirdata, .. } if !self.entries(*dirdata)?.is_empty() => return Err(Errno::ENOTEMPTY),
            Kind::Directory { dirdata, .. } => vec![*dirdata],
            Kind::File(layout) => layout.datafiles[layout.datafiles_in_use().len()..].to_vec(),
            _ => Vec::new(),
        };
        for part in hidden {
            self.take(part);
            self.log(now, || record::remove(part));
        }
        self.log(now, || record::remove(handle));
        self.take(handle).ok_or(Errno::ENOENT)
    }

    /// The entries in a dirdata object; ENOTDIR for any other object.
    pub(crate) fn entries(&self, dirdata: Handle) -> Result<&Entries, Errno> {
        match &self.get(dirdata)?.kind {
            Kind::Dirdata { entries, .. } => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Adds an entry; EEXIST if the name is taken.
    pub(crate) fn add_entry(&mut self, dirdata: Handle, name: &Text, handle: Handle, now: u64) -> Result<(), Errno> {
        if self.entries(dirdata)?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        self.entries_mut(dirdata, now)?.set(name, handle);
        self.log(now, || record::set_entry(dirdata, name, handle));
        Ok(())
    }

    /// Makes an existing name refer to another object, and returns the one it referred to before.
    pub(crate) fn change_entry(
        &mut self,
        dirdata: Handle,
        name: &Text,
        handle: Handle,
        now: u64,
    ) -> Result<Handle, Errno> {
        let old = self.entries(dirdata)?.get(name).ok_or(Errno::ENOENT)?;
        self.entries_mut(dirdata, now)?.set(name, handle);
        self.log(now, || record::set_entry(dirdata, name, handle));
        Ok(old)
    }

    /// Removes an entry and returns the object it referred to.
    pub(crate) fn remove_entry(&mut self, dirdata: Handle, name: &Text, now: u64) -> Result<Handle, Errno> {
        self.entries(dirdata)?.get(name).ok_or(Errno::ENOENT)?;
        let removed = self.entries_mut(dirdata, now)?.remove(name).ok_or(Errno::ENOENT)?;
        self.log(now, || record::remove_entry(dirdata, name));
        Ok(removed)
    }

    pub(crate) fn set_xattr(&mut self, handle: Handle, key: KeyVal, value: KeyVal, now: u64) -> Result<(), Errno> {
        self.get(handle)?;
        self.log(now, || record::set_xattr(handle, &key, &value));
        self.objects.get_mut(&handle).ok_or(Errno::ENOENT)?.xattrs.insert(key, value);
        Ok(())
    }

    pub(crate) fn remove_xattr(&mut self, handle: Handle, key: &KeyVal, now: u64) -> Result<(), Errno> {
        let object = self.objects.get_mut(&handle).ok_or(Errno::ENOENT)?;
        object.xattrs.remove(key).ok_or(Errno::ENOENT)?;
        self.log(now, || record::remove_xattr(handle, key));
        Ok(())
    }

    /// The entries, for changing them: sets the directory's and the dirdata object's time of change to `now`.
    fn entries_mut(&mut self, dirdata: Handle, now: u64) -> Result<&mut Entries, Errno> {
        let directory = match &self.get(dirdata)?.kind {
            Kind::Dirdata { directory, .. } => *directory,
            _ => return Err(Errno::ENOTDIR),
        };
        for handle in [directory, dirdata] {
            if let Some(object) = self.objects.get_mut(&handle) {
                (object.mtime, object.ctime) = (now, now);
            }
        }
        match self.objects.get_mut(&dirdata).map(|object| &mut object.kind) {
            Some(Kind::Dirdata { entries, .. }) => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn log(&self, time: u64, change: impl FnOnce() -> RequestBody) {
        if let Some(journal) = &self.journal {
            journal.append(Record { time, change: change() });
        }
    }

    /// Replays a logged change. Returns `false` for one that is impossible here: the log is inconsistent.
    pub(crate) fn replay(&mut self, record: Record) -> bool {
        let now = record.time;
        match record.change {
            RequestBody::SetAttr(put) => return self.replay_put(put.handle, put.attr),
            RequestBody::Remove(removed) => drop(self.take(removed.handle)),
            RequestBody::ChDirent(set) => match self.entries_mut(set.dirdata, now) {
                Ok(entries) => drop(entries.set(&set.name, set.new_handle)),
                Err(_) => return false,
            },
            RequestBody::RmDirent(removed) => return self.remove_entry(removed.dirdata, &removed.name, now).is_ok(),
            RequestBody::SetEattr(set) => {
                let mut entries = set.entries.0.into_iter();
                return entries.all(|(key, value)| self.set_xattr(set.handle, key, value, now).is_ok());
            }
            RequestBody::DelEattr(removed) => return self.remove_xattr(removed.handle, &removed.key, now).is_ok(),
            _ => return false,
        }
        true
    }

    fn replay_put(&mut self, handle: Handle, attr: Attr) -> bool {
        let Some(mut object) = Object::from_log(attr) else { return false };
        if let Some(old) = self.take(handle) {
            object.xattrs = old.xattrs;
            if let (Kind::Dirdata { entries, .. }, Kind::Dirdata { entries: old, .. }) = (&mut object.kind, old.kind) {
                *entries = old;
            }
        }
        self.put(handle, object);
        true
    }

    /// The shortest list of changes that produces this namespace.
    pub(crate) fn snapshot(&self, now: u64) -> impl Iterator<Item = Record> {
        let objects = self.objects.iter().flat_map(|(handle, object)| {
            let xattrs = object.xattrs.iter().map(|(key, value)| record::set_xattr(*handle, key, value));
            std::iter::once(record::put(*handle, object)).chain(xattrs)
        });
        // Adding entries changes times, so the objects are written again after them.
        let dirdata = self.objects.iter().filter_map(|(handle, object)| match &object.kind {
            Kind::Dirdata { entries, .. } => Some((*handle, entries)),
            _ => None,
        });
        let entries = dirdata.flat_map(|(dirdata, entries)| {
            entries.iter().map(move |(name, handle)| record::set_entry(dirdata, name, handle))
        });
        let directories = self.objects.iter().filter(|(_, object)| matches!(object.kind, Kind::Directory { .. }));
        let times = directories.map(|(handle, object)| record::put(*handle, object));
        objects.chain(entries).chain(times).map(move |change| Record { time: now, change })
    }
}
