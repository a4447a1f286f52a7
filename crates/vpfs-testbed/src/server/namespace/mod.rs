//! Names and attributes of the whole cluster, in memory.
//!
//! The servers of one embedded cluster share it behind one lock instead of sending server-to-server messages. Calls are
//! short and never wait; waiting for storage happens after the lock is released.

mod entries;
mod handles;
mod object;

use std::collections::BTreeMap;

use vpfs_wire::pvfs2::{Attr, Errno, Handle, KeyVal, Text};

use crate::fsconfig::FsConfig;
pub(crate) use entries::Entries;
use handles::Handles;
pub(crate) use handles::Pool;
pub(crate) use object::{FileLayout, Kind, Object, datafiles, single_distdir};

/// All objects of a file system.
#[derive(Debug)]
pub(crate) struct Namespace {
    objects: BTreeMap<Handle, Object>,
    /// Limit on the number of `objects`.
    objects_max: usize,
    handles: Handles,
}

impl Namespace {
    /// An empty root directory.
    pub(crate) fn new(config: &FsConfig, objects_max: usize, now: u64) -> Self {
        let handles = Handles::new(config);
        let mut namespace = Self { objects: BTreeMap::new(), objects_max, handles };
        let (root, dirdata) = (Handle(config.root_handle), Handle(config.root_handle + 1));
        let attr = Attr { perms: 0o777, ..Attr::default() };
        let directory = Object::new(&attr, Kind::Directory { dirdata, hint: None }, now);
        namespace.insert_directory(root, dirdata, directory, now);
        namespace
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
    pub(crate) fn insert(&mut self, handle: Handle, object: Object) {
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
        self.insert(handle, directory);
        self.insert(dirdata, Object::new(&attr, kind, now));
    }

    /// Changes an object in place, except for its entries and extended attributes.
    pub(crate) fn change<R>(
        &mut self,
        handle: Handle,
        change: impl FnOnce(&mut Object) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        change(self.objects.get_mut(&handle).ok_or(Errno::ENOENT)?)
    }

    /// Removes an object together with the objects that only servers know about: a directory's dirdata object, which
    /// must be empty, and the datafiles that a stuffed file does not use yet.
    pub(crate) fn remove(&mut self, handle: Handle) -> Result<Object, Errno> {
        let hidden = match &self.get(handle)?.kind {
            Kind::Directory { dirdata, .. } if !self.entries(*dirdata)?.is_empty() => return Err(Errno::ENOTEMPTY),
            Kind::Directory { dirdata, .. } => vec![*dirdata],
            Kind::File(layout) => layout.datafiles[layout.datafiles_in_use().len()..].to_vec(),
            _ => Vec::new(),
        };
        for part in hidden {
            self.take(part);
        }
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
        Ok(old)
    }

    /// Removes an entry and returns the object it referred to.
    pub(crate) fn remove_entry(&mut self, dirdata: Handle, name: &Text, now: u64) -> Result<Handle, Errno> {
        self.entries(dirdata)?.get(name).ok_or(Errno::ENOENT)?;
        self.entries_mut(dirdata, now)?.remove(name).ok_or(Errno::ENOENT)
    }

    pub(crate) fn set_xattr(&mut self, handle: Handle, key: KeyVal, value: KeyVal) -> Result<(), Errno> {
        self.objects.get_mut(&handle).ok_or(Errno::ENOENT)?.xattrs.insert(key, value);
        Ok(())
    }

    pub(crate) fn remove_xattr(&mut self, handle: Handle, key: &KeyVal) -> Result<(), Errno> {
        let object = self.objects.get_mut(&handle).ok_or(Errno::ENOENT)?;
        object.xattrs.remove(key).map(drop).ok_or(Errno::ENOENT)
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
}
