//! Names and attributes, in memory. Sizes of files are not here: the store knows them.

use std::collections::{BTreeMap, HashMap};

use nfs3_types::nfs3::{Nfs3Option, fattr3, ftype3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime, specdata3};

/// Bytes of a name.
const NAME_MAX: usize = 255;
/// Files and directories, as many as the embedded OrangeFS servers have.
const OBJECTS_MAX: usize = 4_000_000;
/// The root's number.
pub(super) const ROOT: u64 = 1;

type Result<T> = std::result::Result<T, nfsstat3>;

#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    attr: fattr3,
    /// `None` for a file.
    directory: Option<Directory>,
}

#[derive(Debug)]
struct Directory {
    parent: u64,
    by_name: HashMap<Vec<u8>, u64>,
    /// The same by number, the order in which it is listed.
    names: BTreeMap<u64, Vec<u8>>,
}

/// What to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
}

impl Tree {
    pub(super) fn new(now: nfstime3) -> Self {
        let root = Node::new(ROOT, Kind::Directory, ROOT, now);
        Self { nodes: HashMap::from([(ROOT, root)]), next: ROOT + 1 }
    }

    /// The attributes, with the size missing.
    pub(super) fn attr(&self, id: u64) -> Result<&fattr3> {
        self.nodes.get(&id).map(|node| &node.attr).ok_or(nfsstat3::NFS3ERR_STALE)
    }

    /// Fails unless it is a file.
    pub(super) fn file(&self, id: u64) -> Result<()> {
        if self.attr(id)?.type_ == ftype3::NF3REG { Ok(()) } else { Err(nfsstat3::NFS3ERR_ISDIR) }
    }

    pub(super) fn lookup(&self, dir: u64, name: &[u8]) -> Result<u64> {
        let directory = self.directory(dir)?;
        match name {
            b"." => Ok(dir),
            b".." => Ok(directory.parent),
            _ => directory.by_name.get(name).copied().ok_or(nfsstat3::NFS3ERR_NOENT),
        }
    }

    /// The first entry behind `cookie` in the order of the listing: its number, which is its cookie, and its name.
    pub(super) fn entry_after(&self, dir: u64, cookie: u64) -> Result<Option<(u64, &[u8])>> {
        let mut rest = self.directory(dir)?.names.range(cookie.saturating_add(1)..);
        Ok(rest.next().map(|(id, name)| (*id, name.as_slice())))
    }

    pub(super) fn add(&mut self, dir: u64, name: &[u8], kind: Kind, now: nfstime3) -> Result<u64> {
        match self.lookup(dir, name) {
            Err(nfsstat3::NFS3ERR_NOENT) => {}
            found => return Err(found.err().unwrap_or(nfsstat3::NFS3ERR_EXIST)),
        }
        if name.len() > NAME_MAX {
            return Err(nfsstat3::NFS3ERR_NAMETOOLONG);
        }
        if self.nodes.len() >= OBJECTS_MAX {
            return Err(nfsstat3::NFS3ERR_NOSPC);
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Node::new(id, kind, dir, now));
        self.link(dir, name, id, now)?;
        Ok(id)
    }

    /// Removes a file or an empty directory; its number.
    pub(super) fn remove(&mut self, dir: u64, name: &[u8], now: nfstime3) -> Result<u64> {
        if matches!(name, b"." | b"..") {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        let id = self.lookup(dir, name)?;
        if self.nodes[&id].directory.as_ref().is_some_and(|directory| !directory.names.is_empty()) {
            return Err(nfsstat3::NFS3ERR_NOTEMPTY);
        }
        self.unlink(dir, name, now)?;
        self.nodes.remove(&id);
        Ok(id)
    }

    /// Renames; the number of what the new name referred to, which is removed.
    pub(super) fn rename(
        &mut self,
        (from, old): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        now: nfstime3,
    ) -> Result<Option<u64>> {
        let id = self.lookup(from, old)?;
        let is_directory = |tree: &Self, id: u64| tree.nodes[&id].directory.is_some();
        // From the target up to the root: a directory cannot be moved into itself.
        let mut above = to;
        while above != ROOT && above != id {
            above = self.directory(above)?.parent;
        }
        if above == id || matches!(new, b"." | b"..") {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        let replaced = match self.lookup(to, new) {
            Ok(other) if other == id => return Ok(None),
            Ok(other) if is_directory(self, other) != is_directory(self, id) => return Err(nfsstat3::NFS3ERR_EXIST),
            Ok(_) => Some(self.remove(to, new, now)?),
            Err(nfsstat3::NFS3ERR_NOENT) => None,
            Err(error) => return Err(error),
        };
        self.unlink(from, old, now)?;
        self.link(to, new, id, now)?;
        if let Some(directory) = self.nodes.get_mut(&id).and_then(|node| node.directory.as_mut()) {
            directory.parent = to;
        }
        Ok(replaced)
    }

    /// Sets all attributes but the size.
    pub(super) fn set(&mut self, id: u64, new: &sattr3, now: nfstime3) -> Result<()> {
        let attr = &mut self.node(id)?.attr;
        let set = |value: &mut u32, new: &Nfs3Option<u32>| {
            if let Nfs3Option::Some(new) = new {
                *value = *new;
            }
        };
        set(&mut attr.mode, &new.mode);
        set(&mut attr.uid, &new.uid);
        set(&mut attr.gid, &new.gid);
        match new.atime {
            set_atime::DONT_CHANGE => {}
            set_atime::SET_TO_SERVER_TIME => attr.atime = now,
            set_atime::SET_TO_CLIENT_TIME(time) => attr.atime = time,
        }
        match new.mtime {
            set_mtime::DONT_CHANGE => {}
            set_mtime::SET_TO_SERVER_TIME => attr.mtime = now,
            set_mtime::SET_TO_CLIENT_TIME(time) => attr.mtime = time,
        }
        attr.ctime = now;
        Ok(())
    }

    /// Records that its content has changed.
    pub(super) fn touch(&mut self, id: u64, now: nfstime3) -> Result<()> {
        let attr = &mut self.node(id)?.attr;
        (attr.mtime, attr.ctime) = (now, now);
        Ok(())
    }

    fn node(&mut self, id: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&id).ok_or(nfsstat3::NFS3ERR_STALE)
    }

    fn directory(&self, id: u64) -> Result<&Directory> {
        let node = self.nodes.get(&id).ok_or(nfsstat3::NFS3ERR_STALE)?;
        node.directory.as_ref().ok_or(nfsstat3::NFS3ERR_NOTDIR)
    }

    fn link(&mut self, dir: u64, name: &[u8], id: u64, now: nfstime3) -> Result<()> {
        self.touch(dir, now)?;
        let directory = self.node(dir)?.directory.as_mut().ok_or(nfsstat3::NFS3ERR_NOTDIR)?;
        directory.by_name.insert(name.to_vec(), id);
        directory.names.insert(id, name.to_vec());
        Ok(())
    }

    fn unlink(&mut self, dir: u64, name: &[u8], now: nfstime3) -> Result<()> {
        self.touch(dir, now)?;
        let directory = self.node(dir)?.directory.as_mut().ok_or(nfsstat3::NFS3ERR_NOTDIR)?;
        let id = directory.by_name.remove(name).ok_or(nfsstat3::NFS3ERR_NOENT)?;
        directory.names.remove(&id);
        Ok(())
    }
}

impl Node {
    fn new(id: u64, kind: Kind, parent: u64, now: nfstime3) -> Self {
        let (type_, mode, nlink) = match kind {
            Kind::File => (ftype3::NF3REG, 0o644, 1),
            Kind::Directory => (ftype3::NF3DIR, 0o755, 2),
        };
        let attr = fattr3 {
            type_,
            mode,
            nlink,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            rdev: specdata3::default(),
            fsid: 0,
            fileid: id,
            atime: now,
            mtime: now,
            ctime: now,
        };
        let empty = || Directory { parent, by_name: HashMap::new(), names: BTreeMap::new() };
        Self { attr, directory: (kind == Kind::Directory).then(empty) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: nfstime3 = nfstime3 { seconds: 1, nseconds: 0 };

    fn listing(tree: &Tree, dir: u64) -> Vec<String> {
        let (mut cookie, mut names) = (0, Vec::new());
        while let Some((id, name)) = tree.entry_after(dir, cookie).unwrap() {
            (cookie, names) = (id, [names, vec![String::from_utf8_lossy(name).into_owned()]].concat());
        }
        names
    }

    #[test]
    fn names_are_added_listed_and_removed() {
        let mut tree = Tree::new(NOW);
        let dir = tree.add(ROOT, b"d", Kind::Directory, NOW).unwrap();
        for name in [&b"b"[..], b"a", b"c"] {
            tree.add(dir, name, Kind::File, NOW).unwrap();
        }
        assert_eq!(listing(&tree, dir), ["b", "a", "c"], "in the order of creation, which later entries do not change");
        assert_eq!(tree.add(dir, b"a", Kind::File, NOW), Err(nfsstat3::NFS3ERR_EXIST));
        assert_eq!(tree.add(dir, &[b'x'; 256], Kind::File, NOW), Err(nfsstat3::NFS3ERR_NAMETOOLONG));
        assert_eq!(tree.remove(ROOT, b"d", NOW), Err(nfsstat3::NFS3ERR_NOTEMPTY));
        let a = tree.remove(dir, b"a", NOW).unwrap();
        assert_eq!((listing(&tree, dir).len(), tree.attr(a).err()), (2, Some(nfsstat3::NFS3ERR_STALE)));
        assert_eq!(tree.lookup(dir, b".."), Ok(ROOT));
        assert_eq!(tree.lookup(tree.lookup(dir, b"b").unwrap(), b"x"), Err(nfsstat3::NFS3ERR_NOTDIR));
    }

    #[test]
    fn a_rename_replaces_files_but_nothing_moves_into_itself() {
        let mut tree = Tree::new(NOW);
        let dir = tree.add(ROOT, b"d", Kind::Directory, NOW).unwrap();
        let below = tree.add(dir, b"e", Kind::Directory, NOW).unwrap();
        let (a, b) = (tree.add(dir, b"a", Kind::File, NOW).unwrap(), tree.add(ROOT, b"b", Kind::File, NOW).unwrap());
        assert_eq!(tree.rename((ROOT, b"d"), (below, b"d"), NOW), Err(nfsstat3::NFS3ERR_INVAL));
        assert_eq!(tree.rename((dir, b"a"), (ROOT, b"d"), NOW), Err(nfsstat3::NFS3ERR_EXIST));
        assert_eq!(tree.rename((dir, b"a"), (ROOT, b"b"), NOW), Ok(Some(b)));
        assert_eq!((tree.lookup(ROOT, b"b"), tree.lookup(dir, b"a")), (Ok(a), Err(nfsstat3::NFS3ERR_NOENT)));
        assert_eq!(tree.rename((dir, b"e"), (ROOT, b"e"), NOW), Ok(None));
        assert_eq!((tree.lookup(below, b".."), listing(&tree, dir).len()), (Ok(ROOT), 0));
    }
}
