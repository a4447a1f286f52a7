//! An object of the file system: common attributes, and those of its kind.

use std::collections::BTreeMap;

use vpfs_wire::pvfs2::attr::{Datafiles, DirHint, DistDir, mask};
use vpfs_wire::pvfs2::{Attr, Dist, Handle, KeyVal, ObjType, Padded, Text};

use super::entries::Entries;

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
