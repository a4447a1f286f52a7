//! Attributes, sizes and space.

use std::time::{Duration, SystemTime};

use vpfs_wire::pvfs2::attr::mask;
use vpfs_wire::pvfs2::{Attr, Capability, Errno, Handle, ObjType, Op, Request, Status, reply, request};

use super::file::{File, Layout};
use super::mount::Mount;
use super::{Client, ClientError, FileKind, Result, Stat, StatFs};

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

impl Client {
    /// Attributes and size of the object that `path` names.
    pub async fn stat(&self, path: &str) -> Result<Stat> {
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
    }

    /// Sets the times of last access and last modification of the object that `path` names, in seconds since 1970.
    ///
    /// Fails with EACCES unless this client's user is the owner or user 0. Takes two requests besides the look-up.
    pub async fn set_times(&self, path: &str, atime: u64, mtime: u64) -> Result<()> {
        self.mount.set_attr(path, Attr { atime, mtime, mask: TIMES_MASK, ..Attr::default() }).await
    }

    /// Sets the owner, the group and the permission bits of the object that `path` names.
    ///
    /// Fails with EACCES unless this client's user may do that. Takes two requests besides the look-up.
    pub async fn set_owner(&self, path: &str, owner: u32, group: u32, perms: u32) -> Result<()> {
        self.mount.set_attr(path, Attr { owner, group, perms, mask: OWNER_MASK, ..Attr::default() }).await
    }

    /// The names of the extended attributes of the object that `path` names.
    pub async fn xattr_names(&self, path: &str) -> Result<Vec<Vec<u8>>> {
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
    }

    /// Where a symbolic link points.
    pub async fn readlink(&self, path: &str) -> Result<String> {
        let handle = self.mount.resolve(path).await?;
        let attr = self.mount.get_attr(handle, mask::COMMON | mask::SYMLINK_TARGET).await?;
        let target = attr.target.ok_or(ClientError::refused(Op::GetAttr, Errno::EINVAL))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Sets the size of a file: truncates it, or extends it with a hole.
    pub async fn truncate(&self, file: &File, size: u64) -> Result<()> {
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
    }

    /// Returns when all servers of the file have stored its data and attributes.
    pub async fn fsync(&self, file: &File) -> Result<()> {
        let layout = file.layout();
        for handle in layout.datafiles.iter().copied().chain([file.metafile()]) {
            let body = request::Flush { handle, fs: self.mount.config.fs_id, flags: 0 };
            self.mount.tell(handle, &Capability::default(), file.metafile(), body).await?;
        }
        Ok(())
    }

    /// Space and objects, summed over all servers.
    pub async fn statfs(&self) -> Result<StatFs> {
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
    }
}

impl Mount {
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

fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}
