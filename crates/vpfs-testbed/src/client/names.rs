//! Creating, removing, renaming and listing names.

use vpfs_wire::pvfs2::attr::{Datafiles, DirInfo, Mirrors, mask};
use vpfs_wire::pvfs2::{Attr, Errno, Handle, HandleRanges, Layout as Placement, ObjType, Op, Padded, reply, request};

use super::directory_cache::Directory;
use super::file::{FILE_MASK, File, Layout};
use super::mount::Mount;
use super::{Client, ClientError, CreateOptions, DirEntry, Result};

/// Entries requested at a time.
const READDIR_COUNT: u32 = 512;

impl Client {
    /// Creates a file; fails if the name exists.
    pub async fn create(&self, path: &str, options: &CreateOptions) -> Result<File> {
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
    }

    /// Creates a directory with permission bits `mode`.
    pub async fn mkdir(&self, path: &str, mode: u32) -> Result<()> {
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
    }

    /// Creates a symbolic link that points at `target`.
    pub async fn symlink(&self, target: &str, path: &str) -> Result<()> {
        let (directory, name) = self.mount.parent(path).await?;
        let (server, fs) = (self.mount.pick_metadata_server(), self.mount.config.fs_id);
        let body = request::BatchCreate {
            fs,
            objtype: ObjType::SYMLINK,
            count: 1,
            extents: self.mount.metadata_handles(server),
        };
        let made: reply::BatchCreate = self.mount.ask(server, &directory.capability, directory.handle, body).await?;
        let [handle] = made.handles[..] else { return Err(self.mount.unexpected(server, Op::BatchCreate)) };
        // Not the directory's capability: servers require one for the link itself.
        let capability =
            self.mount.get_attr(handle, mask::COMMON | mask::CAPABILITY).await?.capability.unwrap_or_default();
        let attr = Attr { target: Some(target.into()), ..self.mount.new_attr(ObjType::SYMLINK, 0o777) };
        let body = request::SetAttr { handle, fs, attr, credential: self.mount.credential() };
        self.mount.tell(handle, &capability, handle, body).await?;
        self.mount.name_or_remove(&directory, name, handle).await
    }

    /// Removes a file or link.
    pub async fn remove(&self, path: &str) -> Result<()> {
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
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, path: &str) -> Result<()> {
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
    }

    /// Renames; an existing file under the new name is replaced and removed.
    pub async fn rename(&self, old: &str, new: &str) -> Result<()> {
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
    }

    /// Renames a file; fails if the new name exists. A rename that was interrupted after it had added the new name can
    /// be repeated.
    pub async fn rename_new(&self, old: &str, new: &str) -> Result<()> {
        let (old_parent, old_name) = self.mount.parent(old).await?;
        let moved = self.mount.entry(&old_parent, old_name).await?;
        let (new_parent, new_name) = self.mount.parent(new).await?;
        if (old_parent.handle, old_name) == (new_parent.handle, new_name) {
            return Ok(());
        }
        self.mount.add_entry(&new_parent, new_name, moved).await?;
        self.mount.remove_entry(&old_parent, old_name).await.map(|_| ())
    }

    /// All entries of a directory, in the server's order.
    pub async fn readdir(&self, path: &str) -> Result<Vec<DirEntry>> {
        let handle = self.mount.resolve(path).await?;
        let directory = self.mount.directory(handle).await?;
        let server = self.mount.owner(directory.dirdata)?;
        let (mut token, mut entries) = (request::TOKEN_START, Vec::new());
        while token != request::TOKEN_END {
            let (dirdata, fs) = (directory.dirdata, self.mount.config.fs_id);
            let body = request::ReadDir { dirdata, fs, count: READDIR_COUNT, token };
            let page: reply::ReadDir = self.mount.ask(server, &directory.capability, directory.handle, body).await?;
            if page.entries.is_empty() && page.token == token {
                return Err(self.mount.unexpected(server, Op::ReadDir));
            }
            token = page.token;
            let named = page.entries.into_iter();
            entries.extend(
                named.map(|(name, handle)| DirEntry { name: name.to_string_lossy().into_owned(), handle: handle.0 }),
            );
        }
        Ok(entries)
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
}

/// The datafiles of a file; none for other objects.
fn datafiles_of(attr: Attr) -> Vec<Handle> {
    attr.datafiles.map_or_else(Vec::new, |datafiles| datafiles.handles.0)
}
