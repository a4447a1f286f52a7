//! The embedded server.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, FutureExt};
use nfs3_server::tcp::{NFSTcp, NFSTcpListener};
use nfs3_server::vfs::{
    DirEntryPlus, FileHandleU64, NextResult, NfsFileSystem, NfsReadFileSystem, ReadDirPlusIterator,
};
use nfs3_types::nfs3::{
    Nfs3Option, createverf3, fattr3, filename3, ftype3, nfspath3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime,
    specdata3, stable_how,
};
use nfs3_types::rpc::opaque_auth;
use nfs3_types::xdr_codec::{Opaque, Void};
use nfs3_types::{mount, nfs3};
use tokio::task::JoinSet;
use vpfs_sim::model::device::{DeviceProfile, Io, IoKind};

use super::{Connection, NfsError, Url};
use crate::server::Storage;
use crate::storage::{DeviceClock, DeviceHandle, MemoryStore, StoreError};

const RETRY: Duration = Duration::from_millis(100);

/// A server to start. Start from [`NfsConfig::default`] and change fields.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// Where NFS and the mount protocol listen, both at one port.
    pub listen: SocketAddrV4,
    /// Name of the export.
    pub export: String,
    /// The device that determines how long accesses take.
    pub device: DeviceProfile,
    /// The clock that the device runs on.
    pub clock: DeviceClock,
    /// Bytes that each change of names or attributes writes to the device.
    pub metadata_write_bytes: u64,
    /// Largest number of bytes stored.
    pub capacity_bytes: u64,
}

impl Default for NfsConfig {
    /// A free port on loopback, without a device model.
    fn default() -> Self {
        Self {
            listen: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
            export: "vpfs".to_owned(),
            device: DeviceProfile::None,
            clock: DeviceClock::default(),
            metadata_write_bytes: 4096,
            capacity_bytes: 8 << 30,
        }
    }
}

/// A running server of NFSv3, with its files in memory. Dropping it closes its port; connections end when their clients
/// close them.
#[derive(Debug)]
pub struct NfsServer {
    address: SocketAddr,
    export: String,
    _task: JoinSet<()>,
}

impl NfsServer {
    /// Starts it; when this returns it accepts connections.
    pub fn start(config: NfsConfig) -> BoxFuture<'static, io::Result<Self>> {
        Box::pin(async move {
            let NfsConfig { export, .. } = &config;
            if export.is_empty() || !export.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '/' | '?')) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{export}` cannot name an export")));
            }
            let device = DeviceHandle::start(&config.device, config.clock);
            let store = MemoryStore::new(config.capacity_bytes);
            let files = Files::new(Storage::new(store, device, config.metadata_write_bytes));
            let mut listener = NFSTcpListener::bind(&config.listen.to_string(), files).await?;
            listener.with_export_name(export);
            let address = SocketAddr::new((*config.listen.ip()).into(), listener.get_listen_port());
            let mut task = JoinSet::new();
            task.spawn(serve(Arc::new(listener)).boxed());
            Ok(Self { address, export: format!("/{export}"), _task: task })
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> Url {
        self.url_at(self.address)
    }

    /// The URL for clients of a proxy at this address, of NFS and the mount protocol.
    pub fn url_at(&self, proxy: SocketAddr) -> Url {
        let (port, export) = (proxy.port(), self.export.clone());
        Url { host: proxy.ip().to_string(), port, mount_port: port, export }
    }
}

/// Accepts connections, also after one could not be accepted: for want of file descriptors, or because it was reset at
/// once, at which `nfs3_server` panics.
async fn serve(listener: Arc<NFSTcpListener<Files>>) {
    loop {
        let mut accepting = JoinSet::new();
        let listener = Arc::clone(&listener);
        accepting.spawn(async move { listener.handle_forever().await }.boxed());
        match accepting.join_next().await {
            Some(Ok(Err(error))) => tracing::warn!(%error, "cannot accept"),
            ended => tracing::warn!(?ended, "accepting ended"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

const READ_MAX: u32 = 1 << 20;

type Result<T> = std::result::Result<T, nfsstat3>;

/// Files in memory, on a device. Reading metadata is free, as it would be in memory; changing it writes to a log.
///
/// Everybody may do everything: `nfs3_server` does not say who calls. There are no links and no exclusive creation.
#[derive(Debug)]
pub(super) struct Files {
    storage: Storage,
    tree: Arc<Mutex<Tree>>,
}

impl Files {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, tree: Arc::new(Mutex::new(Tree::new(now()))) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }

    fn attr(&self, id: u64) -> Result<fattr3> {
        let mut attr = self.tree().attr(id)?.clone();
        if attr.type_ == ftype3::NF3REG {
            attr.size = self.storage.store.size(id);
            attr.used = attr.size;
        }
        Ok(attr)
    }

    async fn access(&self, kind: IoKind, object: u64, offset: u64, len: u64) {
        if len > 0 {
            self.storage.device.submit(Io { kind, object, offset, len }).await;
        }
    }

    async fn set(&self, id: u64, new: &sattr3) -> Result<()> {
        self.tree().set(id, new, now())?;
        if let Nfs3Option::Some(size) = new.size {
            self.tree().file(id)?;
            self.storage.store.truncate(id, size).map_err(|error| status(&error))?;
            self.tree().touch(id, now())?;
        }
        self.storage.log_metadata().await;
        Ok(())
    }
}

impl NfsReadFileSystem for Files {
    type Handle = FileHandleU64;

    fn root_dir(&self) -> FileHandleU64 {
        ROOT.into()
    }

    async fn lookup(&self, dir: &FileHandleU64, name: &filename3<'_>) -> Result<FileHandleU64> {
        self.tree().lookup(dir.as_u64(), name.as_ref()).map(FileHandleU64::new)
    }

    async fn getattr(&self, id: &FileHandleU64) -> Result<fattr3> {
        self.attr(id.as_u64())
    }

    async fn read(&self, id: &FileHandleU64, offset: u64, count: u32) -> Result<(Vec<u8>, bool)> {
        let id = id.as_u64();
        self.tree().file(id)?;
        let end = offset.saturating_add(count.min(READ_MAX).into()).min(self.storage.store.size(id));
        self.access(IoKind::Read, id, offset, end.saturating_sub(offset)).await;
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
        let data = self.storage.store.read(id, offset, len);
        let is_end = offset + data.len() as u64 >= self.storage.store.size(id);
        Ok((data.into(), is_end))
    }

    async fn readdirplus(&self, dir: &FileHandleU64, cookie: u64) -> Result<impl ReadDirPlusIterator<FileHandleU64>> {
        self.tree().entry_after(dir.as_u64(), cookie)?;
        Ok(Listing { tree: Arc::clone(&self.tree), dir: dir.as_u64(), cookie })
    }

    async fn readlink(&self, _id: &FileHandleU64) -> Result<nfspath3<'_>> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }
}

impl NfsFileSystem for Files {
    async fn setattr(&self, id: &FileHandleU64, new: sattr3) -> Result<fattr3> {
        self.set(id.as_u64(), &new).await?;
        self.attr(id.as_u64())
    }

    /// Stable in any case, so that a write takes the device's time when it is made.
    async fn write(
        &self,
        id: &FileHandleU64,
        offset: u64,
        data: &[u8],
        _stable: stable_how,
    ) -> Result<(fattr3, stable_how)> {
        let id = id.as_u64();
        self.tree().file(id)?;
        self.access(IoKind::Write, id, offset, data.len() as u64).await;
        self.storage.store.write(id, offset, data).map_err(|error| status(&error))?;
        let touched = self.tree().touch(id, now());
        if touched.is_err() {
            // The file was removed meanwhile, so nothing else will free what was just written.
            self.storage.store.remove(id);
        }
        touched?;
        Ok((self.attr(id)?, stable_how::FILE_SYNC))
    }

    async fn create(
        &self,
        dir: &FileHandleU64,
        name: &filename3<'_>,
        attributes: sattr3,
    ) -> Result<(FileHandleU64, fattr3)> {
        let id = {
            let mut tree = self.tree();
            match tree.lookup(dir.as_u64(), name.as_ref()) {
                Ok(id) => tree.file(id).map(|()| id).map_err(|_| nfsstat3::NFS3ERR_EXIST)?,
                Err(_) => tree.add(dir.as_u64(), name.as_ref(), Kind::File, now())?,
            }
        };
        self.set(id, &attributes).await?;
        Ok((id.into(), self.attr(id)?))
    }

    async fn create_exclusive(
        &self,
        _dir: &FileHandleU64,
        _name: &filename3<'_>,
        _verifier: createverf3,
    ) -> Result<FileHandleU64> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    async fn mkdir(&self, dir: &FileHandleU64, name: &filename3<'_>) -> Result<(FileHandleU64, fattr3)> {
        let id = self.tree().add(dir.as_u64(), name.as_ref(), Kind::Directory, now())?;
        self.storage.log_metadata().await;
        Ok((id.into(), self.attr(id)?))
    }

    async fn remove(&self, dir: &FileHandleU64, name: &filename3<'_>) -> Result<()> {
        let removed = self.tree().remove(dir.as_u64(), name.as_ref(), now())?;
        self.storage.store.remove(removed);
        self.storage.log_metadata().await;
        Ok(())
    }

    async fn rename<'a>(
        &self,
        from: &FileHandleU64,
        old: &filename3<'a>,
        to: &FileHandleU64,
        new: &filename3<'a>,
    ) -> Result<()> {
        let (old, new) = ((from.as_u64(), old.as_ref()), (to.as_u64(), new.as_ref()));
        let replaced = self.tree().rename(old, new, now())?;
        replaced.into_iter().for_each(|replaced| self.storage.store.remove(replaced));
        self.storage.log_metadata().await;
        Ok(())
    }

    async fn symlink<'a>(
        &self,
        _dir: &FileHandleU64,
        _name: &filename3<'a>,
        _target: &nfspath3<'a>,
        _attributes: &sattr3,
    ) -> Result<(FileHandleU64, fattr3)> {
        Err(nfsstat3::NFS3ERR_NOTSUPP)
    }

    async fn commit(&self, id: &FileHandleU64, _offset: u64, _count: u32) -> Result<()> {
        self.tree().file(id.as_u64())
    }
}

/// The entries of a directory behind a cookie.
struct Listing {
    tree: Arc<Mutex<Tree>>,
    dir: u64,
    cookie: u64,
}

impl ReadDirPlusIterator<FileHandleU64> for Listing {
    /// Without attributes: callers ask for those of the entries that interest them.
    async fn next(&mut self) -> NextResult<DirEntryPlus<FileHandleU64>> {
        match lock(&self.tree).entry_after(self.dir, self.cookie) {
            Ok(Some((id, name))) => {
                self.cookie = id;
                let (name, name_handle) = (filename3(Opaque::owned(name.to_vec())), Some(id.into()));
                NextResult::Ok(DirEntryPlus { fileid: id, name, cookie: id, name_attributes: None, name_handle })
            }
            Ok(None) => NextResult::Eof,
            Err(status) => NextResult::Err(status),
        }
    }
}

fn status(error: &StoreError) -> nfsstat3 {
    match error {
        StoreError::Full { .. } => nfsstat3::NFS3ERR_NOSPC,
        StoreError::TooLarge { .. } => nfsstat3::NFS3ERR_FBIG,
    }
}

fn now() -> nfstime3 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    nfstime3 { seconds: u32::try_from(since_1970.as_secs()).unwrap_or(u32::MAX), nseconds: since_1970.subsec_nanos() }
}

fn lock(tree: &Mutex<Tree>) -> MutexGuard<'_, Tree> {
    tree.lock().unwrap_or_else(PoisonError::into_inner)
}

const NAME_MAX: usize = 255;

/// Files and directories, as many as the embedded OrangeFS servers have.
const OBJECTS_MAX: usize = 4_000_000;

pub(super) const ROOT: u64 = 1;

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

    pub(super) fn attr(&self, id: u64) -> Result<&fattr3> {
        self.nodes.get(&id).map(|node| &node.attr).ok_or(nfsstat3::NFS3ERR_STALE)
    }

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

/// Programs and versions, with their names.
const PROGRAMS: [(u32, u32, &str); 3] = [
    (nfs3::PROGRAM, 3, "NFSv3"),
    (nfs3::PROGRAM, 4, "NFSv4"),
    (mount::PROGRAM, mount::VERSION, "the mount protocol of NFSv3"),
];

/// The protocols that the server at `host:port` offers there. It is asked within `wait` for each.
pub fn answers(server: &str, wait: Duration) -> BoxFuture<'_, std::result::Result<Vec<&'static str>, NfsError>> {
    Box::pin(async move {
        let connection = Connection::open(server, None, opaque_auth::default(), wait).await?;
        let mut offered = Vec::new();
        for (program, version, name) in PROGRAMS {
            match connection.call::<Void>((program, version, 0), &Void).await {
                Ok(Void) => offered.push(name),
                Err(NfsError::Protocol { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(offered)
    })
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
