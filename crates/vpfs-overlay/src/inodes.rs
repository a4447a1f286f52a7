//! The files that the kernel knows of.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, Weak};

use fuser::BackingId;
use name_to_handle_at::{AT_EMPTY_PATH, FileHandle, MountId, name_to_handle_at};
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Result;

use crate::stored::Stored;
use crate::system::{lock, path};

pub(crate) const ROOT: u64 = 1;

/// A file: an `O_PATH` descriptor, which stays right when names change.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) number: u64,
    /// Unlike its number, never that of another file.
    pub(crate) serial: u64,
    pub(crate) fd: OwnedFd,
    pub(crate) kind: FileType,
    pub(crate) stored: Option<Arc<Stored>>,
    pub(crate) opens: Mutex<Opens>,
}

/// How a file is open: all who have it open share the kernel's way, or ours.
#[derive(Debug, Default)]
pub(crate) struct Opens {
    pub(crate) backing: Weak<BackingId>,
    pub(crate) ours: usize,
}

impl Inode {
    pub(crate) fn path(&self) -> String {
        path(&self.fd)
    }

    fn place<'a>(&self, name: &'a OsStr) -> Place<'a> {
        Place { directory: self.serial, name }
    }
}

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
    by_identity: HashMap<Identity, u64>,
    serials: u64,
}

#[derive(Debug)]
struct Known {
    inode: Arc<Inode>,
    lookups: u64,
    identity: Identity,
    source: Source,
    /// Where it was found last, to ask the kernel to forget it.
    found: (u64, OsString),
}

impl Inodes {
    /// With the directory that is mounted. With more than `most` files, `full` is told.
    pub(crate) fn new(root: OwnedFd, most: usize, full: SyncSender<()>) -> Result<Self> {
        let stat = fstat(&root)?;
        let inodes = Self { device: stat.st_dev, table: Mutex::default(), most, full };
        let identity = Identity::of(&root, Place { directory: 0, name: OsStr::new("") });
        let (kind, opens) = (FileType::Directory, Mutex::default());
        let root = Inode { number: ROOT, serial: 0, fd: root, kind, stored: None, opens };
        lock(&inodes.table).insert(Arc::new(root), identity, Source::of(&stat), (ROOT, OsString::new()));
        Ok(inodes)
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        lock(&self.table).by_number.get(&number).map(|known| Arc::clone(&known.inode))
    }

    /// Counts a lookup of the file that was found in `parent`; `load` finds out about its regions if it is new.
    pub(crate) fn look_up(
        &self,
        fd: OwnedFd,
        stat: &Stat,
        (parent, name): (&Inode, &OsStr),
        load: impl FnOnce(&OwnedFd) -> Result<Option<Arc<Stored>>>,
    ) -> Result<Arc<Inode>> {
        let (identity, source) = (Identity::of(&fd, parent.place(name)), Source::of(stat));
        let found = (parent.number, name);
        if let Some(inode) = lock(&self.table).again(&identity, source, found) {
            return Ok(inode);
        }
        let stored = load(&fd)?;
        let mut table = lock(&self.table);
        // Another thread may have been faster.
        if let Some(inode) = table.again(&identity, source, found) {
            return Ok(inode);
        }
        table.serials += 1;
        let (number, serial) = (self.number(source, &table), table.serials);
        let (kind, opens) = (FileType::from_raw_mode(stat.st_mode), Mutex::default());
        let inode = Arc::new(Inode { number, serial, fd, kind, stored, opens });
        table.insert(Arc::clone(&inode), identity, source, (found.0, name.to_owned()));
        if table.by_number.len() > self.most {
            // If it is being told, that is enough.
            let _ = self.full.try_send(());
        }
        Ok(inode)
    }

    /// A name was removed. What gets it next is another file, also where only names tell files apart.
    pub(crate) fn removed(&self, parent: &Inode, name: &OsStr) {
        lock(&self.table).by_identity.remove(&Identity::named(parent.place(name)));
    }

    /// A file has another name, or two files have swapped theirs.
    pub(crate) fn renamed(&self, (from, name): (&Inode, &OsStr), (to, new): (&Inode, &OsStr), are_swapped: bool) {
        let (old, new) = (Identity::named(from.place(name)), Identity::named(to.place(new)));
        let mut table = lock(&self.table);
        let (moved, replaced) = (table.by_identity.remove(&old), table.by_identity.remove(&new));
        table.name(moved, new);
        if are_swapped {
            table.name(replaced, old);
        }
    }

    /// The number in the source, which programs see; another one for other devices, and for what has another file's.
    fn number(&self, source: Source, table: &Table) -> u64 {
        let Source { device, ino, .. } = source;
        let is_free = |number: &u64| *number > ROOT && !table.by_number.contains_key(number);
        let own = Some(ino).filter(|ino| device == self.device && is_free(ino));
        let mixed = ino ^ device.rotate_left(40) | 1 << 63;
        own.unwrap_or_else(|| (0..).map(|more| mixed.wrapping_add(more)).find(is_free).unwrap_or(mixed))
    }

    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        let mut table = lock(&self.table);
        let Some(known) = table.by_number.get_mut(&number) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && number != ROOT {
            let forgotten = table.by_number.remove(&number);
            if let Some(known) = &forgotten
                && table.by_identity.get(&known.identity) == Some(&number)
            {
                table.by_identity.remove(&known.identity);
            }
            // Regions are removed with the last who knows of them, which takes its time.
            drop(table);
            drop(forgotten);
        }
    }

    pub(crate) fn spare(&self) -> Vec<(u64, OsString)> {
        let table = lock(&self.table);
        let count = table.by_number.len().saturating_sub(self.most / 4 * 3);
        let files = table.by_number.values().filter(|known| known.inode.kind != FileType::Directory);
        let idle = files.filter(|known| Arc::strong_count(&known.inode) == 1);
        idle.take(count).map(|known| known.found.clone()).collect()
    }
}

impl Table {
    fn insert(&mut self, inode: Arc<Inode>, identity: Identity, source: Source, found: (u64, OsString)) {
        self.by_identity.insert(identity.clone(), inode.number);
        self.by_number.insert(inode.number, Known { inode, lookups: 1, identity, source, found });
    }

    /// What is known of a file. A name may have got another file since, which then has another number in the source.
    fn known(&mut self, identity: &Identity, source: Source) -> Option<&mut Known> {
        let known = self.by_number.get_mut(self.by_identity.get(identity)?)?;
        Some(known).filter(|known| identity.is_proof() || known.source == source)
    }

    fn again(&mut self, identity: &Identity, source: Source, (parent, name): (u64, &OsStr)) -> Option<Arc<Inode>> {
        let known = self.known(identity, source)?;
        known.lookups += 1;
        if known.found.0 != parent || known.found.1 != name {
            known.found = (parent, name.to_owned());
        }
        Some(Arc::clone(&known.inode))
    }

    /// From now on a name identifies the file, if it is one that names identify.
    fn name(&mut self, number: Option<u64>, identity: Identity) {
        if let Some((number, known)) = number.and_then(|number| Some((number, self.by_number.get_mut(&number)?))) {
            known.identity = identity.clone();
            self.by_identity.insert(identity, number);
        }
    }
}

// Which names are names of one file.
//
// Inode numbers do not tell: file systems that put several others together pass on the numbers of those, and network
// file systems use them again. Two names are merged only if the file system gives both the same file handle, which is
// for that. Where there are no handles, or if a handle goes by name (libfuse's paths), each name is a file of its own.

/// What two names of one file have in common, and no other file has while this one is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Handles are for one file system, and access may depend on the mount.
    Handle { mount: u64, kind: i32, handle: Vec<u8> },
    /// The serial number of the directory, and the name.
    Name { directory: u64, name: OsString },
}

#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) directory: u64,
    pub(crate) name: &'a OsStr,
}

/// What the source says about a file, which is necessary, but not enough, for being the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) device: u64,
    pub(crate) ino: u64,
    kind: FileType,
}

impl Source {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, ino: stat.st_ino, kind: FileType::from_raw_mode(stat.st_mode) }
    }
}

impl Identity {
    pub(crate) fn of(fd: &impl AsFd, place: Place) -> Self {
        Self::proven(fd).unwrap_or_else(|| Self::named(place))
    }

    pub(crate) fn is_proof(&self) -> bool {
        matches!(self, Self::Handle { .. })
    }

    pub(crate) fn proven(fd: &impl AsFd) -> Option<Self> {
        let (FileHandle { handle_type, handle }, mount) = name_to_handle_at(fd, Path::new(""), AT_EMPTY_PATH).ok()?;
        let mount = match mount {
            MountId::Reusable(id) => id.into(),
            MountId::Unique(id) => id,
        };
        Some(Self::Handle { mount, kind: handle_type, handle })
    }

    pub(crate) fn named(Place { directory, name }: Place) -> Self {
        Self::Name { directory, name: name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn inodes(directory: &Path) -> (Inodes, Arc<Inode>) {
        let inodes = Inodes::new(File::open(directory).unwrap().into(), 1000, sync_channel(1).0).unwrap();
        let root = inodes.get(ROOT).unwrap();
        (inodes, root)
    }

    fn look_up(inodes: &Inodes, parent: &Inode, path: &Path) -> Arc<Inode> {
        let fd = File::open(path).unwrap().into();
        let stat = fstat(&fd).unwrap();
        inodes.look_up(fd, &stat, (parent, path.file_name().unwrap()), |_| Ok(None)).unwrap()
    }

    /// As [`look_up`], in a file system without handles and with one number for all.
    fn by_name(inodes: &Inodes, parent: &Inode, name: &str) -> Arc<Inode> {
        let (place, source) = (parent.place(name.as_ref()), Source::of(&fstat(&parent.fd).unwrap()));
        let identity = Identity::named(place);
        let mut table = lock(&inodes.table);
        if let Some(known) = table.again(&identity, source, (parent.number, name.as_ref())) {
            return known;
        }
        table.serials += 1;
        let fd = File::open("/dev/null").unwrap().into();
        let (kind, opens) = (FileType::RegularFile, Mutex::default());
        let (number, serial) = (inodes.number(source, &table), table.serials);
        let inode = Arc::new(Inode { number, serial, fd, kind, stored: None, opens });
        table.insert(Arc::clone(&inode), identity, source, (parent.number, name.into()));
        inode
    }

    #[test]
    fn names_with_one_handle_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        fs::hard_link(path("a"), path("link")).unwrap();
        let (inodes, root) = inodes(folder.path());
        if !Identity::of(&root.fd, root.place("x".as_ref())).is_proof() {
            eprintln!("SKIPPED: {} has no file handles", folder.path().display());
            return;
        }
        let a = look_up(&inodes, &root, &path("a"));
        assert_eq!(look_up(&inodes, &root, &path("link")).number, a.number);
        assert_ne!(look_up(&inodes, &root, &path("b")).number, a.number);
        inodes.forget(a.number, 1);
        assert!(inodes.get(a.number).is_some(), "it was looked up twice");
        inodes.forget(a.number, 1);
        assert!(inodes.get(a.number).is_none());
    }

    #[test]
    fn without_handles_each_name_is_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (inodes, root) = inodes(folder.path());
        let (a, b) = (by_name(&inodes, &root, "a"), by_name(&inodes, &root, "b"));
        assert_ne!(a.number, b.number);
        assert_eq!(by_name(&inodes, &root, "a").number, a.number);
        // An open file keeps its number under its new name, and so does the open file that it replaces.
        inodes.renamed((&root, "a".as_ref()), (&root, "b".as_ref()), false);
        assert_eq!(by_name(&inodes, &root, "b").number, a.number);
        assert!(inodes.get(b.number).is_some());
        let new = by_name(&inodes, &root, "a");
        assert!(new.number != a.number && new.number != b.number);
        inodes.forget(b.number, 1);
        assert_eq!(by_name(&inodes, &root, "b").number, a.number, "it has the name that the forgotten one had");
        inodes.renamed((&root, "a".as_ref()), (&root, "b".as_ref()), true);
        let swapped = (by_name(&inodes, &root, "b").number, by_name(&inodes, &root, "a").number);
        assert_eq!(swapped, (new.number, a.number));
        inodes.removed(&root, "a".as_ref());
        let again = by_name(&inodes, &root, "a");
        assert_ne!(again.number, a.number, "a name that was removed is another file's");
    }
}
