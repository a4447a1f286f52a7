//! Attributes of objects.

use vpfs_wire::pvfs2::attr::{DirInfo, mask};
use vpfs_wire::pvfs2::auth::op_mask;
use vpfs_wire::pvfs2::{Attr, Capability, Columns, Credential, Errno, Handle, ObjType, Op, Reply, Status};
use vpfs_wire::pvfs2::{reply, request};

use super::{Answer, Server};
use crate::server::access;
use crate::server::cluster::now;
use crate::server::namespace::{FileLayout, Kind, Namespace, Object, datafiles, single_distdir};

/// Lifetime of a capability in seconds: the default of OrangeFS.
const CAPABILITY_SECONDS: u64 = 600;
/// Largest number of handles in one LISTATTR.
const LISTATTR_MAX: usize = 512;

impl Server {
    pub(super) fn get_attr(&self, body: &request::GetAttr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let namespace = self.cluster.namespace();
        let attr = self.attr(&namespace, body.handle, body.mask, Some(&body.credential))?;
        Ok(reply::GetAttr { attr }.into())
    }

    /// One status and one set of attributes for each handle. The request carries no credential, so no capabilities are
    /// granted.
    pub(super) fn list_attr(&self, body: &request::ListAttr) -> Answer {
        self.same_fs(body.fs)?;
        if body.handles.len() > LISTATTR_MAX {
            return Err(Errno::EINVAL);
        }
        let namespace = self.cluster.namespace();
        let attr = |handle: &Handle| {
            self.own(*handle)?;
            self.attr(&namespace, *handle, body.mask, None)
        };
        let row = |handle| match attr(handle) {
            Ok(attr) => (0, attr),
            Err(errno) => (Status::error(errno).0, Attr::default()),
        };
        Ok(reply::ListAttr { attrs: Columns(body.handles.iter().map(row).collect()) }.into())
    }

    /// The attributes that `wanted` asks for, if the object has them; always includes the common attributes.
    pub(super) fn attr(
        &self,
        namespace: &Namespace,
        handle: Handle,
        wanted: u32,
        credential: Option<&Credential>,
    ) -> Result<Attr, Errno> {
        let object = namespace.get(handle)?;
        let wants = |bit: u32| wanted & bit != 0;
        let mut attr = self.common_attr(object);
        let mut parts = Vec::new();
        match &object.kind {
            Kind::File(layout) => {
                parts.extend_from_slice(layout.datafiles_in_use());
                attr.dist = wants(mask::DIST).then(|| layout.dist.clone());
                attr.datafiles = wants(mask::DATAFILES).then(|| datafiles(&parts, layout.hint_flags));
            }
            Kind::Datafile => attr.size = wants(mask::SIZE).then(|| self.datafile_size(handle)).transpose()?,
            Kind::Directory { dirdata, hint } => {
                parts.push(*dirdata);
                attr.distdir = wants(mask::DISTDIR).then(|| single_distdir(*dirdata));
                if let Some(hint) = hint.clone().filter(|_| wants(mask::DIR_HINT)) {
                    attr.mask |= mask::DIR_HINT;
                    attr.dir = Some(DirInfo { dirent_count: 0, hint });
                }
            }
            Kind::Dirdata { entries, .. } => {
                let dirent_count = i64::try_from(entries.len()).unwrap_or(i64::MAX);
                attr.dir = wants(mask::DIRENT_COUNT).then(|| DirInfo { dirent_count, ..DirInfo::default() });
            }
            Kind::Reserved => {}
            Kind::Symlink(target) => attr.target = target.clone().filter(|_| wants(mask::SYMLINK_TARGET)),
        }
        let credential = credential.filter(|_| wants(mask::CAPABILITY));
        attr.capability = credential.map(|credential| self.capability(object, handle, &parts, credential));
        Ok(attr)
    }

    /// The attributes of every object. A stuffed file's size is that of its one datafile.
    pub(super) fn common_attr(&self, object: &Object) -> Attr {
        let mut attr = object.common_attr();
        if let (Kind::File(FileLayout { datafiles, .. }), Some(size)) = (&object.kind, &mut attr.stuffed_size) {
            let bytes = datafiles.first().map_or(Ok(0), |first| self.datafile_size(*first)).unwrap_or(0);
            *size = i32::try_from(bytes).unwrap_or(i32::MAX);
        }
        attr
    }

    fn datafile_size(&self, handle: Handle) -> Result<i64, Errno> {
        let size = self.cluster.storage_of(handle)?.store.size(handle.0);
        i64::try_from(size).map_err(|_| Errno::EOVERFLOW)
    }

    fn capability(&self, object: &Object, handle: Handle, parts: &[Handle], credential: &Credential) -> Capability {
        let config = &self.cluster.config;
        Capability {
            issuer: format!("S:{}", config.servers[self.index].alias).into(),
            fs: config.fs_id,
            signature: Vec::new(),
            timeout: now() + CAPABILITY_SECONDS,
            op_mask: access::allowed(object, credential),
            handles: [&[handle], parts].concat(),
        }
    }

    pub(super) fn set_attr(&self, capability: &Capability, body: &request::SetAttr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let now = now();
        self.cluster.namespace().change(body.handle, |object| {
            may_set(capability, object, &body.attr)?;
            set(object, &body.attr, now)
        })?;
        Ok(Reply::done(Op::SetAttr))
    }

    /// Applies the same change to many objects, on any server.
    pub(super) fn tree_set_attr(&self, body: &request::TreeSetAttr) -> Answer {
        self.same_fs(body.fs)?;
        let now = now();
        let mut namespace = self.cluster.namespace();
        let mut one = |handle: Handle| {
            namespace.change(handle, |object| match body.credential.uid {
                0 => set(object, &body.attr, now),
                uid if uid == object.owner => set(object, &body.attr, now),
                _ => Err(Errno::EACCES),
            })
        };
        let statuses = body.handles.iter().map(|handle| status_of(one(*handle))).collect();
        Ok(reply::TreeSetAttr { caller_index: body.caller_index, statuses }.into())
    }

    /// Sizes of datafiles, on any server.
    pub(super) fn tree_get_file_size(&self, body: &request::TreeGetFileSize) -> Answer {
        self.same_fs(body.fs)?;
        let namespace = self.cluster.namespace();
        let size = |handle: Handle| match namespace.get(handle)?.kind {
            Kind::Datafile => self.datafile_size(handle),
            _ => Err(Errno::EINVAL),
        };
        let row = |handle: &Handle| match size(*handle) {
            Ok(size) => (size, 0),
            Err(errno) => (0, Status::error(errno).0),
        };
        let sizes = Columns(body.handles.iter().map(row).collect());
        Ok(reply::TreeGetFileSize { caller_index: body.caller_index, sizes }.into())
    }
}

/// The status of one object of a request for many.
pub(super) fn status_of(result: Result<(), Errno>) -> i32 {
    result.map_or_else(|errno| Status::error(errno).0, |()| Status::OK.0)
}

/// EACCES unless the capability permits setting every attribute that `attr` sets.
fn may_set(capability: &Capability, object: &Object, attr: &Attr) -> Result<(), Errno> {
    if matches!(object.kind, Kind::Symlink(None)) {
        // The creator sets the target of a new link, with a capability for the directory only.
        return Ok(());
    }
    let sets = |bits: u32| attr.mask & bits != 0;
    if sets(mask::UID) && attr.owner != object.owner {
        access::require(capability, op_mask::ADMIN)?;
    }
    let of_owner = mask::UID | mask::GID | mask::PERMS | mask::SYMLINK_TARGET | mask::ATIME_SET | mask::DIR_HINT;
    let writers = op_mask::WRITE | op_mask::SETATTR;
    let rules = [
        (of_owner, op_mask::SETATTR),
        (mask::MTIME | mask::MTIME_SET | mask::CTIME, writers),
        (mask::ATIME, writers | op_mask::READ),
    ];
    let mut asked = rules.iter().filter(|(bits, _)| sets(*bits));
    asked.try_for_each(|(_, sufficient)| access::require_any(capability, *sufficient))
}

/// Sets the attributes in the mask; times without their "set" bit become `now`.
fn set(object: &mut Object, attr: &Attr, now: u64) -> Result<(), Errno> {
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
