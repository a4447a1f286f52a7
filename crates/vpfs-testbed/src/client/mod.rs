//! A client of OrangeFS-protocol servers: ours and real ones.
//!
//! One connection to each server, shared by all operations of a [`Client`] and its clones; replies may come in any
//! order. Retries, capabilities and the choice between bulk and inline transfers follow the stock client
//! (docs/protocols/orangefs.md), so servers and proxies cannot tell the difference.

mod link;
mod mount;
mod transfer;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use vpfs_protocol::wire::pvfs2::attr::{DirInfo, mask};
use vpfs_protocol::wire::pvfs2::{
    Attr, Capability, IoType, Layout as Placement, ObjType, Op, Padded, Request, Status, reply, request,
};
pub use vpfs_protocol::wire::pvfs2::{Dist, Errno};

use crate::fsconfig::{FsConfig, FsConfigError};
pub(crate) use link::connect;
use mount::{FILE_MASK, Layout, Mount, datafiles_of};
pub use mount::{File, fetch_config};
use transfer::{Direction, Range};

/// The result of a client operation.
pub type Result<T> = std::result::Result<T, ClientError>;

const READDIR_COUNT: u32 = 512;

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

/// A mounted file system. Clones share connections; safe to use from many tasks at once.
///
/// Paths are absolute (`/a/b`), without `.` and `..`; links are not followed. An operation that was repeated because
/// its reply was lost may see the effect of its first attempt: a removal may then report that the name does not exist.
#[derive(Clone, Debug)]
pub struct Client {
    mount: Arc<Mount>,
}

impl Client {
    /// Connects to all servers and checks that their configurations are equal.
    pub fn connect(options: ClientOptions) -> BoxFuture<'static, Result<Self>> {
        Box::pin(async move { Ok(Self { mount: Arc::new(Mount::new(options).await?) }) })
    }

    /// The configuration returned by the servers.
    pub fn fs_config(&self) -> &FsConfig {
        &self.mount.config
    }

    /// The address that each open connection comes from, and that of the server or proxy at its other end.
    pub fn ends(&self) -> impl Iterator<Item = (IpAddr, SocketAddr)> {
        self.mount.ends()
    }

    /// Opens an existing file.
    pub fn open<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<File>> {
        Box::pin(async move {
            let handle = self.mount.resolve(path).await?;
            Ok(File::new(handle, self.mount.fetch_layout(handle).await?))
        })
    }

    /// The file's size in bytes.
    pub fn size<'a>(&'a self, file: &'a File) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move { self.mount.size(file).await })
    }

    /// Writes all of `data` at `offset`, extending the file where needed.
    pub fn write_at<'a>(&'a self, file: &'a File, offset: u64, data: Bytes) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if data.is_empty() {
                return Ok(());
            }
            let range = Range::new(offset, data.len())?;
            let layout = self.mount.layout_up_to(file, offset + data.len() as u64, true).await?;
            let shares = transfer::shares(&self.mount, file, &layout, range, IoType::Write)?;
            transfer::run(shares, &Direction::Write(data)).await.map(drop)
        })
    }

    /// Up to `len` bytes from `offset`; fewer only at the end of the file. Holes read as zeros.
    pub fn read_at<'a>(&'a self, file: &'a File, offset: u64, len: usize) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(async move {
            if len == 0 {
                return Ok(Bytes::new());
            }
            let range = Range::new(offset, len)?;
            let layout = self.mount.layout_up_to(file, offset + len as u64, false).await?;
            let outcomes =
                transfer::run(transfer::shares(&self.mount, file, &layout, range, IoType::Read)?, &Direction::Read)
                    .await?;
            let end = transfer::end_of_data(&self.mount, file, &layout, offset + len as u64, &outcomes).await?;
            let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(len);
            Ok(transfer::assemble(outcomes, len))
        })
    }

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

fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Why an operation failed, after all retries that the protocol allows.
#[derive(Debug, Clone, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ClientError {
    #[error("`{0}` is not tcp://host:port/filesystem")]
    Url(String),
    #[error("path `{path}`: {what}")]
    Path { path: String, what: &'static str },
    #[error("{0}")]
    Argument(&'static str),
    #[error("configuration that {address} returns: {error}")]
    Config { address: String, error: FsConfigError },
    #[error("{error}: write tcp://{address}/{name}")]
    FileSystem { error: FsConfigError, address: String, name: String },
    /// The servers' configurations differ: an address leads to another cluster or bypasses a proxy.
    #[error("{server} returns a different configuration than {first}; all servers must return the same bytes")]
    ConfigsDiffer { first: String, server: String },
    #[error("{op}: {status}")]
    Refused { op: Op, status: Status },
    #[error("connection to {server}: {reason}")]
    Connection { server: String, kind: io::ErrorKind, reason: String },
    #[error("{server} did not answer {op} for {waited:?}")]
    Timeout { server: String, op: Op, waited: Duration },
    /// A server violated the protocol, or used a feature that this client does not support.
    #[error("{server}: {what}")]
    Protocol { server: String, what: String },
}

impl ClientError {
    /// An error that the client itself detected.
    const fn refused(op: Op, errno: Errno) -> Self {
        Self::Refused { op, status: Status::error(errno) }
    }

    /// The server's reason, if a server refused.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { status, .. } => status.errno(),
            _ => None,
        }
    }

    /// Whether a name or object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Some(Errno::ENOENT)
    }

    /// Whether a name exists already.
    pub fn is_already_exists(&self) -> bool {
        self.errno() == Some(Errno::EEXIST)
    }
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// Attributes of a file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The object's handle.
    pub handle: u64,
    /// Its kind.
    pub kind: FileKind,
    /// Size in bytes: of the data, of a link's target; 0 for a directory.
    pub size: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last access, in whole seconds.
    pub accessed: SystemTime,
    /// Last change of the data, in whole seconds.
    pub modified: SystemTime,
    /// Last change of the attributes, in whole seconds.
    pub changed: SystemTime,
    /// Datafiles the file is striped over; 0 for other objects.
    pub datafiles: usize,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name inside the directory.
    pub name: String,
    /// Handle of the object.
    pub handle: u64,
}

/// Space used and available, summed over the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Bytes that may still be written.
    pub bytes_available: u64,
    /// Total bytes.
    pub bytes_total: u64,
    /// Objects that may still be created.
    pub handles_available: u64,
    /// Total objects.
    pub handles_total: u64,
}

/// How a client connects, and its identity. Start from [`ClientOptions::new`] and change fields.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `tcp://host:port/filesystem` of any one server; its configuration names the others.
    pub url: String,
    /// User in every credential.
    pub uid: u32,
    /// Groups in every credential, the primary one first; at most 32.
    pub gids: Vec<u32>,
    /// Host name in every credential (issuer `C:<host name>`).
    pub host_name: String,
    /// Local address to connect from, for example 127.0.0.7 to look like another host. Default: the system's choice.
    pub local_address: Option<IpAddr>,
    /// Attempts after the first one; default: from the servers' configuration (5).
    pub retry_limit: Option<u32>,
    /// Pause before an attempt on a lost connection; default: from the configuration (2 s).
    pub retry_delay: Option<Duration>,
    /// How long to wait for a reply; default: from the configuration (300 s).
    pub reply_timeout: Option<Duration>,
    /// How long a bulk transfer may make no progress; default: from the configuration (300 s).
    pub flow_timeout: Option<Duration>,
    /// Name and value pairs sent with each request, for servers or proxies that use them (hint type 0).
    pub hints: Vec<(String, String)>,
}

impl ClientOptions {
    /// Root on host `vpfs`, with the servers' own time-outs and retries.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            uid: 0,
            gids: vec![0],
            host_name: "vpfs".to_owned(),
            local_address: None,
            retry_limit: None,
            retry_delay: None,
            reply_timeout: None,
            flow_timeout: None,
            hints: Vec::new(),
        }
    }

    fn split_url(&self) -> std::result::Result<(&str, &str), ClientError> {
        let split = self.url.strip_prefix("tcp://").and_then(|rest| rest.split_once('/'));
        let named = split.filter(|(address, name)| address.contains(':') && !name.is_empty() && !name.contains('/'));
        named.ok_or_else(|| ClientError::Url(self.url.clone()))
    }
}

/// The layout of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    distribution: Dist,
    datafiles: Option<u32>,
    servers: Option<Vec<usize>>,
    mode: u32,
}

impl Default for CreateOptions {
    /// Strips of 64 KiB over all servers, mode 0644.
    fn default() -> Self {
        Self::simple_stripe(64 << 10)
    }
}

impl CreateOptions {
    /// Any distribution of the protocol.
    pub fn new(distribution: Dist) -> Self {
        Self { distribution, datafiles: None, servers: None, mode: 0o644 }
    }

    /// Strips of `strip_bytes`, round robin (`simple_stripe`).
    pub fn simple_stripe(strip_bytes: u64) -> Self {
        Self::new(Dist::SimpleStripe { strip_size: signed(strip_bytes) })
    }

    /// The whole file on one server (`basic_dist`).
    pub fn basic() -> Self {
        Self { datafiles: Some(1), ..Self::new(Dist::Basic) }
    }

    /// Strips as listed, for example `0:64K;1:1M`, repeated (`varstrip_dist`).
    pub fn variable_strips(strips: impl Into<String>) -> Self {
        Self::new(Dist::VarStrip { strips: strips.into().into() })
    }

    /// Servers in groups; each group takes `factor` strips per server in turn (`twod_stripe`).
    pub fn two_dimensional(groups: u32, strip_bytes: u64, factor: u32) -> Self {
        Self::new(Dist::TwoDStripe { groups, strip_size: signed(strip_bytes), factor })
    }

    /// The number of datafiles, instead of one for each server.
    #[must_use]
    pub fn datafiles(mut self, count: u32) -> Self {
        self.datafiles = Some(count);
        self
    }

    /// Exactly these servers in this order, by index in the configuration. Also sets the number of datafiles.
    #[must_use]
    pub fn on_servers(mut self, servers: impl Into<Vec<usize>>) -> Self {
        let servers = servers.into();
        self.datafiles = u32::try_from(servers.len()).ok();
        self.servers = Some(servers);
        self
    }

    /// Permission bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }
}

/// A strip size too large for the wire becomes zero, which servers reject.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(0)
}
