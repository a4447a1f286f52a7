//! Names and attributes of the whole cluster, in memory.
//!
//! The servers of one embedded cluster share it behind one lock instead of sending server-to-server messages. Calls are
//! short and never wait; waiting for storage happens after the lock is released.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use vpfs_protocol::wire::pvfs2::attr::{Datafiles, DirHint, DistDir, mask};
use vpfs_protocol::wire::pvfs2::request::TOKEN_START;
use vpfs_protocol::wire::pvfs2::types::op_mask;
use vpfs_protocol::wire::pvfs2::{Attr, Capability, Credential, Dist, Errno, Handle, KeyVal, ObjType, Padded, Text};

use crate::fsconfig::{FsConfig, FsServer};
use crate::server;

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

/// An object without its handle.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Permission bits, see [`Attr::perms`].
    pub(crate) perms: u32,
    /// Times in seconds since 1970.
    pub(crate) atime: u64,
    pub(crate) mtime: u64,
    pub(crate) ctime: u64,
    pub(crate) kind: Kind,
    pub(crate) xattrs: BTreeMap<KeyVal, KeyVal>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    File(FileLayout),
    /// Its bytes are in the store of the owning server.
    Datafile,
    /// Will be a datafile when its file is unstuffed.
    Reserved,
    Directory {
        dirdata: Handle,
        hint: Option<DirHint>,
    },
    /// The entries of a directory.
    Dirdata {
        directory: Handle,
        entries: Entries,
    },
    /// `None` between creation and the SETATTR that sets the target.
    Symlink(Option<Text>),
}

/// The layout of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileLayout {
    pub(crate) dist: Dist,
    /// All datafiles that the file has or will have.
    pub(crate) datafiles: Vec<Handle>,
    /// Only the first datafile is in use so far; it is on the metadata server.
    pub(crate) stuffed: bool,
    pub(crate) hint_flags: u64,
}

impl FileLayout {
    /// The datafiles that are visible to clients.
    pub(crate) fn datafiles_in_use(&self) -> &[Handle] {
        if self.stuffed { self.datafiles.get(..1).unwrap_or(&[]) } else { &self.datafiles }
    }
}

impl Object {
    /// A new object with the owner and permissions in `attr`.
    pub(crate) fn new(attr: &Attr, kind: Kind, now: u64) -> Self {
        let (owner, group, perms) = (attr.owner, attr.group, attr.perms);
        Self { owner, group, perms, atime: now, mtime: now, ctime: now, kind, xattrs: BTreeMap::new() }
    }

    pub(crate) fn objtype(&self) -> ObjType {
        match self.kind {
            Kind::File(_) => ObjType::METAFILE,
            Kind::Datafile => ObjType::DATAFILE,
            Kind::Reserved => ObjType::INTERNAL,
            Kind::Directory { .. } => ObjType::DIRECTORY,
            Kind::Dirdata { .. } => ObjType::DIRDATA,
            Kind::Symlink(_) => ObjType::SYMLINK,
        }
    }

    /// The attributes that every object has. For a file they include whether it is stuffed, but no size.
    pub(crate) fn common_attr(&self) -> Attr {
        let stuffed = matches!(&self.kind, Kind::File(layout) if layout.stuffed);
        Attr {
            owner: self.owner,
            group: self.group,
            perms: self.perms,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            mask: mask::COMMON,
            objtype: self.objtype(),
            stuffed_size: stuffed.then_some(0),
            ..Attr::default()
        }
    }
}

/// A list of datafiles in the form of attributes.
pub(crate) fn datafiles(handles: &[Handle], hint_flags: u64) -> Datafiles {
    Datafiles { handles: Padded(handles.to_vec()), hint_flags }
}

/// A directory whose entries are all in one object.
pub(crate) fn single_distdir(handle: Handle) -> DistDir {
    DistDir { tree_height: 0, split_size: 100, server_no: 0, branch_level: 0, bitmap: vec![1], handles: vec![handle] }
}

/// The first token of a later page, above all special tokens of the protocol.
const FIRST_PLACE: u64 = TOKEN_START + 1;

/// Names and handles. Each entry keeps its position for its lifetime, so a listing stays correct while entries come and
/// go.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_name: HashMap<Text, DirEntry>,
    by_place: BTreeMap<u64, Text>,
    next_place: u64,
    /// Number of changes so far.
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct DirEntry {
    place: u64,
    handle: Handle,
}

/// A page of a listing.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<(Text, Handle)>,
    /// Where the next page starts; `None` after the last entry.
    pub(crate) next: Option<u64>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, name: &Text) -> Option<Handle> {
        self.by_name.get(name).map(|entry| entry.handle)
    }

    /// Adds or replaces an entry and returns the handle that the name referred to before.
    fn set(&mut self, name: &Text, handle: Handle) -> Option<Handle> {
        self.version += 1;
        if let Some(entry) = self.by_name.get_mut(name) {
            return Some(std::mem::replace(&mut entry.handle, handle));
        }
        let place = self.next_place.max(FIRST_PLACE);
        self.next_place = place + 1;
        self.by_name.insert(name.clone(), DirEntry { place, handle });
        self.by_place.insert(place, name.clone());
        None
    }

    fn remove(&mut self, name: &Text) -> Option<Handle> {
        let entry = self.by_name.remove(name)?;
        self.version += 1;
        self.by_place.remove(&entry.place);
        Some(entry.handle)
    }

    /// Up to `count` entries starting at `token` ([`TOKEN_START`]: at the first).
    pub(crate) fn page(&self, token: u64, count: usize) -> Page {
        let mut rest = self.by_place.range(token..);
        let entries = rest.by_ref().take(count).map(|(_, name)| (name.clone(), self.by_name[name].handle)).collect();
        Page { entries, next: rest.next().map(|(place, _)| *place) }
    }
}

/// The handle range of a server from which an object takes its handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pool {
    Meta,
    Data,
}

/// The handles of all servers.
#[derive(Debug)]
struct Handles(Vec<Owner>);

#[derive(Debug)]
struct Owner {
    server: FsServer,
    next_meta: u64,
    next_data: u64,
    used: usize,
}

impl Handles {
    /// No handles in use.
    fn new(config: &FsConfig) -> Self {
        let first = |ranges: &[RangeInclusive<u64>]| ranges.first().map_or(0, |range| *range.start());
        let owner = |server: &FsServer| Owner {
            next_meta: first(&server.meta_handles),
            next_data: first(&server.data_handles),
            used: 0,
            server: server.clone(),
        };
        Self(config.servers.iter().map(owner).collect())
    }

    /// Number of handles of `server` in use.
    fn used(&self, server: usize) -> usize {
        self.0[server].used
    }

    /// The next free handle of `server`; ENOSPC if none is left.
    fn allocate(&mut self, server: usize, pool: Pool, is_taken: impl Fn(Handle) -> bool) -> Result<Handle, Errno> {
        let Owner { server, next_meta, next_data, .. } = self.0.get_mut(server).ok_or(Errno::EINVAL)?;
        let (next, ranges) = match pool {
            Pool::Meta => (next_meta, &server.meta_handles),
            Pool::Data => (next_data, &server.data_handles),
        };
        while is_taken(Handle(*next)) {
            *next += 1;
        }
        if !ranges.iter().any(|range| range.contains(next)) {
            return Err(Errno::ENOSPC);
        }
        *next += 1;
        Ok(Handle(*next - 1))
    }

    /// Counts a newly used handle.
    fn count_up(&mut self, handle: Handle) {
        self.owner_mut(handle).into_iter().for_each(|owner| owner.used += 1);
    }

    /// Counts a handle that is no longer used.
    fn count_down(&mut self, handle: Handle) {
        self.owner_mut(handle).into_iter().for_each(|owner| owner.used -= 1);
    }

    fn owner_mut(&mut self, handle: Handle) -> Option<&mut Owner> {
        self.0.iter_mut().find(|owner| owner.server.owns(handle.0))
    }
}

/// EACCES unless the capability permits setting every attribute that `attr` sets.
pub(super) fn may_set(capability: &Capability, object: &Object, attr: &Attr) -> Result<(), Errno> {
    if matches!(object.kind, Kind::Symlink(None)) {
        // The creator sets the target of a new link, with a capability for the directory only.
        return Ok(());
    }
    let sets = |bits: u32| attr.mask & bits != 0;
    if sets(mask::UID) && attr.owner != object.owner {
        server::require(capability, op_mask::ADMIN)?;
    }
    let of_owner = mask::UID | mask::GID | mask::PERMS | mask::SYMLINK_TARGET | mask::ATIME_SET | mask::DIR_HINT;
    let writers = op_mask::WRITE | op_mask::SETATTR;
    let rules = [
        (of_owner, op_mask::SETATTR),
        (mask::MTIME | mask::MTIME_SET | mask::CTIME, writers),
        (mask::ATIME, writers | op_mask::READ),
    ];
    let mut asked = rules.iter().filter(|(bits, _)| sets(*bits));
    asked.try_for_each(|(_, sufficient)| server::require_any(capability, *sufficient))
}

/// Sets the attributes in the mask; times without their "set" bit become `now`.
pub(super) fn set(object: &mut Object, attr: &Attr, now: u64) -> Result<(), Errno> {
    let sets = |bit: u32| attr.mask & bit != 0;
    if sets(mask::TYPE) && attr.objtype != ObjType::NONE && attr.objtype != object.objtype() {
        return Err(Errno::EACCES);
    }
    let explicit = |set_bit: u32, time: u64| if sets(set_bit) { time } else { now };
    for (bit, field, value) in [
        (mask::ATIME, &mut object.atime, explicit(mask::ATIME_SET, attr.atime)),
        (mask::MTIME, &mut object.mtime, explicit(mask::MTIME_SET, attr.mtime)),
    ] {
        if sets(bit) {
            *field = value;
        }
    }
    for (bit, field, value) in [
        (mask::UID, &mut object.owner, attr.owner),
        (mask::GID, &mut object.group, attr.group),
        (mask::PERMS, &mut object.perms, attr.perms),
    ] {
        if sets(bit) {
            *field = value;
        }
    }
    if sets(mask::UID | mask::GID | mask::PERMS | mask::MTIME) {
        object.ctime = now;
    }
    match (&mut object.kind, &attr.target, &attr.dir) {
        (Kind::Symlink(target), Some(new), _) => *target = Some(new.clone()),
        (Kind::Directory { hint, .. }, _, Some(new)) if sets(mask::DIR_HINT) => *hint = Some(new.hint.clone()),
        _ => {}
    }
    Ok(())
}

/// Puts the reserved datafiles of a file in use; nothing to do if there are none.
pub(super) fn unstuff(namespace: &mut Namespace, file: Handle, reserved: &[Handle]) -> Result<(), Errno> {
    for datafile in reserved {
        namespace.change(*datafile, |object| {
            object.kind = Kind::Datafile;
            Ok(())
        })?;
    }
    if reserved.is_empty() {
        return Ok(());
    }
    namespace.change(file, |object| match &mut object.kind {
        Kind::File(layout) => {
            layout.stuffed = false;
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    })
}

/// A new object that belongs to the user of `credential`.
pub(super) fn owned(attr: &Attr, credential: &Credential, kind: Kind, now: u64) -> Object {
    let mut object = Object::new(attr, kind, now);
    object.owner = credential.uid;
    if let Some(group) = credential.gids.first() {
        object.group = *group;
    }
    object
}

/// Limits on the length of keys and values, and on the number of attributes of one object.
pub(super) const KEY_MAX: usize = 256;

const VALUE_MAX: usize = 8192;

const ATTRIBUTES_MAX: usize = 64;

/// SETEATTR flags.
const MUST_BE_NEW: i32 = 1;

const MUST_EXIST: i32 = 2;

/// Whether `flags` permit an attribute to be set.
pub(super) fn check(
    namespace: &Namespace,
    handle: Handle,
    key: &KeyVal,
    value: &KeyVal,
    flags: i32,
) -> Result<(), Errno> {
    if key.0.is_empty() || key.0.len() > KEY_MAX || value.0.len() > VALUE_MAX {
        return Err(Errno::EINVAL);
    }
    let xattrs = &namespace.get(handle)?.xattrs;
    match xattrs.contains_key(key) {
        true if flags & MUST_BE_NEW != 0 => Err(Errno::EEXIST),
        false if flags & MUST_EXIST != 0 => Err(Errno::ENOENT),
        false if xattrs.len() >= ATTRIBUTES_MAX => Err(Errno::ENOSPC),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u64) -> Text {
        Text::from(format!("n{n}"))
    }

    #[test]
    fn a_listing_survives_changes_between_its_pages() {
        let mut entries = Entries::default();
        for n in 0..10 {
            assert_eq!(entries.set(&name(n), Handle(n)), None);
        }
        let first = entries.page(TOKEN_START, 4);
        assert_eq!(first.entries.iter().map(|(_, handle)| handle.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(entries.remove(&name(4)), Some(Handle(4)));
        assert_eq!(entries.set(&name(5), Handle(50)), Some(Handle(5)));
        entries.set(&name(99), Handle(99));
        let second = entries.page(first.next.unwrap(), 100);
        assert_eq!(second.entries.iter().map(|(_, handle)| handle.0).collect::<Vec<_>>(), [50, 6, 7, 8, 9, 99]);
        assert_eq!(second.next, None);
        assert_eq!((entries.len(), entries.get(&name(4))), (10, None));
    }
}
