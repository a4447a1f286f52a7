//! The operations of one server: those that are one request and one reply, and I/O, whose data flows in chunks
//! (docs/protocols/orangefs.md, bodies).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use vpfs_core::hash::mix;
use vpfs_protocol::wire::bmi::{Tag, TooLong};
use vpfs_protocol::wire::pvfs2::attr::{DirHint, DirInfo, mask};
use vpfs_protocol::wire::pvfs2::reply::{self, SmallIoResult};
use vpfs_protocol::wire::pvfs2::transfer::TransferPiece;
use vpfs_protocol::wire::pvfs2::types::op_mask;
use vpfs_protocol::wire::pvfs2::{
    Attr, Capability, Columns, Credential, Dist, Errno, Handle, IoType, KeyVal, Layout, ObjType, Op, Reply, Request,
    RequestBody, Status, Text, Transfer, TransferError, request,
};
use vpfs_sim::model::device::IoKind;

use super::namespace::{
    FileLayout, KEY_MAX, Kind, Namespace, Object, Pool, check, datafiles, may_set, owned, set, single_distdir, unstuff,
};
use super::{Accesses, CHANGE_ENTRIES, Cluster, Storage, errno_of, now};
use crate::server;
use crate::storage::StoreError;
use crate::transport::{Chunk, Outgoing, chunk_len, chunks};

/// One server of a cluster, as its connections see it.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Index in the configuration.
    pub(super) index: usize,
    pub(super) cluster: Arc<Cluster>,
}

type Answer = Result<Reply, Errno>;

impl Server {
    /// Answers all requests except IO and SMALL_IO. A reply means that the change's device time has passed.
    pub(super) async fn answer(&self, request: Request) -> Reply {
        let op = request.body.op();
        let answer = self.perform(request);
        if answer.is_ok() && changes_metadata(op) {
            self.storage().log_metadata().await;
        }
        answer.unwrap_or_else(|errno| Reply::error(op, Status::error(errno)))
    }

    fn perform(&self, request: Request) -> Answer {
        let capability = &request.capability;
        match request.body {
            RequestBody::GetConfig => Ok(self.get_config()),
            RequestBody::MgmtNoop => Ok(Reply::done(Op::MgmtNoop)),
            RequestBody::MgmtSetParam(body) => self.set_param(&body),
            RequestBody::StatFs(body) => self.stat_fs(&body),
            RequestBody::MgmtIterateHandles(body) => self.iterate_handles(&body),
            RequestBody::GetAttr(body) => self.get_attr(&body),
            RequestBody::SetAttr(body) => self.set_attr(capability, &body),
            RequestBody::ListAttr(body) => self.list_attr(&body),
            RequestBody::TreeGetFileSize(body) => self.tree_get_file_size(&body),
            RequestBody::TreeSetAttr(body) => self.tree_set_attr(&body),
            RequestBody::LookupPath(body) => self.lookup_path(capability, &body),
            RequestBody::CrDirent(body) => self.create_dirent(capability, &body),
            RequestBody::RmDirent(body) => self.remove_dirent(capability, &body),
            RequestBody::ChDirent(body) => self.change_dirent(capability, &body),
            RequestBody::ReadDir(body) => self.read_dir(capability, &body),
            RequestBody::Create(body) => self.create(capability, &body),
            RequestBody::MkDir(body) => self.make_directory(capability, &body),
            RequestBody::BatchCreate(body) => self.batch_create(capability, &body),
            RequestBody::Unstuff(body) => self.unstuff(capability, &body),
            RequestBody::Remove(body) => self.remove(capability, &body),
            RequestBody::TreeRemove(body) => self.tree_remove(body),
            RequestBody::Truncate(body) => self.truncate(capability, &body),
            RequestBody::Flush(body) => self.flush(&body),
            RequestBody::GetEattr(body) => self.get_xattrs(body),
            RequestBody::SetEattr(body) => self.set_xattrs(capability, body),
            RequestBody::DelEattr(body) => self.remove_xattr(capability, &body),
            RequestBody::ListEattr(body) => self.list_xattrs(&body),
            _ => Err(Errno::ENOSYS),
        }
    }

    /// This server's own storage.
    pub(super) fn storage(&self) -> &Storage {
        &self.cluster.storage[self.index]
    }

    /// Returns ENOENT for objects of other servers, as if they did not exist.
    pub(super) fn own(&self, handle: Handle) -> Result<(), Errno> {
        let owner = &self.cluster.config.servers[self.index];
        if owner.owns(handle.0) { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// [`Self::own`] for a request to the file system `fs`.
    fn own_in(&self, fs: i32, handle: Handle) -> Result<(), Errno> {
        self.same_fs(fs)?;
        self.own(handle)
    }

    /// The same for a request that must be allowed to do this.
    fn permit(&self, capability: &Capability, needed: u32, fs: i32, handle: Handle) -> Result<(), Errno> {
        self.own_in(fs, handle)?;
        server::require(capability, needed)
    }

    /// EINVAL for another file system's requests.
    fn same_fs(&self, fs: i32) -> Result<(), Errno> {
        if fs == self.cluster.config.fs_id { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn get_attr(&self, body: &request::GetAttr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let namespace = self.cluster.namespace();
        let attr = self.attr(&namespace, body.handle, body.mask, Some(&body.credential))?;
        Ok(reply::GetAttr { attr }.into())
    }

    /// One status and one set of attributes for each handle. The request carries no credential, so no capabilities are
    /// granted.
    fn list_attr(&self, body: &request::ListAttr) -> Answer {
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
    fn attr(
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
    fn common_attr(&self, object: &Object) -> Attr {
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
            op_mask: server::allowed(object, credential),
            handles: [&[handle], parts].concat(),
        }
    }

    fn set_attr(&self, capability: &Capability, body: &request::SetAttr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let now = now();
        self.cluster.namespace().change(body.handle, |object| {
            may_set(capability, object, &body.attr)?;
            set(object, &body.attr, now)
        })?;
        Ok(Reply::done(Op::SetAttr))
    }

    /// Applies the same change to many objects, on any server.
    fn tree_set_attr(&self, body: &request::TreeSetAttr) -> Answer {
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
    fn tree_get_file_size(&self, body: &request::TreeGetFileSize) -> Answer {
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

    /// Creates a metafile here and datafiles according to the layout. With a round-robin layout over several servers
    /// the file is stuffed: its first datafile is here too, and clients see only that one until they send UNSTUFF.
    fn create(&self, capability: &Capability, body: &request::Create) -> Answer {
        self.same_fs(body.fs)?;
        server::require(capability, op_mask::CREATE)?;
        let wanted = usize::try_from(body.num_dfiles).map_err(|_| Errno::EINVAL)?.max(1);
        let servers = self.place(&body.layout, wanted)?;
        let stuffed = body.layout.algorithm == Layout::ROUND_ROBIN && servers.len() > 1;
        let dist = body.attr.dist.clone().unwrap_or(DEFAULT_DIST);
        dist.stripe(u32::try_from(servers.len()).map_err(|_| Errno::EINVAL)?).map_err(|_| Errno::EINVAL)?;

        let now = now();
        let mut namespace = self.cluster.namespace();
        let metafile = namespace.allocate(self.index, Pool::Meta)?;
        let mut handles = Vec::with_capacity(servers.len());
        for server in servers {
            let handle = namespace.allocate(server, Pool::Data)?;
            let kind = if stuffed && !handles.is_empty() { Kind::Reserved } else { Kind::Datafile };
            namespace.insert(handle, Object::new(&body.attr, kind, now));
            handles.push(handle);
        }
        let layout = FileLayout { dist, datafiles: handles, stuffed, hint_flags: 0 };
        let in_use = datafiles(layout.datafiles_in_use(), 0);
        let object = owned(&body.attr, &body.credential, Kind::File(layout), now);
        let attr = Attr { datafiles: Some(in_use), ..object.common_attr() };
        namespace.insert(metafile, object);
        Ok(reply::Create { metafile, stuffed: u32::from(stuffed), attr }.into())
    }

    /// The servers of a new file's datafiles, by index, in order.
    fn place(&self, layout: &Layout, wanted: usize) -> Result<Vec<usize>, Errno> {
        let config = &self.cluster.config;
        let all = config.servers.len();
        let number = self.cluster.next_placement();
        let rotated = |first: usize| (0..wanted.min(all)).map(move |n| (first + n) % all);
        let servers: Vec<usize> = match layout.algorithm {
            Layout::NONE => rotated(0).collect(),
            // Stuffed files start here; the servers that follow differ from file to file.
            Layout::ROUND_ROBIN if wanted > 1 => {
                let others: Vec<_> = (1..all).map(|n| (self.index + n) % all).collect();
                let first = usize::try_from(number % others.len().max(1) as u64).map_err(|_| Errno::EINVAL)?;
                let rest = (0..others.len()).map(|n| others[(first + n) % others.len()]);
                std::iter::once(self.index).chain(rest).take(wanted).collect()
            }
            Layout::ROUND_ROBIN => rotated(usize::try_from(number % all as u64).map_err(|_| Errno::EINVAL)?).collect(),
            Layout::RANDOM => {
                let mut shuffled: Vec<usize> = (0..all).collect();
                shuffled.sort_by_key(|server| mix(number ^ mix(*server as u64)));
                shuffled.truncate(wanted);
                shuffled
            }
            Layout::LOCAL => vec![self.index],
            Layout::LIST => self.listed(layout)?,
            _ => return Err(Errno::EINVAL),
        };
        if servers.is_empty() || servers.len() > DATAFILES_MAX { Err(Errno::EINVAL) } else { Ok(servers) }
    }

    /// The servers that a layout lists by address; EINVAL for an unknown address.
    fn listed(&self, layout: &Layout) -> Result<Vec<usize>, Errno> {
        let find = |address: &[u8]| {
            let found = self.cluster.config.servers.iter().position(|server| server.address.as_bytes() == address);
            found.ok_or(Errno::EINVAL)
        };
        layout.servers.0.iter().map(|address| find(&address.0)).collect()
    }

    fn make_directory(&self, capability: &Capability, body: &request::MkDir) -> Answer {
        self.same_fs(body.fs)?;
        server::require(capability, op_mask::CREATE)?;
        let now = now();
        let mut namespace = self.cluster.namespace();
        let [handle, dirdata] = self.two_handles(&mut namespace)?;
        let hint = body.attr.dir.as_ref().map(|directory| directory.hint.clone());
        let hint = hint.filter(|hint| *hint != DirHint::default());
        let directory = owned(&body.attr, &body.credential, Kind::Directory { dirdata, hint }, now);
        namespace.insert_directory(handle, dirdata, directory, now);
        Ok(reply::MkDir { handle, capability: Capability::default() }.into())
    }

    fn two_handles(&self, namespace: &mut Namespace) -> Result<[Handle; 2], Errno> {
        let mut next = || namespace.allocate(self.index, Pool::Meta);
        Ok([next()?, next()?])
    }

    /// Symbolic links only; their targets are set by a later SETATTR.
    fn batch_create(&self, capability: &Capability, body: &request::BatchCreate) -> Answer {
        self.same_fs(body.fs)?;
        match body.count {
            1 => server::require_any(capability, op_mask::CREATE | op_mask::BATCH_CREATE)?,
            _ => server::require(capability, op_mask::BATCH_CREATE)?,
        }
        if body.objtype != ObjType::SYMLINK || body.count > BATCH_MAX {
            return Err(Errno::EINVAL);
        }
        let now = now();
        let mut namespace = self.cluster.namespace();
        let mut one = |_| {
            let handle = namespace.allocate(self.index, Pool::Meta)?;
            namespace.insert(handle, Object::new(&Attr::default(), Kind::Symlink(None), now));
            Ok(handle)
        };
        let handles = (0..body.count).map(&mut one).collect::<Result<_, Errno>>()?;
        Ok(reply::BatchCreate { handles }.into())
    }

    /// Puts all datafiles of a file in use; no change if they already are.
    fn unstuff(&self, capability: &Capability, body: &request::Unstuff) -> Answer {
        self.permit(capability, op_mask::WRITE, body.fs, body.handle)?;
        let mut namespace = self.cluster.namespace();
        let reserved = match &namespace.get(body.handle)?.kind {
            Kind::File(FileLayout { stuffed: false, .. }) => Vec::new(),
            Kind::File(layout) => layout.datafiles.clone(),
            _ => return Err(Errno::EINVAL),
        };
        unstuff(&mut namespace, body.handle, &reserved)?;
        let attr = self.attr(&namespace, body.handle, body.mask, Some(&body.credential))?;
        Ok(Reply::from(reply::Unstuff { attr }))
    }

    /// Resolves components as long as they are in directories of this server, up to the first that is not a directory.
    fn lookup_path(&self, capability: &Capability, body: &request::LookupPath) -> Answer {
        self.permit(capability, op_mask::EXEC, body.fs, body.parent)?;
        let namespace = self.cluster.namespace();
        let (mut handles, mut attrs) = (Vec::new(), Vec::new());
        let mut directory = body.parent;
        for component in body.path.0.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
            let Some(dirdata) = self.enter(&namespace, directory, handles.is_empty(), &body.credential)? else { break };
            let handle = namespace.entries(dirdata)?.get(&Text::from(component)).ok_or(Errno::ENOENT)?;
            handles.push(handle);
            // Like a real server, which does not know other servers' objects.
            attrs.extend(self.own(handle).and_then(|()| namespace.get(handle)).map(|object| self.common_attr(object)));
            directory = handle;
        }
        if handles.is_empty() { Err(Errno::ENOENT) } else { Ok(reply::LookupPath { handles, attrs }.into()) }
    }

    /// The dirdata object to continue in; `None` if the path leads to another server or through an object that is not a
    /// directory.
    fn enter(
        &self,
        namespace: &Namespace,
        directory: Handle,
        is_first: bool,
        credential: &Credential,
    ) -> Result<Option<Handle>, Errno> {
        if self.own(directory).is_err() {
            return Ok(None);
        }
        let object = namespace.get(directory)?;
        match object.kind {
            Kind::Directory { .. } if !is_first && server::allowed(object, credential) & op_mask::EXEC == 0 => {
                Err(Errno::EACCES)
            }
            Kind::Directory { dirdata, .. } => Ok(Some(dirdata)),
            _ if is_first => Err(Errno::ENOTDIR),
            _ => Ok(None),
        }
    }

    fn create_dirent(&self, capability: &Capability, body: &request::CrDirent) -> Answer {
        self.check_entry(capability, body.fs, body.dirdata, &body.name)?;
        self.cluster.namespace().add_entry(body.dirdata, &body.name, body.new_handle, now())?;
        Ok(Reply::done(Op::CrDirent))
    }

    fn remove_dirent(&self, capability: &Capability, body: &request::RmDirent) -> Answer {
        self.check_entry(capability, body.fs, body.dirdata, &body.name)?;
        let handle = self.cluster.namespace().remove_entry(body.dirdata, &body.name, now())?;
        Ok(reply::RmDirent { handle }.into())
    }

    fn change_dirent(&self, capability: &Capability, body: &request::ChDirent) -> Answer {
        self.check_entry(capability, body.fs, body.dirdata, &body.name)?;
        let old_handle = self.cluster.namespace().change_entry(body.dirdata, &body.name, body.new_handle, now())?;
        Ok(reply::ChDirent { old_handle }.into())
    }

    fn check_entry(&self, capability: &Capability, fs: i32, dirdata: Handle, name: &Text) -> Result<(), Errno> {
        self.permit(capability, CHANGE_ENTRIES, fs, dirdata)?;
        match name.0.as_slice() {
            b"" | b"." | b".." => Err(Errno::EINVAL),
            name if name.contains(&b'/') || name.contains(&0) => Err(Errno::EINVAL),
            name if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
            _ => Ok(()),
        }
    }

    /// A page of a listing. Entries added or removed meanwhile may be listed or not; all others are listed exactly
    /// once.
    fn read_dir(&self, capability: &Capability, body: &request::ReadDir) -> Answer {
        self.permit(capability, op_mask::READ, body.fs, body.dirdata)?;
        let namespace = self.cluster.namespace();
        let entries = namespace.entries(body.dirdata)?;
        let (page, directory_version) = match body.token {
            request::TOKEN_END => return Err(Errno::EINVAL),
            token => (entries.page(token, body.count.min(READDIR_MAX) as usize), entries.version()),
        };
        let token = page.next.unwrap_or(request::TOKEN_END);
        Ok(reply::ReadDir { token, directory_version, entries: page.entries }.into())
    }

    /// Removes one object; the client removes its entry and a file's datafiles.
    fn remove(&self, capability: &Capability, body: &request::Remove) -> Answer {
        self.permit(capability, op_mask::REMOVE, body.fs, body.handle)?;
        self.remove_object(body.handle)?;
        Ok(Reply::done(Op::Remove))
    }

    /// Removes many objects, on any server.
    fn tree_remove(&self, body: request::TreeRemove) -> Answer {
        self.same_fs(body.fs)?;
        let mut statuses = Vec::with_capacity(body.handles.len());
        for handle in body.handles {
            statuses.push(status_of(self.remove_object(handle)));
        }
        Ok(reply::TreeRemove { caller_index: body.caller_index, statuses }.into())
    }

    fn remove_object(&self, handle: Handle) -> Result<(), Errno> {
        let removed = self.cluster.namespace().remove(handle)?;
        if let Kind::Datafile = removed.kind {
            self.cluster.storage_of(handle)?.store.remove(handle.0);
        }
        Ok(())
    }

    fn truncate(&self, capability: &Capability, body: &request::Truncate) -> Answer {
        self.same_fs(body.fs)?;
        server::require(capability, op_mask::WRITE)?;
        self.own_datafile(body.handle)?;
        let (object, size) = (body.handle.0, u64::try_from(body.size).map_err(|_| Errno::EINVAL)?);
        self.storage().store.truncate(object, size).map_err(|error| errno_of(&error))?;
        Ok(Reply::done(Op::Truncate))
    }

    /// Everything is in the store before it is answered.
    fn flush(&self, body: &request::Flush) -> Answer {
        self.own_in(body.fs, body.handle)?;
        self.cluster.namespace().get(body.handle)?;
        Ok(Reply::done(Op::Flush))
    }

    /// ENOENT unless `handle` is a datafile of this server.
    fn own_datafile(&self, handle: Handle) -> Result<(), Errno> {
        self.own(handle)?;
        match self.cluster.namespace().get(handle)?.kind {
            Kind::Datafile => Ok(()),
            _ => Err(Errno::EINVAL),
        }
    }

    /// All values, or ENOENT if one of the keys does not exist.
    fn get_xattrs(&self, body: request::GetEattr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let namespace = self.cluster.namespace();
        let xattrs = &namespace.get(body.handle)?.xattrs;
        let value = |(key, room): (KeyVal, i64)| {
            let value = xattrs.get(&key).ok_or(Errno::ENOENT)?;
            fits(value, room).map(|()| (value.clone(), 0))
        };
        let values = body.keys.0.into_iter().map(value).collect::<Result<_, Errno>>()?;
        Ok(reply::GetEattr { values: Columns(values) }.into())
    }

    fn set_xattrs(&self, capability: &Capability, body: request::SetEattr) -> Answer {
        self.permit(capability, op_mask::SETATTR, body.fs, body.handle)?;
        let mut namespace = self.cluster.namespace();
        for (key, value) in body.entries.0 {
            check(&namespace, body.handle, &key, &value, body.flags)?;
            namespace.set_xattr(body.handle, key, value)?;
        }
        Ok(Reply::done(Op::SetEattr))
    }

    fn remove_xattr(&self, capability: &Capability, body: &request::DelEattr) -> Answer {
        self.permit(capability, op_mask::SETATTR, body.fs, body.handle)?;
        self.cluster.namespace().remove_xattr(body.handle, &body.key)?;
        Ok(Reply::done(Op::DelEattr))
    }

    /// A page of keys in order; the token is the index of the first key not returned yet.
    fn list_xattrs(&self, body: &request::ListEattr) -> Answer {
        self.own_in(body.fs, body.handle)?;
        let too_long = |room: &i64| usize::try_from(*room).is_ok_and(|room| room > KEY_MAX);
        if body.key_sizes.len() > LISTED_MAX || body.key_sizes.iter().any(too_long) {
            return Err(Errno::EINVAL);
        }
        let namespace = self.cluster.namespace();
        let xattrs = &namespace.get(body.handle)?.xattrs;
        let first = match body.token {
            request::TOKEN_START => 0,
            request::TOKEN_END => return Err(Errno::EINVAL),
            token => usize::try_from(token).map_err(|_| Errno::EINVAL)?,
        };
        let page = xattrs.keys().skip(first).zip(&body.key_sizes);
        let keys: Vec<KeyVal> =
            page.map(|(key, room)| fits(key, *room).map(|()| key.clone())).collect::<Result<_, _>>()?;
        let next = first + keys.len();
        let token = if next < xattrs.len() { next as u64 } else { request::TOKEN_END };
        Ok(reply::ListEattr { token, keys }.into())
    }

    fn get_config(&self) -> Reply {
        reply::GetConfig { text: self.cluster.config_text.clone() }.into()
    }

    /// Only the two checks have an effect; the other parameters have no counterpart here and are accepted.
    fn set_param(&self, body: &request::MgmtSetParam) -> Answer {
        let config = &self.cluster.config;
        let number = match &body.value {
            request::ParamValue::Number(number) => Some(*number),
            request::ParamValue::Text(_) => None,
        };
        match body.param {
            CHECK_FS_ID => self.same_fs(body.fs)?,
            CHECK_ROOT if number != Some(config.root_handle) => return Err(Errno::ENOENT),
            CHECK_ROOT => self.own(Handle(config.root_handle))?,
            _ => {}
        }
        Ok(Reply::done(Op::MgmtSetParam))
    }

    fn stat_fs(&self, body: &request::StatFs) -> Answer {
        self.same_fs(body.fs)?;
        let usage = self.storage().store.usage();
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        // Tools sum over the servers, so each one reports its share of what the cluster can still hold.
        let (used, free) = self.cluster.namespace().usage(self.index);
        let free = (free / self.cluster.config.servers.len()) as u64;
        Ok(reply::StatFs {
            fs: body.fs,
            bytes_available: signed(usage.capacity.saturating_sub(usage.used)),
            bytes_total: signed(usage.capacity),
            ram_total: 0,
            ram_free: 0,
            load_1: 0,
            load_5: 0,
            load_15: 0,
            uptime_seconds: self.cluster.started.elapsed().as_secs(),
            handles_available: free,
            handles_total: free + used as u64,
        }
        .into())
    }

    /// This server's handles in ascending order, or only the reserved ones if the flags ask for them; the position is
    /// the first handle not returned yet.
    fn iterate_handles(&self, body: &request::MgmtIterateHandles) -> Answer {
        self.same_fs(body.fs)?;
        let first = if body.position == POSITION_START { 0 } else { body.position };
        let count = usize::try_from(body.count).map_err(|_| Errno::EINVAL)?.min(HANDLES_MAX);
        let namespace = self.cluster.namespace();
        let reserved = |object: &Object| matches!(object.kind, Kind::Reserved);
        let own = namespace.objects_from(Handle(first)).filter(|(handle, _)| self.own(*handle).is_ok());
        let own = own.filter(|(_, object)| body.flags == 0 || reserved(object)).map(|(handle, _)| handle);
        let mut handles: Vec<Handle> = own.take(count.saturating_add(1)).collect();
        let position =
            if handles.len() > count { handles.pop().map_or(POSITION_END, |next| next.0) } else { POSITION_END };
        Ok(reply::MgmtIterateHandles { position, handles }.into())
    }

    /// A write: acknowledge, receive chunks, complete. Errors after the acknowledgement are reported in the completion,
    /// after the client has sent all its data.
    pub(super) async fn write_flow(
        &self,
        capability: &Capability,
        body: &request::Io,
        mut data: mpsc::Receiver<Bytes>,
        replies: &Replies,
    ) -> Result<(), FlowError> {
        let Some(io) = self.begin(capability, body, replies).await? else { return Ok(()) };
        let mut writes = InFlight::new(self.cluster.config.flow_buffers);
        let mut failed = None;
        for chunk in chunks(io.transfer.pieces(), io.total, self.cluster.config.flow_buffer_bytes) {
            let chunk = chunk?;
            let bytes = next_chunk(&mut data, &chunk).await?;
            if failed.is_none() {
                writes.push(self.storage().access(IoKind::Write, io.handle, &chunk), (chunk, bytes));
                failed = self.store_written(io.handle, writes.pop_excess().await).err();
            }
        }
        while failed.is_none()
            && let Some(written) = writes.pop().await
        {
            failed = self.store_written(io.handle, Some(written)).err();
        }
        let completion = match failed {
            None => reply::WriteCompletion { total_completed: signed(io.total) }.into(),
            Some(errno) => Reply::error(Op::WriteCompletion, Status::error(errno)),
        };
        replies.send(&completion).await
    }

    /// A read: acknowledge, send chunks. There is no end message, so a failure in the middle can only close the
    /// connection.
    pub(super) async fn read_flow(
        &self,
        capability: &Capability,
        body: &request::Io,
        replies: &Replies,
    ) -> Result<(), FlowError> {
        let Some(io) = self.begin(capability, body, replies).await? else { return Ok(()) };
        let mut reads = InFlight::new(self.cluster.config.flow_buffers);
        for chunk in chunks(io.transfer.pieces(), io.total, self.cluster.config.flow_buffer_bytes) {
            let chunk = chunk?;
            reads.push(self.storage().access(IoKind::Read, io.handle, &chunk), chunk);
            if let Some(chunk) = reads.pop_excess().await {
                self.send_chunk(io.handle, chunk, replies).await?;
            }
        }
        while let Some(chunk) = reads.pop().await {
            self.send_chunk(io.handle, chunk, replies).await?;
        }
        Ok(())
    }

    /// Sends the acknowledgement; `None` after a negative one.
    async fn begin(
        &self,
        capability: &Capability,
        body: &request::Io,
        replies: &Replies,
    ) -> Result<Option<Checked>, FlowError> {
        match self.check(capability, body.fs, body.handle, body.io_type, body.transfer()) {
            Ok(io) => {
                replies.send(&reply::Io { bstream_size: signed(io.size) }.into()).await?;
                Ok(Some(io))
            }
            Err(errno) => {
                replies.send(&Reply::error(Op::Io, Status::error(errno))).await?;
                Ok(None)
            }
        }
    }

    fn check(
        &self,
        capability: &Capability,
        fs: i32,
        handle: Handle,
        io_type: IoType,
        transfer: Result<Transfer, TransferError>,
    ) -> Result<Checked, Errno> {
        self.same_fs(fs)?;
        let needed = if io_type == IoType::Read { op_mask::READ } else { op_mask::WRITE };
        server::require(capability, needed)?;
        self.own_datafile(handle)?;
        let transfer = transfer.map_err(|_| Errno::EINVAL)?;
        let size = self.storage().store.size(handle.0);
        let total = match io_type {
            IoType::Read => transfer.read_bytes(size),
            IoType::Write => transfer.write_bytes(),
        };
        Ok(Checked { handle, transfer, size, total: total.map_err(|_| Errno::EINVAL)? })
    }

    /// Stores a chunk that the device has taken.
    fn store_written(&self, handle: Handle, written: Option<(Chunk, Bytes)>) -> Result<(), Errno> {
        let Some((chunk, bytes)) = written else { return Ok(()) };
        self.storage().write(handle, &chunk, bytes).map_err(|error| errno_of(&error))?;
        if self.own_datafile(handle).is_err() {
            // The datafile was removed meanwhile, so nothing else will free what was just written.
            self.storage().store.remove(handle.0);
            return Err(Errno::ENOENT);
        }
        Ok(())
    }

    async fn send_chunk(&self, handle: Handle, chunk: Chunk, replies: &Replies) -> Result<(), FlowError> {
        let segments = self.storage().read(handle, &chunk);
        replies.put(Outgoing::data(replies.tag, segments)?).await
    }

    /// An I/O with its data in the request or the reply.
    pub(super) async fn small_io(&self, capability: &Capability, body: request::SmallIo) -> Reply {
        let done = self.try_small_io(capability, body).await;
        done.unwrap_or_else(|errno| Reply::error(Op::SmallIo, Status::error(errno)))
    }

    async fn try_small_io(&self, capability: &Capability, body: request::SmallIo) -> Result<Reply, Errno> {
        let request::SmallIo { handle, fs, io_type, .. } = body;
        let io = self.check(capability, fs, handle, io_type, body.transfer())?;
        let whole: Chunk = match chunks(io.transfer.pieces(), io.total, u64::MAX).next() {
            None => Chunk::new(),
            Some(chunk) => chunk.map_err(|_| Errno::EINVAL)?,
        };
        let result = match io_type {
            IoType::Read if io.total + SMALL_REPLY_OVERHEAD > vpfs_protocol::wire::bmi::MAX_UNEXPECTED => {
                Err(Errno::EINVAL)
            }
            IoType::Read => {
                self.storage().access(IoKind::Read, handle, &whole).done().await;
                let segments = self.storage().read(handle, &whole);
                Ok(SmallIoResult::Read(segments.concat()))
            }
            IoType::Write if body.data.len() as u64 != io.total => Err(Errno::EINVAL),
            IoType::Write => {
                self.storage().access(IoKind::Write, handle, &whole).done().await;
                self.store_written(handle, Some((whole, body.data.into())))?;
                Ok(SmallIoResult::Written(signed(io.total)))
            }
        }?;
        Ok(reply::SmallIo { bstream_size: signed(self.storage().store.size(handle.0)), result }.into())
    }
}

/// Whether success changes names or attributes, or requires earlier changes to be stored.
fn changes_metadata(op: Op) -> bool {
    matches!(
        op,
        Op::Create
            | Op::Remove
            | Op::SetAttr
            | Op::CrDirent
            | Op::RmDirent
            | Op::ChDirent
            | Op::Truncate
            | Op::MkDir
            | Op::Flush
            | Op::SetEattr
            | Op::DelEattr
            | Op::BatchCreate
            | Op::Unstuff
            | Op::TreeRemove
            | Op::TreeSetAttr
    )
}

/// Lifetime of a capability in seconds: the default of OrangeFS.
const CAPABILITY_SECONDS: u64 = 600;

/// Largest number of handles in one LISTATTR.
const LISTATTR_MAX: usize = 512;

/// The status of one object of a request for many.
fn status_of(result: Result<(), Errno>) -> i32 {
    result.map_or_else(|errno| Status::error(errno).0, |()| Status::OK.0)
}

/// The distribution of files whose creator names none.
const DEFAULT_DIST: Dist = Dist::SimpleStripe { strip_size: 64 << 10 };

/// Largest number of objects in one BATCH_CREATE.
const BATCH_MAX: u32 = 1024;

/// Largest number of datafiles of one file: what fits into a capability.
const DATAFILES_MAX: usize = 1023;

/// Largest number of entries in one listing reply.
const READDIR_MAX: u32 = 512;

/// Longest name in bytes.
const NAME_MAX: usize = 255;

/// The most keys that are listed at once [OrangeFS: include/pvfs2-types.h, PVFS_MAX_XATTR_LISTLEN].
const LISTED_MAX: usize = 16;

/// Parameters of MGMT_SETPARAM that `pvfs2-ping` sets.
const CHECK_FS_ID: i32 = 2;

const CHECK_ROOT: i32 = 3;

/// Largest number of handles in one reply of MGMT_ITERATE_HANDLES.
const HANDLES_MAX: usize = 4096;

/// The positions that start and end a listing of handles.
const POSITION_START: u64 = request::TOKEN_START;

const POSITION_END: u64 = request::TOKEN_END;

/// EOVERFLOW for a key or value that does not fit the requester's buffer.
fn fits(bytes: &KeyVal, room: i64) -> Result<(), Errno> {
    let room = usize::try_from(room).unwrap_or(0);
    if bytes.0.len() <= room { Ok(()) } else { Err(Errno::EOVERFLOW) }
}

/// Bytes of a SMALL_IO reply besides the data.
const SMALL_REPLY_OVERHEAD: u64 = 40;

/// How long a write waits for its next chunk: ServerJobFlowTimeoutSecs.
const FLOW_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a transfer closes its connection: the two sides no longer agree on what comes next.
#[derive(Debug, thiserror::Error)]
pub(super) enum FlowError {
    #[error("a data message has {got} bytes instead of {expected}")]
    WrongChunk { got: u64, expected: u64 },
    #[error("no data for {0:?}")]
    NoData(Duration),
    #[error("access: {0}")]
    Access(#[from] TransferError),
    #[error("storage: {0}")]
    Storage(#[from] StoreError),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// The connection is already being closed.
    #[error("the connection is closed")]
    Closed,
}

/// What a running transfer needs from its connection.
#[derive(Clone, Debug)]
pub(super) struct Replies {
    pub(super) tag: Tag,
    pub(super) queue: mpsc::Sender<Outgoing>,
}

impl Replies {
    pub(super) async fn send(&self, reply: &Reply) -> Result<(), FlowError> {
        self.put(Outgoing::reply(self.tag, reply.encode())?).await
    }

    async fn put(&self, message: Outgoing) -> Result<(), FlowError> {
        self.queue.send(message).await.map_err(|_| FlowError::Closed)
    }
}

/// An I/O that was checked.
struct Checked {
    handle: Handle,
    transfer: Transfer,
    /// The datafile's size when the I/O began.
    size: u64,
    /// Bytes that will move.
    total: u64,
}

/// Waits for the next chunk's data.
async fn next_chunk(data: &mut mpsc::Receiver<Bytes>, chunk: &[TransferPiece]) -> Result<Bytes, FlowError> {
    let received = timeout(FLOW_TIMEOUT, data.recv()).await.map_err(|_| FlowError::NoData(FLOW_TIMEOUT))?;
    let bytes = received.ok_or(FlowError::Closed)?;
    let (got, expected) = (bytes.len() as u64, chunk_len(chunk));
    if got == expected { Ok(bytes) } else { Err(FlowError::WrongChunk { got, expected }) }
}

/// Chunks submitted to the device, oldest first, at most as many as a flow has buffers.
struct InFlight<T> {
    chunks: VecDeque<(Accesses, T)>,
    buffers: usize,
}

impl<T> InFlight<T> {
    fn new(buffers: usize) -> Self {
        Self { chunks: VecDeque::new(), buffers: buffers.max(1) }
    }

    fn push(&mut self, accesses: Accesses, chunk: T) {
        self.chunks.push_back((accesses, chunk));
    }

    /// The oldest chunk once the device has finished it, if all buffers are in use.
    async fn pop_excess(&mut self) -> Option<T> {
        if self.chunks.len() < self.buffers { None } else { self.pop().await }
    }

    /// The oldest chunk once the device has finished it.
    async fn pop(&mut self) -> Option<T> {
        let (accesses, chunk) = self.chunks.pop_front()?;
        accesses.done().await;
        Some(chunk)
    }
}

/// Sizes and totals stay below 2⁶³: offsets on the wire are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
