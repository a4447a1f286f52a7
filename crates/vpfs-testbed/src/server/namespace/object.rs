//! An object of the file system: common attributes, and those of its kind.

use std::collections::BTreeMap;

use vpfs_wire::pvfs2::attr::{Datafiles, DirHint, DirInfo, DistDir, mask};
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

    /// Everything except extended attributes and entries, as stored in the log: as on the wire, but with all datafiles
    /// of a stuffed file, and with the directory instead of the handles of a dirdata object.
    pub(super) fn to_log(&self) -> Attr {
        let mut attr = self.common_attr();
        match &self.kind {
            Kind::File(layout) => {
                attr.dist = Some(layout.dist.clone());
                attr.datafiles = Some(datafiles(&layout.datafiles, layout.hint_flags));
            }
            Kind::Directory { dirdata, hint } => {
                attr.distdir = Some(single_distdir(*dirdata));
                attr.dir = hint.clone().map(|hint| DirInfo { dirent_count: 0, hint });
                attr.mask |= mask::DIR_HINT;
            }
            Kind::Dirdata { directory, .. } => attr.distdir = Some(single_distdir(*directory)),
            Kind::Symlink(target) => attr.target.clone_from(target),
            Kind::Datafile | Kind::Reserved => {}
        }
        attr
    }

    /// The object that [`Object::to_log`] describes, without entries and extended attributes.
    pub(super) fn from_log(attr: Attr) -> Option<Self> {
        let distdir_handle = attr.distdir.as_ref().and_then(|distdir| distdir.handles.first().copied());
        let mut object = Self::new(&attr, Kind::Datafile, 0);
        (object.atime, object.mtime, object.ctime) = (attr.atime, attr.mtime, attr.ctime);
        object.kind = match attr.objtype {
            ObjType::METAFILE => {
                let Datafiles { handles, hint_flags } = attr.datafiles?;
                let stuffed = attr.stuffed_size.is_some();
                Kind::File(FileLayout { dist: attr.dist?, datafiles: handles.0, stuffed, hint_flags })
            }
            ObjType::DATAFILE => Kind::Datafile,
            ObjType::INTERNAL => Kind::Reserved,
            ObjType::DIRECTORY => {
                Kind::Directory { dirdata: distdir_handle?, hint: attr.dir.map(|directory| directory.hint) }
            }
            ObjType::DIRDATA => Kind::Dirdata { directory: distdir_handle?, entries: Entries::default() },
            ObjType::SYMLINK => Kind::Symlink(attr.target),
            _ => return None,
        };
        Some(object)
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
