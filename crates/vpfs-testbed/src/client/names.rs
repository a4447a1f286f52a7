//! Creating, removing, renaming and listing names.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use vpfs_protocol::wire::pvfs2::attr::{Datafiles, DirInfo, Mirrors, mask};
use vpfs_protocol::wire::pvfs2::{
    Attr, Capability, Errno, Handle, HandleRanges, Layout as Placement, ObjType, Op, Padded, Request, Status, reply,
    request,
};

use super::file::{FILE_MASK, File, Layout};
use super::mount::{Directory, Mount};
use super::{Client, ClientError, CreateOptions, DirEntry, FileKind, Result, Stat, StatFs};

/// Entries requested at a time.
const READDIR_COUNT: u32 = 512;

impl Client {
    /// Creates a file; fails if the name exists.
    pub fn create<'a>(&'a self, path: &'a str, options: &'a CreateOptions) -> BoxFuture<'a, Result<File>> {
        Box::pin(async move {
            let (directory, name) = self.mount.parent(path).await?;
            let server = self.mount.pick_metadata_server();
            let body = request::Create {
                fs: self.mount.config.fs_id,
                credential: self.mount.credential(),
                attr: self.mount.new_file_attr(options),
                num_dfiles: self.mount.datafile_count(options)?,
                layout: self.mount.placement(options)?,
            };
            let created: reply::Create = self.mount.ask(server, &directory.capability, directory.handle, body).await?;
            let layout = Layout::new(&self.mount, created.attr, Some(options.distribution.clone()))?;
            let added = self.mount.add_entry(&directory, name, created.metafile).await;
            if added.is_err() {
                // The first error is the one to report; objects that cannot be removed remain without a name.
                let _ = self.mount.remove_object(&directory, created.metafile, &layout.datafiles).await;
            }
            added.map(|()| File::new(created.metafile, layout))
        })
    }

    /// Creates a directory with permission bits `mode`.
    pub fn mkdir<'a>(&'a self, path: &'a str, mode: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, name) = self.mount.parent(path).await?;
            let server = self.mount.pick_metadata_server();
            let mut attr = self.mount.new_attr(ObjType::DIRECTORY, mode);
            attr.mask |= mask::DIR_HINT;
            attr.dir = Some(DirInfo::default());
            let body = request::MkDir {
                fs: self.mount.config.fs_id,
                credential: self.mount.credential(),
                attr,
                extents: self.mount.metadata_handles(server),
                servers_initial: 0,
                servers_max: 0,
                split_size: 0,
                layout: Placement { algorithm: Placement::ROUND_ROBIN, servers: Padded::default() },
            };
            let made: reply::MkDir = self.mount.ask(server, &directory.capability, directory.handle, body).await?;
            self.mount.name_or_remove(&directory, name, made.handle).await
        })
    }

    /// Creates a symbolic link that points at `target`.
    pub fn symlink<'a>(&'a self, target: &'a str, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, name) = self.mount.parent(path).await?;
            let (server, fs) = (self.mount.pick_metadata_server(), self.mount.config.fs_id);
            let body = request::BatchCreate {
                fs,
                objtype: ObjType::SYMLINK,
                count: 1,
                extents: self.mount.metadata_handles(server),
            };
            let made: reply::BatchCreate =
                self.mount.ask(server, &directory.capability, directory.handle, body).await?;
            let [handle] = made.handles[..] else { return Err(self.mount.unexpected(server, Op::BatchCreate)) };
            // Not the directory's capability: servers require one for the link itself.
            let capability =
                self.mount.get_attr(handle, mask::COMMON | mask::CAPABILITY).await?.capability.unwrap_or_default();
            let attr = Attr { target: Some(target.into()), ..self.mount.new_attr(ObjType::SYMLINK, 0o777) };
            let body = request::SetAttr { handle, fs, attr, credential: self.mount.credential() };
            self.mount.tell(handle, &capability, handle, body).await?;
            self.mount.name_or_remove(&directory, name, handle).await
        })
    }

    /// Removes a file or link.
    pub fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (directory, name) = self.mount.parent(path).await?;
            let handle = self.mount.entry(&directory, name).await?;
            let attr = self.mount.get_attr(handle, FILE_MASK).await?;
            if attr.objtype == ObjType::DIRECTORY {
                return Err(ClientError::refused(Op::RmDirent, Errno::EISDIR));
            }
            match self.mount.remove_entry(&directory, name).await? {
                removed if removed == handle => self.mount.remove_object(&directory, handle, &datafiles_of(attr)).await,
                // The name refers to another object by now.
                removed => self.mount.remove_nameless(&directory, removed).await,
            }
        })
    }

    /// Removes an empty directory.
    pub fn rmdir<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (parent, name) = self.mount.parent(path).await?;
            let handle = self.mount.entry(&parent, name).await?;
            let directory = self.mount.directory(handle).await?;
            let dirdata = self.mount.get_attr(directory.dirdata, mask::COMMON | mask::DIRENT_COUNT).await?;
            if dirdata.dir.is_some_and(|entries| entries.dirent_count > 0) {
                return Err(ClientError::refused(Op::Remove, Errno::ENOTEMPTY));
            }
            self.mount.directories.forget(handle);
            let handle = self.mount.remove_entry(&parent, name).await?;
            let removed = self.mount.remove_object(&parent, handle, &[]).await;
            if removed.as_ref().is_err_and(|error| error.errno() == Some(Errno::ENOTEMPTY)) {
                // Another client was faster: restore the directory's name.
                self.mount.add_entry(&parent, name, handle).await?;
            }
            removed
        })
    }

    /// Renames; an existing file under the new name is replaced and removed.
    pub fn rename<'a>(&'a self, old: &'a str, new: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if new.starts_with(&format!("{}/", old.trim_end_matches('/'))) {
                // The target is below the directory itself or below a file.
                return Err(ClientError::refused(Op::CrDirent, Errno::EINVAL));
            }
            let (old_parent, old_name) = self.mount.parent(old).await?;
            let moved = self.mount.entry(&old_parent, old_name).await?;
            let (new_parent, new_name) = self.mount.parent(new).await?;
            match self.mount.add_entry(&new_parent, new_name, moved).await {
                Ok(()) if (old_parent.handle, old_name) == (new_parent.handle, new_name) => Ok(()),
                Ok(()) => self.mount.remove_entry(&old_parent, old_name).await.map(|_| ()),
                Err(error) if error.is_already_exists() => {
                    let replaced = self.mount.entry(&new_parent, new_name).await?;
                    if self.mount.is_directory(replaced).await? || self.mount.is_directory(moved).await? {
                        return Err(error);
                    }
                    let replaced = match self.mount.change_entry(&new_parent, new_name, moved).await? {
                        // Repeated after a lost reply, the operation sees the effect of its first attempt.
                        handle if handle == moved => replaced,
                        handle => handle,
                    };
                    self.mount.remove_entry(&old_parent, old_name).await?;
                    self.mount.remove_nameless(&new_parent, replaced).await
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Renames a file; fails if the new name exists. A rename that was interrupted after it had added the new name can
    /// be repeated.
    pub fn rename_new<'a>(&'a self, old: &'a str, new: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (old_parent, old_name) = self.mount.parent(old).await?;
            let moved = self.mount.entry(&old_parent, old_name).await?;
            let (new_parent, new_name) = self.mount.parent(new).await?;
            if (old_parent.handle, old_name) == (new_parent.handle, new_name) {
                return Ok(());
            }
            self.mount.add_entry(&new_parent, new_name, moved).await?;
            self.mount.remove_entry(&old_parent, old_name).await.map(|_| ())
        })
    }

    /// All entries of a directory, in the server's order.
    pub fn readdir<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        Box::pin(async move {
            let handle = self.mount.resolve(path).await?;
            let directory = self.mount.directory(handle).await?;
            let server = self.mount.owner(directory.dirdata)?;
            let (mut token, mut entries) = (request::TOKEN_START, Vec::new());
            while token != request::TOKEN_END {
                let (dirdata, fs) = (directory.dirdata, self.mount.config.fs_id);
                let body = request::ReadDir { dirdata, fs, count: READDIR_COUNT, token };
                let page: reply::ReadDir =
                    self.mount.ask(server, &directory.capability, directory.handle, body).await?;
                if page.entries.is_empty() && page.token == token {
                    return Err(self.mount.unexpected(server, Op::ReadDir));
                }
                token = page.token;
                let named = page.entries.into_iter();
                entries.extend(
                    named
                        .map(|(name, handle)| DirEntry { name: name.to_string_lossy().into_owned(), handle: handle.0 }),
                );
            }
            Ok(entries)
        })
    }

    /// Attributes and size of the object that `path` names.
    pub fn stat<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Stat>> {
        Box::pin(async move {
            let handle = self.mount.resolve(path).await?;
            let attr = self.mount.get_attr(handle, STAT_MASK).await?;
            let mut stat = Stat {
                handle: handle.0,
                kind: FileKind::File,
                size: 0,
                uid: attr.owner,
                gid: attr.group,
                mode: attr.perms,
                accessed: time(attr.atime),
                modified: time(attr.mtime),
                changed: time(attr.ctime),
                datafiles: 0,
            };
            match attr.objtype {
                ObjType::DIRECTORY => stat.kind = FileKind::Directory,
                ObjType::SYMLINK => {
                    stat.kind = FileKind::Symlink;
                    stat.size = attr.target.map_or(0, |target| target.0.len() as u64);
                }
                _ => {
                    let layout = Layout::new(&self.mount, attr, None)?;
                    stat.datafiles = layout.datafiles.len();
                    stat.size = self.mount.size_of(handle, &layout).await?;
                }
            }
            Ok(stat)
        })
    }

    /// Sets the times of last access and last modification of the object that `path` names, in seconds since 1970.
    ///
    /// Fails with EACCES unless this client's user is the owner or user 0. Takes two requests besides the look-up.
    pub fn set_times<'a>(&'a self, path: &'a str, atime: u64, mtime: u64) -> BoxFuture<'a, Result<()>> {
        Box::pin(
            async move { self.mount.set_attr(path, Attr { atime, mtime, mask: TIMES_MASK, ..Attr::default() }).await },
        )
    }

    /// Sets the owner, the group and the permission bits of the object that `path` names.
    ///
    /// Fails with EACCES unless this client's user may do that. Takes two requests besides the look-up.
    pub fn set_owner<'a>(&'a self, path: &'a str, owner: u32, group: u32, perms: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.mount.set_attr(path, Attr { owner, group, perms, mask: OWNER_MASK, ..Attr::default() }).await
        })
    }

    /// The names of the extended attributes of the object that `path` names.
    pub fn xattr_names<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<Vec<u8>>>> {
        Box::pin(async move {
            let handle = self.mount.resolve(path).await?;
            let capability = self.mount.capability(handle).await?;
            let server = self.mount.owner(handle)?;
            let (mut token, mut names) = (request::TOKEN_START, Vec::new());
            while token != request::TOKEN_END {
                let key_sizes = vec![XATTR_NAME_MAX; XATTR_COUNT];
                let body = request::ListEattr { handle, fs: self.mount.config.fs_id, token, key_sizes };
                let page: reply::ListEattr = self.mount.ask(server, &capability, handle, body).await?;
                if page.keys.is_empty() {
                    break;
                }
                if names.len() > XATTRS_MAX {
                    return Err(self.mount.unexpected(server, Op::ListEattr));
                }
                token = page.token;
                names.extend(page.keys.into_iter().map(|key| key.0.strip_suffix(b"\0").unwrap_or(&key.0).to_vec()));
            }
            Ok(names)
        })
    }

    /// Where a symbolic link points.
    pub fn readlink<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let handle = self.mount.resolve(path).await?;
            let attr = self.mount.get_attr(handle, mask::COMMON | mask::SYMLINK_TARGET).await?;
            let target = attr.target.ok_or(ClientError::refused(Op::GetAttr, Errno::EINVAL))?;
            Ok(target.to_string_lossy().into_owned())
        })
    }

    /// Sets the size of a file: truncates it, or extends it with a hole.
    pub fn truncate<'a>(&'a self, file: &'a File, size: u64) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let layout = self.mount.layout_up_to(file, size, true).await?;
            let stripe = layout.stripe()?;
            for (number, datafile) in (0..).zip(&layout.datafiles) {
                let own_size = i64::try_from(stripe.bytes_before(number, size));
                let size = own_size.map_err(|_| ClientError::Argument("a file ends before byte 2⁶³"))?;
                let body = request::Truncate { handle: *datafile, fs: self.mount.config.fs_id, size, flags: 0 };
                let capability = layout.capability.clone().unwrap_or_default();
                self.mount.tell(*datafile, &capability, file.metafile(), body).await?;
            }
            Ok(())
        })
    }

    /// Returns when all servers of the file have stored its data and attributes.
    pub fn fsync<'a>(&'a self, file: &'a File) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let layout = file.layout();
            for handle in layout.datafiles.iter().copied().chain([file.metafile()]) {
                let body = request::Flush { handle, fs: self.mount.config.fs_id, flags: 0 };
                self.mount.tell(handle, &Capability::default(), file.metafile(), body).await?;
            }
            Ok(())
        })
    }

    /// Space and objects, summed over all servers.
    pub fn statfs(&self) -> BoxFuture<'_, Result<StatFs>> {
        Box::pin(async move {
            let mut sum = StatFs::default();
            for server in 0..self.mount.config.servers.len() {
                let request = Request::bare(request::StatFs { fs: self.mount.config.fs_id }.into());
                let one: reply::StatFs = self.mount.call(server, &request).await?;
                sum.bytes_available += u64::try_from(one.bytes_available).unwrap_or(0);
                sum.bytes_total += u64::try_from(one.bytes_total).unwrap_or(0);
                sum.handles_available += one.handles_available;
                sum.handles_total += one.handles_total;
            }
            Ok(sum)
        })
    }
}

impl Mount {
    fn new_file_attr(&self, options: &CreateOptions) -> Attr {
        Attr {
            stuffed_size: Some(0),
            dist: Some(options.distribution.clone()),
            datafiles: Some(Datafiles::default()),
            mirrors: Some(Mirrors::default()),
            ..self.new_attr(ObjType::METAFILE, options.mode)
        }
    }

    /// The attributes of a new object of this client's user.
    fn new_attr(&self, objtype: ObjType, perms: u32) -> Attr {
        Attr { owner: self.uid(), group: self.gid(), perms, mask: mask::COMMON, objtype, ..Attr::default() }
    }

    fn datafile_count(&self, options: &CreateOptions) -> Result<i32> {
        let servers = self.config.servers.iter().filter(|server| !server.data_handles.is_empty()).count();
        let wanted = options.datafiles.map_or(i32::try_from(servers), i32::try_from);
        match wanted {
            Ok(count @ 1..) => Ok(count),
            _ => Err(ClientError::Argument("a file has at least one datafile")),
        }
    }

    fn placement(&self, options: &CreateOptions) -> Result<Placement> {
        let Some(indexes) = &options.servers else {
            return Ok(Placement { algorithm: Placement::ROUND_ROBIN, servers: Padded::default() });
        };
        let address = |index: &usize| self.config.servers.get(*index).map(|server| server.address.as_str().into());
        let servers: Option<Vec<_>> = indexes.iter().map(address).collect();
        let servers =
            servers.ok_or(ClientError::Argument("a file cannot be placed on a server that does not exist"))?;
        Ok(Placement { algorithm: Placement::LIST, servers: Padded(servers) })
    }

    fn metadata_handles(&self, server: usize) -> HandleRanges {
        let ranges = &self.config.servers[server].meta_handles;
        HandleRanges { ranges: ranges.iter().map(|range| (Handle(*range.start()), Handle(*range.end()))).collect() }
    }

    async fn name_or_remove(&self, directory: &Directory, name: &str, handle: Handle) -> Result<()> {
        let added = self.add_entry(directory, name, handle).await;
        if added.is_err() {
            // As for files, the first error is the one to report.
            let _ = self.remove_object(directory, handle, &[]).await;
        }
        added
    }

    /// Adds an entry. If a reply was lost and the repetition finds that the name already refers to this object, it
    /// succeeded.
    async fn add_entry(&self, directory: &Directory, name: &str, new_handle: Handle) -> Result<()> {
        let body = request::CrDirent {
            credential: self.credential(),
            name: name.into(),
            new_handle,
            parent: directory.handle,
            dirdata: directory.dirdata,
            fs: self.config.fs_id,
        };
        match self.tell(directory.dirdata, &directory.capability, directory.handle, body).await {
            Err(error) if error.is_already_exists() => match self.entry(directory, name).await {
                Ok(handle) if handle == new_handle => Ok(()),
                _ => Err(error),
            },
            added => added,
        }
    }

    async fn remove_entry(&self, directory: &Directory, name: &str) -> Result<Handle> {
        let body = request::RmDirent { name: name.into(), dirdata: directory.dirdata, fs: self.config.fs_id };
        let server = self.owner(directory.dirdata)?;
        let removed: reply::RmDirent = self.ask(server, &directory.capability, directory.handle, body).await?;
        Ok(removed.handle)
    }

    /// Removes an object that no longer has a name, and its datafiles.
    async fn remove_object(&self, parent: &Directory, handle: Handle, datafiles: &[Handle]) -> Result<()> {
        let (fs, capability) = (self.config.fs_id, &parent.capability);
        if let Some(first) = datafiles.first() {
            let (credential, handles) = (self.credential(), datafiles.to_vec());
            let body = request::TreeRemove { fs, credential, caller_index: 0, handles };
            self.tell(*first, capability, parent.handle, body).await?;
        }
        let body = request::Remove { handle, fs, credential: self.credential() };
        match self.tell(handle, capability, parent.handle, body).await {
            // Repeated after a lost reply.
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        }
    }

    /// Removes a file or link that no longer has a name.
    async fn remove_nameless(&self, parent: &Directory, handle: Handle) -> Result<()> {
        let attr = self.get_attr(handle, FILE_MASK).await?;
        self.remove_object(parent, handle, &datafiles_of(attr)).await
    }

    async fn is_directory(&self, handle: Handle) -> Result<bool> {
        Ok(self.get_attr(handle, mask::COMMON).await?.objtype == ObjType::DIRECTORY)
    }

    /// Makes an existing name refer to `new_handle` and returns the handle it referred to before.
    async fn change_entry(&self, directory: &Directory, name: &str, new_handle: Handle) -> Result<Handle> {
        let (dirdata, fs) = (directory.dirdata, self.config.fs_id);
        let body = request::ChDirent { name: name.into(), new_handle, dirdata, fs };
        let server = self.owner(dirdata)?;
        let changed: reply::ChDirent = self.ask(server, &directory.capability, directory.handle, body).await?;
        Ok(changed.old_handle)
    }

    /// A directory by its handle; ENOTDIR for anything else.
    pub(super) async fn directory(&self, handle: Handle) -> Result<Arc<Directory>> {
        if let Some(known) = self.directories.get(handle) {
            return Ok(known);
        }
        let attr = self.get_attr(handle, mask::COMMON | mask::DISTDIR | mask::CAPABILITY).await?;
        let (Some(distdir), Some(capability)) = (attr.distdir, attr.capability) else {
            return Err(ClientError::refused(Op::GetAttr, Errno::ENOTDIR));
        };
        let in_use: u32 = distdir.bitmap.iter().map(|word| word.count_ones()).sum();
        let (1, Some(dirdata)) = (in_use, distdir.handles.first().copied()) else {
            let server = self.address(self.owner(handle)?).to_owned();
            return Err(ClientError::Protocol {
                server,
                what: "a directory is spread over several servers".to_owned(),
            });
        };
        let directory = Arc::new(Directory { handle, dirdata, capability, fetched: Instant::now() });
        self.directories.put(&directory);
        Ok(directory)
    }

    /// The object that `path` names. Links are not followed.
    pub(super) async fn resolve(&self, path: &str) -> Result<Handle> {
        self.walk(&components(path)?).await
    }

    /// The directory that holds the last component of `path`, and that component.
    pub(super) async fn parent<'a>(&self, path: &'a str) -> Result<(Arc<Directory>, &'a str)> {
        let components = components(path)?;
        let Some((name, parents)) = components.split_last() else {
            return Err(ClientError::Path { path: path.to_owned(), what: "the root directory has no name to change" });
        };
        let parent = self.walk(parents).await?;
        Ok((self.directory(parent).await?, name))
    }

    /// The object that the entry `name` of a directory names.
    pub(super) async fn entry(&self, directory: &Directory, name: &str) -> Result<Handle> {
        let handles = self.lookup(directory, name.to_owned()).await?;
        handles.first().copied().ok_or(ClientError::refused(Op::LookupPath, Errno::ENOENT))
    }

    /// Resolves from the root, as many components at a time as one server knows.
    async fn walk(&self, components: &[&str]) -> Result<Handle> {
        let mut at = Handle(self.config.root_handle);
        let mut rest = components;
        while !rest.is_empty() {
            let directory = self.directory(at).await?;
            let handles = self.lookup(&directory, rest.join("/")).await?;
            at = handles.last().copied().ok_or(ClientError::refused(Op::LookupPath, Errno::ENOENT))?;
            rest = rest.get(handles.len()..).unwrap_or(&[]);
        }
        Ok(at)
    }

    /// The objects along `path` below a directory, as far as this server knows them. A server returns attributes for
    /// its own objects only, so the attributes are not used.
    async fn lookup(&self, directory: &Directory, path: String) -> Result<Vec<Handle>> {
        let (parent, credential) = (directory.handle, self.credential());
        let body =
            request::LookupPath { path: path.into(), fs: self.config.fs_id, parent, mask: mask::COMMON, credential };
        let found: reply::LookupPath = self.ask(self.owner(parent)?, &directory.capability, parent, body).await?;
        Ok(found.handles)
    }

    async fn set_attr(&self, path: &str, attr: Attr) -> Result<()> {
        let handle = self.resolve(path).await?;
        let body = request::SetAttr { handle, fs: self.config.fs_id, attr, credential: self.credential() };
        self.tell(handle, &self.capability(handle).await?, handle, body).await
    }

    async fn capability(&self, handle: Handle) -> Result<Capability> {
        Ok(self.get_attr(handle, mask::COMMON | mask::CAPABILITY).await?.capability.unwrap_or_default())
    }

    pub(super) async fn size(&self, file: &File) -> Result<u64> {
        let layout = file.layout();
        // A stuffed file may have grown or been unstuffed since its layout was fetched.
        let layout = if layout.stuffed { self.refresh(file).await? } else { layout };
        self.size_of(file.metafile(), &layout).await
    }

    async fn size_of(&self, metafile: Handle, layout: &Layout) -> Result<u64> {
        let (false, Some(first)) = (layout.stuffed, layout.datafiles.first()) else { return Ok(layout.stuffed_size) };
        let (fs, credential, handles) = (self.config.fs_id, self.credential(), layout.datafiles.clone());
        let body = request::TreeGetFileSize { fs, caller_index: 0, retry_at_leaf: 0, credential, handles };
        let server = self.owner(*first)?;
        let reply: reply::TreeGetFileSize = self.ask(server, &Capability::default(), metafile, body).await?;
        let stripe = layout.stripe()?;
        let mut end = 0;
        for (number, (size, error)) in (0..).zip(reply.sizes.0) {
            if error != 0 {
                return Err(ClientError::Refused { op: Op::TreeGetFileSize, status: Status(error) });
            }
            let known = u64::try_from(size).ok().and_then(|size| stripe.logical_size(number, size));
            end = end.max(known.ok_or_else(|| self.unexpected(server, Op::TreeGetFileSize))?);
        }
        Ok(end)
    }
}

/// The datafiles of a file; none for other objects.
fn datafiles_of(attr: Attr) -> Vec<Handle> {
    attr.datafiles.map_or_else(Vec::new, |datafiles| datafiles.handles.0)
}

/// The components of an absolute path.
fn components(path: &str) -> Result<Vec<&str>> {
    let bad = |what| Err(ClientError::Path { path: path.to_owned(), what });
    let Some(relative) = path.strip_prefix('/') else { return bad("not absolute") };
    let components: Vec<_> = relative.split('/').filter(|component| !component.is_empty()).collect();
    match components.iter().find(|component| matches!(**component, "." | "..")) {
        Some(_) => bad("`.` and `..` are not resolved"),
        None if path.contains('\0') => bad("contains a NUL"),
        None => Ok(components),
    }
}

/// Both times, with the given values instead of the server's clock. Like the stock client, sends an object type (none).
const TIMES_MASK: u32 = mask::ATIME | mask::ATIME_SET | mask::MTIME | mask::MTIME_SET | mask::TYPE;

/// Space for each name of an extended attribute, and names requested at a time: the most that servers accept.
const XATTR_NAME_MAX: i64 = 256;

const XATTR_COUNT: usize = 16;

/// No object has more of them.
const XATTRS_MAX: usize = 10_000;

/// Owner, group and permissions, with an object type as above.
const OWNER_MASK: u32 = mask::UID | mask::GID | mask::PERMS | mask::TYPE;

const STAT_MASK: u32 = mask::COMMON | mask::DIST | mask::DATAFILES | mask::SYMLINK_TARGET | mask::CAPABILITY;

fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        assert_eq!(components("/a//b/").unwrap(), ["a", "b"]);
        assert!(components("/").unwrap().is_empty());
        for bad in ["", "a", "/a/../b", "/.", "/a\0b"] {
            assert!(matches!(components(bad), Err(ClientError::Path { .. })), "{bad:?}");
        }
    }
}
